"""Registers that an asynchronous instruction is using: which may not be touched now, and which were touched since the last fence.

wgmma works on the registers of its accumulator, and of an A fragment, from its issue to the wait for its group (PTX ISA 9.7.15.7);
tcgen05.ld fills registers up to `tcgen05.wait::ld` (9.7.16.6.4.5). `wgmma.fence` must stand between any other access to such registers
and the next wgmma. A memory is tracked from the first such instruction on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.frames import Array, Frame
from tracer.errors import AsyncError
from tracer.ir import Node

if TYPE_CHECKING:
    from runtime.simulator.agent import Agent
    from runtime.simulator.memory import Memory


class Tracker:
    """What is known of the bytes of one local memory: `filled` may not be touched, `held` not written; `touched` and `written` were since
    the last fence.

    `filled` and `held` hold the number of the instruction in `nodes`, from 1 on; 0 is none.
    """

    def __init__(self, memory: Memory) -> None:
        size = memory.cells.nbytes
        self.filled, self.held, self.touched, self.written = (np.zeros(size, np.uint8) for _ in range(4))
        self.nodes: list[Node] = []

    def number(self, node: Node) -> int:
        """The number of an instruction in `filled` and `held`."""
        if node not in self.nodes:
            self.nodes.append(node)
        return self.nodes.index(node) % 255 + 1

    def take(self, flags: Array, positions: Array, itemsize: int, node: Node) -> None:
        """Elements are the instruction's in `flags`, which is `filled` or `held`."""
        flags.view(f"u{itemsize}")[positions] = np.frombuffer(bytes([self.number(node)] * itemsize), f"u{itemsize}")[0]

    def touch(self, agent: Agent, frame: Frame, node: Node, position: Array | slice, itemsize: int, writes: bool, what: str) -> None:
        """An ordinary access to elements of `itemsize` bytes. Raises AsyncError where they are in use."""
        word = f"u{itemsize}"
        for flags in (self.touched, self.written) if writes else (self.touched,):
            flags.view(word)[position] = np.iinfo(word).max
        for flags, stops in ((self.filled, True), (self.held, writes)):
            if not stops:
                continue
            bad = flags.view(word)[position] != 0
            if np.any(bad):
                which = int(flags.view(word)[position].reshape(-1)[np.flatnonzero(bad)[0]]) & 0xFF
                user = self.nodes[which - 1]
                bad = bad.reshape(*frame.shape, -1).any(axis=-1)
                does = "is still writing" if flags is self.filled else "still reads"
                ends = _ENDS[user.op.name.split(".")[1]]
                agent.fail(AsyncError, f"{what} touches registers that {user.op.name}, issued at {user.location}, {does}; {ends}", frame, bad, node)


_ENDS = {"wgmma": "commit it and wait for its group first (wgmma.commit_group, wgmma.wait_group)", "tcgen05": "wait first (tcgen05.wait::ld)"}


def tracker_of(memory: Memory) -> Tracker:
    """The tracker of a local memory, from now on; nothing is known of what was touched before."""
    tracker: Tracker | None = memory.tracker
    if tracker is None:
        tracker = memory.tracker = Tracker(memory)
        tracker.touched[:] = tracker.written[:] = 0xFF
    return tracker
