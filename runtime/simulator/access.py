"""Loads and stores, with what is checked of them.

Always checked, for there is nothing else that could happen: that the elements exist in the storage. Checked on request: each
logical coordinate against the buffer's shape, the alignment of vector accesses relative to the storage (whose own alignment
is the caller's to check), and that shared and local memory was written before it is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Frame, Value
from runtime.simulator.memory import LocalMemory, Memory, Position, local_memory, shared_memory
from runtime.simulator.program import Compiler, Run, statement
from symbolic.integers import Int, is_const
from tracer import operations as op
from tracer.errors import MisalignedAccessError, NotSupportedError, OutOfBoundsError, UninitializedReadError
from tracer.ir import Buffer, Node

VECTOR_ALIGNMENT = 16       # bytes: the widest single access of the hardware


@statement(op.ALLOC)
def _alloc(c: Compiler, node: Node) -> tuple[Run, bool]:
    buffer: Buffer = node.attrs["buffer"]
    storage, scope = buffer.storage, buffer.storage.scope
    if scope not in ("shared", "local"):
        raise NotSupportedError(f"the simulator has no {scope} memory yet: {buffer.name}, at {node.location}")
    unit, mixed = c.units.get(storage, (storage.dtype.storage.itemsize, False))
    size = storage.size.value * storage.dtype.lanes

    def run(agent: Agent, frame: Frame) -> None:
        memory = agent.memory.get(storage)
        if memory is None and scope == "shared":
            agent.memory[storage] = shared_memory(size, storage.dtype.storage, unit, c.checks, len(agent.blocks))
        elif memory is None:
            agent.memory[storage] = local_memory(size, storage.dtype.storage, unit, c.checks, agent.lanes, mixed)
        elif isinstance(memory, LocalMemory):
            memory.forget(frame)

    return run, False


@statement(op.DECL)
def _decl(c: Compiler, node: Node) -> tuple[Run, bool]:
    return lambda agent, frame: None, False     # a view is known by its accesses


@statement(op.LOAD)
def _load(c: Compiler, node: Node) -> tuple[Run, bool]:
    assert node.dtype is not None
    access = _Access(c, node, "load", node.dtype.lanes)
    write, storage = c.define(node), access.element

    def run(agent: Agent, frame: Frame) -> None:
        memory, position = access.locate(agent, frame)
        if memory.written is not None:
            access.check_written(agent, frame, memory, position)
        value = memory.viewed(storage)[position]
        if isinstance(position, slice):
            value = value.reshape(frame.shape).copy()
        write(agent, frame, value)

    return run, False


@statement(op.STORE)
def _store(c: Compiler, node: Node) -> tuple[Run, bool]:
    *_, stored = node.operands
    assert stored.dtype is not None
    value, lanes = c.narrow(stored), stored.dtype.lanes
    access = _Access(c, node, "store", lanes)
    storage = access.element

    def run(agent: Agent, frame: Frame) -> None:
        memory, position = access.locate(agent, frame)
        new = value(agent, frame)
        if isinstance(position, slice):
            new = frame.spread(new).reshape(-1)
        elif np.ndim(new) and np.shape(position) != new.shape:
            # Several threads, one element: the last one wins, as everywhere in lockstep.
            position = np.broadcast_to(position, np.broadcast_shapes(np.shape(position), new.shape))
        memory.viewed(storage)[position] = new
        memory.mark(position, storage.itemsize)

    return run, False


class _Access:
    """What loads and stores share: where the elements are, and whether they may be touched."""

    def __init__(self, c: Compiler, node: Node, kind: str, lanes: int) -> None:
        flat = c.lowered.accesses[node]
        self.node, self.buffer, self.kind, self.lanes = node, flat.buffer, kind, lanes
        self.element: np.dtype[Any] = flat.buffer.dtype.storage
        self.counter = c.count(node, kind)
        self.offset = c.integer(flat.emitted * flat.buffer.dtype.lanes)
        self.checks = c.checks
        self.coords = [c.integer(x) for x in flat.coords] if c.checks else []
        self.extents = [c.integer(x) for x in flat.buffer.shape] if c.checks else []
        self.checked = [k for k, (x, n) in enumerate(zip(flat.coords, flat.buffer.shape))
                        if c.checks and not (self.last_lane(k) == 0 and _surely_inside(x, n))]
        size = lanes * self.element.itemsize
        self.alignment = min(size & -size, VECTOR_ALIGNMENT) // self.element.itemsize if lanes > 1 and c.checks else 1

    def last_lane(self, k: int) -> int:
        """How far the access reaches beyond coordinate `k`: a vector lies along the last one of a dense buffer."""
        return self.lanes - 1 if k == len(self.buffer.shape) - 1 and self.buffer.layout is None and self.buffer.dtype.lanes == 1 else 0

    def locate(self, agent: Agent, frame: Frame) -> tuple[Memory, Position]:
        """The memory, and the elements' positions in it."""
        agent.counts[self.counter] += frame.count
        for k in self.checked:
            self._check_coordinate(agent, frame, k)
        offset = self.offset(agent, frame)
        memory = agent.memory[self.buffer.storage]
        itemsize = self.element.itemsize
        limit = memory.limit(itemsize) - (self.lanes - 1)
        if _outside(offset, limit):
            bad = (offset < 0) | (offset >= limit)
            first = frame.first(bad, offset)
            agent.fail(OutOfBoundsError, f"{self.text(agent, frame, bad)} touches element {first + self.lanes - 1 if first >= 0 else first} "
                       f"of {self.buffer.storage.name}, which has {memory.limit(itemsize)}", frame, bad, self.node)
        if self.alignment > 1 and np.any(offset % self.alignment):
            bad = np.asarray(offset % self.alignment != 0)
            agent.fail(MisalignedAccessError, f"{self.text(agent, frame, bad)} of {self.lanes * itemsize} bytes needs an offset that is a multiple "
                       f"of {self.alignment} elements, not {frame.first(bad, offset)}", frame, bad, self.node)
        if self.lanes > 1:
            return memory, memory.span(frame, offset, itemsize, self.lanes)
        return memory, memory.position(frame, offset, itemsize)

    def _check_coordinate(self, agent: Agent, frame: Frame, k: int) -> None:
        coordinate, extent = self.coords[k](agent, frame), self.extents[k](agent, frame)
        limit = extent - self.last_lane(k)
        if not _outside(coordinate, limit):
            return
        bad = np.asarray((coordinate < 0) | (coordinate >= limit))
        first = frame.first(bad, coordinate)
        what = f"index {k} is {first}" if limit == extent else f"index {k} runs from {first} to {first + self.lanes - 1}"
        agent.fail(OutOfBoundsError, f"{self.text(agent, frame, bad)} is outside {self.buffer.name}'s shape {self._shape(agent, frame)}: "
                   f"{what}, not in [0, {extent})", frame, bad, self.node)

    def check_written(self, agent: Agent, frame: Frame, memory: Memory, position: Position) -> None:
        bad = memory.unwritten(position, self.element.itemsize)
        if bad.any():
            if isinstance(position, slice):
                bad = bad.reshape(frame.shape)
            elif self.lanes > 1:
                bad = np.asarray(bad.any(axis=-1))
            agent.fail(UninitializedReadError, f"{self.text(agent, frame, bad)} reads {self.buffer.scope} memory that nothing has written",
                       frame, bad, self.node)

    def text(self, agent: Agent, frame: Frame, bad: Value) -> str:
        """The access as the author wrote it, with the first offending thread's coordinates."""
        what = f"{self.kind} of {self.buffer.name}"
        if self.buffer.cell:
            return what
        coords = [str(frame.first(bad, read(agent, frame))) for read in self.coords]
        return f"{what}[{', '.join(coords)}]" if coords else what

    def _shape(self, agent: Agent, frame: Frame) -> str:
        return str(tuple(read(agent, frame) for read in self.extents))


def _surely_inside(coordinate: Int, extent: Int) -> bool:
    return is_const(coordinate) and is_const(extent) and 0 <= coordinate.value < extent.value


def _outside(x: Value, limit: int) -> bool:
    if isinstance(x, np.ndarray):
        return bool(x.size and (x.min() < 0 or x.max() >= limit))
    return not 0 <= x < limit
