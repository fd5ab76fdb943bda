"""Values of expressions: exact integers, or NumPy arrays of int64 element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from symbolic.integers import (
    ABS,
    CONST,
    LAND,
    LOR,
    MAX,
    MIN,
    PRODUCT,
    RELATIONS,
    SELECT,
    SUM,
    TRUNCDIV,
    TRUNCMOD,
    Int,
    free_symbols,
)


def evaluate(e: Int, values: Mapping[Int, Any]) -> Any:
    """The value of `e` where each free symbol has the value given: an integer, or an array of integers.

    Integers give an exact int. As soon as one value is an array all is computed in int64, one NumPy operation a node and
    each shared node once. Raises KeyError for a symbol without a value, ZeroDivisionError for integers divided by zero
    (in a branch of `select` that is not taken, nothing is computed).
    """
    symbols = free_symbols(e)
    arguments = [values[s] for s in symbols]
    for v in arguments:
        if isinstance(v, np.ndarray):
            return _compiled(e, "array")(*[np.asarray(v, np.int64) for v in arguments])
    return _compiled(e, "scalar")(*map(int, arguments))


def _compiled(e: Int, mode: str) -> Callable[..., Any]:
    if e._code is None:
        e._code = {}
    function = e._code.get(mode)
    if function is None:
        function = e._code[mode] = _Writer(mode).function(e)
    return function


class _Writer:
    """Writes one Python function for one expression: a line for each node."""

    def __init__(self, mode: str) -> None:
        self.template = _ARRAY if mode == "array" else _SCALAR
        self.lines: list[str] = []
        self.names: dict[Int, str] = {}

    def function(self, e: Int) -> Callable[..., Any]:
        symbols = free_symbols(e)
        for k, s in enumerate(symbols):
            self.names[s] = f"s{k}"
        result = self.value(e)
        body = "".join(f"    {line}\n" for line in self.lines)
        source = f"def f({', '.join(self.names[s] for s in symbols)}):\n{body}    return {result}\n"
        space: dict[str, Any] = {"np": np, "truncdiv": _truncdiv, "truncmod": _truncmod}
        exec(compile(source, "<symbolic>", "exec"), space)
        return space["f"]  # type: ignore[no-any-return]

    def value(self, e: Int) -> str:
        """Where the value of `e` stands once the lines written so far have run."""
        if e.op is CONST:
            return f"({e.value})"
        if e not in self.names:
            written = self.lazy_select(e) if e.op is SELECT and self.template is _SCALAR else self.expression(e)
            self.names[e] = name = f"t{len(self.names)}"
            self.lines.append(f"{name} = {written}")
        return self.names[e]

    def lazy_select(self, e: Int) -> str:
        """A branch may divide by what its condition excludes, so it runs only when it is taken."""
        condition = self.value(e.args[0])
        branches = [self.nested(a) for a in e.args[1:]]
        return f"{branches[0]} if {condition} else {branches[1]}"

    def nested(self, e: Int) -> str:
        """`e` as one expression, using only what is already computed."""
        inner = _Writer.__new__(_Writer)
        inner.template, inner.lines, inner.names = self.template, [], dict(self.names)
        result = inner.value(e)
        if not inner.lines:
            return result
        steps = [line.partition(" = ") for line in inner.lines]
        return "(" + ", ".join(f"{name} := ({written})" for name, _, written in steps) + f", {result})[-1]"

    def expression(self, e: Int) -> str:
        args = [self.value(a) for a in e.args]
        if e.op is SUM:
            return self.linear(e, args)
        if e.op is PRODUCT:
            return "*".join(args)
        if e.op in self.template:
            template = self.template[e.op]
            first, *others = args
            if e.op in (MIN, MAX, LAND, LOR):
                for x in others:
                    first = template.format(first, x)
                return first
            return template.format(*args)
        joined = f" {e.op} ".join(args)
        return f"({joined}) + 0" if e.op in RELATIONS else joined

    @staticmethod
    def linear(e: Int, args: list[str]) -> str:
        out = ""
        for a, c in zip(args, e.coefs):
            sign = " - " if c < 0 else " + "
            out += sign + (a if abs(c) == 1 else f"{a}*{abs(c)}")
        if e.value:
            out += f" + {e.value}" if e.value > 0 else f" - {-e.value}"
        return out[3:] if out.startswith(" + ") else "-" + out[3:]


_SCALAR: Final = {
    MIN: "min({}, {})", MAX: "max({}, {})", ABS: "abs({})", TRUNCDIV: "truncdiv({}, {})", TRUNCMOD: "truncmod({}, {})",
    LAND: "({} and {})", LOR: "({} or {})",
}
_ARRAY: Final = {
    MIN: "np.minimum({}, {})", MAX: "np.maximum({}, {})", ABS: "abs({})", TRUNCDIV: "truncdiv({}, {})",
    TRUNCMOD: "truncmod({}, {})", SELECT: "np.where({}, {}, {})", LAND: "({} & {})", LOR: "({} | {})",
}


def _truncdiv(a: Any, b: Any) -> Any:
    quotient = abs(a) // abs(b)
    return quotient * (1 - 2 * ((a < 0) ^ (b < 0)))


def _truncmod(a: Any, b: Any) -> Any:
    return a - b * _truncdiv(a, b)
