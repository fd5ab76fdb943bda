"""Many kernels, tuning and PyTorch operations on the GPU; memcheck over kernels of every kind."""

import os
import shutil
import subprocess
import sys
import uuid

import pytest

from runtime import cache
from runtime.many import compile_many
from runtime.tuning import tune
from tests.runtime.kernels import k
from tests.runtime.test_many import scaled


def test_many_kernels_run(torch):
    kernels = [scaled.specialize(BLOCK=block, FACTOR=3.5) for block in (32, 64, 128, 256)]
    a = torch.rand(1000, device="cuda")
    for executable in compile_many(kernels):
        b = torch.zeros(1000, device="cuda")
        executable(a, b)
        assert torch.equal(b, a * 3.5)


def test_tuning(torch, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    a, b = torch.rand(2**22, device="cuda"), torch.full((2**22,), 7.0, device="cuda")
    found = tune(scaled, {"BLOCK": [32, 256, 1024, 4096], "FACTOR": [2.0]}, (a, b))
    assert found.constants["BLOCK"] in (32, 256, 1024) and found.trials[-1].seconds is None
    assert 1e-6 < found.seconds < 1e-3, str(found)
    assert bool((b == 7).all()), "the kernels got copies"
    assert [e.head["name"] for e in cache.entries() if e.head["kind"] == "tuning"] == ["scaled"]
    assert tune(scaled, {"BLOCK": [32, 256, 1024, 4096], "FACTOR": [2.0]}, (a, b)) == found


def test_an_operation_of_pytorch(torch):
    operation = k.as_torch_op(f"kernelwright_{uuid.uuid4().hex[:12]}::k", outputs="B")
    a = torch.rand(500, 8, device="cuda")
    assert torch.equal(operation(a, 2.5), a * 2.5)
    torch.library.opcheck(operation, (a, 2.5))


def test_torch_compile(torch):
    pytest.importorskip("triton")
    operation = k.as_torch_op(f"kernelwright_{uuid.uuid4().hex[:12]}::k", outputs="B")
    compiled = torch.compile(lambda a: operation(a + 1.0, 2.0) * 3.0, fullgraph=True)
    for n in (500, 500, 600):
        a = torch.rand(n, 8, device="cuda")
        assert torch.allclose(compiled(a), (a + 1) * 6)


CHECKED = ("tests/gpu/test_kernels.py", "tests/gpu/test_buffers.py", "tests/gpu/test_arrays.py", "tests/gpu/test_short.py")


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not on PATH")
def test_memcheck():
    """No access out of bounds, none misaligned, in kernels of every kind; PyTorch gives each tensor memory of its own."""
    pytest.importorskip("torch")
    told = subprocess.run(
        ["compute-sanitizer", "--tool", "memcheck", "--target-processes", "all", "--report-api-errors", "no", "--error-exitcode", "9",
         sys.executable, "-m", "pytest", "-q", "-x", *CHECKED, "-k", "not seed and not examples"],
        capture_output=True, text=True, timeout=1200, env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-2000:]
    assert "ERROR SUMMARY: 0 errors" in told.stdout + told.stderr
