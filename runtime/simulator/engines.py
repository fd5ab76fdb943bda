"""What works beside the threads: copies and matrix operations under way, and the groups in which threads wait for them.

An operation lands as late as is legal: when somebody waits for it, or when nobody could go on without. So what reads too early finds
what was there before. With a `seed` operations land, and warps take their turns, in some other order that is as legal.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from runtime.simulator.doubts import Doubts
from runtime.simulator.events import AsyncOperation, Observer
from runtime.simulator.frames import Array
from runtime.simulator.progress import Progress

END = 1 << 62       # of the time: no clock shows more


class Engines:
    """The operations under way, oldest first. `changes` counts what may have changed in memory that several threads see."""

    def __init__(self, observers: tuple[Observer, ...] = (), seed: int | None = None, progress: Progress | None = None) -> None:
        self.observers = observers
        self.progress = progress or Progress("", 0)
        self.random = None if seed is None else Random(seed)
        self.pending: dict[AsyncOperation, None] = {}
        self.changes = 0
        self.idle = 0           # how often nobody did anything but wait for the time to pass,
        self.time = 0           # and how long that was, in ticks of the clock
        self.doubts: Doubts | None = None       # where races are looked for

    def issue(self, operation: AsyncOperation) -> None:
        """Hand an operation over; it lands some time later."""
        self.pending[operation] = None
        if self.observers:
            self._tell_issue(operation)
        if self.random is not None and self.random.random() < 0.3:
            self.land(operation)

    def _tell_issue(self, operation: AsyncOperation) -> None:
        actors = [operation]
        if operation.reads_apart:
            operation.reading = AsyncOperation(operation.node, operation.threads)
            actors = [operation.reading, operation]
        for observer in self.observers:
            for actor in actors:
                observer.issue(actor, actor.threads)
            for touch in operation.touches:
                observer.access(touch if touch.kind != "load" else replace(touch, actor=actors[0]))

    def land(self, operation: AsyncOperation) -> None:
        """Let it happen now, behind those that must come first."""
        if operation.landed:
            return
        for earlier in operation.after:
            self.land(earlier)
        self.read(operation)
        operation.landed = True
        self.pending.pop(operation, None)
        operation.land()
        self.changes += 1
        for observer in self.observers:
            for key in [completion.key for completion in operation.completions]:
                for ended in operation.after:       # an arrival tells of what it came behind
                    observer.land(ended, key, operation.threads if ended.own else None)
                observer.land(operation, key)
            if not operation.completions:
                observer.land(operation, operation)
        for completion in operation.completions:
            completion.complete(operation)

    def read(self, operation: AsyncOperation) -> None:
        """Let it take what it reads, behind what it must come behind."""
        if not operation.was_read and not operation.landed:
            for earlier in operation.after:
                self.land(earlier)
            operation.read()
            operation.was_read = True
            if operation.reading is not None:
                for observer in self.observers:
                    observer.land(operation.reading, operation.reading)

    def pass_time(self) -> None:
        """Nothing happens for a while; a longer one each time, so that any time comes soon, until `END`."""
        self.idle += 1
        self.time = min(self.time + max(100, self.time // 4), END)

    def land_one(self) -> bool:
        """The oldest (with a seed: any) operation under way; False where there is none."""
        if not self.pending:
            return False
        choice = 0 if self.random is None else self.random.randrange(len(self.pending))
        self.land(list(self.pending)[choice] if choice else next(iter(self.pending)))
        return True


@dataclass(slots=True)
class Member:
    """An operation in a group, for the `lanes` of the agent that issued it: the `group` of each lane, -1 before it is committed, and whether
    its end is `told` otherwise, by an mbarrier. `read`: that the lanes have waited for its reading."""

    operation: AsyncOperation
    lanes: Array
    group: Array
    told: Array
    read: bool = False

    def part(self, which: Array) -> Member:
        return self if which.all() else Member(self.operation, self.lanes[which], self.group[which], self.told[which], self.read)


@dataclass(slots=True)
class Groups:
    """The commit groups of an agent's threads, each thread's own: cp.async's, bulk copies'.

    PTX ISA 9.7.9.25.3.2 and 3.3 (`cp.async.commit_group`, `wait_group`): a group is what a thread issued since its last commit; empty ones
    count. Each of an agent's lanes has committed `committed` groups.
    """

    committed: Array
    members: list[Member] = field(default_factory=list)

    def add(self, operation: AsyncOperation, lanes: Array) -> None:
        """`lanes` (flat) issued `operation`."""
        self.members.append(Member(operation, lanes, np.full(len(lanes), -1), np.zeros(len(lanes), np.bool_)))

    def _here(self, lanes: Array) -> Array:
        here = np.zeros(len(self.committed), np.bool_)
        here[lanes] = True
        return here

    def commit(self, lanes: Array) -> None:
        """These lanes end their group."""
        here = self._here(lanes)
        for member in self.members:
            which = (member.group < 0) & here[member.lanes]
            member.group[which] = self.committed[member.lanes[which]]
        self.committed[lanes] += 1

    def due(self, lanes: Array, n: int | None, keep: bool = False) -> list[Member]:
        """What must be complete before all but the `n` latest groups of these lanes are (None: everything, committed or not), for the
        lanes that this concerns; they leave the groups, unless asked to `keep` them."""
        here = self._here(lanes)
        found, kept = [], []
        for member in self.members:
            old = here[member.lanes]
            if n is not None:
                old = old & (member.group >= 0) & (member.group < self.committed[member.lanes] - n)
            if old.any():
                found.append(member.part(old))
            if not old.all():
                kept.append(member.part(~old))
        if not keep:
            self.members = kept
        return found

    def before(self, lanes: Array) -> tuple[AsyncOperation, ...]:
        """All that these lanes have under way; whoever asks tells of its end. What has landed and been told of leaves the groups."""
        here = self._here(lanes)
        self.members = [member for member in self.members if not (member.operation.landed and member.told.all())]
        found = []
        for member in self.members:
            mine = here[member.lanes]
            member.told |= mine
            if mine.any():
                found.append(member.operation)
        return tuple(found)

    def left(self) -> list[Member]:
        """What nobody has waited for."""
        return [member.part(~member.told) for member in self.members if not member.told.all()]
