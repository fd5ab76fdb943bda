"""What accesses cost on the hardware: sectors, bank conflicts, and who waits at which barrier. An observer of a run.

The unit is the request: one instruction of one warp. An access of several lanes' width that is no single move counts once for each
of its moves. What an engine moves (`actor`) is no request: its bytes pass the LSU by.

Global addresses are counted from the beginning of the allocation that an array is a view of, as if that began at a multiple of 256
bytes, as allocations on a GPU do: what NumPy happened to get from the system tells nothing about the kernel.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from codegen.lowered import Lowered
from codegen.packets import is_packet, moved, moves_whole
from runtime.simulator.events import Observer, Touch
from runtime.simulator.frames import Array
from runtime.simulator.memory import Memory, SharedMemory
from symbolic.layout.traffic import LANES, SECTOR, move_of, passes, sectors
from tracer.ir import Buffer, Node


class Side(NamedTuple):
    """One of the accesses of a statement: most have one, a copy has two."""

    node: Node
    kind: str                   # "load", "store" or "atomic"
    scope: str                  # "global" or "shared"
    buffer: Buffer | None


@dataclass(slots=True)
class Cost:
    """What the accesses of one side cost so far.

    `requests` of warps; `sectors` of 32 bytes that they moved and the `least_sectors` that hold the bytes asked for; `passes` through the
    banks of shared memory, the `least_passes` without conflicts, and the worst conflict (`ways`); bytes `asked` for by threads, and bytes
    moved by engines.
    """

    requests: int = 0
    sectors: int = 0
    least_sectors: int = 0
    passes: int = 0
    least_passes: int = 0
    ways: int = 0
    asked: int = 0
    engine: int = 0


@dataclass(slots=True)
class Wait:
    """`times` that a barrier let threads go on together, and how many `warps` in all had come to it."""

    times: int = 0
    warps: int = 0


@dataclass(eq=False)
class _Footprint:
    """Which sectors of a global array were read and written."""

    memory: Memory
    shift: int              # of the first byte, from a multiple of 256
    read: Array = field(init=False)
    written: Array = field(init=False)

    def __post_init__(self) -> None:
        count = (self.shift + self.memory.cells.nbytes) // SECTOR + 1
        self.read, self.written = np.zeros(count, np.bool_), np.zeros(count, np.bool_)


class Profile(Observer):
    """The costs of one run of a kernel, `lowered`, with so many `threads` in a block.

    * `costs`: for each side of a statement the sums of what it cost.
    * `waits`: for each barrier, and each wait for an mbarrier or a group, how often.
    """

    def __init__(self, lowered: Lowered, threads: int) -> None:
        self.lowered, self.threads = lowered, threads
        self.costs: defaultdict[Side, Cost] = defaultdict(Cost)
        self.waits: defaultdict[Node, Wait] = defaultdict(Wait)
        self._footprints: dict[int, _Footprint] = {}
        self._rows: tuple[Array, _Rows] | None = None
        self._runs: dict[Node, tuple[int, int]] = {}

    @property
    def bytes_read(self) -> int:
        """Bytes of the sectors of global memory that were read, each once: what comes from DRAM when caches keep everything."""
        return SECTOR * sum(int(f.read.sum()) for f in self._footprints.values())

    @property
    def bytes_written(self) -> int:
        """The same of sectors written."""
        return SECTOR * sum(int(f.written.sum()) for f in self._footprints.values())

    # ---- events

    def access(self, touch: Touch) -> None:
        if touch.buffer is not None and touch.buffer.scope == "tmem":
            return      # it has neither sectors nor the banks of shared memory
        shared = isinstance(touch.memory, SharedMemory)
        cost = self.costs[Side(touch.node, touch.kind, "shared" if shared else "global", touch.buffer)]
        start = touch.start if touch.start.ndim > 1 else touch.start[:, None]
        if not shared:
            start = self._note(touch, start)
        if touch.actor is not None and not touch.actor.own:
            cost.engine += start.size * touch.size
            return
        length, size = self._run(touch)
        if length > touch.size:
            start = start[:, :1]
        cost.asked += start.size * length
        rows = self._rows_of(touch.threads)
        for piece in start.T:
            for at in range(0, length, size):
                spread = rows.spread(piece + at)
                cost.requests += len(spread)
                if shared:
                    taken, least, ways = passes(spread, size, rows.active)
                    cost.passes += int(taken.sum())
                    cost.least_passes += int(least.sum())
                    cost.ways = max(cost.ways, int(ways.max(initial=0)))
                else:
                    moved, few = sectors(spread, size, rows.active)
                    cost.sectors += int(moved.sum())
                    cost.least_sectors += int(few.sum())

    def join(self, threads: Array, node: Node) -> None:
        groups = threads if threads.ndim > 1 else threads[None]
        wait = self.waits[node]
        wait.times += len(groups)
        wait.warps += len(np.unique(self._warps(groups.reshape(-1))))

    def acquire(self, threads: Array, key: object, node: Node, scope: str) -> None:
        wait = self.waits[node]
        wait.times += 1
        wait.warps += len(np.unique(self._warps(threads)))

    def _run(self, touch: Touch) -> tuple[int, int]:
        """(bytes that lie together from the first piece on, bytes that one instruction moves of them).

        A vector that is not known to be aligned moves element by element. One of elements that share bytes is told byte by byte.
        """
        found = self._runs.get(touch.node)
        if found is None:
            length, size = touch.size, touch.size
            if touch.node in self.lowered.accesses and is_packet(touch.node):
                if not moves_whole(touch.node, self.lowered):
                    size = max(touch.node.attrs["buffer"].dtype.bytes, 1)
                elif touch.start.ndim > 1:
                    length = size = moved(touch.node).bytes
            found = self._runs[touch.node] = length, min(move_of(size), length)
        return found

    # ---- places

    def _note(self, touch: Touch, start: Array) -> Array:
        """Remember the sectors that are touched; the starts from the beginning of the allocation."""
        found = self._footprints.get(id(touch.memory))
        if found is None:
            found = self._footprints[id(touch.memory)] = _Footprint(touch.memory, _offset_in_allocation(touch.memory.cells) % 256)
        start = start + found.shift
        first, last = start // SECTOR, (start + touch.size - 1) // SECTOR
        places = [first, last] if touch.size <= SECTOR else [first + k for k in range(int((last - first).max(initial=0)) + 1)]
        for place in places:
            where = np.minimum(place, last)
            if touch.kind != "store":
                found.read[where] = True
            if touch.kind != "load":
                found.written[where] = True
        return start

    def _warps(self, threads: Array) -> Array:
        number: Array = threads // self.threads * -(-self.threads // LANES) + threads % self.threads // LANES
        return number

    def _rows_of(self, threads: Array) -> _Rows:
        """How the threads of an access make up warps; those of one frame are asked for again and again."""
        if self._rows is None or self._rows[0] is not threads:
            self._rows = threads, _Rows(threads, self.threads, self._warps(threads))
        return self._rows[1]


class _Rows:
    """The warps of some threads: a row each, a column a lane."""

    def __init__(self, threads: Array, block: int, warps: Array) -> None:
        self.active: Array | None = None        # None: every lane of every row
        self.where: tuple[Array, Array] | None = None
        lanes = threads % block % LANES
        if len(threads) % LANES == 0 and (lanes.reshape(-1, LANES) == np.arange(LANES)).all() and \
                (warps.reshape(-1, LANES) == warps[::LANES, None]).all():
            return
        found, row = np.unique(warps, return_inverse=True)
        self.where = row, lanes
        self.active = np.zeros((len(found), LANES), np.bool_)
        self.active[self.where] = True

    def spread(self, values: Array) -> Array:
        """One value a thread, in rows."""
        if self.where is None or self.active is None:
            return values.reshape(-1, LANES)
        table = np.zeros(self.active.shape, values.dtype)
        table[self.where] = values
        return table


def _offset_in_allocation(array: Array) -> int:
    """How many bytes the array's first element lies behind the beginning of the array that owns the memory."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return array.ctypes.data - owner.ctypes.data
