"""What a race is told as: exact texts, one for each reason; and what the options of `Checks` let pass or look for."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from runtime import Checks
from symbolic.layout import mma_shared_layout
from tracer import T, trace
from tracer.errors import (
    DataRaceError,
    NonFiniteError,
    SameValueRaceError,
    SimulationError,
    UninitializedReadError,
    UnwrittenOutputError,
)


def said(error: type[SimulationError], kernel: Any, *args: Any, checks: Checks | bool = True) -> str:
    """The message, with lines counted from the kernel's first."""
    with pytest.raises(error) as caught:
        trace(kernel).simulate(*args, checks=checks)
    first = kernel.__code__.co_firstlineno
    return re.sub(r"\S*test_messages\.py:(\d+)", lambda m: f"+{int(m[1]) - first}", str(caught.value))


def f32(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_threads_of_a_block() -> None:
    def k(A: T.Buffer((2, 64), "float32"), B: T.Buffer((2, 64), "float32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([64])
        tile = T.alloc_shared((64,), "float32")
        tile[tx] = A[bx, tx] + 1.0
        B[bx, tx] = tile[63 - tx]

    assert said(DataRaceError, k, f32(2, 64), f32(2, 64)) == (
        "data race on tile[63]: nothing orders these two\n"
        "  store of tile[63] = 64.0 by thread (63, 0, 0) of block (0, 0, 0)\n    at +4\n"
        "  load of tile[63] (64.0 here) by thread (0, 0, 0) of block (0, 0, 0)\n    at +5\n"
        "  Threads of a block are ordered by barriers alone: put a T.cuda.cta_sync() between the two.")


def test_lanes_of_a_warp_and_elements_of_a_swizzled_layout() -> None:
    def k(A: T.Buffer((32, 64), "bfloat16"), B: T.Buffer((32, 64), "bfloat16")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((32, 64), "bfloat16", layout=mma_shared_layout("bfloat16", "128B", (32, 64)), align=1024)
        for j in T.serial(64):
            tile[tx, j] = A[tx, j]
        for j in T.serial(64):
            B[tx, j] = tile[31 - tx, j]

    a = f32(32, 64).astype(ml_dtypes.bfloat16)
    assert said(DataRaceError, k, a, a.copy()) == (
        "data race on tile[31, 0]: nothing orders these two\n"
        "  store of tile[31, 0] = 1984.0 by thread (31, 0, 0) of block (0, 0, 0)\n    at +5\n"
        "  load of tile[31, 0] (1984.0 here) by thread (0, 0, 0) of block (0, 0, 0)\n    at +7\n"
        "  Lanes of a warp need not run in step, and shuffles and votes order no memory: put a T.cuda.warp_sync() between the two.")


def test_blocks() -> None:
    def k(A: T.Buffer((2, 32), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([32])
        A[bx, tx] = A[0, tx] + 1

    assert said(DataRaceError, k, np.zeros((2, 32), np.int32)) == (
        "data race on A[0, 0]: nothing orders these two\n"
        "  load of A[0, 0] (0 here) by thread (0, 0, 0) of block (1, 0, 0)\n    at +3\n"
        "  store of A[0, 0] = 1 by thread (0, 0, 0) of block (0, 0, 0)\n    at +3\n"
        "  Blocks run in any order, and a barrier of a block does not order others. Let one block alone use the element, use an atomic, or hand "
        "it over: T.cuda.thread_fence() and an atomic behind the first access; an atomic that reads it and T.cuda.thread_fence() before the second.")


def test_one_statement() -> None:
    def k(A: T.Buffer((4,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([16])
        A[tx // 4] = tx

    assert said(DataRaceError, k, np.zeros(4, np.int32)) == (
        "data race on A[0]: nothing orders these two\n"
        "  store of A[0] = 3 by thread (3, 0, 0) of block (0, 0, 0)\n    at +3\n"
        "  store of A[0] = 0 by thread (0, 0, 0) of block (0, 0, 0)\n    at +3\n"
        "  Several threads of one statement store to one element: let one of them do it (with T.If), or use an atomic.")


def test_an_atomic_and_a_plain_access() -> None:
    def k(A: T.Buffer((1,), "int32"), B: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        T.cuda.atomic_add(A.ptr_to([0]), 1)
        B[tx] = A[0]

    assert said(DataRaceError, k, np.zeros(1, np.int32), np.zeros(64, np.int32)) == (
        "data race on A[0]: nothing orders these two\n"
        "  atomic of A[0] by thread (63, 0, 0) of block (0, 0, 0)\n    at +3\n"
        "  load of A[0] (64 here) by thread (0, 0, 0) of block (0, 0, 0)\n    at +4\n"
        "  An atomic orders other atomics only, not the plain access of the same element: make both atomic, or put a T.cuda.cta_sync() between "
        "the two.")


def test_a_scope_that_does_not_reach() -> None:
    def k(A: T.Buffer((1,), "int32")) -> None:
        T.device_entry()
        T.cta_id([2])
        T.thread_id([1])
        T.cuda.atomic_add(A.ptr_to([0]), 1, scope="block")

    assert said(DataRaceError, k, np.zeros(1, np.int32)).endswith(
        "Both are atomic, but the scope of one does not reach the block of the other: use scope=\"device\".")


def same_value(A: T.Buffer((1,), "float32")) -> None:
    T.device_entry()
    T.thread_id([64])
    A[0] = 2.0


def test_the_same_value() -> None:
    assert said(SameValueRaceError, same_value, f32(1)) == (
        "threads race to store the same value to A[0]:\n"
        "  store of A[0] = 2.0 by thread (63, 0, 0) of block (0, 0, 0)\n    at +3\n"
        "  store of A[0] = 2.0 by thread (0, 0, 0) of block (0, 0, 0)\n    at +3\n"
        "  Several threads of one statement store to one element: let one of them do it (with T.If), or use an atomic.\n"
        "  Both store the same value, so the outcome is the same on today's hardware, but the order is nowhere said. Let one thread store it; or, "
        "if it is meant, ask for checks=Checks(same_value_writes=False).")
    a = f32(1)
    trace(same_value).simulate(a, checks=Checks(same_value_writes=False))
    assert a[0] == 2.0


def test_values_that_differ_are_no_same_value_race() -> None:
    def k(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        B[0] = A[tx]

    a = np.ones(64, np.float32)
    said(SameValueRaceError, k, a, f32(1))
    a[17] = 3.0
    with pytest.raises(DataRaceError) as caught:
        trace(k).simulate(a, f32(1), checks=Checks(same_value_writes=False))
    assert type(caught.value) is DataRaceError
    assert caught.value.buffer.name == "B" and [at.line for at in caught.value.locations] == [k.__code__.co_firstlineno + 3] * 2


def test_a_race_of_bytes_is_found_and_neighbours_do_not_race() -> None:
    def k(A: T.Buffer((64,), "uint8"), step: T.int32) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        A[tx] = 1
        A.view("uint16")[16 + tx // 2 * step // 2 + tx % 2 * 0 + (tx * (2 - step)) // 2] = T.uint16(513)

    with pytest.raises(DataRaceError):
        trace(k).simulate(np.zeros(64, np.uint8), 2)


def test_races_can_be_switched_off() -> None:
    a = f32(1)
    trace(same_value).simulate(a, checks=Checks(races=False))
    trace(same_value).simulate(a, checks=False)


# ---- reads of what nothing wrote -----------------------------------------------------------------------------------------------

def branches(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), stored: T.int32) -> None:
    T.device_entry()
    tx = T.thread_id([64])
    x = T.shared_scalar("float32")
    with T.If(tx > 0):
        B[tx] = x
    with T.Elif(stored > 0):
        x.assign(A[0])


def test_a_read_before_its_unordered_writer_is_a_race() -> None:
    """The simulator runs the reader first; the author wants to know of the barrier."""
    assert said(DataRaceError, branches, f32(64), f32(64), 1) == (
        "data race on x: nothing orders these two\n"
        "  load of x (nan here) by thread (63, 0, 0) of block (0, 0, 0)\n    at +5\n"
        "  store of x = 0.0 by thread (0, 0, 0) of block (0, 0, 0)\n    at +7\n"
        "  Threads of a block are ordered by barriers alone: put a T.cuda.cta_sync() between the two.")


def test_a_read_that_no_writer_follows_is_uninitialised() -> None:
    text = "load of x reads shared memory that nothing has written\n  in block (0, 0, 0), thread (1, 0, 0) and 62 more\n  at +5"
    assert said(UninitializedReadError, branches, f32(64), f32(64), 0).startswith(text)
    assert said(UninitializedReadError, branches, f32(64), f32(64), 1, checks=Checks(races=False)).startswith(text)


def test_a_loop_that_such_a_read_keeps_going_ends() -> None:
    def k(A: T.Buffer((32,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        x = T.alloc_shared((32,), "int32")
        with T.While(lambda: x[tx] != 5):
            A[tx] = x[tx]

    assert said(UninitializedReadError, k, np.zeros(32, np.int32)).startswith("load of x[0] reads shared memory that nothing has written")


# ---- on request ----------------------------------------------------------------------------------------------------------------

def test_outputs_that_stay_unwritten() -> None:
    def k(A: T.Buffer((4, 8), "float32"), n: T.int32) -> None:
        T.device_entry()
        ty, tx = T.thread_id([4, 8])
        with T.If(tx < n):
            A[ty, tx] = 1.0

    asked = Checks(unwritten_outputs=True)
    assert said(UnwrittenOutputError, k, f32(4, 8), 7, checks=asked) == (
        "A[0, 7] (and 3 more of its 32 elements) was written by no thread: the grid is too small, or a guard leaves it out\n  at +4")
    trace(k).simulate(f32(4, 8), 8, checks=asked)
    trace(k).simulate(f32(4, 8), 7)


def test_the_first_number_that_is_none() -> None:
    def k(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([4])
        x = A[tx]
        y = T.log(x)
        B[tx] = y + 1.0

    asked = Checks(nan=True)
    assert said(NonFiniteError, k, np.array([1, 2, 0, 3], np.float32), f32(4), checks=asked) == (
        "log makes -inf out of 0.0\n  in block (0, 0, 0), thread (2, 0, 0)\n  at +4")
    trace(k).simulate(np.array([1, 2, np.nan, np.inf], np.float32), f32(4), checks=asked)      # what comes in is the caller's
    trace(k).simulate(np.array([1, 2, 0, 3], np.float32), f32(4))


# ---- arrivals whose scope does not reach ---------------------------------------------------------------------------------------

def peers(A: T.Buffer((2, 32), "float32"), B: T.Buffer((2, 32), "float32"), *, back: T.constexpr, scope: T.constexpr) -> None:
    """Block 1 uses its shared memory and says so to block 0, which then stores to it (`back`), or reads from it what block 1 has stored."""
    T.device_entry()
    T.cluster_id([1])
    rank = T.cta_id_in_cluster([2])
    tx = T.thread_id([32])
    tile, bar = T.alloc_shared((32,), "float32"), T.alloc_shared((1,), "uint64")
    address, found = T.alloc_local((1,), "uint32"), T.alloc_local((1,), "uint32")
    tile[tx] = A[rank, tx]
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 32)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cluster_sync()
    with T.If(rank == 1):
        if back:
            B[1, tx] = tile[31 - tx]
        else:
            tile[tx] = 7.0
        T.ptx.mapa.shared__cluster.u32(address[0], bar.ptr_to([0]), T.uint32(0))
        T.ptx[f"mbarrier.arrive.release.{scope}.shared::cluster.b64"](address[0])
    with T.Else():
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0, scope=scope)
        T.ptx.mapa.shared__cluster.u32(address[0], tile.ptr_to([tx]), T.uint32(1))
        if back:
            found[0] = T.uint32(0)
            T.ptx["st.shared::cluster.b32"](address[0], found[0])
        else:
            T.ptx["ld.shared::cluster.b32"](found[0], address[0])
            B[0, tx] = T.reinterpret("float32", +found[0])
    T.cuda.cluster_sync()


@pytest.mark.parametrize("scope", ["cta", "cluster"])
def test_what_is_over_may_be_stored_to_whatever_the_scope_of_the_arrival(scope: str) -> None:
    trace(peers).specialize(back=True, scope=scope).simulate(f32(2, 32), f32(2, 32))


def test_what_was_stored_wants_a_scope_that_reaches() -> None:
    trace(peers).specialize(back=False, scope="cluster").simulate(f32(2, 32), f32(2, 32))
    with pytest.raises(DataRaceError, match="too narrow a scope to reach"):
        trace(peers).specialize(back=False, scope="cta").simulate(f32(2, 32), f32(2, 32))


# ---- notes ---------------------------------------------------------------------------------------------------------------------

def notes(kernel: Any, *args: Any) -> list[str]:
    """The report's notes, with lines counted from the kernel's first."""
    first = kernel.__code__.co_firstlineno
    return [re.sub(r"\S*test_messages\.py:(\d+)", lambda m: f"+{int(m[1]) - first}", note) for note in trace(kernel).simulate(*args).notes]


def test_values_that_depend_on_the_order_are_noted() -> None:
    def one_each(A: T.Buffer((64,), "float32"), N: T.Buffer((1,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        T.cuda.atomic_add(A.ptr_to([tx]), 1.0)
        T.cuda.atomic_add(N.ptr_to([0]), 1)

    a = f32(64)
    assert notes(one_each, a, np.zeros(1, np.int32)) == []

    def right(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), S: T.Buffer((2,), "float32"), N: T.Buffer((1,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        T.cuda.atomic_add(S.ptr_to([0]), A[tx])
        slot = T.cuda.atomic_add(N.ptr_to([0]), 1)
        B[slot] = A[tx]

    assert notes(right, a, f32(64), f32(2), np.zeros(1, np.int32)) == [
        "cuda.atomic_add at +3: the sum, in its last bits, depends on the order in which threads come",
        "cuda.atomic_add at +4: which thread finds which value depends on the order in which threads come"]


def test_threads_that_return_before_a_barrier_are_noted() -> None:
    def k(A: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        with T.If(A[tx] > 40.0):
            T.return_()
        T.cuda.cta_sync()
        A[tx] = 0.0

    assert notes(k, f32(64)) == ["cuda.cta_sync at +5: some threads of a block have returned before it"]


# ---- which memory, which blocks ------------------------------------------------------------------------------------------------

def test_a_memory_too_large_to_follow_as_a_whole() -> None:
    """Stamps are kept for the pages that are touched."""
    def k(A: T.Buffer(("n",), "int8"), step: T.int64) -> None:
        T.device_entry()
        i = (T.cta_id([4]) * 32 + T.thread_id([32])).astype("int64")
        A[i * step] = i.astype("int8")

    a = np.zeros((1 << 27) + 1024, np.int8)
    trace(k).simulate(a, 1 << 20)
    assert a[127 << 20] == 127
    with pytest.raises(DataRaceError, match=re.escape("data race on A[0]")):
        trace(k).simulate(a, 0)


@pytest.mark.parametrize("place", [0, 4094, 3 << 24])
def test_such_a_memory_in_units_of_several_sizes(place: int) -> None:
    def k(A: T.Buffer(("n",), "uint32"), place: T.int32, apart: T.int32) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        A[place + tx] = 1
        T.cuda.cta_sync()
        A.view("uint8")[(place + tx) * 4 + 3] = T.uint8(tx % 2 + 1)
        with T.If(tx < 32):
            A.view("uint16")[(place + tx) * 2 + apart] = T.uint16(9)

    a = np.zeros((1 << 26) + 1024, np.uint32)
    trace(k).simulate(a, place, 0)
    with pytest.raises(DataRaceError, match="data race on"):
        trace(k).simulate(a, place, 3)


def test_some_of_the_blocks() -> None:
    from tests.simulator.running import run

    def k(A: T.Buffer((64,), "float32"), s: T.int32) -> None:
        T.device_entry()
        bx, tx = T.cta_id([16]), T.thread_id([4])
        A[bx * 4 + tx * s] = tx.astype("float32")

    run(trace(k), f32(64), 1, blocks=[3, 5, 9])
    run(trace(k), f32(64), 4, blocks=[3, 9])
    with pytest.raises(DataRaceError) as caught:
        run(trace(k), f32(64), 4, blocks=[3, 4, 9])
    assert "store of A[16] = 0.0 by thread (0, 0, 0) of block (4, 0, 0)" in str(caught.value)


# ---- what an atomic has seen ---------------------------------------------------------------------------------------------------

def tickets(N: T.Buffer((1,), "uint32"), S: T.Buffer((1,), "uint32"), *, used: T.constexpr) -> None:
    """The last one to draw a number sets the counter back by a plain store."""
    T.device_entry()
    bx, tx = T.cta_id([8]), T.thread_id([32])
    with T.If(tx == 0):
        drawn = T.cuda.atomic_add(N.ptr_to([0]), 1)
        with T.If(drawn == 7 if used else bx == 7):
            N[0] = T.uint32(0)


def test_who_drew_the_last_number_may_set_the_counter_back() -> None:
    n = np.zeros(1, np.uint32)
    trace(tickets).specialize(used=True).simulate(n, n.copy())
    assert n[0] == 0
    with pytest.raises(DataRaceError):
        trace(tickets).specialize(used=False).simulate(n, n.copy())


def test_who_polled_a_flag_may_set_it_back() -> None:
    def k(F: T.Buffer((1,), "uint32"), *, polls: T.constexpr) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([32])
        found = T.local_scalar("uint32", 0)
        with T.If((bx == 0) & (tx == 0)):
            T.cuda.atomic_add(F.ptr_to([0]), 1)
        with T.If((bx == 1) & (tx == 0)):
            if polls:
                with T.While(lambda: found == 0):
                    T.ptx.ld.relaxed.gpu.global_.u32(found, F.ptr_to([0]))
            F[0] = T.uint32(0)

    f = np.zeros(1, np.uint32)
    trace(k).specialize(polls=True).simulate(f)
    with pytest.raises(DataRaceError):
        trace(k).specialize(polls=False).simulate(f)


def test_atomics_of_different_widths() -> None:
    def k(S: T.Buffer((4,), "uint32"), H: T.Buffer((4,), "float16x2"), *, wide: T.constexpr) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        T.cuda.atomic_add(H.ptr_to([0]), T.reinterpret("float16x2", T.uint32(0)))       # a vector is atomic by its elements
        with T.If(tx < 32):
            T.cuda.atomic_add(S.ptr_to([1]), 1)
        with T.Else():
            if wide:
                T.cuda.atomic_add(S.view("uint64").ptr_to([0]), 1)
            else:
                T.cuda.atomic_add(S.ptr_to([1]), 1)

    s, h = np.zeros(4, np.uint32), np.zeros((4, 2), np.float16)
    trace(k).specialize(wide=False).simulate(s, h)
    with pytest.raises(DataRaceError, match="Both are atomic, but of different widths"):
        trace(k).specialize(wide=True).simulate(s, h)
