"""A kernel's parameters in memory, as the driver reads them: one buffer, and a pointer to where each begins.

The driver reads them during the launch, when other threads may run, so every launch under way has a buffer of its own. One is
used again and again: laying out pointers anew would cost as much as a launch.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.dtypes import DType

TENSOR_MAP = "tensor map"       # beside a dtype, and None for a pointer
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64        # CUtensorMap in cuda.h
# How struct writes a scalar of each dtype.
CODES = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
          "uint64": "Q", "float16": "e", "bfloat16": "H", "float32": "f", "float64": "d"}
_POINTER = "P"


class Packing:
    """How a kernel's arguments lie in its parameter buffer: each aligned to its own size, as in a C struct.

    One kind an argument: a dtype, None for a pointer, or `TENSOR_MAP`.
    """

    def __init__(self, kinds: Sequence[DType | str | None]) -> None:
        self.kinds = tuple(kinds)
        self.offsets: list[int] = []
        format_, end = "=", 0
        for kind in kinds:
            code, size, alignment = _layout(kind)
            start = -(-end // alignment) * alignment
            format_ += f"{start - end}x{code}" if start > end else code
            self.offsets.append(start)
            end = start + size
        self.size = end
        self._struct = struct.Struct(format_)
        self._bits = [i for i, kind in enumerate(kinds) if isinstance(kind, DType) and kind.name == "bfloat16"]
        self._idle: list[Parameters] = []

    @property
    def pack(self) -> Callable[..., None]:
        """`pack(memory, 0, *values)`: numbers, addresses and the bytes of tensor maps, into the memory of `Parameters`."""
        return self._struct.pack_into

    def filled(self, values: Sequence[Any]) -> Parameters:
        """Parameters with these values. Give them back with `release` when the launch has returned."""
        try:
            parameters = self._idle.pop()
        except IndexError:
            parameters = Parameters(self)
        plain = list(values)
        for i in self._bits:
            plain[i] = int(np.asarray(plain[i]).view(np.uint16))
        self.pack(parameters.memory, 0, *plain)
        return parameters

    def release(self, parameters: Parameters) -> None:
        """What came from `filled` may be used by another launch."""
        self._idle.append(parameters)


def _layout(kind: DType | str | None) -> tuple[str, int, int]:
    """How struct writes an argument, its size and its alignment in bytes."""
    if kind == TENSOR_MAP:
        return f"{_MAP_BYTES}s", _MAP_BYTES, _MAP_ALIGNMENT
    code = CODES[kind.name] if isinstance(kind, DType) else _POINTER
    size = struct.calcsize(code)
    return code.replace(_POINTER, "Q"), size, size


class Parameters:
    """The memory of one launch's parameters. `pointers` is the address of an array with the address of each."""

    __slots__ = ("_array", "memory", "pointers")

    def __init__(self, packing: Packing) -> None:
        held = ctypes.create_string_buffer(packing.size + _MAP_ALIGNMENT)
        base = -(-ctypes.addressof(held) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
        self.memory = (ctypes.c_char * (packing.size + 1)).from_buffer(held, base - ctypes.addressof(held))
        self._array = (ctypes.c_void_p * (len(packing.offsets) + 1))(*(base + offset for offset in packing.offsets))
        self.pointers = ctypes.addressof(self._array)
