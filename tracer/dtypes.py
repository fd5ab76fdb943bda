"""The scalar and vector types of the language: one row each, and the one table by which two of them promote."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import ml_dtypes
import numpy as np

from tracer.errors import DTypeError

Kind = Literal["bool", "int", "uint", "float", "handle"]


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar type (`lanes == 1`) or a short vector of one (`float32x4`). Made by `dtype(name)`, so equal names are one object.

    `bits` is the width of one lane's value, `width` that of one lane in memory; `storage` the NumPy type that holds one lane;
    `c_name` how CUDA C++ writes the scalar.
    """

    name: str
    kind: Kind
    bits: int
    lanes: int
    storage: np.dtype[Any]
    c_name: str

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Equal to itself and to its own name, so that `x.dtype == "float32"` reads as one expects."""
        return self.name == other if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def scalar(self) -> DType:
        """The type of one lane."""
        return self if self.lanes == 1 else dtype(self.name.rsplit("x", 1)[0])

    @property
    def width(self) -> int:
        """Bits that one lane takes in memory: a byte at least, but for 4-bit floats, two of which share one, the first in its low half.

        A 6-bit float has the low bits of a byte, as in `__nv_fp6_e2m3`, ml_dtypes, and the operands of mma.
        """
        return self.bits if self.packed else max(8, self.bits)

    @property
    def packed(self) -> bool:
        """True where two lanes share a byte."""
        return self.bits == 4

    @property
    def cell(self) -> np.dtype[Any]:
        """The NumPy type that a memory of it consists of: one lane, or the byte that two share."""
        return np.dtype(np.uint8) if self.packed else self.storage

    @property
    def bytes(self) -> int:
        """Bytes of the whole value in memory, rounded up to whole bytes a vector."""
        return -(-self.width * self.lanes // 8)

    @property
    def alignment(self) -> int:
        """Bytes to which CUDA aligns a value: one access moves it, 16 bytes at most; 3-lane vectors align as a lane."""
        return self.scalar.bytes if self.lanes == 3 else min(16, self.bytes)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers; not for bool."""
        return self.kind in ("int", "uint")

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest value of an integer type or bool, inclusive."""
        if self.kind == "int":
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        if self.kind == "uint":
            return 0, (1 << self.bits) - 1
        if self.kind == "bool":
            return 0, 1
        raise DTypeError(f"{self.name} has no integer limits")

    def vector(self, lanes: int) -> DType:
        """The vector of `lanes` of this scalar type."""
        return self if lanes == 1 else dtype(f"{self.name}x{lanes}")


# name: kind, bits, NumPy storage, CUDA name
_SCALARS: dict[str, tuple[Kind, int, Any, str]] = {
    "bool": ("bool", 8, np.bool_, "bool"),
    "int8": ("int", 8, np.int8, "signed char"),
    "int16": ("int", 16, np.int16, "short"),
    "int32": ("int", 32, np.int32, "int"),
    "int64": ("int", 64, np.int64, "long long"),
    "uint8": ("uint", 8, np.uint8, "unsigned char"),
    "uint16": ("uint", 16, np.uint16, "unsigned short"),
    "uint32": ("uint", 32, np.uint32, "unsigned int"),
    "uint64": ("uint", 64, np.uint64, "unsigned long long"),
    "float16": ("float", 16, np.float16, "half"),
    "bfloat16": ("float", 16, ml_dtypes.bfloat16, "__nv_bfloat16"),
    "float32": ("float", 32, np.float32, "float"),
    "float64": ("float", 64, np.float64, "double"),
    "float8_e4m3fn": ("float", 8, ml_dtypes.float8_e4m3fn, "__nv_fp8_e4m3"),
    "float8_e5m2": ("float", 8, ml_dtypes.float8_e5m2, "__nv_fp8_e5m2"),
    "float8_e8m0fnu": ("float", 8, ml_dtypes.float8_e8m0fnu, "__nv_fp8_e8m0"),
    "float6_e2m3fn": ("float", 6, ml_dtypes.float6_e2m3fn, "__nv_fp6_e2m3"),
    "float6_e3m2fn": ("float", 6, ml_dtypes.float6_e3m2fn, "__nv_fp6_e3m2"),
    "float4_e2m1fn": ("float", 4, ml_dtypes.float4_e2m1fn, "__nv_fp4_e2m1"),
    "handle": ("handle", 64, np.uint64, "void*"),
}

SCALAR_NAMES = tuple(name for name in _SCALARS if name != "handle")
VECTOR_LANES = (2, 3, 4, 8, 16)


@cache
def _by_name(name: str) -> DType:
    if name in _SCALARS:
        kind, bits, storage, c_name = _SCALARS[name]
        return DType(name, kind, bits, 1, np.dtype(storage), c_name)
    match = re.fullmatch(r"(.+?)x(\d+)", name)
    if match and match[1] in _SCALARS and match[1] != "handle" and int(match[2]) in VECTOR_LANES:
        kind, bits, storage, c_name = _SCALARS[match[1]]
        if bits == 4 and int(match[2]) % 2:
            raise DTypeError(f"{name}: a vector of {match[1]} has an even number of lanes, as two share a byte")
        return DType(name, kind, bits, int(match[2]), np.dtype(storage), c_name)
    raise DTypeError(
        f"unknown dtype {name!r}; write one of {', '.join(SCALAR_NAMES)}, or a vector such as 'float32x4' "
        f"(lanes {', '.join(map(str, VECTOR_LANES))})"
    )


def dtype(spec: Any) -> DType:
    """The `DType` that `spec` names: a name, a `DType`, a NumPy dtype or scalar class, or a `T.float32`-style annotation."""
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str):
        return _by_name(spec)
    named = getattr(spec, "dtype", None)  # `T.float32` and its like carry the type they stand for
    if isinstance(named, DType):
        return named
    try:
        return _by_name(np.dtype(spec).name)
    except TypeError:
        raise DTypeError(f"{spec!r} is not a dtype; write a name such as 'float32'") from None


# What two different scalar types promote to. Integers follow NumPy; an integer or bool takes the float's type; half types
# widen to the wider float. A pair without an entry is an error: float16 with bfloat16, float8 with anything, int64 with uint64.
def _promotions() -> dict[frozenset[str], str]:
    table: dict[frozenset[str], str] = {}
    integers = [n for n, row in _SCALARS.items() if row[0] in ("int", "uint")]
    floats = ["float16", "bfloat16", "float32", "float64"]
    for a in integers:
        for b in integers:
            result = np.promote_types(_SCALARS[a][2], _SCALARS[b][2]).name
            if a != b and result in integers:
                table[frozenset((a, b))] = result
        table[frozenset((a, "bool"))] = a
        for f in floats:
            table[frozenset((a, f))] = f
    for f in floats:
        table[frozenset((f, "bool"))] = f
    for narrow, wide in [("float16", "float32"), ("bfloat16", "float32"), ("float16", "float64"),
                         ("bfloat16", "float64"), ("float32", "float64")]:
        table[frozenset((narrow, wide))] = wide
    return table


PROMOTIONS = _promotions()


@cache
def promote(a: DType, b: DType) -> DType:
    """The type of `a op b`. Lanes must agree, or one side is a scalar that spreads over the other's lanes.

    Raises `DTypeError` naming both types where the table has no entry.
    """
    if a is b:
        return a
    if a.lanes != b.lanes and 1 not in (a.lanes, b.lanes):
        raise DTypeError(f"{a} and {b} have different numbers of lanes")
    lanes = max(a.lanes, b.lanes)
    if a.scalar is b.scalar:
        return a.scalar.vector(lanes)
    name = PROMOTIONS.get(frozenset((a.scalar.name, b.scalar.name)))
    if name is None:
        raise DTypeError(f"{a} and {b} do not promote to a common type; cast one with .astype(...)")
    return dtype(name).vector(lanes)


def can_store(value: DType, target: DType) -> bool:
    """True where a value of type `value` may be stored in a buffer of type `target` without a cast: it promotes to it."""
    try:
        return promote(value, target) is target and (value.lanes == target.lanes or value.lanes == 1)
    except DTypeError:
        return False


def literal_dtype(value: bool | int | float) -> DType:
    """The type of a Python literal that no typed operand decides: bool, int32 (int64 where it needs more), float32."""
    if isinstance(value, bool):
        return dtype("bool")
    if isinstance(value, int):
        for name in ("int32", "int64", "uint64"):
            low, high = dtype(name).limits
            if low <= value <= high:
                return dtype(name)
        raise DTypeError(f"the integer {value} fits no integer dtype")
    return dtype("float32")


def check_literal(value: bool | int | float, target: DType) -> bool | int | float:
    """`value` as a constant of type `target`, or `DTypeError` where `target` cannot hold it (NumPy 2's rule for Python scalars)."""
    kind = target.kind
    if kind == "handle":
        raise DTypeError(f"the literal {value!r} cannot be a pointer")
    if kind == "bool":
        if isinstance(value, bool):
            return value
        raise DTypeError(f"the literal {value!r} is not a bool; compare it, or write True or False")
    if kind in ("int", "uint"):
        if isinstance(value, float):
            raise DTypeError(f"the literal {value!r} is a float and {target} cannot hold it; cast the other operand with "
                             ".astype('float32'), or write an integer")
        low, high = target.limits
        if not low <= int(value) <= high:
            raise DTypeError(f"the literal {value!r} is outside {target}'s range [{low}, {high}]")
        return int(value)
    number = float(value)
    if np.isfinite(number):
        with np.errstate(over="ignore"):
            held = np.asarray(number).astype(target.storage)
        if not np.isfinite(held.astype(np.float64)):
            raise DTypeError(f"the literal {value!r} overflows {target}")
    return number
