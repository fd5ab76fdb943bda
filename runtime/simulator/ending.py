"""What must not be left when threads end: work under way that nobody waited for."""

from __future__ import annotations

import numpy as np

from runtime.simulator.agent import Agent, line
from runtime.simulator.events import AsyncOperation
from runtime.simulator.resident import WARP, Block, Cluster
from tracer.errors import AsyncError, BarrierDivergenceError, MBarrierError

_GROUPS = {"cp.async": "cp.async", "bulk": "cp.async.bulk"}


def agent_ended(agent: Agent) -> None:
    """The agent's threads ran to their end. What they copied to shared memory, or from it, they have waited for."""
    for kind, groups in agent.groups.items():
        for member in groups.left():
            if kind == "bulk" and member.operation.was_read:
                agent.engines.land(member.operation)
                continue
            lane = int(member.lanes[0])
            row, column = divmod(lane, agent.threads)
            why = f"in no group: {_GROUPS[kind]}.commit_group is missing, and a wait" if member.group[0] < 0 else \
                f"in a group that no {_GROUPS[kind]}.wait_group covers"
            node = member.operation.node
            raise AsyncError(f"{node.op.name}: the thread ended with a copy under way, {why}\n  in block {agent.block_text(row)}, thread "
                             f"{agent.thread_text(column)}{line(node)}")


def warp_ended(agent: Agent, block: Block) -> None:
    """A warp of the block ran to its end: barriers do not wait for it."""
    block.running.discard(agent)
    agent_ended(agent)
    for state in block.state.values():
        state.warp_ended(agent)
    for barrier in block.barriers.values():
        if barrier.expected is None:
            barrier.complete_if_full()
    if block.cluster.barrier is not None:
        block.cluster.barrier.check_ended(agent)
        block.cluster.barrier.complete_if_full()
    if block.ended:
        _block_ended(block)
        for barrier in block.barriers.values():
            for node in list(barrier.arrived.values())[:1]:
                agent.notes.append(f"{node.op.name} at {node.location}: the block ended with arrivals left at {barrier.text()}")


def _block_ended(block: Block) -> None:
    engines = block.cluster.engines
    for operation in engines.pending:
        if _uses(operation, block):
            _lost(operation, block, "is still under way: nobody waited for it")
    for barrier in block.cluster.mbarriers.values():
        if barrier.block is not block:
            continue
        for copied in barrier.unseen:
            _lost(copied.operation, block, f"has brought its bytes to {barrier.name}, but nobody has waited for its phase {copied.phase}")
        if barrier.tx:
            raise MBarrierError(f"{block.text()} ended while {barrier.name}, initialised at {barrier.node.location}, waits for {barrier.text()}: "
                                "the bytes of expect_tx and those that are copied do not add up")
    _check_registers(block)
    if len(block.cluster.blocks) > 1:
        first, space = block.number * block.launch.threads, block.cluster.space
        for observer in engines.observers:
            observer.leave(np.arange(first, first + block.launch.threads), space, block.rank * space.pitch, space.pitch)


def _uses(operation: AsyncOperation, block: Block) -> bool:
    """Whether it still reads or writes the block's shared memory."""
    space = block.cluster.space
    return any(touch.memory is space and bool((touch.start // max(1, space.pitch) == block.rank).any())
               and not (touch.kind == "load" and operation.was_read) for touch in operation.touches)


def _lost(operation: AsyncOperation, block: Block, what: str) -> None:
    node, thread = operation.node, int(operation.threads.flat[0])
    raise AsyncError(f"{block.text()} has ended, and {node.op.name} on its shared memory {what}\n  issued by {block.launch.who(thread)}{line(node)}")


def _check_registers(block: Block) -> None:
    """The four warps of a warpgroup have set their number of registers together."""
    for first in range(0, len(block.agents), 4):
        group = block.agents[first:first + 4]
        counts = {block.registers[agent] for agent in group}
        if len(counts) > 1 and block.setmaxnreg is not None:
            told = ", ".join(f"warp {agent.first // WARP}: {block.registers[agent]}" for agent in group)
            raise BarrierDivergenceError(f"setmaxnreg: the warps of a warpgroup ended with different numbers of registers ({told}); all four run it\n"
                                         f"  in {block.text()}{line(block.setmaxnreg)}")


def check_end(cluster: Cluster) -> None:
    """All threads of the cluster have ended: what they still write to global memory lands."""
    first = cluster.blocks[0]
    numbers = {block.number for block in cluster.blocks}
    for operation in list(cluster.engines.pending):
        if int(operation.threads.flat[0]) // first.launch.threads in numbers:
            cluster.engines.land(operation)
