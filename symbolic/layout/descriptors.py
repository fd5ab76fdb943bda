"""Matrix descriptors: the 64 bits that tell wgmma and tcgen05 where an operand lies in shared memory, and which bytes they mean.

Sources: PTX ISA 9.1, 9.7.15.5.1.2 (wgmma: strides, descriptor, canonical layouts) and 9.7.16.3, 9.7.16.4.1 (tcgen05). An operand is mn
by k elements, mn being M of A or N of B. It lies "K" major (16-byte chunks run along k) or "MN" major (along mn).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from symbolic.layout.banks import bits_of
from symbolic.layout.errors import LayoutError
from symbolic.layout.shared import ATOM_ROWS, CHUNK_BYTES, SWIZZLE_MODES, get_swizzle_mode
from symbolic.layout.swizzle import Layout

Array = np.ndarray[Any, Any]
MAJORS: Final = ("K", "MN")
# generation: (lowest bit of the swizzle code, its bits, the bits that are always set, column of SWIZZLE_MODES with the code)
GENERATIONS: Final = {"wgmma": (62, 2, 0, 2), "tcgen05": (61, 3, 1 << 46, 3)}
FIELD: Final = 1 << 14          # fields count 16-byte units
_START, _LEADING, _STRIDE, _BASE = 0, 16, 32, 49


@dataclass(frozen=True)
class MatrixDescriptor:
    """`start`: byte address in the shared window; `leading` and `stride`: byte offsets (LBO, SBO); `mode`: a key of SWIZZLE_MODES.

    `base` is the row (of 128 bytes) of the swizzle pattern at which `start`'s pattern begins: 0 where patterns are aligned.
    """

    start: int
    leading: int
    stride: int
    mode: str
    base: int = 0

    def encode(self, generation: str) -> int:
        """The 64 bits. Raises LayoutError for what a field cannot hold."""
        low, _, fixed, code = GENERATIONS[generation]
        bits = fixed | SWIZZLE_MODES[self.mode][code] << low | self.base << _BASE
        for name, value, position in (("start", self.start & 0x3FFFF, _START), ("leading", self.leading, _LEADING), ("stride", self.stride, _STRIDE)):
            if value % CHUNK_BYTES or not 0 <= value < FIELD * CHUNK_BYTES:
                raise LayoutError(f"{name} of a matrix descriptor is a multiple of {CHUNK_BYTES} bytes below {FIELD * CHUNK_BYTES}, not {value}")
            bits |= value // CHUNK_BYTES << position
        return bits

    @staticmethod
    def decode(bits: int, generation: str) -> MatrixDescriptor:
        """What the 64 bits say. Raises LayoutError for a swizzle code that means nothing and for reserved bits that are set wrong."""
        low, width, fixed, code = GENERATIONS[generation]
        number = bits >> low & (1 << width) - 1
        mode = next((name for name, row in SWIZZLE_MODES.items() if row[code] == number), None)
        if mode is None:
            raise LayoutError(f"swizzle code {number} in bits {low}-{low + width - 1} is none of "
                              + ", ".join(f"{row[code]} ({name})" for name, row in SWIZZLE_MODES.items()))
        known = sum((FIELD - 1) << p for p in (_START, _LEADING, _STRIDE)) | 7 << _BASE | ((1 << width) - 1) << low | fixed
        if bits & ~known or bits & fixed != fixed:
            raise LayoutError(f"{bits:#018x} is no {generation} descriptor: bits {_bit_list((bits & ~known) | (fixed & ~bits))} are not as they "
                              "must be")
        start, leading, stride = ((bits >> p & FIELD - 1) * CHUNK_BYTES for p in (_START, _LEADING, _STRIDE))
        return MatrixDescriptor(start, leading, stride, mode, bits >> _BASE & 7)

    def addresses(self, major: str, mn: int, k: int, element: int) -> Array:
        """The byte address of every element of an operand of `mn` by `k` elements of `element` bytes, as an array (mn, k).

        The canonical layouts of the manual, then the swizzle of the absolute address.
        """
        span = SWIZZLE_MODES[self.mode][0]          # bytes that run on in a row of the pattern
        plain = self.mode == "none"
        i, j = np.arange(mn)[:, None], np.arange(k)[None, :]
        if major == "K":
            per = CHUNK_BYTES // element
            offset = i % ATOM_ROWS * span + i // ATOM_ROWS * self.stride + j % per * element
            offset = offset + j // per * (self.leading if plain else CHUNK_BYTES)
        else:
            per = span // element
            along_k, along_mn = (self.leading, self.stride) if plain else (self.stride, self.leading)
            offset = i % per * element + i // per * along_mn + j % ATOM_ROWS * span + j // ATOM_ROWS * along_k
        return swizzled(self.start + offset, self.mode, self.base)

    @property
    def misplaced(self) -> int:
        """By how many 128-byte rows the swizzle pattern at `start` is off from where `base` says that it begins; 0 for a sound one."""
        return (self.start >> 7) - self.base & (1 << SWIZZLE_MODES[self.mode][1]) - 1


def swizzled(address: Array, mode: str, base: int = 0) -> Array:
    """Where the hardware finds the byte `address`: bits 4 up XORed with bits 7 up, of the absolute address (less `base` rows)."""
    mask = ((1 << SWIZZLE_MODES[mode][1]) - 1) << 4
    found: Array = address ^ (address - (base << 7) >> 3 & mask)
    return found


def fitted(layout: Layout, shape: Sequence[int], dtype: str, major: str, mn: int, k: int) -> MatrixDescriptor:
    """The descriptor, at address 0, of an operand of `mn` by `k` elements at the start of a buffer `shape` laid out by `layout`.

    The last two dimensions of the buffer are (mn, k) for a K-major operand, (k, mn) for an MN-major one. Strides and mode are read off
    the layout, and every element's address is compared. Raises LayoutError where no descriptor means these bytes.
    """
    element, (rows, columns) = bits_of(dtype) // 8, (mn, k) if major == "K" else (k, mn)
    if len(shape) < 2 or shape[-2] < rows or shape[-1] < columns:
        raise LayoutError(f"a {major}-major operand of {mn} by {k} elements needs a buffer of (.., {rows}, {columns}), not {tuple(shape)}")
    mode = get_swizzle_mode(layout, dtype)
    lead = (0,) * (len(shape) - 2)
    place = layout.apply(*lead, *np.indices((rows, columns)), shape=tuple(shape))
    if set(place) - {"m"}:
        raise LayoutError(f"the layout spreads the operand over {', '.join(sorted(set(place) - {'m'}))}; it must lie in shared memory")
    found = np.broadcast_to(place["m"], (rows, columns)) * element
    found = found if major == "K" else found.T
    per = CHUNK_BYTES // element

    def distance(i: int, j: int) -> int:
        """Bytes to element (i, j); one chunk where the operand has none, for then the field is not used."""
        return int(found[i, j] - found[0, 0]) if i < mn and j < k else CHUNK_BYTES

    if major == "K":
        leading, stride = distance(0, per) if mode == "none" else CHUNK_BYTES, distance(ATOM_ROWS, 0)
    else:
        along_k, along_mn = distance(0, ATOM_ROWS), distance(SWIZZLE_MODES[mode][0] // element, 0)
        leading, stride = (along_k, along_mn) if mode == "none" else (along_mn, along_k)
    made = MatrixDescriptor(0, leading, stride, mode)
    wrong = np.argwhere(made.addresses(major, mn, k, element) != found)
    if len(wrong) or min(leading, stride) < 0:
        i, j = (int(x) for x in (wrong[0] if len(wrong) else (0, 0)))
        at = (i, j) if major == "K" else (j, i)
        raise LayoutError(
            f"no matrix descriptor reads this layout as a {major}-major operand of {dtype}: with swizzle {mode!r}, element {at} is at byte "
            f"{int(found[i, j])}, and the hardware would look at {int(made.addresses(major, mn, k, element)[i, j])}. Lay the buffer out by "
            f"mma_shared_layout({dtype!r}, \"128B\", shape), columns running along {'k' if major == 'K' else 'mn'}")
    return made


def _bit_list(bits: int) -> str:
    return ", ".join(str(k) for k in range(64) if bits >> k & 1)
