"""mbarriers: pipelines that work in every order, and each misuse with its message."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.simulator.running import ALONE, run
from tracer import T, trace
from tracer.errors import DeadlockError, MBarrierError

SEEDS = (None, 1, 2, 3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("polled", [False, True])
def test_a_pipeline_of_two_stages(seed: int | None, polled: bool) -> None:
    """Two warps fill stages and two empty them, each waiting for the parity of the stage's round."""
    def wait(pointer: Any, parity: Any) -> None:
        if not polled:
            T.cuda.mbarrier_wait(pointer, parity)
            return
        done = T.alloc_local((1,), "uint32")
        done[0] = 0
        with T.While(lambda: done[0] == 0):
            T.ptx.mbarrier.try_wait.parity.shared__cta.b64(done[0], pointer, parity.astype("uint32"))

    @trace
    def k(A: T.Buffer((9, 64), "float32"), B: T.Buffer((9, 64), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([128])
        s = T.alloc_shared((2, 64), "float32")
        full, empty = T.alloc_shared((2,), "uint64"), T.alloc_shared((2,), "uint64")
        with T.If(tx == 0):
            for n in range(2):
                T.ptx.mbarrier.init.shared.b64(full.ptr_to([n]), 64)
                T.ptx.mbarrier.init.shared.b64(empty.ptr_to([n]), 64)
        T.cuda.cta_sync()
        with T.If(tx < 64):
            for i in T.serial(9):
                wait(empty.ptr_to([i % 2]), (i // 2 + 1) % 2)
                s[i % 2, tx] = A[i, tx] * 2.0
                T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([i % 2]))
        with T.Else():
            for i in T.serial(9):
                wait(full.ptr_to([i % 2]), i // 2 % 2)
                B[i, tx - 64] = s[i % 2, tx - 64] + 1.0
                T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([i % 2]))

    a = np.random.default_rng(0).standard_normal((9, 64), dtype=np.float32)
    b = np.zeros_like(a)
    run(k, a, b, seed=seed)
    assert (b == a * 2 + 1).all()


def test_states_counts_and_drops() -> None:
    @trace
    def k(A: T.Buffer((8,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        s = T.alloc_shared((1,), "uint64")
        state, r = T.alloc_local((3,), "uint64"), T.alloc_local((8,), "uint32")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(s.ptr_to([0]), 5)
            T.ptx.mbarrier.arrive.noComplete.shared.b64(state[0], s.ptr_to([0]), 2)
            T.ptx.mbarrier.pending_count.b64(r[0], state[0])
            T.ptx.mbarrier.arrive_drop.shared.b64(state[1], s.ptr_to([0]))
            T.ptx.mbarrier.pending_count.b64(r[1], state[1])
            T.ptx.mbarrier.test_wait.shared.b64(r[2], s.ptr_to([0]), state[1])
            T.ptx.mbarrier.arrive.shared.b64(s.ptr_to([0]), 2)
            T.ptx.mbarrier.test_wait.shared.b64(r[3], s.ptr_to([0]), state[1])
            T.ptx.mbarrier.test_wait.parity.shared.b64(r[4], s.ptr_to([0]), 0)
            T.ptx.mbarrier.test_wait.parity.shared.b64(r[5], s.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.shared.b64(state[2], s.ptr_to([0]), 4)       # the drop left four
            T.ptx.mbarrier.pending_count.b64(r[6], state[2])
            T.ptx.mbarrier.test_wait.parity.shared.b64(r[7], s.ptr_to([0]), 1)
            T.ptx.mbarrier.inval.shared.b64(s.ptr_to([0]))
            T.ptx.mbarrier.init.shared.b64(s.ptr_to([0]), 1)
            for n in range(8):
                A[n] = r[n]

    a = np.zeros(8, np.uint32)
    run(k, a)
    assert a.tolist() == [5, 3, 0, 1, 1, 0, 4, 1]


def test_lanes_at_barriers_of_their_own() -> None:
    @trace
    def k(A: T.Buffer((32,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        s = T.alloc_shared((32,), "uint64")
        T.ptx.mbarrier.init.shared.b64(s.ptr_to([tx]), 1)
        T.cuda.warp_sync()
        T.ptx.mbarrier.arrive.shared.b64(s.ptr_to([31 - tx]))
        T.cuda.mbarrier_wait(s.ptr_to([tx]), 0)
        A[tx] = 1

    a = np.zeros(32, np.int32)
    run(k, a)
    assert a.all()


def test_bytes_that_threads_count() -> None:
    @trace
    def k(A: T.Buffer((2,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        s, r = T.alloc_shared((1,), "uint64"), T.alloc_local((2,), "uint32")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(s.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.expect_tx.shared.b64(s.ptr_to([0]), 64)
            T.ptx.mbarrier.complete_tx.relaxed.cta.shared__cta.b64(s.ptr_to([0]), 16)
            T.ptx.mbarrier.test_wait.parity.shared.b64(r[0], s.ptr_to([0]), 0)
            T.ptx.mbarrier.complete_tx.relaxed.cta.shared__cta.b64(s.ptr_to([0]), 48)
            T.ptx.mbarrier.test_wait.parity.shared.b64(r[1], s.ptr_to([0]), 0)
            A[0] = r[0]
            A[1] = r[1]

    a = np.zeros(2, np.uint32)
    run(k, a)
    assert a.tolist() == [0, 1]


# ---- misuse --------------------------------------------------------------------------------------------------------------------

IN = "\n  in block (0, 0, 0), thread (0, 0, 0)"


def one_thread(body: Callable[[Any], None]) -> Any:
    """`body(s)` is run by thread 0, on two mbarriers that nobody has initialised."""
    @trace
    def k(A: T.Buffer((2,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        s = T.alloc_shared((2,), "uint64")
        with T.If(tx == 0):
            body(s)
    return k


def said(body: Callable[[Any], None], error: type[Exception] = MBarrierError) -> str:
    """The message; lines counted from `body`'s first, those outside it are `elsewhere`."""
    with pytest.raises(error) as caught:
        run(one_thread(body), np.zeros(2, np.uint32), checks=ALONE)

    def place(found: re.Match[str]) -> str:
        line = int(found[1]) - body.__code__.co_firstlineno
        return f"+{line}" if 0 <= line < 20 else "elsewhere"

    return re.sub(r"(?:\S+/)?test_mbarriers\.py:(\d+)", place, str(caught.value))


def init(s: Any, count: int = 1) -> None:
    T.ptx.mbarrier.init.shared.b64(s.ptr_to([0]), count)


def arrive(s: Any, count: int = 1) -> None:
    T.ptx.mbarrier.arrive.shared.b64(s.ptr_to([0]), count)


def test_use_before_initialisation_and_behind_the_end() -> None:
    assert said(lambda s: arrive(s)).startswith(
        "ptx.mbarrier.arrive: s[0] is no mbarrier: no thread has initialised it yet (mbarrier.init, then a fence and a barrier of the block), or it "
        "was invalidated" + IN)
    assert said(lambda s: T.cuda.mbarrier_wait(s.ptr_to([1]), 0)).startswith("cuda.mbarrier_wait: s[1] is no mbarrier")
    assert "s[0] is no mbarrier" in said(lambda s: [init(s), T.ptx.mbarrier.inval.shared.b64(s.ptr_to([0])), arrive(s)])


def test_initialised_twice() -> None:
    assert said(lambda s: [init(s, 3), arrive(s), init(s)]) == (
        "ptx.mbarrier.init: s[0] is an mbarrier already, initialised at elsewhere, and waits for 2 of 3 arrivals (phase 0); mbarrier.inval ends it"
        + IN + "\n  at elsewhere")


def test_counts() -> None:
    def none(s: Any) -> None:
        zero = T.local_scalar("uint32", 0)
        T.ptx.mbarrier.init.shared.b64(s.ptr_to([0]), zero)

    assert "s[0] is given a count of 0; it is between 1 and 1048575" in said(none)
    assert "5 arrivals at s[0], which waits for 4 of 4 arrivals (phase 0): more than the 4 that mbarrier.init gave it at" in said(
        lambda s: [init(s, 4), arrive(s, 5)])
    assert "1 arrivals at s[0], which waits for 64 bytes (phase 0): more than the 1 that mbarrier.init gave it at" in said(
        lambda s: [init(s), T.ptx.mbarrier.arrive.expect_tx.shared.b64(s.ptr_to([0]), 64), arrive(s)])


def test_arrivals_for_which_nobody_waited() -> None:
    assert "arrives in phase 1 of s[0], though nobody has waited for phase 0: a wait is missing, or more threads arrive than the 1 that " \
        "mbarrier.init counts at" in said(lambda s: [init(s), arrive(s), arrive(s)])


def test_no_complete_that_completes() -> None:
    def body(s: Any) -> None:
        init(s, 2)
        state = T.alloc_local((1,), "uint64")
        T.ptx.mbarrier.arrive.noComplete.shared.b64(state[0], s.ptr_to([0]), 2)

    assert said(body) == (
        "ptx.mbarrier.arrive: the arrival would end the phase of s[0], which waits for 2 of 2 arrivals (phase 0); .noComplete promises that it does "
        "not" + IN + "\n  at +3")


def test_too_many_bytes() -> None:
    def body(s: Any) -> None:
        init(s)
        T.ptx.mbarrier.expect_tx.relaxed.cta.shared__cta.b64(s.ptr_to([0]), 1 << 19)
        T.ptx.mbarrier.expect_tx.relaxed.cta.shared__cta.b64(s.ptr_to([0]), 1 << 19)

    assert said(body) == (
        "ptx.mbarrier.expect_tx: 1048576 bytes outstanding at s[0]; an mbarrier counts up to 1048575 a phase" + IN + "\n  at +3")


def test_bytes_that_never_come() -> None:
    def body(s: Any) -> None:
        init(s)
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(s.ptr_to([0]), 128)

    assert said(body) == (
        "block (0, 0, 0) ended while s[0], initialised at elsewhere, waits for 128 bytes (phase 0): the bytes of expect_tx and those that are copied "
        "do not add up")


def test_parities_are_0_and_1() -> None:
    def body(s: Any) -> None:
        init(s)
        T.cuda.mbarrier_wait(s.ptr_to([0]), 2)

    assert said(body) == "cuda.mbarrier_wait: the parity 2; that of a phase is 0 or 1" + IN + "\n  at +2"


def test_a_state_two_phases_old() -> None:
    def body(s: Any) -> None:
        init(s)
        state, done = T.alloc_local((1,), "uint64"), T.alloc_local((1,), "uint32")
        T.ptx.mbarrier.arrive.shared.b64(state[0], s.ptr_to([0]))
        T.cuda.mbarrier_wait(s.ptr_to([0]), 0)
        arrive(s)
        T.cuda.mbarrier_wait(s.ptr_to([0]), 1)
        T.ptx.mbarrier.test_wait.shared.b64(done[0], s.ptr_to([0]), state[0])

    assert said(body) == (
        "ptx.mbarrier.test_wait: waits for phase 0 of s[0], which is in phase 2 already: two phases behind it looks like a later one. Its 1 arrivals "
        "a phase must come from all who wait for it, or behind their waits" + IN + "\n  at +7")


def test_a_waiter_that_is_overtaken_by_two_phases() -> None:
    """Warp 1 waits for each phase, warp 2 for the first only, and nobody waits for warp 2."""
    @trace
    def k(A: T.Buffer((2,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([96])
        s = T.alloc_shared((1,), "uint64")
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(s.ptr_to([0]), 1)
        T.cuda.cta_sync()
        with T.If(tx == 64):
            T.cuda.mbarrier_wait(s.ptr_to([0]), 0)
        with T.If(tx == 0):
            T.ptx.mbarrier.arrive.shared.b64(s.ptr_to([0]))
            T.cuda.mbarrier_wait(s.ptr_to([0]), 0)
            T.ptx.mbarrier.arrive.shared.b64(s.ptr_to([0]))

    found = set()
    for seed in range(12):
        try:
            run(k, np.zeros(2, np.uint32), seed=seed)
        except (MBarrierError, DeadlockError) as error:
            found.add(str(error).splitlines()[0][:57])
    assert "cuda.mbarrier_wait: waits for phase 0 of s[0], which is i" in found


def test_the_wrong_phase() -> None:
    def body(s: Any) -> None:
        init(s, 2)
        arrive(s)
        T.cuda.mbarrier_wait(s.ptr_to([0]), 0)

    assert said(body, DeadlockError) == (
        "deadlock: every thread that has not ended waits for what nobody left can bring\n"
        "  (0, 0, 0) warp 0 lane 0: cuda.mbarrier_wait waits for s[0], phase 0 (parity 0): it waits for 1 of 2 arrivals (phase 0); arrivals come "
        "from elsewhere; lanes 1-31 of the warp wait for them behind the if at elsewhere\n    at +3\n"
        "  ended: (0, 0, 0) warp 1")


def test_a_polling_loop_says_what_it_polls() -> None:
    def body(s: Any) -> None:
        init(s)
        done = T.alloc_local((1,), "uint32")
        done[0] = 0
        with T.While(lambda: done[0] == 0):
            T.ptx.mbarrier.try_wait.parity.shared__cta.b64(done[0], s.ptr_to([0]), 0)

    assert ("the loop polls: ptx.mbarrier.try_wait waits for s[0], phase 0 (parity 0): it waits for 1 of 1 arrivals (phase 0); nothing in the kernel "
            "arrives at it by that name") in said(body, DeadlockError)


def test_arrivals_by_other_names_are_told() -> None:
    def body(s: Any) -> None:
        init(s, 2)
        address = T.let(T.cuda.cvta_generic_to_shared(s.ptr_to([0])))
        T.ptx.mbarrier.arrive.shared.b64(address)
        T.cuda.mbarrier_wait(s.ptr_to([0]), 0)

    assert "it waits for 1 of 2 arrivals (phase 0); arrivals come from +3;" in said(body, DeadlockError)
