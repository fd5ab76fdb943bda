"""Operands of wgmma and tcgen05 in shared memory, found as the hardware finds them: through the descriptor, by absolute address.

Nothing here knows of buffers or layouts, so that a descriptor with wrong strides, mode or base reads the wrong bytes, as on the GPU.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from runtime.simulator.frames import Array
from runtime.simulator.tensor_cores import STORED, numbers
from symbolic.layout.descriptors import MatrixDescriptor
from symbolic.layout.errors import LayoutError

_PERIOD = 1024      # bytes: the swizzle patterns repeat


class Bad(Exception):
    """A descriptor that the instruction cannot take; the text says why."""


class Operand(NamedTuple):
    """An operand of `mn` by `k` elements in shared memory: `addresses` (mn, k) of its elements' first bytes, of PTX type `kind`."""

    addresses: Array
    kind: str

    def elements(self, space: Array) -> Array:
        """Its elements as they are stored, from the bytes of the block's shared memory."""
        stored = STORED[self.kind]
        found: Array = space[:len(space) // stored.itemsize * stored.itemsize].view(stored)[self.addresses // stored.itemsize]
        return found

    def read(self, space: Array) -> Array:
        """Its numbers."""
        return numbers(self.elements(space), self.kind)

    def chunks(self) -> Array:
        """The first bytes of the 16-byte pieces that it reads."""
        return np.unique(self.addresses >> 4) << 4


@lru_cache(maxsize=512)
def _relative(descriptor: MatrixDescriptor, major: str, mn: int, k: int, element: int) -> Array:
    return descriptor.addresses(major, mn, k, element)


def operand(bits: int, generation: str, major: str, mn: int, k: int, kind: str, size: int) -> Operand:
    """The operand that a descriptor names in a shared memory of `size` bytes. Raises Bad."""
    try:
        d = MatrixDescriptor.decode(bits, generation)
    except LayoutError as error:
        raise Bad(str(error)) from None
    if d.misplaced:
        raise Bad(f"the descriptor starts at shared address {d.start:#x}, {d.misplaced} row(s) of 128 bytes into a pattern of the {d.mode} swizzle, "
                  f"and its base offset says {d.base}. The hardware swizzles absolute addresses: align the buffer to "
                  f"{ {'128B': 1024, '64B': 512, '32B': 256}[d.mode]} bytes, and start operands at multiples of 8 rows")
    base = d.start // _PERIOD * _PERIOD
    element = STORED[kind].itemsize
    found = base + _relative(MatrixDescriptor(d.start - base, d.leading, d.stride, d.mode, d.base), major, mn, k, element)
    if int(found.max()) + element > size:
        raise Bad(f"the descriptor (start {d.start:#x}, leading {d.leading}, stride {d.stride}, swizzle {d.mode}) reaches shared address "
                  f"{int(found.max()):#x}; the block has {size} bytes")
    return Operand(found, kind)
