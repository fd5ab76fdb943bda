"""Whole processes: contexts shared in either import order, clean exits, fork and spawn."""

import os
import subprocess
import sys

import pytest

KERNEL = """
import sys, numpy as np
from tests.runtime.kernels import scale
from runtime.device import device
"""

WITH_TORCH = """
a = torch.arange(1000, device="cuda", dtype=torch.float32); b = torch.zeros(1000, device="cuda")
scale(a, b, 2.0)
assert torch.equal(b, a * 2.0)
"""

WITH_CUPY = """
c = cupy.arange(1000, dtype="float32"); d = cupy.zeros(1000, "float32")
scale(c, d, 2.0)
assert bool((d == c * 2).all())
"""

WITH_PYCUDA = """
import pycuda.gpuarray as gpuarray
with device(0).current():
    e, f = gpuarray.to_gpu(np.arange(1000, dtype="float32")), gpuarray.to_gpu(np.zeros(1000, "float32"))
scale(e, f, 2.0)
with device(0).current():
    assert np.array_equal(f.get(), np.arange(1000, dtype="float32") * 2)
"""

# The context of this house is the one that the CUDA runtime has current.
SAME_CONTEXT = """
from cuda.bindings import driver as bindings
status, current = bindings.cuCtxGetCurrent()
assert int(current) == device(0).context_handle, (int(current), device(0).context_handle)
"""

PROGRAMS = {
    "torch first": "import torch; torch.zeros(1, device='cuda')" + KERNEL + WITH_TORCH + SAME_CONTEXT,
    "torch last": KERNEL + WITH_PYCUDA + "import torch" + WITH_TORCH + SAME_CONTEXT + WITH_PYCUDA,
    "cupy first": "import cupy; cupy.zeros(1)" + KERNEL + WITH_CUPY + SAME_CONTEXT,
    "cupy last": KERNEL + WITH_PYCUDA + "import cupy" + WITH_CUPY + SAME_CONTEXT,
    "all of them": KERNEL + "import torch, cupy" + WITH_TORCH + WITH_CUPY + WITH_PYCUDA + WITH_TORCH,
    "PyCUDA's own primary context": "import pycuda.autoprimaryctx" + KERNEL + WITH_PYCUDA,
    "from a thread": KERNEL + "import torch, threading\ndef work():" + WITH_TORCH.replace("\n", "\n    ") + """
thread = threading.Thread(target=work); thread.start(); thread.join()
""",
    "sys.exit": KERNEL + WITH_PYCUDA + "sys.exit(0)",
    "without PyTorch": "import sys; sys.modules['torch'] = None\nimport cupy" + KERNEL + WITH_CUPY + WITH_CUPY + WITH_PYCUDA,
    "nothing launched": KERNEL + "device(0)",
}


def run(program, **more):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, **more)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_shares_its_context_and_exits_cleanly(name):
    for module in ("torch", "cupy"):
        if f"import {module}" in PROGRAMS[name] or f", {module}" in PROGRAMS[name]:
            pytest.importorskip(module)
    told = run(PROGRAMS[name])
    assert told.returncode == 0, told.stderr
    assert "Traceback" not in told.stderr and "PyCUDA ERROR" not in told.stderr
    if "autoprimaryctx" not in PROGRAMS[name]:       # which detaches the context as if it were not the primary one
        assert "PyCUDA" not in told.stderr


def test_a_process_that_ends_in_an_error_ends_in_that_error():
    told = run(KERNEL + WITH_PYCUDA + "raise RuntimeError('the program itself')")
    assert told.returncode == 1
    assert told.stderr.rstrip().endswith("RuntimeError: the program itself") and "PyCUDA" not in told.stderr


def test_memory_of_another_context_is_refused():
    told = run("import pycuda.autoinit, pycuda.gpuarray as gpuarray" + KERNEL + """
from tracer.errors import LaunchError
e, f = gpuarray.to_gpu(np.arange(1000, dtype="float32")), gpuarray.to_gpu(np.zeros(1000, "float32"))
try:
    scale(e, f, 2.0)
except LaunchError as refusal:
    assert "belongs to a CUDA context of its own" in str(refusal), refusal
    print("refused")
""")
    assert told.stdout == "refused\n", told.stderr


def test_a_fork_after_the_first_use_is_told_so_and_spawn_works(tmp_path):
    script = tmp_path / "workers.py"
    script.write_text("""
import multiprocessing, sys
import numpy as np
from tests.runtime.kernels import scale
from tracer.errors import LaunchError

def work(_):
    import torch
    a = np.arange(10, dtype="float32"); b = np.zeros(10, "float32")
    scale(a, b, 2.0)                                    # the simulator works anywhere
    assert np.array_equal(b, a * 2)
    from runtime.device import device
    try:
        device(0)
    except LaunchError as refusal:
        return str(refusal).partition(",")[0]
    x = torch.ones(10, device="cuda"); y = torch.zeros(10, device="cuda")
    scale(x, y, 2.0)
    return float(y.sum())

if __name__ == "__main__":
    from runtime.device import device
    with multiprocessing.get_context("fork").Pool(1) as pool:      # before the first use: works
        print(pool.map(work, [0]))
    device(0)
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(work, [0]))
""")
    pytest.importorskip("torch")
    told = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    assert told.stdout.splitlines() == [
        "[20.0]", "['this process was forked from one that had initialised CUDA']", "[20.0]"], told.stderr
