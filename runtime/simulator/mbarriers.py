"""mbarriers: what each counts, and the instructions on them.

Source: PTX ISA 9.7.13.15. An mbarrier goes through phases, numbered here from its initialisation. A phase is over when no arrivals are pending
and no bytes are outstanding; then its arrivals are counted anew. A wait names the parity of a phase, the present or the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.addresses import RANK_SHIFT
from runtime.simulator.agent import Agent, Wait, line
from runtime.simulator.events import AsyncOperation
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.pointers import Pointer, put_registers, touch
from runtime.simulator.program import Compiler, Flow, Run, statement
from runtime.simulator.register_operands import Registers
from runtime.simulator.resident import Block
from tracer import instructions as ins
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
    begun: list[Copied] = field(default_factory=list)           # operations whose bytes it waits for
    unseen: list[Copied] = field(default_factory=list)          # ended, in a phase that nobody has waited for

    def key(self, phase: int) -> tuple[Any, ...]:
        """What arrivals of a phase release to and waits for it acquire."""
        return ("mbarrier", self.block.number, self.start % max(1, self.block.cluster.space.pitch), self.node, phase)

    def arrive(self, count: int, node: Node, who: str) -> None:
        """`count` arrivals."""
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


def _space(node: Node) -> str:
    return "shared::cluster" if node.attrs.get("space") == "shared::cluster" else "shared"


def _numbers(frame: Frame, value: Value) -> Array:
    """An integer operand of each thread, flat."""
    return np.broadcast_to(np.asarray(value), frame.shape).reshape(-1).astype(np.int64)


def _who(agent: Agent, frame: Frame, positions: Array) -> str:
    numbers = agent.numbers(frame)[positions]
    return agent.launch.who(int(numbers[0])) + (f" and {len(numbers) - 1} more" if len(numbers) > 1 else "")


# ---- life --------------------------------------------------------------------------------------------------------------------------

@statement(ins.MBARRIER_INIT)
def _init(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    bar, value, counter = BarrierOperand(c, node, given["bar"][0], told="store"), c.narrow(given["count"][0]), c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        assert agent.resident is not None
        made = agent.resident.cluster.mbarriers
        for k, (place, count) in enumerate(zip(bar.places(agent, frame).tolist(), _numbers(frame, value(agent, frame)).tolist())):
            here = np.arange(frame.count).reshape(frame.shape) == k
            name = bar.pointer.name(agent, frame, here)
            if not 1 <= count <= LIMIT:
                agent.fail(MBarrierError, f"{node.op.name}: {name} is given a count of {count}; it is between 1 and {LIMIT}", frame, here, node)
            if place in made:
                agent.fail(MBarrierError, f"{node.op.name}: {name} is an mbarrier already, initialised at {made[place].node.location}, and waits for "
                           f"{made[place].text()}; mbarrier.inval ends it", frame, here, node)
            made[place] = MBarrier(agent.resident, place, name, node, count, count, int(agent.numbers(frame)[k]))
            agent.engines.changes += 1

    return run, False


def fence_inits(agent: Agent, frame: Frame) -> None:
    """These threads run a fence that asynchronous copies see: of mbarriers' initialisation, of the async proxy, or of the cluster or more."""
    for barrier in agent.resident.cluster.mbarriers.values() if agent.resident is not None else ():
        if not barrier.fenced:
            barrier.fenced = barrier.owner in agent.numbers(frame)


@statement(ins.MBARRIER_INVAL)
def _inval(c: Compiler, node: Node) -> tuple[Run, bool]:
    bar, counter = BarrierOperand(c, node, ins.arguments(node)["bar"][0], told="store"), c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        assert agent.resident is not None
        for barrier, positions in bar.each(agent, frame):
            if barrier.begun:
                raise MBarrierError(f"{node.op.name}: {barrier.name} is invalidated while {len(barrier.begun)} operations still bring bytes to it, "
                                    f"the first issued at {barrier.begun[0].operation.node.location}\n"
                                    f"  in {_who(agent, frame, positions)}{line(node)}")
            del agent.resident.cluster.mbarriers[barrier.start]

    return run, False


# ---- arrivals ------------------------------------------------------------------------------------------------------------------

@statement(ins.MBARRIER_ARRIVE)
def _arrive(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    bar, counter = BarrierOperand(c, node, given["bar"][0], _space(node)), c.count(node)
    tx, count = (c.narrow(given[name][0]) if given[name] else None for name in ("tx", "count"))
    state = Registers(c, node, given["state"]) if given["state"] else None
    drops, incomplete, releases = (bool(node.attrs.get("drop")), bool(node.attrs.get("noComplete")), node.attrs.get("sem") != "relaxed")
    scope = node.attrs.get("scope", "cta")

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        counts = np.ones(frame.count, np.int64) if count is None else _numbers(frame, count(agent, frame))
        sizes = None if tx is None else _numbers(frame, tx(agent, frame))
        states = np.zeros(frame.count, np.uint64)
        for barrier, positions in bar.each(agent, frame):
            for k in positions.tolist():
                who, number = _who(agent, frame, np.array([k])), int(counts[k])
                if releases:
                    for observer in agent.observers:
                        observer.release(agent.numbers(frame)[k:k + 1], barrier.key(barrier.phase), node, scope)
                if sizes is not None:
                    barrier.expect(int(sizes[k]), node, who)
                states[k] = barrier.phase << 32 | barrier.pending
                if incomplete and number >= barrier.pending:
                    raise MBarrierError(f"{node.op.name}: the arrival would end the phase of {barrier.name}, which waits for {barrier.text()}; "
                                        f".noComplete promises that it does not\n  in {who}{line(node)}")
                if drops:
                    barrier.count -= number
                barrier.arrive(number, node, who)
        if state is not None:
            put_registers(state, agent, frame, states.reshape(frame.shape))

    return run, False


@statement(ins.MBARRIER_EXPECT_TX, ins.MBARRIER_COMPLETE_TX)
def _transactions(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    bar, size, counter = BarrierOperand(c, node, given["bar"][0], _space(node)), c.narrow(given["tx"][0]), c.count(node)
    sign = 1 if node.op is ins.MBARRIER_EXPECT_TX else -1

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        sizes = _numbers(frame, size(agent, frame))
        for barrier, positions in bar.each(agent, frame):
            for k in positions.tolist():
                barrier.expect(sign * int(sizes[k]), node, _who(agent, frame, np.array([k])))

    return run, False


# ---- waits ---------------------------------------------------------------------------------------------------------------------

class Awaited(NamedTuple):
    """Threads (positions in the flat frame) that wait for the end of a phase."""

    barrier: MBarrier
    phase: int
    positions: Array

    @property
    def over(self) -> bool:
        return self.barrier.phase > self.phase


class WaitOperands:
    """Whose end of which phase an instruction waits for: by its parity, or by the state that an arrival gave."""

    def __init__(self, c: Compiler, node: Node) -> None:
        given = ins.arguments(node)
        self.node = node
        self.bar = BarrierOperand(c, node, given["bar"][0])
        by_parity = node.op is ins.MBARRIER_WAIT or bool(node.attrs.get("parity"))
        self.value = c.narrow(given["phase" if by_parity else "state"][0])
        self.awaited = self._by_parity if by_parity else self._by_state
        self.acquires = node.attrs.get("sem") != "relaxed"
        self.scope = node.attrs.get("scope", "cta")
        self.arrivals = arrivals_of(c).get(self.bar.pointer.buffer, [])

    def each(self, agent: Agent, frame: Frame) -> list[Awaited]:
        values = _numbers(frame, self.value(agent, frame))
        self._check_own(agent, frame)
        found = []
        for barrier, positions in self.bar.each(agent, frame):
            mine = values[positions]
            kinds = [int(mine[0])] if (mine == mine[0]).all() else dict.fromkeys(mine.tolist())
            found += [self.awaited(agent, frame, barrier, value, positions[mine == value]) for value in kinds]
        return found

    def _check_own(self, agent: Agent, frame: Frame) -> None:
        """Raise MBarrierError for an mbarrier of another block."""
        if self.bar.pointer.access is not None:
            return
        assert agent.resident is not None
        ranks = self.bar.pointer.address(agent, frame).reshape(frame.shape) >> RANK_SHIFT
        foreign = ranks != agent.resident.rank
        if foreign.any():
            agent.fail(MBarrierError, f"{self.node.op.name}: waits for an mbarrier of the block of rank {int(ranks[foreign][0])}; a block waits for "
                       "its own only, others arrive at it", frame, foreign, self.node)

    def _by_parity(self, agent: Agent, frame: Frame, barrier: MBarrier, parity: int, positions: Array) -> Awaited:
        if parity not in (0, 1):
            raise MBarrierError(f"{self.node.op.name}: the parity {parity}; that of a phase is 0 or 1\n"
                                f"  in {_who(agent, frame, positions)}{line(self.node)}")
        return Awaited(barrier, barrier.phase - 1 if barrier.phase & 1 != parity else barrier.phase, positions)

    def _by_state(self, agent: Agent, frame: Frame, barrier: MBarrier, state: int, positions: Array) -> Awaited:
        phase = state >> 32
        if phase < barrier.phase - 1:
            self._behind(agent, frame, barrier, phase, positions)
        return Awaited(barrier, phase, positions)

    def _behind(self, agent: Agent, frame: Frame, barrier: MBarrier, phase: int, positions: Array) -> None:
        raise MBarrierError(
            f"{self.node.op.name}: waits for phase {phase} of {barrier.name}, which is in phase {barrier.phase} already: two phases behind it looks "
            f"like a later one. Its {barrier.count} arrivals a phase must come from all who wait for it, or behind their waits\n"
            f"  in {_who(agent, frame, positions)}{line(self.node)}"
        )

    def done(self, agent: Agent, frame: Frame, awaited: Awaited) -> None:
        """The phase is over and these threads know."""
        barrier, phase, positions = awaited
        if barrier.phase > phase + 1 and phase >= 0:
            self._behind(agent, frame, barrier, phase, positions)
        barrier.over(phase)
        if self.acquires and phase >= 0:
            for observer in agent.observers:
                observer.acquire(agent.numbers(frame)[positions], barrier.key(phase), self.node, self.scope)

    def text(self, awaited: list[Awaited]) -> str:
        """What is waited for."""
        parts = [f"{each.barrier.name}, phase {each.phase} (parity {each.phase & 1}): it waits for {each.barrier.text()}"
                 for each in awaited if not each.over]
        where = f"; arrivals come from {', '.join(self.arrivals[:4])}" if self.arrivals else "; nothing in the kernel arrives at it by that name"
        return f"{self.node.op.name} waits for {'; '.join(parts)}{where}"


_ARRIVES = (ins.MBARRIER_ARRIVE, ins.CP_ASYNC_MBARRIER_ARRIVE, ins.TCGEN05_COMMIT)
_BRINGS = (ins.BULK, ins.BULK_REDUCE, ins.TENSOR_LOAD, ins.ST_ASYNC, ins.RED_ASYNC, ins.MBARRIER_COMPLETE_TX)


def arrivals_of(c: Compiler) -> dict[Any, list[str]]:
    """For each buffer of mbarriers, the lines that arrive at one of them or bring bytes."""
    found: dict[Any, dict[str, None]] = {}
    for node in c.half.body.walk():
        if node.op in _ARRIVES or node.op in _BRINGS:
            for operand in ins.arguments(node)["bar"]:
                if operand.op is op.ADDRESS_OF and node.location is not None:
                    found.setdefault(operand.attrs["buffer"], {})[node.location.short] = None
    return {buffer: list(lines) for buffer, lines in found.items()}


@statement(ins.MBARRIER_WAIT)
def _wait(c: Compiler, node: Node) -> tuple[Run, bool]:
    operands, counter = WaitOperands(c, node), c.count(node)

    def run(agent: Agent, frame: Frame) -> Flow:
        agent.counts[counter] += frame.count
        awaited = operands.each(agent, frame)
        if not all(each.over for each in awaited):
            yield Wait(agent, frame, node, partial(_all_over, awaited), partial(operands.text, awaited))
        for each in awaited:
            operands.done(agent, frame, each)
        return frame

    return run, True


def _all_over(awaited: list[Awaited]) -> bool:
    return all(each.over for each in awaited)


@statement(ins.MBARRIER_TEST_WAIT, ins.MBARRIER_TRY_WAIT)
def _test(c: Compiler, node: Node) -> tuple[Run, bool]:
    operands, counter = WaitOperands(c, node), c.count(node)
    out = Registers(c, node, ins.arguments(node)["done"])

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        awaited = operands.each(agent, frame)
        done = np.zeros(frame.count, np.bool_)
        for each in awaited:
            if each.over:
                done[each.positions] = True
                operands.done(agent, frame, each)
        if not done.all():
            agent.polled = partial(operands.text, awaited)
        put_registers(out, agent, frame, done.reshape(frame.shape))

    return run, False


@statement(ins.MBARRIER_PENDING_COUNT)
def _pending_count(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    out, state, counter = Registers(c, node, given["count"]), c.narrow(given["state"][0]), c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        put_registers(out, agent, frame, (np.asarray(state(agent, frame)).astype(np.uint64) & np.uint64(LIMIT)).astype(np.uint32))

    return run, False
