"""What it costs to enqueue a kernel of two arrays and a scalar from PyTorch tensors: `python -m benchmarks.launch` on a GPU.

Ours, every check on, beside `cuLaunchKernel` called in a C loop (the floor), cuda.core, PyCUDA's prepared call, CuPy's RawKernel,
Triton and `torch.mul`; those that are not installed are left out. All launch the same work on PyTorch's current stream. Rounds go
through all of them in turn, each a batch short enough for the launch queue; the figure is the median over rounds, in microseconds.
"""

from __future__ import annotations

import ctypes
import importlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from codegen.host import LaunchShape
from tracer import T, trace

N, BATCH, ROUNDS = 1024, 300, 101
LIMIT = 1.4      # what ours may cost beside the floor

# The floor: the driver's launch in a loop of C, found in the library that is loaded anyhow.
FLOOR = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
typedef int (*launch_t)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
double launches(void *function, unsigned grid, unsigned block, void *stream, void **parameters, int count) {
    static launch_t launch;
    if (!launch) launch = (launch_t)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < count; ++i)
        if (launch(function, grid, 1, 1, block, 1, 1, 0, stream, parameters, 0)) return -1.0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) * 1e-9;
}
"""


@trace
def scale(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), s: T.float32):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    with T.If(i < n):
        B[i] = A[i] * s


Batch = Callable[[int], float]      # enqueues so many launches, and says how many seconds that took


def loop(call: Callable[..., Any], *args: Any) -> Batch:
    """Calls from Python, one after the other."""
    def batch(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            call(*args)
        return time.perf_counter() - begin
    return batch


def compile_floor(folder: str) -> Any:
    """The C loop as a function. Raises `RuntimeError` without a C compiler."""
    source, library = Path(folder, "floor.c"), Path(folder, "floor.so")
    source.write_text(FLOOR)
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "nvcc"))), None)
    if compiler is None:
        raise RuntimeError("no C compiler")
    pic = ["-Xcompiler", "-fPIC"] if compiler.endswith("nvcc") else ["-fPIC"]
    subprocess.run([compiler, "-O2", "-shared", *pic, "-o", str(library), str(source), "-ldl"], check=True)
    launches = ctypes.CDLL(str(library)).launches
    launches.restype = ctypes.c_double
    launches.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    return launches


def floor(loaded: Any, a: Any, b: Any, folder: str) -> Batch:
    from runtime.parameters import Packing
    from tracer.dtypes import dtype
    parameters = Packing([None, None, dtype("int32"), dtype("float32")]).filled([a.data_ptr(), b.data_ptr(), N, 2.5])
    launches = compile_floor(folder)

    def batch(count: int) -> float:
        taken: float = launches(int(loaded.function), -(-N // 256), 256, 0, parameters.pointers, count)
        assert taken > 0, "the driver refused the launch"
        return taken
    return batch


def variants(folder: str) -> Iterator[tuple[str, Callable[[], Batch]]]:
    """Name, and how to make ready, for each of the ways."""
    import torch

    from runtime.device import device
    a, b = torch.rand(N, device="cuda"), torch.zeros(N, device="cuda")
    c, d = torch.rand(2 * N, device="cuda"), torch.zeros(2 * N, device="cuda")
    executable = scale.compile()
    loaded = device(0).load(executable.cubin, executable.entry)

    def ours() -> Batch:
        scale(a, b, 2.5)
        torch.cuda.synchronize()
        assert torch.equal(b, a * 2.5) and scale.again(a, b, 2.5), "the short way does not take this call"
        return loop(scale, a, b, 2.5)

    def alternately() -> Batch:
        scale(c, d, 2.5)

        def both() -> None:
            scale(a, b, 2.5)
            scale(c, d, 2.5)
        return lambda count: loop(both)(count // 2)

    def interface() -> Batch:
        cupy = importlib.import_module("cupy")
        x, y = cupy.asarray(a), cupy.asarray(b)
        return loop(scale, x, y, 2.5)

    def cuda_core() -> Batch:
        try:
            core = importlib.import_module("cuda.core")
            kind = core.ObjectCode
        except (ImportError, AttributeError):
            core = importlib.import_module("cuda.core.experimental")
            kind = core.ObjectCode
        import numpy as np
        place = core.Device(0)
        place.set_current()
        kernel = kind.from_cubin(executable.cubin).get_kernel(executable.entry)
        config = core.LaunchConfig(grid=-(-N // 256), block=256)
        n, s = np.int32(N), np.float32(2.5)
        return loop(core.launch, place.default_stream, config, kernel, a.data_ptr(), b.data_ptr(), n, s)

    def pycuda() -> Batch:
        driver = importlib.import_module("pycuda.driver")
        device(0)._context.push()
        try:
            function = driver.module_from_buffer(executable.cubin).get_function(executable.entry)
        finally:
            device(0)._context.pop()
        function.prepare("PPif")
        grid, block = (-(-N // 256), 1), (256, 1, 1)

        def batch(count: int) -> float:
            with device(0).current():
                begin = time.perf_counter()
                for _ in range(count):
                    function.prepared_call(grid, block, a.data_ptr(), b.data_ptr(), N, 2.5)
                return time.perf_counter() - begin
        return batch

    def cupy() -> Batch:
        library = importlib.import_module("cupy")
        kernel = library.RawKernel(executable.source, executable.entry)
        x, y, s = library.asarray(a), library.asarray(b), library.float32(2.5)
        n = library.int32(N)
        return loop(kernel, (-(-N // 256),), (256,), (x, y, n, s))

    def triton() -> Batch:
        kernel = importlib.import_module("benchmarks.triton_scale").scale
        return loop(kernel[(-(-N // 256),)], a, b, N, 2.5, 256)

    yield "cuLaunchKernel in a C loop", lambda: floor(loaded, a, b, folder)
    yield "ours, all checks on", ours
    yield "ours, two shapes in turn", alternately
    yield "ours, CuPy arrays", interface
    yield "cuda.core launch (unchecked)", cuda_core
    yield "PyCUDA prepared_call", pycuda
    yield "CuPy RawKernel", cupy
    yield "torch.mul(a, s, out=b)", lambda: loop(lambda: torch.mul(a, 2.5, out=b))
    yield "Triton", triton


def parts() -> Iterator[tuple[str, Callable[[], Any]]]:
    """What the short way is made of."""
    import torch

    from runtime.device import device
    from runtime.driver import bindings
    from runtime.forms import comparison
    from runtime.launcher import call
    from runtime.loaded import Traits, configuration
    from runtime.parameters import Packing
    from tracer.dtypes import dtype
    a, b = torch.rand(N, device="cuda"), torch.zeros(N, device="cuda")
    scale(a, b, 2.5)
    same = comparison((a, b))
    packing = Packing([None, None, dtype("int32"), dtype("float32")])
    parameters = packing.filled([a.data_ptr(), b.data_ptr(), N, 2.5])
    config = configuration(LaunchShape((-(-N // 256), 1, 1), (256, 1, 1)), Traits(), 0)
    executable = scale.compile()
    function = device(0).load(executable.cubin, executable.entry).function
    enqueue, current = bindings().cuLaunchKernelEx, torch._C._cuda_getCurrentRawStream
    yield "an empty call", lambda: None
    yield "the form of a and b", lambda: same(a, b)
    yield "a.data_ptr()", lambda: a.data_ptr()
    yield "a.shape", lambda: a.shape
    yield "a.stride()", lambda: a.stride()
    yield "the current stream", lambda: current(0)
    yield "packing", lambda: packing.pack(parameters.memory, 0, a.data_ptr(), b.data_ptr(), N, 2.5)
    yield "cuLaunchKernelEx, prepacked", lambda: enqueue(config, function, parameters.pointers, 0)
    yield "scale.again(a, b, 2.5)", lambda: scale.again(a, b, 2.5)
    yield "an executable", lambda: executable(a, b, 2.5)
    yield "a stream that is named", lambda: scale(a, b, 2.5, stream=0)
    yield "the long way", lambda: call(scale, (a, b, 2.5))
    yield "scale(a, b, 2.5)", lambda: scale(a, b, 2.5)


def measure(batches: dict[str, Batch], synchronize: Callable[[], None], rounds: int = ROUNDS) -> dict[str, float]:
    """Median microseconds a launch."""
    seen: dict[str, list[float]] = {name: [] for name in batches}
    for turn in range(rounds + 3):
        for name, batch in batches.items():
            taken = batch(BATCH)
            synchronize()
            if turn >= 3:       # the first rounds warm up
                seen[name].append(taken / BATCH * 1e6)
    return {name: statistics.median(values) for name, values in seen.items()}


def table(figures: dict[str, float], against: str | None = None) -> str:
    """Lines of name, microseconds, and the ratio to one of them."""
    width = max(map(len, figures))
    return "\n".join(f"{name:{width}} {value:8.2f} us" + (f"  x {value / figures[against]:.2f}" if against else "")
                     for name, value in figures.items())


def main() -> int:
    """Measure and print; 1 where ours costs more than `LIMIT` times the floor."""
    import torch
    with tempfile.TemporaryDirectory() as folder:
        batches = {}
        for name, make in variants(folder):
            try:
                batches[name] = make()
            except Exception as problem:        # another library may be absent, or of another version
                print(f"{name}: left out ({type(problem).__name__}: {problem})", file=sys.stderr)
        first = next(iter(batches))
        figures = measure(batches, torch.cuda.synchronize)
        print(f"the short way is {'compiled' if type(scale.again).__name__ == 'Short' else 'Python'}")
        print(f"{torch.cuda.get_device_name()}, Python {sys.version.split()[0]}, PyTorch {torch.__version__}, median of {ROUNDS} rounds "
              f"of {BATCH} launches")
        print(table(figures, first))
        print("\nparts (each by itself, an empty call included)")
        print(table(measure({name: loop(call) for name, call in parts()}, torch.cuda.synchronize, 21)))
    ratio = figures["ours, all checks on"] / figures[first]
    print(f"\nours is {ratio:.2f} x the floor; {LIMIT} is asked for")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
