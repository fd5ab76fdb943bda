"""Proofs of the rule table: three readings of a row's text, as NumPy arrays, as z3 terms, as machine words.

A reading is an algebra with the operations that a compiled side calls (`add`, `div`, `lt`, ...). Each notes what it meets:
where a division was by zero, and every intermediate value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import z3

from symbolic.rules import Rule, compile_side


class Arrays:
    """A reading of a side over arrays of int64, all values of a box at once."""

    def __init__(self, word: tuple[int, int] | None = None) -> None:
        self.undefined: Any = False
        self.outside: Any = False
        self.word = word

    def seen(self, x: Any) -> Any:
        if self.word:
            self.outside = self.outside | (x < self.word[0]) | (x > self.word[1])
        return x

    def const(self, v: int) -> Any: return self.seen(np.int64(v))
    def add(self, a: Any, b: Any) -> Any: return self.seen(a + b)
    def sub(self, a: Any, b: Any) -> Any: return self.seen(a - b)
    def mul(self, a: Any, b: Any) -> Any: return self.seen(a * b)
    def neg(self, a: Any) -> Any: return self.seen(-a)

    def _by(self, b: Any) -> Any:
        self.undefined = self.undefined | (b == 0)
        return np.where(b == 0, 1, b)

    def div(self, a: Any, b: Any) -> Any: return self.seen(a // self._by(b))
    def mod(self, a: Any, b: Any) -> Any: return self.seen(a % self._by(b))

    def truncdiv(self, a: Any, b: Any) -> Any:
        b = self._by(b)
        return self.seen(abs(a) // abs(b) * np.where((a < 0) ^ (b < 0), -1, 1))

    def truncmod(self, a: Any, b: Any) -> Any: return self.seen(a - b * self.truncdiv(a, b))
    def minimum(self, a: Any, b: Any) -> Any: return np.minimum(a, b)
    def maximum(self, a: Any, b: Any) -> Any: return np.maximum(a, b)
    def absolute(self, a: Any) -> Any: return self.seen(abs(a))
    def select(self, c: Any, a: Any, b: Any) -> Any: return np.where(c != 0, a, b)
    def bitand(self, a: Any, b: Any) -> Any: return a & b
    def bitor(self, a: Any, b: Any) -> Any: return a | b
    def bitxor(self, a: Any, b: Any) -> Any: return a ^ b
    def lt(self, a: Any, b: Any) -> Any: return (a < b) + np.int64(0)
    def le(self, a: Any, b: Any) -> Any: return (a <= b) + np.int64(0)
    def eq(self, a: Any, b: Any) -> Any: return (a == b) + np.int64(0)
    def ne(self, a: Any, b: Any) -> Any: return (a != b) + np.int64(0)
    def land(self, *xs: Any) -> Any: return np.logical_and.reduce(np.broadcast_arrays(*[x != 0 for x in xs])) + np.int64(0)
    def lor(self, *xs: Any) -> Any: return np.logical_or.reduce(np.broadcast_arrays(*[x != 0 for x in xs])) + np.int64(0)
    def lnot(self, a: Any) -> Any: return (a == 0) + np.int64(0)
    def divides(self, d: Any, x: Any) -> Any: return np.where(d == 0, x == 0, x % np.where(d == 0, 1, d) == 0) + np.int64(0)
    def pow2(self, m: Any) -> Any: return ((m > 0) & (m & (m - 1) == 0)) + np.int64(0)

    def fits(self, x: Any) -> Any:
        lo, hi = self.word or (-1 << 62, 1 << 62)
        return ((x >= lo) & (x <= hi)) + np.int64(0)


def box(rule: Rule, radius: dict[int, tuple[int, int]]) -> dict[str, np.ndarray]:
    """Every assignment of a box about zero, smaller the more variables there are."""
    lo, hi = radius[len(rule.variables)]
    grid = np.meshgrid(*[np.arange(lo, hi + 1)] * len(rule.variables), indexing="ij")
    return {n: g.ravel() for n, g in zip(rule.variables, grid)}


RADIUS = {1: (-200, 200), 2: (-60, 60), 3: (-20, 20), 4: (-9, 9), 5: (-5, 5), 6: (-4, 4), 7: (-2, 3)}
WORDS = {1: (-128, 127), 2: (-128, 127), 3: (-32, 31), 4: (-16, 15), 5: (-8, 7), 6: (-4, 3), 7: (-4, 3)}


def exhaustive(rule: Rule) -> tuple[int, str]:
    """(points that meet the condition, first counterexample or "")."""
    values = box(rule, RADIUS)
    given, left, right = Arrays(), Arrays(), Arrays()
    when = compile_side(rule.when or "1", rule.variables)(given, **values)
    a = rule.build_left(left, **values)
    b = rule.build_right(right, **values)
    met = (when != 0) & ~np.asarray(given.undefined) & ~np.asarray(left.undefined)
    bad = np.flatnonzero(np.broadcast_to(met & ((a != b) | right.undefined), values[rule.variables[0]].shape))
    return int(np.sum(met)), str({n: int(v[bad[0]]) for n, v in values.items()}) if len(bad) else ""


def words(rule: Rule) -> tuple[int, str]:
    """As `exhaustive`, in small machine words: no value of the right side leaves the word when none of the left does."""
    values = box(rule, WORDS)
    word = WORDS[len(rule.variables)]
    given, left, right = Arrays(word), Arrays(word), Arrays(word)
    when = compile_side(rule.when or "1", rule.variables)(given, **values)
    rule.build_left(left, **values)
    rule.build_right(right, **values)
    met = (when != 0) & ~np.asarray(left.undefined) & ~np.asarray(left.outside)
    bad = np.flatnonzero(np.broadcast_to(met & right.outside, values[rule.variables[0]].shape))
    return int(np.sum(met)), str({n: int(v[bad[0]]) for n, v in values.items()}) if len(bad) else ""


class Terms:
    """A reading of a side as z3 integers. A quotient is a fresh integer with what defines it."""

    def __init__(self, bounded: bool = False) -> None:
        self.bounded = bounded
        self.axioms: list[Any] = []
        self.quotients: dict[tuple[str, str], Any] = {}
        self.nonzero: list[Any] = []
        self.values: list[Any] = []

    def seen(self, x: Any) -> Any:
        self.values.append(x)
        return x

    def const(self, v: int) -> Any: return self.seen(z3.IntVal(v))
    def add(self, a: Any, b: Any) -> Any: return self.seen(a + b)
    def sub(self, a: Any, b: Any) -> Any: return self.seen(a - b)
    def mul(self, a: Any, b: Any) -> Any: return self.seen(a * b)
    def neg(self, a: Any) -> Any: return self.seen(-a)

    def div(self, a: Any, b: Any) -> Any:
        key = (z3.simplify(a, som=True).sexpr(), z3.simplify(b, som=True).sexpr())
        if key not in self.quotients:
            q = z3.FreshInt("q")
            self.quotients[key] = q
            low = z3.simplify(a - b * q, som=True)
            self.axioms += [z3.Implies(b > 0, z3.And(low >= 0, low < b)), z3.Implies(b < 0, z3.And(b < low, low <= 0))]
        self.nonzero.append(b != 0)
        return self.seen(self.quotients[key])

    def mod(self, a: Any, b: Any) -> Any: return self.seen(a - b * self.div(a, b))

    def truncdiv(self, a: Any, b: Any) -> Any:
        size = self.div(z3.If(a < 0, -a, a), z3.If(b < 0, -b, b))
        return z3.If((a < 0) == (b < 0), size, -size)

    def truncmod(self, a: Any, b: Any) -> Any: return a - b * self.truncdiv(a, b)
    def minimum(self, a: Any, b: Any) -> Any: return z3.If(a <= b, a, b)
    def maximum(self, a: Any, b: Any) -> Any: return z3.If(a >= b, a, b)
    def absolute(self, a: Any) -> Any: return self.seen(z3.If(a >= 0, a, -a))
    def select(self, c: Any, a: Any, b: Any) -> Any: return z3.If(c != 0, a, b)
    def lt(self, a: Any, b: Any) -> Any: return _number(a < b)
    def le(self, a: Any, b: Any) -> Any: return _number(a <= b)
    def eq(self, a: Any, b: Any) -> Any: return _number(a == b)
    def ne(self, a: Any, b: Any) -> Any: return _number(a != b)
    def land(self, *xs: Any) -> Any: return _number(z3.And(*[x != 0 for x in xs]))
    def lor(self, *xs: Any) -> Any: return _number(z3.Or(*[x != 0 for x in xs]))
    def lnot(self, a: Any) -> Any: return _number(a == 0)

    def divides(self, d: Any, x: Any) -> Any:
        k = z3.FreshInt("k")
        return _number(x == d * k)

    def fits(self, x: Any) -> Any: return _number(inside(x)) if self.bounded else z3.IntVal(1)


class Bits:
    """A reading of a side as 32-bit words, for the rows with `&`, `|`, `^`; the multiplier is a shift."""

    def const(self, v: int) -> Any: return z3.BitVecVal(v, 32)
    def add(self, a: Any, b: Any) -> Any: return a + b
    def mul(self, a: Any, b: Any) -> Any: return a * b
    def bitand(self, a: Any, b: Any) -> Any: return a & b
    def bitor(self, a: Any, b: Any) -> Any: return a | b
    def bitxor(self, a: Any, b: Any) -> Any: return a ^ b


def _number(condition: Any) -> Any:
    return z3.If(condition, z3.IntVal(1), z3.IntVal(0))


def inside(x: Any) -> Any:
    return z3.And(x >= -(1 << 31), x < 1 << 31)


def prove_words(rule: Rule) -> bool:
    """z3 proves that no value of the right side leaves int32 while none of the left side does."""
    return unsatisfiable(_word_obligation(rule))


def _word_obligation(rule: Rule) -> list[Any]:
    values = {n: z3.Int(n) for n in rule.variables}
    given, left, right = Terms(True), Terms(True), Terms(True)
    left.quotients = right.quotients = given.quotients
    left.axioms = right.axioms = given.axioms
    when = compile_side(rule.when or "1", rule.variables)(given, **values)
    # That the sides are equal is proved apart; here it is a lemma.
    equal = rule.build_left(left, **values) == rule.build_right(right, **values)
    return [when != 0, equal, *given.axioms, *left.nonzero, *map(inside, [*values.values(), *left.values]),
            z3.Not(z3.And(*map(inside, right.values), True))]


def unsatisfiable(claims: list[Any]) -> bool:
    """z3 says so; "unknown" within the time is no."""
    solver = z3.Solver()
    solver.set("timeout", 30_000)
    solver.add(*claims)
    return bool(solver.check() == z3.unsat)


def prove(rule: Rule) -> bool:
    """z3 proves the row for all integers; a row of bits for all 32-bit words."""
    if rule.group == "bits":
        return all(map(unsatisfiable, _bit_obligations(rule)))
    return unsatisfiable(obligation(rule))


def obligation(rule: Rule) -> list[Any]:
    """What would refute the row: condition, definitions, and sides that differ."""
    values = {n: z3.Int(n) for n in rule.variables}
    terms = Terms()
    when = compile_side(rule.when or "1", rule.variables)(terms, **values)
    terms.nonzero.clear()
    left = rule.build_left(terms, **values)
    defined = list(terms.nonzero)
    terms.nonzero.clear()
    right = rule.build_right(terms, **values)
    wrong = z3.Or(z3.simplify(left - right, som=True) != 0, *[z3.Not(c) for c in terms.nonzero])
    return [when != 0, *defined, *terms.axioms, wrong]


def _bit_obligations(rule: Rule) -> Iterator[list[Any]]:
    for shift in range(31):
        values = {n: z3.BitVec(n, 32) for n in rule.variables if n != "m"}
        m = z3.BitVecVal(1 << shift, 32)
        within = [z3.ULT(values[n], m) for n in "uv"]
        exact = [(values[n] << shift) >> shift == values[n] for n in "ab"]
        left, right = (side(Bits(), m=m, **values) for side in (rule.build_left, rule.build_right))
        yield [*within, *exact, left != right]
