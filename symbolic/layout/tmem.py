"""Tensor memory: which lane and column holds each element of an accumulator. PTX ISA 9.1, 9.7.16.10.5 ("Data path layout").

Lanes are the 128 rows of tensor memory, columns count elements. The letters are the manual's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from symbolic.layout.axes import TCol, TLane
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout


@dataclass(frozen=True)
class Datapath:
    """`rows` of the accumulator in one CTA; its columns come in `column_parts` parts, side by side in the lanes.

    `has_sub_slabs`: it fills 16 lanes of each 32, the lower or the upper ones. `layout` of a number of columns.
    """

    letter: str
    rows: int
    column_parts: int
    has_sub_slabs: bool
    used_by: str
    layout: Callable[[int], TileLayout]


def _all_lanes(n: int) -> TileLayout:
    return TileLayout(S[(128, n):(1@TLane, 1@TCol)])


def _two_halves(n: int) -> TileLayout:
    return TileLayout(S[(64, 2, n // 2):(1@TLane, 64@TLane, 1@TCol)])


def _every_other_sixteen(n: int) -> TileLayout:
    return TileLayout(S[(4, 16, n):(32@TLane, 1@TLane, 1@TCol)])


def _four_quarters(n: int) -> TileLayout:
    return TileLayout(S[(32, 4, n // 4):(1@TLane, 32@TLane, 1@TCol)])


DATAPATHS: Final[dict[str, Datapath]] = {d.letter: d for d in (
    Datapath("A", 128, 1, False, "M = 256, cta_group::2", _all_lanes),
    Datapath("B", 64, 2, False, "M = 128, cta_group::2, dense", _two_halves),
    Datapath("C", 64, 1, True, "M = 128, cta_group::2, sparse", _every_other_sixteen),
    Datapath("D", 128, 1, False, "M = 128, cta_group::1", _all_lanes),
    Datapath("E", 64, 2, False, "M = 64, .ws", _two_halves),
    Datapath("F", 64, 1, True, "M = 64, cta_group::1", _every_other_sixteen),
    Datapath("G", 32, 4, False, "M = 32, .ws", _four_quarters),
)}


def tmem_datapath_layout(letter: str, rows: int, cols: int, sub_slab: int = 0) -> TileLayout:
    """The layout of a (rows, cols) accumulator over TLane and TCol; `sub_slab=1` is the upper 16 of each 32 lanes (C and F).

    Raises LayoutError for an unknown letter, other rows than the datapath's, columns that it does not split, and a sub-slab that it
    has not.
    """
    path = DATAPATHS.get(letter)
    if path is None:
        raise LayoutError(f"datapath {letter!r} is not known; known are {', '.join(DATAPATHS)}")
    if rows != path.rows:
        raise LayoutError(f"datapath {letter} ({path.used_by}) has {path.rows} rows, not {rows}")
    if cols < 1 or cols % path.column_parts:
        raise LayoutError(f"datapath {letter} splits its columns in {path.column_parts} parts, {cols} is no multiple")
    if sub_slab not in ((0, 1) if path.has_sub_slabs else (0,)):
        raise LayoutError(f"datapath {letter} fills " + ("16 of each 32 lanes: sub_slab is 0 or 1" if path.has_sub_slabs else
                          "all its lanes: sub_slab is 0") + f", not {sub_slab}")
    layout = path.layout(cols)
    return layout.rebuilt(offset={TLane: 16}) if sub_slab else layout
