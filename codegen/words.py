"""In which C type an exact integer expression can be computed, so that C's conversions and overflows change nothing.

One *word* is chosen for a whole expression: `int` wherever that is right, else `unsigned int` where all of it is arithmetic
modulo 2**32 of unsigned values, else 64 bits. Where no word will do (unsigned 64-bit values that a difference may make
negative), the expression is not used, and its operations are written one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from codegen.lowered import Lowered
from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from tracer import operations as ops
from tracer.ir import Node

WORDS = ("int32", "uint32", "int64", "uint64")      # C's integer types after promotion, by C's rank
_LIMITS = {"int32": (-(1 << 31), (1 << 31) - 1), "uint32": (0, (1 << 32) - 1), "int64": (-(1 << 63), (1 << 63) - 1),
           "uint64": (0, (1 << 64) - 1)}
_UNSIGNED = {"bool": 1, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
# Right in the low bits whatever the operands' high bits are.
_MODULAR = frozenset({si.SUM, si.PRODUCT, si.SYMBOL, si.CONST, si.AND, si.OR, si.XOR})
# In the range of an unsigned type where their operands (those at these positions) are.
_CLOSED: dict[str, slice] = {
    **dict.fromkeys((si.AND, si.OR, si.XOR, si.MIN, si.MAX, si.FLOORDIV, si.TRUNCDIV, si.TRUNCMOD), slice(None)),
    si.FLOORMOD: slice(1, 2), si.SELECT: slice(1, 3),
}
_INT_MAX = (1 << 31) - 1


def promoted(dtype: str) -> str:
    """The type that C computes with for a scalar integer or bool dtype."""
    return dtype if dtype in WORDS else "int32"


@dataclass(frozen=True, slots=True)
class Typing:
    """The dtypes of the atoms, and what is known of them. `wide`: a 64-bit type took part, 32 bits may not do for what lies between."""

    dtype: Callable[[Int], str]
    facts: Facts
    wide: bool = False

    def kind(self, symbol: Int) -> str:
        """The type that C computes with for an atom."""
        return promoted(self.dtype(symbol))

    def fits(self, e: Int, word: str) -> bool:
        """Whether `e` is known to lie in the range of `word`."""
        low, high = self.facts.bounds(e)
        return low is not None and high is not None and _LIMITS[word][0] <= low and high <= _LIMITS[word][1]


def choose_word(e: Int, wanted: str | None, typing: Typing) -> str | None:
    """The word that `e` is computed in, None if none is right. `wanted` is the dtype of the result; None: an index, not negative."""
    kinds = {typing.kind(s) for s in si.free_symbols(e)}
    target = promoted(wanted) if wanted else None
    ring = target is None or wanted == target      # a result of the word's own type: its low bits say all
    small = kinds <= {"int32"} or kinds <= {"int32", "uint32"} and all(typing.fits(s, "int32") for s in si.free_symbols(e))
    if small and target in (None, "int32") and not typing.wide:
        return "int32"
    if kinds <= {"int32", "uint32"} and target in (None, "int32", "uint32"):
        return "uint32" if not typing.wide and _is_modular(e, "uint32", typing, ring and target != "int32") else "int64"
    if "uint64" in kinds or target == "uint64":
        if _is_modular(e, "uint64", typing, ring and target in (None, "uint64")):
            return "uint64"
        return "int64" if wanted is None or target != "uint64" and all(typing.fits(s, "int64") for s in si.free_symbols(e)) else None
    return "int64" if _has_literals(e) else None


def _has_literals(e: Int) -> bool:
    """Whether C has every number in `e` as a signed literal: `x & -2**63` is exactly `(x >> 63) * 2**63`, but not in C."""
    low, high = _LIMITS["int64"]
    return all(low <= n <= high for n in (e.value, *e.coefs)) and all(map(_has_literals, e.args))


def _is_modular(e: Int, word: str, typing: Typing, ring: bool) -> bool:
    """Whether arithmetic modulo 2**bits gives `e`: its low bits everywhere, and the value where an operator looks at more.

    `ring`: only the low bits of `e` are asked for.
    """
    if not ring and not _in_range(e, word, typing):
        return False
    return all(_is_modular(a, word, typing, e.op in _MODULAR) for a in e.args)


def _in_range(e: Int, word: str, typing: Typing) -> bool:
    if e.op is si.SYMBOL and _UNSIGNED.get(typing.dtype(e), 99) <= _UNSIGNED[word]:
        return True
    if e.op in si.RELATIONS or typing.fits(e, word):
        return True
    return e.op in _CLOSED and all(_in_range(a, word, typing) for a in e.args[_CLOSED[e.op]])


# ---- a lowered function

def takes_64_bits(node: Node, lowered: Lowered) -> bool:
    """Whether the author computed `node`, or a part of it that algebra looked through, in a 64-bit type; for an access, its index."""
    if node in lowered.accesses:
        size = lowered.accesses[node].buffer.storage.size
        if si.is_const(size) and size.value > _INT_MAX:
            return True
        return any(_is_64_bits(n, lowered) for n in node.op.split(node.operands)[0])
    return _is_64_bits(node, lowered)


def _is_64_bits(node: Node, lowered: Lowered) -> bool:
    pending, found = [node], {node}
    while pending:
        part = pending.pop()
        if part.dtype is not None and part.dtype.is_integer and part.dtype.bits == 64:
            return True
        if part in lowered.integers:
            new = [n for n in part.operands if n not in found]
            found.update(new)
            pending.extend(new)
    return False


def facts_at(node: Node, lowered: Lowered) -> Facts:
    """What is known in the region that `node` stands in; of the whole kernel for what stands in none."""
    found = lowered.facts.get(node.parent) if node.parent is not None else None
    return found if found is not None else lowered.facts.get(lowered.function.device) or Facts()


def writable_integers(lowered: Lowered) -> dict[Node, Int]:
    """The nodes whose exact expression can be written in C; every other node is written by its operation on its operands."""
    def dtype(symbol: Int) -> str:
        found = lowered.atoms[symbol].dtype
        assert found is not None
        return found.name

    def is_writable(node: Node, e: Int) -> bool:
        assert node.dtype is not None
        if node.op is ops.SCOPE_ID:
            return True
        return choose_word(e, node.dtype.name, Typing(dtype, facts_at(node, lowered), takes_64_bits(node, lowered))) is not None

    return {node: e for node, e in lowered.integers.items() if is_writable(node, e)}
