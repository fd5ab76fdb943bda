"""Arrivals without a fence at another block's barrier: enough for reads that are over, not for showing what was written."""

from __future__ import annotations

import numpy as np
import pytest

from tests.matrix.test_gemm import BF16, SMALL, multiplied
from tests.simulator.running import run
from tracer import T, errors, trace


def message(reads_only: bool, writes: bool):
    """Block 1 stores to (`writes`) or loads from its own memory and tells block 0, which then loads from there, or stores there."""
    def kernel(A: T.Buffer((2, 32), "uint32")):
        T.device_entry()
        T.cta_id([2])
        rank, tx = T.cta_id_in_cluster([2]), T.thread_id([32])
        s = T.alloc_shared((32,), "uint32")
        told = T.MBarriers(1, 32)
        s[tx] = T.uint32(7)
        told.init(cluster=True)
        with T.If(rank == 1):
            if writes:
                s[tx] = T.uint32(9)
            else:
                A[1, tx] = s[tx]
            told.arrive(0, rank=0, reads_only=reads_only)
        with T.Else():
            told.wait(0, 0, cluster=True)
            there, got = T.local_scalar("uint32"), T.local_scalar("uint32")
            T.ptx.mapa.shared__cluster.u32(there, s.ptr_to([tx]), 1)
            if writes:
                T.ptx.ld.shared__cluster.u32(got, +there)
                A[0, tx] = +got
            else:
                T.ptx.st.shared__cluster.u32(+there, T.uint32(9))
        T.cuda.cluster_sync()

    return trace(kernel)


@pytest.mark.parametrize("writes", [True, False])
def test_a_release_orders_plain_accesses(writes):
    a = np.zeros((2, 32), np.uint32)
    run(message(False, writes), a)
    assert a.tolist() == ([[9] * 32, [0] * 32] if writes else [[0] * 32, [7] * 32])


def test_without_a_fence_nothing_is_shown():
    """What was stored need not be visible in the other block."""
    with pytest.raises(errors.DataRaceError, match="data race on s"):
        run(message(True, True), np.zeros((2, 32), np.uint32))


def test_loads_are_over_behind_any_release():
    """A release, of whatever scope, comes behind the loads before it: they have their values, whatever is stored there later."""
    a = np.zeros((2, 32), np.uint32)
    run(message(True, False), a)
    assert a[1].tolist() == [7] * 32


def test_products_that_are_over_have_read():
    """The consumers of the GEMM in a cluster tell its other block so, and their own."""
    module, _, _, size = SMALL["hopper"]
    multiplied(module.gemm, BF16, BF16, size)
