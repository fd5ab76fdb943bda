"""Instructions on bits against Python integers; fences, pauses and the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.simulator.running import random, run
from tests.simulator.test_semantics import N, apply
from tracer import T, trace
from tracer.operations import OPERATIONS

Count = Callable[[int, int], int]
COUNTS: dict[str, Count] = {
    "popc": lambda x, width: x.bit_count(), "clz": lambda x, width: width - x.bit_length(),
    "ffs": lambda x, width: (x & -x).bit_length(), "brev": lambda x, width: int(f"{x:0{width}b}"[::-1], 2),
}


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str, dtype: str) -> None:
    x = random(dtype, N)
    width = 8 * x.dtype.itemsize
    mask = (1 << width) - 1
    result = dtype if name == "brev" else "int32"
    wanted = np.array([COUNTS[name](int(v) & mask, width) for v in x], np.uint64).astype(result)
    got = apply(OPERATIONS[f"cuda.{name}"], result, (dtype, x))
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(apply(OPERATIONS[f"cuda.{name}"], result, (dtype, x[5])), wanted[5])      # one value for all threads


def words(seed: int) -> Any:
    return random("uint32", N, seed)


def test_byte_perm() -> None:
    x, y, s = words(1), words(2), words(3)
    got = apply(OPERATIONS["cuda.byte_perm"], "uint32", *[("uint32", v) for v in (x, y, s)])
    for k in range(N):
        eight = int(x[k]).to_bytes(4, "little") + int(y[k]).to_bytes(4, "little")
        assert int(got[k]) == int.from_bytes(bytes(eight[int(s[k]) >> 4 * b & 7] for b in range(4)), "little")


@pytest.mark.parametrize("way", ["l", "lc", "r", "rc"])
def test_funnel_shifts(way: str) -> None:
    low, high, shift = words(1), words(2), words(3) % np.uint32(70)
    got = apply(OPERATIONS[f"cuda.funnelshift_{way}"], "uint32", *[("uint32", v) for v in (low, high, shift)])
    for k in range(N):
        whole, by = int(high[k]) << 32 | int(low[k]), min(int(shift[k]), 32) if way.endswith("c") else int(shift[k]) & 31
        assert int(got[k]) == ((whole << by >> 32 if way[0] == "l" else whole >> by) & 0xFFFFFFFF)


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_dp4a(dtype: str) -> None:
    a, b, c = (random(dtype, N, seed) for seed in (1, 2, 3))
    got = apply(OPERATIONS["cuda.dp4a"], dtype, *[(dtype, v) for v in (a, b, c)])
    for k in range(N):
        parts = [[int.from_bytes(v[k].tobytes()[i:i + 1], "little", signed=dtype == "int32") for i in range(4)] for v in (a, b)]
        exact = int(c[k]) + sum(p * q for p, q in zip(*parts))
        assert int(got[k]) & 0xFFFFFFFF == exact & 0xFFFFFFFF


def test_fdividef() -> None:
    a = np.float32([1, 3, -6, 1, np.inf, 1, 0])
    b = np.float32([4, 0, 1.5, 2.0**127, 2.0**127, np.inf, 0])
    got = apply(OPERATIONS["cuda.fdividef"], "float32", ("float32", a), ("float32", b))
    np.testing.assert_array_equal(got, np.float32([0.25, np.inf, -4, 0, np.nan, 0, np.nan]))


def test_fences_and_the_clock_leave_data_alone() -> None:
    def kernel(A: T.Buffer((32,), "int64")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        before = T.cuda.clock64()
        T.cuda.thread_fence()
        T.cuda.thread_fence_block()
        T.cuda.thread_fence_system()
        T.cuda.nano_sleep(20)
        A[tx] = T.cuda.clock64() - before

    a = np.zeros(32, np.int64)
    report = run(trace(kernel), a)
    assert (a > 0).all()
    assert [report.instructions[f"cuda.{n}"] for n in ("thread_fence", "thread_fence_block", "thread_fence_system", "nano_sleep")] == [32] * 4
