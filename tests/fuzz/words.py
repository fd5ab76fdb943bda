"""int32: does `simplify` name a value that is no int32 where the expression as written names none?

Both texts are computed operator by operator at points of large ranges and of their ends, and every value on the way
counts. A sum or product of whatever depth is one operation: machines add and multiply modulo 2**32, so that only what is
combined and what comes out matter, in whatever order that is done and like terms are collected.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from typing import Any

from symbolic import Facts, Int, Symbol, text
from tests.fuzz.simplify import Grower

WORD = 1 << 31
POINTS = 24


class Overflow(Exception):
    """A value on the way is no int32."""


def computed(node: ast.AST, at: dict[str, int]) -> int:
    """The value of parsed Python text, each step checked. Raises Overflow, ZeroDivisionError."""
    match node:
        case ast.Expression(body=body): return computed(body, at)
        case ast.Name(id=name): value = at[name]
        case ast.Constant(value=v): value = int(v)      # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=v)): value = -int(v)     # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.USub()) | ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()): value = combined(node, at)
        case ast.BinOp(left=a, op=op, right=b): value = _BINARY[type(op)](computed(a, at), computed(b, at))
        case ast.Compare(left=a, ops=[op], comparators=[b]): value = int(_COMPARE[type(op)](computed(a, at), computed(b, at)))
        case ast.BoolOp(op=ast.And(), values=xs): value = min([int(computed(x, at) != 0) for x in xs])
        case ast.BoolOp(op=ast.Or(), values=xs): value = max([int(computed(x, at) != 0) for x in xs])
        case ast.IfExp(test=c, body=a, orelse=b): value = computed(a if computed(c, at) else b, at)
        case ast.Call(func=ast.Name(id=name), args=args): value = _CALL[name](*[computed(x, at) for x in args])
        case _: raise NotImplementedError(ast.dump(node))
    if not -WORD <= value < WORD:
        raise Overflow(f"{ast.unparse(node)} = {value}")
    return value


def combined(node: ast.AST, at: dict[str, int]) -> int:
    """A sum or product of whatever depth: what is combined is looked at, and by the caller the total."""
    match node:
        case ast.BinOp(left=a, op=ast.Add(), right=b): return combined(a, at) + combined(b, at)
        case ast.BinOp(left=a, op=ast.Sub(), right=b): return combined(a, at) - combined(b, at)
        case ast.BinOp(left=a, op=ast.Mult(), right=b): return combined(a, at) * combined(b, at)
        case ast.UnaryOp(op=ast.USub(), operand=a) if not isinstance(a, ast.Constant): return -combined(a, at)
    return computed(node, at)


def _truncdiv(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[Any, Callable[[int, int], int]] = {
    ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b,
    ast.BitAnd: lambda a, b: a & b, ast.BitOr: lambda a, b: a | b, ast.BitXor: lambda a, b: a ^ b,
}
_COMPARE: dict[Any, Callable[[int, int], bool]] = {
    ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b,
}
_CALL: dict[str, Callable[..., int]] = {
    "min": min, "max": max, "abs": abs, "truncdiv": _truncdiv, "truncmod": lambda a, b: a - b * _truncdiv(a, b),
}


def world(rng: random.Random) -> tuple[Facts, list[Int], list[tuple[int, int]]]:
    facts, symbols, ranges = Facts(), [Symbol(n) for n in "ijkn"], []
    for s in symbols:
        hi = rng.choice((8, 64, 1 << 10, 1 << 16, 1 << 24, 1 << 28, WORD // 16, WORD // 3, WORD, WORD, WORD))
        lo = rng.choice((0, 0, 0, 0, 1, -hi, -hi // 2, -3))
        if s is symbols[3]: lo = 1
        ranges.append((lo, hi))
        facts.bound(s, lo if rng.random() < 0.9 else None, hi if hi < WORD or rng.random() < 0.5 else None)
    return facts, symbols, ranges


def drawn(rng: random.Random, lo: int, hi: int) -> int:
    kind = rng.random()
    if kind < 0.2: return hi - 1 - min(rng.randrange(40), hi - 1 - lo)
    if kind < 0.4: return lo + min(rng.randrange(40), hi - 1 - lo)
    if kind < 0.6: return max(lo, min(hi - 1, rng.choice((-1, 1)) * (1 << rng.randrange(31)) + rng.randint(-3, 3)))
    return rng.randrange(lo, hi)


def check(count: int, seed: int = 0) -> dict[str, int]:
    """Raises AssertionError with the expression, the point and the value that left int32. Returns what was counted."""
    seen = {"expressions": 0, "points": 0}
    for number in range(count):
        rng = random.Random(f"words {seed}/{number}")
        facts, symbols, ranges = world(rng)
        e = Grower(rng, symbols).grow(rng.randint(1, 7))
        where = f"case {seed}/{number}: {e!r}   with {dict(zip('ijkn', ranges))}"
        try:
            s = facts.simplify(e)
        except Exception as error:
            raise AssertionError(f"{where}: {error!r}") from error
        seen["expressions"] += 1
        if s is e:
            continue
        before, after = (ast.parse(text(x), mode="eval") for x in (e, s))
        for _ in range(POINTS):
            at = {x.name: drawn(rng, lo, hi) for x, (lo, hi) in zip(symbols, ranges)}
            try:
                want = computed(before, at)
            except (Overflow, ZeroDivisionError):
                continue
            where_now = f"{where}\n  gave {s!r}\n  at {at}"
            try:
                got = computed(after, at)
            except Overflow as error:
                raise AssertionError(f"{where_now}: {error}") from error
            assert got == want, f"{where_now}: {got}, not {want}"
            seen["points"] += 1
    return seen
