"""What kind of instruction an operation is, and how much arithmetic: the rows that a profile adds up.

A kind is what hardware has a pipe or a unit for. Arithmetic is counted as Nsight Compute does: an addition or multiplication of
floats is one operation, a fused one two; matrix instructions by their shape. Everything else is none.
"""

from __future__ import annotations

import re
from typing import Final

from tracer import instructions as ins
from tracer import operations as op
from tracer.ir import Node
from tracer.matrix import TCGEN05_KINDS, InstructionDescriptor
from tracer.operations import Effect, Operation

KINDS: Final = ("float", "integer", "math", "convert", "memory", "atomic", "copy", "matrix", "warp", "barrier", "control")

_MATRIX: Final = frozenset({ins.MMA, ins.WGMMA, ins.TCGEN05_MMA})
_BY_ROW: Final[dict[Operation, str]] = {
    **dict.fromkeys((op.LOAD, op.STORE, ins.LD, ins.ST, ins.LDMATRIX, ins.STMATRIX, ins.TCGEN05_LD, ins.TCGEN05_ST, ins.PREFETCH), "memory"),
    **dict.fromkeys((*op.ATOMICS, ins.RED, ins.ATOM), "atomic"),
    **dict.fromkeys((ins.CP_ASYNC, ins.BULK, ins.BULK_REDUCE, ins.BULK_PREFETCH, ins.TENSOR_LOAD, ins.TENSOR_STORE, ins.TENSOR_REDUCE,
                     ins.TENSOR_PREFETCH, ins.ST_ASYNC, ins.RED_ASYNC, ins.TCGEN05_CP), "copy"),
    **dict.fromkeys(_MATRIX, "matrix"),
    **dict.fromkeys((op.CAST, op.REINTERPRET), "convert"),
    op.FUNC_CALL: "control",
}
_COUNTED: Final[dict[Operation, int]] = {
    **dict.fromkeys((op.ADD, op.SUB, op.MUL, op.DIV, *op.MATH), 1),
    **{row: 2 for row in op.MATH if row.name == "fma"},
    **{row: 0 for row in op.MATH if row.name in ("floor", "ceil", "round", "trunc", "copysign")},
    **dict.fromkeys((ins.ADD_F32X2, ins.SUB_F32X2, ins.MUL_F32X2), 2), ins.FMA_F32X2: 4,
}
_ISSUERS: Final[dict[Operation, int]] = {ins.MMA: 32, ins.WGMMA: 128, ins.TCGEN05_MMA: 1}     # threads that take part in one instruction
_SHAPE: Final = re.compile(r"m(\d+)n(\d+)k(\d+)")


def kind_of(node: Node) -> str:
    """The row of `KINDS` that `node` counts in."""
    row = node.op
    if row in _BY_ROW:
        return _BY_ROW[row]
    if row in op.MATH and _COUNTED[row] == 1 and len(row.operands) < 3:
        return "math"
    if row.effect & (Effect.SYNC | Effect.WAIT) or row.name.startswith(("ptx.mbarrier", "ptx.fence", "ptx.barrier", "ptx.bar.")):
        return "barrier"
    if row.effect & Effect.CONTROL:
        return "control"
    if row.effect & Effect.CONVERGENT:
        return "warp"
    return "float" if any(n.dtype is not None and n.dtype.is_float for n in (node, *node.operands)) else "integer"


def arithmetic(node: Node) -> tuple[str, float]:
    """(pipe, operations of one thread): the pipe is "float64", "float32", "float16" or "matrix float16", ...; 0 for none."""
    if node.op in _MATRIX:
        return _matrix(node)
    count = _COUNTED.get(node.op, 0)
    if not count or ins.is_instruction(node.op):
        return "float32", count
    if node.dtype is None or not node.dtype.is_float:
        return "", 0
    bits = node.dtype.bits
    return "float64" if bits == 64 else "float32" if bits == 32 else "float16", count * node.dtype.lanes


def _matrix(node: Node) -> tuple[str, float]:
    what = _product(node)
    if what is None:
        return "", 0        # its shape is a value: it cannot be told here
    kind, m, n, k = what
    return f"matrix {_INPUT[kind]}", 2 * m * n * k / _ISSUERS[node.op]


def _product(node: Node) -> tuple[str, int, int, int] | None:
    """The type of A, and m, n and k. tcgen05.mma is told them by a number, which is a constant as a rule."""
    if node.op is not ins.TCGEN05_MMA:
        found = _SHAPE.search(node.attrs.get("shape", ""))
        return (node.attrs["a_type"], int(found[1]), int(found[2]), int(found[3])) if found else None
    bits = ins.arguments(node)["idesc"]
    if not bits or bits[0].op is not op.CONST:
        return None
    what = InstructionDescriptor.decode(bits[0].attrs["value"], node.attrs["kind"])
    return None if isinstance(what, str) else (what.a, what.m, what.n, TCGEN05_KINDS[what.kind].k)


_INPUT: Final = {"f64": "float64", "tf32": "tf32", "f16": "float16", "bf16": "float16", "e4m3": "float8", "e5m2": "float8", "s8": "int8",
                 "u8": "int8"}
