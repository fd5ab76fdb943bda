"""C = A @ B.T on Blackwell (sm_100a): bfloat16 by TMA into shared memory, products by tcgen05 into tensor memory, float32 out.

A is (M, K) and B is (N, K), so both run along K; C is (M, N). A block computes a tile of 128 x BN: warp 4 asks for tiles of A and B, STAGES
of them ahead, warp 5 has them multiplied, and warps 0 to 3, which reach 32 lanes of tensor memory each, take the result out.

Run with `python -m examples.blackwell_gemm`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from examples.common import run, show
from symbolic.layout import mma_shared_layout
from tracer import T, trace

LOADER, MULTIPLIER = 4, 5       # warps
BM, BK = 128, 64                # 64 bfloat16 are a row of the 128-byte swizzle


@trace
def gemm(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "float32"), *,  # noqa: F821
         M: T.constexpr, N: T.constexpr, K: T.constexpr, BN: T.constexpr = 256, STAGES: T.constexpr = 4):
    assert M % BM == N % BN == K % BK == 0, "whole tiles"
    a_map = T.tensor_map(A, (BM, BK), swizzle="128B")
    b_map = T.tensor_map(B, (BN, BK), swizzle="128B")

    T.device_entry()
    bx, by = T.cta_id([N // BN, M // BM])
    warp, lane = T.warp_id([6]), T.lane_id([32])
    m0, n0 = by * BM, bx * BN

    pool = T.SMEMPool()
    a, b = (pool.alloc((STAGES, rows, BK), "bfloat16", layout=mma_shared_layout("bfloat16", "128B", (STAGES, rows, BK)), align=1024)
            for rows in (BM, BN))
    ring = T.Pipeline(STAGES, consumers=1, pool=pool)
    done = T.MBarriers(1, 1, pool=pool, name="done")
    tensor = T.TMEMPool(pool, total_cols=BN)
    acc = tensor.alloc_tcgen05_mma_D((BM, BN), "float32", M=BM)
    pool.commit()
    ring.init()
    done.init()
    tensor.commit()

    with T.If((warp == LOADER) & T.cuda.elect_sync()):
        for k in T.serial(K // BK):
            s = k % STAGES
            ring.empty.wait(s, (k // STAGES % 2) ^ 1)   # they are empty the first time round
            ring.full.arrive(s, tx=(BM + BN) * BK * 2)  # so many bytes will come
            T.tma.load(a[s, 0:BM, 0:BK], a_map, (m0, k * BK), ring.full.ptr(s))
            T.tma.load(b[s, 0:BN, 0:BK], b_map, (n0, k * BK), ring.full.ptr(s))

    commit = T.ptx["tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"]
    with T.If((warp == MULTIPLIER) & T.cuda.elect_sync()):
        what = T.cuda.tcgen05.instruction_descriptor("float32", "bfloat16", "bfloat16", BM, BN)
        a_tile, b_tile = (T.cuda.tcgen05.descriptor(tile.ptr_to([0, 0, 0])) for tile in (a, b))
        for k in T.serial(K // BK):
            s = k % STAGES
            ring.full.wait(s, k // STAGES % 2)
            T.ptx.tcgen05.fence__after_thread_sync()
            for step in range(BK // 16):                # 16 elements, 32 bytes, 2 units of a descriptor
                T.ptx["tcgen05.mma.cta_group::1.kind::f16"](
                    acc.tmem_address(), a_tile + T.uint64(s * (BM * BK * 2 // 16) + 2 * step), b_tile + T.uint64(s * (BN * BK * 2 // 16) + 2 * step),
                    what, (k > 0) | (step > 0))
            commit(ring.empty.ptr(s))                   # when they are through, the stage may be filled again
        commit(done.ptr(0))

    with T.If(warp < 4):
        done.wait(0, 0)
        T.ptx.tcgen05.fence__after_thread_sync()
        r = T.alloc_local((32,), "float32")
        for j in range(0, BN, 32):                      # a row a thread, 32 columns at once
            T.ptx["tcgen05.ld.sync.aligned.32x32b.x32.b32"](r, acc.tmem_address(warp * 32, j))
            T.ptx.tcgen05.wait__ld.sync.aligned()
            for i in range(0, 32, 4):
                C.vstore([m0 + warp * 32 + lane, n0 + j + i], r.vload([i], dtype="float32x4"))
    tensor.dealloc()


def main() -> None:
    kernel = gemm.specialize(M=256, N=128, K=192, BN=128)
    show("CUDA", kernel.cuda_source())
    show("results", "on the simulator")
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((rows, 192)).astype(ml_dtypes.bfloat16) for rows in (256, 128))
    run(kernel, [a, b], np.empty((256, 128), np.float32), a.astype(np.float64) @ b.astype(np.float64).T, tolerance=1e-4)


if __name__ == "__main__":
    main()
