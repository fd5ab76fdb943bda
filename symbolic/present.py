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
    make_sum,
    mul,
    operations_count,
    product,
    rebuild,
    scale,
    terms_of,
)

if TYPE_CHECKING:
    from symbolic.engine import Engine

_SLOW_DIVISION: Final = 3       # what a division by no power of two costs above an addition
_SLACK: Final = 1               # so much longer may the form with remainders be, as it is the easier one to read

Terms = dict[Int, int]
_work: dict[Int, int] = {}


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
        n._digits = _with_remainders(n) if n.op is SUM else n
        n._digits._digits = n._digits
    return n._digits


def _quotients(terms: Terms) -> list[tuple[Int, Int]]:
    """The terms that hold a quotient, with it, the smallest divisor first."""
    found = [(t, f) for t in terms for f in factors_of(t) if f.op is FLOORDIV]
    if len(found) > 1:
        found.sort(key=lambda tq: (tq[1].args[1].key, tq[1].key))
    return found


def _with_remainders(n: Int) -> Int:
    terms, constant = terms_of(n), n.value
    quotients = _quotients(terms)
    changed = False
    for t, q in quotients:
        if terms.get(t):
            better = _link(terms, constant, t, q)
            if better is not None:
                terms, constant = better
                changed = True
    return make_sum(terms, constant) if changed else n


def _link(terms: Terms, constant: int, t: Int, q: Int) -> tuple[Terms, int] | None:
    """`a*y - a*e*(y // e)` made `a*(y % e)` for the quotient `q` in the term `t`, if that is not much more work."""
    best, best_work = None, _work_of(terms, constant) + _SLACK
    c = terms[t]
    factors = list(factors_of(t))
    factors.remove(q)
    for y, e in _parents(terms, q):
        others, step = list(factors), 1
        if e.op is CONST:
            step = e.value
        else:
            for f in factors_of(e):
                if f not in others:
                    break
                others.remove(f)
            else:
                f = e
            if f is not e:
                continue
        if e.op is SUM:
            continue
        V = product(others)
        part = [(mul(V, s), k) for s, k in terms_of(y).items()]
        if constant_of(y) and V.op is not CONST:
            part.append((V, constant_of(y)))
        exact = -c // step if c % step == 0 else None
        candidates = {exact} if exact else set()
        if e.op is CONST:
            candidates |= {terms[s] // k for s, k in part if terms.get(s, 0) % k == 0 and s in terms}
        for a in sorted(candidates, key=lambda a: (a != exact, abs(a), a)):
            if not any(s in terms for s, _ in part):
                continue
            new = dict(terms)
            for s, k in part:
                left = new.get(s, 0) - a * k
                if left: new[s] = left
                else: new.pop(s, None)
            new_constant = constant - a * constant_of(y) if V.op is CONST else constant
            quotient = c + a * step
            if quotient: new[t] = quotient
            else: del new[t]
            remainder = mul(V, floormod(y, e))
            if remainder.op is SUM or remainder.op is CONST:
                continue
            new[remainder] = new.get(remainder, 0) + a
            total = _work_of(new, new_constant)
            if total <= best_work:
                best, best_work = (new, new_constant), total - 1
    return best


def _parents(terms: Terms, q: Int) -> Iterator[tuple[Int, Int]]:
    """All (y, e) with `q == y // e` where the terms may hold `y`, the closest first."""
    x, d = q.args
    if d.op is CONST:
        coarser = [f.args[1].value for t in terms for f in factors_of(t)
                   if f.op is FLOORDIV and f.args[0] is x and f.args[1].op is CONST]
        for step in sorted({v for v in coarser if 0 < v < d.value and d.value % v == 0}, reverse=True):
            yield floordiv(x, step), const(d.value // step)
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
    return e if args == e.args else rebuild(e, args)


def _present_sum(S: Engine, e: Int) -> Int:
    form = digits(e)
    if form is not e:
        plain = _absorb(S, e)
        if work(plain) + _SLACK < work(form) and _partial_sums_fit(S, plain):
            form = plain
    if form.op is SUM:
        form = _absorb(S, form)
    if form.op is not SUM:
        return _present_operands(S, form)
    terms: Terms = {}
    total = const(form.value)
    for t, c in zip(form.args, form.coefs):
        total = add(total, scale(present(S, t), c))
    if total.op is SUM:
        terms = terms_of(total)
        total = _factor(S, terms, total.value)
    return total


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
        if t.op is not FLOORDIV or t.args[0].op is not SUM or t.args[1].op is not CONST or len(e.args) + (e.value != 0) < 2:
            continue
        x, d = t.args
        outside, inside = terms_of(e), terms_of(x)
        constant, inner = e.value, x.value
        del outside[t]
        if constant and constant % k == 0 and inner:
            constant, inner = 0, inner + constant // k * d.value
        for s, c in inside.items():
            if s in outside and outside[s] % k == 0:
                inside[s] = c + outside.pop(s) // k * d.value
        if len(outside) + 1 == len(e.args) and constant == e.value:
            continue
        merged = make_sum(inside, inner)
        quotient = floordiv(merged, d)
        if quotient.op is not FLOORDIV or not fits(S, merged):
            continue
        candidate = add(make_sum(outside, constant), scale(quotient, k))
        if work(candidate) < work(e):
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
            return _factor(S, terms_of(candidate), constant) if candidate.op is SUM else candidate
    return make_sum(terms, constant)


__all__ = ["digits", "present", "work"]
