"""Asynchronous copies: they land when they are waited for, not before; what is not waited for is reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulator.running import ALONE, fails, run
from tracer import T, trace
from tracer.errors import AsyncError, DeadlockError, MBarrierError, MisalignedAccessError, OutOfBoundsError, UninitializedReadError

SEEDS = (None, 1, 2, 3)
IN = "\n  in block (0, 0, 0), thread (0, 0, 0)"


def numbers(*shape: int) -> Any:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


# ---- cp.async --------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", SEEDS)
def test_a_ring_of_stages_by_groups(seed: int | None) -> None:
    """Three stages, of which two are under way while one is read; in lockstep, as every thread waits for its own."""
    @trace
    def k(A: T.Buffer((3, 8, 128), "float32"), B: T.Buffer((3, 8, 128), "float32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([3]), T.thread_id([32])
        s = T.alloc_shared((3, 128), "float32")

        def load(i: Any) -> None:
            with T.If(i < 8):
                T.ptx["cp.async.cg.shared.global"](s.ptr_to([i % 3, tx * 4]), A.ptr_to([bx, T.min(i, 7), tx * 4]), 16)
            T.ptx.cp.async_.commit_group()

        load(T.int32(0))
        load(T.int32(1))
        for i in T.serial(8):
            load(i + 2)
            T.ptx.cp.async_.wait_group(2)
            T.cuda.cta_sync()
            for j in range(4):
                B[bx, i, tx + 32 * j] = s[i % 3, tx + 32 * j] * 3.0
            T.cuda.cta_sync()
        T.ptx.cp.async_.wait_all()

    a, b = numbers(3, 8, 128), np.zeros((3, 8, 128), np.float32)
    run(k, a, b, seed=seed)
    assert (b == 3 * a).all()


def test_sources_that_are_short_or_ignored_give_zeros() -> None:
    @trace
    def k(A: T.Buffer((64,), "float32"), B: T.Buffer((2, 128), "float32"), n: T.int32) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        s = T.alloc_shared((2, 128), "float32")
        size = T.max(T.min((n - tx * 4) * 4, 16), 0)
        T.ptx["cp.async.ca.shared.global"](s.ptr_to([0, tx * 4]), A.ptr_to([tx * 4]), 16, size.astype("uint32"))
        T.ptx["cp.async.ca.shared.global"](s.ptr_to([1, tx * 4]), A.ptr_to([tx % 16 * 4]), 16, tx % 2 == 1)
        T.ptx.cp.async_.wait_all()
        for r in range(2):
            for j in range(4):
                B[r, tx * 4 + j] = s[r, tx * 4 + j]

    a, b = numbers(64), np.full((2, 128), 9, np.float32)
    run(k, a, b, 50)
    assert (b[0, :50] == a[:50]).all() and not b[0, 50:].any()
    assert (b[1] == np.where(np.arange(128) // 4 % 2 == 0, np.tile(a, 2), 0)).all()


def cp_async(body: Any) -> Any:
    """Each thread copies one element; `body(s, A, B, tx)` goes on."""
    @trace
    def k(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        s = T.alloc_shared((64,), "float32")
        s[tx] = 7.0
        T.ptx["cp.async.ca.shared.global"](s.ptr_to([tx]), A.ptr_to([tx]), 4)
        body(s, A, B, tx)
    return k


def test_before_the_wait_the_old_contents_are_there() -> None:
    def body(s: Any, A: Any, B: Any, tx: Any) -> None:
        T.ptx.cp.async_.commit_group()
        T.ptx.cp.async_.wait_group(1)
        B[tx] = s[tx]
        T.ptx.cp.async_.wait_group(0)
        B[tx + 32] = s[tx]

    a, b = numbers(64), np.zeros(64, np.float32)
    run(cp_async(body), a, b, checks=ALONE)
    assert (b[:32] == 7).all() and (b[32:] == a[:32]).all()


def test_groups_that_are_not_committed_or_not_waited_for() -> None:
    def late(s: Any, A: Any, B: Any, tx: Any) -> None:
        T.ptx.cp.async_.commit_group()
        T.ptx.cp.async_.wait_group(1)

    def none(s: Any, A: Any, B: Any, tx: Any) -> None:
        T.ptx.cp.async_.wait_group(0)

    arguments = numbers(64), np.zeros(64, np.float32)
    assert fails(AsyncError, cp_async(none), *arguments) == (
        "ptx.cp.async: the thread ended with a copy under way, in no group: cp.async.commit_group is missing, and a wait" + IN + "\n  at +5")
    assert fails(AsyncError, cp_async(late), *arguments) == (
        "ptx.cp.async: the thread ended with a copy under way, in a group that no cp.async.wait_group covers" + IN + "\n  at +5")


def test_groups_are_each_threads_own() -> None:
    """Half of the threads commit a second, empty group, so that `wait_group 1` covers their copy."""
    def body(s: Any, A: Any, B: Any, tx: Any) -> None:
        T.ptx.cp.async_.commit_group()
        with T.If(tx < 16):
            T.ptx.cp.async_.commit_group()
        T.ptx.cp.async_.wait_group(1)

    text = fails(AsyncError, cp_async(body), numbers(64), np.zeros(64, np.float32))
    assert "in a group that no cp.async.wait_group covers\n  in block (0, 0, 0), thread (16, 0, 0)" in text


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("noinc", [False, True])
def test_copies_that_arrive_at_an_mbarrier(noinc: bool, seed: int | None) -> None:
    @trace
    def k(A: T.Buffer((64,), "float32"), B: T.Buffer((32,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        s, bar = T.alloc_shared((32,), "float32"), T.alloc_shared((1,), "uint64")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 32)
        T.cuda.cta_sync()
        with T.If(tx < 32):
            T.ptx["cp.async.ca.shared.global"](s.ptr_to([tx]), A.ptr_to([tx]), 4)
            if noinc:
                T.ptx.cp.async_.mbarrier.arrive.noinc.shared.b64(bar.ptr_to([0]))
            else:
                T.ptx.cp.async_.mbarrier.arrive.shared.b64(bar.ptr_to([0]))
                T.ptx.mbarrier.arrive.shared.b64(bar.ptr_to([0]))
        with T.Else():
            T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
            B[tx - 32] = s[63 - tx]

    a, b = numbers(64), np.zeros(32, np.float32)
    run(k, a, b, seed=seed)
    assert (b == a[31::-1]).all()


def test_addresses_of_copies_are_checked() -> None:
    def kernel(size: int, at: int) -> Any:
        @trace
        def k(A: T.Buffer((64,), "float32"), p: T.int32) -> None:
            T.device_entry()
            s = T.alloc_shared((64,), "float32")
            T.thread_id([1])
            T.ptx["cp.async.ca.shared.global"](s.ptr_to([at]), A.ptr_to([p]), size)
            T.ptx.cp.async_.wait_all()
        return k

    assert fails(MisalignedAccessError, kernel(8, 1), numbers(64), 2) == (
        "store of s[1] needs an address that is a multiple of 8, not 0x4" + IN + "\n  at +4")
    assert fails(OutOfBoundsError, kernel(16, 60), numbers(64), 62) == (
        "load of A[62] of 16 bytes touches byte 263 of A, which has 256" + IN + "\n  at +4")


# ---- bulk copies -----------------------------------------------------------------------------------------------------------------

def load_bulk(dst: Any, src: Any, size: int, bar: Any) -> None:
    T.ptx["cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"](dst, src, size, bar)


def store_bulk(dst: Any, src: Any, size: int) -> None:
    T.ptx["cp.async.bulk.global.shared::cta.bulk_group"](dst, src, size)


def expect(bar: Any, size: int) -> None:
    T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar, size)


@pytest.mark.parametrize("seed", SEEDS)
def test_bulk_copies_in_and_out(seed: int | None) -> None:
    """A producer thread fills two stages; the others double what is there; one thread copies it out."""
    @trace
    def k(A: T.Buffer((6, 128), "float32"), B: T.Buffer((6, 128), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([160])
        s, out = T.alloc_shared((2, 128), "float32"), T.alloc_shared((128,), "float32")
        full, empty = T.alloc_shared((2,), "uint64"), T.alloc_shared((2,), "uint64")
        with T.If(tx == 0):
            for n in range(2):
                T.ptx.mbarrier.init.shared.b64(full.ptr_to([n]), 1)
                T.ptx.mbarrier.init.shared.b64(empty.ptr_to([n]), 128)
            T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cta_sync()
        with T.If(tx >= 128):
            with T.If(tx == 128):
                for i in T.serial(6):
                    T.cuda.mbarrier_wait(empty.ptr_to([i % 2]), (i // 2 + 1) % 2)
                    expect(full.ptr_to([i % 2]), 512)
                    load_bulk(s.ptr_to([i % 2, 0]), A.ptr_to([i, 0]), 256, full.ptr_to([i % 2]))
                    load_bulk(s.ptr_to([i % 2, 64]), A.ptr_to([i, 64]), 256, full.ptr_to([i % 2]))
        with T.Else():
            for i in T.serial(6):
                T.cuda.mbarrier_wait(full.ptr_to([i % 2]), i // 2 % 2)
                with T.If(tx == 0):
                    T.ptx.cp.async_.bulk.wait_group.read(0)
                T.ptx.bar.sync(1, 128)
                out[tx] = s[i % 2, tx] * 2.0
                T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([i % 2]))
                T.ptx.fence.proxy.async_.shared__cta()
                T.ptx.bar.sync(1, 128)
                with T.If(tx == 0):
                    store_bulk(B.ptr_to([i, 0]), out.ptr_to([0]), 512)
                    T.ptx.cp.async_.bulk.commit_group()
            with T.If(tx == 0):
                T.ptx.cp.async_.bulk.wait_group.read(0)

    a, b = numbers(6, 128), np.zeros((6, 128), np.float32)
    run(k, a, b, seed=seed)
    assert (b == 2 * a).all()


def bulk(body: Any) -> Any:
    """Thread 0 runs `body(s, A, B, bar)`, on an mbarrier that counts one arrival."""
    @trace
    def k(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        s, bar = T.alloc_shared((64,), "float32"), T.alloc_shared((1,), "uint64")
        s[tx] = 7.0
        s[tx + 32] = 7.0
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.warp_sync()
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1); T.ptx.fence.mbarrier_init.release.cluster()
            body(s, A, B, bar.ptr_to([0]))
    return k


def test_bulk_sources_are_read_late() -> None:
    """What is overwritten before `wait_group.read` is what comes out."""
    def body(s: Any, A: Any, B: Any, bar: Any) -> None:
        store_bulk(B.ptr_to([0]), s.ptr_to([0]), 64)
        T.ptx.cp.async_.bulk.commit_group()
        s[1] = 5.0
        T.ptx.cp.async_.bulk.wait_group.read(0)
        s[2] = 5.0

    b = np.zeros(64, np.float32)
    run(bulk(body), numbers(64), b, checks=ALONE)
    assert b[:17].tolist() == [7, 5] + [7] * 14 + [0]


def test_bulk_reductions() -> None:
    def body(s: Any, A: Any, B: Any, bar: Any) -> None:
        T.ptx["cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"](B.ptr_to([16]), s.ptr_to([0]), 64)
        T.ptx.cp.async_.bulk.commit_group()
        T.ptx.cp.async_.bulk.wait_group(0)

    b = numbers(64)
    run(bulk(body), numbers(64), b)
    assert (b == numbers(64) + np.where((np.arange(64) >= 16) & (np.arange(64) < 32), 7, 0)).all()


def said(error: type[Exception], body: Any) -> str:
    return fails(error, bulk(body), numbers(64), np.zeros(64, np.float32)).partition("\n  at +")[0]


def test_bulk_copies_that_nobody_waits_for() -> None:
    def group(committed: bool) -> Any:
        def body(s: Any, A: Any, B: Any, bar: Any) -> None:
            store_bulk(B.ptr_to([0]), s.ptr_to([0]), 64)
            if committed:
                T.ptx.cp.async_.bulk.commit_group()
        return body

    assert said(AsyncError, group(False)) == (
        "ptx.cp.async.bulk: the thread ended with a copy under way, in no group: cp.async.bulk.commit_group is missing, and a wait" + IN)
    assert said(AsyncError, group(True)) == (
        "ptx.cp.async.bulk: the thread ended with a copy under way, in a group that no cp.async.bulk.wait_group covers" + IN)

    def unwaited(s: Any, A: Any, B: Any, bar: Any) -> None:
        expect(bar, 64)
        load_bulk(s.ptr_to([0]), A.ptr_to([0]), 64, bar)

    assert said(AsyncError, unwaited) == (
        "block (0, 0, 0) has ended, and ptx.cp.async.bulk on its shared memory is still under way: nobody waited for it\n"
        "  issued by block (0, 0, 0), thread (0, 0, 0)")


def test_a_copy_that_landed_and_nobody_looked() -> None:
    def body(s: Any, A: Any, B: Any, bar: Any) -> None:
        expect(bar, 64)
        load_bulk(s.ptr_to([0]), A.ptr_to([0]), 64, bar)

    for seed in range(8):       # with some of these it lands at once
        text = fails(AsyncError, bulk(body), numbers(64), np.zeros(64, np.float32), seed=seed)
        if "under way" not in text:
            break
    assert text.startswith("block (0, 0, 0) has ended, and ptx.cp.async.bulk on its shared memory has brought its bytes to bar[0], but nobody has "
                           "waited for its phase 0\n  issued by block (0, 0, 0), thread (0, 0, 0)")


def test_more_bytes_are_expected_than_come() -> None:
    def body(s: Any, A: Any, B: Any, bar: Any) -> None:
        expect(bar, 128)
        load_bulk(s.ptr_to([0]), A.ptr_to([0]), 64, bar)
        T.cuda.mbarrier_wait(bar, 0)

    text = said(DeadlockError, body)
    assert "cuda.mbarrier_wait waits for bar[0], phase 0 (parity 0): it waits for 64 bytes (phase 0); arrivals come from " in text


def test_fewer_bytes_are_expected_than_come() -> None:
    def body(s: Any, A: Any, B: Any, bar: Any) -> None:
        expect(bar, 64)
        load_bulk(s.ptr_to([0]), A.ptr_to([0]), 64, bar)
        load_bulk(s.ptr_to([16]), A.ptr_to([16]), 64, bar)
        T.cuda.mbarrier_wait(bar, 0)
        T.cuda.mbarrier_wait(bar, 1)

    assert said(MBarrierError, body) == (
        "ptx.cp.async.bulk: 64 bytes come to bar[0] after the phase in which they were asked for (phase 0, now 1): fewer bytes were expected "
        "(expect_tx) than are copied" + IN)


def test_bulk_operands() -> None:
    def sized(size: int, first: int = 0) -> Any:
        return lambda s, A, B, bar: [expect(bar, size), load_bulk(s.ptr_to([first]), A.ptr_to([0]), size, bar)]

    def read(s: Any, A: Any, B: Any, bar: Any) -> None:
        load_bulk(s.ptr_to([0]), A.ptr_to([0]), (A[0] * 40.0).astype("uint32"), bar)

    assert said(MisalignedAccessError, read) == "ptx.cp.async.bulk: 40 bytes; bulk copies move multiples of 16" + IN
    assert said(MisalignedAccessError, sized(64, 2)) == "store of s[2] needs an address that is a multiple of 16, not 0x8" + IN
    assert said(OutOfBoundsError, sized(512)) == "load of A[0] of 512 bytes touches byte 511 of A, which has 256" + IN

    @trace
    def k(B: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        s = T.alloc_shared((64,), "float32")
        s[tx] = 1.0
        T.cuda.warp_sync()
        with T.If(tx == 0):
            store_bulk(B.ptr_to([0]), s.ptr_to([0]), 256)
            T.ptx.cp.async_.bulk.commit_group()
            T.ptx.cp.async_.bulk.wait_group(0)

    assert fails(UninitializedReadError, k, np.zeros(64, np.float32)).startswith("load of s[0] reads shared memory that nothing has written" + IN)


def test_an_mbarrier_that_ends_under_a_copy() -> None:
    def body(s: Any, A: Any, B: Any, bar: Any) -> None:
        expect(bar, 64)
        load_bulk(s.ptr_to([0]), A.ptr_to([0]), 64, bar)
        T.ptx.mbarrier.inval.shared.b64(bar)

    assert said(MBarrierError, body).startswith(
        "ptx.mbarrier.inval: bar[0] is invalidated while 1 operations still bring bytes to it, the first issued at ")
