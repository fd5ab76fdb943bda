"""Copies that tell L2 what to keep."""

import numpy as np

from tests.nvcc import cubin, needs_nvcc
from tracer import T, trace


@trace
def through(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32")):
    """A to B by way of shared memory, both by the copy engine, and so without a fence between."""
    source, target = T.tensor_map(A, (8, 32)), T.tensor_map(B, (8, 32))
    T.device_entry()
    tx = T.thread_id([32])
    tile = T.alloc_shared((8, 32), "float32", align=128)
    bar = T.alloc_shared((1,), "uint64")
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init.release.cluster()
        once = T.local_scalar("uint64")
        T.ptx.createpolicy.fractional.L2__evict_first.b64(once)
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), source.box_bytes)
        T.tma.load(tile, source, (0, 0), bar, policy=once)
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
        T.tma.store(target, (0, 0), tile, policy=once)
        T.tma.commit()
        T.tma.wait()


def test_a_policy_changes_nothing_but_speed():
    a, b = np.arange(256, dtype=np.float32).reshape(8, 32), np.zeros((8, 32), np.float32)
    through.simulate(a, b)
    assert np.array_equal(a, b)


@needs_nvcc
def test_it_compiles(tmp_path):
    source = through.cuda_source()
    assert source.count(".L2::cache_hint ") == 2
    assert cubin(source, tmp_path, ["sm_90a"])["sm_90a"].stat().st_size > 0
