"""Softmax of each row: one block a row, warps reduce by shuffles, and shared memory joins the warps.

Run with `python -m examples.softmax`.
"""

import numpy as np

from examples.common import run, show
from tracer import T, trace

WARPS = 4
THREADS = 32 * WARPS


def warp_reduce(combine, value):
    """Combine `value` over the 32 lanes; every lane gets the result. A plain Python helper: it inlines itself."""
    for distance in (16, 8, 4, 2, 1):
        value = combine(value, T.cuda.shfl_xor_sync(0xFFFFFFFF, value, distance))
    return value


def block_reduce(combine, value, partial, warp, lane):
    """Combine `value` over the block; every thread gets the result."""
    value = warp_reduce(combine, value)
    T.cuda.cta_sync()                                   # whoever still reads the last result is done
    with T.If(lane == 0):
        partial[warp] = value
    T.cuda.cta_sync()
    total = partial[0]
    for w in range(1, WARPS):
        total = combine(total, partial[w])
    return total


def softmax(X_ptr: T.handle, Y_ptr: T.handle):
    rows, cols = T.int32(), T.int32()
    X = T.match_buffer(X_ptr, (rows, cols), "float32")
    Y = T.match_buffer(Y_ptr, (rows, cols), "float32")
    T.device_entry()
    row = T.cta_id([rows])
    tx = T.thread_id([THREADS])
    warp = T.warp_id([WARPS])
    lane = T.lane_id([32])
    partial = T.alloc_shared((WARPS,), "float32")

    biggest = T.local_scalar("float32", float("-inf"))
    for j in T.serial(tx, cols, THREADS):
        biggest.assign(T.max(biggest, X[row, j]))
    top = block_reduce(T.max, +biggest, partial, warp, lane)

    sum_ = T.local_scalar("float32", 0.0)
    for j in T.serial(tx, cols, THREADS):
        sum_ += T.exp(X[row, j] - top)
    total = block_reduce(lambda a, b: a + b, +sum_, partial, warp, lane)

    for j in T.serial(tx, cols, THREADS):
        Y[row, j] = T.exp(X[row, j] - top) / total


def main() -> None:
    kernel = trace(softmax)
    show("what each access comes to", "\n".join(f"{a}   in bounds: {a.in_bounds}" for a in kernel.accesses()))
    show("CUDA", kernel.cuda_source())
    show("results", "")
    rng = np.random.default_rng(3)
    for shape in ((1, 1), (64, 1000), (300, 129)):
        x = rng.standard_normal(shape, dtype=np.float32) * 4
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        print(f"shape = {shape}")
        run(kernel, [x], np.empty_like(x), e / e.sum(1, keepdims=True), tolerance=1e-5)


if __name__ == "__main__":
    main()
