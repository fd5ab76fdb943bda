"""C = A @ B.T in float16 on Ampere (sm_80): tiles by cp.async, fragments by ldmatrix, products by mma.sync.

A is (M, K) and B is (N, K), so both run along K; C is (M, N). A block of four warps computes a tile of BM x BN, each warp a quarter of it.
STAGES tiles of A and B are in shared memory: one is multiplied while the others come.

Run with `python -m examples.ampere_gemm`.
"""

from __future__ import annotations

import numpy as np

from examples.common import run, show
from symbolic.layout import mma_shared_layout
from tracer import T, trace

THREADS = 128
CHUNK = 8           # float16 in the 16 bytes that a thread copies at once


@trace
def gemm(A: T.Buffer((M, K), "float16"), B: T.Buffer((N, K), "float16"), C: T.Buffer((M, N), "float16"), *,  # noqa: F821
         M: T.constexpr, N: T.constexpr, K: T.constexpr, BM: T.constexpr = 128, BN: T.constexpr = 128, STAGES: T.constexpr = 3):
    BK, WM, WN = 64, BM // 2, BN // 2                   # 64 float16 are a row of the 128-byte swizzle; a warp's part
    assert M % BM == N % BN == K % BK == 0, "whole tiles"
    T.device_entry()
    bx, by = T.cta_id([N // BN, M // BM])
    tx = T.thread_id([THREADS])
    warp, lane = tx // 32, tx % 32
    m0, n0 = by * BM, bx * BN
    row, col = warp // 2 * WM, warp % 2 * WN            # of the warp's part in the tile

    pool = T.SMEMPool()
    a, b = (pool.alloc((STAGES, rows, BK), "float16", layout=mma_shared_layout("float16", "128B", (STAGES, rows, BK)), align=1024)
            for rows in (BM, BN))
    pool.commit()

    def load(k, s):
        """Begin to copy step `k`'s tiles into stage `s`."""
        for tile, source, first in ((a, A, m0), (b, B, n0)):
            for i in range(tile.shape[1] * BK // CHUNK // THREADS):
                at = tx + i * THREADS
                T.ptx["cp.async.cg.shared.global"](tile.ptr_to([s, at // (BK // CHUNK), at % (BK // CHUNK) * CHUNK]),
                                                   source.ptr_to([first + at // (BK // CHUNK), k * BK + at % (BK // CHUNK) * CHUNK]), 16)

    steps = K // BK
    for s in range(STAGES - 1):
        if s < steps:
            load(s, s)
        T.ptx.cp.async_.commit_group()                  # empty ones keep the count

    acc = T.alloc_local((WM // 16, WN // 8, 4), "float32")
    for i in range(WM // 16):
        for j in range(WN // 8):
            for r in range(4):
                acc[i, j, r] = 0.0
    left, right = T.alloc_local((WM // 16, 4), "uint32"), T.alloc_local((WN // 16, 4), "uint32")
    for k in T.serial(steps):
        s = k % STAGES
        T.ptx.cp.async_.wait_group(STAGES - 2)          # this step's tiles are here: for this thread,
        T.cuda.cta_sync()                               # and for the others; and they are done with the stage that is filled next
        with T.If(k + (STAGES - 1) < steps):
            load(k + (STAGES - 1), (k + (STAGES - 1)) % STAGES)
        T.ptx.cp.async_.commit_group()
        for kk in range(0, BK, 16):
            for i in range(WM // 16):                   # 16 x 16 of A: four 8 x 8 matrices, down and then right
                T.ptx["ldmatrix.sync.aligned.m8n8.x4.shared.b16"](
                    [left[i, q] for q in range(4)], a.ptr_to([s, row + i * 16 + lane % 16, kk + lane // 16 * 8]))
            for j in range(WN // 16):                   # 16 x 16 of B: right and then down
                T.ptx["ldmatrix.sync.aligned.m8n8.x4.shared.b16"](
                    [right[j, q] for q in range(4)], b.ptr_to([s, col + j * 16 + lane // 16 * 8 + lane % 8, kk + lane // 8 % 2 * 8]))
            for i in range(WM // 16):
                for j in range(WN // 8):
                    d = [acc[i, j, r] for r in range(4)]
                    T.ptx["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"](
                        d, [left[i, q] for q in range(4)], [right[j // 2, j % 2 * 2 + q] for q in range(2)], d)

    pair = T.alloc_local((1,), "uint32")
    for i in range(WM // 16):
        for j in range(WN // 8):
            for half in range(2):                       # two neighbours in rows lane // 4 and that + 8
                T.ptx.cvt.rn.f16x2.f32(pair[0], acc[i, j, 2 * half + 1], acc[i, j, 2 * half])
                C.vstore([m0 + row + i * 16 + half * 8 + lane // 4, n0 + col + j * 8 + lane % 4 * 2], T.reinterpret("float16x2", pair[0]))


def main() -> None:
    kernel = gemm.specialize(M=128, N=256, K=256)
    show("CUDA", kernel.cuda_source())
    show("results", "")
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((rows, 256)).astype(np.float16) for rows in (128, 256))
    run(kernel, [a, b], np.empty((128, 256), np.float16), a.astype(np.float64) @ b.astype(np.float64).T, tolerance=1e-2)


if __name__ == "__main__":
    main()
