"""The barrier of a cluster, at which all threads of its blocks meet. PTX ISA 9.7.13.3 `barrier.cluster`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runtime.simulator.agent import Agent, Wait, line
from runtime.simulator.barriers import whole_warp
from runtime.simulator.frames import Frame
from runtime.simulator.program import Compiler, Flow, Run, statement
from runtime.simulator.resident import WARP, Cluster
from tracer import instructions as ins
from tracer.errors import ClusterError
from tracer.ir import Node


@dataclass(slots=True)
class ClusterBarrier:
    """Which warps have arrived in this round, and the round that each waits for the end of."""

    cluster: Cluster
    arrived: dict[Agent, Node] = field(default_factory=dict)
    round: int = 0
    began: dict[Agent, int] = field(default_factory=dict)       # arrived and not yet waited: the round
    arrivals: dict[Agent, Node] = field(default_factory=dict)   # where each arrived last

    @property
    def key(self) -> tuple[Any, ...]:
        return ("cluster", self.cluster.blocks[0].number, self.round)

    def complete_if_full(self) -> None:
        if self.arrived and all(block.running <= self.arrived.keys() for block in self.cluster.blocks):
            self.arrived = {}
            self.round += 1
            self.cluster.engines.changes += 1

    def check_ended(self, agent: Agent) -> None:
        """Raise ClusterError for a warp that ends between its arrival and its wait: an arrival wants one."""
        if agent in self.began:
            node = self.arrivals[agent]
            raise ClusterError(f"{node.op.name}: the warp ends without the barrier.cluster.wait that belongs to its arrival\n"
                               f"  in block {agent.block_text(0)}, warp {agent.first // WARP}{line(node)}")

    def text(self) -> str:
        parts = [f"{block.text()}: {sum(agent in self.arrived for agent in block.running)} of {len(block.running)}"
                 for block in self.cluster.blocks if not block.running <= self.arrived.keys()]
        return f"the barrier of the cluster, at which warps are missing ({'; '.join(parts)} warps have arrived)"


def _cluster_arrive(agent: Agent, frame: Frame, node: Node, order: str) -> None:
    assert agent.resident is not None
    cluster = agent.resident.cluster
    whole_warp(agent, frame, node)
    barrier = cluster.barrier = cluster.barrier or ClusterBarrier(cluster)
    if agent in barrier.began:
        raise ClusterError(f"{node.op.name}: the warp has arrived already and not waited since\n  in block {agent.block_text(0)}, "
                           f"warp {agent.first // WARP}{line(node)}")
    barrier.began[agent] = barrier.round
    barrier.arrived[agent] = barrier.arrivals[agent] = node
    if order != "relaxed":
        for observer in agent.observers:
            observer.release(agent.numbers(frame), barrier.key, node, "cluster")
    barrier.complete_if_full()


def _cluster_wait(agent: Agent, frame: Frame, node: Node) -> Flow:
    assert agent.resident is not None
    barrier = agent.resident.cluster.barrier
    whole_warp(agent, frame, node)
    if barrier is None or agent not in barrier.began:
        raise ClusterError(f"{node.op.name}: the warp waits without having arrived; write `barrier.cluster.arrive` before it, or "
                           f"T.cuda.cluster_sync()\n  in block {agent.block_text(0)}, warp {agent.first // WARP}{line(node)}")
    began = barrier.began[agent]
    if barrier.round == began:
        yield Wait(agent, frame, node, lambda: barrier.round != began, lambda: f"{node.op.name} waits at {barrier.text()}")
    del barrier.began[agent]
    key = ("cluster", barrier.cluster.blocks[0].number, began)
    for observer in agent.observers:
        observer.acquire(agent.numbers(frame), key, node, "cluster")
    return frame


@statement(ins.CLUSTER_ARRIVE)
def _arrive_only(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter, order = c.count(node), node.attrs.get("sem", "release")

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        _cluster_arrive(agent, frame, node, order)

    return run, False


@statement(ins.CLUSTER_WAIT, ins.CLUSTER_SYNC)
def _cluster(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter, arrives = c.count(node), node.op is ins.CLUSTER_SYNC

    def run(agent: Agent, frame: Frame) -> Flow:
        agent.counts[counter] += frame.count
        if arrives:
            _cluster_arrive(agent, frame, node, "release")
        return (yield from _cluster_wait(agent, frame, node))

    return run, True
