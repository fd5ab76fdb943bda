"""Arrays of floats narrower than a byte, as kernels take them.

* float4_e2m1fn is packed: two elements a byte, the first in its low half. It comes as bytes, of uint8 or as PyTorch's
  `float4_e2m1fn_x2`, the last axis half as long; `pack_float4` makes them of one element a byte, which is how ml_dtypes has it.
* float6_e2m3fn and float6_e3m2fn have a byte each, its low six bits, as in ml_dtypes; they also come as uint8.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from runtime.arguments import Array
from tracer.dtypes import dtype

HALF = Fraction(1, 2)       # bytes an element
_PAIRS = ("uint8", "float4_e2m1fn_x2", "float4_e2m1fnx2")       # how the frameworks call a byte of two


def narrow(array: Array | str, name: str) -> Array | str:
    """`array`, an argument for a parameter of the dtype called `name`, counted in elements of it; in words why it is none.

    What is no bytes at all is left alone: its dtype is wrong, and whoever asks says so.
    """
    if isinstance(array, str):
        return array
    if not dtype(name).packed:
        return replace(array, dtype=name) if array.dtype == "uint8" else array
    if array.dtype == name:
        return f"an array of {name} with one element a byte; pack two in each: runtime.pack_float4(array)"
    if array.dtype not in _PAIRS:
        return array
    if not array.shape or array.shape[-1] != 1 and array.strides[-1] != 1 and not array.empty:
        return f"bytes of two {name} that do not follow each other along the last axis; pass a contiguous copy"
    # Sizes in bytes come out whole: the last extent is even.
    return replace(array, dtype=name, itemsize=HALF, shape=(*array.shape[:-1], 2 * array.shape[-1]),    # type: ignore[arg-type]
                   strides=(*(2 * step for step in array.strides[:-1]), 1))


def pack_float4(array: Any) -> np.ndarray[Any, Any]:
    """Float4_e2m1fn values, one a byte (what ml_dtypes has), as uint8 with two a byte: shape (..., n) to (..., n / 2), n even.

    Other floats are rounded to float4_e2m1fn first. Raises ValueError where the last extent is odd.
    """
    values = np.asarray(array)
    if not values.ndim or values.shape[-1] % 2:
        raise ValueError(f"two float4_e2m1fn share a byte: the last extent must be even, the shape is {values.shape}")
    codes = np.ascontiguousarray(values.astype(ml_dtypes.float4_e2m1fn)).view(np.uint8) & 15
    packed: np.ndarray[Any, Any] = codes[..., ::2] | codes[..., 1::2] << 4
    return packed


def unpack_float4(packed: Any) -> np.ndarray[Any, Any]:
    """The float4_e2m1fn values (ml_dtypes, one a byte) in bytes of two each: shape (..., k) to (..., 2 * k)."""
    pairs = np.ascontiguousarray(packed).view(np.uint8)
    codes = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(*pairs.shape[:-1], 2 * pairs.shape[-1])
    return codes.view(ml_dtypes.float4_e2m1fn)
