"""Addresses as integers: what a pointer is when it is a value, and what lies at one.

* The shared address of a byte is `rank << 24 | offset`: the block's rank in its cluster, and the offset in its shared memory. A block's own
  (`shared::cta`) and those that `mapa` gives (`shared::cluster`) are of this form.
* The generic address of that byte lies `WINDOW` above; that of global memory is its address (`memory.global_memories`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.memory import Memory
from runtime.simulator.program import Compiler, Run, statement
from symbolic.integers import floordiv
from tracer import instructions as ins
from tracer import operations as op
from tracer.errors import ClusterError, NotSupportedError, OutOfBoundsError
from tracer.ir import Node

RANK_SHIFT = 24
WINDOW = 1 << 48
_OFFSETS = (1 << RANK_SHIFT) - 1


class Located(NamedTuple):
    """Bytes in memory: each thread's begin at `start` (flat, one a thread) in `memory.cells`, which is a whole memory of bytes or elements."""

    memory: Memory
    start: Array


def shared_address(agent: Agent, start: Value) -> Value:
    """The shared address of a byte of the agent's space. In lockstep blocks see only their own, at rank 0."""
    rank, offset = np.divmod(start, max(1, agent.space.pitch))
    return offset if agent.resident is None else rank << RANK_SHIFT | offset


def generic_address(agent: Agent, memory: Memory, start: Value) -> Value:
    """The generic address of a byte of a shared or global memory."""
    return WINDOW + shared_address(agent, start) if memory is agent.space else memory.address + start


def resolve(agent: Agent, frame: Frame, address: Value, size: Value, space: str, what: str, node: Node) -> Located:
    """What lies at `address`, an integer in `space`: "" (generic), "global", "shared", "shared::cta" or "shared::cluster".

    `size` bytes must exist there: OutOfBoundsError, or ClusterError for a block that is not there; `what` is said of it.
    """
    where = np.broadcast_to(np.asarray(address).astype(np.int64), frame.shape).reshape(-1)
    if space == "":
        if (where >= WINDOW).all():
            where, space = where - WINDOW, "shared::cluster"
        else:
            space = "global"
    if space == "global":
        return _global(agent, frame, where, size, what, node)
    return _shared(agent, frame, where, size, space, what, node)


def _shared(agent: Agent, frame: Frame, where: Array, size: Value, space: str, what: str, node: Node) -> Located:
    rank, offset = where >> RANK_SHIFT, where & _OFFSETS
    memory = agent.space
    bad = (offset + size > memory.pitch) | (where < 0)
    if bad.any():
        first = int(where[bad][0])
        agent.fail(OutOfBoundsError, f"{what} {_bytes(size)} at shared address {first:#x} (byte {first & _OFFSETS}), but the block has "
                   f"{memory.pitch} bytes of shared memory", frame, bad.reshape(frame.shape), node)
    if agent.resident is None:
        row = np.broadcast_to(frame.block_rows, frame.shape).reshape(-1)
        return Located(memory, row * memory.pitch + offset)
    blocks, own = agent.resident.cluster.blocks, agent.resident.rank
    foreign = rank != own
    if foreign.any():
        bad = foreign if space != "shared::cluster" else rank >= len(blocks)
        if bad.any():
            which = int(rank[bad][0])
            why = f"the cluster has {len(blocks)} blocks" if which >= len(blocks) else f"{space} is the block's own, of rank {own}"
            agent.fail(ClusterError, f"{what} shared memory of the block of rank {which}: {why}", frame, bad.reshape(frame.shape), node)
        for other in np.unique(rank[foreign]).tolist():
            if blocks[other].ended:
                agent.fail(ClusterError, f"{what} shared memory of {blocks[other].text()} (rank {other}), which has ended: its blocks must wait "
                           "for each other before they end, as with T.cuda.cluster_sync()", frame, (rank == other).reshape(frame.shape), node)
    return Located(memory, rank * memory.pitch + offset)


def _global(agent: Agent, frame: Frame, where: Array, size: Value, what: str, node: Node) -> Located:
    first, last = int(where.min()), int((where + size).max())
    memories = [memory for memory in agent.memory.values() if memory.address]
    for memory in memories:
        if memory.address <= first and last <= memory.address + memory.cells.nbytes:
            return Located(memory, where - memory.address)
    inside = np.zeros(len(where), np.bool_)
    for memory in memories:
        inside |= (memory.address <= where) & (where + size <= memory.address + memory.cells.nbytes)
    if inside.all():
        raise NotSupportedError(f"the simulator cannot follow an address that lies in several arrays for the threads of one warp: {what} at "
                                f"{node.location}. Use one instruction for each array")
    agent.fail(OutOfBoundsError, f"{what} {_bytes(size)} at global address {int(where[~inside][0]):#x}, where no argument of the kernel lies",
               frame, ~inside.reshape(frame.shape), node)


def _bytes(size: Value) -> str:
    return f"{int(np.max(size))} bytes"


# ---- pointers as values --------------------------------------------------------------------------------------------------------

def locate_element(agent: Agent, frame: Frame, memory: Memory, offset: Value, itemsize: int) -> Located:
    """The element at `offset` of each thread's part of a memory."""
    position = memory.position(frame, offset, itemsize)
    start = np.broadcast_to(memory.start(position, itemsize), frame.shape).reshape(-1)
    return Located(memory.space or memory, start)


@statement(op.ADDRESS_OF)
def _address_of(c: Compiler, node: Node) -> tuple[Run, bool]:
    flat = c.lowered.accesses[node]
    storage, itemsize = flat.buffer.storage, flat.buffer.dtype.cell.itemsize
    place = flat.emitted * flat.buffer.dtype.lanes
    offset = c.integer(floordiv(place, 2) if flat.buffer.dtype.packed else place)
    counter, write = c.count(node), c.define(node)
    if storage.scope not in ("global", "shared", "shared.dyn"):
        raise NotSupportedError(f"the simulator has no addresses of {storage.scope} memory: {flat.buffer.name}, at {node.location}")

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        memory, start = locate_element(agent, frame, agent.memory[storage], offset(agent, frame), itemsize)
        write(agent, frame, generic_address(agent, memory, start).astype(np.uint64).reshape(frame.shape))

    return run, False


@statement(ins.CVTA_SHARED)
def _cvta(c: Compiler, node: Node) -> tuple[Run, bool]:
    """Generic to shared. A value already in the window of shared addresses stays."""
    pointer, counter, write = c.narrow(node.operands[0]), c.count(node), c.define(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        write(agent, frame, (np.asarray(pointer(agent, frame)).astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32))

    return run, False
