"""Warps that wait for each other: barriers, turns, loops that poll, deadlocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.simulator.program import program_of
from tests.simulator.running import ALONE, fails, run
from tracer import T, trace
from tracer.errors import BarrierDivergenceError, BarrierError, DeadlockError

SEEDS = (None, 1, 2, 3)


def warps(kernel: Any) -> bool:
    return program_of(kernel.half, True).warps


# ---- which kernels take an agent a warp ----------------------------------------------------------------------------------------

def test_barriers_of_the_block_alone_run_in_lockstep() -> None:
    @trace
    def k(A: T.Buffer((64,), "int32"), n: T.int32) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        s = T.alloc_shared((64,), "int32")
        s[tx] = A[tx]
        T.cuda.cta_sync()
        stride = T.local_scalar("int32", 32)
        with T.While(lambda: stride > 0):
            with T.If(tx < stride):
                s[tx] = s[tx] + s[tx + stride]
            T.cuda.cta_sync()
            stride //= 2
        A[tx] = s[0]

    assert not warps(k)
    a = np.arange(64, dtype=np.int32)
    run(k, a, 0)
    assert (a == 2016).all()


def looking(where: Callable[[Any, Any], Any], stored: bool) -> Any:
    """A loop that looks at `A[where(i, tx)]`, with a counter `i`."""
    @trace
    def k(A: T.Buffer((128,), "int32"), B: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        if stored:
            A[tx] = 2 * tx
            T.cuda.cta_sync()
        i = T.local_scalar("int32", 0)
        with T.While(lambda: A[where(i, tx)] < 40):
            i += 1
        B[tx] = i
    return k


@pytest.mark.parametrize("where, place", [
    (lambda i, tx: i, lambda i, t: i), (lambda i, tx: i * 2 + 3, lambda i, t: i * 2 + 3),
    (lambda i, tx: T.min(tx, 30) + i, lambda i, t: min(t, 30) + i),
])
def test_a_loop_that_goes_over_memory_does_not_wait_there(where: Callable[..., Any], place: Callable[[int, int], int]) -> None:
    k = looking(where, stored=True)
    assert not warps(k)
    a, b = np.full(128, 50, np.int32), np.zeros(64, np.int32)
    run(k, a, b)
    assert b.tolist() == [next(i for i in range(64) if a[place(i, t)] >= 40) for t in range(64)]


def test_a_loop_that_looks_at_one_place_waits_unless_nobody_writes() -> None:
    assert not warps(looking(lambda i, tx: tx, stored=False))
    assert warps(looking(lambda i, tx: tx, stored=True))
    assert warps(looking(lambda i, tx: i % 4, stored=True))


# ---- barriers ------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", SEEDS)
def test_named_barriers_order_producers_and_consumers(seed: int | None) -> None:
    """One warp stores and goes on (`bar.arrive`), the other waits (`bar.sync`); then the other way round."""
    @trace
    def k(A: T.Buffer((4, 32), "int32"), B: T.Buffer((4, 32), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        s = T.alloc_shared((32,), "int32")
        with T.If(tx < 32):
            for i in T.serial(4):
                s[tx] = A[i, tx] * 2
                T.ptx.bar.arrive(1, 64)
                T.ptx.bar.sync(2, 64)
        with T.Else():
            for i in T.serial(4):
                T.ptx.bar.sync(1, 64)
                B[i, tx - 32] = s[tx - 32]
                T.ptx.bar.arrive(2, 64)

    assert warps(k)
    a, b = np.arange(128, dtype=np.int32).reshape(4, 32), np.zeros((4, 32), np.int32)
    run(k, a, b, seed=seed)
    assert (b == 2 * a).all()


def test_warpgroups_sync_by_themselves_and_a_warp_that_has_ended_is_not_waited_for() -> None:
    @trace
    def k(A: T.Buffer((256,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([256])
        with T.If(tx >= 224):
            T.return_()
        with T.If(tx < 128):
            s = T.alloc_shared((128,), "int32")
            s[tx] = tx
            T.cuda.warpgroup_sync(3)
            A[tx] = s[127 - tx]
        T.cuda.cta_sync()

    a = np.zeros(256, np.int32)
    report = run(k, a)
    assert a[:128].tolist() == list(range(127, -1, -1))
    assert [re.sub(r"\S+:\d+", "FILE", note) for note in report.notes] == ["cuda.cta_sync at FILE: some threads of a block have returned before it"]


def test_reductions_at_a_barrier() -> None:
    @trace
    def k(A: T.Buffer((64,), "int32"), B: T.Buffer((3,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        r = T.alloc_local((1,), "uint32")
        p = T.alloc_local((2,), "bool")
        T.ptx.barrier.cta.red.popc.aligned.u32(r[0], 1, 64, A[tx] > 9)
        T.ptx.barrier.red["and"](p[0], 1, A[tx] >= 0)
        T.ptx.barrier.red["or"](p[1], 1, A[tx] > 62)
        with T.If(tx == 5):
            B[0] = r[0]
            B[1] = p[0].astype("uint32")
            B[2] = p[1].astype("uint32")

    b = np.full(3, 9, np.uint32)
    run(k, np.arange(64, dtype=np.int32), b)
    assert b.tolist() == [54, 1, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_without_aligned_the_lanes_of_a_warp_may_come_one_after_the_other(seed: int | None) -> None:
    @trace
    def k(A: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        s = T.alloc_shared((64,), "int32")
        with T.If(tx < 40):
            s[tx] = tx
            T.ptx.barrier.sync(1, 64)
            A[tx] = s[63 - tx]
        with T.Else():
            s[tx] = 2 * tx
            T.ptx.barrier.sync(1, 64)
            A[tx] = s[63 - tx]

    a = np.zeros(64, np.int32)
    run(k, a, seed=seed)
    assert a[::-1].tolist() == [*range(40), *range(80, 128, 2)]


def test_a_part_of_a_warp_at_a_barrier() -> None:
    @trace
    def k(A: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        with T.If(tx < 40):
            T.ptx.bar.sync(1, 64)

    assert fails(BarrierDivergenceError, k, np.zeros(64, np.int32)) == (
        "ptx.bar.sync: a part of a warp is at the barrier, which a warp reaches as a whole\n"
        "  in block (0, 0, 0), warp 1, lanes 0-7; not there: lanes 8-31\n  parted by the if at +3\n  at +4")


def test_counts_that_differ_arrivals_twice_and_wrong_numbers() -> None:
    def kernel(body: Any) -> Any:
        def k(A: T.Buffer((64,), "int32")) -> None:
            T.device_entry()
            tx = T.thread_id([64])
            body(tx)
        return trace(k)

    def two(first: Any, second: Any) -> Any:
        def body(tx: Any) -> None:
            with T.If(tx < 32):
                first()
            with T.Else():
                second()
        return kernel(body)

    def said(body: Any) -> str:
        with pytest.raises(BarrierError) as caught:
            run(body, np.zeros(64, np.int32))
        return re.sub(r"\S+/(\w+\.py):\d+", r"\1", str(caught.value))

    assert said(two(lambda: T.ptx.bar.sync(1, 64), lambda: T.ptx.bar.sync(1, 32))) == (
        "ptx.bar.sync: 32 threads meet at barrier 1, but warp 0 expects 64 threads at test_machine.py\n"
        "  in block (0, 0, 0), warp 1\n  at test_machine.py")
    assert said(two(lambda: [T.ptx.bar.arrive(1, 64), T.ptx.bar.arrive(1, 64)], lambda: None)) == (
        "ptx.bar.arrive: the warp arrives at barrier 1 a second time before it is complete (barrier 1, at which 32 of 64 threads have arrived)\n"
        "  in block (0, 0, 0), warp 0, first at test_machine.py\n  at test_machine.py")
    assert said(kernel(lambda tx: T.ptx.bar.sync(tx // 64 + 16, 64))) == (
        "ptx.bar.sync: there is no barrier 16; a block has 0 to 15\n  in block (0, 0, 0), warp 0\n  at test_machine.py")
    assert said(kernel(lambda tx: T.ptx.bar.sync(1, tx // 64 + 48))) == (
        "ptx.bar.sync: a count of 48 threads; it is a multiple of 32 from 32 to the block's 64\n  in block (0, 0, 0), warp 0\n  at test_machine.py")
    assert said(kernel(lambda tx: T.ptx.bar.sync(tx % 2, 64))) == (
        "ptx.bar.sync: the barrier differs between the threads of a warp: 0, 1\n  in block (0, 0, 0), warp 0\n  at test_machine.py")


def test_a_cta_sync_that_some_warps_go_past() -> None:
    """As in lockstep: they end without having returned."""
    @trace
    def k(A: T.Buffer((128,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([128])
        T.ptx.bar.sync(1, 128)
        with T.If(tx < 64):
            T.cuda.cta_sync()

    assert fails(BarrierDivergenceError, k, np.zeros(128, np.int32)) == (
        "cuda.cta_sync: threads of block (0, 0, 0) wait for others that do not come\n  waiting: 0-63\n  not there: 64-127\n"
        "  at +5")


def test_cta_sync_on_two_lines() -> None:
    @trace
    def k(A: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        T.ptx.bar.sync(1, 64)
        with T.If(tx < 32):
            T.cuda.cta_sync()
        with T.Else():
            T.cuda.cta_sync()

    assert fails(BarrierDivergenceError, k, np.zeros(64, np.int32)) == (
        "cuda.cta_sync: warps of block (0, 0, 0) wait at different ones, which CUDA leaves undefined\n  warp 1 at +7, warp 0 at +5")


# ---- deadlocks -----------------------------------------------------------------------------------------------------------------

def test_a_barrier_that_too_few_threads_reach() -> None:
    @trace
    def k(A: T.Buffer((128,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([128])
        with T.If(tx < 64):
            T.ptx.bar.sync(1, 96)
        with T.Else():
            T.ptx.bar.sync(2)

    assert fails(DeadlockError, k, np.zeros(128, np.int32)) == (
        "deadlock: every thread that has not ended waits for what nobody left can bring\n"
        "  (0, 0, 0) warp 0, (0, 0, 0) warp 1: ptx.bar.sync waits at barrier 1, at which 64 of 96 threads have arrived\n"
        "    at +4\n"
        "  (0, 0, 0) warp 2, (0, 0, 0) warp 3: ptx.bar.sync waits at barrier 2, at which 2 of the block's 4 warps that run have arrived\n"
        "    at +6")


def test_warps_that_have_ended_are_told_and_arrivals_that_are_left_noted() -> None:
    def kernel(meet: bool) -> Any:
        @trace
        def k(A: T.Buffer((128,), "int32")) -> None:
            T.device_entry()
            tx = T.thread_id([128])
            with T.If(tx < 32):
                T.ptx.bar.arrive(1, 64)
            with T.If(tx >= 96):
                if meet:
                    T.ptx.bar.sync(2, 64)
        return k

    assert fails(DeadlockError, kernel(True), np.zeros(128, np.int32)) == (
        "deadlock: every thread that has not ended waits for what nobody left can bring\n"
        "  (0, 0, 0) warp 3: ptx.bar.sync waits at barrier 2, at which 32 of 64 threads have arrived\n    at +7\n"
        "  ended: (0, 0, 0) warps 0-2")
    notes = run(kernel(False), np.zeros(128, np.int32)).notes
    assert [re.sub(r"\S+:\d+", "FILE", note) for note in notes] == [
        "ptx.bar.arrive at FILE: the block ended with arrivals left at barrier 1, at which 32 of 64 threads have arrived"]


def test_a_flag_that_nobody_sets() -> None:
    @trace
    def k(A: T.Buffer((2,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        with T.If(tx == 3):
            with T.While(lambda: A[0] == 0):
                pass
        A[1] = 1

    assert fails(DeadlockError, k, np.zeros(2, np.int32)) == (
        "deadlock: every thread that has not ended waits for what nobody left can bring\n"
        "  (0, 0, 0) warp 0 lane 3: the loop polls memory, which nobody changes; lanes 0-2, 4-31 of the warp wait for them behind the while at +4\n"
        "    at +4")


def test_blocks_wait_for_later_ones_that_start_when_needed() -> None:
    """Each block waits for the flag of the next; the last one sets its own."""
    @trace
    def k(F: T.Buffer((6,), "int32"), order: T.Buffer((6,), "int32"), count: T.Buffer((1,), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([6]), T.thread_id([32])
        with T.If(tx == 0):
            with T.If(bx < 5):
                with T.While(lambda: T.cuda.atomic_add(F.ptr_to([bx + 1]), 0) == 0):
                    T.cuda.nano_sleep(100)
            order[T.cuda.atomic_add(count.ptr_to([0]), 1)] = bx
            T.cuda.thread_fence()
            T.cuda.atomic_exch(F.ptr_to([bx]), 1)

    order = np.zeros(6, np.int32)
    run(k, np.zeros(6, np.int32), order, np.zeros(1, np.int32))
    assert order.tolist() == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_of_one_warp_that_wait_for_each_other_in_the_branches_of_an_if(seed: int | None) -> None:
    @trace
    def k(A: T.Buffer((32,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        s = T.alloc_shared((1,), "uint64")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(s.ptr_to([0]), 31)
        T.cuda.warp_sync()
        with T.If(tx == 0):
            for _ in T.serial(1):
                T.cuda.mbarrier_wait(s.ptr_to([0]), 0)
                with T.If(A[0] == 0):
                    T.break_()
            A[0] = A[31] + 1
        with T.Else():
            for i in T.serial(3):
                with T.If(i == 1):
                    T.continue_()
                A[tx] = A[tx] + 5
            T.ptx.mbarrier.arrive.shared.b64(s.ptr_to([0]))

    a = np.zeros(32, np.int32)
    run(k, a, seed=seed)
    assert a.tolist() == [11] + [10] * 31


def test_lanes_that_poll_leave_other_warps_their_turn() -> None:
    """Lane 0 counts up at every turn, and so changes memory, until warp 1 says stop."""
    @trace
    def k(A: T.Buffer((3,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        with T.If(tx < 32):
            with T.If(tx == 0):
                with T.While(lambda: T.cuda.atomic_add(A.ptr_to([0]), 1) < 1000000):
                    pass
            with T.Else():
                A[2] = 1
        with T.Else():
            with T.If(tx == 32):
                with T.While(lambda: T.cuda.atomic_add(A.ptr_to([0]), 0) < 5):
                    pass
                T.cuda.atomic_add(A.ptr_to([0]), 1000000)

    a = np.zeros(3, np.int32)
    run(k, a, checks=ALONE)
    assert 1000006 <= a[0] < 1000100


def test_a_clock_that_is_waited_for_in_vain() -> None:
    @trace
    def k(A: T.Buffer((2,), "int32")) -> None:
        T.device_entry()
        T.thread_id([32])
        with T.While(lambda: (A[0] == 0) & (T.cuda.clock64() >= 0)):
            pass
        A[1] = 1

    assert "the loop polls memory, which nobody changes" in fails(DeadlockError, k, np.zeros(2, np.int32))


def test_both_branches_wait_for_ever() -> None:
    @trace
    def k(A: T.Buffer((32,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        s = T.alloc_shared((2,), "uint64")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(s.ptr_to([0]), 1)
            T.ptx.mbarrier.init.shared.b64(s.ptr_to([1]), 1)
        T.cuda.warp_sync()
        with T.If(tx < 8):
            T.cuda.mbarrier_wait(s.ptr_to([0]), 0)
        with T.Else():
            T.cuda.mbarrier_wait(s.ptr_to([1]), 0)
        T.ptx.mbarrier.arrive.shared.b64(s.ptr_to([0]))

    assert fails(DeadlockError, k, np.zeros(32, np.int32)) == (
        "deadlock: every thread that has not ended waits for what nobody left can bring\n"
        "  (0, 0, 0) warp 0 lanes 0-7: cuda.mbarrier_wait waits for s[0], phase 0 (parity 0): it waits for 1 of 1 arrivals (phase 0); "
        "arrivals come from +12\n    at +9\n"
        "  (0, 0, 0) warp 0 lanes 8-31: cuda.mbarrier_wait waits for s[1], phase 0 (parity 0): it waits for 1 of 1 arrivals (phase 0); "
        "arrivals come from +12\n    at +11")


# ---- loops that poll -----------------------------------------------------------------------------------------------------------

def test_a_loop_that_gives_up_after_some_turns_ends() -> None:
    @trace
    def k(A: T.Buffer((2,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        n = T.local_scalar("int32", 0)
        with T.While(lambda: (A[0] == 0) & (n < 1000)):
            n += 1
        with T.If(tx == 0):
            A[1] = n

    assert warps(k)
    a = np.zeros(2, np.int32)
    run(k, a, checks=ALONE)
    assert a[1] == 1000


def test_a_loop_that_gives_up_waits_for_a_later_block_first() -> None:
    @trace
    def k(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([32])
        n = T.local_scalar("int32", 0)
        with T.If(tx == 0):
            with T.If(bx == 0):
                with T.While(lambda: (T.cuda.atomic_add(A.ptr_to([0]), 0) == 0) & (n < 3)):
                    n += 1
                B[0] = n
            with T.Else():
                T.cuda.atomic_exch(A.ptr_to([0]), 1)

    b = np.full(2, -1, np.int32)
    run(k, np.zeros(2, np.int32), b)
    assert b[0] == 1


def test_a_clock_ends_a_loop() -> None:
    @trace
    def k(A: T.Buffer((2,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        start = T.let(T.cuda.clock64())
        with T.While(lambda: (A[0] == 0) & (T.cuda.clock64() - start < 10**12)):
            pass
        with T.While(lambda: T.cuda.clock64() - start < 10**14):
            pass
        with T.If(tx == 0):
            A[1] = 7

    a = np.zeros(2, np.int32)
    run(k, a, checks=ALONE)
    assert a[1] == 7


@pytest.mark.parametrize("warps_wait", [False, True])
def test_a_loop_that_never_ends(warps_wait: bool) -> None:
    @trace
    def k(A: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        if warps_wait:
            T.ptx.bar.sync(1, 64)
        x, n = T.local_scalar("int32", 0), T.local_scalar("int32", 0)
        with T.While(lambda: (x < 2) | (tx == 40)):
            x.assign(T.min(x + 1, 2))
            n += 1
        A[tx] = n

    assert warps(k) == warps_wait
    assert fails(DeadlockError, k, np.zeros(64, np.int32)) == (
        "the loop never ends: nothing has changed that its condition depends on (1025 turns so far)\n"
        "  in block (0, 0, 0), thread (40, 0, 0)\n  at +6")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spin_lock_of_one_lane_a_warp(seed: int | None) -> None:
    @trace
    def k(lock: T.Buffer((1,), "int32"), A: T.Buffer((1,), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([3]), T.thread_id([128])
        with T.If(tx % 32 == 0):
            with T.While(lambda: T.cuda.atomic_cas(lock.ptr_to([0]), 0, 1) != 0):
                pass
            T.cuda.thread_fence()
            A[0] = A[0] + 1
            T.cuda.thread_fence()
            T.cuda.atomic_exch(lock.ptr_to([0]), 0)

    a = np.zeros(1, np.int32)
    run(k, np.zeros(1, np.int32), a, seed=seed, checks=ALONE)
    assert a[0] == 12


def test_a_spin_lock_of_every_lane_is_a_deadlock_that_says_so() -> None:
    """The lane that has the lock waits behind the loop for the others of its warp."""
    @trace
    def k(lock: T.Buffer((1,), "int32"), A: T.Buffer((1,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        with T.While(lambda: T.cuda.atomic_cas(lock.ptr_to([0]), 0, 1) != 0):
            pass
        A[0] = A[0] + 1
        T.cuda.atomic_exch(lock.ptr_to([0]), 0)

    assert fails(DeadlockError, k, np.zeros(1, np.int32), np.zeros(1, np.int32)) == (
        "deadlock: every thread that has not ended waits for what nobody left can bring\n"
        "  (0, 0, 0) warp 0 lanes 1-31: the loop polls memory, which nobody changes; lane 0 of the warp wait for them behind the while "
        "at +3\n    at +3")


def test_sampled_blocks_and_an_odd_number_of_threads() -> None:
    @trace
    def k(A: T.Buffer((5, 40), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([5]), T.thread_id([40])
        r = T.alloc_local((4,), "int32")
        r[tx % 4] = tx
        T.ptx.bar.sync(1, 64)
        A[bx, tx] = r[tx % 4] + bx

    a = np.zeros((5, 40), np.int32)
    run(k, a, blocks=[1, 3])
    assert (a[[1, 3]] == np.arange(40) + np.array([[1], [3]])).all() and not a[[0, 2, 4]].any()
