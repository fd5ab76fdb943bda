"""B = A.T through a shared tile whose rows are padded by one element, so that reading columns meets no bank twice.

Run with `python -m examples.transpose`.
"""

import numpy as np

from examples.common import run, show
from tracer import T, trace

TILE, ROWS = 32, 8          # a block of 32 x 8 threads moves a 32 x 32 tile in four steps


def transpose(A_ptr: T.handle, B_ptr: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(A_ptr, (n, m), "float32")
    B = T.match_buffer(B_ptr, (m, n), "float32")
    T.device_entry()
    bx, by = T.cta_id([T.ceildiv(m, TILE), T.ceildiv(n, TILE)])
    tx, ty = T.thread_id([TILE, ROWS])
    tile = T.alloc_shared((TILE, TILE + 1), "float32")
    for k in range(0, TILE, ROWS):                      # a Python loop: four copies of the body
        row = by * TILE + ty + k
        col = bx * TILE + tx
        with T.If((row < n) & (col < m)):
            tile[ty + k, tx] = A[row, col]
    T.cuda.cta_sync()
    for k in range(0, TILE, ROWS):
        row = bx * TILE + ty + k
        col = by * TILE + tx
        with T.If((row < m) & (col < n)):
            B[row, col] = tile[tx, ty + k]


def main() -> None:
    kernel = trace(transpose)
    show("what each access comes to", "\n".join(f"{a}   in bounds: {a.in_bounds}" for a in kernel.accesses()))
    show("CUDA", kernel.cuda_source())
    show("results", "")
    rng = np.random.default_rng(2)
    for shape in ((32, 32), (100, 37), (513, 1024)):
        a = rng.standard_normal(shape, dtype=np.float32)
        print(f"shape = {shape}")
        run(kernel, [a], np.empty(shape[::-1], np.float32), a.T)


if __name__ == "__main__":
    main()
