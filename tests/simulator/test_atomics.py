"""Atomics against threads that take their turns one by one in Python, with every thread on few elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.simulator.running import run
from tracer import T, trace
from tracer.errors import OutOfBoundsError, UninitializedReadError
from tracer.intrinsics.atomics import DTYPES

BLOCKS, THREADS = 3, 64
STORAGE = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def serial(name: str, dtype: str, old: Any, value: Any, compare: Any) -> Any:
    """What is left after one turn, in Python ints and floats rounded once."""
    t = np.dtype(STORAGE.get(dtype, dtype)).type
    if dtype.startswith(("float", "bfloat")):
        wide = np.float64(old) + np.float64(value) if name == "add" else np.float64(value)
        return t(np.float32(wide)) if dtype != "float64" else wide       # float64 has more than twice the digits of float32
    a, b, c = int(old), int(value), int(compare)
    bits = 8 * np.dtype(dtype).itemsize
    made = {"add": a + b, "sub": a - b, "min": min(a, b), "max": max(a, b), "and": a & b, "or": a | b, "xor": a ^ b, "exch": b,
            "cas": b if a == c else a, "inc": 0 if a >= b else a + 1, "dec": b if a == 0 or a > b else a - 1}[name] & (1 << bits) - 1
    return t(made - (1 << bits) if dtype.startswith("int") and made >> bits - 1 else made)


def kernel(name: str, dtype: str, elements: int, shared: bool) -> Any:
    def turns(V: T.Buffer((BLOCKS, THREADS), dtype), C: T.Buffer((BLOCKS, THREADS), dtype), W: T.Buffer((BLOCKS, THREADS), "int32"),
              M: T.Buffer((BLOCKS, elements), dtype), O: T.Buffer((BLOCKS, THREADS), dtype)) -> None:  # noqa: E741
        T.device_entry()
        bx, tx = T.cta_id([BLOCKS]), T.thread_id([THREADS])
        tile = T.alloc_shared((elements,), dtype)
        if shared:
            with T.If(tx < elements):
                tile[tx] = M[bx, tx]
            T.cuda.cta_sync()
        pointer = tile.ptr_to([W[bx, tx]]) if shared else M.ptr_to([0, W[bx, tx]])
        operands = (C[bx, tx], V[bx, tx]) if name == "cas" else (V[bx, tx],)
        with T.If(tx % 5 != 1):
            O[bx, tx] = getattr(T.cuda, f"atomic_{name}")(pointer, *operands)
        T.cuda.cta_sync()
        if shared:
            with T.If(tx < elements):
                M[bx, tx] = tile[tx]

    return trace(turns)


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], name: str) -> Any:
    storage = np.dtype(STORAGE.get(dtype, dtype))
    if storage.kind not in "iu":
        return (rng.standard_normal(shape) * 3).astype(storage)
    if name in ("cas", "inc", "dec"):
        return rng.integers(0, 4, shape).astype(storage)
    limits = np.iinfo(storage)
    return rng.integers(limits.min, limits.max, shape, dtype=storage, endpoint=True)


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes
                                             if "x" not in dtype])
def test_each_atomic_on_each_dtype(name: str, dtype: str, shared: bool) -> None:
    for elements in (2, 40):          # many turns at few elements, few turns at many
        rng = np.random.default_rng(elements)
        v, c, m = (values(rng, dtype, (BLOCKS, n), name) for n in (THREADS, THREADS, elements))
        w = rng.integers(0, elements, (BLOCKS, THREADS)).astype(np.int32)
        got_m, got = m.copy(), np.zeros_like(v)
        run(kernel(name, dtype, elements, shared), v, c, w, got_m, got)
        expected_m, expected = m.copy(), np.zeros_like(v)
        for block, thread in np.ndindex(BLOCKS, THREADS):
            if thread % 5 != 1:
                place = (block if shared else 0, w[block, thread])
                expected[block, thread] = expected_m[place]
                expected_m[place] = serial(name, dtype, expected_m[place], v[block, thread], c[block, thread])
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(got_m, expected_m)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_pairs_of_halves(half: str) -> None:
    def pairs(A: T.Buffer((80,), half), B: T.Buffer((8,), half), C: T.Buffer((80,), half)) -> None:
        T.device_entry()
        tx = T.thread_id([40])
        C.vstore([2 * tx], T.cuda.atomic_add(B.view(f"{half}x2").ptr_to([tx * tx % 4]), A.vload([2 * tx], dtype=f"{half}x2")))

    a = values(np.random.default_rng(2), half, (80,), "add")
    b, c = np.zeros(8, a.dtype), np.zeros(80, a.dtype)
    run(trace(pairs), a, b, c)
    held, found = np.zeros((4, 2), a.dtype), []
    for thread, pair in enumerate(a.reshape(40, 2)):
        found.append(held[thread * thread % 4].copy())
        held[thread * thread % 4] += pair
    np.testing.assert_array_equal(c.reshape(40, 2), np.array(found))
    np.testing.assert_array_equal(b.reshape(4, 2), held)


@pytest.mark.parametrize("lanes", [2, 4])
def test_vectors_of_float32(lanes: int) -> None:
    def vectors(A: T.Buffer((40 * lanes,), "float32"), B: T.Buffer((4 * lanes,), "float32"), C: T.Buffer((40 * lanes,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([40])
        pointer = B.view(f"float32x{lanes}").ptr_to([tx * tx % 4])
        C.vstore([lanes * tx], T.cuda.atomic_add(pointer, A.vload([lanes * tx], dtype=f"float32x{lanes}")))

    a = values(np.random.default_rng(2), "float32", (40, lanes), "add")
    b, c = np.zeros(4 * lanes, np.float32), np.zeros(40 * lanes, np.float32)
    run(trace(vectors), a.reshape(-1), b, c)
    held, found = np.zeros((4, lanes), np.float32), []
    for thread, vector in enumerate(a):
        found.append(held[thread * thread % 4].copy())
        held[thread * thread % 4] += vector
    np.testing.assert_array_equal(c.reshape(40, lanes), np.array(found))
    np.testing.assert_array_equal(b.reshape(4, lanes), held)


def once(act: Callable[[Any, Any], None], threads: int = 8) -> Any:
    def kernel(A: T.Buffer((threads,), "float32"), I: T.Buffer((threads,), "int32")) -> None:  # noqa: E741
        T.device_entry()
        tx = T.thread_id([threads])
        act(A, I[tx])

    return trace(kernel)


def test_global_float32_sums_flush_subnormals_and_shared_ones_do_not() -> None:
    tiny = np.float32(1e-40)

    def both(A: T.Buffer((3,), "float32")) -> None:
        T.device_entry()
        T.thread_id([1])
        cell = T.shared_scalar("float32", A[2])
        T.cuda.atomic_add(A.ptr_to([0]), A[2])
        T.cuda.atomic_add(T.address_of(cell), A[2])
        A[1] = cell

    a = np.array([-tiny, 0, tiny], np.float32)
    run(trace(both), a)
    assert a.tolist() == [0.0, float(tiny + tiny), float(tiny)]


def test_flushing_among_many_turns_at_one_element() -> None:
    """Each of 300 threads adds; some values, and some sums, are subnormal. Python follows turn by turn."""
    def many(V: T.Buffer((300,), "float32"), A: T.Buffer((1,), "float32"), O: T.Buffer((300,), "float32")) -> None:  # noqa: E741
        T.device_entry()
        tx = T.thread_id([300])
        O[tx] = T.cuda.atomic_add(A.ptr_to([0]), V[tx])

    least = np.finfo(np.float32).smallest_normal
    rng = np.random.default_rng(3)
    v = (rng.integers(-4, 5, 300) * least / 2).astype(np.float32)
    a, got = np.array([least], np.float32), np.zeros(300, np.float32)

    def flush(x: Any) -> Any:
        return np.float32(0) * np.sign(x) if abs(x) < least else x

    held, expected = a[0], []
    for value in v:
        expected.append(held)
        held = flush(flush(held) + flush(value))
    run(trace(many), v, a, got)
    np.testing.assert_array_equal(got, np.array(expected))
    assert a[0] == held and len(set(got.tolist())) > 3


def test_an_atomic_outside_the_buffer() -> None:
    i = np.array([0, 1, 2, 3, 4, 5, 9, 7], np.int32)
    with pytest.raises(OutOfBoundsError, match=r"atomic of A\[9\] is outside A's shape \(8,\): index 0 is 9, not in \[0, 8\)\n.*thread \(6, 0, 0\)"):
        run(once(lambda A, x: T.cuda.atomic_add(A.ptr_to([x]), 1.0)), np.zeros(8, np.float32), i)


def shared_kernel(name: str, used: bool) -> Any:
    def kernel(A: T.Buffer((1,), "uint32")) -> None:
        T.device_entry()
        T.thread_id([1])
        cell = T.shared_scalar("uint32")
        old = getattr(T.cuda, f"atomic_{name}")(T.address_of(cell), 5)
        A[0] = old if used else cell

    return trace(kernel)


def test_shared_memory_is_initialised_before_an_atomic_reads_it() -> None:
    with pytest.raises(UninitializedReadError, match="atomic of cell reads shared memory that nothing has written"):
        run(shared_kernel("add", used=False), np.zeros(1, np.uint32))
    with pytest.raises(UninitializedReadError, match="atomic of cell reads shared memory"):
        run(shared_kernel("exch", used=True), np.zeros(1, np.uint32))
    a = np.zeros(1, np.uint32)
    run(shared_kernel("exch", used=False), a)
    assert a[0] == 5


def test_a_report_counts_atomics() -> None:
    report = run(once(lambda A, x: T.cuda.atomic_add(A.ptr_to([0]), 1.0)), np.zeros(8, np.float32), np.zeros(8, np.int32))
    assert [(a.buffer, a.kind, a.threads, a.bytes) for a in report.accesses] == [("A", "atomic", 8, 32)]
    assert report.instructions["cuda.atomic_add"] == 8
