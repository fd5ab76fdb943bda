"""Where the rows for minimum, maximum, absolute value, relations, select, and, or apply."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final

from symbolic import integers, rules
from symbolic.integers import (
    ABS,
    CONST,
    EQ,
    FLOORDIV,
    LAND,
    LT,
    MIN,
    MINUS_ONE,
    ONE,
    SUM,
    ZERO,
    Int,
    add,
    const,
    constant_of,
    make_sum,
    scale,
    sub,
    terms_of,
)
from symbolic.intervals import INT32, congruence, fits_within, interval, nonnegative
from symbolic.present import readable

if TYPE_CHECKING:
    from symbolic.engine import Engine

_FEW: Final = 24                # operands of a minimum that are compared as expressions


# ---- minimum, maximum, absolute value ----------------------------------------------------------------------------------

def extremum(S: Engine, op: str, args: tuple[Int, ...]) -> Int:
    """`min` or `max` without the operands that another one always beats."""
    e = integers.BUILD[op](*args)
    if e.op is not op:
        return e
    kept = list(e.args)
    rule = rules.MIN_LE if op is MIN else rules.MAX_GE
    for y in e.args:
        for x in kept:
            low, high = (x, y) if op is MIN else (y, x)
            if x is not y and _in_order(S, low, high, len(kept)):
                S.note(rule, integers.BUILD[op](x, y), x, x=x, y=y)
                kept.remove(y)
                break
    return integers.BUILD[op](*kept)


def _in_order(S: Engine, low: Int, high: Int, others: int) -> bool:
    """Provably `low <= high`; among many operands only by their intervals, as every pair is asked."""
    if others > _FEW:
        return interval(S, low)[1] <= interval(S, high)[0]
    return nonnegative(S, sub(high, low))


def absolute(S: Engine, a: Int) -> Int:
    """`abs(a)`."""
    e = integers.absolute(a)
    if e.op is ABS:
        if nonnegative(S, a):
            return S.fire(rules.ABS_UP, e, x=a)
        if nonnegative(S, scale(a, -1)):
            return S.fire(rules.ABS_DOWN, e, x=a)
    return e


# ---- relations ---------------------------------------------------------------------------------------------------------

def less_equal(S: Engine, a: Int, b: Int) -> Int:
    """`a <= b`."""
    e = integers.le(a, b)
    if e.op is CONST:
        return e
    d = add(sub(a, b), MINUS_ONE)
    S.note(rules.LE_IS_LT, e, integers.lt(d, ZERO), x=a, y=b)
    return _below_zero(S, e, d, a, b)


def less(S: Engine, a: Int, b: Int) -> Int:
    """`a < b`."""
    e = integers.lt(a, b)
    if e.op is CONST:
        return e
    return _below_zero(S, e, sub(a, b), a, b)


def _below_zero(S: Engine, e: Int, d: Int, a: Int, b: Int) -> Int:
    """`d < 0`, where d came from comparing a and b as `e` says."""
    if nonnegative(S, add(scale(d, -1), MINUS_ONE)):
        return S.fire(rules.LT_TRUE, e, x=d, y=ZERO)
    if nonnegative(S, d):
        return S.fire(rules.LT_FALSE, e, x=d, y=ZERO)
    share = gcd(*terms_of(d).values())
    if share > 1:
        whole = make_sum({t: c // share for t, c in terms_of(d).items()})
        small = add(whole, const(constant_of(d) // share))
        S.note(rules.LT_SCALE, e, integers.lt(small, ZERO), g=const(share), x=whole, c=const(constant_of(d)))
        d = small
    moved = _division_less(S, e, d)
    if moved is not None:
        return moved
    x, y = _sides(S, d)
    shown = sub(y, ONE) if constant_of(y) == 1 else y           # x < y + 1 is read as x <= y
    if not (_side_fits(S, x, a, b) and _side_fits(S, shown, a, b)):
        return S.facts._known(e)                # as it was compared: what is left after cancelling may leave int32
    if x is not a:
        S.note(rules.LT_MOVE, e, integers.lt(x, y), x=x, y=y, z=scale(y, -1))
    return S.facts._known(integers.lt(x, y))


def _division_less(S: Engine, e: Int, d: Int) -> Int | None:
    """`x // d < k` as `x < d*k`."""
    terms = terms_of(d)
    if len(terms) != 1:
        return _decided_by_division(S, e, d, terms)
    (t, c), = terms.items()
    if t.op is FLOORDIV and t.args[1].op is not CONST:
        return _decided_by_division(S, e, d, terms)
    if t.op is not FLOORDIV or t.args[1].op is not CONST or t.args[1].value <= 0 or c not in (1, -1):
        return None
    x, step = t.args
    k = const(-constant_of(d) if c == 1 else constant_of(d))
    bound = step.value * k.value if c == 1 else step.value * k.value + step.value
    if not (INT32[0] <= step.value * k.value and bound <= INT32[1]):
        return None
    if c == 1:
        return S.fire(rules.LT_DIV, e, x=x, d=step, y=k)
    return S.fire(rules.DIV_LT, e, x=x, d=step, y=k)


def _decided_by_division(S: Engine, e: Int, d: Int, terms: dict[Int, int]) -> Int | None:
    """`x // d < y` where `x < d*y` is decided, and likewise from the other side."""
    for t, c in terms.items():
        if t.op is FLOORDIV and c in (1, -1) and interval(S, t.args[1])[0] >= 1:
            (x, step), rest = t.args, sub(d, scale(t, c))
            gap = sub(S.expand(scale(rest, -1), step), x) if c == 1 else sub(x, S.expand(add(rest, ONE), step))
            if nonnegative(S, add(gap, MINUS_ONE) if c == 1 else gap):
                return S.note(rules.LT_TRUE, e, ONE, x=d, y=ZERO)
            if nonnegative(S, scale(gap, -1) if c == 1 else add(scale(gap, -1), MINUS_ONE)):
                return S.note(rules.LT_FALSE, e, ZERO, x=d, y=ZERO)
    return None


def _sides(S: Engine, d: Int) -> tuple[Int, Int]:
    """`d` as the difference of two sums without negative coefficients."""
    form = readable(S, d) if d.op is SUM else d
    terms, constant = terms_of(form), constant_of(form)
    left = make_sum({t: c for t, c in terms.items() if c > 0}, max(constant, 0))
    right = make_sum({t: -c for t, c in terms.items() if c < 0}, max(-constant, 0))
    return left, right


def _side_fits(S: Engine, side: Int, a: Int, b: Int) -> bool:
    return side is a or side is b or fits_within(S, side, a) or fits_within(S, side, b)


def equal(S: Engine, a: Int, b: Int) -> Int:
    """`a == b`."""
    e = integers.eq(a, b)
    if e.op is CONST:
        return e
    d = sub(a, b)
    lo, hi = interval(S, d)
    if lo > 0 or hi < 0:
        return S.fire(rules.EQ_FALSE, e, x=d, y=ZERO)
    below, above = nonnegative(S, scale(d, -1)), nonnegative(S, d)
    if below and above:
        return S.fire(rules.EQ_TRUE, e, x=d, y=ZERO)
    if nonnegative(S, add(d, MINUS_ONE)) or nonnegative(S, add(scale(d, -1), MINUS_ONE)):
        return S.fire(rules.EQ_FALSE, e, x=d, y=ZERO)
    m, r = congruence(S, d)
    if m > 1 and r % m:
        return S.fire(rules.EQ_RESIDUE, e, x=d, m=const(m), r=const(r % m))
    share = gcd(constant_of(d), *terms_of(d).values())
    if share > 1:
        d = make_sum({t: c // share for t, c in terms_of(d).items()}, constant_of(d) // share)
        S.note(rules.EQ_SCALE, e, integers.eq(d, ZERO), g=const(share), x=d, y=ZERO)
    if next(iter(terms_of(d).values())) < 0:
        d = scale(d, -1)
    terms = terms_of(d)
    if len(terms) == 1 and not constant_of(d):
        (t, _), = terms.items()
        if t.op is FLOORDIV and interval(S, t.args[1])[0] >= 1 and nonnegative(S, t.args[0]):
            return S.fire(rules.EQ_DIV_ZERO, e, x=t.args[0], d=t.args[1])
    x, y = _sides(S, d)
    if not (_side_fits(S, x, a, b) and _side_fits(S, y, a, b)):
        x, y = a, b
    if x is not a:
        S.note(rules.EQ_MOVE, e, integers.eq(x, y), x=x, y=y, z=scale(y, -1))
    return S.facts._known(integers.eq(x, y))


def unequal(S: Engine, a: Int, b: Int) -> Int:
    """`a != b`."""
    same = equal(S, a, b)
    S.note(rules.NE_IS_NOT_EQ, integers.ne(a, b), integers.lnot(same), x=a, y=b)
    return integers.lnot(same) if same.op is CONST or same.op is EQ else S.lnot(same)


# ---- select, and, or ---------------------------------------------------------------------------------------------------

def select(S: Engine, e: Int) -> Int:
    """Each branch is simplified under what its condition says."""
    condition = S.canon(e.args[0])
    if condition.op is CONST:
        rule = rules.SELECT_TRUE if condition.value else rules.SELECT_FALSE
        return S.fire(rule, e, c=condition, x=S.canon(e.args[1]), y=S.canon(e.args[2]))
    yes, no = S.facts.scope(), S.facts.scope()
    yes.assume(condition)
    no.assume(integers.lnot(condition))
    if yes.contradictory:
        return S.canon(e.args[2])
    if no.contradictory:
        return S.canon(e.args[1])
    _, x, y = e.args
    u, v = yes._engine().canon(x), no._engine().canon(y)
    if u is v:
        return S.note(rules.SELECT_SAME, integers.select(condition, u, v), u, c=condition, x=u)
    result = integers.select(condition, u, v)
    if condition.op is LT and set(condition.args) == {u, v}:
        least = condition.args[0] is u
        return S.fire(rules.SELECT_MIN if least else rules.SELECT_MAX, result, x=condition.args[0], y=condition.args[1])
    return S.note(rules.SELECT_ASSUME, e, result, c=condition, x=x, y=y, u=u, v=v)


MANY = 12      # of more conditions than these none is tried against all the others, which takes the square of their number


def connective(S: Engine, e: Int) -> Int:
    """`and` without what the others imply, `or` without what implies another."""
    made = integers.BUILD[e.op](*map(S.canon, e.args))
    if made.op is not e.op:
        return made
    if len(made.args) > MANY:
        return S.facts._known(made)
    conjunction = e.op is LAND
    kept = list(made.args)
    for x in reversed(made.args):
        scope = S.facts.scope()
        for y in kept:
            if y is not x:
                scope.assume(y if conjunction else integers.lnot(y))
        decided = scope._engine().canon(x)
        if decided.op is CONST or scope.contradictory:
            if scope.contradictory or bool(decided.value) is not conjunction:
                return ZERO if conjunction else ONE
            kept.remove(x)
            left = integers.BUILD[e.op](*kept)
            S.note(rules.AND_IMPLIED if conjunction else rules.OR_IMPLIED, integers.BUILD[e.op](left, x), left, x=left, y=x)
    return S.facts._known(integers.BUILD[e.op](*kept))

