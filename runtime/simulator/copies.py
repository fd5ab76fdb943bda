"""`cp.async`: copies of a few bytes from global to shared memory, which go on beside the threads that ask for them.

Source: PTX ISA 9.7.9.25.3. What is copied is there when the thread has waited for its group (`wait_group`, `wait_all`), or for an mbarrier at
which `cp.async.mbarrier.arrive` arrives; other threads need a barrier besides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from runtime.simulator.addresses import Located
from runtime.simulator.agent import Agent
from runtime.simulator.engines import Groups, Member
from runtime.simulator.events import AsyncOperation
from runtime.simulator.frames import Array, Frame
from runtime.simulator.mbarriers import ArriveCompletion, BarrierOperand
from runtime.simulator.pointers import Pointer, fetch, put, touch
from runtime.simulator.program import Compiler, Run, statement
from tracer import instructions as ins
from tracer.ir import Node


def groups_of(agent: Agent, kind: str) -> Groups:
    """The groups of one kind ("cp.async", "bulk") of the agent's threads."""
    found = agent.groups.get(kind)
    if found is None:
        found = agent.groups[kind] = Groups(np.zeros(agent.lanes, np.int64))
    return found


@dataclass(eq=False)
class Copy(AsyncOperation):
    """`size` bytes a thread to `target`: those that `sources` give to some of the threads, zeros behind."""

    target: Located = None      # type: ignore[assignment]
    size: int = 0
    sources: tuple[tuple[Array, Located, int], ...] = ()        # positions of threads, where they copy from, how many bytes

    def land(self) -> None:
        data = np.zeros((len(self.target.start), self.size), np.uint8)
        for who, source, size in self.sources:
            data[who, :size] = fetch(source, size)
        put(self.target, data)


@statement(ins.CP_ASYNC)
def _cp_async(c: Compiler, node: Node) -> tuple[Run, bool]:
    given, size, counter = ins.arguments(node), int(node.attrs["size"]), c.count(node)
    target = Pointer(c, node, given["dst"][0], "store", "shared")
    source = Pointer(c, node, given["src"][0], "load", "global")
    read_size = c.narrow(given["src_size"][0]) if given["src_size"] else None
    ignored = c.narrow(given["ignore_src"][0]) if given["ignore_src"] else None

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        to = target.locate(agent, frame, size, size)
        sizes = np.full(frame.count, size)
        if read_size is not None:
            sizes = np.minimum(np.broadcast_to(read_size(agent, frame), frame.shape).reshape(-1).astype(np.int64), size)
        if ignored is not None:
            sizes = np.where(np.broadcast_to(ignored(agent, frame), frame.shape).reshape(-1) != 0, 0, sizes)
        operation = Copy(node, agent.numbers(frame), own=True, target=to, size=size)
        sources = []
        for each in np.unique(sizes[sizes > 0]).tolist():
            part = frame.keep((sizes == each).reshape(frame.shape))
            found = source.locate(agent, part, each, size)
            sources.append((np.flatnonzero(sizes == each), found, each))
            operation.touches.append(touch(agent, part, source, found, "load", each, actor=operation))
        operation.sources = tuple(sources)
        operation.touches.append(touch(agent, frame, target, to, "store", size, actor=operation))
        groups_of(agent, "cp.async").add(operation, frame.lanes.reshape(-1))
        agent.engines.issue(operation)

    return run, False


@statement(ins.CP_ASYNC_COMMIT)
def _commit(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        groups_of(agent, "cp.async").commit(frame.lanes.reshape(-1))

    return run, False


@statement(ins.CP_ASYNC_WAIT_GROUP, ins.CP_ASYNC_WAIT_ALL)
def _wait_group(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter, n = c.count(node), node.attrs["n"] if node.op is ins.CP_ASYNC_WAIT_GROUP else None

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        finish(agent, groups_of(agent, "cp.async").due(frame.lanes.reshape(-1), n), node)

    return run, False


def finish(agent: Agent, members: list[Member], node: Node) -> None:
    """Let these operations land: the lanes have waited for them."""
    for member in members:
        agent.engines.land(member.operation)
        tell_waited(agent, member, node, member.operation)
        if member.operation.reading is not None:
            tell_waited(agent, member, node, member.operation.reading)


def tell_waited(agent: Agent, member: Member, node: Node, key: AsyncOperation) -> None:
    """The lanes of `member` have waited for an operation, or for its reading."""
    for observer in agent.observers:
        observer.acquire(numbers_of(agent, member.lanes), key, node, "cta")


def numbers_of(agent: Agent, lanes: Array) -> Array:
    """The threads of these lanes, by their number in the grid."""
    rows, columns = np.divmod(lanes, agent.threads)
    return np.asarray(agent.blocks[rows] * agent.launch.threads + (agent.first + columns))


@dataclass(eq=False)
class Arrive(AsyncOperation):
    """An arrival at an mbarrier when other operations have landed."""

    def land(self) -> None:
        pass


@statement(ins.CP_ASYNC_MBARRIER_ARRIVE)
def _mbarrier_arrive(c: Compiler, node: Node) -> tuple[Run, bool]:
    """Behind all that the thread has copied so far. Without `.noinc` the arrival is one more than the barrier counts."""
    bar, counter, counted = BarrierOperand(c, node, ins.arguments(node)["bar"][0]), c.count(node), bool(node.attrs.get("noinc"))

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        groups, lanes, numbers = groups_of(agent, "cp.async"), frame.lanes.reshape(-1), agent.numbers(frame)
        for barrier, positions in bar.each(agent, frame):
            for k in positions.tolist():
                if not counted:
                    barrier.pending += 1
                operation = Arrive(node, numbers[k:k + 1], after=groups.before(lanes[k:k + 1]), completions=(ArriveCompletion(barrier),))
                agent.engines.issue(operation)

    return run, False
