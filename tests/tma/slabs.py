"""A wide tile in one instruction: rows of 128 bytes are what a swizzle permutes within, so a map of three axes brings several slabs of columns."""

import ml_dtypes
import numpy as np

from tracer import T, trace


def slabs(A: T.Buffer(("n", "k"), "bfloat16"), B: T.Buffer((32, 192), "bfloat16")):
    """B is the tile of A at row 16, column 64: three slabs of 64 columns."""
    n, k = A.shape
    T.assume(k % 64 == 0)
    boxes = T.tensor_map(A.view(n, k // 64, 64).permute(1, 0, 2), (3, 32, 64), swizzle="128B", l2_promotion="256B")
    T.device_entry()
    tx = T.thread_id([64])
    pool = T.SMEMPool()
    tile = pool.alloc_tcgen05_mma_AB((3, 32, 64), "bfloat16")
    bar = pool.alloc((1,), "uint64")
    pool.commit()
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    with T.If(tx == 0):
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), boxes.box_bytes)
        T.tma.load(tile, boxes, (1, 16, 0), bar)
    T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
    for slab, row in T.grid(3, 32):
        B[row, slab * 64 + tx] = tile[slab, row, tx]


KERNEL = trace(slabs)


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B before, and B afterwards."""
    a = np.random.default_rng(3).standard_normal((40, 256)).astype(ml_dtypes.bfloat16)
    expected = np.zeros((32, 192), ml_dtypes.bfloat16)
    expected[:24] = a[16:, 64:256]
    return a, np.ones((32, 192), ml_dtypes.bfloat16), expected
