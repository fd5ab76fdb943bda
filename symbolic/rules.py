"""The rule table: every identity that `simplify` may use, as mathematics.

A row reads `left -> right   when condition`, for all integers that meet the condition. Rows are the whole truth of the
simplifier: the engine only finds *where* a row applies (which terms of a sum are `q`, which are `r`) and builds the row's
right side there. `tests/symbolic/test_rules.py` proves each row by trying every value of a box, by an SMT solver for all
integers, and again for what it does to int32; a row without proofs fails. `good_rewrites.txt` has an example of each row, and
a fuzzer checks that every step taken is an instance of its row.

The notation is Python's with floor division; `min`, `max`, `abs`, `select(c, a, b)`, `truncdiv`, `truncmod` are functions,
`divides(d, x)` says `x == d*k` for some k, `pow2(m)` that `m` is a power of two, and `fits(x)` that `x` is an int32 whenever
all the intermediate values of the left side are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from symbolic import integers
from symbolic.integers import Int


@dataclass(frozen=True, eq=False)
class Rule:
    """One row: `left` may be replaced by `right` when `when` holds (empty: always).

    An `internal` row belongs to the canonical form alone: what it builds is never read or computed as it stands, so it may
    name values that are no int32 (`x <= y` as `x - y - 1 < 0`).
    """

    name: str
    left: str
    right: str
    when: str
    group: str
    internal: bool
    variables: tuple[str, ...] = field(init=False)
    build_left: Callable[..., Int] = field(init=False, repr=False)
    build_right: Callable[..., Int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = {n.id for text in (self.left, self.right) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        names |= {n.id for n in ast.walk(ast.parse(self.when or "1")) if isinstance(n, ast.Name)}
        variables = tuple(sorted(n for n in names if len(n) == 1))
        object.__setattr__(self, "variables", variables)
        object.__setattr__(self, "build_left", compile_side(self.left, variables))
        object.__setattr__(self, "build_right", compile_side(self.right, variables))

    def __str__(self) -> str:
        return f"{self.name}: {self.left} -> {self.right}" + (f"   when {self.when}" if self.when else "")


RULES: Final[dict[str, Rule]] = {}
_group = ""


def group(title: str) -> None:
    global _group
    _group = title


def rule(name: str, left: str, right: str, when: str = "", internal: bool = False) -> Rule:
    assert name not in RULES, name
    RULES[name] = Rule(name, left, right, when, _group, internal)
    return RULES[name]


# ---- compiling a side: `q + r//d` becomes `S.add(q, S.div(r, d))` for an algebra S ----------------------------------

_OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "div", ast.Mod: "mod",
    ast.BitAnd: "bitand", ast.BitOr: "bitor", ast.BitXor: "bitxor", ast.LShift: "shl", ast.RShift: "shr",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
    ast.And: "land", ast.Or: "lor",
}
_FUNCTIONS: Final = {"min": "minimum", "max": "maximum", "abs": "absolute", "select": "select",
                     "truncdiv": "truncdiv", "truncmod": "truncmod", "And": "land", "Or": "lor",
                     "divides": "divides", "pow2": "pow2", "fits": "fits"}


def _code(node: ast.AST) -> str:
    match node:
        case ast.Expression(body=body): return _code(body)
        case ast.Name(id=name): return name
        case ast.Constant(value=value): return f"S.const({int(value)})"    # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.USub(), operand=x): return f"S.neg({_code(x)})"
        case ast.UnaryOp(op=ast.Not(), operand=x): return f"S.lnot({_code(x)})"
        case ast.BinOp(left=a, op=op, right=b): return f"S.{_OPERATORS[type(op)]}({_code(a)}, {_code(b)})"
        case ast.Compare(left=a, ops=[op], comparators=[b]): return f"S.{_OPERATORS[type(op)]}({_code(a)}, {_code(b)})"
        case ast.BoolOp(op=op, values=values): return f"S.{_OPERATORS[type(op)]}({', '.join(map(_code, values))})"
        case ast.Call(func=ast.Name(id=name), args=args): return f"S.{_FUNCTIONS[name]}({', '.join(map(_code, args))})"
    raise SyntaxError(f"a rule cannot say {ast.unparse(node)}")


def compile_side(text: str, variables: tuple[str, ...]) -> Callable[..., Int]:
    """A function (algebra, **variables) that builds `text` with the algebra's `add`, `div`, ..."""
    source = f"lambda S, {', '.join(variables)}: {_code(ast.parse(text, mode='eval'))}"
    made: Callable[..., Int] = eval(compile(source, f"<rule {text}>", "eval"), {})
    return made


class Light:
    """The algebra of expressions as written: nothing is known, nothing is simplified."""

    const, add, sub, mul = integers.const, integers.add, integers.sub, integers.mul
    div, mod, truncdiv, truncmod = integers.floordiv, integers.floormod, integers.truncdiv, integers.truncmod
    minimum, maximum, absolute, select = integers.minimum, integers.maximum, integers.absolute, integers.select
    bitand, bitor, bitxor, shl, shr = integers.bitand, integers.bitor, integers.bitxor, integers.shl, integers.shr
    lt, le, gt, ge, eq, ne = integers.lt, integers.le, integers.gt, integers.ge, integers.eq, integers.ne
    land, lor, lnot = integers.land, integers.lor, integers.lnot

    @staticmethod
    def neg(a: Int) -> Int: return integers.scale(a, -1)


# ==== the table =========================================================================================================

group("sums and products")
EXACT        = rule("exact",        "d*(x // d)",            "x",         when="d != 0 and divides(d, x)")
DISTRIBUTE   = rule("distribute",   "(x + y)*z",             "x*z + y*z", when="fits(x*z) and fits(y*z)")
COLLECT      = rule("collect",      "x*z + y*z",             "(x + y)*z", when="fits(x + y)")
MAX_PLUS_MIN = rule("max-plus-min", "max(x, y) + min(x, y)", "x + y")
FIXED        = rule("fixed",        "x",                     "k",         when="k <= x and x <= k")

group("division")
DIV_SPLIT        = rule("div-split",        "(d*q + r) // d",       "q + r // d",              when="(0 < d or d < -1) and fits(r)")
DIV_EXACT        = rule("div-exact",        "(c*k*x + r) // (k*e)", "c*(x // e) + r // (k*e)",
                        when="0 < k and 0 < e and divides(e, x) and fits(r)")
DIV_FACTOR       = rule("div-factor",       "(x*y) // d",           "x*(y // d)",              when="0 < d and divides(d, y)")
DIV_REFINE       = rule("div-refine",       "x // d",               "k*(x // (d*k))",
                        when="d != 0 and k != 0 and divides(d*k, x)", internal=True)
DIV_COMMON       = rule("div-common",       "(k*x) // (k*d)",       "x // d",                  when="k != 0 and d != 0")
DIV_BETWEEN      = rule("div-between",      "x // d",               "k",                       when="0 < d and k*d <= x and x < k*d + d")
DIV_BETWEEN_DOWN = rule("div-between-down", "x // d",               "k",                       when="d < 0 and k*d + d < x and x <= k*d")
DIV_LOW          = rule("div-low",          "(g*s + r) // (g*d)",   "(s + m) // d",
                        when="0 < g and 0 < d and m*g <= r and r < m*g + g")
DIV_DIV          = rule("div-div",          "(x // e) // d",        "x // (e*d)",              when="e != 0 and 0 < d and fits(e*d)")
DIV_DIV_SUM      = rule("div-div-sum",      "(x // e + y) // d",    "(x + e*y) // (e*d)",
                        when="e != 0 and 0 < d and fits(e*d) and fits(e*y) and fits(x + e*y)")
DIV_ZERO         = rule("div-zero",         "0 // d",               "0",                       when="d != 0")
DIV_MINUS_ONE    = rule("div-minus-one",    "x // (-1)",            "-x",                      when="fits(-x)")
DIV_ABSORB       = rule("div-absorb",       "k*q + k*(r // d)",     "k*((d*q + r) // d)",      when="0 < d and fits(d*q) and fits(d*q + r)")
MOD_DEFINITION   = rule("mod-definition",   "x % d",                "x - d*(x // d)",          when="d != 0", internal=True)
MOD_KNOWN        = rule("mod-known",        "x % d",                "r",                       when="0 <= r and r < d and divides(d, x - r)")
MOD              = rule("mod",              "x - d*(x // d)",       "x % d",                   when="d != 0")
MOD_SCALE        = rule("mod-scale",        "k*(x % d)",            "(k*x) % (k*d)",
                        when="0 < k and 0 < d and fits(k*x) and fits(k*d)")
TRUNCDIV_UP      = rule("truncdiv",         "truncdiv(x, y)",       "x // y",                  when="0 <= x and 0 < y")
TRUNCDIV_DOWN    = rule("truncdiv-down",    "truncdiv(x, y)",       "-((-x) // y)",            when="x <= 0 and 0 < y and fits(-x)")
TRUNCMOD_UP      = rule("truncmod",         "truncmod(x, y)",       "x % y",                   when="0 <= x and 0 < y")
TRUNCMOD_DOWN    = rule("truncmod-down",    "truncmod(x, y)",       "-((-x) % y)",             when="x <= 0 and 0 < y and fits(-x)")

group("minimum, maximum, absolute value")
MIN_LE   = rule("min-le",   "min(x, y)", "x",  when="x <= y")
MAX_GE   = rule("max-ge",   "max(x, y)", "x",  when="y <= x")
ABS_UP   = rule("abs",      "abs(x)",    "x",  when="0 <= x")
ABS_DOWN = rule("abs-down", "abs(x)",    "-x", when="x <= 0")

group("relations")
LE_IS_LT     = rule("le-is-lt",     "x <= y",         "x - y - 1 < 0",   internal=True)
LT_TRUE      = rule("lt-true",      "x < y",          "1",               when="x < y")
LT_FALSE     = rule("lt-false",     "x < y",          "0",               when="y <= x")
LT_MOVE      = rule("lt-move",      "x + z < y + z",  "x < y",           when="fits(x) and fits(y)")
LT_SCALE     = rule("lt-scale",     "g*x + c < 0",    "x + c//g < 0",    when="0 < g", internal=True)
LT_DIV       = rule("lt-div",       "x // d < y",     "x < d*y",         when="0 < d and fits(d*y)")
DIV_LT       = rule("div-lt",       "y < x // d",     "d*y + d - 1 < x", when="0 < d and fits(d*y) and fits(d*y + d)")
EQ_TRUE      = rule("eq-true",      "x == y",         "1",               when="x <= y and y <= x")
EQ_FALSE     = rule("eq-false",     "x == y",         "0",               when="x < y or y < x")
EQ_MOVE      = rule("eq-move",      "x + z == y + z", "x == y",          when="fits(x) and fits(y)")
EQ_SCALE     = rule("eq-scale",     "g*x == g*y",     "x == y",          when="g != 0")
EQ_RESIDUE   = rule("eq-residue",   "x == 0",         "0",               when="0 < r and r < m and divides(m, x - r)")
EQ_DIV_ZERO  = rule("eq-div-zero",  "x // d == 0",    "x < d",           when="0 < d and 0 <= x")
NE_IS_NOT_EQ = rule("ne-is-not-eq", "x != y",         "not x == y")
AND_IMPLIED  = rule("and-implied",  "x and y",        "x != 0",          when="not x or y")
OR_IMPLIED   = rule("or-implied",   "x or y",         "x != 0",          when="x or not y")

group("select")
SELECT_TRUE   = rule("select-true",   "select(c, x, y)",     "x",               when="c")
SELECT_FALSE  = rule("select-false",  "select(c, x, y)",     "y",               when="not c")
SELECT_SAME   = rule("select-same",   "select(c, x, x)",     "x")
SELECT_MIN    = rule("select-min",    "select(x < y, x, y)", "min(x, y)")
SELECT_MAX    = rule("select-max",    "select(x < y, y, x)", "max(x, y)")
SELECT_ASSUME = rule("select-assume", "select(c, x, y)",     "select(c, u, v)", when="(not c or x == u) and (c or y == v)")

group("bits")
AND_SPLIT = rule("and-split", "(m*a + u) & (m*b + v)", "m*(a & b) + (u & v)", when="pow2(m) and 0 <= u and u < m and 0 <= v and v < m")
OR_SPLIT  = rule("or-split",  "(m*a + u) | (m*b + v)", "m*(a | b) + (u | v)", when="pow2(m) and 0 <= u and u < m and 0 <= v and v < m")
XOR_SPLIT = rule("xor-split", "(m*a + u) ^ (m*b + v)", "m*(a ^ b) + (u ^ v)", when="pow2(m) and 0 <= u and u < m and 0 <= v and v < m")
