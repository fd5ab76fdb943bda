"""Boxes of an array: which elements a tensor map and coordinates name, and where each lies in the array and in shared memory.

Sources: PTX ISA 5.5 ("Tensors": boxes, out-of-bounds elements, swizzling modes); what it leaves open was seen on an H200.

* A box begins at the coordinates and has `box` elements along each axis, of which every `element_strides`-th is moved. Coordinates count from the
  innermost axis. A box begins at a multiple of 16 bytes of the array, and before it only where it is read (CUDA C++ Programming Guide, "Using TMA to
  transfer multi-dimensional arrays"); a GPU takes anything else for an illegal instruction.
* In shared memory elements follow each other, innermost axis fastest. A swizzle permutes the 16-byte pieces by their *address*, not by their
  place in the box: bits 4 and up are XORed with bits 7 and up. So the same box at another offset is laid out differently. Rows that are shorter than
  the swizzle's span (32, 64 or 128 bytes) begin a span each, with a gap behind them.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from codegen.tensor_maps import tensor_form
from runtime.simulator.agent import Agent
from runtime.simulator.frames import Array, Frame
from runtime.simulator.memory import Memory
from runtime.simulator.program import Compiler
from tracer import instructions as ins
from tracer import operations as op
from tracer.errors import MisalignedAccessError, NotSupportedError, OutOfBoundsError
from tracer.ir import Node
from tracer.tensor_maps import WRITES, row_pitch

PIECE = 16              # bytes that a swizzle keeps together
# By mode: the address bits 7 and up that are XORed into bits 4 and up (PTX ISA 5.5.7).
SWIZZLE_BITS = {"none": 0x00, "32B": 0x10, "64B": 0x30, "128B": 0x70}


def swizzled(address: Array, mode: str) -> Array:
    """Where the byte of a box that would lie at `address` lies."""
    found: Array = address ^ (address >> 3 & SWIZZLE_BITS[mode])
    return found


class Box(NamedTuple):
    """One box, in bytes. Elements by axis, outermost first, as in NumPy: `inside` the array, and at `places` in its memory; shared memory has them in
    the order of `inside`, flat."""

    inside: Array
    places: Array


class MapOperand:
    """The map and the coordinates of an instruction."""

    def __init__(self, c: Compiler, node: Node) -> None:
        given = ins.arguments(node)
        (operand,) = given["map"]
        if operand.op is not op.TENSOR_MAP:
            raise NotSupportedError(f"{node.op.name} with a tensor map in memory: the simulator knows those of T.tensor_map, at {node.location}")
        self.node, self.map = node, operand.attrs["map"]
        form = tensor_form(self.map)
        if len(given["at"]) != form.rank:
            raise NotSupportedError(f"{node.op.name}: {len(given['at'])} coordinates for a tensor map of {form.rank} axes, at {node.location}")
        self.buffer = self.map.buffer
        self.itemsize = form.dtype.bytes
        self.first = c.integer(form.first)
        self.dims = [c.integer(size) for size in form.dims]
        self.strides = [c.integer(step) for step in form.strides]
        self.at = [c.narrow(coordinate) for coordinate in given["at"]]
        self.steps, self.moved = form.element_strides, self.map.moved      # innermost first; outermost first
        self.size = prod(self.moved) * self.itemsize
        self.row, self.pitch = self.moved[-1] * self.itemsize, row_pitch(self.map)
        self.room = prod(self.moved[:-1]) * self.pitch      # in shared memory

    def memory(self, agent: Agent) -> Memory:
        """That of the array."""
        return agent.memory[self.buffer.storage]

    def boxes(self, agent: Agent, frame: Frame) -> list[Box]:
        """The box of each thread of the frame."""
        dims = [int(frame.spread(size(agent, frame)).flat[0]) for size in self.dims]
        strides = [self.itemsize, *(int(frame.spread(step(agent, frame)).flat[0]) for step in self.strides)]
        first = int(frame.spread(self.first(agent, frame)).flat[0])
        starts = [frame.spread(np.asarray(at(agent, frame))).reshape(-1).astype(np.int64) for at in self.at]
        if (odd := starts[0] * self.itemsize % PIECE != 0).any():
            where = starts[0][odd][0]
            agent.fail(MisalignedAccessError, f"{self.node.op.name}: the box begins at {where} along the last axis of {self.buffer.name}, "
                       f"which is no multiple of {PIECE} bytes ({PIECE // self.itemsize} {self.buffer.dtype}); a GPU takes it for an illegal "
                       "instruction", frame, odd.reshape(frame.shape), self.node)
        if self.node.op in WRITES:
            for start, axis in zip(starts, reversed(range(len(starts)))):
                if (early := start < 0).any():
                    agent.fail(OutOfBoundsError, f"{self.node.op.name}: the box begins at {start[early][0]} along axis {axis} of {self.buffer.name}; "
                               "one that is written begins in the array, only loads may begin before it; a GPU takes it for an illegal instruction",
                               frame, early.reshape(frame.shape), self.node)
        return [self._box([int(start[k]) for start in starts], dims, strides, first) for k in range(frame.count)]

    def _box(self, at: list[int], dims: list[int], strides: list[int], first: int) -> Box:
        inside, places = np.ones((), np.bool_), np.asarray(first)
        for start, size, stride, step, count in zip(at, dims, strides, self.steps, self.moved[::-1]):
            along = start + step * np.arange(count)
            axis = (slice(None), *(None,) * inside.ndim)         # each further axis stands in front
            inside = inside & ((along >= 0) & (along < size))[axis]
            places = places + (along * stride)[axis]
        return Box(inside, places)

    def pieces(self, box: Box) -> tuple[Array, int]:
        """The runs of neighbours in the array that a box has: where each begins, and their size in bytes."""
        rows = box.inside.reshape(-1, box.inside.shape[-1])
        columns = np.flatnonzero(rows.any(axis=0))
        if not len(columns):
            return np.empty(0, np.int64), 0
        starts = box.places.reshape(rows.shape)[rows[:, columns[0]], columns[0]]
        return starts, len(columns) * self.itemsize

    def layout(self, start: int) -> Array:
        """Where the bytes of a box that begins at the address `start` lie in shared memory, in the order of the box."""
        rows = start + self.pitch * np.arange(self.size // self.row)
        return swizzled((rows[:, None] + np.arange(self.row)).reshape(-1), self.map.swizzle)

    def shared_pieces(self, start: int) -> tuple[Array, int]:
        """The runs of bytes of shared memory that a box at `start` takes: one, unless its rows leave gaps. A span begins at a multiple of its
        size, so the swizzle moves nothing out of it."""
        if self.row == self.pitch:
            return np.array([start]), self.size
        return self.layout(start)[::PIECE], PIECE
