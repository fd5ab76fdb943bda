"""The tour: one kernel from the plain Python function to its checked result. `make demo` runs it."""

import time

import numpy as np

from examples.common import run, show
from tracer import T, trace
from tracer.errors import CompilerNotFoundError


def scale(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n, 8), "float32")
    B = T.match_buffer(B_ptr, (n, 8), "float32")
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n * 8, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    row, col = i // 8, i % 8
    with T.If(row < n):
        B[row, col] = A[row, col] * s


def main() -> None:
    kernel = trace(scale)
    show("the function as recorded: this text traces back to the same kernel", kernel.script())
    show("its accesses, indices simplified", "\n".join(f"{a}   in bounds: {a.in_bounds}" for a in kernel.accesses()))
    show("the launch", f"grid {kernel.launch.grid}, block {kernel.launch.block}")
    show("the host half", kernel.split().host)
    show("the device half", kernel.split().device)
    show("the host half as it runs", kernel.host_source())
    show("the device half as CUDA", kernel.cuda_source())
    show("its machine code for a Hopper GPU", machine_code(kernel))
    show("the result on random data", "")
    a = np.random.default_rng(0).standard_normal((1000, 8), dtype=np.float32)
    run(kernel, [a], a, a * np.float32(3), (3.0,))
    show("what the simulator saw", kernel.simulate(a, np.empty_like(a), 3.0))
    show("a mistake, caught before anything runs", mistake(kernel, a))


def machine_code(kernel) -> str:
    """What the compiler made of it, and how long that took: a second process has it from the cache."""
    begin = time.perf_counter()
    try:
        executable = kernel.compile("sm_90a")
    except CompilerNotFoundError as absent:
        return str(absent)
    return f"{executable!r}\nin {(time.perf_counter() - begin) * 1e3:.1f} ms; from the cache the next time"


def mistake(kernel, a: np.ndarray) -> str:
    """What a caller with arrays of different lengths is told."""
    try:
        kernel(a, a[:-1].copy(), 3.0)
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("the mismatch was not noticed")


if __name__ == "__main__":
    main()
