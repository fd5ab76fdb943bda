"""`T.cuda`: instructions on the bits of words, and bits read as another type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import operations as ops
from tracer.dtypes import DType, dtype
from tracer.intrinsics.operands import UINT32, exactly, one_of
from tracer.operations import Operation
from tracer.recorder import INT32, current
from tracer.values import Value, reinterpret, wrap

WORDS = ("int32", "uint32", "int64", "uint64")
FLOAT32 = dtype("float32")


def _of_a_word(op: Operation, meaning: str, result: DType | None) -> Callable[[Any], Value]:
    def function(a: Any) -> Value:
        recorder = current()
        node = one_of(a, WORDS, op.name, recorder)
        return wrap(recorder.record(op, [node], result or node.dtype), recorder)

    function.__name__ = function.__qualname__ = op.name.removeprefix("cuda.")
    function.__doc__ = f"{meaning} of an int32, uint32, int64 or uint64 ({op.source})."
    return function


popc = _of_a_word(ops.POPC, "How many bits are set, an int32,", INT32)
clz = _of_a_word(ops.CLZ, "How many zeros stand above the highest set bit, an int32 (the width for 0),", INT32)
ffs = _of_a_word(ops.FFS, "The place of the lowest set bit counted from 1, an int32 (0 for 0),", INT32)
brev = _of_a_word(ops.BREV, "The bits in reverse order", None)


def byte_perm(x: Any, y: Any, selector: Any) -> Value:
    """Four bytes of the eight of `y:x` (byte 0 is `x`'s lowest); byte k is chosen by bits 4k to 4k+2 of `selector`. All uint32."""
    recorder = current()
    operands = [exactly(v, UINT32, ops.BYTE_PERM.name, recorder) for v in (x, y, selector)]
    return wrap(recorder.record(ops.BYTE_PERM, operands, UINT32), recorder)


def _funnel(op: Operation) -> Callable[[Any, Any, Any], Value]:
    def shift(low: Any, high: Any, shift: Any) -> Value:
        recorder = current()
        operands = [exactly(v, UINT32, op.name, recorder) for v in (low, high, shift)]
        return wrap(recorder.record(op, operands, UINT32), recorder)

    way = op.name.rsplit("_", 1)[1]
    shift.__name__ = shift.__qualname__ = op.name.removeprefix("cuda.")
    shift.__doc__ = (f"The {'high' if way[0] == 'l' else 'low'} word of `high:low` shifted {'left' if way[0] == 'l' else 'right'} by "
                     f"{'min(shift, 32)' if way.endswith('c') else 'shift & 31'}. All uint32.")
    return shift


FUNNEL_SHIFTS = {op.name.removeprefix("cuda."): _funnel(op) for op in ops.FUNNEL}


def dp4a(a: Any, b: Any, c: Any) -> Value:
    """`c` plus the products of the four bytes of `a` and `b`, signed for int32 and unsigned for uint32; wraps. All of one dtype."""
    recorder = current()
    first = one_of(a, ("int32", "uint32"), ops.DP4A.name, recorder)
    assert first.dtype is not None
    operands = [first, *(exactly(v, first.dtype, ops.DP4A.name, recorder) for v in (b, c))]
    return wrap(recorder.record(ops.DP4A, operands, first.dtype), recorder)


def float_as_uint(a: Any) -> Value:
    """The bits of a float32 as a uint32: `T.reinterpret("uint32", a)`."""
    recorder = current()
    return reinterpret(UINT32, wrap(exactly(a, FLOAT32, "cuda.float_as_uint", recorder), recorder))


def uint_as_float(a: Any) -> Value:
    """The float32 that has the bits of a uint32: `T.reinterpret("float32", a)`."""
    recorder = current()
    return reinterpret(FLOAT32, wrap(exactly(a, UINT32, "cuda.uint_as_float", recorder), recorder))


def fdividef(a: Any, b: Any) -> Value:
    """A fast float32 quotient, within 2 units of the last place; 0 (NaN for infinite `a`) where |b| is beyond 2**126."""
    recorder = current()
    operands = [exactly(v, FLOAT32, ops.FDIVIDEF.name, recorder) for v in (a, b)]
    return wrap(recorder.record(ops.FDIVIDEF, operands, FLOAT32), recorder)
