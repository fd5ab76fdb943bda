"""SymPy at the boundary: our functions as SymPy ones that never fold by themselves, and the way there and back.

SymPy's own `Mod` and `floor` fold index expressions to wrong values as they are built, so neither may occur: division and
all else that is not `+ - *` is a function of ours, which evaluates for numbers only, by the same rules as everywhere here.
Symbols may have any assumptions; symbols of one name are one extent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import sympy

from symbolic import integers
from symbolic.facts import Facts
from symbolic.integers import CONST, PRODUCT, SUM, SYMBOL, Int, const, named


class IntegerFunction(sympy.Function):  # type: ignore[misc]
    """Base of our functions: integer-valued, evaluated for integer arguments and for nothing else."""

    operation: ClassVar[str] = ""
    is_integer = True
    is_real = True

    @classmethod
    def eval(cls, *args: Any) -> Any:
        if args and all(isinstance(a, sympy.Integer) for a in args):
            made = integers.BUILD[cls.operation](*[const(int(a)) for a in args])
            if made.op is CONST:
                return sympy.Integer(made.value)
        return None


class FloorDiv(IntegerFunction): operation = integers.FLOORDIV
class FloorMod(IntegerFunction): operation = integers.FLOORMOD
class TruncDiv(IntegerFunction): operation = integers.TRUNCDIV
class TruncMod(IntegerFunction): operation = integers.TRUNCMOD
class Min(IntegerFunction): operation = integers.MIN
class Max(IntegerFunction): operation = integers.MAX
class Abs(IntegerFunction): operation = integers.ABS
class Select(IntegerFunction): operation = integers.SELECT
class BitAnd(IntegerFunction): operation = integers.AND
class BitOr(IntegerFunction): operation = integers.OR
class Xor(IntegerFunction): operation = integers.XOR
class Shl(IntegerFunction): operation = integers.SHL
class Shr(IntegerFunction): operation = integers.SHR
class Less(IntegerFunction): operation = integers.LT
class LessEqual(IntegerFunction): operation = integers.LE
class Equal(IntegerFunction): operation = integers.EQ
class NotEqual(IntegerFunction): operation = integers.NE
class And(IntegerFunction): operation = integers.LAND
class Or(IntegerFunction): operation = integers.LOR


FUNCTIONS: dict[str, Any] = {f.operation: f for f in IntegerFunction.__subclasses__()}

# SymPy's own, where they mean the same.
_READ: dict[Any, Any] = {
    sympy.Min: integers.minimum, sympy.Max: integers.maximum, sympy.Abs: integers.absolute,
    sympy.StrictLessThan: integers.lt, sympy.LessThan: integers.le, sympy.StrictGreaterThan: integers.gt,
    sympy.GreaterThan: integers.ge, sympy.Equality: integers.eq, sympy.Unequality: integers.ne,
    sympy.And: integers.land, sympy.Or: integers.lor, sympy.Not: integers.lnot,
}


def to_sympy(e: Int, names: Mapping[Int, Any] | None = None) -> Any:
    """`e` as a SymPy expression. `names` gives the SymPy symbol, or the name, for ours; by default the name it has."""
    memo: dict[Int, Any] = {}

    def walk(x: Int) -> Any:
        if x not in memo:
            memo[x] = made(x)
        return memo[x]

    def made(x: Int) -> Any:
        if x.op is CONST:
            return sympy.Integer(x.value)
        if x.op is SYMBOL:
            given = (names or {}).get(x, x.name)
            return sympy.Symbol(given, integer=True) if isinstance(given, str) else given
        args = [walk(a) for a in x.args]
        if x.op is SUM:
            return sympy.Add(*[c * a for a, c in zip(args, x.coefs)], x.value)
        if x.op is PRODUCT:
            return sympy.Mul(*args)
        return FUNCTIONS[x.op](*args)

    return walk(e)


def from_sympy(expr: Any) -> Int:
    """A SymPy expression as an `Int`; symbols become `named` leaves.

    Raises TypeError, naming the part, for what is no integer expression of ours: SymPy's `Mod` and `floor` (they fold to
    wrong values; write FloorDiv and FloorMod), fractions, other functions.
    """
    memo: dict[Any, Int] = {}

    def walk(x: Any) -> Int:
        found = memo.get(x)
        if found is None:
            found = memo[x] = made(x)
        return found

    def made(x: Any) -> Int:
        if isinstance(x, Int): return x
        if isinstance(x, (int, sympy.Integer)): return const(int(x))
        if isinstance(x, sympy.Symbol): return named(x.name)
        if x in (sympy.true, sympy.false): return const(int(bool(x)))
        if isinstance(x, sympy.Add): return _fold(integers.add, map(walk, x.args))
        if isinstance(x, sympy.Mul): return _fold(integers.mul, map(walk, x.args))
        if isinstance(x, sympy.Pow) and isinstance(x.exp, sympy.Integer) and x.exp > 0:
            return integers.product([walk(x.base)] * int(x.exp))
        if isinstance(x, IntegerFunction): return integers.BUILD[x.operation](*map(walk, x.args))
        build = _READ.get(type(x))
        if build is not None:
            return build(*map(walk, x.args))  # type: ignore[no-any-return]
        hint = "; write FloorDiv(a, b) and FloorMod(a, b)" if isinstance(x, (sympy.Mod, sympy.floor, sympy.Rational)) else ""
        raise TypeError(f"{x} ({type(x).__name__}) is no integer expression of symbolic{hint}")

    return walk(sympy.sympify(expr))


def _fold(function: Any, items: Any) -> Int:
    result: Int | None = None
    for x in items:
        result = x if result is None else function(result, x)
    assert result is not None
    return result


def assumed(expr: Any, facts: Facts | None = None) -> Facts:
    """A scope of `facts` with what the assumptions of expr's SymPy symbols say: positive, nonnegative, even, ..."""
    scope = (facts or Facts()).scope()
    for s in sorted(expr.free_symbols, key=lambda s: s.name):
        x = named(s.name)
        if s.is_positive: scope.bound(x, 1, None)
        elif s.is_nonnegative: scope.bound(x, 0, None)
        if s.is_negative: scope.bound(x, None, 0)
        elif s.is_nonpositive: scope.bound(x, None, 1)
        if s.is_even: scope.divisible(x, 2)
        if s.is_odd: scope.assume(integers.eq(x % 2, 1))
    return scope


def simplify_sympy(expr: Any, facts: Facts | None = None) -> Any:
    """`simplify` for a SymPy expression; the result has the caller's own symbols."""
    symbols = {named(s.name): s for s in sorted(expr.free_symbols, key=str)}
    return to_sympy(assumed(expr, facts).simplify(from_sympy(expr)), symbols)
