"""Shuffles against a reference that follows PTX's pseudo-code, one lane at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulator.running import run
from tracer import T, trace

SHUFFLES = {"idx": "shfl_sync", "up": "shfl_up_sync", "down": "shfl_down_sync", "bfly": "shfl_xor_sync"}


def ptx_source(mode: str, lane: int, b: int, width: int) -> int:
    """The lane that `shfl.sync.mode` reads (PTX ISA 9.7.9.6), with the clamp that CUDA's functions give it."""
    c = (32 - width) << 8 | (0 if mode == "up" else 0x1F)
    bval, cval, segmask = b & 31, c & 31, c >> 8 & 31
    max_lane = (lane & segmask) | (cval & ~segmask)
    min_lane = lane & segmask
    if mode == "up":
        j, inside = lane - bval, lane - bval >= max_lane
    elif mode == "down":
        j, inside = lane + bval, lane + bval <= max_lane
    elif mode == "bfly":
        j, inside = lane ^ bval, (lane ^ bval) <= max_lane
    else:
        j, inside = min_lane | (bval & ~segmask), True
        inside = j <= max_lane
    return j if inside else lane


def kernel(mode: str, width: int, name: str, varying: bool) -> Any:
    def shuffled(A: T.Buffer((3, 96), name), L: T.Buffer((3, 96), "int32"), active: T.Buffer((3, 96), "int32"), step: T.int32) -> None:
        T.device_entry()
        bx, tx = T.cta_id([3]), T.thread_id([96])
        with T.If(active[bx, tx] != 0):
            A[bx, tx] = getattr(T.cuda, SHUFFLES[mode])(0xFFFFFFFF, A[bx, tx], L[bx, tx] if varying else step, width)

    return trace(shuffled)


@pytest.mark.parametrize("mode", SHUFFLES)
@pytest.mark.parametrize("width", [1, 2, 8, 16, 32])
@pytest.mark.parametrize("varying", [False, True])
def test_shuffles(mode: str, width: int, varying: bool) -> None:
    rng = np.random.default_rng(width)
    traced = kernel(mode, width, "float32", varying)
    for step in (0, 1, 3, 17, 33):
        a = rng.standard_normal((3, 96)).astype(np.float32)
        operand = rng.integers(0, 40, (3, 96)).astype(np.int32)
        # All threads; whole warps the same in each block; whole warps that differ between blocks.
        for active in (np.ones((3, 96)), np.arange(96)[None] // 32 != 1, np.arange(288).reshape(3, 96) // 32 % 4 != 1):
            active = np.broadcast_to(active, (3, 96)).astype(np.int32)
            b = operand if varying else np.full((3, 96), step)
            got = a.copy()
            run(traced, got, operand, active.copy(), step)
            for block, t in np.ndindex(3, 96):
                source = t // 32 * 32 + ptx_source(mode, t % 32, int(b[block, t]), width)
                assert got[block, t] == a[block, source if active[block, t] else t]


@pytest.mark.parametrize("name", ["int64", "uint32", "float16", "bfloat16", "float64"])
def test_shuffles_move_every_type(name: str) -> None:
    a = np.arange(288).reshape(3, 96).astype(name if name != "bfloat16" else "float32")
    if name == "bfloat16":
        import ml_dtypes
        a = (a % 97).astype(ml_dtypes.bfloat16)
    got = a.copy()
    run(kernel("bfly", 32, name, varying=False), got, np.zeros((3, 96), np.int32), np.ones((3, 96), np.int32), 5)
    assert (got == a[:, np.arange(96) ^ 5]).all()


def test_groups_of_lanes_with_their_own_masks() -> None:
    """Each half of the warp names itself only; both run the statement together."""
    def halves(A: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        mask = T.select(tx % 32 < 16, T.uint32(0x0000FFFF), T.uint32(0xFFFF0000))
        T.cuda.warp_sync(mask)
        A[tx] = T.cuda.shfl_xor_sync(mask, A[tx], 3)

    a = np.arange(64, dtype=np.int32)
    run(trace(halves), a)
    assert a.tolist() == [t ^ 3 for t in range(64)]


def test_a_block_that_does_not_fill_its_last_warp() -> None:
    def reverse(A: T.Buffer((2, 40), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([40])
        A[bx, tx] = T.cuda.shfl_xor_sync(0xFFFFFFFF, A[bx, tx], 7)

    a = np.arange(80, dtype=np.int32).reshape(2, 40)
    expected = a[:, np.arange(40) ^ 7]
    run(trace(reverse), a)
    assert (a == expected).all()


def test_lanes_that_returned_need_not_come() -> None:
    def rest(A: T.Buffer((2, 64), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([64])
        with T.If((tx + bx * 4) % 32 >= 24):
            T.return_()
        A[bx, tx] = T.cuda.shfl_xor_sync(0xFFFFFFFF, A[bx, tx], 1)

    a = np.arange(128, dtype=np.int32).reshape(2, 64)
    gone = (np.arange(64)[None] + np.array([[0], [4]])) % 32 >= 24
    expected = np.where(gone, a, a[:, np.arange(64) ^ 1])
    run(trace(rest), a)
    assert (a == expected).all()
