"""Tensor copies (TMA): one thread moves a box of an array to or from shared memory, by a tensor map (`boxes`).

Source: PTX ISA 9.7.9.27 (`cp.async.bulk.tensor`, its reduction and prefetch). Loads fill what lies outside the array; stores leave it out.
A load adds the bytes of the whole box to its mbarrier, out-of-bounds part included. A multicast load writes the same offsets, and tells the
mbarrier at the same offset, in every block of the mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.atomics import RULES
from runtime.simulator.boxes import Box, MapOperand
from runtime.simulator.bulk_copies import bulk_groups, copies_in
from runtime.simulator.events import AsyncOperation, Touch
from runtime.simulator.frames import Array, Frame
from runtime.simulator.mbarriers import BarrierOperand, TxCompletion
from runtime.simulator.memory import Memory
from runtime.simulator.pointers import Pointer
from runtime.simulator.program import Compiler, Run, statement
from tracer import instructions as ins
from tracer.errors import ClusterError, OutOfBoundsError, UninitializedReadError
from tracer.ir import Node

ALIGNMENT = 128         # bytes: where a box may begin in shared memory
BYTE = np.dtype(np.uint8)


# ---- operations ----------------------------------------------------------------------------------------------------------------

@dataclass(eq=False, kw_only=True)
class Load(AsyncOperation):
    """Array to shared memory; `targets` are where the box begins in the space, one for each block that gets it."""

    operand: MapOperand
    memory: Memory
    space: Memory
    box: Box
    targets: tuple[int, ...]

    def land(self) -> None:
        operand, box = self.operand, self.box
        itemsize = operand.itemsize
        held = np.tile(_filler(operand), (box.inside.size, 1))
        inside = box.inside.reshape(-1)
        source = box.places.reshape(-1)[inside, None] + np.arange(itemsize)
        held[inside] = self.memory.viewed(BYTE)[source]
        pitch = max(1, self.space.pitch)
        for target in self.targets:
            where = target // pitch * pitch + operand.layout(target % pitch)
            self.space.viewed(BYTE)[where] = held.reshape(-1)
            self.space.mark(where, 1)


@dataclass(eq=False, kw_only=True)
class Store(AsyncOperation):
    """Shared memory to array; what is there is replaced, or `combine`d with what comes."""

    operand: MapOperand
    memory: Memory
    space: Memory
    box: Box
    source: int
    combine: Callable[..., Array] | None = None
    data: Array | None = None

    def read(self) -> None:
        if self.data is None:
            pitch = max(1, self.space.pitch)
            where = self.source // pitch * pitch + self.operand.layout(self.source % pitch)
            self.data = self.space.viewed(BYTE)[where].copy()

    def land(self) -> None:
        self.read()
        assert self.data is not None
        itemsize, inside = self.operand.itemsize, self.box.inside.reshape(-1)
        new = self.data.reshape(-1, itemsize)[inside]
        where = self.box.places.reshape(-1)[inside, None] + np.arange(itemsize)
        cells = self.memory.viewed(BYTE)
        if self.combine is not None:
            storage = self.operand.buffer.dtype.storage
            combined = self.combine(np.ascontiguousarray(cells[where]).view(storage), np.ascontiguousarray(new).view(storage))
            new = np.asarray(combined, storage).view(BYTE)
        cells[where] = new
        self.memory.mark(where, 1)


def _filler(operand: MapOperand) -> Array:
    """The bytes of an element that lies outside the array."""
    storage = operand.buffer.dtype.storage
    value = np.zeros(1, storage) if operand.map.oob_fill == "zeros" else np.full(1, np.nan).astype(storage)
    return value.view(BYTE)


# ---- loads ---------------------------------------------------------------------------------------------------------------------

@statement(ins.TENSOR_LOAD)
def _load(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    operand, counter = MapOperand(c, node), c.count(node)
    target = Pointer(c, node, given["dst"][0], "store", _space(node))
    bar = BarrierOperand(c, node, given["bar"][0], _space(node), told="")
    mask = c.narrow(given["cta_mask"][0]) if given["cta_mask"] else None

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        starts = target.locate(agent, frame, operand.room, ALIGNMENT).start
        places = bar.places(agent, frame)
        masks = None if mask is None else frame.spread(np.asarray(mask(agent, frame))).reshape(-1).astype(np.int64)
        for k, box in enumerate(operand.boxes(agent, frame)):
            one = _only(frame, k)
            copies: list[tuple[int, int | None]] = [(int(starts[k]), int(places[k]))]
            if masks is not None:
                copies = list(copies_in(agent, one, node, int(masks[k]), np.ones(1, np.bool_), *copies[0]))
            _issue_load(agent, one, operand, target, bar, box, copies)

    return run, False


def _space(node: Node) -> str:
    return "shared::cluster" if node.attrs.get("dst_space") == "shared::cluster" else "shared"


def _only(frame: Frame, k: int) -> Frame:
    """The frame of one of its threads."""
    return Frame(frame.threads, None, None, frame.lanes.reshape(-1)[k:k + 1])


def _issue_load(agent: Agent, frame: Frame, operand: MapOperand, target: Pointer, bar: BarrierOperand, box: Box,
                copies: list[tuple[int, int | None]]) -> None:
    """`copies`: where the box begins in the space, and its mbarrier there."""
    pitch = max(1, agent.space.pitch)
    targets, barriers = tuple(start for start, _ in copies), []
    for start, place in copies:
        assert place is not None
        if start // pitch != place // pitch:
            agent.fail(ClusterError, f"{operand.node.op.name}: the box goes to the block of rank {start // pitch}, its mbarrier is that of rank "
                       f"{place // pitch}; both are in one block", frame, True, operand.node)
        barriers.append(bar.at(agent, frame, place))
    threads = agent.numbers(frame)
    memory = operand.memory(agent)
    made = Load(operand.node, threads, operand=operand, memory=memory, space=agent.space, box=box, targets=targets)
    tell = partial(Touch, operand.node, threads=threads, proxy="async", actor=made)
    pieces, size = operand.pieces(box)
    if size:
        _check_storage(agent, frame, operand, memory, pieces, size)
        made.touches.append(tell(operand.buffer, memory, "load", start=pieces[None], size=size))
    for where in targets:
        starts, each = operand.shared_pieces(where % pitch)
        made.touches.append(tell(target.buffer, agent.space, "store", start=(where // pitch * pitch + starts)[None], size=each))
    made.completions = tuple(TxCompletion(barrier, operand.size, made) for barrier in barriers)
    agent.engines.issue(made)


def _check_storage(agent: Agent, frame: Frame, operand: MapOperand, memory: Memory, pieces: Array, size: int) -> None:
    """What the map describes lies in the array; the launch has checked it of arrays that come from elsewhere."""
    if int(pieces.min()) < 0 or int(pieces.max()) + size > memory.cells.nbytes:
        agent.fail(OutOfBoundsError, f"{operand.node.op.name}: the box touches byte {int(pieces.max()) + size - 1} of {operand.buffer.name}, which "
                   f"has {memory.cells.nbytes}", frame, True, operand.node)


# ---- stores and reductions -----------------------------------------------------------------------------------------------------

@statement(ins.TENSOR_STORE, ins.TENSOR_REDUCE)
def _store(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    operand, counter = MapOperand(c, node), c.count(node)
    source = Pointer(c, node, given["src"][0], "load", "shared")
    combine = RULES[node.attrs["op"]].step if node.op is ins.TENSOR_REDUCE else None

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        starts = source.locate(agent, frame, operand.room, ALIGNMENT).start
        for k, box in enumerate(operand.boxes(agent, frame)):
            _issue_store(agent, _only(frame, k), operand, source, box, int(starts[k]), combine)

    return run, False


def _issue_store(agent: Agent, frame: Frame, operand: MapOperand, source: Pointer, box: Box, start: int,
                 combine: Callable[..., Array] | None) -> None:
    threads, memory = agent.numbers(frame), operand.memory(agent)
    made = Store(operand.node, threads, operand=operand, memory=memory, space=agent.space, box=box, source=start, combine=combine)
    tell = partial(Touch, operand.node, threads=threads, proxy="async", actor=made)
    pitch = max(1, agent.space.pitch)
    starts, each = operand.shared_pieces(start % pitch)
    starts = start // pitch * pitch + starts
    _check_source(agent, frame, operand, source, box, start)
    made.touches.append(tell(source.buffer, agent.space, "load", start=starts[None], size=each))
    pieces, size = operand.pieces(box)
    if size:
        _check_storage(agent, frame, operand, memory, pieces, size)
        kind: dict[str, Any] = {"kind": "store"} if combine is None else {"kind": "atomic", "order": "relaxed", "scope": "gpu"}
        made.touches.append(tell(operand.buffer, memory, start=pieces[None], size=size, **kind))
    agent.engines.issue(made)
    bulk_groups(agent).add(made, frame.lanes.reshape(-1))


def _check_source(agent: Agent, frame: Frame, operand: MapOperand, source: Pointer, box: Box, start: int) -> None:
    """What is stored was written."""
    if agent.space.written is None:
        return
    pitch = max(1, agent.space.pitch)
    where = start // pitch * pitch + operand.layout(start % pitch).reshape(-1, operand.itemsize)
    if agent.space.unwritten(where[box.inside.reshape(-1)], 1).any():
        agent.fail(UninitializedReadError, f"{operand.node.op.name}: the box at {source.name(agent, frame)} has bytes that nothing has written",
                   frame, True, operand.node)


# ---- hints ---------------------------------------------------------------------------------------------------------------------

@statement(ins.TENSOR_PREFETCH)
def _prefetch(c: Compiler, node: Node) -> tuple[Run, bool]:
    """Into L2: nothing that a kernel could see."""
    operand, counter = MapOperand(c, node), c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        operand.boxes(agent, frame)

    return run, False


@statement(ins.PREFETCH_TENSORMAP)
def _prefetch_map(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count

    return run, False

