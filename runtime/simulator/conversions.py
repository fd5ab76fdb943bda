"""Conversions between dtypes, as CUDA's: each a NumPy function on whole arrays.

Sources: CUDA C++ Programming Guide and PTX ISA 9.7.9.22 `cvt` (float to integer truncates and saturates; here NaN always gives
0); `cuda_fp8.hpp`, `cuda_fp6.hpp`, `cuda_fp4.hpp` for the narrow floats, whose constructors saturate to the largest finite value.
A value is never rounded twice: what goes through a wider type on its way is rounded to odd there (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE ToC 57(4), 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from runtime.simulator.frames import Array, Value
from tracer.dtypes import DType

WIDE_FLOATS = ("float32", "float64")
_SATURATING = ("float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
_WITHOUT_NAN = ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")


def conversion(source: DType, target: DType) -> Callable[[Value], Value]:
    """The function that converts an array (or NumPy scalar) of `source` to `target`; both are taken as scalars, lane by lane."""
    source, target = source.scalar, target.scalar
    if source is target:
        return lambda x: x
    return _BY_KIND[_kind(source), _kind(target)](source, target)


def _kind(t: DType) -> str:
    return "int" if t.kind in ("uint", "handle") else t.kind


def _plain(source: DType, target: DType) -> Callable[[Value], Value]:
    return lambda x: x.astype(target.storage)


def _to_bool(source: DType, target: DType) -> Callable[[Value], Value]:
    if source.name in WIDE_FLOATS or not source.is_float:
        return lambda x: x != 0
    return lambda x: x.astype(np.float32) != 0


def _int_to_float(source: DType, target: DType) -> Callable[[Value], Value]:
    if target.name in WIDE_FLOATS:
        return lambda x: x.astype(target.storage)
    narrow = round_from_double(target)
    if source.bits < 64:
        return lambda x: narrow(x.astype(np.float64))
    return lambda x: narrow(_sticky(x).astype(np.float64))


def _sticky(x: Value) -> Value:
    """64-bit integers with at most 53 significant bits: where more are there, the low 11 become one sticky bit."""
    folded = ((x >> 11) | ((x & 0x7FF) != 0).astype(x.dtype)) << 11
    small = (x < 2**53) & (x > -2**53) if x.dtype.kind == "i" else x < 2**53
    return np.where(small, x, folded)


def _float_to_float(source: DType, target: DType) -> Callable[[Value], Value]:
    if target.name in WIDE_FLOATS:
        return lambda x: x.astype(target.storage)
    if source.name == "float64":
        return round_from_double(target)
    narrow = round_from_float(target)
    return lambda x: narrow(x.astype(np.float32))


def _float_to_int(source: DType, target: DType) -> Callable[[Value], Value]:
    low, high = target.limits
    beyond = float(high + 1)

    def convert(x: Value) -> Value:
        whole = np.trunc(x.astype(np.float64))
        inside = (whole >= low) & (whole < beyond)
        held = np.where(inside, whole, 0.0).astype(target.storage)
        held = np.where(whole >= beyond, target.storage.type(high), held)
        return np.where(whole < low, target.storage.type(low), held)

    return convert


_BY_KIND: dict[tuple[str, str], Callable[[DType, DType], Callable[[Value], Value]]] = {
    ("bool", "int"): _plain, ("bool", "float"): _int_to_float, ("bool", "bool"): _plain,
    ("int", "bool"): _to_bool, ("float", "bool"): _to_bool,
    ("int", "int"): _plain, ("int", "float"): _int_to_float,
    ("float", "int"): _float_to_int, ("float", "float"): _float_to_float,
}


def round_from_float(target: DType) -> Callable[[Value], Value]:
    """float32 -> `target`, rounded once to nearest even."""
    if target.name == "float8_e8m0fnu":
        return _to_e8m0
    if target.name in _SATURATING:
        largest = np.float32(ml_dtypes.finfo(target.storage).max)
        if target.name in _WITHOUT_NAN:
            return lambda x: np.where(np.isnan(x), largest, np.clip(x, -largest, largest)).astype(target.storage)
        return lambda x: np.clip(x, -largest, largest).astype(target.storage)
    return lambda x: x.astype(target.storage)


def round_from_double(target: DType) -> Callable[[Value], Value]:
    """float64 -> `target`, rounded once to nearest even."""
    if target.name in (*WIDE_FLOATS, "float16"):
        return lambda x: x.astype(target.storage)
    narrow = round_from_float(target)
    return lambda x: narrow(odd_float(x))


def odd_float(x: Value) -> Array:
    """float64 -> float32 rounded to odd: an inexact result takes the neighbour whose last bit is set."""
    x = np.asarray(x)
    nearest = x.astype(np.float32)
    back = nearest.astype(np.float64)
    bits = nearest.view(np.uint32) - (np.abs(back) > np.abs(x)).astype(np.uint32)
    inexact = (back != x) & ~np.isnan(x)
    rounded: Array = np.where(inexact, bits | np.uint32(1), bits)
    return rounded.view(np.float32)


def _to_e8m0(x: Value) -> Array:
    """float32 -> a power of two: the magnitude rounded up, at least 2**-127 and at most 2**127."""
    fraction, exponent = np.frexp(np.abs(x))
    power = exponent - (fraction == 0.5)
    bits = np.clip(np.where(np.isinf(x), 127, np.where(x == 0, -127, power)) + 127, 0, 254)
    codes: Any = np.where(np.isnan(x), 255, bits).astype(np.uint8)
    return np.asarray(codes).view(ml_dtypes.float8_e8m0fnu)
