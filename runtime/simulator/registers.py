"""Registers of a warp or warpgroup as matrices and back, by the fragment maps of `symbolic.layout`.

Registers are an array (..., threads, registers) of unsigned words of 32 bits (64 for float64), matrices (..., rows, columns). Elements
narrower than a register lie in it lowest first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from runtime.simulator.frames import Array
from runtime.simulator.tensor_cores import STORED
from symbolic.layout import Fragment

LANES = 32


class Places(NamedTuple):
    """Where a fragment's elements are: `owner`, over the matrix, the flat place thread * elements + element that holds each one;
    `element`, over (threads, elements), the flat place row * columns + column that each holds."""

    owner: Array
    element: Array


@lru_cache(maxsize=256)
def places(fragment: Fragment) -> Places:
    """The map of one fragment, as index arrays."""
    rows, columns = np.indices(fragment.shape)
    where = fragment.layout.apply(rows, columns, shape=fragment.shape)
    thread = np.broadcast_to(np.asarray(where.get("laneid", 0)) + LANES * np.asarray(where.get("wid_in_wg", 0)), fragment.shape)
    owner = thread * fragment.elements + np.broadcast_to(np.asarray(where.get("m", 0)), fragment.shape)
    element = np.empty(owner.size, np.intp)
    element[owner.reshape(-1)] = np.arange(owner.size)
    return Places(owner, element.reshape(-1, fragment.elements))


def to_matrix(registers: Array, fragment: Fragment, kind: str) -> Array:
    """The matrix of elements of `STORED[kind]` that the registers hold."""
    words = np.ascontiguousarray(registers)
    elements = words.view(STORED[kind])
    flat = elements.reshape(*elements.shape[:-2], -1)
    return flat[..., places(fragment).owner]


def to_registers(matrix: Array, fragment: Fragment, word: str = "uint32") -> Array:
    """The registers, of type `word`, that hold the matrix."""
    flat = matrix.reshape(*matrix.shape[:-2], -1)
    elements = np.ascontiguousarray(flat[..., places(fragment).element])
    return elements.view(np.dtype(word))
