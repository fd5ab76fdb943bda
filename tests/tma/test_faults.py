"""Copies that the simulator refuses: misplaced boxes, waits that never end, memory that is not there, not written or not ready."""

import numpy as np
import pytest

from tracer import T, trace
from tracer.errors import (
    ClusterError,
    DataRaceError,
    DeadlockError,
    MisalignedAccessError,
    OutOfBoundsError,
    UninitializedReadError,
)


def loading(*, expected=1024, skew=0, wait=True, box=(8, 32), written=False):
    """A block that loads a box, with a mistake."""
    def kernel(A: T.Buffer((64, 64), "float32"), B: T.Buffer((8, 32), "float32")):
        boxes = T.tensor_map(A, box)
        T.device_entry()
        tx = T.thread_id([32])
        bar = T.alloc_shared((1,), "uint64")
        memory = T.alloc_shared((320,), "float32", align=1024)
        tile = T.decl_buffer((8, 32), "float32", data=memory.data, elem_offset=skew)
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cta_sync()
        with T.If(tx == 0):
            T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), expected)
            T.tma.load(tile.ptr_to([0, 0]), boxes, (0, 0), bar)
        if wait:
            T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
        for k in T.serial(8):
            B[k, tx] = tile[k, tx]
        if not wait:
            T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
    return trace(kernel)


ARRAYS = np.arange(4096, dtype=np.float32).reshape(64, 64), np.zeros((8, 32), np.float32)


def test_a_right_load():
    a, b = ARRAYS[0], np.zeros((8, 32), np.float32)
    loading().simulate(a, b)
    assert np.array_equal(b, a[:8, :32])


def test_misaligned_boxes():
    with pytest.raises(MisalignedAccessError, match=r"store of tile\[0, 0\] needs an address that is a multiple of 128"):
        loading(skew=4).simulate(*ARRAYS)


def test_boxes_begin_at_16_bytes():
    def kernel(A: T.Buffer((64, 64), "float32"), I: T.Buffer((1,), "int32")):  # noqa: E741
        boxes = T.tensor_map(A, (8, 32))
        T.device_entry()
        with T.If(T.thread_id([32]) == 0):
            T.tma.prefetch(boxes, (0, I[0]))

    trace(kernel).simulate(ARRAYS[0], np.int32([8]))
    with pytest.raises(MisalignedAccessError, match=r"the box begins at -3 along the last axis of A, which is no multiple of 16 bytes \(4 float32\)"):
        trace(kernel).simulate(ARRAYS[0], np.int32([-3]))


@pytest.mark.parametrize("reduction", [None, "add"])
def test_boxes_that_are_written_begin_in_the_array(reduction):
    def kernel(A: T.Buffer((64, 64), "float32"), I: T.Buffer((2,), "int32")):  # noqa: E741
        boxes = T.tensor_map(A, (8, 32))
        T.device_entry()
        tile = T.alloc_shared((8, 32), "float32")
        tx = T.thread_id([32])
        for row in range(8):
            tile[row, tx] = T.float32(1)
        T.ptx.fence.proxy.async_()
        T.cuda.cta_sync()
        with T.If(tx == 0):
            if reduction is None:
                T.tma.store(boxes, (I[0], I[1]), tile)
            else:
                T.tma.reduce(reduction, boxes, (I[0], I[1]), tile)
            T.tma.commit()
            T.tma.wait()

    made, a = trace(kernel), np.zeros((64, 64), np.float32)
    made.simulate(a, np.int32([60, 40]))
    assert a.sum() == 4 * 24 == a[60:, 40:].sum()
    for at, where in (((-1, 0), "-1 along axis 0"), ((0, -4), "-4 along axis 1")):
        with pytest.raises(OutOfBoundsError, match=f"the box begins at {where} of A; one that is written begins in the array"):
            made.simulate(a, np.int32(at))


def test_fewer_bytes_expected_than_copied():
    with pytest.raises(DeadlockError, match="1024 bytes|-512 bytes|512 bytes"):
        loading(expected=512).simulate(*ARRAYS)
    with pytest.raises(DeadlockError, match="1024 bytes"):
        loading(expected=2048).simulate(*ARRAYS)


def test_reading_before_the_copy_has_landed():
    with pytest.raises(DataRaceError, match=r"data race on tile\[0, 0\]: nothing orders these two\n  store of .* by ptx.cp.async.bulk.tensor"):
        loading(wait=False).simulate(*ARRAYS)


def test_a_box_beyond_shared_memory():
    def kernel(A: T.Buffer((64, 64), "float32")):
        boxes = T.tensor_map(A, (64, 32))
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((8, 32), "float32", align=128)
        with T.If(tx == 0):
            T.tma.store(boxes, (0, 0), tile.ptr_to([0, 0]))

    with pytest.raises(OutOfBoundsError, match=r"load of tile\[0, 0\] of 8192 bytes touches byte 8191 of tile, which has 1024"):
        trace(kernel).simulate(ARRAYS[0])


def test_what_is_stored_was_written():
    def kernel(A: T.Buffer((64, 64), "float32")):
        boxes = T.tensor_map(A, (8, 32))
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((8, 32), "float32", align=128)
        tile[0, tx] = 1.0
        with T.If(tx == 0):
            T.tma.store(boxes, (0, 0), tile)

    with pytest.raises(UninitializedReadError, match=r"the box at tile\[0, 0\] has bytes that nothing has written"):
        trace(kernel).simulate(ARRAYS[0].copy())


def test_multicast_to_a_block_that_is_not_there():
    def kernel(A: T.Buffer((64, 64), "float32")):
        boxes = T.tensor_map(A, (8, 32))
        T.device_entry()
        T.cluster_id([1])
        T.cta_id_in_cluster([2])
        tx = T.thread_id([32])
        bar = T.alloc_shared((1,), "uint64")
        tile = T.alloc_shared((8, 32), "float32", align=128)
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        T.cuda.cluster_sync()
        with T.If(tx == 0):
            T.tma.load(tile, boxes, (0, 0), bar, cta_mask=T.uint16(5))
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)

    with pytest.raises(ClusterError, match="the mask 0x5 of a multicast; the cluster has 2 blocks"):
        trace(kernel).simulate(ARRAYS[0])
