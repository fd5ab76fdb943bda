"""From the canonical form to the one that is read: of the equal forms the one with the least work.

Remainders are put back (`digits`), terms are drawn into divisions, common factors stand in front. Whatever might leave int32
on the way is not done.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from symbolic.digits import SLACK, Terms, digits, nearest, work
from symbolic.integers import (
    CONST,
    FLOORDIV,
    FLOORMOD,
    LT,
    ONE,
    PRODUCT,
    SUM,
    SYMBOL,
    Int,
    add,
    const,
    constant_of,
    factors_of,
    floordiv,
    floormod,
    le,
    make_sum,
    mul,
    operations_count,
    product,
    rebuild,
    scale,
    sub,
    terms_of,
)
from symbolic.intervals import INT32, divides, fits, fits_within, interval
from symbolic.rules import COLLECT, DIV_ABSORB, DIV_REFINE, MOD, MOD_SCALE

if TYPE_CHECKING:
    from symbolic.engine import Engine


def present(S: Engine, e: Int) -> Int:
    """The readable form of the canonical `e`."""
    if not e.args:
        return e
    found = S.presented.get(e)
    if found is None:
        found = S.presented[e] = _present_sum(S, e) if e.op is SUM else _present_operands(S, e)
    return found


def _present_operands(S: Engine, e: Int) -> Int:
    args = tuple([present(S, a) for a in e.args])
    if e.op is LT and args[1].op is SUM and args[1].value == 1:
        return le(args[0], sub(args[1], ONE))
    return e if args == e.args else rebuild(e, args)


def _present_sum(S: Engine, e: Int) -> Int:
    form = readable(S, e)
    if S.log is not None:
        _note_remainders(S, form)
    if form.op is not SUM:
        return _present_operands(S, form)
    total = const(form.value)
    for t, c in zip(form.args, form.coefs):
        if S.facts.congruent:
            t, c = _finer_quotient(S, t, c)
        if c > 1 and t.op is FLOORMOD:
            t, c = _scaled_remainder(S, t, c)
        total = add(total, scale(present(S, t), c))
    return _factor(S, total) if total.op is SUM else total


# ---- remainders --------------------------------------------------------------------------------------------------------

def readable(S: Engine, e: Int) -> Int:
    """The canonical sum `e` with the remainders that it is best read with."""
    form = digits(e)
    if form is not e and S.facts.congruent:
        form = _without_zeros(S, form)
    if form is not e:
        plain = _absorb(S, e)
        if work(plain) + SLACK < work(form) and _fits_throughout(S, plain):
            return plain
    if nearest(e) is not e and nearest(e) is not form and not _fits_throughout(S, form):
        form = nearest(e)
    return _absorb(S, form) if form.op is SUM else form


def _fits_throughout(S: Engine, e: Int) -> bool:
    """The sum `e` stays in int32 in whatever order its terms are added."""
    lo = hi = constant_of(e)
    for t, c in terms_of(e).items():
        a, b = interval(S, t)
        lo += min(c * a, c * b, 0)
        hi += max(c * a, c * b, 0)
    return INT32[0] <= lo and hi <= INT32[1]


def _note_remainders(S: Engine, form: Int) -> None:
    for f in {f: None for t in terms_of(form) for f in factors_of(t) if f.op is FLOORMOD}:
        x, d = f.args
        S.note(MOD, sub(x, mul(d, floordiv(x, d))), f, x=x, d=d)


def _without_zeros(S: Engine, form: Int) -> Int:
    """`form` without the remainders that the facts make 0."""
    def vanishes(f: Int) -> bool:
        return f.op is FLOORMOD and f.args[1].op is CONST and divides(S, f.args[1].value, f.args[0])

    kept = {t: c for t, c in terms_of(form).items() if not any(map(vanishes, factors_of(t)))}
    return make_sum(kept, constant_of(form))


def _scaled_remainder(S: Engine, t: Int, c: int) -> tuple[Int, int]:
    """`-x % 8 * 2` made `-2*x % 16`: a coefficient takes the factor in."""
    x, d = t.args
    monomial = x.op is SUM and len(x.args) == 1 and not x.value
    if monomial and d.op is CONST and d.value > 0 and fits(S, scale(x, c)) and fits(S, scale(d, c)):
        whole = floormod(scale(x, c), scale(d, c))
        return S.note(MOD_SCALE, scale(t, c), whole, k=const(c), x=x, d=d), 1
    return t, c


# ---- quotients ---------------------------------------------------------------------------------------------------------

def _finer_quotient(S: Engine, t: Int, c: int) -> tuple[Int, int]:
    """`4*(n // 16)` made `n // 4` where 16 divides n: row `div-refine` from right to left."""
    factors = factors_of(t)
    for i, f in enumerate(factors):
        if f.op is FLOORDIV and f.args[1].op is CONST:
            x, d = f.args
            share = gcd(c, d.value)
            if share > 1 and divides(S, d.value, x):
                finer = floordiv(x, d.value // share)
                S.note(DIV_REFINE, finer, scale(f, share), x=x, d=const(d.value // share), k=const(share))
                return product((*factors[:i], finer, *factors[i + 1:])), c // share
    return t, c


def _absorb(S: Engine, e: Int) -> Int:
    """`k*q + k*(r // d)` made `k*((d*q + r) // d)` where that is less work: `(i + 5)//8 - 1` is `(i - 3)//8`."""
    for t, k in terms_of(e).items():
        if t.op is FLOORDIV and t.args[1].op is CONST and t.args[1].value > 0 and len(e.args) + (e.value != 0) > 1:
            x, d = t.args
            q = _drawn(e, t, k)
            merged = add(x, scale(q, d.value))
            if q.op is CONST and q.value == 0 or merged.op is CONST or not _all_fit(S, merged):
                continue
            quotient = floordiv(merged, d)
            candidate = add(sub(e, scale(add(q, t), k)), scale(quotient, k))
            if work(candidate) < work(e):
                S.note(DIV_ABSORB, scale(add(q, t), k), scale(quotient, k), k=const(k), q=q, r=x, d=d)
                return _absorb(S, candidate) if candidate.op is SUM else candidate
    return e


def _drawn(e: Int, t: Int, k: int) -> Int:
    """What of `e`, beside `k*t`, is a multiple of k and has a term of the same sign in t's dividend to go with."""
    inside = terms_of(t.args[0])
    drawn = {s: c // k for s, c in terms_of(e).items() if s is not t and c % k == 0 and c // k * inside.get(s, 0) > 0}
    value = e.value // k if e.value % k == 0 and constant_of(t.args[0]) else 0
    return make_sum(drawn, value)


def _all_fit(S: Engine, e: Int) -> bool:
    return fits(S, e) and all(fits(S, scale(t, c)) for t, c in terms_of(e).items())


# ---- factors -----------------------------------------------------------------------------------------------------------

def _factor(S: Engine, e: Int) -> Int:
    """`x*z + y*z` made `(x + y)*z`, the factor of most terms first."""
    counts: dict[Int, int] = {}
    for t in e.args:
        if t.op is PRODUCT or t.op is SYMBOL:
            for f in dict.fromkeys(factors_of(t)):
                counts[f] = counts.get(f, 0) + 1
    for z in sorted([f for f, n in counts.items() if n > 1], key=lambda f: (-counts[f], f.key)):
        inside = _over(e, z)
        share = gcd(constant_of(inside), *terms_of(inside).values())
        group = make_sum({t: c // share for t, c in terms_of(inside).items()}, constant_of(inside) // share)
        whole = scale(mul(group, z), share)
        part = S.expand(inside, z)
        candidate = add(sub(e, part), whole)
        # The product is a value of its own where other terms stand beside it.
        safe = fits(S, group) and (part is e or fits_within(S, part, e))
        if safe and operations_count(candidate) < operations_count(e):
            first, c = next(iter(terms_of(inside).items()))
            x, y = scale(first, c), sub(inside, scale(first, c))
            S.note(COLLECT, add(S.expand(x, z), S.expand(y, z)), whole, x=x, y=y, z=z)
            return _factor(S, candidate) if candidate.op is SUM else candidate
    return e


def _over(e: Int, z: Int) -> Int:
    """The sum of the terms of `e` that have the factor `z`, without it."""
    terms: Terms = {}
    constant = 0
    for t, c in zip(e.args, e.coefs):
        if t is z:
            constant = c
        elif t.op is PRODUCT and z in t.args:
            others = list(t.args)
            others.remove(z)
            terms[product(others)] = c
    return make_sum(terms, constant)
