"""What must not be left when threads end."""

from __future__ import annotations

from runtime.simulator.agent import Agent
from runtime.simulator.resident import Block, Cluster


def warp_ended(agent: Agent, block: Block) -> None:
    """A warp of the block ran to its end: barriers do not wait for it."""
    block.running.discard(agent)
    for state in block.state.values():
        state.warp_ended(agent)
    for barrier in block.barriers.values():
        if barrier.expected is None:
            barrier.complete_if_full()
    if block.cluster.barrier is not None:
        block.cluster.barrier.complete_if_full()


def check_end(cluster: Cluster) -> None:
    """All threads of the cluster have ended."""
