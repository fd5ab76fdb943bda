"""The numbers of a layout: Python ints where they are known, `Int` expressions where they are not.

A caller may hand in ints, NumPy integers, `Int`s, SymPy expressions, and (as coordinates) NumPy arrays. `+ - * // %` mean the same
on all of them, so the algebra is written once. SymPy is read on entry and written back on exit, with the caller's own
symbols.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from symbolic.facts import Facts
from symbolic.integers import CONST, Int, eq, is_const, named, sub, to_int
from symbolic.layout.errors import LayoutError

Value: TypeAlias = "int | Int"

NOTHING_KNOWN = Facts()


def is_sympy(x: Any) -> bool:
    """A SymPy expression, asked without importing SymPy."""
    sympy = sys.modules.get("sympy")
    return sympy is not None and isinstance(x, sympy.Basic)


def read(x: Any, what: str = "a number of a layout") -> Value:
    """`x` as an int or, where it has symbols, an `Int`. Raises LayoutError, naming `what`, for anything else."""
    if x.__class__ is int:
        return x
    if isinstance(x, (bool, float)):
        raise LayoutError(f"{what} must be an integer, not {x!r}")
    try:
        if is_sympy(x):
            from symbolic.sympy_bridge import from_sympy
            e = from_sympy(x)
        else:
            e = to_int(x)
    except TypeError as error:
        raise LayoutError(f"{what} must be an integer expression: {error}") from None
    return e.value if e.op is CONST else e


def sympy_symbols(items: Iterable[Any]) -> dict[Int, Any]:
    """Our symbol for each SymPy symbol in `items`, to write results with the caller's own."""
    return {named(s.name): s for x in items if is_sympy(x) for s in x.free_symbols}


def write(value: Any, symbols: Mapping[Int, Any]) -> Any:
    """`value` for the caller: a SymPy expression where the question had SymPy symbols, else as it is."""
    if not symbols or value.__class__ is not Int:
        return value
    from symbolic.sympy_bridge import to_sympy
    return to_sympy(value, symbols)


def assume_sympy(symbols: Mapping[Int, Any], facts: Facts) -> None:
    """Add to `facts` what the SymPy symbols say of themselves: nonnegative, positive, even, ..."""
    if symbols:
        from sympy import Tuple

        from symbolic.sympy_bridge import assumed
        scope = assumed(Tuple(*symbols.values()), facts)
        for symbol in symbols:
            lo, hi = scope.bounds(symbol)
            facts.bound(symbol, lo, None if hi is None else hi + 1)


def in_kind(value: Any, symbols: Mapping[Int, Any], question: Iterable[Any]) -> Any:
    """`value` as the kind of the coordinates asked about: SymPy for SymPy, `Int` for `Int`, numbers and arrays as they are."""
    if any(map(is_sympy, question)):
        from symbolic.sympy_bridge import to_sympy
        return to_sympy(to_int(value), symbols)
    return to_int(value) if any(x.__class__ is Int for x in question) else write(value, symbols)


def product(items: Iterable[Any]) -> Any:
    result: Any = 1
    for x in items:
        result = result * x
    return lower(result)


def lower(x: Any) -> Any:
    """A constant `Int` as an int."""
    return x.value if x.__class__ is Int and is_const(x) else x


def same(a: Value, b: Value, facts: Facts = NOTHING_KNOWN) -> bool | None:
    """Whether a == b: True or False where that is proved, else None."""
    if a is b:
        return True
    if a.__class__ is int and b.__class__ is int:
        return a == b
    difference = facts.simplify(sub(to_int(a), to_int(b)))
    return difference.value == 0 if difference.op is CONST else facts.prove(eq(difference, 0))


def holds(relation: Any, facts: Facts = NOTHING_KNOWN) -> bool | None:
    """A relation of values: a bool as it is, an `Int` as far as `facts` decide it."""
    return facts.prove(relation) if relation.__class__ is Int else bool(relation)


def divides(d: Value, x: Value, facts: Facts = NOTHING_KNOWN) -> bool | None:
    """Whether `d` divides `x`, where that is proved."""
    if d.__class__ is int and x.__class__ is int:
        return d != 0 and x % d == 0
    remainder = facts.simplify(to_int(x) % d)
    return remainder.value == 0 if remainder.op is CONST else facts.prove(eq(remainder, 0))


def quotient(x: Value, d: Value, facts: Facts = NOTHING_KNOWN) -> Value:
    """`x // d`, simplified."""
    if d.__class__ is int and x.__class__ is int:
        return x // d
    return simple(to_int(x) // d, facts)  # type: ignore[no-any-return]


def simple(x: Any, facts: Facts = NOTHING_KNOWN) -> Any:
    """`x` simplified within `facts`; ints and arrays as they are."""
    return lower(facts.simplify(x)) if x.__class__ is Int else x


def number(x: Value) -> int:
    """`x` where it must be one. Raises LayoutError for an expression."""
    if x.__class__ is Int:
        raise LayoutError(f"{x!r} must be a number here")
    return x  # type: ignore[return-value]


def show(x: Any) -> str:
    """A value, or a tuple of them, as Python."""
    return f"({', '.join(map(repr, x))}{',' * (len(x) == 1)})" if isinstance(x, tuple) else repr(x)
