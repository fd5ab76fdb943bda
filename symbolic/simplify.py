"""`simplify`: an equal expression with less work."""

from __future__ import annotations

from typing import Any, overload

from symbolic.facts import Facts
from symbolic.integers import Int, to_int

_NOTHING_KNOWN = Facts()


@overload
def simplify(expr: Int | int, facts: Facts | None = None) -> Int: ...
@overload
def simplify(expr: Any, facts: Facts | None = None) -> Any: ...


def simplify(expr: Any, facts: Facts | None = None) -> Any:
    """An expression equal to `expr` for all values within `facts`.

    An `Int` gives an `Int`; a SymPy expression gives a SymPy expression, bounds being read from its symbols' assumptions
    too (`nonnegative=True`, `positive=True`, `even=True`). Idempotent, the same in every process, never with more operators
    than `expr`. Raises TypeError for what is not an integer expression.
    """
    if expr.__class__ is Int or isinstance(expr, int):
        return (facts or _NOTHING_KNOWN)._engine().simplify(to_int(expr))
    from symbolic.sympy_bridge import simplify_sympy
    return simplify_sympy(expr, facts)
