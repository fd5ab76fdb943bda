"""Packed float4 weights by tensor copies: the map has bytes, the tile in shared memory is looked at as elements."""

import ml_dtypes
import numpy as np

from runtime import pack_float4
from tracer import T, trace

VALUES = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -6)


def widen(A: T.Buffer((64, 64), "uint8"), B: T.Buffer((64, 128), "float16")):
    """B is A, whose bytes have two elements each, as float16."""
    boxes = T.tensor_map(A, (16, 64))
    T.device_entry()
    bx, tx = T.cta_id([4]), T.thread_id([64])
    tile = T.alloc_shared((16, 64), "uint8")
    bar = T.alloc_shared((1,), "uint64")
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    with T.If(tx == 0):
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), boxes.box_bytes)
        T.tma.load(tile, boxes, (bx * 16, 0), bar)
    T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
    weights = tile.view("float4_e2m1fn")
    for row in T.serial(16):
        B.vstore([bx * 16 + row, tx * 2], T.Cast("float16x2", weights.vload([row, tx * 2], dtype="float4_e2m1fnx2")))


KERNEL = trace(widen)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """A, and B afterwards."""
    values = np.random.default_rng(4).choice(VALUES, (64, 128))
    return pack_float4(values.astype(ml_dtypes.float4_e2m1fn)), values.astype(np.float16)
