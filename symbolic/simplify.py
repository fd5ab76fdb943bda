"""`simplify`: an equal expression with less work."""

from __future__ import annotations

from symbolic.facts import Facts
from symbolic.integers import Int, Like, to_int

_NOTHING_KNOWN = Facts()


def simplify(expr: Like, facts: Facts | None = None) -> Int:
    """An expression equal to `expr` for all values within `facts`.

    Idempotent, the same in every process. Raises TypeError for what is not an integer expression.
    """
    return (facts or _NOTHING_KNOWN)._engine().simplify(to_int(expr))
