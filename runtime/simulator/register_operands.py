"""Register operands of an instruction, many at once: elements of local memory that it reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Array, Frame
from runtime.simulator.memory import LocalMemory, Memory
from runtime.simulator.program import Compiler, Read
from symbolic.integers import is_const
from tracer import operations as op
from tracer.errors import OutOfBoundsError, UninitializedReadError
from tracer.ir import Buffer, Node, Storage


class _Run(NamedTuple):
    """Operands `first` and on that lie in one storage: at constant offsets, or (one operand) at an offset that is read."""

    first: int
    storage: Storage
    buffer: Buffer
    offsets: Array
    read: Read | None


class Registers:
    """The elements that `operands` (pointers to, or loads of, local elements of one width) name."""

    def __init__(self, c: Compiler, node: Node, operands: Sequence[Node]) -> None:
        self.node, self.count = node, len(operands)
        dtype = operands[0].attrs["buffer"].dtype
        self.cell, self.lanes = dtype.storage, dtype.lanes                  # what local memory consists of, and how many a register takes
        self.word = self.cell if self.lanes == 1 else np.dtype(f"u{dtype.bytes}")
        self.itemsize = self.word.itemsize
        self.runs: list[_Run] = []
        for k, operand in enumerate(operands):
            flat = c.lowered.accesses[operand]
            storage, index = flat.buffer.storage, flat.emitted
            constant = is_const(index)
            last = self.runs[-1] if self.runs else None
            if constant and last is not None and last.storage is storage and last.read is None:
                self.runs[-1] = last._replace(offsets=np.append(last.offsets, index.value))
            else:
                self.runs.append(_Run(k, storage, flat.buffer, np.array([index.value if constant else 0]), None if constant else c.integer(index)))

    def places(self, agent: Agent, frame: Frame) -> list[tuple[_Run, Memory, Array]]:
        """Each run's memory and the positions (threads, operands x lanes) in it, in cells."""
        found: list[tuple[_Run, Memory, Array]] = []
        lanes = frame.lanes.reshape(-1, 1)
        for run in self.runs:
            memory = agent.memory[run.storage]
            assert isinstance(memory, LocalMemory)
            offsets: Any = run.offsets
            if run.read is not None:
                offsets = np.broadcast_to(run.read(agent, frame), frame.shape).reshape(-1, 1)
            if self.lanes > 1:
                offsets = (offsets[..., None] * self.lanes + np.arange(self.lanes)).reshape(*offsets.shape[:-1], -1)
            limit = memory.limit(self.cell.itemsize)
            if offsets.min() < 0 or offsets.max() >= limit:
                bad = np.broadcast_to((offsets < 0) | (offsets >= limit), (len(lanes), offsets.shape[-1])).any(axis=-1).reshape(frame.shape)
                agent.fail(OutOfBoundsError, f"{self.node.op.name}: a register is outside {run.buffer.name}, which has {limit // self.lanes} "
                           "elements", frame, bad, self.node)
            positions = lanes * (memory.pitch // self.cell.itemsize) + offsets if memory.rows else lanes + offsets * memory.threads
            found.append((run, memory, positions))
        return found

    def read(self, agent: Agent, frame: Frame, track: bool = True) -> Array:
        """The values, (threads, operands). `track`: an access like any other, not that of an instruction that works on them."""
        out = np.empty((frame.count, self.count * self.lanes), self.cell)
        for run, memory, positions in self.places(agent, frame):
            if track and memory.tracker is not None:
                memory.tracker.touch(agent, frame, self.node, positions, self.cell.itemsize, False, f"{self.node.op.name} of {run.buffer.name}")
            if memory.written is not None:
                bad = memory.unwritten(positions, self.cell.itemsize)
                if bad.any():
                    agent.fail(UninitializedReadError, f"{self.node.op.name} reads a register of {run.buffer.name} that nothing has written", frame,
                               bad.any(axis=-1).reshape(frame.shape), self.node)
            first = run.first * self.lanes
            out[:, first:first + positions.shape[1]] = memory.viewed(self.cell)[positions]
        return out.view(self.word)

    def write(self, agent: Agent, frame: Frame, values: Array, track: bool = True) -> None:
        """Store `values`, (threads, operands), of the registers' width."""
        cells = values if values.dtype == self.cell else np.ascontiguousarray(values).view(self.cell)
        for run, memory, positions in self.places(agent, frame):
            if track and memory.tracker is not None:
                memory.tracker.touch(agent, frame, self.node, positions, self.cell.itemsize, True, f"{self.node.op.name} of {run.buffer.name}")
            first = run.first * self.lanes
            memory.viewed(self.cell)[positions] = cells[:, first:first + positions.shape[1]]
            memory.mark(positions, self.cell.itemsize)


def loaded(operands: Sequence[Node]) -> bool:
    """True where these values are all registers as they stand: loads of local elements of one width."""
    return all(o.op is op.LOAD and o.attrs["buffer"].scope == "local" and o.dtype is o.attrs["buffer"].dtype for o in operands)
