"""`Int` expressions as NumPy functions: exact integers, whatever the width.

A value that is the same for all threads is a Python int; others are int64 arrays, or arrays of Python ints where a number in
the expression could leave int64. So the result is always the mathematical one, and the check of its dtype comes after.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from runtime.simulator.frames import Value
from runtime.simulator.semantics import Undefined, check_shift
from symbolic import integers as si
from symbolic.integers import Int

_INT64 = 2**63


def _int(x: Value) -> Value:
    return x.astype(np.int64) if isinstance(x, np.ndarray) else int(x)


def _nonzero(divisor: Value) -> Value:
    zero = divisor == 0
    if np.any(zero):
        raise Undefined("division by zero", zero)
    return divisor


def _truncmod(a: Value, b: Value) -> Value:
    rest = abs(a) % abs(_nonzero(b))
    return _select(a < 0, -rest, rest)


def _truncdiv(a: Value, b: Value) -> Value:
    return (a - _truncmod(a, b)) // b


def _select(condition: Value, a: Value, b: Value) -> Value:
    if isinstance(condition, np.ndarray):
        return np.where(condition, _number(a), _number(b))
    return a if condition else b


def _number(x: Value) -> Value:
    """A Python int beyond int64 as an array's element: of two plain ones NumPy makes an int64, wrapping them."""
    return np.asarray(x, dtype=object) if isinstance(x, int) and not -_INT64 <= x < _INT64 else x


def _min(a: Value, *rest: Value) -> Value:
    for b in rest:
        a = np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b)
    return a


def _max(a: Value, *rest: Value) -> Value:
    for b in rest:
        a = np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)
    return a


_HELPERS: dict[str, Any] = {"_int": _int, "_nonzero": _nonzero, "_truncdiv": _truncdiv, "_truncmod": _truncmod, "_select": _select,
            "_min": _min, "_max": _max, "check_shift": check_shift}


# How each operator is written in Python, over names of its operands; `bits` is the width of the node it computes.
_WRITTEN: dict[str, Callable[[list[str], int], str]] = {
    si.PRODUCT: lambda a, bits: "*".join(a),
    si.FLOORDIV: lambda a, bits: f"{a[0]}//{a[1]}",
    si.FLOORMOD: lambda a, bits: f"{a[0]}%{a[1]}",
    si.TRUNCDIV: lambda a, bits: f"_truncdiv({a[0]}, {a[1]})",
    si.TRUNCMOD: lambda a, bits: f"_truncmod({a[0]}, {a[1]})",
    si.MIN: lambda a, bits: f"_min({', '.join(a)})",
    si.MAX: lambda a, bits: f"_max({', '.join(a)})",
    si.ABS: lambda a, bits: f"abs({a[0]})",
    si.SELECT: lambda a, bits: f"_select({a[0]}, {a[1]}, {a[2]})",
    si.AND: lambda a, bits: "&".join(a),
    si.OR: lambda a, bits: "|".join(a),
    si.XOR: lambda a, bits: "^".join(a),
    si.SHL: lambda a, bits: f"{a[0]}<<check_shift({a[1]}, {bits})",
    si.SHR: lambda a, bits: f"{a[0]}>>check_shift({a[1]}, {bits})",
    si.LT: lambda a, bits: f"{a[0]}<{a[1]}",
    si.LE: lambda a, bits: f"{a[0]}<={a[1]}",
    si.EQ: lambda a, bits: f"{a[0]}=={a[1]}",
    si.NE: lambda a, bits: f"{a[0]}!={a[1]}",
    si.LAND: lambda a, bits: "&".join(a),
    si.LOR: lambda a, bits: "|".join(a),
}


class _Writer:
    """Writes an expression as the lines of a Python function, each node once however often it is used."""

    def __init__(self, symbols: tuple[Int, ...], bits: int) -> None:
        self.names = {s: f"x{k}" for k, s in enumerate(symbols)}
        self.bits = bits
        self.lines: list[str] = []
        self.done: dict[tuple[Int, bool], str] = {}

    def write(self, e: Int, truth: bool = False) -> str:
        """The name of `e`'s value; a relation's is a bool where `truth` is asked for and 0 or 1 elsewhere."""
        if e.op is si.CONST:
            return str(bool(e.value) if truth else e.value if e.value >= 0 else f"({e.value})")
        if e.op is si.SYMBOL and not truth:
            return self.names[e]
        name = self.done.get((e, truth))
        if name is None:
            written = self._operation(e, truth)
            name = self.done[e, truth] = f"t{len(self.lines)}"
            self.lines.append(f"    {name} = {written}")
        return name

    def _operation(self, e: Int, truth: bool) -> str:
        if truth and e.op not in si.RELATIONS:
            return f"{self.write(e)}!=0"
        if not truth and e.op in si.RELATIONS:
            return f"_int({self.write(e, truth=True)})"
        if e.op is si.SUM:
            terms = [f"{c}*{self.write(a)}" if c != 1 else self.write(a) for a, c in zip(e.args, e.coefs)]
            return "+".join(terms + [str(e.value)] * (e.value != 0))
        of_truths = len(e.args) if e.op in (si.LAND, si.LOR) else 1 if e.op is si.SELECT else 0
        args = [self.write(a, truth=k < of_truths) for k, a in enumerate(e.args)]
        if e.op in (si.FLOORDIV, si.FLOORMOD) and e.args[1].op is not si.CONST:
            args[1] = f"_nonzero({args[1]})"
        return _WRITTEN[e.op](args, self.bits)


@lru_cache(maxsize=4096)
def function_of(e: Int, bits: int = 64, truth: bool = False) -> Callable[..., Value]:
    """`e` as a function of the values of `free_symbols(e)`, in that order. With `truth`, of its being nonzero.

    Raises `Undefined` where a divisor is zero or a shift amount outside [0, bits).
    """
    symbols = si.free_symbols(e)
    writer = _Writer(symbols, bits)
    result = writer.write(e, truth)
    source = "\n".join([f"def function({', '.join(writer.names.values())}):", *writer.lines, f"    return {result}"])
    scope = dict(_HELPERS)
    exec(source, scope)
    function: Callable[..., Value] = scope["function"]
    return function


def fits_int64(e: Int, sizes: tuple[int, ...]) -> bool:
    """True where no number on the way can leave int64, when the symbols (in order) are at most `sizes` in magnitude."""
    known = dict(zip(si.free_symbols(e), sizes))

    def size(x: Int) -> int:
        if x not in known:
            known[x] = abs(x.value) if x.op is si.CONST else _SIZES[x.op](x, [size(a) for a in x.args])
        return known[x]

    size(e)
    return max(known.values(), default=0) < _INT64


def _product(x: Int, a: list[int]) -> int:
    result = 1
    for s in a:
        result *= s
    return result


# A bound of the magnitude of each operator's result, from those of its operands.
_SIZES: dict[str, Callable[[Int, list[int]], int]] = {
    si.SUM: lambda x, a: abs(x.value) + sum(abs(c) * s for c, s in zip(x.coefs, a)),
    si.PRODUCT: _product,
    si.SHL: lambda x, a: a[0] << min(a[1], 64),
    **dict.fromkeys((si.AND, si.OR, si.XOR), lambda x, a: 2 * max(a)),
    **dict.fromkeys((si.SHR, si.FLOORDIV, si.TRUNCDIV, si.TRUNCMOD, si.ABS), lambda x, a: a[0]),
    si.FLOORMOD: lambda x, a: a[1],
    **dict.fromkeys((si.MIN, si.MAX), lambda x, a: max(a)),
    si.SELECT: lambda x, a: max(a[1:]),
    **dict.fromkeys(si.RELATIONS, lambda x, a: 1),
}


def widen(x: Value) -> Value:
    """A NumPy scalar or array of an integer or bool type as an exact number: Python int, int64, or Python ints in an array."""
    if not getattr(x, "ndim", 0):
        return int(x)
    if x.dtype == np.uint64 and x.size and int(x.max()) >= _INT64:
        return x.astype(object)
    return x.astype(np.int64, copy=False)


def magnitude(x: Value) -> int:
    """The greatest absolute value."""
    if not isinstance(x, np.ndarray):
        return abs(int(x))
    return max(abs(int(x.max())), abs(int(x.min()))) if x.size else 0


def narrow(x: Value, storage: Any) -> Value:
    """An exact number as a value of the NumPy type `storage`; one that does not fit wraps."""
    if isinstance(x, np.ndarray):
        if x.dtype == object and storage != np.bool_:
            x = np.asarray(x & 0xFFFF_FFFF_FFFF_FFFF, dtype=object).astype(np.uint64)
        return x.astype(storage, copy=False)
    if storage == np.bool_:
        return np.bool_(x)
    return np.uint64(x & 0xFFFF_FFFF_FFFF_FFFF).astype(storage)
