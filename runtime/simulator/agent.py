"""The state of one agent: threads that run in lockstep, and what they have computed.

An agent is a whole chunk of blocks (`lockstep`), or one warp of a block (`scheduler`). Its *lanes* are numbered from 0; lane `k` of a warp's
agent is thread `first + k` of the block. What threads must wait for is yielded to the scheduler as a `Wait`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from runtime.simulator.engines import Engines, Groups
from runtime.simulator.events import Observer
from runtime.simulator.frames import Array, Frame, Value, empty
from runtime.simulator.memory import Memory, SharedMemory
from tracer.errors import SimulationError
from tracer.ir import Node, Storage

if TYPE_CHECKING:
    from runtime.simulator.resident import Block


class Wait(NamedTuple):
    """Threads that cannot go on at `node` before `ready()`; `text()` says what they wait for. `parts`: where the two sides of a branch
    wait, each on its own. `timed`: that time passes will do."""

    agent: Agent
    frame: Frame
    node: Node
    ready: Callable[[], bool]
    text: Callable[[], str]
    parts: tuple[Wait, ...] = ()
    timed: bool = False


@dataclass(slots=True)
class Loop:
    """Lanes that left the present iteration, and those that left the loop."""

    continued: list[Array] = field(default_factory=list)
    broken: list[Array] = field(default_factory=list)


class Launch(NamedTuple):
    """The three extents of the grid (in blocks), of a block (in threads) and of a cluster (in blocks)."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    def block_text(self, number: int) -> str:
        return str(_coordinates(number, self.grid))

    def thread_text(self, number: int) -> str:
        return str(_coordinates(number, self.block))

    def who(self, number: int) -> str:
        """`block (0, 0, 0), thread (5, 0, 0)` of a thread's number in the grid."""
        block, thread = divmod(number, self.threads)
        return f"block {self.block_text(block)}, thread {self.thread_text(thread)}"


class Agent:
    """Threads `first`, `first + 1`, ... (`threads` of them) of each of the `blocks` (linear numbers).

    `space` is the shared memory of the blocks that run together; `resident`, for a warp, the block that it belongs to.
    """

    def __init__(self, launch: Launch, blocks: Array, threads: int, memory: dict[Storage, Memory], space: SharedMemory, engines: Engines,
                 counts: list[int], first: int = 0, resident: Block | None = None) -> None:
        self.launch, self.blocks, self.first, self.threads = launch, blocks, first, threads
        self.lanes = len(blocks) * threads
        self.root = Frame(threads, np.arange(len(blocks)), np.arange(threads))
        self.memory, self.space, self.engines, self.resident = memory, space, engines, resident
        self.observers: tuple[Observer, ...] = engines.observers
        self.home: dict[int, Frame] = {}
        self.counts = counts
        self.loops: list[Loop] = []
        self.splits: list[Node] = []        # the control flow, outermost first, in which only some threads run now
        self.away = np.zeros(self.lanes, np.bool_)      # left by break, continue or return
        self.returned: Array | None = None
        self.polled: Callable[[], str] | None = None    # what the latest test that failed was about
        self.groups: dict[str, Groups] = {}             # of what its threads have under way, by kind
        self.notes: list[str] = []

    # ---- values ------------------------------------------------------------------------------------------------------

    def set(self, frame: Frame, slot: int, value: Value) -> None:
        frame.values[slot] = value
        self.home[slot] = frame

    def fetch(self, frame: Frame, slot: int, vector: bool) -> Value:
        """A value computed in another frame, for this frame's threads."""
        home = self.home[slot]
        value = frame.values[slot] = frame.take(home, home.values[slot], vector)
        return value

    def drop(self, frame: Frame, slots: list[int]) -> None:
        """Nothing needs these values any more."""
        for slot in slots:
            home = self.home.pop(slot, None)
            if home is not None:
                home.values.pop(slot, None)
            frame.values.pop(slot, None)

    # ---- threads that leave ------------------------------------------------------------------------------------------

    def leave(self, frame: Frame, record: list[Array]) -> Frame:
        """The frame's threads stop here until whoever holds `record` lets them go on."""
        lanes = frame.lanes.reshape(-1)
        self.away[lanes] = True
        record.append(lanes)
        return empty(self.threads)

    def rejoin(self, record: list[Array]) -> None:
        for lanes in record:
            self.away[lanes] = False
        record.clear()

    def end(self, frame: Frame) -> Frame:
        """The frame's threads return."""
        if self.returned is None:
            self.returned = np.zeros(self.lanes, np.bool_)
        self.returned[frame.lanes] = True
        return self.leave(frame, [])

    def present(self, frame: Frame) -> Frame:
        """Those of the frame's threads that have not left."""
        return frame.keep(~self.away[frame.lanes])

    def doubt(self, error: type[SimulationError], what: str, frame: Frame, bad: Value, node: Node, hint: str = "") -> None:
        """As `fail`, of memory that another thread may still write: where races are looked for the run goes on to see if one does."""
        try:
            self.fail(error, what, frame, bad, node, hint)
        except error as found:
            if self.engines.doubts is None:
                raise
            self.engines.doubts.add(found)

    def numbers(self, frame: Frame) -> Array:
        """The frame's threads by their number in the grid, flat: how observers know them."""
        if frame.numbers is None:
            rows = self.blocks[frame.block_rows] * self.launch.threads + (self.first + frame.thread_numbers)
            frame.numbers = np.broadcast_to(rows, frame.shape).reshape(-1)
        return frame.numbers

    # ---- messages ----------------------------------------------------------------------------------------------------

    def block_text(self, row: int) -> str:
        return self.launch.block_text(int(self.blocks[row]))

    def thread_text(self, lane: int) -> str:
        return self.launch.thread_text(self.first + lane)

    def fail(self, error: type[SimulationError], what: str, frame: Frame, bad: Value, node: Node, hint: str = "") -> NoReturn:
        """Raise `error`: what happened, the first thread it happened to, how many others, the Python line, and a hint on a line of its own."""
        lanes = frame.lanes[frame.spread(bad)]
        row, thread = divmod(int(lanes[0]), self.threads)
        text = f"{what}\n  in block {self.block_text(row)}, thread {self.thread_text(thread)}"
        if len(lanes) > 1:
            text += f" and {len(lanes) - 1} more"
        raise error(text + line(node) + hint)


def line(node: Node) -> str:
    """The last line of a message: where in the author's file."""
    return f"\n  at {node.location}" if node.location else ""


def _coordinates(linear: int, extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)
