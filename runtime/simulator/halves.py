"""4-bit floats as the bytes that two of them share in memory, the first in the low half."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.simulator.frames import Array, Value


def codes_of(values: Value) -> Array:
    """The four bits of each value, in a byte of its own."""
    return np.asarray(values).view(np.uint8) & np.uint8(15)


def pack(values: Value) -> Array:
    """Vectors of 4-bit floats as the bytes that they are in memory: the last axis halves."""
    codes = codes_of(values)
    packed: Array = codes[..., ::2] | codes[..., 1::2] << np.uint8(4)
    return packed


def unpack(packed: Array, storage: np.dtype[Any]) -> Array:
    """Bytes as vectors of 4-bit floats: the last axis doubles."""
    codes = np.stack([packed & np.uint8(15), packed >> np.uint8(4)], axis=-1)
    return codes.reshape(*packed.shape[:-1], 2 * packed.shape[-1]).view(storage)
