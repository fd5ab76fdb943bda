"""Instructions that begin, change and end an mbarrier, and that arrive at it. PTX ISA 9.7.13.15."""

from __future__ import annotations

import numpy as np

from runtime.simulator.agent import Agent, line
from runtime.simulator.frames import Frame
from runtime.simulator.mbarriers import LIMIT, BarrierOperand, MBarrier, flat_numbers, space_of, who_of
from runtime.simulator.pointers import put_registers
from runtime.simulator.program import Compiler, Run, statement
from runtime.simulator.register_operands import Registers
from tracer import instructions as ins
from tracer.errors import MBarrierError
from tracer.ir import Node


@statement(ins.MBARRIER_INIT)
def _init(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    bar, value, counter = BarrierOperand(c, node, given["bar"][0], told="store"), c.narrow(given["count"][0]), c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        assert agent.resident is not None
        made = agent.resident.cluster.mbarriers
        for k, (place, count) in enumerate(zip(bar.places(agent, frame).tolist(), flat_numbers(frame, value(agent, frame)).tolist())):
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
                                    f"  in {who_of(agent, frame, positions)}{line(node)}")
            del agent.resident.cluster.mbarriers[barrier.start]

    return run, False


@statement(ins.MBARRIER_ARRIVE)
def _arrive(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    bar, counter = BarrierOperand(c, node, given["bar"][0], space_of(node)), c.count(node)
    tx, count = (c.narrow(given[name][0]) if given[name] else None for name in ("tx", "count"))
    state = Registers(c, node, given["state"]) if given["state"] else None
    drops, incomplete, releases = (bool(node.attrs.get("drop")), bool(node.attrs.get("noComplete")), node.attrs.get("sem") != "relaxed")
    scope = node.attrs.get("scope", "cta")

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        counts = np.ones(frame.count, np.int64) if count is None else flat_numbers(frame, count(agent, frame))
        sizes = None if tx is None else flat_numbers(frame, tx(agent, frame))
        states = np.zeros(frame.count, np.uint64)
        for barrier, positions in bar.each(agent, frame):
            phases: dict[int, list[int]] = {}
            for k in positions.tolist():
                who, number = who_of(agent, frame, np.array([k])), int(counts[k])
                phases.setdefault(barrier.phase, []).append(k)
                if sizes is not None:
                    barrier.expect(int(sizes[k]), node, who)
                states[k] = barrier.phase << 32 | barrier.pending
                if incomplete and number >= barrier.pending:
                    raise MBarrierError(f"{node.op.name}: the arrival would end the phase of {barrier.name}, which waits for {barrier.text()}; "
                                        f".noComplete promises that it does not\n  in {who}{line(node)}")
                if drops:
                    barrier.count -= number
                barrier.arrive(number, node, who)
            for phase, arrived in phases.items() if releases else ():
                for observer in agent.observers:
                    observer.release(agent.numbers(frame)[arrived], barrier.key(phase), node, scope)
        if state is not None:
            put_registers(state, agent, frame, states.reshape(frame.shape))

    return run, False


@statement(ins.MBARRIER_EXPECT_TX, ins.MBARRIER_COMPLETE_TX)
def _transactions(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    bar, size, counter = BarrierOperand(c, node, given["bar"][0], space_of(node)), c.narrow(given["tx"][0]), c.count(node)
    sign = 1 if node.op is ins.MBARRIER_EXPECT_TX else -1

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        sizes = flat_numbers(frame, size(agent, frame))
        for barrier, positions in bar.each(agent, frame):
            for k in positions.tolist():
                barrier.expect(sign * int(sizes[k]), node, who_of(agent, frame, np.array([k])))

    return run, False
