"""Loads and stores, with what is checked of them.

Always checked, for there is nothing else that could happen: that the elements exist in the storage. Checked on request: each
logical coordinate against the buffer's shape, the alignment of vector accesses relative to the storage (whose own alignment
is the caller's to check), and that shared and local memory was written before it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.events import Touch
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.memory import LocalMemory, Memory, Position, local_memory
from runtime.simulator.program import Compiler, Read, Run, Statement, statement
from runtime.simulator.writers import writers_text
from symbolic.integers import Int, floordiv, is_const
from tracer import operations as op
from tracer.addressing import cells_in
from tracer.errors import MisalignedAccessError, NotSupportedError, OutOfBoundsError, UninitializedReadError
from tracer.ir import Buffer, Node
from tracer.operations import Operation

VECTOR_ALIGNMENT = 16       # bytes: the widest single access of the hardware
PACKED: dict[Operation, Statement] = {}     # loads and stores of elements that share bytes: see `packed`


@statement(op.ALLOC)
def _alloc(c: Compiler, node: Node) -> tuple[Run, bool]:
    buffer: Buffer = node.attrs["buffer"]
    storage, scope = buffer.storage, buffer.storage.scope
    if scope not in ("shared", "shared.dyn", "local"):
        raise NotSupportedError(f"the simulator has no {scope} memory yet: {buffer.name}, at {node.location}")
    if scope != "local":
        return lambda agent, frame: None, False     # laid out before the block began (`memory.Layout`)
    mixed = storage in c.mixed
    size = c.integer(cells_in(storage))

    def run(agent: Agent, frame: Frame) -> None:
        memory = agent.memory.get(storage)
        if memory is None:
            agent.memory[storage] = local_memory(size(agent, frame), storage.dtype.cell, c.checks, agent.lanes, mixed)
        else:
            assert isinstance(memory, LocalMemory)
            memory.forget(frame)

    return run, False


@statement(op.DECL)
def _decl(c: Compiler, node: Node) -> tuple[Run, bool]:
    return lambda agent, frame: None, False     # a view is known by its accesses


@statement(op.LOAD)
def _load(c: Compiler, node: Node) -> tuple[Run, bool]:
    assert node.dtype is not None
    if node.dtype.packed:
        return PACKED[op.LOAD](c, node)
    access = Access(c, node, "load", node.dtype.lanes)
    write, storage = c.define(node), access.element

    def run(agent: Agent, frame: Frame) -> None:
        memory, position = access.locate(agent, frame)
        if memory.tracker is not None:
            memory.tracker.touch(agent, frame, node, position, storage.itemsize, False, access.name)
        if memory.written is not None:
            access.check_written(agent, frame, memory, position)
        if agent.observers:
            access.tell(agent, frame, memory, position)
        value = memory.viewed(storage)[position]
        if isinstance(position, slice):
            value = value.reshape(frame.shape).copy()
        write(agent, frame, value)

    return run, False


@statement(op.STORE)
def _store(c: Compiler, node: Node) -> tuple[Run, bool]:
    *_, stored = node.operands
    assert stored.dtype is not None
    if stored.dtype.packed:
        return PACKED[op.STORE](c, node)
    value, lanes = c.narrow(stored), stored.dtype.lanes
    access = Access(c, node, "store", lanes)
    storage, polled, private = access.element, c.polls > 0, access.buffer.scope == "local"

    def run(agent: Agent, frame: Frame) -> None:
        memory, position = access.locate(agent, frame)
        if memory.tracker is not None:
            memory.tracker.touch(agent, frame, node, position, storage.itemsize, True, access.name)
        new = value(agent, frame)
        if agent.observers:
            access.tell(agent, frame, memory, position, new)
        if isinstance(position, slice):
            new = frame.spread(new).reshape(-1)
        elif np.ndim(new) and np.shape(position) != new.shape:
            # Several threads, one element: the last one wins, as everywhere in lockstep.
            position = np.broadcast_to(position, np.broadcast_shapes(np.shape(position), new.shape))
        cells = memory.viewed(storage)
        if not private and (not polled or np.any(cells[position] != new)):
            agent.engines.changes += 1
        cells[position] = new
        memory.mark(position, storage.itemsize)

    return run, False


def _over(frame: Frame, value: Array, each: tuple[int, ...]) -> Array:
    """A value of each thread, or of `each` of its elements, as (threads, *each)."""
    wanted = frame.shape + each
    return (value if value.shape == wanted else np.broadcast_to(value, wanted)).reshape(frame.count, *each)


class _Coordinate(NamedTuple):
    """What is checked of one coordinate: that it, and those up to `further` behind it, lie within `extent`."""

    buffer: Buffer
    axis: int
    read: Read
    extent: Read
    further: int


class Access:
    """What loads and stores share: where the elements are, and whether they may be touched.

    `node` is the load or store, or, for an instruction `at` that is passed a pointer, the address_of.
    """

    def __init__(self, c: Compiler, node: Node, kind: str, lanes: int, at: Node | None = None) -> None:
        flat = c.lowered.accesses[node]
        self.node, self.buffer, self.kind, self.lanes = at or node, flat.buffer, kind, lanes
        self.body = c.half.body
        self.name = f"{kind} of {flat.buffer.name}"
        self.element: np.dtype[Any] = flat.buffer.dtype.cell
        self.width = flat.buffer.dtype.width if at is None else 8 * self.element.itemsize       # bits of what `offsets` count
        self.counter = c.count(node, kind) if at is None else None
        halved = flat.buffer.dtype.width != self.width      # a pointer to a byte of two elements
        self.offsets = [c.integer(floordiv(index * flat.buffer.dtype.lanes, 2) if halved else index * flat.buffer.dtype.lanes)
                        for index in flat.written]
        self.run = 1 if flat.lanes else lanes        # consecutive elements at each of the offsets
        self.coords = [c.integer(x) for x in flat.coords] if c.checks else []
        proved = flat.in_bounds is True and flat.buffer.window is None
        self.inside = proved and _lies_within_its_allocation(flat.buffer)
        self.checked = list(_coordinates(c, flat.buffer, flat.coords, lanes)) if c.checks and not proved else []
        self.shapes = {x.buffer: [c.integer(n) for n in x.buffer.shape] for x in self.checked}
        size = lanes * self.width // 8
        self.alignment = 8 * min(size & -size, VECTOR_ALIGNMENT) // self.width if self.run > 1 and c.checks else 1

    def locate(self, agent: Agent, frame: Frame) -> tuple[Memory, Position]:
        """The memory, and the elements' positions in it."""
        memory, offsets = self.find(agent, frame)
        itemsize = self.element.itemsize
        if len(offsets) > 1:
            return memory, np.stack([memory.each(frame, offset, itemsize) for offset in offsets], axis=-1)
        if self.run > 1:
            return memory, memory.span(frame, offsets[0], itemsize, self.run)
        return memory, memory.position(frame, offsets[0], itemsize)

    def find(self, agent: Agent, frame: Frame) -> tuple[Memory, list[Value]]:
        """The memory, and the offsets of the elements in each thread's part of it."""
        if self.counter is not None:
            agent.counts[self.counter] += frame.count
        self.check_coordinates(agent, frame)
        memory = agent.memory[self.buffer.storage]
        offsets = [offset(agent, frame) for offset in self.offsets]
        if not self.inside or self.alignment > 1:
            for offset in offsets:
                self._check_offset(agent, frame, memory, offset)
        return memory, offsets

    def check_coordinates(self, agent: Agent, frame: Frame) -> None:
        """Each logical coordinate against the buffer's shape."""
        for coordinate in self.checked:
            self._check_coordinate(agent, frame, coordinate)

    def _check_offset(self, agent: Agent, frame: Frame, memory: Memory, offset: Value) -> None:
        there = memory.limit(1) * 8 // self.width
        limit = there - (self.run - 1)
        if _outside(offset, limit):
            bad = (offset < 0) | (offset >= limit)
            first = frame.first(bad, offset)
            agent.fail(OutOfBoundsError, f"{self.text(agent, frame, bad)} touches element {first + self.run - 1 if first >= 0 else first} "
                       f"of {self.buffer.storage.name}, which has {there}", frame, bad, self.node)
        if self.alignment > 1 and np.any(offset % self.alignment):
            bad = np.asarray(offset % self.alignment != 0)
            agent.fail(MisalignedAccessError, f"{self.text(agent, frame, bad)} of {self.lanes * self.width // 8} bytes needs an offset that is a "
                       f"multiple of {self.alignment} elements, not {frame.first(bad, offset)}", frame, bad, self.node)

    def _check_coordinate(self, agent: Agent, frame: Frame, checked: _Coordinate) -> None:
        coordinate, extent = checked.read(agent, frame), checked.extent(agent, frame)
        limit = extent - checked.further
        if not _outside(coordinate, limit):
            return
        bad = np.asarray((coordinate < 0) | (coordinate >= limit))
        first = frame.first(bad, coordinate)
        what = f"index {checked.axis} is {first}" if not checked.further else \
            f"index {checked.axis} runs from {first} to {first + checked.further}"
        agent.fail(OutOfBoundsError, f"{self.text(agent, frame, bad)} is outside {checked.buffer.name}'s shape "
                   f"{self._shape(checked.buffer, agent, frame)}: {what}, not in [0, {extent})", frame, bad, self.node)

    def check_written(self, agent: Agent, frame: Frame, memory: Memory, position: Position) -> None:
        bad = memory.unwritten(position, self.element.itemsize)
        if bad.any():
            if isinstance(position, slice):
                bad = bad.reshape(frame.shape)
            elif self.lanes > 1:
                bad = np.asarray(bad.any(axis=-1))
            report = agent.fail if isinstance(memory, LocalMemory) else agent.doubt
            report(UninitializedReadError, f"{self.text(agent, frame, bad)} reads {self.buffer.scope} memory that nothing has written",
                   frame, bad, self.node, writers_text(self.body, self.buffer.storage))

    def tell(self, agent: Agent, frame: Frame, memory: Memory, position: Position, values: Value = None,
             order: str = "", scope: str = "") -> None:
        """Tell the observers of this access; `values` are stored."""
        if isinstance(memory, LocalMemory):
            return
        size = self.element.itemsize
        each = (self.lanes,) if self.lanes > 1 else ()      # an element for every lane
        start = memory.start(position, size)
        pieces = each
        if self.run > 1:
            start, size, pieces = start[..., 0], size * self.run, ()
        start = _over(frame, start, pieces)
        if values is not None:
            values = _over(frame, np.asarray(values), each)
        touch = Touch(self.node, self.buffer, memory.space or memory, self.kind, agent.numbers(frame), start, size, values,
                      order=order, scope=scope)
        for observer in agent.observers:
            observer.access(touch)

    def text(self, agent: Agent, frame: Frame, bad: Value) -> str:
        """The access as the author wrote it, with the first offending thread's coordinates."""
        what = f"{self.kind} of {self.buffer.name}"
        if self.buffer.cell:
            return what
        coords = [str(frame.first(bad, read(agent, frame))) for read in self.coords]
        return f"{what}[{', '.join(coords)}]" if coords else what

    def _shape(self, buffer: Buffer, agent: Agent, frame: Frame) -> str:
        return str(tuple(read(agent, frame) for read in self.shapes[buffer]))


def _coordinates(c: Compiler, buffer: Buffer, coords: Sequence[Int], lanes: int) -> Iterator[_Coordinate]:
    """The coordinates that may lie outside: in the buffer, and in those of which it is a part. Lanes follow the last axis."""
    along = len(buffer.shape) - 1
    further = lanes - 1 if buffer.dtype.lanes == 1 else 0
    while True:
        for axis, (coordinate, extent) in enumerate(zip(coords, buffer.shape)):
            more = further if axis == along else 0
            if more or not _surely_inside(coordinate, extent):
                yield _Coordinate(buffer, axis, c.integer(coordinate), c.integer(extent), more)
        if buffer.window is None:
            return
        along = buffer.window.kept[along] if along >= 0 else -1
        coords, buffer = buffer.window.coordinates(coords), buffer.window.base


def _lies_within_its_allocation(buffer: Buffer) -> bool:
    """Whether all elements of a dense buffer exist, so that one inside its shape does."""
    storage = buffer.storage
    if storage.parameter is not None or buffer.layout is not None or buffer.dtype.packed:
        return False
    numbers = (buffer.elem_offset, storage.size, *buffer.shape)
    if not all(is_const(n) for n in numbers):
        return False
    first, size, *shape = (n.value for n in numbers)
    return bool(first >= 0 and (first + prod(shape)) * buffer.dtype.bytes <= size * storage.dtype.bytes)


def _surely_inside(coordinate: Int, extent: Int) -> bool:
    return is_const(coordinate) and is_const(extent) and 0 <= coordinate.value < extent.value


def _outside(x: Value, limit: int) -> bool:
    if isinstance(x, np.ndarray):
        return bool(x.size and (x.min() < 0 or x.max() >= limit))
    return not 0 <= x < limit
