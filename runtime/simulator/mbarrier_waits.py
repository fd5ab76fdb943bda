"""Instructions that wait for the end of a phase of an mbarrier, or ask for it. PTX ISA 9.7.13.15."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.addresses import RANK_SHIFT
from runtime.simulator.agent import Agent, Wait, line
from runtime.simulator.frames import Array, Frame
from runtime.simulator.mbarriers import LIMIT, BarrierOperand, MBarrier, flat_numbers, who_of
from runtime.simulator.pointers import put_registers
from runtime.simulator.program import Compiler, Flow, Run, statement
from runtime.simulator.register_operands import Registers
from tracer import instructions as ins
from tracer import operations as op
from tracer.errors import MBarrierError
from tracer.ir import Node


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
        values = flat_numbers(frame, self.value(agent, frame))
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
                                f"  in {who_of(agent, frame, positions)}{line(self.node)}")
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
            f"  in {who_of(agent, frame, positions)}{line(self.node)}"
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
        sources = [node.location.short for each in awaited for node in each.barrier.sources if node.location is not None]
        lines = list(dict.fromkeys([*self.arrivals, *sources]))
        where = f"; arrivals come from {', '.join(lines[:4])}" if lines else "; nothing in the kernel arrives at it by that name"
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
