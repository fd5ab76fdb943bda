"""Blocks of a cluster: they run together, wait for each other, and reach into each other's shared memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from runtime.simulator.agent import Launch
from runtime.simulator.scheduler import clusters_of
from tests.simulator.running import fails, run
from tracer import T, trace
from tracer.errors import ClusterError, DeadlockError, MBarrierError, OutOfBoundsError

SEEDS = (None, 1, 2, 3)


def test_clusters_are_neighbours_in_the_grid_in_the_order_of_their_rank() -> None:
    launch = Launch((4, 4, 1), (32, 1, 1), (2, 2, 1))
    assert list(clusters_of(range(16), launch)) == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert list(clusters_of([7, 12], launch)) == [[2, 3, 6, 7], [8, 9, 12, 13]]


def test_only_the_clusters_of_the_chosen_blocks_run() -> None:
    @trace
    def k(A: T.Buffer((8,), "int32")) -> None:
        T.device_entry()
        cb, bx, tx = T.cta_id_in_cluster([2]), T.cta_id([8]), T.thread_id([32])
        T.cuda.cluster_sync()
        with T.If(tx == 0):
            A[bx] = bx + 10 * cb

    a = np.zeros(8, np.int32)
    run(k, a, blocks=[3, 6])
    assert a.tolist() == [0, 0, 2, 13, 0, 0, 6, 17]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", ["generic", "shared", "sync parts"])
def test_loads_from_the_neighbours_shared_memory(how: str, seed: int | None) -> None:
    @trace
    def k(A: T.Buffer((8, 32), "int32"), B: T.Buffer((8, 32), "int32"), R: T.Buffer((8,), "uint32")) -> None:
        T.device_entry()
        rank, bx, tx = T.cta_id_in_cluster([4]), T.cta_id([8]), T.thread_id([32])
        s = T.alloc_shared((32,), "int32")
        wide, narrow, r = T.alloc_local((1,), "uint64"), T.alloc_local((2,), "uint32"), T.alloc_local((1,), "int32")
        s[tx] = A[bx, tx]
        if how == "sync parts":
            T.ptx.barrier.cluster.arrive.release.aligned()
            T.ptx.barrier.cluster.wait.acquire.aligned()
        else:
            T.cuda.cluster_sync()
        other = ((rank + 1) % 4).astype("uint32")
        if how == "generic":
            T.ptx.mapa.u64(wide[0], s.ptr_to([tx]), other)
            T.ptx.ld.s32(r[0], wide[0])
            T.ptx.getctarank.u64(narrow[1], wide[0])
        else:
            T.ptx.mapa.shared__cluster.u32(narrow[0], T.cuda.cvta_generic_to_shared(s.ptr_to([tx])), other)
            T.ptx.ld.shared__cluster.s32(r[0], narrow[0])
            T.ptx.getctarank.shared__cluster.u32(narrow[1], narrow[0])
        B[bx, tx] = r[0]
        with T.If(tx == 0):
            R[bx] = narrow[1]
        T.cuda.cluster_sync()

    a, b, r = np.arange(256, dtype=np.int32).reshape(8, 32), np.zeros((8, 32), np.int32), np.zeros(8, np.uint32)
    run(k, a, b, r, seed=seed)
    assert (b == a[[1, 2, 3, 0, 5, 6, 7, 4]]).all() and r.tolist() == [1, 2, 3, 0] * 2


@pytest.mark.parametrize("seed", SEEDS)
def test_stores_and_sums_into_other_blocks(seed: int | None) -> None:
    """Every block sends each thread's value to rank 0 with st.async and adds it there with red.async; rank 0 waits for the bytes."""
    @trace
    def k(A: T.Buffer((4, 32), "uint32"), B: T.Buffer((4, 32), "uint32"), total: T.Buffer((32,), "uint32")) -> None:
        T.device_entry()
        rank, _, tx = T.cta_id_in_cluster([4]), T.cta_id([4]), T.thread_id([32])
        s, sums = T.alloc_shared((4, 32), "uint32"), T.alloc_shared((32,), "uint32")
        bar, where = T.alloc_shared((1,), "uint64"), T.alloc_local((3,), "uint32")
        sums[tx] = 0
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init.release.cluster()
            with T.If(rank == 0):
                T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), 4 * 32 * 8)
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.cluster_sync()
        T.ptx.mapa.shared__cluster.u32(where[0], s.ptr_to([rank, tx]), 0)
        T.ptx.mapa.shared__cluster.u32(where[1], sums.ptr_to([tx]), 0)
        T.ptx.mapa.shared__cluster.u32(where[2], bar.ptr_to([0]), 0)
        T.ptx["st.async.shared::cluster.mbarrier::complete_tx::bytes.u32"](where[0], A[rank, tx], where[2])
        T.ptx["red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"](where[1], A[rank, tx], where[2])
        with T.If(rank == 0):
            T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
            for n in range(4):
                B[n, tx] = s[n, tx]
            total[tx] = sums[tx]
        T.cuda.cluster_sync()

    a, b, total = np.arange(128, dtype=np.uint32).reshape(4, 32), np.zeros((4, 32), np.uint32), np.zeros(32, np.uint32)
    run(k, a, b, total, seed=seed)
    assert (b == a).all() and (total == a.sum(axis=0)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_remote_arrivals_and_copies_between_blocks(seed: int | None) -> None:
    """Rank 1 copies its shared memory into that of rank 0 with a bulk copy, when rank 0 has said that it may."""
    @trace
    def k(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        rank, _, tx = T.cta_id_in_cluster([2]), T.cta_id([2]), T.thread_id([64])
        s = T.alloc_shared((64,), "float32")
        full, free = T.alloc_shared((1,), "uint64"), T.alloc_shared((1,), "uint64")
        where = T.alloc_local((3,), "uint32")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(full.ptr_to([0]), 1)
            T.ptx.mbarrier.init.shared.b64(free.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cluster_sync()
        with T.If(rank == 0):
            with T.If(tx == 0):
                T.ptx.mbarrier.arrive.expect_tx.shared.b64(full.ptr_to([0]), 256)
                T.ptx.mapa.shared__cluster.u32(where[0], free.ptr_to([0]), 1)
                T.ptx.mbarrier.arrive.release.cluster.shared__cluster.b64(where[0])
            T.cuda.mbarrier_wait(full.ptr_to([0]), 0)
            B[tx] = s[tx]
        with T.Else():
            s[tx] = A[tx] * 3.0
            T.ptx.fence.proxy.async_.shared__cta()
            T.cuda.cta_sync()
            with T.If(tx == 0):
                T.ptx.mapa.shared__cluster.u32(where[1], s.ptr_to([0]), 0)
                T.ptx.mapa.shared__cluster.u32(where[2], full.ptr_to([0]), 0)
                T.cuda.mbarrier_wait(free.ptr_to([0]), 0, scope="cluster")
                T.ptx["cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"](where[1], s.ptr_to([0]), 256, where[2])
        T.cuda.cluster_sync()

    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    run(k, a, b, seed=seed)
    assert (b == 3 * a).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_multicast(seed: int | None) -> None:
    """Each block loads half of a row and sends it to both."""
    @trace
    def k(A: T.Buffer((64,), "float32"), B: T.Buffer((2, 64), "float32")) -> None:
        T.device_entry()
        rank, _, tx = T.cta_id_in_cluster([2]), T.cta_id([2]), T.thread_id([64])
        s, bar = T.alloc_shared((64,), "float32"), T.alloc_shared((1,), "uint64")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init.release.cluster()
            T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), 256)
        T.cuda.cluster_sync()
        with T.If(tx == 0):
            T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"](
                s.ptr_to([rank * 32]), A.ptr_to([rank * 32]), 128, bar.ptr_to([0]), T.uint16(3))
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
        B[rank, tx] = s[tx]
        T.cuda.cluster_sync()

    a, b = np.arange(64, dtype=np.float32), np.zeros((2, 64), np.float32)
    run(k, a, b, seed=seed)
    assert (b == a).all()


# ---- misuse --------------------------------------------------------------------------------------------------------------------

def cluster(body: Any, size: int = 2) -> Any:
    @trace
    def k(A: T.Buffer((4, 32), "int32")) -> None:
        T.device_entry()
        rank, _, tx = T.cta_id_in_cluster([size]), T.cta_id([size]), T.thread_id([32])
        s, where, r = T.alloc_shared((32,), "int32"), T.alloc_local((1,), "uint32"), T.alloc_local((1,), "int32")
        s[tx] = 5
        body(rank, tx, s, where, r)
        A[rank, tx] = r[0]
    return k


def said(error: type[Exception], body: Any, **options: Any) -> str:
    return fails(error, cluster(body), np.zeros((4, 32), np.int32), **options).partition("\n  at +")[0]


def unordered(body: Any) -> str:
    with pytest.raises(ClusterError) as caught:
        run(cluster(body), np.zeros((4, 32), np.int32))
    return re.split(r"\n +at ", str(caught.value))[0]


def test_a_block_that_ends_before_its_neighbour_reads_it() -> None:
    """No barrier of the cluster at the end: rank 1 is gone when rank 0 comes."""
    def body(rank: Any, tx: Any, s: Any, where: Any, r: Any) -> None:
        r[0] = 0
        T.cuda.cluster_sync()
        with T.If(rank == 0):
            T.ptx.bar.sync(1, 32)
            T.ptx.mapa.shared__cluster.u32(where[0], s.ptr_to([tx]), 1)
            with T.While(lambda: T.cuda.clock64() < 20000):
                pass
            T.ptx.bar.sync(1, 32)
            T.ptx.ld.shared__cluster.s32(r[0], where[0])

    messages = set()
    for seed in range(8):
        try:
            run(cluster(body), np.zeros((4, 32), np.int32), seed=seed)
        except ClusterError as error:
            messages.add(re.split(r"\n +at ", str(error))[0])
    wait = "its blocks must wait for each other before they end, as with T.cuda.cluster_sync()"
    assert messages <= {
        f"ptx.ld: load of shared memory of block (1, 0, 0) (rank 1), which has ended: {wait}\n  in block (0, 0, 0), thread (0, 0, 0) and 31 more",
        f"ptx.ld: shared memory of block (1, 0, 0), which may have ended by then, as nothing orders the access before its end: {wait}\n"
        "  load of s (byte 0) by thread (0, 0, 0) of block (0, 0, 0)"}


@pytest.mark.parametrize("reader", [0, 1])
def test_a_block_may_end_before_its_neighbour_has_read_it_whatever_the_schedule(reader: int) -> None:
    def body(rank: Any, tx: Any, s: Any, where: Any, r: Any) -> None:
        r[0] = 0
        T.cuda.cluster_sync()
        with T.If(rank == reader):
            T.ptx.mapa.shared__cluster.u32(where[0], s.ptr_to([tx]), 1 - reader)
            T.ptx.ld.shared__cluster.s32(r[0], where[0])

    assert f"of block ({1 - reader}, 0, 0)" in unordered(body)


@pytest.mark.parametrize("writer", [0, 1])
def test_a_block_that_may_not_have_begun(writer: int) -> None:
    """No barrier of the cluster at the start, so that the store may come too early."""
    def body(rank: Any, tx: Any, s: Any, where: Any, r: Any) -> None:
        r[0] = 0
        slot = T.alloc_shared((1,), "int32")
        with T.If(rank == writer):
            T.ptx.mapa.shared__cluster.u32(where[0], slot.ptr_to([0]), 1 - writer)
            with T.If(tx == 0):
                T.ptx.st.shared__cluster.s32(where[0], r[0])
        T.cuda.cluster_sync()

    assert unordered(body) == (
        f"ptx.st: shared memory of block ({1 - writer}, 0, 0), which may not have begun yet: its blocks must wait for each other before they use it, "
        f"as with T.cuda.cluster_sync()\n  store of slot (byte 0) by thread (0, 0, 0) of block ({writer}, 0, 0)")


def test_ranks_and_spaces() -> None:
    def far(rank: Any, tx: Any, s: Any, where: Any, r: Any) -> None:
        T.ptx.mapa.shared__cluster.u32(where[0], s.ptr_to([0]), 2)

    def own(rank: Any, tx: Any, s: Any, where: Any, r: Any) -> None:
        T.ptx.mapa.shared__cluster.u32(where[0], s.ptr_to([0]), 1)
        T.ptx.ld.shared__cta.s32(r[0], where[0])

    def beyond(rank: Any, tx: Any, s: Any, where: Any, r: Any) -> None:
        T.ptx.ld.shared.s32(r[0], T.cuda.cvta_generic_to_shared(s.ptr_to([tx])) + 64)

    assert said(ClusterError, far) == (
        "ptx.mapa: there is no block of rank 2; the cluster has 2 blocks\n  in block (0, 0, 0), thread (0, 0, 0) and 31 more")
    assert said(ClusterError, own) == (
        "ptx.ld: load of shared memory of the block of rank 1: shared::cta is the block's own, of rank 0\n"
        "  in block (0, 0, 0), thread (0, 0, 0) and 31 more")
    assert said(OutOfBoundsError, lambda *a: [T.cuda.cluster_sync(), beyond(*a)]) == (
        "ptx.ld: load of 4 bytes at shared address 0x1000080 (byte 128), but the block has 128 bytes of shared memory\n"
        "  in block (1, 0, 0), thread (16, 0, 0) and 15 more")


def test_cluster_barriers_out_of_step() -> None:
    def arrive(*_: Any) -> None:
        T.ptx.barrier.cluster.arrive.aligned()

    def wait(*_: Any) -> None:
        T.ptx.barrier.cluster.wait.aligned()

    assert said(ClusterError, lambda *a: [arrive(), arrive()]) == (
        "ptx.barrier.cluster.arrive: the warp has arrived already and not waited since\n  in block (0, 0, 0), warp 0")
    assert said(ClusterError, wait) == (
        "ptx.barrier.cluster.wait: the warp waits without having arrived; write `barrier.cluster.arrive` before it, or T.cuda.cluster_sync()\n"
        "  in block (0, 0, 0), warp 0")

    def one(rank: Any, tx: Any, s: Any, where: Any, r: Any) -> None:
        r[0] = 0
        with T.If(rank == 0):
            T.cuda.cluster_sync()
        with T.Else():
            T.ptx.bar.sync(1, 64)

    @trace
    def k(A: T.Buffer((4, 32), "int32")) -> None:
        T.device_entry()
        rank, _, tx = T.cta_id_in_cluster([2]), T.cta_id([2]), T.thread_id([64])
        with T.If(rank == 0):
            T.cuda.cluster_sync()
        with T.Else():
            T.ptx.bar.sync(1, 32)
            with T.If(tx < 32):
                T.ptx.bar.sync(2, 64)

    assert fails(DeadlockError, k, np.zeros((4, 32), np.int32)) == (
        "deadlock: every thread that has not ended waits for what nobody left can bring\n"
        "  (0, 0, 0) warp 0, (0, 0, 0) warp 1: cuda.cluster_sync waits at the barrier of the cluster, at which warps are missing (block (1, 0, 0): 0 "
        "of 1 warps have arrived)\n    at +4\n"
        "  (1, 0, 0) warp 0: ptx.bar.sync waits at barrier 2, at which 32 of 64 threads have arrived\n    at +8\n"
        "  ended: (1, 0, 0) warp 1")


def test_an_mbarrier_of_another_block_is_not_waited_for() -> None:
    def body(rank: Any, tx: Any, s: Any, where: Any, r: Any) -> None:
        bar, done = T.alloc_shared((1,), "uint64"), T.alloc_local((1,), "uint32")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        T.cuda.cluster_sync()
        T.ptx.mapa.shared__cluster.u32(where[0], bar.ptr_to([0]), 1 - rank)
        T.ptx.mbarrier.test_wait.parity.shared.b64(done[0], where[0], 0)

    assert said(MBarrierError, body) == (
        "ptx.mbarrier.test_wait: waits for an mbarrier of the block of rank 0; a block waits for its own only, others arrive at it\n"
        "  in block (1, 0, 0), thread (0, 0, 0) and 31 more")


def test_masks_and_mbarriers_of_copies_between_blocks() -> None:
    @trace
    def multicast(A: T.Buffer((64,), "float32"), mask: T.int32) -> None:
        T.device_entry()
        _, _, tx = T.cta_id_in_cluster([2]), T.cta_id([2]), T.thread_id([32])
        s, bar = T.alloc_shared((64,), "float32"), T.alloc_shared((1,), "uint64")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cluster_sync()
        with T.If(tx == 0):
            T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"](
                s.ptr_to([0]), A.ptr_to([0]), 128, bar.ptr_to([0]), mask.astype("uint16"))

    for mask in (0, 5):
        assert fails(ClusterError, multicast, np.zeros(64, np.float32), mask) == (
            f"ptx.cp.async.bulk: the mask {mask:#x} of a multicast; the cluster has 2 blocks\n  in block (1, 0, 0), thread (0, 0, 0)\n  at +9")

    @trace
    def astray(A: T.Buffer((64,), "float32"), bulk: T.int32) -> None:
        T.device_entry()
        rank, _, tx = T.cta_id_in_cluster([2]), T.cta_id([2]), T.thread_id([32])
        s, bar, where = T.alloc_shared((64,), "float32"), T.alloc_shared((1,), "uint64"), T.alloc_local((2,), "uint32")
        s[tx] = 1.0
        T.ptx.fence.proxy.async_.shared__cta()
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cluster_sync()
        with T.If((tx == 0) & (rank == 0)):
            T.ptx.mapa.shared__cluster.u32(where[0], s.ptr_to([32]), 1)
            T.ptx.mapa.shared__cluster.u32(where[1], bar.ptr_to([0]), 0)
            with T.If(bulk != 0):
                T.ptx["cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"](where[0], s.ptr_to([0]), 128, where[1])
            with T.Else():
                T.ptx["st.async.shared::cluster.mbarrier::complete_tx::bytes.u32"](where[0], T.uint32(1), where[1])
        T.cuda.cluster_sync()

    a = np.zeros(64, np.float32)
    assert fails(ClusterError, astray, a, 1) == (
        "ptx.cp.async.bulk: the destination and the mbarrier lie in different blocks; the mbarrier stands in the block that is written\n"
        "  in block (0, 0, 0), thread (0, 0, 0)\n  at +14")
    assert fails(ClusterError, astray, a, 0) == (
        "ptx.st.async: the destination and bar[0] lie in different blocks; the mbarrier stands in the block that is written\n"
        "  in block (0, 0, 0), thread (0, 0, 0)\n  at +16")
