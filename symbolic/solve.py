"""Extents from shapes: which symbols do the known numbers determine, and what remains to be checked.

A buffer declared with shape `(n*m, 2*n + 1)` and called with a tensor of shape `(a, b)` gives the equations `n*m == a` and
`2*n + 1 == b`. The second gives `n = (b - 1)//2` if `(b - 1) % 2 == 0`; then the first gives `m = a//n` if `a % n == 0`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from symbolic.integers import (
    CONST,
    ZERO,
    Int,
    constant_of,
    eq,
    factors_of,
    floordiv,
    floormod,
    free_symbols,
    ne,
    product,
    scale,
    sub,
    substitute,
    terms_of,
)


@dataclass(frozen=True)
class Solution:
    """What `solve` found, every expression in the known leaves alone.

    `values` gives the solved symbols in the order in which they were solved. `divisibility` holds relations such as
    `(b - 1) % 2 == 0` that must hold for the values to be whole (and `n != 0` where one divides by a symbol);
    `checks` holds the equations that determine nothing further, as `expression == known`. `unsolved` are the symbols that
    no equation determines.
    """

    values: dict[Int, Int]
    divisibility: tuple[Int, ...]
    checks: tuple[Int, ...]
    unsolved: tuple[Int, ...]


def solve(symbols: Iterable[Int], equations: Sequence[tuple[Int, Int]]) -> Solution:
    """Solve `expression == known` for the symbols in the expressions.

    Plain equations `n == known` are taken first, in order, then those that leave one symbol once the solved ones are
    replaced: `c*n*factor + rest` with a constant c and solved factors and rest. Later equations in solved symbols are checks.
    """
    unknown = dict.fromkeys(symbols)
    values: dict[Int, Int] = {}
    divisibility: list[Int] = []
    left = list(equations)
    while True:
        step = _next(left, unknown)
        if step is None:
            break
        position, symbol, cofactor, rest = step
        expression, known = left.pop(position)
        dividend = substitute(sub(known, rest), values)
        divisor = substitute(cofactor, values)
        if divisor.op is not CONST:
            divisibility.append(ne(divisor, ZERO))
        if not (divisor.op is CONST and divisor.value in (1, -1)):
            divisibility.append(eq(floormod(dividend, divisor), ZERO))
        values[symbol] = scale(dividend, -1) if divisor.op is CONST and divisor.value == -1 else floordiv(dividend, divisor)
        del unknown[symbol]
    checks = tuple(eq(substitute(e, values), known) for e, known in left if not any(s in unknown for s in free_symbols(e)))
    return Solution(values, tuple(divisibility), tuple(c for c in checks if c.op is not CONST or not c.value),
                    tuple(unknown))


def _next(equations: Sequence[tuple[Int, Int]], unknown: dict[Int, None]) -> tuple[int, Int, Int, Int] | None:
    """The simplest equation that determines a symbol: (position, symbol, cofactor, rest) of `cofactor*symbol + rest`."""
    best = None
    for position, (expression, _) in enumerate(equations):
        found = _isolate(expression, unknown)
        if found is None:
            continue
        symbol, cofactor, rest = found
        cost = (cofactor.op is not CONST, not (cofactor.op is CONST and cofactor.value == 1 and rest is ZERO), position)
        if best is None or cost < best[0]:
            best = cost, (position, symbol, cofactor, rest)
    return None if best is None else best[1]


def _isolate(expression: Int, unknown: dict[Int, None]) -> tuple[Int, Int, Int] | None:
    """(symbol, cofactor, rest) when exactly one term holds exactly one unknown, once and as a factor."""
    held = [(t, c) for t, c in terms_of(expression).items() if any(s in unknown for s in free_symbols(t))]
    if len(held) != 1:
        return None
    (t, c), = held
    factors = factors_of(t)
    mine = [f for f in factors if any(s in unknown for s in free_symbols(f))]
    if len(mine) != 1 or mine[0] not in unknown:
        return None
    others = [f for f in factors if f is not mine[0]]
    rest = sub(expression, scale(t, c))
    assert constant_of(rest) == constant_of(expression)
    return mine[0], scale(product(others), c), rest
