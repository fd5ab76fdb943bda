"""Sectors and bank passes of whole warps: exact numbers for known patterns, and agreement with the cost of one warp."""

from __future__ import annotations

import numpy as np
import pytest

from symbolic.layout import S, TileLayout, bank_conflicts
from symbolic.layout.traffic import passes, sectors

LANE = np.arange(32)


@pytest.mark.parametrize(("what", "start", "size", "moved", "least"), [
    ("coalesced", LANE * 4, 4, 4, 4),
    ("reversed", 124 - LANE * 4, 4, 4, 4),
    ("stride 2", LANE * 8, 4, 8, 4),
    ("misaligned by an element", LANE * 4 + 4, 4, 5, 4),
    ("misaligned by a sector", LANE * 4 + 32, 4, 4, 4),
    ("broadcast", LANE * 0 + 100, 4, 1, 1),
    ("a row for each lane", LANE * 4096, 4, 32, 4),
    ("pairs", LANE // 2 * 4, 4, 2, 2),
    ("bytes", LANE, 1, 1, 1),
    ("halves", LANE * 2, 2, 2, 2),
    ("float4", LANE * 16, 16, 16, 16),
    ("float4, every other", LANE * 32, 16, 32, 16),
    ("doubles", LANE * 8, 8, 8, 8),
    ("three floats, which reach across", LANE * 12, 12, 12, 12),
])
def test_sectors(what: str, start: np.ndarray, size: int, moved: int, least: int) -> None:
    got = sectors(np.stack([start, start + 4096]), size)
    assert (got.moved.tolist(), got.least.tolist()) == ([moved, moved], [least, least])


@pytest.mark.parametrize(("what", "start", "size", "taken", "least", "ways"), [
    ("a row of words", LANE * 4, 4, 1, 1, 1),
    ("broadcast", LANE * 0, 4, 1, 1, 1),
    ("stride 2", LANE * 8, 4, 2, 1, 2),
    ("stride 3", LANE * 12, 4, 1, 1, 1),
    ("a column of a 32x32 tile", LANE * 128, 4, 32, 1, 32),
    ("a column of a padded tile", LANE * 132, 4, 1, 1, 1),
    ("a column of halves", LANE * 64, 2, 16, 1, 16),
    ("bytes of one word", LANE // 4 * 4 + LANE % 4, 1, 1, 1, 1),
    ("a row of doubles", LANE * 8, 8, 2, 2, 1),
    ("a column of doubles", LANE * 256, 8, 32, 2, 16),
    ("a row of float4", LANE * 16, 16, 4, 4, 1),
    ("float4, every other", LANE * 32, 16, 8, 4, 2),
])
def test_passes(what: str, start: np.ndarray, size: int, taken: int, least: int, ways: int) -> None:
    got = passes(np.stack([start, start + 4096]), size)
    assert [column.tolist() for column in got] == [[taken] * 2, [least] * 2, [ways] * 2]


def test_lanes_that_take_no_part_cost_nothing() -> None:
    active = np.stack([LANE < 8, LANE % 2 == 0, LANE == 31])
    start = np.broadcast_to(LANE * 4, (3, 32))
    assert [column.tolist() for column in sectors(start, 4, active)] == [[1, 4, 1], [1, 2, 1]]
    assert [column.tolist() for column in passes(start, 4, active)] == [[1, 1, 1], [1, 1, 1], [1, 1, 1]]
    wide = np.broadcast_to(LANE * 16, (3, 32))
    assert [column.tolist() for column in passes(wide, 16, active)] == [[1, 4, 1], [1, 4, 1], [1, 1, 1]]


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_whole_warps_cost_what_one_warp_does(dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    for pitch in (1, 2, 3, 4, 8, 16, 17, 32, 33, 64, 96):
        one = bank_conflicts(TileLayout(S[(32, 8):(pitch, 1)]), lambda lane: (lane, 0), dtype, shape=(32, 8))
        got = passes((LANE * pitch * size)[None], size)
        assert (got.taken[0], got.least[0], got.ways[0]) == (one.passes, one.ideal, one.ways)
