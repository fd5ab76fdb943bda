"""Numbers that address matrices: descriptors of operands in shared memory, and addresses in tensor memory.

PTX ISA 9.7.15.5.1.2.2 and 9.7.16.4.1, 9.7.16.1.
"""

from __future__ import annotations

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.pointers import Pointer, put_registers
from runtime.simulator.program import Compiler, Run, statement
from runtime.simulator.register_operands import Registers
from symbolic.layout.descriptors import GENERATIONS
from symbolic.layout.shared import SWIZZLE_MODES
from tracer import instructions as ins
from tracer.ir import Node

_FIELD = 0x3FFF         # of a descriptor: 14 bits of 16-byte units


def start_field(address: Array) -> Array:
    """The bits of the start address, uint64; the address of a block's own shared memory counts from its window."""
    return ((address & 0x3FFFF) >> 4).astype(np.uint64)


@statement(ins.MATRIX_DESCRIPTOR)
def _matrix_descriptor(c: Compiler, node: Node) -> tuple[Run, bool]:
    pointer, fields = Pointer(c, node, node.operands[0], "address", "shared::cta"), np.uint64(node.attrs["fields"])
    counter, write = c.count(node), c.define(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        write(agent, frame, (start_field(pointer.address(agent, frame)) | fields).reshape(frame.shape))

    return run, False


def _by_hand(generation: str) -> None:
    low, _, fixed, code = GENERATIONS[generation]
    codes = {row[1]: row[code] for row in SWIZZLE_MODES.values()}

    @statement(ins.WGMMA_DESCRIPTOR if generation == "wgmma" else ins.TCGEN05_DESCRIPTOR)
    def encode(c: Compiler, node: Node) -> tuple[Run, bool]:
        target, source, *offsets = node.operands
        out, pointer = Registers(c, node, [target]), Pointer(c, node, source, "address", "shared::cta")
        leading, stride = (c.narrow(o) for o in offsets)
        fields, counter = np.uint64(fixed | codes[node.attrs["swizzle"]] << low), c.count(node)

        def run(agent: Agent, frame: Frame) -> None:
            agent.counts[counter] += frame.count
            made = start_field(pointer.address(agent, frame)) | fields
            for read, position in ((leading, 16), (stride, 32)):
                given = np.broadcast_to(np.asarray(read(agent, frame)).astype(np.uint64), frame.shape).reshape(-1)
                made |= (given & np.uint64(_FIELD)) << np.uint64(position)
            put_registers(out, agent, frame, made.reshape(frame.shape))

        return run, False


_by_hand("wgmma")
_by_hand("tcgen05")


@statement(ins.TMEM_ADDRESS)
def _tmem_address(c: Compiler, node: Node) -> tuple[Run, bool]:
    reads = [c.narrow(o) for o in node.operands]
    counter, write = c.count(node), c.define(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        address, row, column = (_word(read(agent, frame)) for read in reads)
        write(agent, frame, address + (row << np.uint32(16)) + column)

    return run, False


def _word(value: Value) -> Array:
    return np.asarray(value).astype(np.uint32)
