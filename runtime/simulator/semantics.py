"""What each operation computes: one NumPy rule a row.

A rule is made once for a node, from its dtypes and attributes, and returns the function of the operands' values. Every result
has the node's dtype, rounded once; floats narrower than float32 are computed in float32, which has more than twice their
digits, so that one more rounding gives what exact arithmetic would (Figueroa, "When is double rounding innocuous?", 1995).

An integer operation that has no result on these operands (a division by zero, a shift by the width) raises `Undefined`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from runtime.simulator import elementary, halves
from runtime.simulator.conversions import WIDE_FLOATS, conversion, round_from_double, round_from_float
from runtime.simulator.frames import Array, Value
from tracer import operations as op
from tracer.dtypes import DType, promote
from tracer.errors import NotSupportedError
from tracer.ir import Node
from tracer.operations import Operation

Function = Callable[..., Value]
Rule = Callable[[Node], Function]
SEMANTICS: dict[Operation, Rule] = {}


class Undefined(Exception):
    """An integer operation without a result: for which threads (`where`, a mask over the operands), and `what` it did, with
    `{}` for the `value` that those threads had."""

    def __init__(self, what: str, where: Value, value: Value = 0) -> None:
        self.what, self.where, self.value = what, where, value


def semantics(*rows: Operation) -> Callable[[Rule], Rule]:
    """Register the rule of these rows."""
    def register(rule: Rule) -> Rule:
        SEMANTICS.update(dict.fromkeys(rows, rule))
        return rule
    return register


# ---- arithmetic, comparisons, elementary functions: a function each for floats, integers, bools ------------------------------

def _check_division(a: Value, b: Value) -> None:
    zero = b == 0
    if np.any(zero):
        raise Undefined("division by zero", zero)
    if b.dtype.kind == "i":
        least = np.iinfo(a.dtype).min
        beyond = (b == -1) & (a == least)
        if np.any(beyond):
            raise Undefined(f"{least} divided by -1 is no {a.dtype}", beyond)


def _fmin(a: Value, b: Value) -> Value:
    """The other operand where one is NaN; of two zeros the negative one (PTX ISA 9.7.3.11: +0.0 > -0.0)."""
    least = np.fmin(a, b)
    zeros = least == 0
    return np.where(zeros & (np.signbit(a) | np.signbit(b)), -np.abs(least), least) if np.any(zeros) else least


def _fmax(a: Value, b: Value) -> Value:
    return -_fmin(-a, -b)


def _floordiv(a: Value, b: Value) -> Value:
    _check_division(a, b)
    return np.floor_divide(a, b)


def _floormod(a: Value, b: Value) -> Value:
    _check_division(a, b)
    return np.remainder(a, b)


def _truncdiv(a: Value, b: Value) -> Value:
    _check_division(a, b)
    return np.floor_divide(a - np.fmod(a, b), b)


def _truncmod(a: Value, b: Value) -> Value:
    _check_division(a, b)
    return np.fmod(a, b)


def check_shift(amount: Value, bits: int) -> Value:
    """`amount` itself, which is in [0, bits), or `Undefined`."""
    bad = (amount < 0) | (amount >= bits)
    if np.any(bad):
        raise Undefined(f"shift by {{}}, not in [0, {bits})", bad, amount)
    return amount


def _shift(function: Function) -> Function:
    def shift(a: Value, b: Value) -> Value:
        bits = 8 * a.dtype.itemsize
        check_shift(b, bits)
        return function(a, b.astype(a.dtype))
    return shift


def _operand_type(node: Node) -> DType:
    """The scalar type that the operands are brought to: the result's, or what they promote to where the result is a bool."""
    assert node.dtype is not None
    if node.op.result != "bool":
        return node.dtype.scalar
    first = node.operands[0].dtype
    assert first is not None
    for other in node.operands[1:]:
        assert other.dtype is not None
        first = promote(first, other.dtype)
    return first.scalar


def elementwise(row: Operation, floats: Function | None = None, ints: Function | None = None, bools: Function | None = None) -> None:
    """Register `row` by its functions on each kind of dtype; the operands are promoted first."""
    functions = {"float": floats, "int": ints, "uint": ints, "bool": bools}

    def rule(node: Node) -> Function:
        t = _operand_type(node)
        function = functions.get(t.kind)
        if function is None:
            raise NotSupportedError(f"{node.op.name} of {t} has no meaning; at {node.location}")
        if t.is_float and t.name not in WIDE_FLOATS:
            function = _through_float(function, t, rounded=node.op.result != "bool")
        return _promoted(function, [o.dtype for o in node.operands if o.dtype], t, "first" if node.op.result == "first" else "all")

    SEMANTICS[row] = rule


def _through_float(function: Function, t: DType, rounded: bool) -> Function:
    narrow = round_from_float(t)

    def compute(*args: Value) -> Value:
        result = function(*[x.astype(np.float32) for x in args])
        return narrow(result) if rounded else result

    return compute


def _promoted(function: Function, given: list[DType], wanted: DType, which: str) -> Function:
    """`function` behind the conversion of its operands (only the first one, for shifts) to `wanted`."""
    casts = [conversion(t, wanted) if which == "all" or k == 0 else conversion(t, t) for k, t in enumerate(given)]
    if all(t.scalar is wanted for t in given) or which == "first" and given[0].scalar is wanted:
        return function
    return lambda *args: function(*[cast(x) for cast, x in zip(casts, args)])




elementwise(op.ADD, floats=np.add, ints=np.add)
elementwise(op.SUB, floats=np.subtract, ints=np.subtract)
elementwise(op.MUL, floats=np.multiply, ints=np.multiply)
elementwise(op.DIV, floats=np.divide)
elementwise(op.FLOORDIV, floats=np.floor_divide, ints=_floordiv)
elementwise(op.FLOORMOD, floats=np.remainder, ints=_floormod)
elementwise(op.TRUNCDIV, ints=_truncdiv)
elementwise(op.TRUNCMOD, ints=_truncmod)
elementwise(op.NEG, floats=np.negative, ints=np.negative)
elementwise(op.ABS, floats=np.abs, ints=np.abs)
elementwise(op.MIN, floats=_fmin, ints=np.minimum, bools=np.minimum)
elementwise(op.MAX, floats=_fmax, ints=np.maximum, bools=np.maximum)

elementwise(op.AND, ints=np.bitwise_and, bools=np.logical_and)
elementwise(op.OR, ints=np.bitwise_or, bools=np.logical_or)
elementwise(op.XOR, ints=np.bitwise_xor, bools=np.logical_xor)
elementwise(op.NOT, ints=np.invert, bools=np.logical_not)
elementwise(op.SHL, ints=_shift(np.left_shift))
elementwise(op.SHR, ints=_shift(np.right_shift))

for _row, _function in [(op.LT, np.less), (op.LE, np.less_equal), (op.GT, np.greater), (op.GE, np.greater_equal),
                        (op.EQ, np.equal), (op.NE, np.not_equal)]:
    elementwise(_row, floats=_function, ints=_function, bools=_function)

elementwise(op.ISNAN, floats=np.isnan)
elementwise(op.ISINF, floats=np.isinf)

# CUDA's `rint` for `round`: half to even, as Python and NumPy do. `pow`, `fmod`, `atan2` have C's special cases.
_MATH: dict[str, Function] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": elementary.exp10, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "expm1": np.expm1, "sqrt": np.sqrt, "rsqrt": elementary.rsqrt, "cbrt": np.cbrt,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "erf": elementary.erf,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
    "pow": np.power, "atan2": np.arctan2, "fmod": np.fmod, "copysign": np.copysign,
}
for _row in op.MATH:
    if _row.name in _MATH:
        elementwise(_row, floats=_MATH[_row.name])


@semantics(op.OPERATIONS["fma"])
def fma(node: Node) -> Function:
    assert node.dtype is not None
    t = node.dtype.scalar
    given = [o.dtype for o in node.operands if o.dtype]
    if t.name == "float64":
        return _promoted(elementary.fused_double, given, t, "all")
    narrow = round_from_double(t)
    return _promoted(lambda a, b, c: narrow(elementary.fused(a, b, c)), given, t, "all")


# ---- choosing, converting, taking apart ------------------------------------------------------------------------------------

@semantics(op.SELECT)
def select(node: Node) -> Function:
    assert node.dtype is not None
    a, b = (conversion(o.dtype, node.dtype) for o in node.operands[1:] if o.dtype)
    return lambda condition, x, y: np.where(condition, a(x), b(y))


@semantics(op.CAST, op.LET)
def cast(node: Node) -> Function:
    """To a vector from a scalar: each lane gets it."""
    source, target = node.operands[0].dtype, node.dtype
    assert source is not None and target is not None
    convert = conversion(source, target)
    if source.lanes == target.lanes:
        return convert
    return lambda x: np.repeat(np.asarray(convert(x))[..., None], target.lanes, axis=-1)


@semantics(op.REINTERPRET)
def reinterpret(node: Node) -> Function:
    """The same bytes as another type, little endian, lanes in order."""
    source, target = node.operands[0].dtype, node.dtype
    assert source is not None and target is not None
    lanes, storage = target.lanes, target.storage

    def view(x: Value) -> Value:
        held: Array = np.ascontiguousarray(x if source.lanes > 1 else np.asarray(x)[..., None])
        if source.packed:
            held = halves.pack(held)
        held = halves.unpack(held.view(np.uint8), storage) if target.packed else held.view(storage)
        return held if lanes > 1 else held[..., 0]

    return view


@semantics(op.LANE)
def lane(node: Node) -> Function:
    index: Any = node.attrs["index"]
    return lambda x: x[..., index]
