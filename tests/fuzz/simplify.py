"""Random integer expressions under random facts: is `simplify` right, idempotent, safe in int32, and the same everywhere?

    check(count, seed)      raises AssertionError with the expression, the facts and the point that failed
    digest(count, seed)     a hash of all texts, to compare between processes with different PYTHONHASHSEED
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from symbolic import (
    Facts,
    Int,
    Symbol,
    absolute,
    const,
    eq,
    evaluate,
    land,
    le,
    lor,
    lt,
    maximum,
    minimum,
    ne,
    operations_count,
    select,
    text,
    truncdiv,
    truncmod,
)

CONSTANTS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 24, 31, 32, 64, 255, -1, -2, -3, -4, -8)
DIVISORS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64, -1, -2, -3, -4, -8)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 64)
POINTS = 160


Draw: TypeAlias = "Callable[[np.random.Generator, np.ndarray], np.ndarray]"     # from the dice and the values of n


class World:
    """Some symbols with what is known of them, and points that meet it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.symbols = [Symbol(n) for n in "ijkn"]
        self.facts = Facts()
        self.said: list[str] = []
        self.draws: list[Draw] = []
        i, j, k, n = self.symbols
        step = rng.choice((1, 1, 2, 4, 8, 16, 6))
        late = rng.random() < 0.3           # the residue of n may be learnt after what is bounded by n
        self.size(n, step, late)
        self.index(i, n)
        self.index(j, n)
        self.index(k, n)
        if late and step > 1:
            self.facts.divisible(n, step)

    def size(self, n: Int, step: int, late: bool) -> None:
        rng = self.rng
        self.facts.bound(n, 1, None)
        if step > 1 and not late:
            self.facts.divisible(n, step)
        self.said.append(f"1 <= n, n % {step} == 0")
        top = rng.choice((4, 12, 40))
        self.draws.append(lambda dice, size: step * dice.integers(1, top + 1, POINTS))

    def index(self, s: Int, n: Int) -> None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.55:
            lo, hi = 0, rng.choice(EXTENTS)
        elif kind < 0.7:
            lo = rng.randint(-20, 5)
            hi = lo + rng.choice(EXTENTS)
        elif kind < 0.8:
            tile = rng.choice((2, 4, 8, 16))
            self.facts.bound(s, 0, (n + tile - 1) // tile)
            self.said.append(f"0 <= {s.name} < (n + {tile - 1})//{tile}")
            self.draws.append(lambda dice, size: dice.integers(0, -(-size // tile)))
            return
        elif kind < 0.9:
            self.facts.bound(s, 0, n)
            self.said.append(f"0 <= {s.name} < n")
            self.draws.append(lambda dice, size: dice.integers(0, size))
            return
        else:
            self.said.append(f"{s.name} any")
            self.draws.append(lambda dice, size: dice.integers(-70, 71, POINTS))
            return
        self.facts.bound(s, lo, hi)
        self.said.append(f"{lo} <= {s.name} < {hi}")
        self.draws.append(lambda dice, size: dice.integers(lo, hi, POINTS))

    def points(self) -> dict[Int, np.ndarray]:
        """POINTS values of each symbol, within the facts."""
        i, j, k, n = self.symbols
        dice = np.random.default_rng(self.rng.getrandbits(64))
        first, *others = self.draws
        size = first(dice, np.ones(POINTS, np.int64))
        return {n: size, **{s: draw(dice, size) for s, draw in zip((i, j, k), others)}}


class Grower:
    """Grows an expression of a given number of operators."""

    def __init__(self, rng: random.Random, symbols: list[Int]) -> None:
        self.rng, self.symbols = rng, symbols

    def leaf(self) -> Int:
        return const(self.rng.choice(CONSTANTS)) if self.rng.random() < 0.2 else self.rng.choice(self.symbols)

    def grow(self, size: int) -> Int:
        rng = self.rng
        if size <= 0:
            return self.leaf()
        left = rng.randint(0, size - 1)
        a = self.grow(left)
        kind = rng.random()
        if kind < 0.03: return self.relation(size)
        if kind < 0.22: return a * rng.choice(CONSTANTS) + self.grow(size - 1 - left)
        if kind < 0.34: return a + self.grow(size - 1 - left)
        if kind < 0.42: return a - self.grow(size - 1 - left)
        if kind < 0.57: return a // rng.choice(DIVISORS)
        if kind < 0.72: return a % rng.choice(DIVISORS)
        if kind < 0.75: return a // self.symbols[3]
        if kind < 0.78: return a % self.symbols[3]
        if kind < 0.80: return a * self.grow(size - 1 - left)
        if kind < 0.83: return minimum(a, self.grow(size - 1 - left))
        if kind < 0.86: return maximum(a, self.grow(size - 1 - left))
        if kind < 0.90: return select(self.relation(size // 2), a, self.grow(size - 1 - left))
        if kind < 0.92: return a >> rng.randint(0, 5)
        if kind < 0.93: return a << rng.randint(0, 4)
        if kind < 0.95: return a & rng.choice((1, 3, 7, 15, 24, 31, 56, -8))
        if kind < 0.97: return a ^ self.grow(size - 1 - left)
        if kind < 0.98: return a | self.grow(size - 1 - left)
        if kind < 0.985: return absolute(a)
        if kind < 0.99: return truncdiv(a, rng.choice(DIVISORS))
        if kind < 0.993: return truncmod(a, rng.choice(DIVISORS))
        if kind < 0.996:
            b = self.grow(size - 1 - left)
            return maximum(a, b) + minimum(a, b)
        return self.relation(size)

    def relation(self, size: int) -> Int:
        rng = self.rng
        kind = rng.random()
        if size > 1 and kind < 0.15:
            return rng.choice((land, lor))(self.relation(size // 2), self.relation(size // 2))
        a, b = self.grow(size // 2), self.grow((size - 1) // 2)
        return rng.choice((lt, le, eq, ne))(a, b)


def cases(count: int, seed: int) -> Any:
    """(world, expression) pairs, the same for one seed in every process."""
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        world = World(rng)
        grower = Grower(rng, world.symbols)
        if rng.random() < 0.2:
            relation = grower.relation(2)
            world.facts.assume(relation)
            world.said.append(text(relation))
            yield number, world, grower.grow(rng.randint(1, 9)), relation
        else:
            yield number, world, grower.grow(rng.randint(1, 9)), None


def check(count: int, seed: int = 0) -> dict[str, int]:
    """Simplify `count` expressions and compare at points within the facts. Returns what was counted."""
    seen = {"expressions": 0, "points": 0, "operators before": 0, "operators after": 0}
    for number, world, e, assumed in cases(count, seed):
        where = f"case {seed}/{number}: {e!r}   given {'; '.join(world.said)}"
        try:
            s = world.facts.simplify(e)
        except Exception as error:
            raise AssertionError(f"{where}: {error!r}") from error
        points = world.points()
        with np.errstate(divide="ignore", over="ignore"):
            met = np.ones(POINTS, bool) if assumed is None else np.broadcast_to(evaluate(assumed, points), POINTS) != 0
            want, got = (np.broadcast_to(evaluate(x, points), POINTS) for x in (e, s))
        bad = np.flatnonzero(met & (want != got))
        if len(bad):
            at = {x.name: int(points[x][bad[0]]) for x in world.symbols}
            raise AssertionError(f"{where}\n  gave {s!r}\n  at {at}: {got[bad[0]]}, not {want[bad[0]]}")
        if world.facts._engine().canonical and not met.any():
            continue
        lo, hi = world.facts.bounds(e)
        inside = want[met]
        assert lo is None or (inside >= lo).all(), f"{where}: bounds {lo}, {hi} miss {inside.min()}"
        assert hi is None or (inside <= hi).all(), f"{where}: bounds {lo}, {hi} miss {inside.max()}"
        world.facts._own_engine = None
        again = world.facts.simplify(s)
        assert again is s, f"{where}\n  gave {s!r}\n  then {again!r}"
        assert operations_count(s) <= operations_count(e), f"{where}\n  gave {s!r}"
        seen["expressions"] += 1
        seen["points"] += len(inside)
        seen["operators before"] += operations_count(e)
        seen["operators after"] += operations_count(s)
    return seen


def digest(count: int, seed: int = 0) -> str:
    """One hash of the texts of `count` simplified expressions."""
    h = hashlib.sha256()
    for _, world, e, _ in cases(count, seed):
        h.update(f"{text(e)}={text(world.facts.simplify(e))}\n".encode())
    return h.hexdigest()


def check_steps(count: int, seed: int = 0) -> dict[str, int]:
    """Every row that fires, as bound: its condition holds, its sides have the values before and after. Returns the firings."""
    from symbolic.engine import Engine
    from symbolic.rules import compile_side
    from tests.symbolic.proofs import Arrays

    fired: dict[str, int] = {}
    for number, world, e, assumed in cases(count, seed):
        points = world.points()
        with np.errstate(divide="ignore", over="ignore"):
            met = np.ones(POINTS, bool) if assumed is None else np.broadcast_to(evaluate(assumed, points), POINTS) != 0
            world.facts._engine_here()
            engine = Engine(world.facts)
            engine.log = []
            engine.simplify(e)
            for rule, before, after, bound in engine.log:
                where = f"case {seed}/{number}: {e!r}   given {'; '.join(world.said)}\n  {before!r} -> {after!r}\n" \
                        f"  {rule}\n  {bound}"
                values = {n: np.broadcast_to(evaluate(bound[n], points), POINTS) for n in rule.variables}
                left, right, condition = Arrays(), Arrays(), Arrays()
                when = compile_side(rule.when or "1", rule.variables)(condition, **values)
                sides = rule.build_left(left, **values), rule.build_right(right, **values)
                live = met & ~np.broadcast_to(left.undefined, POINTS)
                assert np.all(np.broadcast_to(when != 0, POINTS)[live]), f"condition of {where}"
                for side, node in zip(sides, (before, after)):
                    assert np.all(np.broadcast_to(side == evaluate(node, points), POINTS)[live]), f"{node!r} in {where}"
                fired[rule.name] = fired.get(rule.name, 0) + 1
    return fired
