"""Shared memory of another block of the cluster is there only while that block runs: who touches it must know that the block has begun, and the
block may not end before. CUDA C++ Programming Guide, Distributed Shared Memory. The schedule of a run does not decide: order does (see `clocks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.knowledge import ACTOR, LAST_TIME, NOTHING, TIME_BITS, union
from runtime.simulator.memory import Memory
from runtime.simulator.race_text import Accused, access_text, three
from tracer.errors import ClusterError

if TYPE_CHECKING:
    from runtime.simulator.race_cases import Case
    from runtime.simulator.races import Races

CURE = "its blocks must wait for each other before they {}, as with T.cuda.cluster_sync()"


class Peers:
    """Looks for accesses to blocks that may not have begun yet, or have ended already. Rows of a cluster follow each other by rank."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.met: set[int] = set()      # rows of blocks that have passed a barrier of the cluster: all peers have begun
        self.doubt: ClusterError | None = None      # raised at the end: a store of the peer may come that makes it a race

    def begun(self, case: Case) -> None:
        """Whether an access reaches a block of which its thread has not heard."""
        if self.doubt is not None:
            return
        memory, order = case.touch.memory, self.races.order
        own = self.races.rows(case.slots)
        row = self._first_row(int(own[0])) + case.units * case.shadow.unit // memory.pitch
        for k in np.flatnonzero(row != own).tolist():
            known = case.actor.known if case.actor is not None else order.extra.get(int(case.slots[k]), NOTHING)
            if int(own[k]) not in self.met and int(row[k]) not in known.rows:
                self.doubt = self._error(int(case.stamps[k]), int(row[k]), memory, case.shadow.byte(int(case.units[k])),
                                         "which may not have begun yet", "use it")
                return

    def left(self, row: int, memory: Memory, start: int, size: int) -> None:
        """The block of `row` has ended; `size` bytes from `start` were its own."""
        order, shadow = self.races.order, memory.shadow
        if shadow is None or not shadow.unit:
            return
        units = np.arange(start // shadow.unit, (start + size) // shadow.unit)
        slots = np.arange(row * order.threads, (row + 1) * order.threads)
        known, over = order.snapshot(slots), union(order.over[s] for s in slots.tolist() if s in order.over)
        for stamps in shadow.members(units):
            touched = np.flatnonzero(stamps)
            who, when = (stamps[touched] >> TIME_BITS) - 1, stamps[touched] & LAST_TIME
            for k in np.flatnonzero((self.races.rows(who) != row) & ~order.within(who, when, known) & ~order.within(who, when, over)).tolist():
                raise self._error(int(stamps[touched[k]]), row, memory, shadow.byte(int(units[touched[k]])),
                                  "which may have ended by then, as nothing orders the access before its end", "end")

    def _first_row(self, row: int) -> int:
        """The row of the block of rank 0 in the cluster of this one."""
        cluster = self.races.order.cluster_of
        while row and cluster(row - 1) == cluster(row):
            row -= 1
        return row

    def end(self) -> None:
        if self.doubt is not None:
            raise self.doubt

    def _error(self, stamp: int, row: int, memory: Memory, byte: int, why: str, until: str) -> ClusterError:
        """`stamp` of an access, which touches the `byte` of the block of `row`."""
        grid, event, who = self.races.grid, self.races.events[stamp & LAST_TIME], (stamp >> TIME_BITS) - 1
        assert event.node is not None
        by = Accused(event.node, event.buffer, event.kind, self.races.place(who), who >= ACTOR, None)
        of = three(int(self.races.blocks[row]), grid.grid)
        return ClusterError(f"{event.node.op.name}: shared memory of block {of}, {why}: {CURE.format(until)}\n"
                            f"  {access_text(grid, memory, byte, by)}")


def meets_cluster(key: object) -> bool:
    """Whether a barrier's key is that of a cluster (see `cluster_barriers`)."""
    return isinstance(key, tuple) and key[:1] == ("cluster",)
