"""The shared memory of other blocks of the cluster: its addresses, and stores and reductions that go there by themselves.

Sources: PTX ISA 9.7.9.23 `mapa`, 9.7.9.24 `getctarank`, 9.7.9.12 `st.async`, 9.7.13.7 `red.async`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from runtime.simulator.addresses import RANK_SHIFT, WINDOW, Located
from runtime.simulator.agent import Agent
from runtime.simulator.atomics import RULES, in_turn
from runtime.simulator.events import AsyncOperation
from runtime.simulator.frames import Array, Frame
from runtime.simulator.mbarriers import BarrierOperand, TxCompletion
from runtime.simulator.pointers import Pointer, put, put_registers, touch
from runtime.simulator.program import Compiler, Run, statement
from runtime.simulator.register_operands import Registers
from runtime.simulator.types import ELEMENTS, SIZES, Values
from tracer import instructions as ins
from tracer.errors import ClusterError
from tracer.ir import Node

_OFFSETS = (1 << RANK_SHIFT) - 1


@statement(ins.MAPA)
def _mapa(c: Compiler, node: Node) -> tuple[Run, bool]:
    given, counter = ins.arguments(node), c.count(node)
    pointer, rank, out = Pointer(c, node, given["a"][0], "address"), c.narrow(given["rank"][0]), Registers(c, node, given["d"])
    generic = node.attrs["type"] == "u64"

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        assert agent.resident is not None
        size = len(agent.resident.cluster.blocks)
        ranks = np.broadcast_to(rank(agent, frame), frame.shape).astype(np.int64)
        if (ranks >= size).any():
            agent.fail(ClusterError, f"{node.op.name}: there is no block of rank {int(ranks.max())}; the cluster has {size} blocks", frame,
                       ranks >= size, node)
        found = pointer.address(agent, frame).reshape(frame.shape) & _OFFSETS | ranks << RANK_SHIFT
        put_registers(out, agent, frame, (found + WINDOW).astype(np.uint64) if generic else found.astype(np.uint32))

    return run, False


@statement(ins.GETCTARANK)
def _getctarank(c: Compiler, node: Node) -> tuple[Run, bool]:
    given, counter = ins.arguments(node), c.count(node)
    pointer, out = Pointer(c, node, given["a"][0], "address"), Registers(c, node, given["d"])

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        put_registers(out, agent, frame, (pointer.address(agent, frame).reshape(frame.shape) >> RANK_SHIFT).astype(np.uint32))

    return run, False


@dataclass(eq=False)
class RemoteStore(AsyncOperation):
    """Each thread's `data`, as bytes, to `target`: stored, or combined by `reduction`, a name and a type."""

    target: Located = None      # type: ignore[assignment]
    data: Array = None          # type: ignore[assignment]
    reduction: tuple[str, str] | None = None

    def land(self) -> None:
        if self.reduction is None:
            put(self.target, self.data)
            return
        name, kind = self.reduction
        element = ELEMENTS[kind]
        values = np.ascontiguousarray(self.data).view(element).reshape(-1)
        in_turn(self.target.memory.viewed(element), self.target.start // element.itemsize, RULES[name], [values])


@statement(ins.ST_ASYNC, ins.RED_ASYNC)
def _store(c: Compiler, node: Node) -> tuple[Run, bool]:
    given, counter, kind = ins.arguments(node), c.count(node), node.attrs["type"]
    reduction = (node.attrs["op"], kind) if node.op is ins.RED_ASYNC else None
    target = Pointer(c, node, given["dst"][0], "store", "shared::cluster")
    bar = BarrierOperand(c, node, given["bar"][0], "shared::cluster")
    values = Values(c, given["value"], kind)
    size = len(given["value"]) * SIZES[kind]
    told, order, scope = ("store", "", "") if reduction is None else ("atomic", "relaxed", "cluster")

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        found = target.locate(agent, frame, size, size)
        data = values.read(agent, frame)
        numbers, pitch = agent.numbers(frame), max(1, agent.space.pitch)
        for barrier, positions in bar.each(agent, frame):
            astray = found.start[positions] // pitch != barrier.start // pitch
            if astray.any():
                bad = np.isin(np.arange(frame.count), positions[astray]).reshape(frame.shape)
                agent.fail(ClusterError, f"{node.op.name}: the destination and {barrier.name} lie in different blocks; the mbarrier stands in the "
                           "block that is written", frame, bad, node)
            place = Located(found.memory, found.start[positions])
            operation = RemoteStore(node, numbers[positions], target=place, data=data[positions], reduction=reduction)
            part = frame.keep(np.isin(np.arange(frame.count), positions).reshape(frame.shape))
            operation.touches.append(touch(agent, part, target, place, told, size, proxy="async", order=order, scope=scope, actor=operation))
            operation.completions = (TxCompletion(barrier, size * len(positions), operation),)
            agent.engines.issue(operation)

    return run, False
