"""From the canonical form to the one that is read: remainders again, common factors in front.

Canonically `x % d` is `x - d*(x // d)`, so that sums of digits cancel by linear algebra alone. `digits` puts remainders back
(row `mod` of the table, read right to left); `present` also chooses, of the equal forms, the one with the least work,
where dividing by what is no power of two counts as several operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING, Final

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
from symbolic.rules import COLLECT, DIV_ABSORB, DIV_REFINE, MOD, MOD_SCALE

if TYPE_CHECKING:
    from symbolic.engine import Engine

_SLOW_DIVISION: Final = 3       # what a division by no power of two costs above an addition
_SLACK: Final = 2               # so much longer may the form with remainders be, as it is the easier one to read

Terms = dict[Int, int]


def work(e: Int) -> int:
    """Operators of `e`, slow divisions weighed."""
    if e.op is SYMBOL or e.op is CONST:
        return 0
    if e.op is SUM:
        return _work_of(dict(zip(e.args, e.coefs)), e.value)
    if e.op is FLOORDIV or e.op is FLOORMOD:
        d = e.args[1]
        slow = d.op is not CONST or d.value <= 0 or d.value & (d.value - 1) != 0
        return 1 + _SLOW_DIVISION * slow + work(e.args[0]) + work(d)
    return operations_count(e)


def _work_of(terms: Terms, constant: int) -> int:
    total = len(terms) - 1 + (constant != 0)
    for t, c in terms.items():
        total += work(t) + (c != 1 and c != -1)
    return total


def digits(n: Int) -> Int:
    """`n`, a canonical sum, with remainders for the differences that are some; another node only if there are any."""
    if n._digits is None:
        n._digits = _with_remainders(n, False) if n.op is SUM else n
        n._digits._digits = n._digits
    return n._digits


def nearest(n: Int) -> Int:
    """As `digits`, each quotient all in its remainder: `2*x - 3*(x//3)` is `x + x % 3`. No form has smaller values."""
    if n._nearest is None:
        n._nearest = _with_remainders(n, True) if n.op is SUM else n
        n._nearest._nearest = n._nearest
    return n._nearest


def _quotients(terms: Terms) -> list[tuple[Int, Int]]:
    """The terms that hold a quotient, with it, the smallest divisor first."""
    found = [(t, f) for t in terms for f in factors_of(t) if f.op is FLOORDIV]
    if len(found) > 1:
        found.sort(key=lambda tq: (tq[1].args[1].key, tq[1].key))
    return found


def _with_remainders(n: Int, whole: bool) -> Int:
    terms, constant = terms_of(n), n.value
    quotients = _quotients(terms)
    changed = False
    for t, q in quotients:
        if terms.get(t):
            better = _link(terms, constant, t, q, whole)
            if better is not None:
                terms, constant = better
                changed = True
    return make_sum(terms, constant) if changed else n


def _link(terms: Terms, constant: int, t: Int, q: Int, whole: bool) -> tuple[Terms, int] | None:
    """`a*y - a*e*(y // e)` made `a*(y % e)` for the quotient `q` in the term `t`, if that is not much more work.

    `whole` asks that the quotient vanish, whatever that leaves of `y`; else what is left of `y` keeps its sign.
    """
    best, least = None, _work_of(terms, constant) + (_SLACK if not whole else _SLOW_DIVISION)
    for y, e in _parents(terms, q):
        co = _cofactor(t, q, e)
        if co is None:
            continue
        remainder = mul(co, floormod(y, e))
        if remainder.op is SUM or remainder.op is CONST:
            continue
        parts = {mul(co, s): k for s, k in terms_of(y).items()}
        rest = constant_of(y)
        if rest and co.op is not CONST:
            parts[co], rest = rest, 0
        step = e.value if e.op is CONST else 1
        for a in _whole_multiple(terms, parts, terms[t], step) if whole else _multiples(terms, parts, terms[t], step):
            if not whole and any((terms.get(s, 0) - a * k) * terms.get(s, 0) < 0 for s, k in parts.items()):
                continue
            new = dict(terms)
            for s, k in (*[(s, -a * k) for s, k in parts.items()], (t, a * step), (remainder, a)):
                new[s] = new.get(s, 0) + k
                if not new[s]:
                    del new[s]
            total = _work_of(new, constant - a * rest)
            # Digits of one number shrink what is left of the quotient, or make it a stride in line with their own.
            grows = abs(terms[t] + a * step) >= abs(terms[t])
            if total + grows <= least and not (grows and (terms[t] + a * step) % a):
                best, least = (new, constant - a * rest), total - 1
    return best


def _cofactor(t: Int, q: Int, e: Int) -> Int | None:
    """What stands beside `e*q` in the product `t`; a constant e stands in the coefficient instead."""
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


def _multiples(terms: Terms, parts: Terms, c: int, step: int) -> list[int]:
    """The multiples `a` of `y`, whose terms are `parts`, worth taking out of `terms` beside `c*q`."""
    found = {terms[s] // k for s, k in parts.items() if s in terms and terms[s] % k == 0}
    if step == 1:
        found &= {-c}
    return sorted(found, key=lambda a: (a * step != -c, abs(a), a))


def _whole_multiple(terms: Terms, parts: Terms, c: int, step: int) -> list[int]:
    """The multiple that takes all of the quotient along, if no term of `y` grows by it."""
    a, rest = divmod(-c, step)
    grows = any(abs(terms.get(s, 0) - a * k) > abs(terms.get(s, 0)) for s, k in parts.items())
    return [] if rest or grows else [a]


def _parents(terms: Terms, q: Int) -> Iterator[tuple[Int, Int]]:
    """All (y, e) with `q == y // e` where the terms may hold `y`, the closest first."""
    x, d = q.args
    if d.op is CONST and d.value > 0:
        finer = [f for t in terms for f in factors_of(t)
                 if f.op is FLOORDIV and f is not q and f.args[1].op is CONST and 0 < f.args[1].value < d.value]
        for f in sorted(finer, key=lambda f: -f.args[1].value):
            step = f.args[1].value
            if d.value % step == 0:
                # x = f's dividend + step*rest, so x // step == f + rest, and q == (f + rest) // (d / step)
                apart = sub(x, f.args[0])
                if all(c % step == 0 for c in terms_of(apart).values()) and constant_of(apart) % step == 0:
                    rest = make_sum({t: c // step for t, c in terms_of(apart).items()}, constant_of(apart) // step)
                    yield add(f, rest), const(d.value // step)
    yield x, d


# ---- the form that is read ---------------------------------------------------------------------------------------------

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
        for f in {f: None for t in terms_of(form) for f in factors_of(t) if f.op is FLOORMOD}:
            x, d = f.args
            S.note(MOD, sub(x, mul(d, floordiv(x, d))), f, x=x, d=d)
    if form.op is not SUM:
        return _present_operands(S, form)
    terms: Terms = {}
    total = const(form.value)
    for t, c in zip(form.args, form.coefs):
        if S.facts.congruent:
            t, c = _coarse(S, t, c)
        if c > 1 and t.op is FLOORMOD:
            t, c = _scaled_remainder(S, t, c)
        total = add(total, scale(present(S, t), c))
    if total.op is SUM:
        terms = terms_of(total)
        total = _factor(S, terms, total.value)
    return total


def _scaled_remainder(S: Engine, t: Int, c: int) -> tuple[Int, int]:
    """`-x % 8 * 2` made `-2*x % 16`: a coefficient takes the factor in."""
    from symbolic.intervals import fits
    x, d = t.args
    monomial = x.op is SUM and len(x.args) == 1 and not x.value
    if monomial and d.op is CONST and d.value > 0 and fits(S, scale(x, c)) and fits(S, scale(d, c)):
        whole = floormod(scale(x, c), scale(d, c))
        return S.note(MOD_SCALE, scale(t, c), whole, k=const(c), x=x, d=d), 1
    return t, c


def _without_zeros(S: Engine, form: Int) -> Int:
    """`form` without the remainders that the facts make 0."""
    from symbolic.intervals import divides
    terms = {t: c for t, c in terms_of(form).items()
             if not any(f.op is FLOORMOD and f.args[1].op is CONST and divides(S, f.args[1].value, f.args[0])
                         for f in factors_of(t))}
    return make_sum(terms, constant_of(form))


def _coarse(S: Engine, t: Int, c: int) -> tuple[Int, int]:
    """`4*(n // 16)` made `n // 4` where 16 divides n: row `div-refine` from right to left."""
    from symbolic.intervals import divides
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


def readable(S: Engine, e: Int) -> Int:
    """The canonical sum `e` with the remainders that it is best read with."""
    form = digits(e)
    if form is not e and S.facts.congruent:
        form = _without_zeros(S, form)
    if form is not e:
        plain = _absorb(S, e)
        if work(plain) + _SLACK < work(form) and _partial_sums_fit(S, plain):
            return plain
    if nearest(e) is not form and not _partial_sums_fit(S, form):
        near = nearest(e)
        if near is not e:
            form = near
    return _absorb(S, form) if form.op is SUM else form


def _partial_sums_fit(S: Engine, e: Int) -> bool:
    from symbolic.intervals import INT32, interval
    lo = hi = e.value
    for t, c in zip(terms_of(e), terms_of(e).values()):
        a, b = interval(S, t)
        lo += min(c * a, c * b, 0)
        hi += max(c * a, c * b, 0)
    return INT32[0] <= lo and hi <= INT32[1]


def _absorb(S: Engine, e: Int) -> Int:
    """Terms outside drawn into a division, `k*m + k*((x) // d)` made `k*((x + m*d) // d)`, where that is less work."""
    from symbolic.intervals import fits
    for t, k in list(terms_of(e).items()):
        if t.op is not FLOORDIV or t.args[1].op is not CONST or t.args[1].value <= 0 or len(e.args) + (e.value != 0) < 2:
            continue
        x, d = t.args
        outside, inside = terms_of(e), terms_of(x)
        constant, inner = e.value, constant_of(x)
        del outside[t]
        if constant and constant % k == 0 and inner:
            constant, inner = 0, inner + constant // k * d.value
        for s, c in inside.items():
            if s in outside and outside[s] % k == 0 and outside[s] // k * c > 0:
                inside[s] = c + outside.pop(s) // k * d.value
        if len(outside) + 1 == len(e.args) and constant == e.value:
            continue
        merged = make_sum(inside, inner)
        quotient = floordiv(merged, d)
        if quotient.op is not FLOORDIV or not fits(S, merged):
            continue
        candidate = add(make_sum(outside, constant), scale(quotient, k))
        if work(candidate) < work(e) and all(fits(S, scale(s, c)) for s, c in inside.items()):
            drawn = sub(sub(e, scale(t, k)), make_sum(outside, constant))
            q = make_sum({s: c // k for s, c in terms_of(drawn).items()}, constant_of(drawn) // k)
            S.note(DIV_ABSORB, add(drawn, scale(t, k)), scale(quotient, k), k=const(k), q=q, r=x, d=d)
            return _absorb(S, candidate) if candidate.op is SUM else candidate
    return e


def _factor(S: Engine, terms: Terms, constant: int) -> Int:
    """Common factors in front: `i*n + j*n` made `(i + j)*n`, `i*8 + j*8` made `(i + j)*8`."""
    from symbolic.intervals import fits
    counts: dict[Int, int] = {}
    for t in terms:
        if t.op is PRODUCT or t.op is SYMBOL:
            for f in dict.fromkeys(factors_of(t)):
                counts[f] = counts.get(f, 0) + 1
    for f in sorted([f for f, n in counts.items() if n > 1], key=lambda f: (-counts[f], f.key)):
        inside: Terms = {}
        inner = 0
        rest: Terms = {}
        for t, c in terms.items():
            if f is t:
                inner = c
            elif t.op is PRODUCT and f in t.args:
                others = list(t.args)
                others.remove(f)
                inside[product(others)] = c
            else:
                rest[t] = c
        if len(inside) + (inner != 0) < 2:
            continue
        share = gcd(inner, *inside.values())
        group = make_sum({t: c // share for t, c in inside.items()}, inner // share)
        whole = scale(mul(group, f), share)
        candidate = add(make_sum(rest, constant), whole)
        if operations_count(candidate) < operations_count(make_sum(terms, constant)) and fits(S, group):
            first = next(iter(inside))
            x, y = (sub(make_sum(inside, inner), scale(first, inside[first])), scale(first, inside[first]))
            S.note(COLLECT, add(S.expand(x, f), S.expand(y, f)), whole, x=x, y=y, z=f)
            return _factor(S, terms_of(candidate), constant) if candidate.op is SUM else candidate
    return make_sum(terms, constant)


__all__ = ["digits", "present", "work"]
