"""Each operation's rule against NumPy, the C library or exact arithmetic, on random values of every dtype it takes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from runtime.simulator.frames import Array
from runtime.simulator.program import LEAVES, STATEMENTS
from runtime.simulator.semantics import SEMANTICS, Undefined
from tests.simulator.running import random
from tracer import operations as op
from tracer.dtypes import DType, dtype
from tracer.errors import NotSupportedError
from tracer.ir import Node
from tracer.operations import OPERATIONS, Operation

FLOATS = ("float16", "bfloat16", "float32", "float64")
NARROW_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
N = 400


def leaf(name: str) -> Node:
    return Node(op.SCALAR, (), dtype(name), {})


def apply(row: Operation, result: str, *values: tuple[str, Any], **attrs: Any) -> Array:
    node = Node(row, tuple(leaf(name) for name, _ in values), dtype(result), attrs)
    with np.errstate(all="ignore"):
        return np.asarray(SEMANTICS[row](node)(*[v for _, v in values]))


def same(a: Array, b: Array) -> bool:
    """Equal bit for bit, except that any NaN equals any."""
    assert a.dtype == b.dtype, (a.dtype, b.dtype)
    if a.dtype.kind in "biu":
        return np.array_equal(a, b)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return bool(np.all((np.isnan(wide_a) & np.isnan(wide_b)) | ((wide_a == wide_b) & (np.signbit(wide_a) == np.signbit(wide_b)))))


def test_every_operation_has_a_rule() -> None:
    without = [row for row in OPERATIONS.values() if row not in SEMANTICS and row not in STATEMENTS and row not in LEAVES]
    assert without == []


def test_no_operation_has_two_rules() -> None:
    assert not SEMANTICS.keys() & STATEMENTS.keys() and not LEAVES & (SEMANTICS.keys() | STATEMENTS.keys())


# ---- floats: one rounding of the exact result --------------------------------------------------------------------------

def nearest(x: Fraction, storage: Any) -> Any:
    """`x` rounded to nearest even, found among the neighbours of a float64 guess, by exact comparison."""
    guess = np.float64(x.numerator / x.denominator)
    if storage == np.float64:
        return guess
    near = np.asarray(guess).astype(np.float32).astype(storage)
    unsigned = np.dtype(f"uint{8 * near.dtype.itemsize}")
    codes = [int(near.view(unsigned)) + k for k in (-1, 0, 1)]
    around = [(c, np.asarray(c, unsigned).view(near.dtype)) for c in codes if c >= 0]
    return min(((abs(Fraction(float(v)) - x), c & 1, v) for c, v in around if np.isfinite(float(v))), key=lambda t: t[:2])[2]


EXACT = {op.ADD: lambda a, b: a + b, op.SUB: lambda a, b: a - b, op.MUL: lambda a, b: a * b, op.DIV: lambda a, b: a / b}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("row", EXACT, ids=str)
def test_arithmetic_rounds_once(row: Operation, name: str) -> None:
    storage = dtype(name).storage
    rng = np.random.default_rng(3)
    a, b = ((rng.uniform(0.5, 1, N) * rng.choice([-1, 1], N) * 2.0 ** rng.integers(-4, 5, N)).astype(storage) for _ in range(2))
    got = apply(row, name, (name, a), (name, b))
    assert got.dtype == storage
    for x, y, z in zip(a, b, got):
        assert z == nearest(EXACT[row](Fraction(float(x)), Fraction(float(y))), storage), (x, y, z)


def test_half_precision_rounds_after_each_operation() -> None:
    a = np.float16([2048.0])
    once = apply(op.ADD, "float16", ("float16", a), ("float16", np.float16([1.0])))
    assert apply(op.ADD, "float16", ("float16", once), ("float16", np.float16([1.0]))) == 2048.0
    b = ml_dtypes.bfloat16(256.0)
    assert apply(op.ADD, "bfloat16", ("bfloat16", np.asarray([b])), ("bfloat16", np.asarray([b / b]))) == 256.0


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(("row", "function"), [
    (op.ADD, np.add), (op.SUB, np.subtract), (op.MUL, np.multiply), (op.DIV, np.divide),
    (op.NEG, np.negative), (op.ABS, np.abs), (op.FLOORDIV, np.floor_divide), (op.FLOORMOD, np.remainder)], ids=str)
def test_special_values(row: Operation, function: Any, name: str) -> None:
    storage = dtype(name).storage
    values = [random(storage, N, seed) for seed in range(len(row.operands))]
    wide = np.float64 if name == "float64" else np.float32
    with np.errstate(all="ignore"):
        expected = function(*[v.astype(wide) for v in values]).astype(storage)
    assert same(apply(row, name, *[(name, v) for v in values]), expected)


@pytest.mark.parametrize("name", FLOATS)
def test_min_and_max_lose_the_nan_and_know_the_sign_of_zero(name: str) -> None:
    storage = dtype(name).storage
    a, b = random(storage, N, 0), random(storage, N, 1)
    a[10:14], b[10:14] = [0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, 0.0, -0.0]

    def less(x: Any, y: Any) -> bool:
        return float(x) < float(y) or x == y and bool(np.signbit(x)) and not np.signbit(y)

    least = [y if np.isnan(float(x)) else x if np.isnan(float(y)) or less(x, y) else y for x, y in zip(a, b)]
    most = [y if np.isnan(float(x)) else x if np.isnan(float(y)) or less(y, x) else y for x, y in zip(a, b)]
    assert same(apply(op.MIN, name, (name, a), (name, b)), np.array(least, storage))
    assert same(apply(op.MAX, name, (name, a), (name, b)), np.array(most, storage))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("row", op.MATH, ids=str)
def test_elementary_functions(row: Operation, name: str) -> None:
    storage = dtype(name).storage
    rng = np.random.default_rng(5)
    values = [(rng.random(N) * 0.9 + 0.05 + (k == 1)).astype(storage) for k in range(len(row.operands))]
    reference = {"exp10": lambda x: 10.0 ** x, "rsqrt": lambda x: 1 / math.sqrt(x), "cbrt": lambda x: x ** (1 / 3), "round": round,
                 "erf": math.erf, "exp2": lambda x: 2.0 ** x, "fma": lambda a, b, c: a * b + c}
    function = reference.get(row.name) or getattr(math, row.name)
    expected = np.array([function(*map(float, xs)) for xs in zip(*values)])
    got = apply(row, name, *[(name, v) for v in values])
    assert got.dtype == storage
    unit = 4 * float(ml_dtypes.finfo(storage).eps)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=unit, atol=unit)


@pytest.mark.parametrize("name", FLOATS)
def test_rounding_functions_are_exact(name: str) -> None:
    x = np.array([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 3.75]).astype(dtype(name).storage)
    rows = {"round": [-2, -2, -0.0, -0.0, 0, 2, 2, 4], "floor": [-3, -2, -1, -0.0, 0, 1, 2, 3], "ceil": [-2, -1, -0.0, -0.0, 1, 2, 3, 4],
            "trunc": [-2, -1, -0.0, -0.0, 0, 1, 2, 3]}
    for function, expected in rows.items():
        assert same(apply(OPERATIONS[function], name, (name, x)), np.array(expected, float).astype(x.dtype)), function


def test_special_cases_of_c() -> None:
    nan, inf = np.nan, np.inf
    for function, a, b, expected in [
            ("pow", 1.0, nan, 1.0), ("pow", nan, 0.0, 1.0), ("pow", -8.0, 3.0, -512.0), ("pow", -8.0, 0.5, nan), ("pow", 0.0, -1.0, inf),
            ("fmod", -7.5, 2.0, -1.5), ("fmod", 7.5, -2.0, 1.5), ("fmod", 1.0, 0.0, nan), ("fmod", 3.0, inf, 3.0),
            ("atan2", 0.0, -1.0, np.pi), ("atan2", -0.0, -1.0, -np.pi), ("copysign", 3.0, -0.0, -3.0)]:
        got = apply(OPERATIONS[function], "float64", ("float64", np.float64([a])), ("float64", np.float64([b])))
        assert same(got, np.float64([expected])), (function, a, b)
    for function, a, expected in [("rsqrt", 0.0, inf), ("rsqrt", -0.0, -inf), ("rsqrt", -1.0, nan), ("rsqrt", inf, 0.0), ("erf", -inf, -1.0),
                                  ("erf", nan, nan), ("erf", -0.0, -0.0), ("log", 0.0, -inf), ("sqrt", -0.0, -0.0), ("exp10", 3.0, 1000.0)]:
        for name in ("float32", "float64"):
            x = np.array([a], name)
            assert same(apply(OPERATIONS[function], name, (name, x)), np.array([expected], name)), (function, a, name)


# ---- fma ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", FLOATS)
def test_fma_rounds_once(name: str) -> None:
    """Products that nearly cancel and sums that fall on the midpoint of two numbers but for a far bit."""
    storage = dtype(name).storage
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(N).astype(storage) for _ in range(2))
    product = np.array([float(x) * float(y) for x, y in zip(a, b)])
    spread = 10 if name == "float16" else 30
    c = rng.standard_normal(N) * 2.0 ** rng.integers(-spread, spread, N)
    c = np.where(np.arange(N) % 2, c, -product).astype(storage)
    got = apply(OPERATIONS["fma"], name, *[(name, v) for v in (a, b, c)])
    for x, y, z, r in zip(a, b, c, got):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        expected = nearest(exact, storage)
        assert float(r) == float(expected), (x, y, z, r)


def test_fma_float32_where_double_rounding_fails() -> None:
    """2**-24 - 2**-60 added to 1 + 2**-23 lies below the midpoint; in float64 the sum becomes that midpoint, which rounds up."""
    a, b, c = (np.float32([v]) for v in (2.0**-12 * (1 + 2.0**-18), 2.0**-12 * (1 - 2.0**-18), 1 + 2.0**-23))
    assert (a.astype(np.float64) * b + c).astype(np.float32) == np.float32(1 + 2.0**-22)
    assert apply(OPERATIONS["fma"], "float32", ("float32", a), ("float32", b), ("float32", c)) == np.float32(1 + 2.0**-23)


def test_fma_float64_edges() -> None:
    big, small, inf, nan = 1.5e308, 5e-324, np.inf, np.nan
    cases = [(big, 2.0, -inf, -inf), (big, 2.0, -big, big), (big, big, 1.0, inf), (small, 0.5, 0.0, 0.0), (small, 0.75, 0.0, small),
             (small, small, 1.0, 1.0), (inf, 0.0, 1.0, nan), (inf, 1.0, -inf, nan), (1.0, nan, 1.0, nan), (0.0, -1.0, -0.0, -0.0),
             (0.0, 1.0, -0.0, 0.0), (3.0, 5.0, -15.0, 0.0), (1e-300, 1e-300, -1e-320, -1e-320)]
    a, b, c, expected = (np.float64(column) for column in zip(*cases))
    assert same(apply(OPERATIONS["fma"], "float64", *[("float64", v) for v in (a, b, c)]), expected)


# ---- integers ----------------------------------------------------------------------------------------------------------

def truncated(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


INTEGER_REFERENCE = {
    op.ADD: lambda a, b: a + b, op.SUB: lambda a, b: a - b, op.MUL: lambda a, b: a * b, op.FLOORDIV: lambda a, b: a // b,
    op.FLOORMOD: lambda a, b: a % b, op.TRUNCDIV: truncated, op.TRUNCMOD: lambda a, b: a - b * truncated(a, b), op.NEG: lambda a: -a,
    op.ABS: abs, op.MIN: min, op.MAX: max, op.AND: lambda a, b: a & b, op.OR: lambda a, b: a | b, op.XOR: lambda a, b: a ^ b,
    op.NOT: lambda a: ~a, op.SHL: lambda a, b: a << b, op.SHR: lambda a, b: a >> b,
}


def wrapped(x: int, t: DType) -> int:
    low, _ = t.limits
    return (x - low) % (1 << t.bits) + low


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("row", INTEGER_REFERENCE, ids=str)
def test_integers_wrap(row: Operation, name: str) -> None:
    t = dtype(name)
    values = [random(t.storage, N, seed) for seed in range(len(row.operands))]
    if row in (op.SHL, op.SHR):
        values[1] %= t.bits
    if row in (op.FLOORDIV, op.FLOORMOD, op.TRUNCDIV, op.TRUNCMOD):
        values[1][values[1] == 0] = 3
        values[0][(values[1].astype(object) == -1) & (values[0] == t.limits[0])] = 1
    got = apply(row, name, *[(name, v) for v in values])
    assert got.dtype == t.storage
    assert got.tolist() == [wrapped(INTEGER_REFERENCE[row](*map(int, xs)), t) for xs in zip(*values)]


COMPARISONS = {op.LT: lambda a, b: a < b, op.LE: lambda a, b: a <= b, op.GT: lambda a, b: a > b, op.GE: lambda a, b: a >= b,
               op.EQ: lambda a, b: a == b, op.NE: lambda a, b: a != b}


@pytest.mark.parametrize("name", (*INTEGERS, *FLOATS, "bool"))
@pytest.mark.parametrize("row", COMPARISONS, ids=str)
def test_comparisons(row: Operation, name: str) -> None:
    a, b = random(dtype(name).storage, N, 0), random(dtype(name).storage, N, 1)
    b[::3] = a[::3]
    got = apply(row, "bool", (name, a), (name, b))
    assert got.dtype == np.bool_
    kind = float if name in FLOATS else int
    assert got.tolist() == [COMPARISONS[row](kind(x), kind(y)) for x, y in zip(a, b)]


@pytest.mark.parametrize(("row", "table"), [(op.AND, [0, 0, 0, 1]), (op.OR, [0, 1, 1, 1]), (op.XOR, [0, 1, 1, 0])], ids=str)
def test_logic_of_bools(row: Operation, table: list[int]) -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    got = apply(row, "bool", ("bool", a), ("bool", b))
    assert got.dtype == np.bool_ and got.tolist() == [bool(x) for x in table]
    assert apply(op.NOT, "bool", ("bool", a)).tolist() == [True, True, False, False]


@pytest.mark.parametrize("name", FLOATS)
def test_tests_of_floats(name: str) -> None:
    x = random(dtype(name).storage, N)
    assert apply(op.ISNAN, "bool", (name, x)).tolist() == [math.isnan(float(v)) for v in x]
    assert apply(op.ISINF, "bool", (name, x)).tolist() == [math.isinf(float(v)) for v in x]


@pytest.mark.parametrize(("row", "a", "b", "message"), [
    (op.FLOORDIV, [1, 2], [1, 0], "division by zero"), (op.FLOORMOD, [1, 2], [1, 0], "division by zero"),
    (op.TRUNCDIV, [1, 2], [1, 0], "division by zero"), (op.TRUNCMOD, [1, 2], [1, 0], "division by zero"),
    (op.FLOORDIV, [0, -2**31], [1, -1], "-2147483648 divided by -1 is no int32"),
    (op.SHL, [1, 1], [0, 32], "shift by {}, not in [0, 32)"),
    (op.SHR, [1, 1], [0, -1], "shift by {}, not in [0, 32)")], ids=str)
def test_undefined(row: Operation, a: list[int], b: list[int], message: str) -> None:
    with pytest.raises(Undefined) as caught:
        apply(row, "int32", ("int32", np.int32(a)), ("int32", np.int32(b)))
    assert caught.value.what == message and caught.value.where.tolist() == [False, True]


def test_an_operation_without_meaning_is_refused() -> None:
    with pytest.raises(NotSupportedError, match=r"truncdiv of float32 has no meaning; at None"):
        apply(op.TRUNCDIV, "float32", ("float32", np.float32([1])), ("float32", np.float32([1])))


# ---- mixed operands, choosing, taking apart ----------------------------------------------------------------------------

def test_operands_promote() -> None:
    i, f = np.int32([2**24 + 1, -3]), np.float32([1.0, 0.5])
    assert same(apply(op.MUL, "float32", ("int32", i), ("float32", f)), i.astype(np.float32) * f)
    assert apply(op.LT, "bool", ("int16", np.int16([-1])), ("uint16", np.uint16([65535]))).tolist() == [True]
    assert apply(op.SHL, "int64", ("int64", np.int64([1])), ("int32", np.int32([40]))).tolist() == [1 << 40]


def test_select_keeps_the_dtype() -> None:
    condition, a, b = np.array([True, False]), np.float16([1.5, 2.5]), np.float16([3.5, 4.5])
    assert same(apply(op.SELECT, "float16", ("bool", condition), ("float16", a), ("float16", b)), np.float16([1.5, 4.5]))
    assert same(apply(op.SELECT, "float32", ("bool", condition), ("int32", np.int32([1, 2])), ("float32", np.float32([3, 4.5]))),
                np.float32([1, 4.5]))


@pytest.mark.parametrize(("source", "target"), [("float32", "uint32"), ("uint16", "float16"), ("int8", "float8_e4m3fn"), ("float64", "int64"),
                                                ("bfloat16", "int16"), ("uint32", "float16x2"), ("uint8x4", "uint32"), ("int32x2", "float64")])
def test_reinterpret_keeps_the_bytes(source: str, target: str) -> None:
    t = dtype(source)
    x = random(t.storage, 64 * t.lanes).reshape((64, t.lanes) if t.lanes > 1 else 64)
    got = apply(op.REINTERPRET, target, (source, x))
    assert got.tobytes() == x.tobytes() and got.dtype == dtype(target).storage
    assert got.shape == ((64, dtype(target).lanes) if dtype(target).lanes > 1 else (64,))


def test_lanes() -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert apply(op.LANE, "int32", ("int32x4", x), index=2).tolist() == [2, 6, 10]
    assert apply(op.CAST, "float32x4", ("int32x4", x)).tolist() == x.tolist()
    assert apply(op.CAST, "float32x2", ("int32", x[:, 0])).tolist() == [[0, 0], [4, 4], [8, 8]]
