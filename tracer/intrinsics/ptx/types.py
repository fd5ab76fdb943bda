"""Which dtypes a register of each PTX type may have. A literal takes the first."""

from __future__ import annotations

_32 = ("float16x2", "bfloat16x2", "uint16x2", "int16x2", "uint8x4", "int8x4", "float8_e4m3fnx4", "float8_e5m2x4")
_8 = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")

# PTX ISA 5.2.1 and 9.4: bit types take anything of their size, integer types either sign.
DTYPES: dict[str, tuple[str, ...]] = {
    "b8": ("uint8", "int8", *_8), "u8": ("uint8", "int8"), "s8": ("int8", "uint8"),
    "b16": ("uint16", "int16", "float16", "bfloat16"), "u16": ("uint16", "int16"), "s16": ("int16", "uint16"),
    "f16": ("float16", "uint16"), "bf16": ("bfloat16", "uint16"),
    "b32": ("uint32", "int32", "float32", *_32), "u32": ("uint32", "int32"), "s32": ("int32", "uint32"), "f32": ("float32",),
    "f16x2": ("uint32", "int32", "float16x2"), "bf16x2": ("uint32", "int32", "bfloat16x2"), "tf32": ("uint32", "float32"),
    "b64": ("uint64", "int64", "float64", "float32x2", "uint32x2", "int32x2"), "u64": ("uint64", "int64"), "s64": ("int64", "uint64"),
    "f64": ("float64",), "f32x2": ("uint64", "float32x2"), "pred": ("bool", "int32", "uint32"),
}
BITS = {"pred": 32, **{name: int(name.lstrip("bsuft").split("x")[0]) for name in DTYPES if name not in ("pred", "f16x2", "bf16x2", "f32x2")},
        "f16x2": 32, "bf16x2": 32, "f32x2": 64}
