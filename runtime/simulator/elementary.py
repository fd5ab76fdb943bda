"""Elementary functions that NumPy lacks. Arguments are float32 or float64 arrays (or NumPy scalars) of one dtype."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from runtime.simulator.frames import Array, Value

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Value) -> Value:
    """The error function, computed in float64 by the C library and rounded once."""
    return np.asarray(_erf(x)).astype(x.dtype)


def rsqrt(x: Value) -> Value:
    """1/sqrt(x), computed in float64 and rounded once; -0 gives -inf, as IEEE 754 `rSqrt`."""
    return (1.0 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


def exp10(x: Value) -> Value:
    return np.power(x.dtype.type(10), x)


def fused(a: Value, b: Value, c: Value) -> Array:
    """a*b + c of float32 (or narrower, widened) inputs in float64 rounded to odd, so that a narrower rounding is right."""
    product = a.astype(np.float64) * b.astype(np.float64)       # exact: 48 bits
    total, error = _two_sum(product, c.astype(np.float64))
    return _odd(total, error)


def exact_sum(a: Array, b: Array) -> Array:
    """a + b of float64 rounded to odd, so that a narrower rounding is right."""
    return _odd(*_two_sum(a, b))


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded sum and its exact error (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _odd(total: Value, error: Value) -> Array:
    """`total + error` in float64 rounded to odd, where `total` is the nearest to it."""
    total, error = np.asarray(total), np.asarray(error)
    inexact = (error != 0) & np.isfinite(total) & np.isfinite(error)
    bits = total.view(np.int64)
    toward = np.where((error > 0) == (total > 0), 1, -1)        # away from zero is up in the bits of either sign
    rounded: Array = np.where(inexact & (bits & 1 == 0), bits + toward, bits)
    return rounded.view(np.float64)


def _split(a: Value) -> tuple[Value, Value]:
    """26 high bits and the rest (Veltkamp)."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def fused_double(a: Value, b: Value, c: Value) -> Array:
    """float64 a*b + c rounded once: Boldo and Melquiond's algorithm where no part of it can over- or underflow, exact
    rational arithmetic elsewhere."""
    a, b, c = np.broadcast_arrays(a, b, c)
    product = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    low = ((ah * bh - product) + ah * bl + al * bh) + al * bl
    upper, tail = _two_sum(c, low)
    total, rest = _two_sum(product, upper)
    result = np.asarray(total + _odd(*_two_sum(tail, rest)))
    nothing = (a == 0) | (b == 0)
    safe = _moderate(a) & _moderate(b) & (_moderate(c) | (c == 0)) & _moderate(product)
    for k in np.argwhere(~(safe | nothing)):
        where = tuple(k)
        result[where] = _fused_exactly(float(a[where]), float(b[where]), float(c[where]))
    return np.where(nothing, product + c, result)


def _moderate(x: Array) -> Any:
    size = np.abs(x)
    return (size > 2.0**-400) & (size < 2.0**400)


def _fused_exactly(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c                # only the sign of zero is left to decide
    try:
        return exact.numerator / exact.denominator      # Python's int / int rounds correctly
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
