"""What is known of the symbols: bounds, residues, relations between them; in scopes that nest.

    facts = Facts()
    facts.bound(i, 0, n)            0 <= i < n
    facts.divisible(n, 16)          n % 16 == 0
    inside = facts.scope()
    inside.assume(lt(i, 8))         holds in `inside` only
    inside.bounds(i * 4 + 3)        (3, 31)
    inside.prove(lt(i, n))          True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from symbolic import integers
from symbolic.engine import Engine
from symbolic.integers import (
    CONST,
    EQ,
    FLOORDIV,
    FLOORMOD,
    LAND,
    LE,
    LT,
    MAX,
    MIN,
    MINUS_ONE,
    NE,
    SYMBOL,
    Int,
    Like,
    add,
    constant_of,
    eq,
    le,
    lt,
    scale,
    sub,
    terms_of,
    to_int,
    truth,
)
from symbolic.intervals import _FAR, INF, Interval, _meet, interval
from symbolic.text import text

_PROPAGATION: Final = 3         # how far a new bound is carried from fact to fact
_UNKNOWN: Interval = (-INF, INF)


class Facts:
    """A growing set of facts. A scope sees what its parent knows, now and later; the parent never sees the scope's."""

    __slots__ = ("parent", "narrows", "congruent", "linear", "_contradictory", "_ranges", "_residues", "_about_term",
                 "_about_quotient", "_read_stamp",
                 "_relations", "_excluded", "_version", "_depth", "_stamp", "_own_engine", "_own")

    def __init__(self, parent: Facts | None = None) -> None:
        self.parent = parent
        self._ranges: dict[Int, Interval] = {}
        self._residues: dict[Int, tuple[int, int]] = {}
        self._about_term: dict[Int, list[tuple[Int, int]]] = {}
        self._about_quotient: dict[Int, list[tuple[Int, int]]] = {}
        self._read_stamp = -1
        self._relations: dict[Int, Int] = {}
        self._excluded: dict[Int, set[int]] = {}
        self._contradictory = False
        self._version = 0
        self._stamp = -1
        self._depth = 0
        self._own_engine: Engine | None = None
        self._own = False
        # What kinds of fact there are at all, here or above: questions that need none of a kind skip it.
        self.narrows = self.congruent = self.linear = False

    def scope(self) -> Facts:
        """A child: facts added to it do not hold here."""
        return Facts(self)

    # ---- adding ---------------------------------------------------------------------------------------------------

    def bound(self, symbol: Int, lo: Like | None, hi: Like | None) -> None:
        """`lo <= symbol < hi`; None for no bound."""
        symbol = to_int(symbol)
        if isinstance(lo, int) and symbol.op is SYMBOL:
            self._narrow(symbol, lo, INF)
        elif lo is not None:
            self.assume(le(lo, symbol))
        if isinstance(hi, int) and symbol.op is SYMBOL:
            self._narrow(symbol, -INF, hi - 1)
        elif hi is not None:
            self.assume(lt(symbol, hi))

    def divisible(self, expr: Int, by: int) -> None:
        """`expr % by == 0`."""
        self.assume(eq(to_int(expr) % by, 0))

    def assume(self, relation: Like) -> None:
        """`relation` holds: a comparison, `land`, `lor`; any other expression is taken as `!= 0`."""
        self._record(self._engine().canon(truth(relation)))

    def _record(self, e: Int) -> None:
        if e.op is CONST:
            if not e.value:
                self._contradictory = True
                self._changed()
            return
        if e.op is LAND:
            for x in e.args:
                self.assume(x)
            return
        self._relations[e] = integers.ONE
        self._relations[integers.lnot(e)] = integers.ZERO
        engine = self._engine()
        if e.op is LT:
            self._record_nonnegative(engine.canon(add(sub(e.args[1], e.args[0]), MINUS_ONE)))
        elif e.op is LE:
            self._record_nonnegative(engine.canon(sub(e.args[1], e.args[0])))
        elif e.op is EQ and not self._record_residue(e):
            difference = engine.canon(sub(e.args[1], e.args[0]))
            self._record_nonnegative(difference)
            self._record_nonnegative(scale(difference, -1))
        elif e.op is NE and e.args[1].op is CONST:
            x, value = engine.canon(e.args[0]), e.args[1].value
            lo, hi = interval(engine, x)
            self._excluded.setdefault(x, set()).add(value)
            if value == lo: self._narrow(x, lo + 1, INF)
            if value == hi: self._narrow(x, -INF, hi - 1)
        self._changed()

    def _record_residue(self, e: Int) -> bool:
        """`x % d == r` for numbers d and r."""
        m, r = e.args
        if m.op is not FLOORMOD or m.args[1].op is not CONST or r.op is not CONST or m.args[1].value <= 0:
            return False
        x, d = self._engine().canon(m.args[0]), m.args[1].value
        residue = r.value
        terms = terms_of(x)
        if len(terms) == 1 and next(iter(terms.values())) == 1:
            residue -= constant_of(x)
            x = next(iter(terms))
        self._residues[x] = _meet(self._congruence(x), (d, residue % d))
        self.congruent = True
        return True

    def _record_nonnegative(self, g: Int) -> None:
        """`g >= 0` for a canonical g: each term is bounded by the others, and the whole is kept when it has several."""
        terms = terms_of(g)
        if len(terms) > 1:
            for t, c in terms.items():
                self._about_term.setdefault(t, []).append((g, c))
            self.linear = True
        self._bound_terms(g)
        for t, c in terms.items():
            if t.op is MIN and c > 0 or t.op is MAX and c < 0:
                for a in t.args:
                    self._record_nonnegative(add(sub(g, scale(t, c)), scale(a, c)))

    def _bound_terms(self, g: Int) -> None:
        """Each term of `g >= 0` is bounded by what the others can be at most."""
        engine = self._engine()
        terms = terms_of(g)
        ends = {t: interval(engine, t) for t in terms}
        slack = constant_of(g) + sum([max(c * ends[t][0], c * ends[t][1]) for t, c in terms.items()])
        for t, c in terms.items():
            others = slack - max(c * ends[t][0], c * ends[t][1])
            if abs(others) < _FAR:
                if c > 0 and -(others // c) > ends[t][0]:
                    self._narrow(t, -(others // c), INF)
                elif c < 0 and others // -c < ends[t][1]:
                    self._narrow(t, -INF, others // -c)

    def _narrow(self, x: Int, lo: int, hi: int) -> None:
        if x.op is not SYMBOL:
            terms = terms_of(x)
            if len(terms) == 1 and (x not in terms or x.op is CONST):
                (t, c), = terms.items()
                lo, hi = lo - constant_of(x), hi - constant_of(x)
                lo, hi = (-(-lo // c), hi // c) if c > 0 else (-(-hi // c), lo // c)
                self._narrow(t, lo, hi)
                return
            self.narrows = True
        a, b = self._interval(x)
        if lo <= a and b <= hi:
            return
        lo, hi = self._ranges[x] = max(lo, a), min(hi, b)
        self._changed()
        if lo > hi:
            self._contradictory = True
        elif self._depth < _PROPAGATION:
            self._depth += 1
            for g, _ in self._about(x):
                self._bound_terms(g)
            self._depth -= 1

    def _changed(self) -> None:
        self._version += 1
        self._own = True

    # ---- asking ---------------------------------------------------------------------------------------------------

    def bounds(self, expr: Int) -> tuple[int | None, int | None]:
        """The least and the greatest value that `expr` may have, both inclusive; None for no bound known."""
        engine = self._engine()
        lo, hi = interval(engine, engine.canon(to_int(expr)))
        return (None if lo <= -_FAR else lo), (None if hi >= _FAR else hi)

    def prove(self, relation: Like) -> bool | None:
        """True or False when the facts decide `relation`, else None."""
        decided = self._engine().canon(truth(relation))
        return bool(decided.value) if decided.op is CONST else None

    @property
    def contradictory(self) -> bool:
        """No assignment meets the facts, as far as can be seen: code under them is dead."""
        return self._contradictory or self.parent is not None and self.parent.contradictory

    def simplify(self, expr: Int) -> Int:
        """An equal expression within the facts, with the least work known."""
        return self._engine().simplify(to_int(expr))

    def explain(self, expr: Int, names: Mapping[Int, str] | None = None) -> str:
        """The rows of the rule table that fired on `expr`, one a line, with what they made and their condition.

        `names` overrides how symbols are shown.
        """
        def shown(e: Int) -> str:
            return text(e, names)

        engine = Engine(self)
        self._engine_here()
        engine.log = []
        result = engine.simplify(to_int(expr))
        lines = [shown(to_int(expr))]
        for rule, before, after, bound in engine.log:
            given = ", ".join(f"{name} = {shown(bound[name])}" for name in rule.variables)
            lines.append(f"  {shown(before)} -> {shown(after)}\n      {rule}\n      with {given}")
        return "\n".join([*lines, shown(result)])

    # ---- what the engine asks ---------------------------------------------------------------------------------------

    def _engine(self) -> Engine:
        """The engine to ask; a scope without facts of its own shares its parent's, and the memos with it."""
        facts = self
        while not facts._own and facts.parent is not None:
            facts = facts.parent
        return facts._engine_here()

    def _engine_here(self) -> Engine:
        stamp = 0
        facts: Facts | None = self
        while facts is not None:
            stamp += facts._version
            facts = facts.parent
        engine = self._own_engine
        if engine is None:
            engine = self._own_engine = Engine(self)
        if stamp != self._stamp:
            self._stamp = stamp
            engine.clear()
            if self.parent is not None:
                self.parent._engine_here()
                self.narrows |= self.parent.narrows
                self.congruent |= self.parent.congruent
                self.linear |= self.parent.linear
        return engine

    def _interval(self, x: Int) -> Interval:
        lo, hi = self._ranges.get(x, _UNKNOWN)
        facts: Facts | None = self.parent
        while facts is not None:
            a, b = facts._ranges.get(x, _UNKNOWN)
            if a > lo: lo = a
            if b < hi: hi = b
            facts = facts.parent
        facts = self
        while facts is not None:
            if facts._excluded and x in facts._excluded:
                while lo in facts._excluded[x]: lo += 1
                while hi in facts._excluded[x]: hi -= 1
            facts = facts.parent
        if self.congruent:
            m, r = self._congruence(x)
            if m > 1:                       # the ends of the class inside
                if lo > -INF: lo += (r - lo) % m
                if hi < INF: hi -= (hi - r) % m
        return lo, hi

    def _congruence(self, x: Int) -> tuple[int, int]:
        found = self._residues.get(x, (1, 0))
        return found if self.parent is None else _meet(found, self.parent._congruence(x))

    def _about(self, x: Int) -> list[tuple[Int, int]]:
        """The facts `g >= 0` in which `x` is a term, with its coefficient, the nearest scope first."""
        if self.congruent and self._read_stamp != self._stamp:
            self._read_quotients()
        own = self._about_term.get(x, []) + self._about_quotient.get(x, [])
        facts = self.parent
        while facts is not None:
            own = own + facts._about_term.get(x, [])
            facts = facts.parent
        return own

    def _read_quotients(self) -> None:
        """What a residue makes of the quotients in older facts: `b < (n + 255)//256` says `b < n//256` once 256 divides n."""
        engine = self._engine_here()
        self._read_stamp = self._stamp
        self._about_quotient = {}
        known: dict[Int, None] = {}
        facts: Facts | None = self
        while facts is not None:
            known.update((g, None) for t, about in facts._about_term.items() if t.op is FLOORDIV for g, _ in about)
            facts = facts.parent
        for g in known:
            read = engine.canon(g)
            if read is not g:
                for t, c in terms_of(read).items():
                    self._about_quotient.setdefault(t, []).append((read, c))
        engine.clear()              # what was decided on the way did not know these

    def _known(self, relation: Int) -> Int:
        """The relation, or its value where it was assumed."""
        facts: Facts | None = self
        while facts is not None:
            found = facts._relations.get(relation)
            if found is not None:
                return found
            facts = facts.parent
        return relation

