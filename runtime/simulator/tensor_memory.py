"""Tensor memory: 128 lanes of 512 columns of 32 bits a block, who has which columns, and where its instructions find their elements.

Sources: PTX ISA 9.7.16.1 (addresses: lane << 16 | column), 9.7.16.7 (allocation), 9.7.16.2.3.1 (the shapes of tcgen05.ld and st),
9.7.16.9 (tcgen05.cp), 9.7.16.10.5 (where an accumulator's rows are).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.frames import Array
from symbolic.layout import TMEM_SHAPES, tmem_datapath_layout, tmem_registers

LANES, COLUMNS = 128, 512
SMALLEST = 32                   # columns of an allocation: a power of two from here to all
WARP_LANES = 32


class Unusable(Exception):
    """An address or an allocation that the instruction cannot take; the text says why."""


@dataclass(slots=True)
class Allocation:
    """`columns` columns from `start` on; `node` asked for them."""

    start: int
    columns: int
    node: Any


class TensorMemory:
    """The tensor memory of one block."""

    def __init__(self) -> None:
        self.cells = np.full((LANES, COLUMNS), 0xFFFFFFFF, np.uint32)
        self.written = np.zeros((LANES, COLUMNS), np.bool_)
        self.allocations: list[Allocation] = []
        self.relinquished: Any = None       # the node that gave up the permit
        self.smallest = COLUMNS             # columns of the latest allocation

    def allocate(self, columns: int, node: Any) -> int | None:
        """The first column of `columns` free neighbours, or None where there are none now: the instruction blocks."""
        if columns < SMALLEST or columns > COLUMNS or columns & (columns - 1):
            raise Unusable(f"{columns} columns: an allocation is a power of two from {SMALLEST} to {COLUMNS}")
        if self.relinquished is not None:
            raise Unusable(f"the block gave up its permit to allocate at {self.relinquished.location}")
        if columns > self.smallest:
            raise Unusable(f"{columns} columns after an allocation of {self.smallest}: allocations of a block may not grow")
        free = np.ones(COLUMNS, np.bool_)
        for a in self.allocations:
            free[a.start:a.start + a.columns] = False
        for start in range(0, COLUMNS, columns):
            if free[start:start + columns].all():
                self.allocations.append(Allocation(start, columns, node))
                self.smallest = columns
                self.written[:, start:start + columns] = False
                return start
        return None

    def free(self, address: int, columns: int) -> None:
        """Give back an allocation: its very address and size."""
        start = column_of(address)
        for a in self.allocations:
            if a.start == start and a.columns == columns and address == start:
                self.allocations.remove(a)
                return
        raise Unusable(f"{columns} columns at {text_of(address)} were not allocated" + (
            f"; allocated are {', '.join(f'{a.columns} at column {a.start}' for a in self.allocations)}" if self.allocations else ""))

    def check(self, lanes: Array, columns: Array) -> None:
        """Raise Unusable unless all of these cells exist and are allocated."""
        low, high = int(columns.min()), int(columns.max())
        if int(lanes.max()) >= LANES or high >= COLUMNS:
            raise Unusable(f"lane {int(lanes.max())}, column {high} is beyond the {LANES} lanes and {COLUMNS} columns of tensor memory")
        mine = np.zeros(COLUMNS, np.bool_)
        for a in self.allocations:
            mine[a.start:a.start + a.columns] = True
        wanted = np.unique(columns)
        missing = wanted[~mine[wanted]]
        if len(missing):
            raise Unusable(f"columns {low} to {high} are used, and column {int(missing[0])} is not allocated")


def lane_of(address: int) -> int:
    """The lane of an address in tensor memory."""
    return address >> 16


def column_of(address: int) -> int:
    """The column of an address in tensor memory."""
    return address & 0xFFFF


def text_of(address: int) -> str:
    """An address for messages."""
    return f"lane {lane_of(address)}, column {column_of(address)}"


class Cells(NamedTuple):
    """For each of a warp's 32 threads and each register the cell (lane, column) that tcgen05.ld and st move, from lane and column 0 on.

    Arrays (32, registers), or (32, registers, 2) where a register holds the low halves of two neighbouring columns.
    """

    lanes: Array
    columns: Array


@lru_cache(maxsize=256)
def cells_of(shape: str, num: int, half: int = 0, packed: bool = False) -> Cells:
    """The cells of tcgen05.ld / st `.{shape}.x{num}`, `packed` with .pack::16b or .unpack::16b. `half`: columns from the first half of 16x32bx2
    to the second."""
    row = TMEM_SHAPES[shape]
    size = (row.rows, row.columns * num)
    lanes, columns = np.indices(size)
    place = tmem_registers(shape, num).apply(lanes, columns, shape=size)
    thread, register = (np.broadcast_to(np.asarray(place.get(axis, 0)), size) for axis in ("laneid", "m"))
    found = Cells(*(np.empty((WARP_LANES, int(register.max()) + 1), np.intp) for _ in range(2)))
    parts = 2 if packed else 1
    columns = columns % num * parts + columns // num * half if shape == "16x32bx2" else columns * parts
    found.lanes[thread, register], found.columns[thread, register] = lanes, columns
    return Cells(found.lanes[..., None], found.columns[..., None] + np.arange(2)) if packed else found


@lru_cache(maxsize=64)
def accumulator_cells(m: int, n: int) -> Cells:
    """Lane and column of each element of an accumulator of m by n, cta_group::1: datapath D for 128 rows, F for 64."""
    rows, columns = np.indices((m, n))
    place = tmem_datapath_layout("D" if m == LANES else "F", m, n).apply(rows, columns, shape=(m, n))
    return Cells(*(np.broadcast_to(np.asarray(place[axis]), (m, n)) for axis in ("TLane", "TCol")))


class Copy(NamedTuple):
    """A shape of tcgen05.cp: `rows` of `bytes`, and for each copy the lane that each row goes to."""

    rows: int
    bytes: int
    lanes: tuple[Array, ...]


_ROWS = np.arange(LANES)
COPIES: dict[tuple[str, str], Copy] = {
    ("128x256b", ""): Copy(128, 32, (_ROWS,)),
    ("128x128b", ""): Copy(128, 16, (_ROWS,)),
    ("64x128b", "warpx2::02_13"): Copy(64, 16, (_ROWS[:64], _ROWS[:64] + 64)),
    ("64x128b", "warpx2::01_23"): Copy(64, 16, (_ROWS[:64] % 32 + _ROWS[:64] // 32 * 64, _ROWS[:64] % 32 + _ROWS[:64] // 32 * 64 + 32)),
    ("32x128b", "warpx4"): Copy(32, 16, tuple(_ROWS[:32] + 32 * w for w in range(4))),
}
