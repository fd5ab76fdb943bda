"""Integer expressions: one immutable, interned node class.

An `Int` is a leaf (`const`, `Symbol`, `named`) or an operator over other `Int`s. Equal structure is the same object, so
equality is identity and a dictionary keyed by nodes costs nothing. Constructors normalise lightly and without knowing
anything of the symbols: constants fold, sums collect linear terms, a shift by a constant is a product or a division, a mask
of low bits is a remainder. Everything that needs to know more is in `simplify`.

Semantics are Python's on unbounded integers: `//` and `%` floor, `%` has the sign of the divisor. Relations are 0 or 1.
Division by zero is never folded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from operator import attrgetter
from typing import Any, Final, TypeAlias

Like: TypeAlias = "Int | int"

CONST, SYMBOL, SUM, PRODUCT = "const", "symbol", "+", "*"
FLOORDIV, FLOORMOD, TRUNCDIV, TRUNCMOD = "//", "%", "truncdiv", "truncmod"
MIN, MAX, ABS, SELECT = "min", "max", "abs", "select"
AND, OR, XOR, SHL, SHR = "&", "|", "^", "<<", ">>"
LT, LE, EQ, NE = "<", "<=", "==", "!="
LAND, LOR = "and", "or"

RELATIONS: Final = frozenset({LT, LE, EQ, NE, LAND, LOR})
_ORDER: Final = {op: rank for rank, op in enumerate((
    CONST, SYMBOL, PRODUCT, FLOORDIV, FLOORMOD, TRUNCDIV, TRUNCMOD, MIN, MAX, ABS, SELECT,
    AND, OR, XOR, SHL, SHR, SUM, LT, LE, EQ, NE, LAND, LOR))}
_key = attrgetter("key")


class Int:
    """One integer expression. Make it with the functions of this module or with Python's operators, never directly.

    `op` names the operator and `args` holds its operands. A sum is `value + coefs[0]*args[0] + coefs[1]*args[1] + ...`
    with the operands in the order of `key`; a constant has its number in `value`; a symbol has `name` and `serial`.
    `key` orders nodes by structure and symbol names, the same in every process.
    """

    __slots__ = ("op", "args", "coefs", "value", "name", "key", "_count", "_free", "_digits", "_nearest", "_inner", "_code")

    op: str
    args: tuple[Int, ...]
    coefs: tuple[int, ...]
    value: int
    name: str
    key: tuple[Any, ...]

    def __init__(self, op: str, args: tuple[Int, ...] = (), coefs: tuple[int, ...] = (), value: int = 0,
                 name: str = "", key: tuple[Any, ...] = ()) -> None:
        self.op, self.args, self.coefs, self.value, self.name, self.key = op, args, coefs, value, name, key
        self._count: int | None = None
        self._free: tuple[Int, ...] | None = None
        self._digits: Int | None = None
        self._nearest: Int | None = None
        self._inner: Any = None
        self._code: dict[str, Any] | None = None

    @property
    def serial(self) -> int:
        """The creation number of a symbol: what tells two symbols of one name apart."""
        return int(self.key[2]) if self.op is SYMBOL else 0

    def __add__(self, other: Like) -> Int: return add(self, to_int(other))
    def __radd__(self, other: Like) -> Int: return add(to_int(other), self)
    def __sub__(self, other: Like) -> Int: return add(self, scale(to_int(other), -1))
    def __rsub__(self, other: Like) -> Int: return add(to_int(other), scale(self, -1))
    def __mul__(self, other: Like) -> Int: return mul(self, to_int(other))
    def __rmul__(self, other: Like) -> Int: return mul(to_int(other), self)
    def __floordiv__(self, other: Like) -> Int: return floordiv(self, other)
    def __rfloordiv__(self, other: Like) -> Int: return floordiv(other, self)
    def __mod__(self, other: Like) -> Int: return floormod(self, other)
    def __rmod__(self, other: Like) -> Int: return floormod(other, self)
    def __lshift__(self, other: Like) -> Int: return shl(self, other)
    def __rlshift__(self, other: Like) -> Int: return shl(other, self)
    def __rshift__(self, other: Like) -> Int: return shr(self, other)
    def __rrshift__(self, other: Like) -> Int: return shr(other, self)
    def __and__(self, other: Like) -> Int: return bitand(self, other)
    def __rand__(self, other: Like) -> Int: return bitand(other, self)
    def __or__(self, other: Like) -> Int: return bitor(self, other)
    def __ror__(self, other: Like) -> Int: return bitor(other, self)
    def __xor__(self, other: Like) -> Int: return bitxor(self, other)
    def __rxor__(self, other: Like) -> Int: return bitxor(other, self)
    def __neg__(self) -> Int: return scale(self, -1)
    def __pos__(self) -> Int: return self
    def __invert__(self) -> Int: return bitnot(self)
    def __abs__(self) -> Int: return absolute(self)
    def __lt__(self, other: Like) -> Int: return lt(self, other)
    def __le__(self, other: Like) -> Int: return le(self, other)
    def __gt__(self, other: Like) -> Int: return gt(self, other)
    def __ge__(self, other: Like) -> Int: return ge(self, other)

    def __bool__(self) -> bool:
        """A constant has a truth value; anything else is refused, as `a < b < c` and `if a < b:` would lie.

        Raises TypeError: use `land`, `lor`, `lnot`, `select`, or ask `facts.prove`.
        """
        if self.op is CONST:
            return self.value != 0
        raise TypeError(f"the truth of `{self!r}` is not known; use land, lor, select, or facts.prove")

    def __repr__(self) -> str:
        from symbolic.text import text
        return text(self)

    def __reduce__(self) -> Any:
        raise TypeError("an Int is interned in its process and is not pickled; send text(expr) instead")


# ---- interning ---------------------------------------------------------------------------------------------------------

_table: dict[tuple[Any, ...], Int] = {}
_consts: dict[int, Int] = {}
_LEAST: Final = 200_000         # so many nodes may be forgotten garbage before any is looked for
_limit = _LEAST
_serials = count(1)


def _intern(op: str, args: tuple[Int, ...]) -> Int:
    found = _table.get((op, args))
    if found is None:
        found = _remember((op, args), Int(op, args, key=(_ORDER[op], tuple([a.key for a in args]))))
    return found


def _remember(where: tuple[Any, ...], node: Int) -> Int:
    """`node`, or the one that another thread put there first."""
    global _limit
    node = _table.setdefault(where, node)
    if len(_table) > _limit:
        _forget_unused()
        _limit = max(_LEAST, 2 * len(_table))
    return node


def _forget_unused() -> None:
    """Drop every node that only the table refers to, users before what they use."""
    for where in reversed(list(_table)):
        node = _table[where]
        # The table, `node`, `getrefcount`'s own argument, and the node itself where it is its own reading: nobody else.
        own = (node._digits is node) + (node._nearest is node) + (node._inner is not None and node in node._inner.selects)
        if sys.getrefcount(node) == 3 + own:
            del _table[where]


def const(value: int) -> Int:
    """The constant `value`."""
    found = _consts.get(value)
    if found is None:
        found = Int(CONST, value=int(value), key=(_ORDER[CONST], int(value)))
        found = _consts.setdefault(value, found) if -1024 <= value <= 65536 else _remember((CONST, value), found)
    return found


ZERO, ONE, MINUS_ONE = const(0), const(1), const(-1)


def to_int(value: Like) -> Int:
    """`value` as a node. Raises TypeError for what is no integer expression.

    A SymPy expression is read by the bridge; an object that stands for an expression says so by a method `__symbolic__`.
    """
    if value.__class__ is Int:
        return value
    if isinstance(value, int):
        return const(int(value))
    if hasattr(value, "__symbolic__"):
        return value.__symbolic__()  # type: ignore[no-any-return]
    if hasattr(value, "__index__"):
        return const(value.__index__())
    sympy = sys.modules.get("sympy")
    if sympy is not None and isinstance(value, sympy.Basic):      # a function of ours is one too
        from symbolic.sympy_bridge import from_sympy
        return from_sympy(value)
    raise TypeError(f"an integer expression was expected, not {value!r} of type {type(value).__name__}")


def Symbol(name: str) -> Int:
    """A new leaf, different from every other even of the same name."""
    return Int(SYMBOL, name=name, key=(_ORDER[SYMBOL], name, next(_serials)))


def named(name: str) -> Int:
    """The one leaf of this name: every call with the name returns the same node."""
    found = _table.get((SYMBOL, name))
    if found is None:
        found = _remember((SYMBOL, name), Int(SYMBOL, name=name, key=(_ORDER[SYMBOL], name, 0)))
    return found


def is_const(e: Int) -> bool:
    """True for a constant, whose number is `e.value`."""
    return e.op is CONST


# ---- sums and products -------------------------------------------------------------------------------------------------

def terms_of(e: Int) -> dict[Int, int]:
    """The linear terms of `e` without its constant: {atom or product: coefficient}."""
    if e.op is SUM:
        return dict(zip(e.args, e.coefs))
    return {} if e.op is CONST else {e: 1}


def constant_of(e: Int) -> int:
    """The constant of `e` read as a sum."""
    return e.value if e.op is SUM or e.op is CONST else 0


def make_sum(terms: Mapping[Int, int], constant: int = 0) -> Int:
    """The sum of `coefficient * node` over `terms` and of `constant`; no node in `terms` may be a sum or a constant."""
    args = [t for t, c in terms.items() if c]
    if not args:
        return const(constant)
    if len(args) > 1:
        args.sort(key=_key)
    elif not constant and terms[args[0]] == 1:
        return args[0]
    return _sum(tuple(args), tuple([terms[t] for t in args]), constant)


def _sum(args: tuple[Int, ...], coefs: tuple[int, ...], constant: int) -> Int:
    where = (constant, args, coefs)
    found = _table.get(where)
    if found is None:
        key = (_ORDER[SUM], tuple([a.key for a in args]), coefs, constant)
        found = _remember(where, Int(SUM, args, coefs, constant, key=key))
    return found


def add(a: Int, b: Int) -> Int:
    """`a + b`, like terms collected."""
    if b.op is CONST:
        if not b.value:
            return a
        if a.op is CONST:
            return const(a.value + b.value)
        if a.op is SUM:
            constant = a.value + b.value
            if not constant and len(a.args) == 1 and a.coefs[0] == 1:
                return a.args[0]
            return _sum(a.args, a.coefs, constant)
        return _sum((a,), (1,), b.value)
    if a.op is CONST:
        return add(b, a)
    terms = dict(zip(a.args, a.coefs)) if a.op is SUM else {a: 1}
    constant = a.value if a.op is SUM else 0
    if b.op is SUM:
        constant += b.value
        for t, c in zip(b.args, b.coefs):
            terms[t] = terms.get(t, 0) + c
    else:
        terms[b] = terms.get(b, 0) + 1
    return make_sum(terms, constant)


def scale(a: Int, factor: int) -> Int:
    """`factor * a`, distributed over a sum."""
    if factor == 1:
        return a
    if a.op is CONST:
        return const(a.value * factor)
    if factor == 0:
        return ZERO
    if a.op is SUM:
        coefs = tuple([c * factor for c in a.coefs])
        if not a.value and len(coefs) == 1 and coefs[0] == 1:
            return a.args[0]
        return _sum(a.args, coefs, a.value * factor)
    return _sum((a,), (factor,), 0)


def sub(a: Int, b: Int) -> Int:
    """`a - b`."""
    if a is b:
        return ZERO
    return add(a, scale(b, -1))


def mul(a: Int, b: Int) -> Int:
    """`a * b`; a number distributes over a sum, a product of two sums stays."""
    if a.op is CONST:
        return scale(b, a.value)
    if b.op is CONST:
        return scale(a, b.value)
    factor = 1
    factors: list[Int] = []
    for x in (a, b):
        if x.op is SUM and len(x.args) == 1 and not x.value:
            factor *= x.coefs[0]
            x = x.args[0]
        factors.extend(x.args if x.op is PRODUCT else (x,))
    factors.sort(key=_key)
    return scale(_intern(PRODUCT, tuple(factors)), factor)


def factors_of(e: Int) -> tuple[Int, ...]:
    """The factors of a product, or `e` alone."""
    return e.args if e.op is PRODUCT else (e,)


def product(factors: Iterable[Int]) -> Int:
    """The product of `factors`; 1 when there are none."""
    result = ONE
    for f in factors:
        result = mul(result, f)
    return result


# ---- division ----------------------------------------------------------------------------------------------------------

def _truncdiv(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _division(op: str, a: Like, b: Like) -> Int:
    a, b = to_int(a), to_int(b)
    if b.op is CONST and b.value:
        d = b.value
        if a.op is CONST:
            n = a.value
            return const(n // d if op is FLOORDIV else n % d if op is FLOORMOD
                         else _truncdiv(n, d) if op is TRUNCDIV else n - d * _truncdiv(n, d))
        if d == 1:
            return a if op is FLOORDIV or op is TRUNCDIV else ZERO
        if d == -1 and (op is FLOORMOD or op is TRUNCMOD):
            return ZERO
    return _intern(op, (a, b))


def floordiv(a: Like, b: Like) -> Int:
    """`a // b`, rounded down."""
    return _division(FLOORDIV, a, b)


def floormod(a: Like, b: Like) -> Int:
    """`a % b`, with the sign of `b`."""
    return _division(FLOORMOD, a, b)


def truncdiv(a: Like, b: Like) -> Int:
    """`a / b` of C: rounded toward zero."""
    return _division(TRUNCDIV, a, b)


def truncmod(a: Like, b: Like) -> Int:
    """`a % b` of C: with the sign of `a`."""
    return _division(TRUNCMOD, a, b)


# ---- minimum, maximum, absolute value, select --------------------------------------------------------------------------

def _extremum(op: str, items: Iterable[Like]) -> Int:
    pick = min if op is MIN else max
    limit: int | None = None
    args: dict[Int, None] = {}
    for item in map(to_int, items):
        for x in item.args if item.op is op else (item,):
            if x.op is CONST:
                limit = x.value if limit is None else pick(limit, x.value)
            else:
                args[x] = None
    ordered = sorted(args, key=_key)
    if limit is not None:
        ordered.append(const(limit))
    if not ordered:
        raise TypeError(f"{op}imum of nothing")
    return ordered[0] if len(ordered) == 1 else _intern(op, tuple(ordered))


def minimum(*items: Like) -> Int:
    """The least of `items`."""
    return _extremum(MIN, items)


def maximum(*items: Like) -> Int:
    """The greatest of `items`."""
    return _extremum(MAX, items)


def absolute(a: Like) -> Int:
    """The absolute value."""
    a = to_int(a)
    return const(abs(a.value)) if a.op is CONST else a if a.op is ABS else _intern(ABS, (a,))


def select(condition: Like, a: Like, b: Like) -> Int:
    """`a` where `condition` holds, else `b`."""
    condition, a, b = truth(condition), to_int(a), to_int(b)
    if condition.op is CONST:
        return a if condition.value else b
    return a if a is b else _intern(SELECT, (condition, a, b))


# ---- bits --------------------------------------------------------------------------------------------------------------

def shl(a: Like, b: Like) -> Int:
    """`a << b`; by a constant, a product with a power of two."""
    a, b = to_int(a), to_int(b)
    if b.op is CONST and 0 <= b.value < 64:
        return scale(a, 1 << b.value)
    return _intern(SHL, (a, b))


def shr(a: Like, b: Like) -> Int:
    """`a >> b`, arithmetic; by a constant, a division by a power of two."""
    a, b = to_int(a), to_int(b)
    if b.op is CONST and 0 <= b.value < 64:
        return floordiv(a, 1 << b.value)
    return _intern(SHR, (a, b))


def bitnot(a: Like) -> Int:
    """`~a`, which is `-a - 1`."""
    return add(scale(to_int(a), -1), MINUS_ONE)


def _bits(op: str, items: Iterable[Like], fold: Callable[[int, int], int], neutral: int) -> Int:
    constant = neutral
    args: list[Int] = []
    for item in map(to_int, items):
        for x in item.args if item.op is op else (item,):
            if x.op is CONST:
                constant = fold(constant, x.value)
            else:
                args.append(x)
    args.sort(key=_key)
    if constant != neutral:
        args.append(const(constant))
    if not args:
        return const(neutral)
    return args[0] if len(args) == 1 else _intern(op, tuple(args))


def bitand(a: Like, b: Like) -> Int:
    """`a & b`; with a mask of low bits a remainder, with a mask of high bits a multiple."""
    e = _bits(AND, (a, b), lambda x, y: x & y, -1)
    if e.op is not AND:
        return e
    args = tuple(dict.fromkeys(e.args))
    e = args[0] if len(args) == 1 else _intern(AND, args)
    if e.op is not AND or e.args[-1].op is not CONST:
        return e
    mask = e.args[-1].value
    if mask == 0:
        return ZERO
    rest = e.args[0] if len(e.args) == 2 else _intern(AND, e.args[:-1])
    if mask > 0:
        low = (mask & -mask).bit_length() - 1
        ones = mask >> low
        if ones & (ones + 1) == 0:              # one run of ones: bits low .. low + n
            return scale(floormod(floordiv(rest, 1 << low), ones + 1), 1 << low)
    elif -mask & (-mask - 1) == 0:              # all ones above: -2**n
        return scale(floordiv(rest, -mask), -mask)
    return e


def bitor(a: Like, b: Like) -> Int:
    """`a | b`."""
    e = _bits(OR, (a, b), lambda x, y: x | y, 0)
    if e.op is not OR:
        return e
    if e.args[-1].op is CONST and e.args[-1].value == -1:
        return MINUS_ONE
    args = tuple(dict.fromkeys(e.args))
    return args[0] if len(args) == 1 else _intern(OR, args)


def bitxor(a: Like, b: Like) -> Int:
    """`a ^ b`; what occurs twice vanishes, and XOR with -1 is the complement."""
    e = _bits(XOR, (a, b), lambda x, y: x ^ y, 0)
    if e.op is not XOR:
        return e
    args: dict[Int, None] = {}
    for x in e.args:
        if x in args: del args[x]
        else: args[x] = None
    if not args:
        return ZERO
    *rest, last = args
    flip = last.op is CONST and last.value < 0
    if flip:
        if last.value == -1: args = dict.fromkeys(rest)
        else: args = dict.fromkeys((*rest, const(~last.value)))
    inner = next(iter(args)) if len(args) == 1 else _intern(XOR, tuple(args))
    return bitnot(inner) if flip else inner


# ---- relations ---------------------------------------------------------------------------------------------------------

_DECIDE: Final = {LT: int.__lt__, LE: int.__le__, EQ: int.__eq__, NE: int.__ne__}
_REFLEXIVE: Final = {LT: ZERO, LE: ONE, EQ: ONE, NE: ZERO}


def _relation(op: str, a: Like, b: Like) -> Int:
    a, b = to_int(a), to_int(b)
    if a is b:
        return _REFLEXIVE[op]
    if a.op is CONST and b.op is CONST:
        return ONE if _DECIDE[op](a.value, b.value) else ZERO
    if (op is EQ or op is NE) and (a.op is CONST or b.op is not CONST and b.key < a.key):
        a, b = b, a
    return _intern(op, (a, b))


def lt(a: Like, b: Like) -> Int:
    """`a < b`"""
    return _relation(LT, a, b)


def le(a: Like, b: Like) -> Int:
    """`a <= b`"""
    return _relation(LE, a, b)


def gt(a: Like, b: Like) -> Int:
    """`a > b`, as `b < a`"""
    return _relation(LT, b, a)


def ge(a: Like, b: Like) -> Int:
    """`a >= b`, as `b <= a`"""
    return _relation(LE, b, a)


def eq(a: Like, b: Like) -> Int:
    """`a == b`"""
    return _relation(EQ, a, b)


def ne(a: Like, b: Like) -> Int:
    """`a != b`"""
    return _relation(NE, a, b)


def truth(a: Like) -> Int:
    """`a` itself when it is a relation, else `a != 0`."""
    a = to_int(a)
    return a if a.op in RELATIONS else ne(a, ZERO)


def lnot(a: Like) -> Int:
    """`not a`, pushed down to the relations."""
    a = truth(a)
    if a.op is CONST: return ZERO if a.value else ONE
    if a.op is LT: return le(a.args[1], a.args[0])
    if a.op is LE: return lt(a.args[1], a.args[0])
    if a.op is EQ: return ne(*a.args)
    if a.op is NE: return eq(*a.args)
    return (lor if a.op is LAND else land)(*map(lnot, a.args))


def _connective(op: str, items: Iterable[Like], absorbing: Int, neutral: Int) -> Int:
    args: dict[Int, None] = {}
    for item in map(truth, items):
        for x in item.args if item.op is op else (item,):
            if x is absorbing: return absorbing
            if x is not neutral: args[x] = None
    kept = tuple(args)
    return neutral if not kept else kept[0] if len(kept) == 1 else _intern(op, kept)


def land(*items: Like) -> Int:
    """All of `items` hold; the order is kept."""
    return _connective(LAND, items, ZERO, ONE)


def lor(*items: Like) -> Int:
    """One of `items` holds; the order is kept."""
    return _connective(LOR, items, ONE, ZERO)


# ---- reading an expression ---------------------------------------------------------------------------------------------

def rebuild(e: Int, args: tuple[Int, ...]) -> Int:
    """`e` with other operands, normalised lightly."""
    if e.op is SUM:
        result = const(e.value)
        for t, c in zip(args, e.coefs):
            result = add(result, scale(t, c))
        return result
    return BUILD[e.op](*args)


def _product(*args: Int) -> Int:
    return product(args)


def _fold_bits(function: Callable[[Int, Int], Int]) -> Callable[..., Int]:
    def build(first: Int, *rest: Int) -> Int:
        for x in rest:
            first = function(first, x)
        return first
    return build


BUILD: Final[dict[str, Callable[..., Int]]] = {
    PRODUCT: _product, FLOORDIV: floordiv, FLOORMOD: floormod, TRUNCDIV: truncdiv, TRUNCMOD: truncmod,
    MIN: minimum, MAX: maximum, ABS: absolute, SELECT: select,
    AND: _fold_bits(bitand), OR: _fold_bits(bitor), XOR: _fold_bits(bitxor), SHL: shl, SHR: shr,
    LT: lt, LE: le, EQ: eq, NE: ne, LAND: land, LOR: lor,
}


def free_symbols(e: Int) -> tuple[Int, ...]:
    """The symbols of `e`, ordered by name and then by creation."""
    if e._free is None:
        if e.op is SYMBOL:
            e._free = (e,)
        elif len(e.args) == 1:
            e._free = free_symbols(e.args[0])
        else:
            e._free = tuple(sorted({s for a in e.args for s in free_symbols(a)}, key=_key))
    return e._free


def substitute(e: Int, values: Mapping[Int, Like]) -> Int:
    """`e` with symbols replaced, all at once."""
    memo: dict[Int, Int] = {s: to_int(v) for s, v in values.items()}

    def walk(x: Int) -> Int:
        found = memo.get(x)
        if found is None:
            args = tuple([walk(a) for a in x.args])
            found = memo[x] = x if args == x.args else rebuild(x, args)
        return found

    return walk(e)


def operations_count(e: Int) -> int:
    """How many operators `text(e)` writes; a negative literal has none."""
    if e._count is None:
        e._count = _own_operations(e) + sum([operations_count(a) for a in e.args])
    return e._count


def _own_operations(e: Int) -> int:
    if e.op is SUM:
        own = len(e.args) - 1 + (e.value != 0) + sum([c != 1 and c != -1 for c in e.coefs])
        # One term `-x` needs its sign written when nothing positive stands before it.
        return own + (e.value <= 0 and -1 in e.coefs and max(e.coefs) < 0)
    if e.op in (CONST, SYMBOL):
        return 0
    return 1 if e.op in (ABS, SELECT) else len(e.args) - 1
