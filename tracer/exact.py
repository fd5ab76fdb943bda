"""The exact mathematics of an operation on integers and bools, shared by the recorder and by lowering.

`exact` says what the result is as a number; whether the result's dtype can hold that number is the recorder's question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.dtypes import DType
from tracer.operations import Operation

# What the bitwise operators mean on bools.
_LOGIC: dict[Operation, Callable[..., Int]] = {ops.AND: si.land, ops.OR: si.lor, ops.XOR: si.ne, ops.NOT: si.lnot}


def is_exact(dtype: DType | None) -> bool:
    """True for the types whose values have exact mathematics: scalar integers and bools."""
    return dtype is not None and dtype.lanes == 1 and dtype.kind in ("int", "uint", "bool")


def exact(op: Operation, dtype: DType | None, operand_dtypes: Sequence[DType | None], values: Sequence[Int | None]) -> Int | None:
    """The result of `op` on exact `values`, or None where algebra cannot see through the operation."""
    if not is_exact(dtype) or not values or any(v is None for v in values):
        return None
    assert dtype is not None
    known = [v for v in values if v is not None]
    if op is ops.LET:
        return known[0]
    if op is ops.CAST:
        return _cast(dtype, operand_dtypes[0], known[0])
    if op is ops.SELECT and dtype.kind == "bool":
        condition, a, b = known
        return si.lor(si.land(condition, a), si.land(si.lnot(condition), b))
    if dtype.kind == "bool" and op in _LOGIC:
        return _LOGIC[op](*known)
    return None if op.symbolic is None else op.symbolic(*known)


def _cast(target: DType, source: DType | None, value: Int) -> Int | None:
    if source is None or target.kind == source.kind == "bool":
        return value
    if target.kind == "bool":
        return si.ne(value, si.const(0))
    if source.kind == "bool":
        return si.select(value, si.const(1), si.const(0))
    return value


def side_condition(op: Operation, dtype: DType, values: Sequence[Int | None]) -> Int | None:
    """What must hold for `exact` to be the operation's value, apart from the range of `dtype`; None for nothing."""
    if op in (ops.SHL, ops.SHR):
        amount = values[1]
        assert amount is not None
        return si.land(si.ge(amount, si.const(0)), si.lt(amount, si.const(dtype.bits)))
    return None


# Operations whose result is taken to fit its signed dtype when it comes from indices and extents alone: the launcher
# and the simulator check that. Everything else that may not fit wraps, and is an atom of its own.
ASSUMED_TO_FIT = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.ABS, ops.FLOORDIV, ops.TRUNCDIV})
