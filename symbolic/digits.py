"""Remainders put back: canonically `x % d` is `x - d*(x // d)`, so that sums of digits cancel by linear algebra alone.

Two readings of a sum, neither of which needs any facts: `digits`, with the remainders that make it easier to read, and
`nearest`, with every quotient drawn into its remainder, which has the smallest values on the way. Intervals are taken from
them too, as `x - d*(x // d)` alone forgets that both come from one `x`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from symbolic.integers import (
    CONST,
    FLOORDIV,
    FLOORMOD,
    SUM,
    SYMBOL,
    ZERO,
    Int,
    add,
    const,
    constant_of,
    factors_of,
    floormod,
    make_sum,
    mul,
    operations_count,
    product,
    sub,
    terms_of,
)

Terms: TypeAlias = dict[Int, int]

SLACK: Final = 2                # so much longer may the form with remainders be, as it is the easier one to read
_SLOW_DIVISION: Final = 3       # what a division by no power of two costs above an addition


# ---- how much work an expression is ------------------------------------------------------------------------------------

def work(e: Int) -> int:
    """Operators of `e`, slow divisions weighed."""
    if e.op is SYMBOL or e.op is CONST:
        return 0
    if e.op is SUM:
        return _work_of(terms_of(e), e.value)
    if e.op is FLOORDIV or e.op is FLOORMOD:
        d = e.args[1]
        fast = d.op is CONST and d.value > 0 and d.value & (d.value - 1) == 0
        return 1 + (0 if fast else _SLOW_DIVISION) + work(e.args[0]) + work(d)
    return operations_count(e)


def _work_of(terms: Terms, constant: int) -> int:
    total = len(terms) - 1 + (constant != 0)
    for t, c in terms.items():
        total += work(t) + (c != 1 and c != -1)
    return total


# ---- the two readings --------------------------------------------------------------------------------------------------

def digits(n: Int) -> Int:
    """`n` with remainders for the differences that are some; another node only if there are any."""
    if n._digits is None:
        n._digits = _with_remainders(n, whole=False) if n.op is SUM else n
        n._digits._digits = n._digits
    return n._digits


def nearest(n: Int) -> Int:
    """`n` with each quotient all in its remainder: `2*x - 3*(x//3)` is `x + x % 3`."""
    if n._nearest is None:
        n._nearest = _with_remainders(n, whole=True) if n.op is SUM else n
        n._nearest._nearest = n._nearest
    return n._nearest


def _with_remainders(n: Int, whole: bool) -> Int:
    terms, constant = terms_of(n), n.value
    quotients = [(t, f) for t in terms for f in factors_of(t) if f.op is FLOORDIV and f.args[1] is not ZERO]
    if not quotients:
        return n
    # The smallest divisor first: a digit starts where the one below it ends.
    quotients.sort(key=lambda tq: (tq[1].args[1].key, tq[1].key))
    changed = False
    for t, q in quotients:
        found = _link(terms, constant, t, q, whole) if t in terms else None
        if found is not None:
            terms, constant = found
            changed = True
    return make_sum(terms, constant) if changed else n


def _link(terms: Terms, constant: int, t: Int, q: Int, whole: bool) -> tuple[Terms, int] | None:
    """`a*y - a*e*(y // e)` made `a*(y % e)`, for the quotient `q` in the term `t` and the best `y`, `e` and `a`.

    None where that is much more work. `whole` asks that the quotient vanish, whatever that leaves of `y`.
    """
    best, least = None, _work_of(terms, constant) + (_SLOW_DIVISION if whole else SLACK)
    c = terms[t]
    for y, e in _parents(terms, q):
        beside = _cofactor(t, q, e)
        if beside is None:
            continue
        remainder = mul(beside, floormod(y, e))
        if remainder.op is SUM or remainder.op is CONST:
            continue
        # beside*y, term by term; a constant of y is one more term unless it stays a constant.
        parts = {mul(beside, s): k for s, k in terms_of(y).items()}
        rest = constant_of(y)
        if rest and beside.op is not CONST:
            parts[beside], rest = rest, 0
        step = e.value if e.op is CONST else 1
        for a in (_vanishing if whole else _shares)(terms, parts, c, step):
            left = c + a * step
            # Digits of one number shrink what is left of the quotient, or make it a stride in line with their own.
            grows = abs(left) >= abs(c)
            if grows and left % a:
                continue
            new = dict(terms)
            for s, k in (*[(s, -a * k) for s, k in parts.items()], (t, a * step), (remainder, a)):
                new[s] = new.get(s, 0) + k
                if not new[s]:
                    del new[s]
            total = _work_of(new, constant - a * rest)
            if total + grows <= least:
                best, least = (new, constant - a * rest), total - 1
    return best


def _parents(terms: Terms, q: Int) -> Iterator[tuple[Int, Int]]:
    """All (y, e) with `q == y // e` where `terms` may hold `y`, the closest first."""
    x, d = q.args
    if d.op is CONST and d.value > 0:
        finer = [f for t in terms for f in factors_of(t)
                 if f.op is FLOORDIV and f is not q and f.args[1].op is CONST and 0 < f.args[1].value < d.value]
        for f in sorted(finer, key=lambda f: -f.args[1].value):
            step = f.args[1].value
            if d.value % step == 0:
                # x = f's dividend + step*rest, so x // step == f + rest, and q == (f + rest) // (d / step)
                apart = sub(x, f.args[0])
                if all(c % step == 0 for c in (constant_of(apart), *terms_of(apart).values())):
                    rest = make_sum({t: c // step for t, c in terms_of(apart).items()}, constant_of(apart) // step)
                    yield add(f, rest), const(d.value // step)
    yield x, d


def _cofactor(t: Int, q: Int, e: Int) -> Int | None:
    """What stands beside `e*q` in the product `t`, if that is there; a constant e stands in the coefficient instead."""
    others = list(factors_of(t))
    others.remove(q)
    if e.op is SUM:
        return None
    if e.op is not CONST:
        for f in factors_of(e):
            if f not in others:
                return None
            others.remove(f)
    return product(others)


def _shares(terms: Terms, parts: Terms, c: int, step: int) -> list[int]:
    """How often `y`, whose terms are `parts`, may be taken out of `terms`: what is left of each part keeps its sign."""
    found = {terms[s] // k for s, k in parts.items() if s in terms and terms[s] % k == 0}
    if step == 1:
        found &= {-c}
    kept = [a for a in found if all((terms.get(s, 0) - a * k) * terms.get(s, 0) >= 0 for s, k in parts.items())]
    return sorted(kept, key=lambda a: (a * step != -c, abs(a), a))


def _vanishing(terms: Terms, parts: Terms, c: int, step: int) -> list[int]:
    """How often `y` must be taken out so that nothing is left of `c*q`, if no part grows by it."""
    a, rest = divmod(-c, step)
    grows = any(abs(terms.get(s, 0) - a * k) > abs(terms.get(s, 0)) for s, k in parts.items())
    return [] if rest or grows else [a]
