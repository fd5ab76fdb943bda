"""Loads and stores of 4-bit floats, two of which share a byte, the first in its low half. A byte counts as written when one half of it is."""

from __future__ import annotations

import numpy as np

from runtime.simulator.access import PACKED, Access
from runtime.simulator.agent import Agent
from runtime.simulator.events import Touch
from runtime.simulator.frames import Array, Frame
from runtime.simulator.halves import codes_of
from runtime.simulator.memory import LocalMemory, Memory
from runtime.simulator.program import Compiler, Run
from tracer import operations as op
from tracer.ir import Node


class Halves(Access):
    """An access to elements of half a byte; its offsets count those."""

    def places(self, agent: Agent, frame: Frame) -> tuple[Memory, Array, Array]:
        """The memory; for each thread, and each lane of a vector, the byte and how far the element is shifted in it."""
        memory, offsets = self.find(agent, frame)
        if self.run > 1:
            offsets = [offsets[0] + k for k in range(self.run)]
        bytes_ = [memory.each(frame, offset // 2, 1) for offset in offsets]
        shifts = [np.broadcast_to(np.asarray(offset % 2 * 4, np.uint8), frame.shape) for offset in offsets]
        if self.lanes == 1:
            return memory, bytes_[0], shifts[0]
        return memory, np.stack(bytes_, axis=-1), np.stack(shifts, axis=-1)

    def tell_bytes(self, agent: Agent, frame: Frame, memory: Memory, places: Array) -> None:
        """Tell the observers which bytes are touched."""
        if isinstance(memory, LocalMemory):
            return
        start = memory.start(places, 1).reshape(frame.count, *places.shape[len(frame.shape):])
        for observer in agent.observers:
            observer.access(Touch(self.node, self.buffer, memory.space or memory, self.kind, agent.numbers(frame), start, 1))


def load(c: Compiler, node: Node) -> tuple[Run, bool]:
    """A load of one element or a vector of them."""
    assert node.dtype is not None
    access = Halves(c, node, "load", node.dtype.lanes)
    write, storage = c.define(node), node.dtype.storage

    def run(agent: Agent, frame: Frame) -> None:
        memory, places, shifts = access.places(agent, frame)
        if memory.written is not None:
            access.check_written(agent, frame, memory, places)
        if agent.observers:
            access.tell_bytes(agent, frame, memory, places)
        codes: Array = memory.viewed(np.dtype(np.uint8))[places] >> shifts & np.uint8(15)
        write(agent, frame, codes.view(storage))

    return run, False


def store(c: Compiler, node: Node) -> tuple[Run, bool]:
    """A store; of one element only where no other thread has the other half of the byte."""
    stored = node.operands[-1]
    assert stored.dtype is not None
    value, lanes = c.narrow(stored), stored.dtype.lanes
    access = Halves(c, node, "store", lanes)

    def run(agent: Agent, frame: Frame) -> None:
        memory, places, shifts = access.places(agent, frame)
        codes = np.broadcast_to(codes_of(value(agent, frame)), places.shape)
        cells = memory.viewed(np.dtype(np.uint8))
        if agent.observers:
            access.tell_bytes(agent, frame, memory, places)
        for lane in [...] if lanes == 1 else [(..., k) for k in range(lanes)]:
            where, shift = places[lane], shifts[lane]
            cells[where] = cells[where] & (np.uint8(0xF0) >> shift) | codes[lane] << shift
        memory.mark(places, 1)
        agent.engines.changes += 1

    return run, False


PACKED.update({op.LOAD: load, op.STORE: store})
