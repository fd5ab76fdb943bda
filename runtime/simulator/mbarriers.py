"""mbarriers: what each counts, and how instructions and operations find and change it.

Source: PTX ISA 9.7.13.15. An mbarrier goes through phases, numbered here from its initialisation. A phase is over when no arrivals are pending
and no bytes are outstanding; then its arrivals are counted anew. A wait names the parity of a phase, the present or the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.agent import Agent, line
from runtime.simulator.events import AsyncOperation
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.pointers import Pointer, touch
from runtime.simulator.program import Compiler
from runtime.simulator.resident import Block
from tracer import operations as op
from tracer.errors import MBarrierError
from tracer.ir import Node

BYTES = 8
LIMIT = (1 << 20) - 1       # of the arrivals of a phase, and of its bytes


class Copied(NamedTuple):
    """An operation that brings bytes, and the phase in which it was begun, or in which it ended."""

    operation: AsyncOperation
    phase: int


@dataclass(eq=False)
class MBarrier:
    """One mbarrier, in shared memory of `block`. `count` arrivals end a phase; `pending` of them, and `tx` bytes, are missing in this one."""

    block: Block
    start: int                  # its byte in the space
    name: str
    node: Node                  # that initialised it
    count: int
    pending: int
    owner: int                  # the thread that initialised it
    fenced: bool = False        # that thread has run a fence since, so that copies see it
    tx: int = 0
    phase: int = 0
    seen: int = -1              # the latest phase that somebody has waited for
    sources: dict[Node, None] = field(default_factory=dict)     # what has arrived or brought bytes so far
    begun: list[Copied] = field(default_factory=list)           # operations whose bytes it waits for
    unseen: list[Copied] = field(default_factory=list)          # ended, in a phase that nobody has waited for

    def key(self, phase: int) -> tuple[Any, ...]:
        """What arrivals of a phase release to and waits for it acquire."""
        return ("mbarrier", self.block.number, self.start % max(1, self.block.cluster.space.pitch), self.node, phase)

    def arrive(self, count: int, node: Node, who: str) -> None:
        """`count` arrivals."""
        self.sources[node] = None
        if self.seen < self.phase - 1:
            raise MBarrierError(f"{node.op.name}: arrives in phase {self.phase} of {self.name}, though nobody has waited for phase {self.phase - 1}: "
                                f"a wait is missing, or more threads arrive than the {self.count} that mbarrier.init counts at {self.node.location}"
                                f"\n  in {who}{line(node)}")
        if count > self.pending:
            raise MBarrierError(f"{node.op.name}: {count} arrivals at {self.name}, which waits for {self.text()}: more than the "
                                f"{self.count} that mbarrier.init gave it at {self.node.location}\n  in {who}{line(node)}")
        self.pending -= count
        self.settle()

    def expect(self, size: int, node: Node, who: str) -> None:
        """`size` more bytes are to come."""
        self.sources[node] = None
        self.tx += size
        if not -LIMIT <= self.tx <= LIMIT:
            raise MBarrierError(f"{node.op.name}: {self.tx} bytes outstanding at {self.name}; an mbarrier counts up to {LIMIT} a phase"
                                f"\n  in {who}{line(node)}")
        self.settle()

    def settle(self) -> None:
        """End the phase, if all has come."""
        self.block.cluster.engines.changes += 1
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.count

    def over(self, phase: int) -> None:
        """Somebody has waited for the end of `phase`."""
        self.seen = max(self.seen, phase)
        if self.unseen:
            self.unseen = [each for each in self.unseen if each.phase > phase]

    def text(self) -> str:
        """What the present phase waits for."""
        missing = [f"{self.pending} of {self.count} arrivals"] if self.pending else []
        if self.tx:
            missing.append(f"{self.tx} bytes" if self.tx > 0 else f"{-self.tx} bytes that came without being expected (expect_tx)")
        return f"{' and '.join(missing) or 'nothing'} (phase {self.phase})"


# ---- what operations do to them ------------------------------------------------------------------------------------------------

class TxCompletion:
    """An operation that brings `size` bytes to an mbarrier."""

    def __init__(self, barrier: MBarrier, size: int, operation: AsyncOperation) -> None:
        if not barrier.fenced:
            raise MBarrierError(f"{operation.node.op.name} tells {barrier.name} of its bytes, but no fence stands behind the mbarrier.init at "
                                f"{barrier.node.location}, so that the copy need not see it: write T.ptx.fence.mbarrier_init.release.cluster() "
                                f"behind it, in the same thread, before the barrier\n  in {barrier.block.launch.who(int(operation.threads.flat[0]))}"
                                f"{line(operation.node)}")
        self.barrier, self.size, self.phase = barrier, size, barrier.phase
        barrier.begun.append(Copied(operation, barrier.phase))

    @property
    def key(self) -> tuple[Any, ...]:
        return self.barrier.key(self.barrier.phase)

    def complete(self, operation: AsyncOperation) -> None:
        barrier, node = self.barrier, operation.node
        barrier.begun = [each for each in barrier.begun if each.operation is not operation]
        barrier.unseen.append(Copied(operation, barrier.phase))
        who = barrier.block.launch.who(int(operation.threads.flat[0]))
        if barrier.phase != self.phase:
            raise MBarrierError(f"{node.op.name}: {self.size} bytes come to {barrier.name} after the phase in which they were asked for "
                                f"(phase {self.phase}, now {barrier.phase}): fewer bytes were expected (expect_tx) than are copied\n"
                                f"  in {who}{line(node)}")
        barrier.expect(-self.size, node, who)


class ArriveCompletion:
    """An operation that arrives at an mbarrier when it is done."""

    def __init__(self, barrier: MBarrier, count: int = 1) -> None:
        self.barrier, self.count = barrier, count

    @property
    def key(self) -> tuple[Any, ...]:
        return self.barrier.key(self.barrier.phase)

    def complete(self, operation: AsyncOperation) -> None:
        who = self.barrier.block.launch.who(int(operation.threads.flat[0]))
        self.barrier.arrive(self.count, operation.node, who)


# ---- operands ------------------------------------------------------------------------------------------------------------------

class BarrierOperand:
    """The `bar` operand of an instruction. `told`: observers hear of the access ("atomic"; "store" for init and inval)."""

    def __init__(self, c: Compiler, node: Node, operand: Node, space: str = "shared", told: str = "atomic") -> None:
        self.node, self.told = node, told
        self.pointer = Pointer(c, node, operand, "mbarrier", space if operand.op is not op.ADDRESS_OF else "")

    def places(self, agent: Agent, frame: Frame) -> Array:
        """Each thread's byte in the space, flat."""
        found = self.pointer.locate(agent, frame, BYTES, BYTES)
        if agent.observers and self.told:
            # Operations on an mbarrier exclude each other whatever their scope, which is that of the order they make.
            order, scope = ("relaxed", "sys") if self.told == "atomic" else ("", "")
            for observer in agent.observers:
                observer.access(touch(agent, frame, self.pointer, found, self.told, BYTES, order=order, scope=scope))
        return found.start

    def each(self, agent: Agent, frame: Frame) -> Iterator[tuple[MBarrier, Array]]:
        """The mbarriers, each with the positions in the flat frame of the threads that mean it."""
        places = self.places(agent, frame)
        if (places == places[0]).all():
            yield self.at(agent, frame, int(places[0])), np.arange(len(places))
            return
        for place in dict.fromkeys(places.tolist()):
            yield self.at(agent, frame, place, places == place), np.flatnonzero(places == place)

    def at(self, agent: Agent, frame: Frame, place: int, who: Value = True) -> MBarrier:
        assert agent.resident is not None
        barrier: MBarrier | None = agent.resident.cluster.mbarriers.get(place)
        if barrier is None:
            bad = np.broadcast_to(who, frame.count).reshape(frame.shape)
            agent.fail(MBarrierError, f"{self.node.op.name}: {self.pointer.name(agent, frame, bad)} is no mbarrier: no thread has initialised it yet "
                       "(mbarrier.init, then a fence and a barrier of the block), or it was invalidated", frame, bad, self.node)
        return barrier


def space_of(node: Node) -> str:
    """Whose mbarriers an arrival may reach."""
    return "shared::cluster" if node.attrs.get("space") == "shared::cluster" else "shared"


def flat_numbers(frame: Frame, value: Value) -> Array:
    """An integer operand of each thread, flat."""
    return np.broadcast_to(np.asarray(value), frame.shape).reshape(-1).astype(np.int64)


def who_of(agent: Agent, frame: Frame, positions: Array) -> str:
    numbers = agent.numbers(frame)[positions]
    return agent.launch.who(int(numbers[0])) + (f" and {len(numbers) - 1} more" if len(numbers) > 1 else "")


def fence_inits(agent: Agent, frame: Frame) -> None:
    """These threads run a fence that asynchronous copies see: of mbarriers' initialisation, of the async proxy, or of the cluster or more."""
    for barrier in agent.resident.cluster.mbarriers.values() if agent.resident is not None else ():
        if not barrier.fenced:
            barrier.fenced = barrier.owner in agent.numbers(frame)
