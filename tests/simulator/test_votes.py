"""Votes, matches and reductions against a Python loop over the lanes that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulator.running import run
from tracer import T, trace
from tracer.errors import BarrierDivergenceError

SHAPE = (3, 80)       # the last warp of a block is half full
REDUCED = {"add": lambda v: sum(v), "min": min, "max": max, "and": lambda v: np.bitwise_and.reduce(v), "or": lambda v: np.bitwise_or.reduce(v),
           "xor": lambda v: np.bitwise_xor.reduce(v)}
SAME_WARPS, ANY_LANES, NO_LANE = "warps that are whole", "lanes that differ", "all lanes"


def bits(lanes: Any) -> int:
    return sum(1 << int(lane) for lane in lanes)


def kernel(name: str, dtype: str, result: str) -> Any:
    def votes(A: T.Buffer(SHAPE, dtype), M: T.Buffer(SHAPE, "uint32"), active: T.Buffer(SHAPE, "int32"), B: T.Buffer(SHAPE, result)) -> None:
        T.device_entry()
        bx, tx = T.cta_id([SHAPE[0]]), T.thread_id([SHAPE[1]])
        with T.If(active[bx, tx] != 0):
            B[bx, tx] = getattr(T.cuda, name)(M[bx, tx], A[bx, tx]) if name not in ("elect_sync", "activemask") else \
                T.cuda.elect_sync(M[bx, tx]) if name == "elect_sync" else T.cuda.activemask()

    return trace(votes)


def participants(active: Any, halves: bool) -> tuple[Any, Any]:
    """Masks, and for each thread the lanes of its warp that take part with it."""
    masks, groups = np.zeros(SHAPE, np.uint32), {}
    for block, thread in np.ndindex(*SHAPE):
        lanes = [lane for lane in range(32) if thread // 32 * 32 + lane < SHAPE[1] and active[block, thread // 32 * 32 + lane]
                 and (not halves or lane % 2 == thread % 2)]
        masks[block, thread], groups[block, thread] = bits(lanes), lanes
    return masks, groups


def expected(name: str, mine: Any, lanes: list[int], warp: Any, thread: int) -> Any:
    values = [warp[lane] for lane in lanes]
    if name.startswith("reduce"):
        return np.array(REDUCED[name.split("_")[1]]([int(v) for v in values])).astype(np.int64).astype(warp.dtype)
    return {
        "ballot_sync": lambda: bits(lane for lane in lanes if warp[lane]), "any_sync": lambda: any(values), "all_sync": lambda: all(values),
        "match_any_sync": lambda: bits(lane for lane in lanes if warp[lane].tobytes() == mine.tobytes()),
        "match_all_sync": lambda: bits(lanes) if len({v.tobytes() for v in values}) == 1 else 0,
        "elect_sync": lambda: thread % 32 == lanes[0], "activemask": lambda: bits(lanes),
    }[name]()


NAMES = [("ballot_sync", "bool", "uint32"), ("ballot_sync", "int32", "uint32"), ("any_sync", "bool", "bool"), ("all_sync", "bool", "bool"),
         *[(f"match_{which}_sync", t, "uint32") for which in ("any", "all") for t in ("int32", "uint64", "float32", "float64")],
         ("elect_sync", "bool", "bool"), ("activemask", "bool", "uint32"),
         *[(f"reduce_{name}_sync_{suffix}", t, t) for name in REDUCED for suffix, t in (("u32", "uint32"), ("i32", "int32"))
           if suffix == "u32" or name in ("add", "min", "max")]]


@pytest.mark.parametrize("who", [NO_LANE, SAME_WARPS, ANY_LANES])
@pytest.mark.parametrize(("name", "dtype", "result"), NAMES)
def test_votes(name: str, dtype: str, result: str, who: str) -> None:
    rng = np.random.default_rng(len(name))
    few = rng.integers(0, 2, SHAPE) if "match_all" in name else rng.integers(0, 4, SHAPE)
    a = (rng.integers(0, 2**32, SHAPE).astype(np.uint32).view(dtype) if name.startswith("reduce") else few.astype(dtype))
    a[:, :32] = a[0, 0]                  # one warp of equals
    if dtype.startswith("float"):
        a[0, 32], a[0, 33], a[0, 34], a[0, 35] = 0.0, -0.0, np.nan, np.nan
    active = {NO_LANE: np.ones(SHAPE), SAME_WARPS: np.broadcast_to(np.arange(SHAPE[1]) // 32 != 1, SHAPE),
              ANY_LANES: rng.integers(0, 3, SHAPE) > 0}[who].astype(np.int32)
    for halves in (False, True) if name != "activemask" else (False,):
        masks, groups = participants(active, halves)
        got = np.zeros(SHAPE, result)
        run(kernel(name, dtype, result), a.copy(), masks, active.copy(), got)
        for block, thread in np.ndindex(*SHAPE):
            if active[block, thread]:
                start = thread // 32 * 32
                with np.errstate(over="ignore"):
                    wanted = expected(name, a[block, thread], groups[block, thread], a[block, start:start + 32], thread)
                assert got[block, thread] == wanted, (block, thread)
            else:
                assert got[block, thread] == 0


def test_a_lane_that_does_not_come_is_an_error() -> None:
    def half(A: T.Buffer((32,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        with T.If(tx < 16):
            A[tx] = T.cuda.ballot_sync(0xFFFFFFFF, A[tx] == 0)

    with pytest.raises(BarrierDivergenceError, match=r"cuda.ballot_sync: the mask 0xffffffff of lane 0 names lanes that are not there: 16-31"):
        run(trace(half), np.zeros(32, np.uint32))


def test_a_uniform_value_is_voted_on() -> None:
    def uniform(A: T.Buffer((64,), "uint32"), n: T.int32) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        A[tx] = T.cuda.ballot_sync(0xFFFFFFFF, n > 3) + T.cuda.reduce_add_sync_u32(0xFFFFFFFF, 2)

    a = np.zeros(64, np.uint32)
    run(trace(uniform), a, 5)
    assert set(a.tolist()) == {63}       # 2**32 - 1 + 64, wrapped
    run(trace(uniform), a, 3)
    assert set(a.tolist()) == {64}


def test_sums_over_warps_and_blocks() -> None:
    def sums(A: T.Buffer((2, 128), "int32"), W: T.Buffer((2, 128), "int32"), C: T.Buffer((2, 128), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([128])
        scratch = T.alloc_shared((2, 8), "int32")
        W[bx, tx] = T.cuda.warp_sum(A[bx, tx])
        C[bx, tx] = T.cuda.cta_sum(A[bx, tx], 4, scratch.ptr_to([1, 3])) - T.cuda.cta_sum(A[bx, tx] // 2, 4, scratch.ptr_to([1, 3]))

    a = np.random.default_rng(1).integers(-1000, 1000, (2, 128)).astype(np.int32)
    w, c = np.zeros_like(a), np.zeros_like(a)
    run(trace(sums), a, w, c)
    np.testing.assert_array_equal(w, np.repeat(a.reshape(2, 4, 32).sum(-1), 32, axis=1))
    np.testing.assert_array_equal(c, np.repeat((a.sum(1) - (a // 2).sum(1))[:, None], 128, axis=1))
