"""What is remembered of the accesses of a memory: for each unit of its bytes who touched it last, as stamps (see `clocks`).

A plain store ends what came before: all that touched the unit must be ordered before it, so that whoever is ordered behind the store is
ordered behind them too. Other accesses leave each other alone, and all of them must be ordered before the next store. Of such a `Crowd`
the latest is kept, the latest by another thread of its block, of its warp, and the latest by another block. Where order comes from barriers
of blocks and warps alone these four decide exactly whether a thread knows all of the crowd: among threads of a block the latest is known
last. Where warps, and operations, hand over what they know one by one, the latest of each of 32 warps and of 16 operations are kept as well;
an access that all of these have pushed out may be missed. What is reported is real always.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from runtime.simulator.frames import Array
from runtime.simulator.knowledge import ACTOR, TIME_BITS, WARP

PAGE = 1 << 12                  # units
LARGEST_FLAT = 1 << 26          # units; memories of more keep stamps only for the pages that are touched


class Kind(NamedTuple):
    """What decides how much is kept of a crowd.

    * `threads` of a block; `one_block`: each unit belongs to one block, whose threads alone touch it;
    * `warps`: something orders the lanes of a warp among themselves.
    * `seats`: warps, and operations, are ordered one by one: the latest access of each is kept.
    """

    threads: int
    one_block: bool
    warps: bool
    seats: bool = False


SEATS = 32              # for warps: those of a block, or of several small ones
OPERATIONS = 16         # seats behind these for asynchronous operations, the latest ones


class Stamps:
    """One stamp for each unit; 0 where nobody was."""

    def __init__(self, units: int) -> None:
        self.cells = np.zeros(units, np.int64)

    def widen(self, factor: int) -> None:
        """Each unit becomes `factor` smaller ones."""
        self.cells = np.repeat(self.cells, factor)


class Crowd:
    """Accesses that need no order among themselves."""

    def __init__(self, units: int, kind: Kind) -> None:
        self.units, self.kind = units, kind
        self.last = np.zeros(units, np.int64)
        self.others: dict[str, Array] = {}

    def members(self, units: Array) -> list[Array]:
        """The stamps that are kept of these units, one array for each place."""
        return [self.last[units], *(cells[units] for cells in self.others.values())]

    def clear(self, units: Array) -> None:
        """A store came."""
        self.last[units] = 0
        for cells in self.others.values():
            cells[units] = 0

    def add(self, units: Array, stamps: Array) -> None:
        """Threads touch these units; the same unit may occur several times."""
        before = self.last[units]
        self.last[units] = stamps
        kept = self.last[units]
        moved = before >> TIME_BITS != stamps >> TIME_BITS
        moved &= before != 0
        if moved.any():
            self._keep(units[moved], before[moved], kept[moved])
        beaten = kept != stamps
        if beaten.any():
            self._keep(units[beaten], stamps[beaten], kept[beaten])

    def _keep(self, units: Array, stamps: Array, last: Array) -> None:
        """Put `stamps` beside those that are the latest now, by how far their threads are from each other."""
        threads, one_block, warps, seats = self.kind
        if one_block and not warps and not seats:
            self._put("block", units, stamps)
            return
        who, latest = (stamps >> TIME_BITS) - 1, (last >> TIME_BITS) - 1
        if seats:
            warp_number = who // threads * -(-threads // WARP) + who % threads // WARP
            seat = np.where(who >= ACTOR, SEATS + who % OPERATIONS, warp_number % SEATS)
            for number in np.unique(seat).tolist():
                part = seat == number
                self._put(f"seat {number}", units[part], stamps[part])
        near = who // threads == latest // threads
        self._put("grid", units[~near], stamps[~near])
        if warps:
            row = who // threads * threads
            warp = near & (who - row >> 5 == latest - row >> 5)
            self._put("warp", units[warp], stamps[warp])
            near &= ~warp
        self._put("block", units[near], stamps[near])

    def _put(self, place: str, units: Array, stamps: Array) -> None:
        if len(units):
            cells = self.others.get(place)
            if cells is None:
                cells = self.others[place] = np.zeros(self.units, np.int64)
            cells[units] = stamps

    def widen(self, factor: int) -> None:
        """Each unit becomes `factor` smaller ones."""
        self.units *= factor
        self.last = np.repeat(self.last, factor)
        self.others = {place: np.repeat(cells, factor) for place, cells in self.others.items()}


class Shadow:
    """The stamps of one memory of so many bytes, in units of as many bytes as every access so far is a multiple of."""

    def __init__(self, nbytes: int, kind: Kind) -> None:
        self.nbytes, self.kind = nbytes, kind
        self.unit = 0
        self.count = 0
        self.pages: Array | None = None
        self.stored: Stamps | None = None
        self.crowds: dict[str, Crowd] = {}
        self.widths: set[int] = set()       # of atomics
        self.narrow = False         # an atomic or ordered access of less than device scope was seen

    def units(self, start: Array, size: int) -> tuple[Array, int]:
        """The units of accesses of `size` bytes at `start`, one row each, and how many each has."""
        unit = math.gcd(self.unit, size)
        if unit != 1 and np.any(start % unit):
            unit = math.gcd(unit, int(np.gcd.reduce(start, axis=None)))
        if unit != self.unit:
            self._refine(unit)
        each = size // unit
        first = start // unit if unit != 1 else start
        units = first.reshape(-1) if each == 1 else (first.reshape(-1)[:, None] + np.arange(each)).reshape(-1)
        return (units if self.pages is None else self._paged(units)), each

    def byte(self, unit: int) -> int:
        """Where a unit begins."""
        if self.pages is None:
            return unit * self.unit
        page = int(np.flatnonzero(self.pages == unit // PAGE + 1)[0])
        return (page * PAGE + unit % PAGE) * self.unit

    def _refine(self, unit: int) -> None:
        if not self.unit:
            self.count = -(-self.nbytes // unit)
            if self.count > LARGEST_FLAT:
                self.pages, self.count = np.zeros(-(-self.count // PAGE), np.int64), 0
        else:
            factor = self.unit // unit
            self.count *= factor
            if self.pages is not None:      # each page becomes several, which lie where it lay
                first = (np.repeat(self.pages, factor) - 1) * factor + 1
                self.pages = np.where(first > 0, first + np.tile(np.arange(factor), len(self.pages)), 0)
            for part in (self.stored, *self.crowds.values()):
                if part is not None:
                    part.widen(factor)
        self.unit = unit

    def _paged(self, units: Array) -> Array:
        assert self.pages is not None
        page = units // PAGE
        fresh = np.unique(page[self.pages[page] == 0])
        if len(fresh):
            self.pages[fresh] = np.arange(len(fresh)) + self.count // PAGE + 1
            self.count += len(fresh) * PAGE
            more = len(fresh) * PAGE
            for part in (self.stored, *self.crowds.values()):
                if part is not None:
                    _grow(part, more)
        return np.asarray((self.pages[page] - 1) * PAGE + units % PAGE)

    def crowd(self, name: str) -> Crowd:
        """The crowd of this name, empty at first."""
        crowd = self.crowds.get(name)
        if crowd is None:
            crowd = self.crowds[name] = Crowd(self.count, self.kind)
        return crowd

    def members(self, units: Array) -> list[Array]:
        """The stamps of all that is remembered of these units."""
        stored = [] if self.stored is None else [self.stored.cells[units]]
        return stored + [stamps for crowd in self.crowds.values() for stamps in crowd.members(units)]

    def stores(self) -> Stamps:
        """The plain stores."""
        if self.stored is None:
            self.stored = Stamps(self.count)
        return self.stored


def _grow(part: Stamps | Crowd, more: int) -> None:
    def longer(cells: Array) -> Array:
        return np.concatenate((cells, np.zeros(more, np.int64)))
    if isinstance(part, Stamps):
        part.cells = longer(part.cells)
    else:
        part.units += more
        part.last = longer(part.last)
        part.others = {place: longer(cells) for place, cells in part.others.items()}
