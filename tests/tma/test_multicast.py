"""Multicast: a box goes to the same offsets in several blocks of a cluster, and each block's mbarrier gets its bytes."""

import ml_dtypes
import numpy as np
import pytest

from tests.nvcc import cubin, needs_nvcc
from tracer import T, trace

BLOCKS = 4


def share(A: T.Buffer((BLOCKS * 16, 64), "bfloat16"), B: T.Buffer((2, BLOCKS, BLOCKS * 16, 64), "bfloat16")):
    """Each block of a cluster loads a quarter of A for all of them; each writes out what it got."""
    boxes = T.tensor_map(A, (16, 64), swizzle="128B", l2_promotion="128B")
    T.device_entry()
    cluster, rank = T.cluster_id([2]), T.cta_id_in_cluster([BLOCKS])
    tx = T.thread_id([64])
    pool = T.SMEMPool()
    tile = pool.alloc_tcgen05_mma_AB((BLOCKS * 16, 64), "bfloat16")
    bar = pool.alloc((1,), "uint64")
    pool.commit()
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cluster_sync()
    with T.If(tx == 0):
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), BLOCKS * boxes.box_bytes)
        T.tma.load(tile.ptr_to([rank * 16, 0]), boxes, (rank * 16, 0), bar, cta_mask=T.uint16((1 << BLOCKS) - 1))
    T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
    for row in T.serial(BLOCKS * 16):
        B[cluster, rank, row, tx] = tile[row, tx]
    T.cuda.cluster_sync()


KERNEL = trace(share)


@pytest.mark.parametrize("checks", [True, False])
def test_every_block_gets_every_box(checks):
    a = np.random.default_rng(0).standard_normal((BLOCKS * 16, 64)).astype(ml_dtypes.bfloat16)
    b = np.zeros((2, BLOCKS, BLOCKS * 16, 64), ml_dtypes.bfloat16)
    KERNEL.simulate(a, b, checks=checks)
    assert np.array_equal(b, np.broadcast_to(a, b.shape))


@needs_nvcc
def test_it_compiles(tmp_path):
    source = KERNEL.cuda_source(locations=False)
    assert ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" in source
    assert cubin(source, tmp_path, ["sm_90a", "sm_100a"])["sm_90a"].stat().st_size > 0
