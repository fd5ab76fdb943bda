"""Conversions between dtypes, with CUDA's semantics whatever C++ leaves undefined.

* float to integer truncates, saturates, and gives 0 for NaN. A C++ cast of a value out of range is undefined, so the
  instruction is named: `__float2int_rz`, `__float2uint_rz` (CUDA Math API, "Type Casting Intrinsics"; their `cvt.rzi` clamps and
  gives 0 for NaN), and a helper where the instruction does not give 0 for NaN or stops at 32 bits.
* integer to float rounds once, to nearest even. Where the way to a half type leads over float32, the first step is exact
  or the value beyond the half type's range.
* integer to narrower integer wraps: two's complement, as C++20 says and nvcc does in all modes.
"""

from __future__ import annotations

from codegen.cuda.fragments import Fragment, call, cast, infix
from codegen.cuda.helpers import Needs
from codegen.cuda.literals import literal
from codegen.cuda.names import reserve_called
from codegen.cuda.types import c_type
from tracer.dtypes import DType, dtype

_FLOAT32 = dtype("float32")
_DIRECT = {("float32", "int32"): "__float2int_rz", ("float32", "uint32"): "__float2uint_rz"}
_HALVES = {"float16": "half", "bfloat16": "bfloat16"}
_WORDS = {("int", 64): "ll", ("uint", 64): "ull", ("uint", 32): "uint"}     # every other integer is promoted to int

# Bits read as another type. A pair without a row goes through the helper `bit_cast`.
_REINTERPRET = {
    ("float32", "int32"): "__float_as_int", ("int32", "float32"): "__int_as_float",
    ("float32", "uint32"): "__float_as_uint", ("uint32", "float32"): "__uint_as_float",
    ("float64", "int64"): "__double_as_longlong", ("int64", "float64"): "__longlong_as_double",
    ("float16", "int16"): "__half_as_short", ("int16", "float16"): "__short_as_half",
    ("float16", "uint16"): "__half_as_ushort", ("uint16", "float16"): "__ushort_as_half",
    ("bfloat16", "int16"): "__bfloat16_as_short", ("int16", "bfloat16"): "__short_as_bfloat16",
    ("bfloat16", "uint16"): "__bfloat16_as_ushort", ("uint16", "bfloat16"): "__ushort_as_bfloat16",
}
for _name in (*_DIRECT.values(), *_REINTERPRET.values()):
    reserve_called(f"{_name}(")


def convert(a: Fragment, source: DType, target: DType, needs: Needs) -> Fragment:
    """`a`, a scalar of type `source`, as a `target`."""
    if source is target:
        return a
    if source.is_float and source.bits <= 8 and target.kind == "bool":
        return convert(_cast(a, _FLOAT32, needs), _FLOAT32, target, needs)      # they have no comparison of their own
    if target.kind == "bool":
        return infix(a, "!=", literal(0, source, needs))
    if not source.is_float:
        return _from_integer(a, source, target, needs)
    if source.name not in ("float32", "float64"):
        return convert(_cast(a, _FLOAT32, needs), _FLOAT32, target, needs)
    if target.is_float:
        return _cast(a, target, needs)
    if (source.name, target.name) in _DIRECT:
        return call(_DIRECT[source.name, target.name], a)
    needs.helper(f"to_{target.name}_{source.name}")
    return call(f"to_{target.name}", a)


def _from_integer(a: Fragment, source: DType, target: DType, needs: Needs) -> Fragment:
    if target.name in _HALVES:
        c_type(target, needs)
        return call(f"__{_WORDS.get((source.kind, source.bits), 'int')}2{_HALVES[target.name]}_rn", a)
    if target.is_float and target.bits < 32:
        return _cast(_cast(a, _FLOAT32, needs), target, needs)
    return _cast(a, target, needs)


def _cast(a: Fragment, target: DType, needs: Needs) -> Fragment:
    """A conversion that C++ defines as we do: `(float)a` for its own types, a constructor for a class."""
    name = c_type(target, needs)
    return call(name, a) if target.is_float and target.bits < 32 else cast(name, a)


def reinterpret(a: Fragment, source: DType, target: DType, needs: Needs) -> Fragment:
    """The bits of `a` as a `target` of the same size."""
    c_type(source, needs)
    name = c_type(target, needs)
    if source is target:
        return a
    if source.is_integer and target.is_integer and source.lanes == target.lanes == 1:
        return cast(name, a)
    if (source.name, target.name) in _REINTERPRET:
        return call(_REINTERPRET[source.name, target.name], a)
    needs.helper("bit_cast")
    return call(f"bit_cast<{name}>", a)
