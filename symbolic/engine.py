"""The engine: takes an expression to its canonical form under some facts, one row of the rule table at a time.

Canonical means: a sum of products with integer coefficients, remainders written as `x - d*(x // d)`, divisions split and
merged as far as the facts allow, every relation a `<` or an `==` between what is left after cancelling. Each operator's
rows are found in its own file (`division`, `order`, `bits`); what a row builds comes from the table.

An engine belongs to one set of facts; its memos live until that set learns something new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from symbolic import bits, division, integers, order
from symbolic.integers import (
    ABS,
    AND,
    CONST,
    EQ,
    FLOORDIV,
    FLOORMOD,
    LAND,
    LE,
    LOR,
    LT,
    MAX,
    MIN,
    NE,
    OR,
    PRODUCT,
    SELECT,
    SHL,
    SHR,
    SUM,
    SYMBOL,
    TRUNCDIV,
    TRUNCMOD,
    XOR,
    Int,
    add,
    const,
    constant_of,
    factors_of,
    is_const,
    make_sum,
    mul,
    operations_count,
    product,
    scale,
    sub,
    terms_of,
)
from symbolic.intervals import Interval, divides, fits, interval
from symbolic.present import present
from symbolic.rules import DISTRIBUTE, EXACT, FIXED, MAX_PLUS_MIN, Rule
from symbolic.word import stays

if TYPE_CHECKING:
    from symbolic.facts import Facts

_ROUNDS: Final = 4              # the form that is read, read again, is nearly always itself at once
_MANY: Final = 48               # a product of sums with more terms than this stays a product


class Engine:
    """The simplifier for one `Facts`. Also the algebra in which the right sides of the rules are built."""

    __slots__ = ("facts", "canonical", "intervals", "congruences", "signs", "presented", "results", "log")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.log: list[tuple[Rule, Int, Int, dict[str, Int]]] | None = None
        self.clear()

    def clear(self) -> None:
        """Forget every result: the facts have grown."""
        self.canonical: dict[Int, Int] = {}
        self.intervals: dict[Int, Interval] = {}
        self.congruences: dict[Int, tuple[int, int]] = {}
        self.signs: dict[Int, bool] = {}
        self.presented: dict[Int, Int] = {}
        self.results: dict[Int, Int] = {}

    def simplify(self, e: Int) -> Int:
        """The readable simplest form of `e`."""
        found = self.results.get(e)
        if found is None:
            found = e
            start = len(self.log) if self.log is not None else 0
            for _ in range(_ROUNDS):
                told = len(self.log) if self.log is not None else 0
                before, found = found, present(self, self.canon(found))
                if operations_count(found) > operations_count(before):
                    found = before
                if found is before:
                    if self.log is not None and before is not e:
                        del self.log[told:]
                    break
            if found is not e and found.args and not stays(self, e, found):
                if self.log is not None:
                    del self.log[start:]
                found = self._by_operands(e)
            self.results[e] = found
            self.results[found] = found
        return found

    def _by_operands(self, e: Int) -> Int:
        """`e` with its operands simplified one by one, where the whole cannot be without leaving int32."""
        made = integers.rebuild(e, tuple([self.simplify(a) for a in e.args]))
        return self.simplify(made) if made is not e and stays(self, e, made) else e

    def canon(self, e: Int) -> Int:
        """The canonical form of `e`."""
        if e.op is CONST:
            return e
        found = self.canonical.get(e)
        if found is None:
            found = self.canonical[e] = _CANON[e.op](self, e)
            self.canonical[found] = found
        return found

    def fire(self, rule: Rule, before: Int, **bound: Int) -> Int:
        """The right side of `rule`, which applies to `before` with its variables bound so."""
        if self.log is None:
            return rule.build_right(self, **bound)
        where = len(self.log)
        result = rule.build_right(self, **bound)
        self.log.insert(where, (rule, before, result, bound))
        return result

    def note(self, rule: Rule, before: Int, after: Int, **bound: Int) -> Int:
        """`after`, which the caller built by `rule` itself."""
        if self.log is not None:
            self.log.append((rule, before, after, bound))
        return after

    # ---- the algebra of canonical forms: what the table's right sides are built with --------------------------------

    const = staticmethod(const)

    def add(self, a: Int, b: Int) -> Int: return _tidy(self, add(a, b))
    def sub(self, a: Int, b: Int) -> Int: return _tidy(self, sub(a, b))

    @staticmethod
    def neg(a: Int) -> Int: return scale(a, -1)

    def mul(self, a: Int, b: Int) -> Int: return _tidy(self, self.expand(a, b))
    def div(self, a: Int, b: Int) -> Int: return division.div(self, a, b)
    def mod(self, a: Int, b: Int) -> Int: return division.mod(self, a, b)
    def truncdiv(self, a: Int, b: Int) -> Int: return division.truncated(self, TRUNCDIV, a, b)
    def truncmod(self, a: Int, b: Int) -> Int: return division.truncated(self, TRUNCMOD, a, b)
    def minimum(self, a: Int, b: Int) -> Int: return order.extremum(self, MIN, (a, b))
    def maximum(self, a: Int, b: Int) -> Int: return order.extremum(self, MAX, (a, b))
    def absolute(self, a: Int) -> Int: return order.absolute(self, a)
    def select(self, c: Int, a: Int, b: Int) -> Int: return integers.select(c, a, b)
    def bitand(self, a: Int, b: Int) -> Int: return bits.combine(self, AND, a, b)
    def bitor(self, a: Int, b: Int) -> Int: return bits.combine(self, OR, a, b)
    def bitxor(self, a: Int, b: Int) -> Int: return bits.combine(self, XOR, a, b)
    def lt(self, a: Int, b: Int) -> Int: return order.less(self, a, b)
    def eq(self, a: Int, b: Int) -> Int: return order.equal(self, a, b)
    def lnot(self, a: Int) -> Int: return self.canon(integers.lnot(a))

    def expand(self, a: Int, b: Int) -> Int:
        """`a * b` multiplied out, unless that has very many terms."""
        if a.op is not SUM and b.op is not SUM:
            return mul(a, b)
        if a.op is CONST or b.op is CONST or len(a.args) * len(b.args) > _MANY:
            return mul(a, b)
        left, right = terms_of(a), terms_of(b)
        ca, cb = constant_of(a), constant_of(b)
        total = add(scale(b, ca), make_sum({t: c * cb for t, c in left.items()}))
        for t, c in left.items():
            for u, k in right.items():
                total = add(total, scale(mul(t, u), c * k))
        return total


# ---- leaves, sums, products --------------------------------------------------------------------------------------------

def _symbol(S: Engine, e: Int) -> Int:
    lo, hi = interval(S, e)
    if lo == hi:
        return S.fire(FIXED, e, x=e, k=const(lo))
    return e


def _sum(S: Engine, e: Int) -> Int:
    total = const(e.value)
    same = True
    terms: dict[Int, int] = {}
    constant = e.value
    for t, c in zip(e.args, e.coefs):
        s = S.canon(t)
        if s is t:
            terms[t] = terms.get(t, 0) + c
            continue
        same = False
        constant += c * constant_of(s)
        for u, k in terms_of(s).items():
            terms[u] = terms.get(u, 0) + c * k
    total = e if same else make_sum(terms, constant)
    return _tidy(S, total)


def _tidy(S: Engine, e: Int) -> Int:
    """The rows that look at several terms, or at a coefficient and its term."""
    if e.op is not SUM:
        return _exact(S, e, e, 1) if S.facts.congruent and e.op is PRODUCT else e
    if S.facts.congruent:
        for t, c in zip(e.args, e.coefs):
            better = _exact(S, e, t, c)
            if better is not e:
                return _tidy(S, better)
    lowest = [t for t in e.args if t.op is MIN]
    if lowest:
        terms = terms_of(e)
        for m in lowest:
            if len(m.args) != 2:
                continue
            x, y = m.args
            top = integers.maximum(x, y)
            c, k = terms[m], terms.get(top, 0)
            if c * k > 0:
                share = c if abs(c) <= abs(k) else k
                both = S.fire(MAX_PLUS_MIN, add(top, m), x=x, y=y)
                return _tidy(S, add(sub(e, scale(add(top, m), share)), scale(both, share)))
    return e


def _exact(S: Engine, e: Int, t: Int, c: int) -> Int:
    """`c*t` with a quotient in `t` whose divisor is there too and divides: `16*(n // 16)` is `n`."""
    factors = factors_of(t)
    for i, f in enumerate(factors):
        if f.op is not FLOORDIV:
            continue
        x, d = f.args
        others = factors[:i] + factors[i + 1:]
        if d.op is CONST and abs(d.value) > 1 and c % d.value == 0 and divides(S, d.value, x):
            whole = S.fire(EXACT, mul(d, f), d=d, x=x)
            return add(sub(e, scale(t, c)), scale(S.expand(whole, product(others)), c // d.value))
    return e


def _product(S: Engine, e: Int) -> Int:
    total = S.canon(e.args[0])
    for f in e.args[1:]:
        g = S.canon(f)
        if total.op is SUM or g.op is SUM:
            total = _distribute(S, total, g)
        else:
            total = mul(total, g)
    return _tidy(S, total)


def _distribute(S: Engine, a: Int, b: Int) -> Int:
    if is_const(a) or is_const(b):
        return mul(a, b)
    whole = S.expand(a, b)
    if whole.op is PRODUCT or not _terms_fit(S, whole):
        return mul(a, b)
    x, z = (a, b) if a.op is SUM else (b, a)
    first = scale(x.args[0], x.coefs[0])
    return S.note(DISTRIBUTE, mul(a, b), whole, x=first, y=sub(x, first), z=z)


def _terms_fit(S: Engine, e: Int) -> bool:
    """No term of the sum leaves int32 when the sum stays inside: all of one sign, or each bounded."""
    signs = set()
    for t, c in terms_of(e).items():
        lo, hi = interval(S, t)
        if c < 0:
            lo, hi = -hi, -lo
        if lo >= 0: signs.add(1)
        elif hi <= 0: signs.add(-1)
        else: signs.add(0)
    if constant_of(e):
        signs.add(1 if constant_of(e) > 0 else -1)
    if len(signs) <= 1 and 0 not in signs:
        return True
    return all(fits(S, scale(t, c)) for t, c in terms_of(e).items())


def _shift(S: Engine, e: Int) -> Int:
    a, b = map(S.canon, e.args)
    made = integers.BUILD[e.op](a, b)
    return made if made.op is e.op else S.canon(made)


_CANON: Final[dict[str, Any]] = {
    SYMBOL: _symbol, SUM: _sum, PRODUCT: _product,
    FLOORDIV: lambda S, e: division.div(S, S.canon(e.args[0]), S.canon(e.args[1])),
    FLOORMOD: lambda S, e: division.mod(S, S.canon(e.args[0]), S.canon(e.args[1])),
    TRUNCDIV: lambda S, e: division.truncated(S, TRUNCDIV, S.canon(e.args[0]), S.canon(e.args[1])),
    TRUNCMOD: lambda S, e: division.truncated(S, TRUNCMOD, S.canon(e.args[0]), S.canon(e.args[1])),
    MIN: lambda S, e: order.extremum(S, MIN, tuple(map(S.canon, e.args))),
    MAX: lambda S, e: order.extremum(S, MAX, tuple(map(S.canon, e.args))),
    ABS: lambda S, e: order.absolute(S, S.canon(e.args[0])),
    SELECT: order.select,
    AND: bits.canon, OR: bits.canon, XOR: bits.canon, SHL: _shift, SHR: _shift,
    LT: lambda S, e: order.less(S, S.canon(e.args[0]), S.canon(e.args[1])),
    LE: lambda S, e: order.less_equal(S, S.canon(e.args[0]), S.canon(e.args[1])),
    EQ: lambda S, e: order.equal(S, S.canon(e.args[0]), S.canon(e.args[1])),
    NE: lambda S, e: order.unequal(S, S.canon(e.args[0]), S.canon(e.args[1])),
    LAND: order.connective, LOR: order.connective,
}
