"""From the bytes of a storage back to a buffer's logical coordinates, for messages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from runtime.simulator import integers
from runtime.simulator.frames import Array
from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int, Symbol, substitute
from tracer.addressing import flat_index
from tracer.ir import Buffer

LARGEST_SEARCHED = 1 << 22      # elements of a buffer with a layout, among which the one at an address is looked for

Known = Mapping[Int, int]       # the kernel's symbols whose values the launch decides


def coordinates(known: Known, buffer: Buffer, byte: int) -> tuple[int, ...] | None:
    """The coordinates of the element that holds this byte of the buffer's storage. None where it holds none, or that cannot be told."""
    index = byte * 8 // (buffer.dtype.width * buffer.dtype.lanes)
    shape = _shape(known, buffer)
    if shape is None:
        return None
    if buffer.layout is None and buffer.window is None:
        offset = _value(known, buffer.elem_offset)
        if offset is None or not 0 <= index - offset < prod(shape):
            return None
        return tuple(int(x) for x in np.unravel_index(index - offset, shape))
    places = places_of(known, buffer) if prod(shape) <= LARGEST_SEARCHED else None
    found = None if places is None else np.argwhere(places == index)
    return None if found is None or not len(found) else tuple(int(x) for x in found[0])


def places_of(known: Known, buffer: Buffer) -> Array | None:
    """The index into its storage of every element of a buffer. None where the launch does not decide it."""
    shape = _shape(known, buffer)
    if shape is None:
        return None
    axes = _axes(len(shape))
    index = substitute(flat_index(buffer, axes, Facts()), dict(known))
    symbols = si.free_symbols(index)
    if any(symbol not in axes for symbol in symbols):
        return None
    values: dict[Int, Any] = dict(zip(axes, np.indices(shape)))
    return np.broadcast_to(integers.function_of(index)(*[values[s] for s in symbols]), shape)


def _shape(known: Known, buffer: Buffer) -> tuple[int, ...] | None:
    shape = [_value(known, size) for size in buffer.shape]
    return None if None in shape else tuple(size for size in shape if size is not None)


def _value(known: Known, e: Int) -> int | None:
    value = substitute(e, dict(known))
    return int(value.value) if si.is_const(value) else None


@lru_cache(maxsize=8)
def _axes(count: int) -> tuple[Int, ...]:
    return tuple(Symbol(f"axis{k}") for k in range(count))
