"""Where the rows for `//`, `%` and C's division apply. `S` is the engine; operands and results are canonical."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING

from symbolic import integers, rules
from symbolic.digits import digits
from symbolic.integers import (
    CONST,
    FLOORDIV,
    FLOORMOD,
    PRODUCT,
    SUM,
    TRUNCDIV,
    ZERO,
    Int,
    add,
    const,
    constant_of,
    factors_of,
    floordiv,
    make_sum,
    product,
    scale,
    sub,
    terms_of,
)
from symbolic.intervals import INF, INT32, congruence, divides, fits, fits_within, interval, nonnegative

if TYPE_CHECKING:
    from symbolic.engine import Engine


def div(S: Engine, a: Int, d: Int) -> Int:
    """`a // d`."""
    e = floordiv(a, d)
    if e.op is not FLOORDIV or e.args[0] is not a:
        return e
    found = S.canonical.get(e)
    if found is None:
        if d.op is CONST:
            found = _by_constant(S, e, a, d.value) if d.value > 0 else _by_negative(S, e, a, d.value)
        else:
            found = _by_expression(S, e, a, d)
        S.canonical[e] = found
    return found


def mod(S: Engine, a: Int, d: Int) -> Int:
    """`a % d`: the dividend less the multiple of the divisor."""
    e = integers.floormod(a, d)
    if e.op is not FLOORMOD or e.args[0] is not a:
        return e
    if not _nonzero(S, d) and not _between_zero_and(S, a, d):
        return e
    if S.facts.congruent and d.op is CONST and d.value > 0:
        m, r = congruence(S, a)
        if m % d.value == 0:
            return S.fire(rules.MOD_KNOWN, e, x=a, d=d, r=const(r % d.value))
    return S.fire(rules.MOD_DEFINITION, e, x=a, d=d)


def _between_zero_and(S: Engine, a: Int, d: Int) -> bool:
    """`0 <= a < d`, which makes d positive."""
    return nonnegative(S, a) and nonnegative(S, add(sub(d, a), integers.MINUS_ONE))


def _nonzero(S: Engine, d: Int) -> bool:
    lo, hi = interval(S, d)
    return lo > 0 or hi < 0 or nonnegative(S, add(d, integers.MINUS_ONE))


# ---- by a positive constant --------------------------------------------------------------------------------------------

def _by_constant(S: Engine, e: Int, a: Int, d: int) -> Int:
    lo, hi = interval(S, a)
    if lo // d == hi // d and lo > -INF:
        return S.fire(rules.DIV_BETWEEN, e, x=a, d=const(d), k=const(lo // d))
    if a.op is SUM:
        for find in (_split, _low, _nested_sum, _by_digits):
            found = find(S, e, a, d)
            if found is not None:
                return found
        return e
    if a.op is FLOORDIV:
        inner = a.args[1]
        if inner.op is CONST and inner.value and inner.value * d <= INT32[1] and inner.value * d >= INT32[0]:
            return S.fire(rules.DIV_DIV, e, x=a.args[0], e=inner, d=const(d))
        if inner.op is not CONST and _nonzero(S, inner) and fits(S, scale(inner, d)):
            return S.fire(rules.DIV_DIV, e, x=a.args[0], e=inner, d=const(d))
    elif a.op is PRODUCT and S.facts.congruent:
        factored = _factor(S, e, a, d)
        if factored is not None:
            return factored
    if S.facts.congruent and a.op is not FLOORDIV:
        m, r = congruence(S, a)
        if r == 0 and m > d and m % d == 0:
            return S.fire(rules.DIV_REFINE, e, x=a, d=const(d), k=const(m // d))
    return e


def _factor(S: Engine, e: Int, a: Int, d: int) -> Int | None:
    """`(x*y) // d` where d divides the factor y."""
    for i, y in enumerate(a.args):
        if divides(S, d, y):
            return S.fire(rules.DIV_FACTOR, e, x=product(a.args[:i] + a.args[i + 1:]), y=y, d=const(d))
    return None


def _split(S: Engine, e: Int, a: Int, d: int) -> Int | None:
    """`(d*q + r) // d`: the multiples of d come out, larger coefficients leave their remainder inside."""
    q: dict[Int, int] = {}
    r: dict[Int, int] = {}
    for t, c in zip(a.args, a.coefs):
        # A remainder, `x - e*(x // e)`, stays whole: only full multiples are taken from its quotient.
        k, left = divmod(c, d) if c > 0 else (-(-c // d), -(-c % d))
        if left and t.op is FLOORDIV:
            k, left = 0, c
        if k: q[t] = k
        if left: r[t] = left
    k, left = divmod(a.value, d)
    if q or k:
        rest = make_sum(r, left)
        if not fits_within(S, rest, a):
            k, left = (-(-a.value // d), -(-a.value % d)) if a.value < 0 else (k, left)
            rest = make_sum(r, left)
            if not (q or k) or not fits_within(S, rest, a):
                return None
        return S.fire(rules.DIV_SPLIT, e, d=const(d), q=make_sum(q, k), r=rest)
    if S.facts.congruent:
        for t, c in r.items():
            g = gcd(c, d)
            if g < d and divides(S, d // g, t):
                rest = sub(a, scale(t, c))
                if fits_within(S, rest, a):
                    return S.fire(rules.DIV_EXACT, e, c=const(c // g), k=const(g), x=t, e=const(d // g), r=rest)
    return None


def _low(S: Engine, e: Int, a: Int, d: int) -> Int | None:
    """`(g*s + r) // (g*d)`: what stays below the unit g never carries."""
    coefs = a.coefs
    for g in sorted({gcd(c, d) for c in coefs}, reverse=True):
        if g == 1:
            break
        s = make_sum({t: c // g for t, c in zip(a.args, coefs) if c % g == 0})
        r = S.canon(make_sum({t: c for t, c in zip(a.args, coefs) if c % g}, a.value))
        lo, hi = interval(S, r)
        m = lo // g
        if lo > -INF and hi < m * g + g:
            return S.fire(rules.DIV_LOW, e, g=const(g), s=S.canon(s), r=r, m=const(m), d=const(d // g))
    return None


def _by_digits(S: Engine, e: Int, a: Int, d: int) -> Int | None:
    """As `_split` and `_low`, where the units show once remainders are put back: `(i//4*8 + 2*i + 8*j)//16` is `(i//4*16 + i % 4*2 + 8*j)//16`."""
    form = digits(a)
    if form is a or form.op is not SUM:
        return None
    q = S.canon(make_sum({t: c // d for t, c in zip(form.args, form.coefs) if c % d == 0}))
    r = sub(a, scale(q, d))
    lo, hi = interval(S, r)
    if q is not ZERO and lo // d == hi // d and fits(S, r):      # else what is left might be read as the whole was
        return S.fire(rules.DIV_SPLIT, e, d=const(d), q=q, r=r)
    return _low(S, e, form, d)


def _nested_sum(S: Engine, e: Int, a: Int, d: int) -> Int | None:
    """`(x // e + y) // d` as one division, where nothing leaves int32."""
    nested = [t for t, c in zip(a.args, a.coefs) if t.op is FLOORDIV and c == 1 and t.args[1].op is CONST]
    if len(nested) != 1:
        return None
    x, inner = nested[0].args
    if inner.value <= 0 or inner.value * d > INT32[1]:
        return None
    y = sub(a, nested[0])
    spread = scale(y, inner.value)
    if not (fits(S, spread) and fits(S, add(x, spread)) and all(fits(S, scale(t, c)) for t, c in terms_of(spread).items())):
        return None
    return S.fire(rules.DIV_DIV_SUM, e, x=x, e=inner, y=y, d=const(d))


# ---- by zero or a negative constant ------------------------------------------------------------------------------------

def _by_negative(S: Engine, e: Int, a: Int, d: int) -> Int:
    if d == 0:
        return e
    if d == -1:
        return S.fire(rules.DIV_MINUS_ONE, e, x=a) if interval(S, a)[0] > INT32[0] else e
    lo, hi = interval(S, a)
    if lo > -INF and hi < INF and lo // d == hi // d:
        return S.fire(rules.DIV_BETWEEN_DOWN, e, x=a, d=const(d), k=const(lo // d))
    if a.op is SUM:
        q = {t: c // d for t, c in zip(a.args, a.coefs) if c % d == 0}
        r = make_sum({t: c for t, c in zip(a.args, a.coefs) if c % d}, a.value)
        if q and fits_within(S, r, a):
            return S.fire(rules.DIV_SPLIT, e, d=const(d), q=make_sum(q), r=r)
    return e


# ---- by an expression --------------------------------------------------------------------------------------------------

def _by_expression(S: Engine, e: Int, a: Int, d: Int) -> Int:
    if a is not ZERO and _between_zero_and(S, a, d):
        return S.fire(rules.DIV_BETWEEN, e, x=a, d=d, k=ZERO)
    if not _nonzero(S, d):
        return e
    if a is ZERO:
        return S.fire(rules.DIV_ZERO, e, d=d)
    positive = interval(S, d)[0] > 0 or nonnegative(S, add(d, integers.MINUS_ONE))
    if not positive:
        return e
    q, r = _multiples(S, a, d)
    if q is not ZERO and fits_within(S, r, a):
        return S.fire(rules.DIV_SPLIT, e, d=d, q=q, r=r)
    if interval(S, a)[1] < 0 and nonnegative(S, add(a, d)):
        return S.fire(rules.DIV_BETWEEN, e, x=a, d=d, k=integers.MINUS_ONE)
    for g, rest in _units(d):
        if interval(S, g)[0] < 1 or interval(S, rest)[0] < 1:
            continue
        s, r = _multiples(S, a, g)
        if s is ZERO:
            continue
        if r is ZERO:
            return S.fire(rules.DIV_COMMON, e, k=g, x=s, d=rest)
        if nonnegative(S, r) and nonnegative(S, add(sub(g, r), integers.MINUS_ONE)):
            return S.fire(rules.DIV_LOW, e, g=g, s=s, r=r, m=ZERO, d=rest)
    if a.op is FLOORDIV and _nonzero(S, a.args[1]):
        whole = S.expand(a.args[1], d)
        if fits(S, whole):
            return S.fire(rules.DIV_DIV, e, x=a.args[0], e=a.args[1], d=d)
    return e


def _units(d: Int) -> Iterator[tuple[Int, Int]]:
    """The ways to write the monomial `d` as a product of two: (unit, rest)."""
    terms = terms_of(d)
    if len(terms) != 1 or constant_of(d):
        return
    (t, c), = terms.items()
    factors = factors_of(t)
    if c not in (1, -1):
        yield t, const(c)
    if len(factors) > 1:
        for i, f in enumerate(factors):
            others = scale(product(factors[:i] + factors[i + 1:]), c)
            yield others, f
            yield f, others
    if c not in (1, -1):
        yield const(abs(c)), scale(t, 1 if c > 0 else -1)


def _multiples(S: Engine, a: Int, d: Int) -> tuple[Int, Int]:
    """(q, r) with `a == d*q + r`, q as large a part of a's terms as d divides term by term."""
    if d.op is CONST:
        q = {t: c // d.value for t, c in terms_of(a).items() if c % d.value == 0}
        r = {t: c for t, c in terms_of(a).items() if c % d.value}
        value = constant_of(a)
        whole = value if value % d.value == 0 else 0
        return make_sum(q, whole // d.value), make_sum(r, value - whole)
    if a is d:
        return integers.ONE, ZERO
    terms = terms_of(d)
    if len(terms) == 1 and not constant_of(d):
        return _monomial_multiples(S, a, *next(iter(terms.items())))
    return _polynomial_multiples(S, a, d)


def _monomial_multiples(S: Engine, a: Int, t: Int, c: int) -> tuple[Int, Int]:
    divisors = factors_of(t)
    q, r = ZERO, const(constant_of(a))
    for u, k in terms_of(a).items():
        part = _quotient(S, u, k, divisors, c)
        if part is None: r = add(r, scale(u, k))
        else: q = add(q, part)
    return q, r


def _quotient(S: Engine, u: Int, k: int, divisors: tuple[Int, ...], c: int) -> Int | None:
    """`k*u / (c * divisors)` when it comes out even; `m / (m // 4)` does when 4 divides m."""
    left = list(factors_of(u))
    for f in divisors:
        if f in left:
            left.remove(f)
        elif f.op is FLOORDIV and f.args[0] in left and f.args[1].op is CONST and divides(S, f.args[1].value, f.args[0]):
            left.remove(f.args[0])
            k *= f.args[1].value
        else:
            return None
    return scale(product(left), k // c) if k % c == 0 else None


def _polynomial_multiples(S: Engine, a: Int, d: Int) -> tuple[Int, Int]:
    """Division by a sum: a multiple comes out where that leaves fewer terms."""
    leading = max(d.args, key=lambda t: (len(factors_of(t)), t.key))
    c = terms_of(d)[leading]
    q, r = ZERO, a
    for u, k in terms_of(a).items():
        part = _quotient(S, u, k, factors_of(leading), c)
        if part is None:
            continue
        left = sub(r, S.expand(part, d))
        if _size(left) < _size(r):
            q, r = add(q, part), left
    return q, r


def _size(e: Int) -> int:
    return len(terms_of(e)) + (constant_of(e) != 0)


# ---- C's division ------------------------------------------------------------------------------------------------------

def truncated(S: Engine, op: str, a: Int, b: Int) -> Int:
    """`a / b` or `a % b` of C, as floor division where the signs are known."""
    e = integers.BUILD[op](a, b)
    if e.op is not op or interval(S, b)[0] < 1:
        return e
    up, down = (rules.TRUNCDIV_UP, rules.TRUNCDIV_DOWN) if op is TRUNCDIV else (rules.TRUNCMOD_UP, rules.TRUNCMOD_DOWN)
    if nonnegative(S, a):
        return S.fire(up, e, x=a, y=b)
    minus = scale(a, -1)
    if nonnegative(S, minus) and fits(S, minus):
        return S.fire(down, e, x=a, y=b)
    return e

