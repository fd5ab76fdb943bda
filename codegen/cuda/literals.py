"""Constants in CUDA C++: decimal, shortest, and of the right type."""

from __future__ import annotations

import math

import numpy as np

from codegen.cuda.fragments import ADDITIVE, PRIMARY, UNARY, Fragment
from codegen.cuda.helpers import Needs
from codegen.cuda.types import c_type
from tracer.dtypes import DType

_SUFFIX = {"uint32": "u", "int64": "LL", "uint64": "ULL"}


def literal(value: bool | int | float, dtype: DType, needs: Needs, *, typed: bool = False) -> Fragment:
    """`value` as a constant of the scalar `dtype`.

    An integer that fits `int` is written bare, and converts where it stands; `typed` adds its type's suffix, for a place
    (a template's argument, an overload) where the type counts.
    """
    if dtype.kind == "bool":
        return Fragment("true" if value else "false", PRIMARY)
    if dtype.is_integer:
        return integer(int(value), dtype.name, typed=typed)
    return _float(float(value), dtype, needs)


def integer(value: int, dtype: str = "int32", *, typed: bool = False) -> Fragment:
    """An integer constant. The least `int` and `long long` have no literal of their own in C++."""
    if value in (-(1 << 31), -(1 << 63)):
        suffix = "LL" if value == -(1 << 63) else _SUFFIX.get(dtype, "") if typed else ""
        return Fragment(f"{value + 1}{suffix} - 1", ADDITIVE)
    fits = -(1 << 31) < value < (1 << 31)
    suffix = _SUFFIX.get(dtype, "") if typed or not fits else ""
    if not fits and not suffix:
        suffix = "LL"
    return Fragment(f"{value}{suffix}", UNARY if value < 0 else PRIMARY)


def literal_kind(value: int, dtype: str) -> str:
    """The C type of an untyped integer constant of a 32- or 64-bit `dtype`."""
    return "int32" if -(1 << 31) <= value < (1 << 31) else dtype


def _float(value: float, dtype: DType, needs: Needs) -> Fragment:
    name = c_type(dtype, needs)
    single = _digits(value, dtype, needs)
    if dtype.name == "float64":
        return single
    if dtype.name == "float32":
        return single
    return Fragment(f"{name}({single.text})", PRIMARY)


def _digits(value: float, dtype: DType, needs: Needs) -> Fragment:
    """The number itself: a double for float64, else a float that rounds to the value."""
    sign = "-" if math.copysign(1.0, value) < 0 and not math.isnan(value) else ""
    precedence = UNARY if sign else PRIMARY
    if not math.isfinite(value):
        macro = "NAN" if math.isnan(value) else "INFINITY"
        needs.helper(macro)
        if dtype.name == "float64":
            return Fragment(f"(double){sign}{macro}", UNARY)
        return Fragment(f"{sign}{macro}", precedence)
    held = np.asarray(abs(value)).astype(dtype.storage)[()]
    wide = float(held)
    text = f"{int(wide)}.0" if wide.is_integer() and wide < 1e16 else str(held)
    if "." not in text and "e" not in text:
        text += ".0"
    return Fragment(f"{sign}{text}{'' if dtype.name == 'float64' else 'f'}", precedence)
