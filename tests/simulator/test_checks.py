"""Each thing that the simulator refuses, with the exact text of the message."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.simulator.checks import Checks
from tests.simulator.running import run
from tracer import T, trace
from tracer.errors import (
    ArithmeticFault,
    BarrierDivergenceError,
    IndexOverflowError,
    MisalignedAccessError,
    NotSupportedError,
    OutOfBoundsError,
    SimulationError,
    UninitializedReadError,
)


def at(fn: Callable[..., Any], text: str) -> str:
    """`file:line` of the first line of `fn` that contains `text`."""
    lines, start = inspect.getsourcelines(fn)
    return f"{fn.__code__.co_filename}:{start + next(k for k, line in enumerate(lines) if text in line)}"


def refused(error: type[SimulationError], fn: Callable[..., Any], *args: Any, checks: bool = True) -> str:
    with pytest.raises(error) as caught:
        run(trace(fn), *args, checks=checks)
    return str(caught.value)


def zeros(*shape: int, dtype: str = "float32") -> Any:
    return np.zeros(shape, dtype)


# ---- out of bounds -----------------------------------------------------------------------------------------------------

def shifted(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")) -> None:
    T.device_entry()
    i = T.cta_id([2]) * 32 + T.thread_id([32])
    with T.If(i < 50):
        B[i] = A[i + 1]


def test_load_out_of_bounds() -> None:
    b = zeros(40)
    assert refused(OutOfBoundsError, shifted, np.ones(40, np.float32), b) == (
        "load of A[40] is outside A's shape (40,): index 0 is 40, not in [0, 40)\n"
        f"  in block (1, 0, 0), thread (7, 0, 0) and 10 more\n  at {at(shifted, 'A[i + 1]')}")
    assert not b.any()


def test_nothing_is_wrong_where_the_guard_holds() -> None:
    b = zeros(51)
    run(trace(shifted), np.ones(51, np.float32), b)
    assert b.tolist() == [1.0] * 50 + [0.0]


def row_overrun(A: T.Buffer(("n", 4), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([3, 2])
    j = T.local_scalar("int32", tx[0] + tx[1] * 3 - 1)
    A[0, j] = 1.0


def test_each_coordinate_counts_not_the_address() -> None:
    a = zeros(2, 4)
    assert refused(OutOfBoundsError, row_overrun, a) == (
        "store of A[0, -1] is outside A's shape (2, 4): index 1 is -1, not in [0, 4)\n"
        f"  in block (0, 0, 0), thread (0, 0, 0) and 1 more\n  at {at(row_overrun, 'A[0, j]')}")


def test_without_checks_the_storage_still_holds() -> None:
    assert refused(OutOfBoundsError, row_overrun, zeros(2, 4), checks=False) == (
        "store of A touches element -1 of A, which has 8\n"
        f"  in block (0, 0, 0), thread (0, 0, 0)\n  at {at(row_overrun, 'A[0, j]')}")


def local_overrun(A: T.Buffer((8,), "int32")) -> None:
    T.device_entry()
    tx = T.thread_id([8])
    mine = T.alloc_local((4,), "int32")
    for k in T.serial(4):
        mine[k] = k
    A[tx] = mine[A[tx]]


def test_local_memory_has_bounds() -> None:
    assert refused(OutOfBoundsError, local_overrun, np.arange(8, dtype=np.int32)) == (
        "load of mine[4] is outside mine's shape (4,): index 0 is 4, not in [0, 4)\n"
        f"  in block (0, 0, 0), thread (4, 0, 0) and 3 more\n  at {at(local_overrun, 'mine[A[tx]]')}")
    good = np.arange(8, dtype=np.int32)[::-1] % 4
    got = good.copy()
    run(trace(local_overrun), got)
    assert got.tolist() == good.tolist()


def selected(A: T.Buffer((8,), "float32")) -> None:
    T.device_entry()
    i = T.thread_id([16])
    v = T.select(i < 8, A[i], 0.0)
    with T.If(i < 8):
        A[i] = v


def guarded(A: T.Buffer((8,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    T.device_entry()
    i = T.thread_id([16])
    B[i] = T.if_then_else(i < 8, A[i], -1.0)


def test_select_computes_both_arms_and_if_then_else_does_not() -> None:
    assert refused(OutOfBoundsError, selected, zeros(8)) == (
        "load of A[8] is outside A's shape (8,): index 0 is 8, not in [0, 8)\n"
        f"  in block (0, 0, 0), thread (8, 0, 0) and 7 more\n  at {at(selected, 'T.select')}")
    b = zeros(16)
    run(trace(guarded), np.arange(8, dtype=np.float32), b)
    assert b.tolist() == [*range(8), *[-1.0] * 8]


# ---- vectors -----------------------------------------------------------------------------------------------------------

def vectors(A: T.Buffer(("n",), "float32"), start: T.int32) -> None:
    T.device_entry()
    tx = T.thread_id([4])
    A.vstore([tx * 4], A.vload([tx * 4 + start], dtype="float32x4"))


def test_misaligned_vector() -> None:
    assert refused(MisalignedAccessError, vectors, zeros(32), 2) == (
        "load of A[2] of 16 bytes needs an offset that is a multiple of 4 elements, not 2\n"
        f"  in block (0, 0, 0), thread (0, 0, 0) and 3 more\n  at {at(vectors, 'vload')}")


def test_the_whole_vector_must_be_inside() -> None:
    assert refused(OutOfBoundsError, vectors, zeros(18), 4) == (
        "load of A[16] is outside A's shape (18,): index 0 runs from 16 to 19, not in [0, 18)\n"
        f"  in block (0, 0, 0), thread (3, 0, 0)\n  at {at(vectors, 'vload')}")
    assert refused(OutOfBoundsError, vectors, zeros(18), 4, checks=False) == (
        "load of A touches element 19 of A, which has 18\n"
        f"  in block (0, 0, 0), thread (3, 0, 0)\n  at {at(vectors, 'vload')}")


# ---- uninitialised -----------------------------------------------------------------------------------------------------

def half_written(A: T.Buffer((32,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([32])
    tile = T.alloc_shared((32,), "float32")
    with T.If(tx < 16):
        tile[tx] = 1.0
    T.cuda.cta_sync()
    A[tx] = tile[31 - tx]


def test_uninitialised_shared() -> None:
    assert refused(UninitializedReadError, half_written, zeros(32)) == (
        "load of tile[31] reads shared memory that nothing has written\n"
        f"  in block (0, 0, 0), thread (0, 0, 0) and 15 more\n  at {at(half_written, '31 - tx')}\n  its stores: {at(half_written, 'tile[tx] =')}")


def test_unwritten_memory_is_no_zero() -> None:
    a = zeros(32)
    run(trace(half_written), a, checks=False)
    assert np.isnan(a[:16]).all() and (a[16:] == 1.0).all()


def cell_unset(A: T.Buffer((8,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([8])
    best = T.local_scalar("float32")
    with T.If(tx != 5):
        best.assign(2.0)
    A[tx] = best


def test_uninitialised_cell() -> None:
    assert refused(UninitializedReadError, cell_unset, zeros(8)) == (
        "load of best reads local memory that nothing has written\n"
        f"  in block (0, 0, 0), thread (5, 0, 0)\n  at {at(cell_unset, '= best')}\n  its stores: {at(cell_unset, 'best.assign')}")


def declared_in_loop(A: T.Buffer((8,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([8])
    for k in T.serial(2):
        mine = T.alloc_local((1,), "float32")
        with T.If(k == 0):
            mine[0] = 1.0
        A[tx] = mine[0]


def test_a_local_variable_is_fresh_in_each_round() -> None:
    assert refused(UninitializedReadError, declared_in_loop, zeros(8)) == (
        "load of mine[0] reads local memory that nothing has written\n"
        f"  in block (0, 0, 0), thread (0, 0, 0) and 7 more\n  at {at(declared_in_loop, 'A[tx] =')}"
        f"\n  its stores: {at(declared_in_loop, 'mine[0] =')}")


def half_vector(A: T.Buffer((8,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([2])
    tile = T.alloc_shared((8,), "float32", align=16)
    for k in T.serial(4):
        with T.If((tx == 0) | (k != 2)):
            tile[tx * 4 + k] = 1.0
    A.vstore([tx * 4], tile.vload([tx * 4], dtype="float32x4"))


def test_one_lane_of_a_vector_is_enough() -> None:
    assert refused(UninitializedReadError, half_vector, zeros(8)) == (
        "load of tile[4] reads shared memory that nothing has written\n"
        f"  in block (0, 0, 0), thread (1, 0, 0)\n  at {at(half_vector, 'vload')}\n  its stores: {at(half_vector, '= 1.0')}")


# ---- barriers ----------------------------------------------------------------------------------------------------------

def barrier_in_if(A: T.Buffer((2, 64), "float32")) -> None:
    T.device_entry()
    bx = T.cta_id([2])
    tx = T.thread_id([64])
    with T.If(A[bx, tx] > 0):
        T.cuda.cta_sync()


def test_barrier_in_a_branch() -> None:
    a = zeros(2, 64)
    a[1, :10] = a[1, 63] = 1
    assert refused(BarrierDivergenceError, barrier_in_if, a) == (
        "cuda.cta_sync: threads of block (1, 0, 0) wait for others that do not come\n"
        f"  waiting: 0-9, 63\n  not there: 10-62\n  parted by the if at {at(barrier_in_if, 'T.If')}\n"
        f"  at {at(barrier_in_if, 'cta_sync')}")


def test_whole_blocks_may_skip_a_barrier() -> None:
    a = zeros(2, 64)
    a[1] = 1
    assert run(trace(barrier_in_if), a).instructions["cuda.cta_sync"] == 64


def barrier_in_loop(A: T.Buffer((64,), "int32")) -> None:
    T.device_entry()
    tx = T.thread_id([64])
    for _ in T.serial(A[tx]):
        T.cuda.cta_sync()


def test_barrier_in_a_loop_of_different_lengths() -> None:
    counts = np.full(64, 3, np.int32)
    run(trace(barrier_in_loop), counts)
    counts[7] = 4
    assert refused(BarrierDivergenceError, barrier_in_loop, counts) == (
        "cuda.cta_sync: threads of block (0, 0, 0) wait for others that do not come\n"
        f"  waiting: 7\n  not there: 0-6, 8-63\n  parted by the for at {at(barrier_in_loop, 'T.serial')}\n"
        f"  at {at(barrier_in_loop, 'cta_sync')}")


def barrier_after_return(A: T.Buffer((64,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([64])
    with T.If(A[tx] > 0):
        T.return_()
    T.cuda.cta_sync()
    A[tx] = 5.0


def test_who_returned_is_not_waited_for() -> None:
    a = zeros(64)
    a[3] = 1
    report = run(trace(barrier_after_return), a)
    assert report.notes == [f"cuda.cta_sync at {at(barrier_after_return, 'cta_sync')}: some threads of a block have returned before it"]
    assert a.tolist() == [5.0] * 3 + [1.0] + [5.0] * 60


def mask_of_others(A: T.Buffer((64,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([64])
    with T.If(tx < 40):
        A[tx] = T.cuda.shfl_xor_sync(0xFFFFFFFF, A[tx], 1)


def mask_without_self(A: T.Buffer((64,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([64])
    A[tx] = T.cuda.shfl_xor_sync(0x0000FFFF, A[tx], 1)


def source_unnamed(A: T.Buffer((64,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([64])
    with T.If(tx % 32 < 16):
        A[tx] = T.cuda.shfl_down_sync(0x0000FFFF, A[tx], 1)


def source_missing(A: T.Buffer((40,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([40])
    A[tx] = T.cuda.shfl_down_sync(0xFFFFFFFF, A[tx], 1)


def masks_differ(A: T.Buffer((64,), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([64])
    T.cuda.warp_sync(T.select(tx == 35, T.uint32(0xFF), T.uint32(0xFFFFFFFF)))


@pytest.mark.parametrize(("fn", "size", "text", "what", "warp", "thread"), [
    (mask_of_others, 64, "shfl", "cuda.shfl_xor_sync: the mask 0xffffffff of lane 0 names lanes that are not there: 8-31", 1, 32),
    (mask_without_self, 64, "shfl", "cuda.shfl_xor_sync: the mask 0x0000ffff of lane 16 does not name itself", 0, 16),
    (source_unnamed, 64, "shfl", "cuda.shfl_down_sync: the mask 0x0000ffff of lane 15 does not name lane 16, which it reads", 0, 15),
    (source_missing, 40, "shfl", "cuda.shfl_down_sync: the mask 0xffffffff of lane 7 names lane 8, which it reads, but which does not run", 1, 39),
    (masks_differ, 64, "warp_sync", "cuda.warp_sync: the mask 0xffffffff of lane 0 names lanes that came with another mask", 1, 32),
])
def test_warps(fn: Any, size: int, text: str, what: str, warp: int, thread: int) -> None:
    expected = f"{what}\n  in block (0, 0, 0), warp {warp}, thread ({thread}, 0, 0)\n  at {at(fn, text)}"
    assert refused(BarrierDivergenceError, fn, zeros(size)) == expected


# ---- integers ----------------------------------------------------------------------------------------------------------

def index_product(A: T.Buffer(("n",), "int32"), m: T.int32) -> None:
    T.device_entry()
    tx = T.thread_id([64])
    A[(tx * m * m) % 7] = 1


def test_index_overflow() -> None:
    assert refused(IndexOverflowError, index_product, zeros(8, dtype="int32"), 100000) == (
        "index arithmetic leaves int32: m*m*tx is 10000000000, not in [-2147483648, 2147483647]\n"
        f"  in block (0, 0, 0), thread (1, 0, 0) and 62 more\n  at {at(index_product, '% 7')}")


def wide_product(A: T.Buffer(("n",), "int32"), m: T.int64) -> None:
    T.device_entry()
    tx = T.thread_id([64])
    A[(tx * m * m) % 7] = 1


def test_index_overflow_of_64_bits() -> None:
    """tx * 2**64 is 0 in 64 bits, which no range check of the wrapped value would see."""
    assert refused(IndexOverflowError, wide_product, zeros(8, dtype="int32"), 2**32) == (
        "index arithmetic leaves int64: m*m*tx is 18446744073709551616, not in [-9223372036854775808, 9223372036854775807]\n"
        f"  in block (0, 0, 0), thread (1, 0, 0) and 62 more\n  at {at(wide_product, '% 7')}")


def test_index_arithmetic_is_exact_where_it_fits() -> None:
    a = zeros(8, dtype="int32")
    run(trace(index_product), a, 5000, checks=Checks(same_value_writes=False))
    assert a.tolist() == [int(k in {t * 5000 * 5000 % 7 for t in range(64)}) for k in range(8)]


def quotient(A: T.Buffer((8,), "int32"), d: T.int32) -> None:
    T.device_entry()
    tx = T.thread_id([8])
    A[tx] = A[tx] // (tx - d)


def index_quotient(A: T.Buffer((8,), "int32"), d: T.int32) -> None:
    T.device_entry()
    tx = T.thread_id([8])
    half = tx // d
    A[tx] = half


def shifted_left(A: T.Buffer((8,), "int32"), d: T.int32) -> None:
    T.device_entry()
    tx = T.thread_id([8])
    A[tx] = A[tx] << (tx * d)


@pytest.mark.parametrize("checks", [True, False])
def test_arithmetic_faults(checks: bool) -> None:
    a = np.arange(8, dtype=np.int32)
    assert refused(ArithmeticFault, quotient, a, 5, checks=checks) == (
        f"floordiv: division by zero\n  in block (0, 0, 0), thread (5, 0, 0)\n  at {at(quotient, '//')}")
    assert refused(ArithmeticFault, index_quotient, a, 0, checks=checks) == (
        f"floordiv: division by zero\n  in block (0, 0, 0), thread (0, 0, 0) and 7 more\n  at {at(index_quotient, '//')}")
    assert refused(ArithmeticFault, shifted_left, a, 10, checks=checks) == (
        f"shl: shift by 40, not in [0, 32)\n  in block (0, 0, 0), thread (4, 0, 0) and 3 more\n  at {at(shifted_left, '<<')}")
    least = np.array([-2**31] * 8, np.int32)
    assert refused(ArithmeticFault, quotient, least, 8, checks=checks) == (
        f"floordiv: -2147483648 divided by -1 is no int32\n  in block (0, 0, 0), thread (7, 0, 0)\n  at {at(quotient, '//')}")


# ---- what cannot be simulated ------------------------------------------------------------------------------------------

def foreign(A: T.Buffer((8,), "int32")) -> None:
    T.device_entry()
    tx = T.thread_id([8])
    A[tx] = 1
    T.cuda.func_call("twice", A.data, source_code="__device__ void twice(int* a) { *a *= 2; }")


def test_cuda_text_is_refused_before_anything_runs() -> None:
    a = zeros(8, dtype="int32")
    with pytest.raises(NotSupportedError) as caught:
        run(trace(foreign), a)
    assert str(caught.value) == (
        f"the simulator cannot run CUDA source text: the call of 'twice' at {at(foreign, 'func_call')}. Run this kernel on a GPU, "
        "or write what the function does with T.")
    assert not a.any()


def stores_then_fails(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")) -> None:
    T.device_entry()
    tx = T.thread_id([8])
    A[tx] = 1
    B[A[tx] * 8] = 1


def test_stores_before_the_error_remain() -> None:
    a, b = zeros(8, dtype="int32"), zeros(8, dtype="int32")
    refused(OutOfBoundsError, stores_then_fails, a, b)
    assert a.tolist() == [1] * 8 and not b.any()
