"""What a tensor core computes: D = A B + C, with the operands read as the hardware reads them.

Products of the narrow floats are exact; the sum of a product row and C is taken in float64 and rounded once to D's type. Hardware
sums in an order of its own, with a few bits more than float32 (the manual promises "at least single precision"), so results agree
with it to a relative 2**-22 or so of the largest term, not to the bit. float8 products are summed with fewer bits by some hardware
(about 14: DeepSeek-V3); that loss is not modelled. Integers are exact and wrap, or saturate where that was asked for.

Source: PTX ISA 9.7.14.5 (mma), 9.7.15.5 (wgmma), 9.7.16.10 (tcgen05.mma).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from runtime.simulator.frames import Array

# PTX's element types: how their bits are stored. tf32 is the upper 19 bits of a 32-bit register.
STORED: dict[str, np.dtype[Any]] = {name: np.dtype(kind) for name, kind in {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.uint32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32,
}.items()}
INTEGERS = ("s8", "u8", "s32")
_TF32_MASK = np.uint32(0xFFFFE000)


def bits_of(kind: str) -> int:
    """Bits that an element takes in memory and in registers."""
    return STORED[kind].itemsize * 8


def numbers(raw: Array, kind: str) -> Array:
    """The values, in float64, of elements given by their bits: an array of the unsigned type of their width, or of `STORED[kind]`.

    tf32 loses its 13 low bits by truncation, as the hardware, which never looks at them, does.
    """
    stored = raw.view(STORED[kind]) if raw.dtype != STORED[kind] else raw
    if kind == "tf32":
        stored = (stored & _TF32_MASK).view(np.float32)
    return stored.astype(np.float64)


def multiply(a: Array, b: Array, c: Array | None, kind: str, saturate: bool = False) -> Array:
    """A B + C of matrices (..., M, K), (..., K, N), (..., M, N) of float64 numbers, as an array of `STORED[kind]`.

    `c` None is zero. `kind` is D's type: f16, f32, f64 or s32; `saturate` clamps an s32 result.
    """
    total = np.matmul(a, b)
    if c is not None:
        total += c
    if kind in INTEGERS:            # less than 2**53 in magnitude: exact so far
        if saturate:
            total = np.clip(total, -2.0**31, 2.0**31 - 1)
        total = total.astype(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded: Array = total.astype(STORED[kind])
    return rounded
