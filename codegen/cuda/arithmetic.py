"""How arithmetic, logic and comparisons of single values are written, where algebra did not see through them.

Integers wrap. C++ computes narrow ones in `int`, so the result is cast back where something wider would see it; signed
overflow at full width is undefined, so a sum that can wrap and that something sensitive reads goes through a helper
(`wrapping` finds those).
"""

from __future__ import annotations

import math

from codegen.cuda import fragments as fr
from codegen.cuda.casts import convert, reinterpret
from codegen.cuda.fragments import Fragment
from codegen.cuda.literals import literal
from codegen.cuda.templates import HALVES, PAIRS, Form, Site, by_dtype, calls, first_dtype, infix, prefix, template, through_float32
from tracer import operations as ops
from tracer.ir import Node


def narrowed(s: Site, made: Fragment) -> Fragment:
    """`made`, computed in `int`, brought back to the range of a narrower result."""
    if not s.dtype.is_integer or s.dtype.bits >= 32:
        return made
    # A store or a variable converts by itself, but compilers warn where they can compute that it changes the value.
    return made if s.modular and not s.printer.is_fixed(s.node) else fr.cast(s.c_type(), made)


def _ring(sign: str, name: str) -> Form:
    """+, - and *: right in the low bits whatever the operands' high bits are."""
    def form(s: Site) -> Fragment:
        if s.printer.wraps(s.node):
            s.needs.helper(f"wrap_{name}_{s.dtype.name}")
            return fr.call(f"wrap_{name}", *s.operands(typed=True))
        if s.dtype.name == "int16" and (operand := _negated(s.node)) is not None:
            return _wrapping_negative(s, operand)
        # A product fills an `int`, or leaves it: its operands are brought back, and so is a product of 16 bits in a sum.
        a, b = s.pair(lambda operand: sign != "*" and not (operand.op is ops.MUL and s.dtype.bits == 16))
        if sign == "*" and s.dtype.name == "uint16" and not any(o.op is ops.CONST for o in s.node.operands):
            a = fr.cast("unsigned int", a)      # 65535 * 65535 would overflow
        return narrowed(s, fr.infix(a, sign, b))
    return form


def _negated(node: Node) -> Node | None:
    """What `node`, a sum or product, is the negative of: `0 - x`, `x * -1`."""
    a, b = node.operands
    if node.op is ops.SUB:
        return b if _is(a, 0) else None
    return (a if _is(b, -1) else b if _is(a, -1) else None) if node.op is ops.MUL else None


def _is(node: Node, value: int) -> bool:
    return node.op is ops.CONST and bool(node.attrs["value"] == value)


def _wrapping_negative(s: Site, operand: Node | None = None) -> Fragment:
    s.needs.helper(f"wrap_neg_{s.dtype.name}")
    return fr.call("wrap_neg", s.printer.write(operand or s.node.operands[0], s.lane, typed=True))


def _negative(s: Site) -> Fragment:
    if s.printer.wraps(s.node):
        return _wrapping_negative(s)
    return narrowed(s, fr.prefix("-", s.operand(0, modular=True, typed=True)))


def _complement(s: Site) -> Fragment:
    return narrowed(s, fr.prefix("~", s.operand(0, modular=True, typed=True)))


def _shift(sign: str) -> Form:
    return lambda s: narrowed(s, fr.infix(s.operand(0, typed=True), sign, s.operand(1)))


def _truncating(sign: str) -> Form:
    form = infix(sign)
    return lambda s: narrowed(s, form(s))


def divides_by_zero(node: Node) -> bool:
    """Whether `node` is a quotient by the constant 0."""
    return node.op is ops.DIV and _is(node.operands[1], 0)


def _quotient(s: Site) -> Fragment:
    """`a / 0` is `a` times infinity, also where `a` is 0 or NaN, and compilers warn of the one and not of the other."""
    if not divides_by_zero(s.node):
        return infix("/")(s)
    infinity = math.copysign(math.inf, s.node.operands[1].attrs["value"])
    return fr.infix(s.operand(0), "*", literal(infinity, s.dtype.scalar, s.needs))


def _flooring(sign: str, name: str) -> Form:
    """C's operator where neither operand can be negative, else a helper of Python's semantics."""
    truncating = _truncating(sign)

    def integers(s: Site) -> Fragment:
        if s.dtype.kind == "uint" or all(map(s.printer.is_nonnegative, s.node.operands)):
            return truncating(s)
        s.needs.helper(f"{name}_{'int64' if s.dtype.bits == 64 else 'int32'}")
        return narrowed(s, fr.call(name, *s.operands(typed=True)))

    def floats(s: Site, operands: list[Fragment]) -> Fragment:
        s.needs.helper(f"{name}_{'float64' if s.dtype.name == 'float64' else 'float32'}")
        return fr.call(name, *operands)

    def direct(s: Site) -> Fragment:
        return floats(s, s.operands())

    return by_dtype({"int": integers, "uint": integers, "float32": direct, "float64": direct,
                     **dict.fromkeys(HALVES, through_float32(floats))})


def _identity(s: Site) -> Fragment:
    return s.operand(0, modular=s.modular)


def _cast(s: Site) -> Fragment:
    # A scalar spreads over the lanes of a vector; of equal types there is nothing to convert.
    return convert(s.operand(0), s.operand_dtype(0), s.dtype, s.needs)


def _reinterpret(s: Site) -> Fragment:
    return reinterpret(s.operand(0, typed=True), s.operand_dtype(0), s.dtype, s.needs)


def _select(s: Site) -> Fragment:
    return fr.ternary(s.operand(0), *s.pair())


def _absolute(s: Site) -> Fragment:
    return narrowed(s, fr.call("abs", s.operand(0, typed=True)))


template(ops.ADD, _ring("+", "add"))
template(ops.SUB, _ring("-", "sub"))
template(ops.MUL, _ring("*", "mul"))
template(ops.NEG, by_dtype({"int": _negative, "uint": _negative, "int16": _wrapping_negative, "float": prefix("-")}))
template(ops.DIV, _quotient)
template(ops.FLOORDIV, _flooring("/", "floordiv"))
template(ops.FLOORMOD, _flooring("%", "floormod"))
template(ops.TRUNCDIV, _truncating("/"))
template(ops.TRUNCMOD, _truncating("%"))
template(ops.ABS, by_dtype({"int": _absolute, "uint": _identity, "float32": calls("fabsf"), "float64": calls("fabs"),
                            **dict.fromkeys(HALVES, calls("__habs")), **dict.fromkeys(PAIRS, calls("__habs2"))}))
template(ops.MIN, by_dtype({"int": calls("min"), "uint": calls("min"), "float32": calls("fminf"), "float64": calls("fmin"),
                            **dict.fromkeys(HALVES, calls("__hmin")), **dict.fromkeys(PAIRS, calls("__hmin2"))}))
template(ops.MAX, by_dtype({"int": calls("max"), "uint": calls("max"), "float32": calls("fmaxf"), "float64": calls("fmax"),
                            **dict.fromkeys(HALVES, calls("__hmax")), **dict.fromkeys(PAIRS, calls("__hmax2"))}))

# `&&` and `||` may leave the right side out: it is a value already computed, so nobody can tell (see `schedule`).
template(ops.AND, by_dtype({"bool": infix("&&"), "int": infix("&"), "uint": infix("&")}))
template(ops.OR, by_dtype({"bool": infix("||"), "int": infix("|"), "uint": infix("|")}))
template(ops.XOR, by_dtype({"bool": infix("!="), "int": infix("^"), "uint": infix("^")}))
template(ops.NOT, by_dtype({"bool": prefix("!"), "int": _complement, "uint": _complement}))
template(ops.SHL, _shift("<<"))
template(ops.SHR, _shift(">>"))

for _operation, _sign in ((ops.LT, "<"), (ops.LE, "<="), (ops.GT, ">"), (ops.GE, ">="), (ops.EQ, "=="), (ops.NE, "!=")):
    template(_operation, infix(_sign))

template(ops.SELECT, _select)
template(ops.CAST, _cast)
template(ops.REINTERPRET, _reinterpret)
template(ops.LET, _identity)

# ---- elementary functions ----------------------------------------------------------------------------------------------

# CUDA Math API, "Half Math Functions" and "Bfloat16 Math Functions": those that exist, with the same rounding of halves as ours.
_HALF_MATH = {"exp": "hexp", "exp2": "hexp2", "exp10": "hexp10", "log": "hlog", "log2": "hlog2", "log10": "hlog10", "sqrt": "hsqrt",
              "rsqrt": "hrsqrt", "sin": "hsin", "cos": "hcos", "floor": "hfloor", "ceil": "hceil", "trunc": "htrunc", "round": "hrint"}
# Ties go to the even neighbour, as with Python's round and numpy.round; CUDA's own `round` takes them away from zero, and is slower.
_C_NAMES = {"round": "rint"}


def _elementary(name: str) -> Form:
    c_name = _C_NAMES.get(name, name)
    single = calls(f"{c_name}f")
    widened = through_float32(lambda _, operands: fr.call(f"{c_name}f", *operands))
    half = calls(_HALF_MATH[name]) if name in _HALF_MATH else widened
    rows = {"float32": single, "float64": calls(c_name), **dict.fromkeys(HALVES, half)}
    if name == "fma":
        rows["float16"] = calls("__hfma")      # for bfloat16 it exists from sm_80 on only
    return by_dtype(rows)


for _row in ops.MATH:
    template(_row, _elementary(_row.name))


def _test(name: str) -> Form:
    """A test of a float, which CUDA answers with an int for halves."""
    return by_dtype({"float32": calls(name), "float64": calls(name), **dict.fromkeys(HALVES, calls(f"__h{name}"))}, of=first_dtype)


template(ops.ISNAN, _test("isnan"))
template(ops.ISINF, _test("isinf"))
