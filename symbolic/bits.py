"""Where the rows for `&`, `|`, `^` apply: operands split at a bit that keeps their halves apart."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from symbolic import integers, rules
from symbolic.digits import digits
from symbolic.integers import AND, CONST, OR, XOR, Int, const, constant_of, make_sum, terms_of
from symbolic.intervals import INF, interval

if TYPE_CHECKING:
    from symbolic.engine import Engine

_SPLIT: Final = {AND: rules.AND_SPLIT, OR: rules.OR_SPLIT, XOR: rules.XOR_SPLIT}


def canon(S: Engine, e: Int) -> Int:
    """A chain of one operator: any two that combine are one operand from then on."""
    made = integers.BUILD[e.op](*map(S.canon, e.args))
    if made.op is not e.op or any(S.canon(a) is not a for a in made.args):
        return S.canon(made)
    for a, b in combinations(made.args, 2):
        both = combine(S, e.op, a, b)
        if both.op is not e.op:
            others = list(made.args)
            others.remove(a)
            others.remove(b)
            return S.canon(integers.BUILD[e.op](both, *others))
    return made


def combine(S: Engine, op: str, a: Int, b: Int) -> Int:
    """`a op b` of canonical operands."""
    e = integers.BUILD[op](a, b)
    if e.op is not op:
        return S.canon(e)
    if len(e.args) != 2:
        return canon(S, e)
    a, b = e.args
    if op is OR and b.op is CONST and b.value < 0:
        return e                    # its ones above every bit of `a` would only become a large constant
    for m in _units(S, a, b):
        x, y = _halves(S, a, m), _halves(S, b, m)
        if x is not None and y is not None:
            return S.fire(_SPLIT[op], e, m=const(m), a=x[0], u=x[1], b=y[0], v=y[1])
    return e


def _units(S: Engine, a: Int, b: Int) -> list[int]:
    """Powers of two at which a split may leave something on both sides, the smallest first."""
    found = set()
    for x in (a, b):
        form = digits(x)
        for c in (*terms_of(form).values(), constant_of(form)):
            found.add(c & -c)
        hi = interval(S, x)[1]
        if 0 <= hi < INF:
            found.add(1 << hi.bit_length())
    low = [m for m in sorted(found) if 1 < m <= 1 << 30]
    return [m for m in low if not (_all_low(S, a, m) and _all_low(S, b, m))]


def _all_low(S: Engine, x: Int, m: int) -> bool:
    lo, hi = interval(S, x)
    return lo >= 0 and hi < m


def _halves(S: Engine, x: Int, m: int) -> tuple[Int, Int] | None:
    """(high, low) with `x == m*high + low` and 0 <= low < m."""
    form = digits(x)
    value = constant_of(form)
    high = {t: c // m for t, c in terms_of(form).items() if c % m == 0}
    low = S.canon(make_sum({t: c for t, c in terms_of(form).items() if c % m}, value % m))
    lo, hi = interval(S, low)
    return (S.canon(make_sum(high, value // m)), low) if lo >= 0 and hi < m else None
