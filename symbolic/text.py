"""One precedence-driven printer. `text` prints Python; a printer for another language overrides a few methods.

Every method returns (string, precedence), the precedence being that of the outermost operator in the language printed.
A printer for C overrides `PRECEDENCE`, `floordiv`, `floormod`, `extremum`, `select`, `bits`, ... and `symbol`; `operand` adds the
parentheses that the precedences call for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

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
    factors_of,
    to_int,
)

Piece: TypeAlias = tuple[str, int]

ATOM = 100
_FLIPPED = {LT: ">", LE: ">="}


class Printer:
    """Prints an `Int` as Python. `names` gives the name to show for a symbol, where it is not its own."""

    PRECEDENCE: ClassVar[Mapping[str, int]] = {
        "select": 1, LOR: 2, LAND: 3, "not": 4, LT: 5, LE: 5, EQ: 5, NE: 5, OR: 6, XOR: 7, AND: 8, SHL: 9, SHR: 9,
        "+": 10, "*": 11, "-": 12,
    }
    AND_WORD: ClassVar[str] = " and "
    OR_WORD: ClassVar[str] = " or "

    def __init__(self, names: Mapping[Int, str] | None = None) -> None:
        self.names = names or {}

    def text(self, e: Int) -> str:
        """The whole expression."""
        return self.piece(e)[0]

    def operand(self, e: Int, least: int) -> str:
        """`e` in parentheses if it binds weaker than `least`."""
        return self.enclosed(self.piece(e), least)

    @staticmethod
    def enclosed(piece: Piece, least: int) -> str:
        string, precedence = piece
        return string if precedence >= least else f"({string})"

    def piece(self, e: Int) -> Piece:
        """`e` and the precedence of its outermost operator."""
        op = e.op
        if op is CONST: return self.number(e.value)
        if op is SYMBOL: return self.symbol(e)
        if op is SUM: return self.sum(e)
        if op is PRODUCT: return self.product(e, 1)
        if op is FLOORDIV: return self.floordiv(e)
        if op is FLOORMOD: return self.floormod(e)
        if op is TRUNCDIV or op is TRUNCMOD: return self.truncated(e)
        if op is MIN or op is MAX: return self.extremum(e)
        if op is ABS: return f"abs({self.text(e.args[0])})", ATOM
        if op is SELECT: return self.select(e)
        if op in (AND, OR, XOR, SHL, SHR): return self.bits(e)
        if op is LAND or op is LOR: return self.connective(e)
        return self.relation(e)

    # ---- leaves ---------------------------------------------------------------------------------------------------

    def number(self, value: int) -> Piece:
        return str(value), ATOM if value >= 0 else self.PRECEDENCE["-"]

    def symbol(self, e: Int) -> Piece:
        return self.names.get(e, e.name), ATOM

    # ---- arithmetic -----------------------------------------------------------------------------------------------

    def sum(self, e: Int) -> Piece:
        """Terms by falling stride, the positive ones first so that no sign leads, the constant last."""
        level = self.PRECEDENCE["+"]
        ordered = sorted(zip(e.args, e.coefs), key=lambda tc: (tc[1] < 0, -abs(tc[1]), -len(factors_of(tc[0])), tc[0].key))
        constant = e.value
        if constant > 0 and ordered[0][1] < 0:
            out, constant = self.number(constant)[0], 0
        else:
            first = self.scaled(*ordered.pop(0))
            if not ordered and not constant:
                return first
            out = self.enclosed(first, level)
        for t, c in ordered:
            out += (" + " if c > 0 else " - ") + self.enclosed(self.scaled(t, abs(c)), level + 1)
        if constant:
            out += (" + " if constant > 0 else " - ") + self.number(abs(constant))[0]
        return out, level

    def scaled(self, t: Int, c: int) -> Piece:
        """`c * t`."""
        if c == 1:
            return self.piece(t)
        if c == -1:
            return "-" + self.operand(t, self.PRECEDENCE["-"]), self.PRECEDENCE["-"]
        if c < 0:
            level = self.PRECEDENCE["*"]
            return f"{self.number(c)[0]}*{self.operand(t, level + 1)}", level
        return self.product(t, c)

    def product(self, e: Int, c: int) -> Piece:
        level = self.PRECEDENCE["*"]
        first, *others = sorted(factors_of(e), key=lambda f: f.op is SUM)
        out = self.operand(first, level)
        star = self.joint("*", first)
        for f in others:
            out += star + self.operand(f, level + 1)
        return out + (f"{star}{c}" if c != 1 else ""), level

    def joint(self, operator: str, left: Int) -> str:
        """The operator with spaces after a remainder, which is spaced itself: `i % 4 * 8`, but `i*4`."""
        return f" {operator} " if left.op is FLOORMOD else operator

    def floordiv(self, e: Int) -> Piece:
        level = self.PRECEDENCE["*"]
        a, b = e.args
        return self.operand(a, level) + self.joint("//", self.last_factor(a)) + self.operand(b, level + 1), level

    def floormod(self, e: Int) -> Piece:
        level = self.PRECEDENCE["*"]
        a, b = e.args
        return f"{self.operand(a, level)} % {self.operand(b, level + 1)}", level

    @staticmethod
    def last_factor(e: Int) -> Int:
        """The remainder that a chain of multiplicative operators begins with, if it does."""
        while e.op is FLOORDIV or e.op is SUM and len(e.args) == 1 and not e.value:
            e = e.args[0]
        return e

    def truncated(self, e: Int) -> Piece:
        return f"{e.op}({self.text(e.args[0])}, {self.text(e.args[1])})", ATOM

    # ---- the rest -------------------------------------------------------------------------------------------------

    def extremum(self, e: Int) -> Piece:
        return f"{e.op}({', '.join(map(self.text, e.args))})", ATOM

    def select(self, e: Int) -> Piece:
        level = self.PRECEDENCE["select"]
        condition, a, b = e.args
        return f"{self.operand(a, level + 1)} if {self.operand(condition, level + 1)} else {self.operand(b, level)}", level

    def bits(self, e: Int) -> Piece:
        level = self.PRECEDENCE[e.op]
        out = self.operand(e.args[0], level)
        for a in e.args[1:]:
            out += f" {e.op} {self.operand(a, level + 1)}"
        return out, level

    def relation(self, e: Int) -> Piece:
        level = self.PRECEDENCE[e.op]
        a, b = e.args
        op = e.op
        if a.op is CONST and op in _FLIPPED:
            a, b, op = b, a, _FLIPPED[op]
        return f"{self.operand(a, level + 1)} {op} {self.operand(b, level + 1)}", level

    def connective(self, e: Int) -> Piece:
        level = self.PRECEDENCE[e.op]
        word = self.AND_WORD if e.op is LAND else self.OR_WORD
        return word.join([self.operand(a, level + 1) for a in e.args]), level


def text(e: Any, names: Mapping[Int, str] | None = None) -> str:
    """`e` as Python that evaluates to it: minimal parentheses, the outermost stride first, as in `i*8 + j + 64`.

    A SymPy expression is read by the bridge. `truncdiv` and `truncmod` print as calls; everything else is plain Python.
    `names` overrides how symbols are shown.
    """
    return Printer(names).text(to_int(e))
