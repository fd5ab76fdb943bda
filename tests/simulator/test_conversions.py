"""Casts between all pairs of dtypes, against exact arithmetic and against every value that a narrow format has."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from runtime.simulator.conversions import conversion
from tests.simulator.running import random
from tests.simulator.test_semantics import FLOATS, INTEGERS, NARROW_FLOATS, nearest, same
from tracer.dtypes import dtype

N = 300


def convert(source: str, target: str, values: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(conversion(dtype(source), dtype(target))(values))


@pytest.mark.parametrize(("source", "target"), list(itertools.product((*FLOATS, *NARROW_FLOATS), INTEGERS)))
def test_float_to_integer_truncates_and_saturates(source: str, target: str) -> None:
    t = dtype(target)
    low, high = t.limits
    x = random(dtype(source).storage, N)
    if source in ("float32", "float64"):
        edges = [low - 1, low, low + 0.5, high, high + 1, -0.9, 0.9, 2.0**31, 2.0**32, 2.0**63, 2.0**64, -2.0**63, 1e30, -1e30]
        x = np.concatenate([x, np.array(edges, x.dtype)])
    got = convert(source, target, x)
    assert got.dtype == t.storage
    for value, result in zip(x.astype(np.float64).tolist(), got.tolist()):
        expected = 0 if math.isnan(value) else min(max(value, low), high)
        assert result == int(expected), value


@pytest.mark.parametrize(("source", "target"), list(itertools.product(INTEGERS, INTEGERS)))
def test_integer_to_integer_wraps(source: str, target: str) -> None:
    t = dtype(target)
    x = random(dtype(source).storage, N)
    got = convert(source, target, x)
    assert got.dtype == t.storage
    assert got.tolist() == [(v - t.limits[0]) % (1 << t.bits) + t.limits[0] for v in x.tolist()]


def rounded(x: Fraction, target: str) -> float:
    """`x` in a format of 16 bits or more: nearest, ties to even, beyond the middle of the last step infinity."""
    storage = dtype(target).storage
    largest = Fraction(float(ml_dtypes.finfo(storage).max))
    step = largest - Fraction(float(np.nextafter(storage.type(ml_dtypes.finfo(storage).max), storage.type(0))))
    if abs(x) >= largest + step / 2:
        return math.copysign(math.inf, x.numerator)
    return float(nearest(x, storage))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(INTEGERS, FLOATS)))
def test_integer_to_float_rounds_once(source: str, target: str) -> None:
    x = random(dtype(source).storage, N)
    got = convert(source, target, x)
    assert got.dtype == dtype(target).storage
    assert [float(v) for v in got] == [rounded(Fraction(v), target) for v in x.tolist()]


@pytest.mark.parametrize("bits", [24, 53, 63])
def test_integer_to_half_types_near_a_midpoint(bits: int) -> None:
    """One more than the midpoint of two bfloat16: any rounding on the way would lose it."""
    middle = (1 << bits - 1) + (1 << bits - 9)
    x = np.int64([middle - 1, middle, middle + 1, -middle - 1])
    up = 2.0 ** (bits - 1) * (1 + 2.0**-7)
    assert convert("int64", "bfloat16", x).astype(float).tolist() == [2.0 ** (bits - 1), 2.0 ** (bits - 1), up, -up]


@pytest.mark.parametrize(("source", "target"), list(itertools.product(FLOATS, FLOATS)))
def test_float_to_float_rounds_once(source: str, target: str) -> None:
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        scaled = (rng.standard_normal(N) * 2.0 ** rng.integers(-20, 20, N)).astype(dtype(source).storage)
        x = np.concatenate([random(dtype(source).storage, N), scaled])
    with np.errstate(invalid="ignore"):     # a signalling NaN
        given, got = x.astype(np.float64), convert(source, target, x).astype(np.float64)
    for value, result in zip(given.tolist(), got.tolist()):
        if math.isfinite(value):
            expected = rounded(Fraction(value), target)
            assert result == expected and math.copysign(1, result) == math.copysign(1, value), value
        else:
            assert result == value or math.isnan(value) and math.isnan(result)


@pytest.mark.parametrize(("target", "value", "expected"), [
    ("bfloat16", 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7), ("bfloat16", 1 + 2.0**-8, 1.0), ("bfloat16", -(1 + 2.0**-8 + 2.0**-40), -(1 + 2.0**-7)),
    ("float16", 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-10), ("float8_e4m3fn", 1 + 2.0**-4 + 2.0**-40, 1.125), ("float8_e4m3fn", 1 + 2.0**-4, 1.0)])
def test_double_near_a_midpoint(target: str, value: float, expected: float) -> None:
    assert float(convert("float64", target, np.float64([value]))[0]) == expected


@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("target", [n for n in NARROW_FLOATS if n != "float8_e8m0fnu"])
def test_narrow_floats_saturate(source: str, target: str) -> None:
    """Among all finite values of the format the nearest one, the even code where two are as near; never infinity."""
    storage = dtype(target).storage
    width = dtype(target).bits
    every = np.arange(1 << width, dtype=np.uint8).view(storage)
    table = sorted((Fraction(float(v)), k & 1) for k, v in enumerate(every) if np.isfinite(float(v)) and not (float(v) == 0 and k))
    largest = table[-1][0]
    x = random(dtype(source).storage, N)
    with np.errstate(all="ignore"):
        x = np.concatenate([x, np.array([float(v) for v in every if np.isfinite(float(v))], x.dtype)])
    for value, result in zip(x.astype(np.float64).tolist(), convert(source, target, x).astype(np.float64).tolist()):
        if math.isnan(value):
            assert math.isnan(result) if target.startswith("float8") else result == float(largest)
            continue
        held = largest if value > largest else -largest if value < -largest else Fraction(value)
        assert result == float(min(table, key=lambda row: (abs(row[0] - held), row[1]))[0]), value


def test_powers_of_two_round_up() -> None:
    x = np.float32([1.0, 1.5, 2.0, 2.1, 0.75, -3.0, 0.0, np.inf, np.nan, 1e-45, 3e38, 2.0**-127])
    got = convert("float32", "float8_e8m0fnu", x).astype(np.float64)
    expected = np.array([1, 2, 2, 4, 1, 4, 2.0**-127, 2.0**127, np.nan, 2.0**-127, 2.0**127, 2.0**-127])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("source", (*FLOATS, *NARROW_FLOATS, *INTEGERS, "bool"))
def test_bool_is_not_zero(source: str) -> None:
    x = random(dtype(source).storage, N)
    assert convert(source, "bool", x).tolist() == [bool(float(v) != 0) for v in x]


@pytest.mark.parametrize("target", (*FLOATS, *INTEGERS, "float8_e4m3fn"))
def test_bool_becomes_one(target: str) -> None:
    got = convert("bool", target, np.array([False, True]))
    assert got.dtype == dtype(target).storage and got.astype(float).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", (*FLOATS, *NARROW_FLOATS, *INTEGERS, "bool"))
def test_no_conversion_returns_the_value(name: str) -> None:
    x = random(dtype(name).storage, N)
    assert same(convert(name, name, x), x)


def test_scalars_convert_as_arrays() -> None:
    assert convert("float32", "int8", np.float32(300.7)) == 127
    assert convert("float64", "bfloat16", np.float64(1 + 2.0**-8 + 2.0**-40)) == ml_dtypes.bfloat16(1 + 2.0**-7)
    assert convert("uint64", "bfloat16", np.uint64(2**64 - 1)) == ml_dtypes.bfloat16(2.0**64)
