"""Integer expressions, what is known of them, and their simplest form. Nothing here knows of kernels.

The SymPy functions (FloorDiv, Xor, ..., `to_sympy`, `from_sympy`) are loaded when they are first asked for: SymPy takes longer
to import than all the rest.
"""

from typing import Any

from symbolic.evaluate import evaluate
from symbolic.facts import Facts
from symbolic.integers import (
    Int,
    Symbol,
    absolute,
    bitand,
    bitnot,
    bitor,
    bitxor,
    const,
    eq,
    floordiv,
    floormod,
    free_symbols,
    ge,
    gt,
    is_const,
    land,
    le,
    lnot,
    lor,
    lt,
    maximum,
    minimum,
    named,
    ne,
    operations_count,
    select,
    shl,
    shr,
    substitute,
    to_int,
    truncdiv,
    truncmod,
)
from symbolic.simplify import simplify
from symbolic.solve import Solution, solve
from symbolic.text import Printer, text

_BRIDGE = (
    "Abs", "And", "BitAnd", "BitOr", "Equal", "FloorDiv", "FloorMod", "IntegerFunction", "Less", "LessEqual", "Max",
    "Min", "NotEqual", "Or", "Select", "Shl", "Shr", "TruncDiv", "TruncMod", "Xor", "from_sympy", "to_sympy",
)


def __getattr__(name: str) -> Any:
    if name in _BRIDGE:
        from symbolic import sympy_bridge
        return getattr(sympy_bridge, name)
    raise AttributeError(f"module 'symbolic' has no attribute {name!r}")


__all__ = [
    "Facts", "Int", "Printer", "Solution", "Symbol", "absolute", "bitand", "bitnot", "bitor", "bitxor", "const", "eq",
    "evaluate", "floordiv", "floormod", "free_symbols", "ge", "gt", "is_const", "land", "le", "lnot", "lor", "lt",
    "maximum", "minimum", "named", "ne", "operations_count", "select", "shl", "shr", "simplify", "solve",
    "substitute", "text", "to_int", "truncdiv", "truncmod",
    *_BRIDGE,
]
