"""Index arithmetic and conditions in CUDA C++: `symbolic.text`'s printer with C's operators, and with C's types minded.

An `Int` is exact; C computes in the types of the operands. `words` chooses the type for a whole expression. Atoms that do not
have its signedness are cast, so that no unsigned conversion changes what is meant; where it has 64 bits, a sum or product
of 32-bit operands that may leave 32 bits is widened at its first operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

from codegen.cuda import fragments as fr
from codegen.cuda.fragments import PRIMARY, UNARY, Fragment
from codegen.cuda.helpers import Needs
from codegen.cuda.literals import integer
from codegen.words import WORDS, Typing, choose_word, promoted
from symbolic import integers as si
from symbolic.integers import Int
from symbolic.text import Piece, Printer

_C_NAMES = {"int32": "int", "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long"}
_FLIPPED = {si.LT: ">", si.LE: ">="}


@dataclass(frozen=True, slots=True)
class Context:
    """What writing an expression needs: its atoms' texts and dtypes, what is known of them, where helpers are noted.

    `extents` are the atoms that are the same for all threads.
    """

    text: Callable[[Int], Fragment]
    typing: Typing
    needs: Needs
    extents: Set[Int] = frozenset()

    def word(self, e: Int, wanted: str | None) -> str:
        """The C type that `e` is computed in; see `words`."""
        found = choose_word(e, wanted, self.typing)
        assert found is not None, "the schedule keeps expressions that no type can compute from being written"
        return found


def write_integer(e: Int, wanted: str | None, context: Context, *, typed: bool = False) -> Fragment:
    """`e` as C++, with the meaning of dtype `wanted` (None: an index, or anything else that converts by itself).

    `typed` adds a cast where C's type for it would be another one than `wanted`.
    """
    if e.op is si.CONST:
        return _constant(e.value, wanted, typed)
    made = context.text(e) if e.op is si.SYMBOL else Fragment(*_CPrinter(context.word(e, wanted), context).piece(e))
    if typed and wanted and c_kind(e, wanted, context) != promoted(wanted):
        return fr.cast(_C_NAMES[promoted(wanted)], made)
    return made


def _constant(value: int, wanted: str | None, typed: bool) -> Fragment:
    if wanted == "bool":
        return Fragment("true" if value else "false", PRIMARY)
    return integer(value, wanted or "int32", typed=typed)


def c_kind(e: Int, wanted: str | None, context: Context) -> str:
    """The type that C gives to what `write_integer` writes."""
    return context.typing.kind(e) if e.op is si.SYMBOL else _CPrinter(context.word(e, wanted), context).kind(e)


class _CPrinter(Printer):
    PRECEDENCE: ClassVar[Mapping[str, int]] = {
        "select": fr.CONDITIONAL, si.LOR: fr.LOGICAL_OR, si.LAND: fr.LOGICAL_AND, "not": UNARY, si.LT: fr.RELATIONAL,
        si.LE: fr.RELATIONAL, si.EQ: fr.EQUALITY, si.NE: fr.EQUALITY, si.OR: fr.BIT_OR, si.XOR: fr.BIT_XOR, si.AND: fr.BIT_AND,
        si.SHL: fr.SHIFT, si.SHR: fr.SHIFT, "+": fr.ADDITIVE, "*": fr.MULTIPLICATIVE, "-": UNARY,
    }

    def __init__(self, word: str, context: Context) -> None:
        super().__init__()
        self.word = word
        self.context = context
        self.typing = context.typing

    def piece(self, e: Int) -> Piece:
        # CUDA has no `abs` of unsigned values.
        return super().piece(e.args[0] if e.op is si.ABS and self._is_nonnegative(e.args[0]) else e)

    # ---- types

    def kind(self, e: Int) -> str:
        """The C type of `e` as it is written here."""
        if e.op is si.SYMBOL:
            return self._written(self.typing.kind(e))
        if e.op is si.CONST:
            return "int32" if self.typing.fits(e, "int32") else self.word
        if e.op in si.RELATIONS:
            return "int32"
        if self._widens(e) or e.op in (si.MIN, si.MAX):
            return self.word
        return max((self.kind(a) for a in (e.args[1:] if e.op is si.SELECT else e.args)), key=WORDS.index)

    def _written(self, kind: str) -> str:
        """The type of an atom of C type `kind` once it is cast, if it needs to be."""
        needs_cast = {"int32": ("uint32", "int64", "uint64"), "uint32": (), "int64": ("uint32", "uint64"), "uint64": ()}[self.word]
        return self.word if kind in needs_cast else kind

    def _widens(self, e: Int) -> bool:
        """Whether `e`, none of whose operands has the word's type, may not fit `int`."""
        if self.word == "int32" or e.op not in (si.SUM, si.PRODUCT, si.SHL) or self._has_wide(e):
            return False
        return not self.typing.fits(e, "int32")

    def _has_wide(self, e: Int) -> bool:
        return any(self.kind(a) == self.word for a in e.args)

    def _cast(self, piece: Piece) -> Piece:
        return f"({_C_NAMES[self.word]}){self.enclosed(piece, UNARY)}", UNARY

    def exactly(self, e: Int) -> str:
        """`e` in the word's own type, as the argument of an overloaded function."""
        if e.op is si.CONST:
            return integer(e.value, self.word, typed=True).text
        piece = self.piece(e)
        return piece[0] if self.kind(e) == self.word else self._cast(piece)[0]

    # ---- leaves

    def symbol(self, e: Int) -> Piece:
        piece: Piece = self.context.text(e)
        kind = self.typing.kind(e)
        return piece if self._written(kind) == kind else self._cast(piece)

    def number(self, value: int) -> Piece:
        return integer(value, self.word)

    # ---- arithmetic

    def sum(self, e: Int) -> Piece:
        """Terms by falling stride, extents counting as long strides; the positive ones first so that no sign leads."""
        if e.value == -1 and e.coefs == (-1,):
            return fr.prefix("~", Fragment(*self.piece(e.args[0])))     # -x - 1, which would overflow for the least x
        terms = sorted(zip(e.args, e.coefs), key=lambda tc: (tc[1] < 0, -self._extents_in(tc[0]), -abs(tc[1]),
                                                             -len(si.factors_of(tc[0])), tc[0].key))
        # C adds from the left: with three terms, the first two may overflow before a wide one comes.
        crowded = self.word != "int32" and len(terms) + (e.value != 0) > 2 and not self.typing.fits(e, "int32")
        widen = self._widens(e) or crowded
        made: Fragment | None = None
        if e.value > 0 and all(c < 0 for _, c in terms):
            made = integer(e.value, self.word, typed=widen)
        for t, c in terms:
            if made is None:
                made = Fragment(*self._product(t, c, widen))
            else:
                made = fr.infix(made, "+" if c > 0 else "-", Fragment(*self._product(t, abs(c), False)))
        assert made is not None
        if e.value < 0 or any(c > 0 for _, c in terms) and e.value:
            made = fr.infix(made, "+" if e.value > 0 else "-", integer(abs(e.value), self.word))
        return made

    def product(self, e: Int, c: int) -> Piece:
        return self._product(e, c, False)

    def _product(self, e: Int, c: int, widen: bool) -> Fragment:
        """`e * c`, extents behind what they are the stride of; its first factor is widened if asked or needed."""
        factors = sorted(si.factors_of(e), key=lambda f: (self._extents_in(f), f.op is si.SUM))
        widen = (widen or self._widens(e) or self._widens(si.scale(e, c))) and not any(self.kind(f) == self.word for f in factors)
        made = Fragment(*(self._cast(self.piece(factors[0])) if widen else self.piece(factors[0])))
        if c < 0 and len(factors) == 1:
            made = fr.prefix("-", made)
        for f in factors[1:]:
            made = fr.infix(made, "*", Fragment(*self.piece(f)))
        factor = -c if c < 0 and len(factors) == 1 else c
        return made if factor == 1 else fr.infix(made, "*", integer(factor, self.word))

    def _extents_in(self, e: Int) -> int:
        """How many factors of `e` are extents or scalar arguments."""
        return sum(f in self.context.extents for f in si.factors_of(e))

    def floordiv(self, e: Int) -> Piece:
        a, b = e.args
        if self._is_nonnegative(a) and self._is_nonnegative(b) or self.typing.facts.prove(si.eq(si.floormod(a, b), 0)):
            return self._binary(a, "/", b)
        if b.op is si.CONST and b.value > 0 and b.value & (b.value - 1) == 0:
            return fr.infix(Fragment(*self.piece(a)), ">>", integer(b.value.bit_length() - 1))
        return self._helper("floordiv", a, b)

    def floormod(self, e: Int) -> Piece:
        a, b = e.args
        if self._is_nonnegative(a) and self._is_nonnegative(b):
            return self._binary(a, "%", b)
        if b.op is si.CONST and b.value > 0 and b.value & (b.value - 1) == 0:
            return fr.infix(Fragment(*self.piece(a)), "&", integer(b.value - 1))
        return self._helper("floormod", a, b)

    def truncated(self, e: Int) -> Piece:
        return self._binary(e.args[0], "/" if e.op is si.TRUNCDIV else "%", e.args[1])

    def _binary(self, a: Int, sign: str, b: Int) -> Piece:
        return fr.infix(Fragment(*self.piece(a)), sign, Fragment(*self.piece(b)))

    def _helper(self, name: str, a: Int, b: Int) -> Piece:
        self.context.needs.helper(f"{name}_{'int64' if self.word in ('int64', 'uint64') else 'int32'}")
        return f"{name}({self.exactly(a)}, {self.exactly(b)})", PRIMARY

    def _is_nonnegative(self, e: Int) -> bool:
        if self.word in ("uint32", "uint64"):
            return True     # an unsigned word is chosen only where every operand of a division has its range
        low, _ = self.typing.facts.bounds(e)
        return low is not None and low >= 0

    # ---- the rest

    def bits(self, e: Int) -> Piece:
        first, *others = e.args
        piece = self.piece(first)
        made = Fragment(*(self._cast(piece) if e.op is si.SHL and self._widens(e) else piece))
        for a in others:
            made = fr.infix(made, e.op, Fragment(*self.piece(a)))
        return made

    def connective(self, e: Int) -> Piece:
        made = Fragment(*self.piece(e.args[0]))
        for a in e.args[1:]:
            made = fr.infix(made, "&&" if e.op is si.LAND else "||", Fragment(*self.piece(a)))
        return made

    def extremum(self, e: Int) -> Piece:
        text = self.exactly(e.args[0])
        for a in e.args[1:]:
            text = f"{e.op}({text}, {self.exactly(a)})"
        return text, PRIMARY

    def select(self, e: Int) -> Piece:
        condition, a, b = (Fragment(*self.piece(x)) for x in e.args)
        made = fr.ternary(condition, a, b)
        return made.text, made.precedence

    def relation(self, e: Int) -> Piece:
        a, b = e.args
        if a.op is si.SYMBOL and self.typing.dtype(a) == "bool" and b in (si.ZERO, si.ONE) and e.op in (si.EQ, si.NE):
            return self.symbol(a) if (e.op is si.NE) == (b is si.ZERO) else ("!" + self.operand(a, UNARY), UNARY)
        sign = e.op
        if a.op is si.CONST and sign in _FLIPPED:
            a, b, sign = b, a, _FLIPPED[sign]
        return fr.infix(Fragment(*self.piece(a)), sign, Fragment(*self.piece(b)))
