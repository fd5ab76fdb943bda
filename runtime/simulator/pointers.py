"""Memory operands of instructions, passed as a pointer to an element or as an address; and single registers, which they write."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.simulator.access import Access
from runtime.simulator.addresses import WINDOW, Located, locate_element, resolve, shared_address
from runtime.simulator.agent import Agent
from runtime.simulator.events import AsyncOperation, Touch
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.program import Compiler
from runtime.simulator.register_operands import Registers
from tracer import operations as op
from tracer.errors import MisalignedAccessError, NotSupportedError, OutOfBoundsError, UninitializedReadError
from tracer.ir import Buffer, Node

_SCOPES = ("global", "shared", "shared.dyn")


class Pointer:
    """Where an operand of `node` points: `locate` gives the bytes. `kind` ("load", "store", ...) is for messages; `space` is what the
    instruction says of it, as in `addresses.resolve`."""

    def __init__(self, c: Compiler, node: Node, operand: Node, kind: str, space: str = "") -> None:
        self.node, self.kind, self.space = node, kind, space
        self.access: Access | None = None
        if operand.op is op.ADDRESS_OF:
            self.access = Access(c, operand, kind, 1, at=node)
            scope = self.access.buffer.storage.scope
            if scope not in (_SCOPES if not space else _SCOPES[:1] if space == "global" else _SCOPES[1:]):
                raise NotSupportedError(f"{node.op.name} of {self.access.buffer.name}, which is {scope}, where {space or 'another'} memory is meant, "
                                        f"at {node.location}")
        else:
            self.read = c.narrow(operand)

    @property
    def buffer(self) -> Buffer | None:
        return None if self.access is None else self.access.buffer

    def locate(self, agent: Agent, frame: Frame, size: Value, alignment: int = 1) -> Located:
        """Where each thread's `size` bytes are; they exist and are aligned."""
        if self.access is None:
            flat = size.reshape(-1) if isinstance(size, np.ndarray) else size
            found = resolve(agent, frame, self.read(agent, frame), flat, self.space, f"{self.node.op.name}: {self.kind} of", self.node)
        else:
            found = self._element(agent, frame, self.access, size)
        if alignment > 1:
            self._check_alignment(agent, frame, found, alignment)
        return found

    def address(self, agent: Agent, frame: Frame) -> Array:
        """The shared address (rank and offset) of the operand, flat, without a look at what lies there."""
        if self.access is None:
            where = np.broadcast_to(np.asarray(self.read(agent, frame)).astype(np.int64), frame.shape).reshape(-1)
            return where & WINDOW - 1
        memory = agent.memory[self.access.buffer.storage]
        found = locate_element(agent, frame, memory, self._offset(agent, frame, self.access), self.access.element.itemsize)
        return np.asarray(shared_address(agent, found.start))

    def _offset(self, agent: Agent, frame: Frame, access: Access) -> Value:
        """In elements, or in the bytes that two of them share."""
        offset = access.offsets[0](agent, frame)
        return offset // 2 if access.buffer.dtype.packed else offset

    def _element(self, agent: Agent, frame: Frame, access: Access, size: Value) -> Located:
        access.check_coordinates(agent, frame)
        memory, itemsize = agent.memory[access.buffer.storage], access.element.itemsize
        offset = self._offset(agent, frame, access)
        end, limit = offset * itemsize + size, memory.size * memory.cells.itemsize
        bad = np.asarray((np.asarray(offset) < 0) | (end > limit))
        if bad.any():
            agent.fail(OutOfBoundsError, f"{self.text(agent, frame, bad)} of {int(np.max(size))} bytes touches byte {frame.first(bad, end) - 1} of "
                       f"{access.buffer.storage.name}, which has {limit}", frame, bad, self.node)
        return locate_element(agent, frame, memory, offset, itemsize)

    def _check_alignment(self, agent: Agent, frame: Frame, found: Located, alignment: int) -> None:
        absolute = found.start + found.memory.address if found.memory is not agent.space else found.start % max(1, agent.space.pitch)
        bad = (absolute % alignment != 0).reshape(frame.shape)
        if bad.any():
            agent.fail(MisalignedAccessError, f"{self.text(agent, frame, bad)} needs an address that is a multiple of {alignment}, not "
                       f"{int(absolute[bad.reshape(-1)][0]):#x}", frame, bad, self.node)

    def text(self, agent: Agent, frame: Frame, bad: Value = True) -> str:
        """The operand as the author wrote it: `store of s[3]`; an address where it was one."""
        if self.access is not None:
            return self.access.text(agent, frame, bad)
        value = int(frame.spread(self.read(agent, frame))[frame.spread(bad)][0])
        return f"{self.kind} of {value:#x}"

    def name(self, agent: Agent, frame: Frame, bad: Value = True) -> str:
        """As `text`, without what is done: `s[3]`."""
        return self.text(agent, frame, bad).removeprefix(f"{self.kind} of ")


def bytes_of(found: Located, size: int) -> Array:
    """The bytes at a place, (threads, size), as indices into `memory.viewed(uint8)`."""
    return found.start[:, None] + np.arange(size)


def fetch(found: Located, size: int) -> Array:
    """Read `size` bytes a thread: (threads, size)."""
    taken: Array = found.memory.viewed(np.dtype(np.uint8))[bytes_of(found, size)]
    return taken


def put(found: Located, data: Array) -> None:
    """Write bytes, (threads, size), and mark them written. Of several threads at one place the last wins."""
    where = bytes_of(found, data.shape[1])
    found.memory.viewed(np.dtype(np.uint8))[where] = data
    found.memory.mark(where, 1)


def check_written(agent: Agent, frame: Frame, pointer: Pointer, found: Located, size: int) -> None:
    """Raise UninitializedReadError where a thread would read bytes that nothing wrote."""
    if found.memory.written is not None:
        bad = found.memory.unwritten(bytes_of(found, size), 1).any(axis=1).reshape(frame.shape)
        if bad.any():
            agent.doubt(UninitializedReadError, f"{pointer.text(agent, frame, bad)} reads shared memory that nothing has written", frame, bad,
                       pointer.node)


def touch(agent: Agent, frame: Frame, pointer: Pointer, found: Located, kind: str, size: int, values: Array | None = None, *,
          proxy: str = "generic", order: str = "", scope: str = "", actor: AsyncOperation | None = None) -> Touch:
    """What observers are told of an instruction's access."""
    return Touch(pointer.node, pointer.buffer, found.memory, kind, agent.numbers(frame), found.start, size, values, proxy, order, scope, actor)


def put_registers(registers: Registers, agent: Agent, frame: Frame, value: Any) -> None:
    """Give one register operand a value for each thread: its bits where the widths agree, else its number."""
    given = np.broadcast_to(np.asarray(value), frame.shape).reshape(-1, 1)
    same = given.dtype.itemsize == registers.itemsize and np.bool_ not in (given.dtype, registers.word)
    registers.write(agent, frame, np.ascontiguousarray(given).view(registers.word) if same else given.astype(registers.word))
