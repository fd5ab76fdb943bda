"""C = A @ B: tiles in shared memory, a small square of the result in each thread's registers, sizes fixed by `specialize`.

Run with `python -m examples.matmul`.
"""

from __future__ import annotations

import numpy as np

from examples.common import run, show
from tracer import T, trace


@trace
def matmul(A: T.Buffer((M, K), "float32"), B: T.Buffer((K, N), "float32"), C: T.Buffer((M, N), "float32"), *,  # noqa: F821
           M: T.constexpr, N: T.constexpr, K: T.constexpr, TILE: T.constexpr = 32, STEP: T.constexpr = 16, PER: T.constexpr = 2):
    T.device_entry()
    side = TILE // PER                                  # a block of side x side threads
    bx, by = T.cta_id([N // TILE, M // TILE])
    tx, ty = T.thread_id([side, side])
    a_tile = T.alloc_shared((TILE, STEP), "float32")
    b_tile = T.alloc_shared((STEP, TILE), "float32")
    acc = T.alloc_local((PER, PER), "float32")
    for u in range(PER):
        for v in range(PER):
            acc[u, v] = 0.0
    thread = ty * side + tx
    for k0 in T.serial(0, K, STEP):
        for e in T.unroll(TILE * STEP // side**2):      # each thread copies its share of both tiles
            at = thread + e * side**2
            a_tile[at // STEP, at % STEP] = A[by * TILE + at // STEP, k0 + at % STEP]
            b_tile[at // TILE, at % TILE] = B[k0 + at // TILE, bx * TILE + at % TILE]
        T.cuda.cta_sync()
        for k in T.unroll(STEP):
            for u in range(PER):
                for v in range(PER):
                    acc[u, v] += a_tile[ty + u * side, k] * b_tile[k, tx + v * side]
        T.cuda.cta_sync()
    for u in range(PER):
        for v in range(PER):
            C[by * TILE + ty + u * side, bx * TILE + tx + v * side] = acc[u, v]


def main() -> None:
    kernel = matmul.specialize(M=128, N=96, K=64)
    show("what each access comes to", "\n".join(f"{a}   in bounds: {a.in_bounds}" for a in kernel.accesses()))
    show("CUDA", kernel.cuda_source())
    show("results", "")
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((128, 64), dtype=np.float32), rng.standard_normal((64, 96), dtype=np.float32)
    run(kernel, [a, b], np.empty((128, 96), np.float32), a.astype(np.float64) @ b, tolerance=1e-4)


if __name__ == "__main__":
    main()
