"""To how many bytes the addresses of an instruction must be aligned."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from tracer import instructions as ins
from tracer import operations as ops
from tracer.intrinsics.ptx.grammar import Argument
from tracer.intrinsics.ptx.types import BITS
from tracer.ir import Node

# PTX ISA: the sections of the rows. What is not listed moves `type` x `vec`.
_FIXED = {
    ins.BULK: 16, ins.BULK_REDUCE: 16, ins.BULK_PREFETCH: 16, ins.TENSOR_LOAD: 128, ins.TENSOR_STORE: 128, ins.TENSOR_REDUCE: 128,
    ins.LDMATRIX: 16, ins.STMATRIX: 16, ins.TCGEN05_ALLOC: 4,
}
_BARRIER = 8


def alignment(node: Node, argument: Argument) -> int:
    """Bytes of which the address `argument` of the instruction `node` must be a multiple."""
    if argument.role == "barrier":
        return _BARRIER
    if node.op is ins.CP_ASYNC:
        return int(node.attrs["size"])
    if node.op in _FIXED:
        return _FIXED[node.op]
    element = node.attrs.get("type")
    return BITS[element] // 8 * int(node.attrs.get("vec", 1)) if element in BITS and argument.role in ("read", "write", "update") else 1


def moved_bytes(node: Node) -> float:
    """How many bytes one thread moves at each address of the instruction; infinity where only a run tells."""
    if node.op is ins.CP_ASYNC:
        return int(node.attrs["size"])
    element = node.attrs.get("type")
    if node.op not in _FIXED and element in BITS:
        return BITS[element] // 8 * int(node.attrs.get("vec", 1))
    return inf


def pointers(node: Node) -> Iterator[tuple[Argument, Node, int]]:
    """The operands of an instruction's node that point into buffers, each with the alignment that it needs."""
    operands = ins.arguments(node)
    for argument in node.attrs["form"].arguments:
        for operand in operands.get(argument.name, ()):
            if argument.is_memory and operand.op is ops.ADDRESS_OF:
                yield argument, operand, alignment(node, argument)
