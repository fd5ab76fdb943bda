"""Tensor copies with one thing left out: each is found, with the line; with all in place nothing is said."""

import numpy as np
import pytest

from tracer import T, trace
from tracer.errors import AsyncError, DataRaceError


def out(*, fence=True, barrier=True, commit=True, wait="wait", reuse=False):
    """Threads fill a tile, one thread has it copied to B."""
    def kernel(B: T.Buffer((8, 32), "float32")):
        boxes = T.tensor_map(B, (8, 32))
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((8, 32), "float32", align=128)
        for k in T.serial(8):
            tile[k, tx] = 1.0
        if fence:
            T.ptx.fence.proxy.async_()
        if barrier:
            T.cuda.cta_sync()
        with T.If(tx == 0):
            T.tma.store(boxes, (0, 0), tile)
            if commit:
                T.tma.commit()
            if wait:
                T.tma.wait(read=wait == "read")
        T.cuda.cta_sync()
        if reuse:
            tile[0, tx] = 2.0
    return trace(kernel)


def into(*, again=None):
    """A tile is loaded twice, and read after each time; `again`: what lies between the first reading and the second load."""
    def kernel(A: T.Buffer((16, 32), "float32"), B: T.Buffer((16, 32), "float32")):
        boxes = T.tensor_map(A, (8, 32))
        T.device_entry()
        tx = T.thread_id([64])
        tile = T.alloc_shared((8, 32), "float32", align=128)
        bar = T.alloc_shared((1,), "uint64")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cta_sync()
        for turn in range(2):
            with T.If(tx == 0):
                T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), boxes.box_bytes)
                T.tma.load(tile, boxes, (8 * turn, 0), bar)
            T.cuda.mbarrier_wait(bar.ptr_to([0]), turn)
            for k in T.serial(4):
                B[8 * turn + tx // 32 * 4 + k, tx % 32] = tile[tx // 32 * 4 + k, tx % 32]
            if again is None:
                T.cuda.cta_sync()
    return trace(kernel)


@pytest.mark.parametrize("options", [{}, {"wait": "read"}, {"reuse": True}, {"wait": "read", "reuse": True}], ids=str)
def test_right_stores(options):
    b = np.zeros((8, 32), np.float32)
    out(**options).simulate(b)
    assert (b == 1).all()


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"fence": False}, DataRaceError, r"race on tile\[0, 0\].*\n.*= 1.0 by thread(.|\n)*goes through another proxy, which does not see plain stores "
     r"before a fence: put a T.ptx.fence.proxy.async_\(\) behind the stores"),
    ({"barrier": False}, DataRaceError, r"race on tile\[0, \d+\](.|\n)*by ptx.cp.async.bulk.tensor.store, issued by thread \(0, 0, 0\)"),
    ({"commit": False}, AsyncError, "in no group: cp.async.bulk.commit_group is missing, and a wait"),
    ({"wait": None}, AsyncError, "in a group that no cp.async.bulk.wait_group covers"),
    ({"wait": None, "reuse": True}, DataRaceError, r"race on tile\[0, 0\](.|\n)*by ptx.cp.async.bulk.tensor.store(.|\n)*= 2.0 by thread"),
], ids=str)
def test_broken_stores(options, error, message):
    with pytest.raises(error, match=message) as raised:
        out(**options).simulate(np.zeros((8, 32), np.float32))
    assert "test_broken.py:2" in str(raised.value) or "test_broken.py:3" in str(raised.value)


def test_a_tile_that_is_loaded_again_while_others_read_it():
    a, b = np.arange(512, dtype=np.float32).reshape(16, 32), np.zeros((16, 32), np.float32)
    into().simulate(a, b)
    assert np.array_equal(a, b)
    with pytest.raises(DataRaceError, match=r"race on tile\[0, 1\](.|\n)*by ptx.cp.async.bulk.tensor.load, issued by thread \(0, 0, 0\)"):
        into(again="nothing").simulate(a, b)
