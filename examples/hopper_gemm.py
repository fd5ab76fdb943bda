"""C = A @ B.T in bfloat16 on Hopper (sm_90a): roles for warps, tiles by TMA, products by wgmma.

A is (M, K) and B is (N, K), so both run along K; C is (M, N). A block computes a tile of BM x BN. One warp, the producer, asks the copy
engine for tiles of A and B, STAGES of them ahead; two warpgroups, the consumers, multiply them, 64 rows each. Blocks come in clusters of
CLUSTER neighbours down M, which need the same tile of B: each loads a part of it, for all of them.

Run with `python -m examples.hopper_gemm`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from examples.common import run, show
from symbolic.layout import mma_shared_layout
from tracer import T, trace

WORKERS = 2                 # consumer warpgroups, of 64 rows each
PRODUCER, CONSUMERS = 1, 2  # named barriers: 0 is the block's


@trace
def gemm(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "bfloat16"), *,  # noqa: F821
         M: T.constexpr, N: T.constexpr, K: T.constexpr, BN: T.constexpr = 256, STAGES: T.constexpr = 4, CLUSTER: T.constexpr = 2,
         GROUP: T.constexpr = 8):
    BM, BK = 64 * WORKERS, 64                           # 64 bfloat16 are a row of the 128-byte swizzle
    part = BN // CLUSTER                                # rows of B that one block of the cluster loads
    a_map = T.tensor_map(A, (BM, BK), swizzle="128B", l2_promotion="256B")
    b_map = T.tensor_map(B, (part, BK), swizzle="128B", l2_promotion="256B")
    c_map = T.tensor_map(C, (64, 64), swizzle="128B")

    T.device_entry()
    block = T.cta_id([M // BM * (N // BN)])
    rank = T.cta_id_in_cluster([CLUSTER])
    group, warp, lane = T.warpgroup_id([1 + WORKERS]), T.warp_id_in_wg([4]), T.lane_id([32])
    thread = warp * 32 + lane                           # in its warpgroup
    m0, n0 = tile_of(block // CLUSTER, M // (BM * CLUSTER), N // BN, GROUP)
    m0, n0 = (m0 * CLUSTER + rank) * BM, n0 * BN

    pool = T.SMEMPool()
    a = swizzled(pool, (STAGES, BM, BK))
    b = swizzled(pool, (STAGES, BN, BK))
    full, empty = (pool.alloc((STAGES,), "uint64") for _ in range(2))
    pool.move_base_to(0)                                # at the end nobody needs a and b: C's tile goes where they were
    c = swizzled(pool, (WORKERS, BN // 64, 64, 64))
    pool.commit()
    with T.If((group == 0) & (thread == 0)):
        for s in range(STAGES):
            T.ptx.mbarrier.init.shared.b64(full.ptr_to([s]), 1)                      # the producer says how many bytes will come
            T.ptx.mbarrier.init.shared.b64(empty.ptr_to([s]), WORKERS * CLUSTER)     # every consumer that reads what we load
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cluster_sync()

    with T.If(group == 0):
        T.ptx.setmaxnreg.dec.sync.aligned.u32(40)
        with T.If((warp == 0) & T.cuda.elect_sync()):
            for k in T.serial(K // BK):
                s = k % STAGES
                T.cuda.mbarrier_wait(empty.ptr_to([s]), (k // STAGES % 2) ^ 1, scope="cluster")      # empty the first time round
                T.ptx.mbarrier.arrive.expect_tx.shared.b64(full.ptr_to([s]), (BM + BN) * BK * 2)
                T.tma.load(a[s, 0:BM, 0:BK], a_map, (m0, k * BK), full.ptr_to([s]))
                T.tma.load(b[s, rank * part:rank * part + part, 0:BK], b_map, (n0 + rank * part, k * BK), full.ptr_to([s]),
                           cta_mask=(1 << CLUSTER) - 1)
    with T.Else():
        T.ptx.setmaxnreg.inc.sync.aligned.u32(232)
        worker = group - 1
        acc = T.alloc_local((BN // 2,), "float32")
        a_tile = T.cuda.wgmma.descriptor(a.ptr_to([0, worker * 64, 0]), mn=64)
        b_tile = T.cuda.wgmma.descriptor(b.ptr_to([0, 0, 0]))
        remote = T.local_scalar("uint32")
        for k in T.serial(K // BK):
            s = k % STAGES
            T.cuda.mbarrier_wait(full.ptr_to([s]), k // STAGES % 2)
            T.ptx.wgmma.fence.sync.aligned()
            for step in range(BK // 16):                # 16 elements, 32 bytes, 2 units of a descriptor
                T.ptx[f"wgmma.mma_async.sync.aligned.m64n{BN}k16.f32.bf16.bf16"](
                    acc, a_tile + T.uint64(s * (BM * BK * 2 // 16) + 2 * step), b_tile + T.uint64(s * (BN * BK * 2 // 16) + 2 * step),
                    (k > 0) | (step > 0))
            T.ptx.wgmma.commit_group.sync.aligned()
            T.ptx.wgmma.wait_group.sync.aligned(1)      # the step before this one is done with its tiles
            with T.If((k > 0) & (thread < CLUSTER)):    # one thread tells one block
                T.ptx.mapa.shared__cluster.u32(remote, empty.ptr_to([(k - 1) % STAGES]), thread)
                T.ptx.mbarrier.arrive.release.cluster.shared__cluster.b64(remote)
        T.ptx.wgmma.wait_group.sync.aligned(0)

        T.ptx.bar.sync(CONSUMERS, 128 * WORKERS)        # nobody reads a and b any more
        word = T.alloc_local((4,), "uint32")
        for j in range(BN // 16):                       # 16 columns: four 8 x 8 matrices of the warp's 16 rows
            for q in range(4):
                T.ptx.cvt.rn.bf16x2.f32(word[q], acc[8 * j + 2 * q + 1], acc[8 * j + 2 * q])
            T.ptx["stmatrix.sync.aligned.m8n8.x4.shared.b16"](
                c.ptr_to([worker, j // 4, warp * 16 + lane % 16, j % 4 * 16 + lane // 16 * 8]), word)
        T.ptx.fence.proxy.async_.shared__cta()          # the copy engine shall see it
        T.cuda.warpgroup_sync(CONSUMERS + 1 + worker)
        with T.If(thread == 0):
            for j in range(BN // 64):
                T.tma.store(c_map, (m0 + worker * 64, n0 + j * 64), c[worker, j, 0:64, 0:64])
            T.tma.commit()
            T.tma.wait(0, read=True)
    T.cuda.cluster_sync()                               # no block ends while another still writes to it


def swizzled(pool, shape):
    """Tiles as TMA writes and wgmma reads them with the 128-byte swizzle."""
    return pool.alloc(shape, "bfloat16", layout=mma_shared_layout("bfloat16", "128B", shape), align=1024)


def tile_of(number, rows: int, columns: int, most: int):
    """Row and column of a tile: bands of a few rows, each walked column by column, so that blocks that run together share tiles."""
    band = next(g for g in range(min(most, rows), 0, -1) if rows % g == 0)
    return number // (band * columns) * band + number % band, number % (band * columns) // band


def main() -> None:
    kernel = gemm.specialize(M=256, N=256, K=256)
    show("CUDA", kernel.cuda_source())
    show("results", "")
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((256, 256)).astype(ml_dtypes.bfloat16) for _ in range(2))
    run(kernel, [a, b], np.empty((256, 256), ml_dtypes.bfloat16), a.astype(np.float64) @ b.astype(np.float64).T, tolerance=2e-2)


if __name__ == "__main__":
    main()
