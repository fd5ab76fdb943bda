"""Bulk copies and reductions: `cp.async.bulk` and `cp.reduce.async.bulk`, which copy any number of 16 bytes.

Source: PTX ISA 9.7.9.25.4 and 9.7.9.25.5. Each thread that executes one begins a copy of its own. Those that write shared memory bring their bytes to
an mbarrier, those that write global memory belong to the thread's bulk group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from runtime.simulator.addresses import Located
from runtime.simulator.agent import Agent
from runtime.simulator.atomics import RULES
from runtime.simulator.copies import finish, groups_of, tell_waited
from runtime.simulator.engines import Groups
from runtime.simulator.events import AsyncOperation, Touch
from runtime.simulator.frames import Array, Frame
from runtime.simulator.mbarriers import BarrierOperand, MBarrier, TxCompletion
from runtime.simulator.pointers import Pointer, check_written
from runtime.simulator.program import Compiler, Run, statement
from runtime.simulator.types import ELEMENTS
from tracer import instructions as ins
from tracer.errors import ClusterError, MisalignedAccessError
from tracer.ir import Node

BULK_ALIGNMENT = 16
BYTE = np.dtype(np.uint8)


@dataclass(eq=False)
class BulkCopy(AsyncOperation):
    """`size` bytes from one place to others: one, or in the shared memory of several blocks. `reduction`: their name and type."""

    source: tuple[Any, int] = (None, 0)         # a memory and the first byte
    targets: tuple[tuple[Any, int], ...] = ()
    size: int = 0
    reduction: tuple[str, str] | None = None
    data: Array | None = None

    def read(self) -> None:
        if self.data is None:
            memory, start = self.source
            self.data = memory.viewed(BYTE)[start:start + self.size].copy()

    def land(self) -> None:
        self.read()
        assert self.data is not None
        for memory, start in self.targets:
            cells = memory.viewed(BYTE)[start:start + self.size]
            cells[:] = self.data if self.reduction is None else reduced(cells, self.data, *self.reduction)
            memory.mark(slice(start, start + self.size), 1)


def reduced(cells: Array, data: Array, name: str, kind: str) -> Array:
    """What `cells` become, elements of the type `kind`, both as bytes."""
    element = ELEMENTS[kind]
    result: Array = np.asarray(RULES[name].step(cells.view(element), data.view(element)), element)
    return result.view(np.uint8)


def bulk_groups(agent: Agent) -> Groups:
    """The bulk groups of the agent's threads: what they copy from shared to global memory."""
    return groups_of(agent, "bulk")


class BulkOperands:
    """What the bulk instructions have in common."""

    def __init__(self, c: Compiler, node: Node) -> None:
        given = ins.arguments(node)
        self.node, self.to_global = node, node.attrs["dst_space"] == "global"
        self.source = Pointer(c, node, given["src"][0], "load", node.attrs["src_space"])
        self.target = Pointer(c, node, given["dst"][0], "store", node.attrs["dst_space"])
        self.size = c.narrow(given["size"][0])
        space = "shared::cluster" if node.attrs["dst_space"] == "shared::cluster" else "shared"
        self.bar = BarrierOperand(c, node, given["bar"][0], space) if given["bar"] else None
        self.mask = c.narrow(given["cta_mask"][0]) if given.get("cta_mask") else None
        self.reduction = (node.attrs["op"], node.attrs["type"]) if "op" in node.attrs else None

    def operations(self, agent: Agent, frame: Frame) -> Iterator[BulkCopy]:
        """One for each thread of the frame."""
        node = self.node
        sizes = np.broadcast_to(self.size(agent, frame), frame.shape).astype(np.int64)
        odd = sizes % BULK_ALIGNMENT != 0
        if odd.any():
            agent.fail(MisalignedAccessError, f"{node.op.name}: {int(sizes[odd][0])} bytes; bulk copies move multiples of {BULK_ALIGNMENT}", frame,
                       odd, node)
        sources = self.source.locate(agent, frame, sizes, BULK_ALIGNMENT)
        targets = self.target.locate(agent, frame, sizes, BULK_ALIGNMENT)
        bars = None if self.bar is None else self.bar.places(agent, frame)
        pitch = max(1, agent.space.pitch)
        astray = np.zeros(frame.shape, np.bool_) if bars is None else (targets.start // pitch != bars // pitch).reshape(frame.shape)
        if astray.any():
            agent.fail(ClusterError, f"{node.op.name}: the destination and the mbarrier lie in different blocks; the mbarrier stands in the block "
                       "that is written", frame, astray, node)
        masks = None if self.mask is None else np.broadcast_to(self.mask(agent, frame), frame.shape).reshape(-1).astype(np.int64)
        numbers = agent.numbers(frame)
        for k, size in enumerate(sizes.reshape(-1).tolist()):
            here = np.arange(frame.count).reshape(frame.shape) == k
            if sources.memory is agent.space and size:
                part = frame.keep(here)
                check_written(agent, part, self.source, Located(sources.memory, sources.start[k:k + 1]), size)
            operation = BulkCopy(node, numbers[k:k + 1], source=(sources.memory, int(sources.start[k])), size=size, reduction=self.reduction)
            places = [(int(targets.start[k]), None if bars is None else int(bars[k]))]
            if masks is not None:
                places = list(copies_in(agent, frame, node, int(masks[k]), here, *places[0]))
            operation.targets = tuple((targets.memory, place) for place, _ in places)
            operation.touches = [self._touch(operation, self.source, sources.memory, int(sources.start[k]), "load")]
            kind = "store" if self.reduction is None else "atomic"
            operation.touches += [self._touch(operation, self.target, targets.memory, place, kind) for place, _ in places]
            operation.completions = tuple(TxCompletion(self._barrier(agent, frame, bar, here), size, operation) for _, bar in places
                                          if bar is not None)
            yield operation

    def _barrier(self, agent: Agent, frame: Frame, place: int, here: Array) -> MBarrier:
        assert self.bar is not None
        return self.bar.at(agent, frame, place, here)

    def _touch(self, operation: BulkCopy, pointer: Pointer, memory: Any, start: int, kind: str) -> Touch:
        order, scope = ("relaxed", "gpu" if self.to_global else "cluster") if kind == "atomic" else ("", "")
        return Touch(self.node, pointer.buffer, memory, kind, operation.threads, np.array([start]), operation.size, None, "async", order, scope,
                     operation)


def copies_in(agent: Agent, frame: Frame, node: Node, mask: int, here: Array, place: int, bar: int | None) -> Iterator[tuple[int, int | None]]:
    """The same bytes of a block's shared memory, and the same mbarrier, in each of the blocks of the cluster that `mask` names."""
    assert agent.resident is not None
    blocks, pitch = agent.resident.cluster.blocks, agent.space.pitch
    if not mask or mask >> len(blocks):
        agent.fail(ClusterError, f"{node.op.name}: the mask {mask:#x} of a multicast; the cluster has {len(blocks)} blocks", frame, here, node)
    for rank in range(len(blocks)):
        if mask >> rank & 1:
            if blocks[rank].ended:
                agent.fail(ClusterError, f"{node.op.name}: writes shared memory of {blocks[rank].text()} (rank {rank}), which has ended", frame,
                           here, node)
            yield rank * pitch + place % pitch, None if bar is None else rank * pitch + bar % pitch


@statement(ins.BULK, ins.BULK_REDUCE)
def _bulk(c: Compiler, node: Node) -> tuple[Run, bool]:
    operands, counter = BulkOperands(c, node), c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        for operation, lane in zip(operands.operations(agent, frame), frame.lanes.reshape(-1)):
            if not operation.completions:
                bulk_groups(agent).add(operation, np.array([lane]))
            agent.engines.issue(operation)

    return run, False


@statement(ins.BULK_COMMIT)
def _commit(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        bulk_groups(agent).commit(frame.lanes.reshape(-1))

    return run, False


@statement(ins.BULK_WAIT_GROUP)
def _wait_group(c: Compiler, node: Node) -> tuple[Run, bool]:
    """With `.read` the sources have been read, and what is written lands later."""
    counter, n, only_read = c.count(node), node.attrs["n"], bool(node.attrs.get("read"))

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        members = bulk_groups(agent).due(frame.lanes.reshape(-1), n, keep=only_read)
        if not only_read:
            finish(agent, members, node)
            return
        for member in members:
            if not member.read:
                member.read = True
                agent.engines.read(member.operation)
                if member.operation.reading is not None:
                    tell_waited(agent, member, node, member.operation.reading)

    return run, False


@statement(ins.BULK_PREFETCH)
def _prefetch(c: Compiler, node: Node) -> tuple[Run, bool]:
    """Brings nothing but speed; yet what it names must exist."""
    given, counter = ins.arguments(node), c.count(node)
    source, size = Pointer(c, node, given["src"][0], "prefetch", "global"), c.narrow(given["size"][0])

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        source.locate(agent, frame, np.broadcast_to(size(agent, frame), frame.shape).astype(np.int64), BULK_ALIGNMENT)

    return run, False
