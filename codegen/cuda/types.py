"""How CUDA C++ writes a dtype: scalars, the built-in vectors, and a small struct for every other vector."""

from __future__ import annotations

from codegen.cuda.fragments import PRIMARY, UNARY, Fragment, cast
from codegen.cuda.helpers import Helper, Needs
from tracer.dtypes import DType

# The header that defines a scalar type. Types without a row are C++'s own.
_HEADERS = {
    "float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h",
    "float8_e4m3fn": "cuda_fp8.h", "float8_e5m2": "cuda_fp8.h", "float8_e8m0fnu": "cuda_fp8.h",
    "float6_e2m3fn": "cuda_fp6.h", "float6_e3m2fn": "cuda_fp6.h", "float4_e2m1fn": "cuda_fp4.h",
}

# CUDA's own vectors: scalar, the stem of the type's name, the lanes that exist. The 4-lane forms of 64-bit types are left out:
# their alignment differs between toolkits. Those whose constructor is `make_<type>` come first.
_BUILTIN = {
    "float32": ("float", (2, 3, 4)), "float64": ("double", (2,)),
    "int8": ("char", (2, 3, 4)), "uint8": ("uchar", (2, 3, 4)), "int16": ("short", (2, 3, 4)), "uint16": ("ushort", (2, 3, 4)),
    "int32": ("int", (2, 3, 4)), "uint32": ("uint", (2, 3, 4)), "int64": ("longlong", (2,)), "uint64": ("ulonglong", (2,)),
}
_ONE_LINE = 72      # lanes that take more columns get a line each
_PAIRS = {"float16x2": "half2", "bfloat16x2": "__nv_bfloat162"}


def _builtin(dtype: DType) -> str | None:
    stem, lanes = _BUILTIN.get(dtype.scalar.name, ("", ()))
    return f"{stem}{dtype.lanes}" if dtype.lanes in lanes else None


def c_type(dtype: DType, needs: Needs) -> str:
    """The C++ type of a value of `dtype`; its header or struct is added to `needs`."""
    scalar = dtype.scalar
    if scalar.name in _HEADERS:
        needs.headers.add(_HEADERS[scalar.name])
    if dtype.lanes == 1:
        return dtype.c_name
    known = _builtin(dtype) or _PAIRS.get(dtype.name)
    if known is not None:
        return known
    align = f" __align__({dtype.alignment})" if dtype.alignment > scalar.bytes else ""
    held = f"unsigned char pair[{dtype.bytes}]" if scalar.packed else f"{scalar.c_name} lane[{dtype.lanes}]"
    needs.helper(dtype.name, Helper(f"struct{align} {dtype.name} {{ {held}; }};"))
    return dtype.name


def memory_type(dtype: DType, needs: Needs) -> str:
    """The C++ type of what an array of `dtype` is made of: its elements, or the bytes that two of them share."""
    return "unsigned char" if dtype.packed and dtype.lanes == 1 else c_type(dtype, needs)


def lane(value: str, dtype: DType, index: int, needs: Needs) -> str:
    """Lane `index` of `value`, a variable of the vector type `dtype`."""
    if dtype.packed:
        needs.helper("float4_half")
        return f"float4_half({value}.pair[{index // 2}], {index % 2})"
    return f"{value}.{'xyzw'[index]}" if _builtin(dtype) or dtype.name in _PAIRS else f"{value}.lane[{index}]"


def build(lanes: list[Fragment], dtype: DType, needs: Needs) -> str:
    """The vector of `dtype` with these lanes."""
    name = c_type(dtype, needs)
    if dtype.is_integer and dtype.scalar.bits < 32 and not _builtin(dtype):
        lanes = [_narrow(each, dtype.scalar.c_name) for each in lanes]
    texts = [each.text for each in lanes]
    if dtype.packed:
        needs.helper("float4_pair")
        texts = [f"float4_pair({low}, {high})" for low, high in zip(texts[::2], texts[1::2])]
    inside = ", ".join(texts)
    if len(inside) > _ONE_LINE:
        inside = ",".join(f"\n    {each}" for each in texts)     # the statement's writer indents lines
    if _builtin(dtype):
        return f"make_{name}({inside})"
    return f"{name}({inside})" if dtype.name in _PAIRS else f"{name}{{{inside}}}"


def _narrow(a: Fragment, c_type: str) -> Fragment:
    """C++ takes no `int` for a narrower member between braces: what computes in `int` is cast."""
    is_exact = a.text.startswith(f"({c_type})") if a.precedence == UNARY else a.precedence == PRIMARY and not a.text.endswith(")")
    return a if is_exact else cast(c_type, a)
