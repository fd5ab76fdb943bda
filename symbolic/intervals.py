"""What can be said of a value without rewriting it: its interval, its residue class, its sign.

Intervals are pairs of Python integers with `INF` for no bound. A sum is also read in *digit form*, where
`x - d*(x // d)` is `x % d`, since the interval of the difference alone forgets that both come from one `x`.
`nonnegative` adds what is known symbolically: `g >= 0` for each fact, so `d >= 0` follows when `d - k*g >= 0` for a `k >= 0`.

`S` is the engine: it carries the facts and one memo per question.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final, TypeAlias

from symbolic.digits import digits, nearest
from symbolic.integers import (
    ABS,
    AND,
    CONST,
    FLOORDIV,
    FLOORMOD,
    MAX,
    MIN,
    OR,
    PRODUCT,
    RELATIONS,
    SELECT,
    SUM,
    SYMBOL,
    TRUNCDIV,
    TRUNCMOD,
    XOR,
    Int,
    add,
    const,
    factors_of,
    product,
    scale,
    sub,
    terms_of,
)

if TYPE_CHECKING:
    from symbolic.engine import Engine

Interval: TypeAlias = tuple[int, int]

INF: Final = 1 << 200
_FAR: Final = 1 << 100
INT32: Final = (-(1 << 31), (1 << 31) - 1)
_STEPS: Final = 48          # how many combinations of facts one question may try
_DEPTH: Final = 5


def interval(S: Engine, n: Int) -> Interval:
    """Bounds of a canonical expression, both inclusive."""
    found = S.intervals.get(n)
    if found is None:
        op = n.op
        if op is CONST:
            found = (n.value, n.value)
        elif op is SYMBOL:
            lo, hi = S.facts._interval(n)
            found = (lo, max(lo, hi))       # facts that contradict each other leave nothing: then any value will do
        else:
            lo, hi = _sum(S, n) if op is SUM else _BY_OPERATOR[op](S, n) if op in _BY_OPERATOR else (-INF, INF)
            if S.facts.narrows:
                a, b = S.facts._interval(n)
                lo, hi = max(lo, a), min(hi, b)
            hi = max(lo, hi)
            found = (lo if lo > -_FAR else -INF, hi if hi < _FAR else INF)
        S.intervals[n] = found
    return found


def _linear(S: Engine, n: Int) -> Interval:
    lo = hi = n.value
    for t, c in zip(n.args, n.coefs):
        a, b = interval(S, t)
        if c > 0:
            lo += c * a
            hi += c * b
        else:
            lo += c * b
            hi += c * a
    return lo, hi


def _sum(S: Engine, n: Int) -> Interval:
    lo, hi = _linear(S, n)
    form = digits(n)
    if form is not n:
        a, b = _linear(S, form) if form.op is SUM else interval(S, form)
        lo, hi = max(lo, a), min(hi, b)
    elif nearest(n) is not n:
        near = nearest(n)
        a, b = _linear(S, near) if near.op is SUM else interval(S, near)
        lo, hi = max(lo, a), min(hi, b)
    return lo, hi


def _product(S: Engine, n: Int) -> Interval:
    lo, hi = 1, 1
    for f in n.args:
        a, b = interval(S, f)
        corners = (lo * a, lo * b, hi * a, hi * b)
        lo, hi = max(-INF, min(corners)), min(INF, max(corners))
    if len(n.args) == 2 and n.args[0] is n.args[1]:
        lo = max(lo, 0)
    return lo, hi


def _floordiv(S: Engine, n: Int) -> Interval:
    (lo, hi), (dlo, dhi) = interval(S, n.args[0]), interval(S, n.args[1])
    if dlo >= 1:
        if dlo == dhi:
            return lo // dlo, hi // dlo
        # The far end of an unbounded divisor is reached only in the limit: 0 from above, -1 from below.
        return (lo // dhi if dhi < INF else 0) if lo >= 0 else lo // dlo, \
               hi // dlo if hi >= 0 else (hi // dhi if dhi < INF else -1)
    if dhi <= -1:
        if dlo == dhi:
            return hi // dhi, lo // dhi
        bound = max(abs(lo), abs(hi))
        return -bound, bound
    return -INF, INF


def _floormod(S: Engine, n: Int) -> Interval:
    (lo, hi), (dlo, dhi) = interval(S, n.args[0]), interval(S, n.args[1])
    if dlo >= 1:
        if dlo == dhi and lo > -INF and hi < INF and lo // dlo == hi // dlo:
            return lo % dlo, hi % dlo
        return 0, min(dhi - 1, hi) if lo >= 0 else dhi - 1
    if dhi <= -1:
        return dlo + 1, 0
    return min(dlo + 1, 0), max(dhi - 1, 0)


def _trunc(x: int, d: int) -> int:
    return x // d if x >= 0 else -(-x // d)


def _truncdiv(S: Engine, n: Int) -> Interval:
    (lo, hi), (dlo, dhi) = interval(S, n.args[0]), interval(S, n.args[1])
    if dlo == dhi >= 1:
        return _trunc(lo, dlo), _trunc(hi, dlo)
    bound = max(abs(lo), abs(hi))
    return -bound, bound


def _truncmod(S: Engine, n: Int) -> Interval:
    (lo, hi), (dlo, dhi) = interval(S, n.args[0]), interval(S, n.args[1])
    bound = max(abs(dlo), abs(dhi)) - 1
    return max(-bound, min(lo, 0)), min(bound, max(hi, 0))


def _min(S: Engine, n: Int) -> Interval:
    ends = [interval(S, a) for a in n.args]
    return min([a for a, _ in ends]), min([b for _, b in ends])


def _max(S: Engine, n: Int) -> Interval:
    ends = [interval(S, a) for a in n.args]
    return max([a for a, _ in ends]), max([b for _, b in ends])


def _abs(S: Engine, n: Int) -> Interval:
    lo, hi = interval(S, n.args[0])
    return (0 if lo <= 0 <= hi else min(abs(lo), abs(hi))), max(abs(lo), abs(hi))


def _select(S: Engine, n: Int) -> Interval:
    (a, b), (c, d) = interval(S, n.args[1]), interval(S, n.args[2])
    return min(a, c), max(b, d)


def _bits(S: Engine, n: Int) -> Interval:
    ends = [interval(S, a) for a in n.args]
    if n.op is AND and any(a >= 0 for a, _ in ends):
        return 0, min([b for a, b in ends if a >= 0])
    if all(a >= 0 for a, _ in ends):
        hi = max([b for _, b in ends])
        low = max([a for a, _ in ends]) if n.op is OR else 0
        return low, INF if hi >= INF else (1 << hi.bit_length()) - 1
    return -INF, INF


def _zero_one(S: Engine, n: Int) -> Interval:
    return 0, 1


_BY_OPERATOR: Final = {
    PRODUCT: _product, FLOORDIV: _floordiv, FLOORMOD: _floormod, TRUNCDIV: _truncdiv, TRUNCMOD: _truncmod,
    MIN: _min, MAX: _max, ABS: _abs, SELECT: _select, AND: _bits, OR: _bits, XOR: _bits,
    **dict.fromkeys(RELATIONS, _zero_one),
}


def fits(S: Engine, n: Int) -> bool:
    """`n` is an int32 for all values within the facts, every symbol being one."""
    lo, hi = interval(S, n)
    return INT32[0] <= lo and hi <= INT32[1]


def fits_within(S: Engine, part: Int, whole: Int) -> bool:
    """`part` is an int32 when `whole` and its terms are: no sum or product, bounded, or a share of a sum of one sign."""
    if part.op is not SUM and part.op is not PRODUCT or fits(S, part):
        return True
    terms = terms_of(whole)
    sign = 0
    for t, c in terms.items():
        lo, hi = interval(S, t)
        own = 1 if lo >= 0 else -1 if hi <= 0 else 0
        own = own if c > 0 else -own
        if not own or sign and own != sign:
            return False
        sign = own
    if whole.value and (whole.value > 0) != (sign > 0):
        return False
    if abs(part.value) > abs(whole.value) or part.value * whole.value < 0:
        return False
    return all(t in terms and abs(c) <= abs(terms[t]) and c * terms[t] > 0 for t, c in terms_of(part).items())


# ---- residue classes ---------------------------------------------------------------------------------------------------

def congruence(S: Engine, n: Int) -> tuple[int, int]:
    """(m, r) with `n = r` modulo `m`; m = 0 when `n` is exactly `r`, m = 1 when nothing is known."""
    if n.op is CONST:
        return 0, n.value
    if not S.facts.congruent and n.op is not SUM:
        return 1, 0
    found = S.congruences.get(n)
    if found is None:
        found = S.congruences[n] = _meet(_congruence(S, n), S.facts._congruence(n))
    return found


def _meet(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The finer of two classes of one value (their intersection when one modulus divides the other)."""
    if a[0] == 0 or b[0] == 1: return a
    if b[0] == 0 or a[0] == 1: return b
    if a[0] % b[0] == 0: return a
    if b[0] % a[0] == 0: return b
    (m, r), (n, s) = a, b
    step = gcd(m, n)
    lcm = m // step * n
    k = (s - r) // step * pow(m // step, -1, n // step) % (n // step)
    return lcm, (r + m * k) % lcm


def _congruence(S: Engine, n: Int) -> tuple[int, int]:
    op = n.op
    if op is SUM:
        m, r = 0, n.value
        for t, c in zip(n.args, n.coefs):
            tm, tr = congruence(S, t)
            m, r = gcd(m, c * tm), r + c * tr
            if m == 1:
                return 1, 0
    elif op is PRODUCT:
        m, r = 0, 1
        for f in n.args:
            fm, fr = congruence(S, f)
            m, r = gcd(gcd(m * fm, m * fr), fm * r), r * fr
    elif op is FLOORDIV and n.args[1].op is CONST and n.args[1].value > 0:
        e = n.args[1].value
        m, r = congruence(S, n.args[0])
        if m % e:
            return 1, 0
        m, r = m // e, r // e
    elif op is MIN or op is MAX or op is SELECT:
        m, r = congruence(S, n.args[-1])
        for a in n.args[1 if op is SELECT else 0:-1]:
            am, ar = congruence(S, a)
            m = gcd(gcd(m, am), r - ar)
    else:
        return 1, 0
    return (m, r % m) if m else (0, r)


def divides(S: Engine, k: int, n: Int) -> bool:
    """Provably `n % k == 0`; of k = 0, never."""
    m, r = congruence(S, n)
    return k != 0 and m % k == 0 and r % k == 0


# ---- sign --------------------------------------------------------------------------------------------------------------

def nonnegative(S: Engine, d: Int) -> bool:
    """Provably `d >= 0`, by interval and then by the symbolic facts."""
    lo, hi = interval(S, d)
    if lo >= 0:
        return True
    if hi < 0 or d.op is CONST or d.op is SYMBOL and not S.facts.linear:
        return False
    found = S.signs.get(d)
    if found is None:
        found = S.signs[d] = _Search(S).holds(d, _DEPTH)
    return found


def _pull(term: tuple[Int, int]) -> bool:
    return term[1] > 0


class _Search:
    """One question `d >= 0`: lower `d` step by step, each step not above the last, until an interval decides."""

    def __init__(self, S: Engine) -> None:
        self.S = S
        self.left = _STEPS
        self.seen: set[Int] = set()

    def holds(self, d: Int, depth: int) -> bool:
        lo, hi = interval(self.S, d)
        if lo >= 0:
            return True
        if hi < 0 or depth == 0 or d in self.seen or self.left <= 0:
            return False
        self.seen.add(d)
        self.left -= 1
        # What pulls d down comes first.
        for t, c in sorted(terms_of(d).items(), key=_pull):
            if t.op is not SYMBOL or self.S.facts.linear:
                for lower in self._lowerings(d, t, c):
                    if all(self.holds(x, depth - 1) for x in lower):
                        return True
        return False

    def _lowerings(self, d: Int, t: Int, c: int) -> list[list[Int]]:
        """Ways to bound `d` below at its term `c*t`: each a list of expressions that must all be nonnegative."""
        S, found = self.S, []
        for g, k in S.facts._about(t):
            if k * c > 0 and c % k == 0:
                found.append([sub(d, scale(g, c // k))])
        factors = factors_of(t)
        for i, f in enumerate(factors):
            rest = product(factors[:i] + factors[i + 1:])
            if rest.op is not CONST and interval(S, rest)[0] < 0:
                continue
            if len(factors) > 1:
                for g, k in S.facts._about(f):
                    if k * c > 0 and c % k == 0:
                        found.append([sub(d, S.expand(scale(g, c // k), rest))])
                bound = interval(S, f)[0 if c > 0 else 1]
                if bound and abs(bound) < INF:
                    found.append([add(sub(d, scale(t, c)), scale(rest, c * bound))])
            if f.op is FLOORDIV:
                x, e = f.args
                others = _without(factors[:i] + factors[i + 1:], e)
                if others is not None and interval(S, e)[0] >= 1 and (e.op is not CONST or c % e.value == 0):
                    # e*(x // e) lies in x - e + 1 .. x
                    inner = x if c < 0 else add(sub(x, e), const(1))
                    k = c // e.value if e.op is CONST else c
                    found.append([add(sub(d, scale(t, c)), scale(S.expand(inner, others), k))])
            elif f.op is MIN or f.op is MAX or f.op is SELECT:
                base = sub(d, scale(t, c))
                options = [add(base, scale(S.expand(a, rest), c)) for a in f.args[f.op is SELECT:]]
                one_is_enough = f.op is MIN and c < 0 or f.op is MAX and c > 0
                found += [[x] for x in options] if one_is_enough else [options]
        return found


def _without(factors: tuple[Int, ...], e: Int) -> Int | None:
    """The product of `factors` divided by `e`, a constant standing for itself outside; None when `e` is not among them."""
    if e.op is CONST:
        return product(factors)
    left = list(factors)
    for f in factors_of(e):
        if f not in left:
            return None
        left.remove(f)
    return product(left)

