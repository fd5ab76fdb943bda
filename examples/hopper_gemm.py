"""C = A @ B.T in bfloat16 on Hopper (sm_90a): roles for warps, tiles by TMA, products by wgmma.

A is (M, K) and B is (N, K), so both run along K; C is (M, N). A block computes one tile of 128 x BN after the other. One thread, the
producer, asks the copy engine for tiles of A and B, STAGES of them ahead, across the ends of C's tiles; two warpgroups, the consumers,
multiply them, 64 rows each, and have their result stored while the next one begins. Blocks come in clusters of CLUSTER neighbours down
M, which need the same tile of B: each loads a part of it, for all of them.

Run with `python -m examples.hopper_gemm`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from examples.common import run, show
from symbolic.layout import mma_shared_layout
from tracer import T, trace

WORKERS = 2             # consumer warpgroups, of 64 rows each
BM, BK = 64 * WORKERS, 64       # 64 bfloat16 are a row of the 128-byte swizzle


@trace
def gemm(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), "bfloat16"), *,  # noqa: F821
         M: T.constexpr, N: T.constexpr, K: T.constexpr, BN: T.constexpr = 256, STAGES: T.constexpr = 4, CLUSTER: T.constexpr = 2,
         GROUP: T.constexpr = 16, SLABS: T.constexpr = 2, BLOCKS: T.constexpr = 132):
    """GROUP: tiles in a band (see `tile_of`). SLABS: of 64 columns, that C's tile goes out through. BLOCKS: how many run at a time."""
    assert M % (BM * CLUSTER) == N % BN == K % BK == BN % 64 == 0, "whole tiles"
    part, steps = BN // CLUSTER, K // BK                # rows of B that one block of a cluster loads; tiles along K
    tiles = M // BM * (N // BN)
    blocks = min(tiles, BLOCKS // CLUSTER * CLUSTER)
    a_map = T.tensor_map(A, (BM, BK), swizzle="128B", l2_promotion="256B")
    b_map = T.tensor_map(B, (part, BK), swizzle="128B", l2_promotion="256B")
    c_map = T.tensor_map(C, (64, 64), swizzle="128B")

    T.device_entry()
    block, rank = T.cta_id([blocks]), T.cta_id_in_cluster([CLUSTER])
    T.thread_id([128 * (1 + WORKERS)])
    group, thread = T.warpgroup_id([1 + WORKERS]), T.thread_id_in_wg([128])
    warp, lane = thread // 32, thread % 32
    turns = T.ceildiv(tiles - block, blocks)            # tiles of this block; those of a cluster have as many

    def place(turn):
        """Row and column of C where this block's tile begins."""
        row, column = tile_of((block + turn * blocks) // CLUSTER, M // (BM * CLUSTER), N // BN, GROUP)
        return (row * CLUSTER + rank) * BM, column * BN

    pool = T.SMEMPool()
    a, b = swizzled(pool, (STAGES, BM, BK)), swizzled(pool, (STAGES, BN, BK))
    c = swizzled(pool, (WORKERS, SLABS, 64, 64))
    ring = T.Pipeline(STAGES, consumers=WORKERS * CLUSTER, pool=pool, cluster=True)  # every consumer that reads what we load
    pool.commit()
    ring.init()

    with T.If(group == 0):
        T.ptx.setmaxnreg.dec.sync.aligned.u32(40)
        with T.If((warp == 0) & T.cuda.elect_sync()):
            for turn in T.serial(turns):
                m0, n0 = place(turn)
                for k in T.serial(steps):
                    step = turn * steps + k
                    s = step % STAGES
                    ring.empty.wait(s, (step // STAGES % 2) ^ 1)        # they are empty the first time round
                    ring.full.arrive(s, tx=(BM + BN) * BK * 2)                       # so many bytes will come, from all blocks
                    T.tma.load(a[s, 0:BM, 0:BK], a_map, (m0, k * BK), ring.full.ptr(s))
                    T.tma.load(b[s, rank * part:rank * part + part, 0:BK], b_map, (n0 + rank * part, k * BK), ring.full.ptr(s),
                               cta_mask=(1 << CLUSTER) - 1)
    with T.Else():
        T.ptx.setmaxnreg.inc.sync.aligned.u32(232)
        worker = group - 1
        acc = T.alloc_local((BN // 2,), "float32")
        word = T.alloc_local((4,), "uint32")
        a_tile = T.cuda.wgmma.descriptor(a.ptr_to([0, worker * 64, 0]), mn=64)
        b_tile = T.cuda.wgmma.descriptor(b.ptr_to([0, 0, 0]))
        for turn in T.serial(turns):
            for k in T.serial(steps):
                step = turn * steps + k
                s = step % STAGES
                ring.full.wait(s, step // STAGES % 2)
                T.ptx.wgmma.fence.sync.aligned()
                for i in range(BK // 16):               # 16 elements, 32 bytes, 2 units of a descriptor
                    T.ptx[f"wgmma.mma_async.sync.aligned.m64n{BN}k16.f32.bf16.bf16"](
                        acc, a_tile + T.uint64(s * (BM * BK * 2 // 16) + 2 * i), b_tile + T.uint64(s * (BN * BK * 2 // 16) + 2 * i),
                        (k > 0) | (i > 0))
                T.ptx.wgmma.commit_group.sync.aligned()
                T.ptx.wgmma.wait_group.sync.aligned(1)  # the step before this one is done with its tiles
                with T.If((k > 0) & (thread < CLUSTER)):            # one thread tells one of the blocks that loaded them
                    ring.empty.arrive((step - 1) % STAGES, rank=thread, reads_only=True)
            T.ptx.wgmma.wait_group.sync.aligned(0)
            with T.If(thread < CLUSTER):
                ring.empty.arrive((turn * steps + (steps - 1)) % STAGES, rank=thread, reads_only=True)

            m0, n0 = place(turn)
            for piece in range(BN // 64):
                slab = (turn * (BN // 64) + piece) % SLABS
                with T.If(thread == 0):
                    T.tma.wait(SLABS - 1, read=True)    # what was stored from this slab before has left it
                T.cuda.warpgroup_sync(1 + worker)
                for j in range(4):                      # 16 columns: four 8 x 8 matrices of the warp's 16 rows
                    for q in range(4):
                        two = 32 * piece + 8 * j + 2 * q
                        T.ptx.cvt.rn.bf16x2.f32(word[q], acc[two + 1], acc[two])
                    T.ptx["stmatrix.sync.aligned.m8n8.x4.shared.b16"](
                        c.ptr_to([worker, slab, warp * 16 + lane % 16, 16 * j + lane // 16 * 8]), word)
                T.ptx.fence.proxy.async_.shared__cta()  # the copy engine shall see it
                T.cuda.warpgroup_sync(1 + worker)
                with T.If(thread == 0):
                    T.tma.store(c_map, (m0 + worker * 64, n0 + 64 * piece), c[worker, slab, 0:64, 0:64])
                    T.tma.commit()
        with T.If(thread == 0):
            T.tma.wait(0, read=True)
    T.cuda.cluster_sync()                               # no block ends while another still tells it something


def swizzled(pool, shape):
    """Tiles as TMA writes and wgmma reads them with the 128-byte swizzle."""
    return pool.alloc(shape, "bfloat16", layout=mma_shared_layout("bfloat16", "128B", shape), align=1024)


def tile_of(number, rows: int, columns: int, most: int):
    """Row and column of a tile: bands of a few rows, each walked column by column, so that blocks that run together share tiles."""
    band = next(g for g in range(min(most, rows), 0, -1) if rows % g == 0)
    return number // (band * columns) * band + number % band, number % (band * columns) // band


def main() -> None:
    kernel = gemm.specialize(M=256, N=512, K=256, BLOCKS=2)
    show("CUDA", kernel.cuda_source())
    show("results", "")
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((rows, 256)).astype(ml_dtypes.bfloat16) for rows in (256, 512))
    run(kernel, [a, b], np.empty((256, 512), ml_dtypes.bfloat16), a.astype(np.float64) @ b.astype(np.float64).T, tolerance=2e-2)


if __name__ == "__main__":
    main()
