"""The state of one agent: threads of a chunk of blocks that run in lockstep, and what they have computed.

Today one agent covers a whole chunk. A later machine may run one a warp: nothing here assumes that nobody else is there,
and whatever must wait for other threads is yielded to the machine as an `Arrival`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

import numpy as np

from runtime.simulator.events import Observer
from runtime.simulator.frames import Array, Frame, Value, empty
from runtime.simulator.memory import Memory
from tracer.errors import SimulationError
from tracer.ir import Node, Storage


class Arrival(NamedTuple):
    """Threads that came to an operation at which they wait for others."""

    agent: Agent
    frame: Frame
    node: Node


@dataclass(slots=True)
class Loop:
    """Lanes that left the present iteration, and those that left the loop."""

    continued: list[Array] = field(default_factory=list)
    broken: list[Array] = field(default_factory=list)


class Agent:
    """`blocks` are the linear numbers of the chunk's blocks; `grid`, `block` and `cluster` (of blocks) have three extents each."""

    def __init__(self, blocks: Array, grid: tuple[int, ...], block: tuple[int, ...], cluster: tuple[int, ...],
                 memory: dict[Storage, Memory], counters: int, observers: tuple[Observer, ...] = ()) -> None:
        self.blocks, self.grid, self.block, self.cluster = blocks, grid, block, cluster
        self.threads = block[0] * block[1] * block[2]
        self.lanes = len(blocks) * self.threads
        self.root = Frame(self.threads, np.arange(len(blocks)), np.arange(self.threads))
        self.memory = memory
        self.home: dict[int, Frame] = {}
        self.counts = [0] * counters
        self.loops: list[Loop] = []
        self.splits: list[Node] = []        # the control flow, outermost first, in which only some threads run now
        self.away = np.zeros(self.lanes, np.bool_)      # left by break, continue or return
        self.returned: Array | None = None
        self.notes: list[str] = []
        self.observers = observers

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

    def numbers(self, frame: Frame) -> Array:
        """The frame's threads by their number in the grid, flat: how observers know them."""
        if frame.numbers is None:
            rows = self.blocks[frame.block_rows] * self.threads + frame.thread_numbers
            frame.numbers = np.broadcast_to(rows, frame.shape).reshape(-1)
        return frame.numbers

    # ---- messages ----------------------------------------------------------------------------------------------------

    def block_text(self, row: int) -> str:
        return str(_coordinates(int(self.blocks[row]), self.grid))

    def thread_text(self, thread: int) -> str:
        return str(_coordinates(thread, self.block))

    def fail(self, error: type[SimulationError], what: str, frame: Frame, bad: Value, node: Node) -> NoReturn:
        """Raise `error`: what happened, the first thread it happened to, how many others, and the Python line."""
        lanes = frame.lanes[frame.spread(bad)]
        row, thread = divmod(int(lanes[0]), self.threads)
        text = f"{what}\n  in block {self.block_text(row)}, thread {self.thread_text(thread)}"
        if len(lanes) > 1:
            text += f" and {len(lanes) - 1} more"
        raise error(text + line(node))


def line(node: Node) -> str:
    """The last line of a message: where in the author's file."""
    return f"\n  at {node.location}" if node.location else ""


def _coordinates(linear: int, extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)
