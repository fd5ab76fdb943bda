"""Shared memory as the matrix instructions read it: the canonical K-major layouts of wgmma and tcgen05.

PTX ISA 9.1, 9.7.15.5.1.2 (wgmma) and 9.7.16.3 (tcgen05): an atom is 8 rows of 32, 64 or 128 bytes, in which the 16-byte chunks of a
row are XORed with bits of the row number. Atoms are stacked down the rows, then across the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from symbolic.layout.banks import bits_of
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter, S, Spec
from symbolic.layout.swizzle import ComposeLayout, Layout, Swizzle
from symbolic.layout.tile import TileLayout
from symbolic.layout.values import product

# mode: (bytes of a row of the atom, bits that the swizzle XORs, code in the wgmma descriptor bits 62-63, in the tcgen05 one 61-63)
SWIZZLE_MODES: Final = {
    "none": (16, 0, 0, 0),
    "32B": (32, 1, 3, 6),
    "64B": (64, 2, 2, 4),
    "128B": (128, 3, 1, 2),
}
CHUNK_BYTES, ATOM_ROWS = 16, 8


def swizzle_mode(mode: str) -> str:
    """`mode` as a key of SWIZZLE_MODES; "SWIZZLE_128B_ATOM" and "SWIZZLE_NONE" are read too. Raises LayoutError for others."""
    name = str(mode).rsplit(".", 1)[-1].removeprefix("SWIZZLE_").removesuffix("_ATOM")
    name = "none" if name == "NONE" else name
    if name not in SWIZZLE_MODES:
        raise LayoutError(f"swizzle mode {mode!r} is not known; known are {', '.join(SWIZZLE_MODES)}")
    return name


def chunk_elements(dtype: str) -> int:
    """How many elements of a dtype 16 bytes hold. Raises LayoutError when that is no whole number."""
    bits = bits_of(dtype)
    if CHUNK_BYTES * 8 % bits:
        raise LayoutError(f"16 bytes hold no whole number of {dtype} of {bits} bits")
    return CHUNK_BYTES * 8 // bits


def atom_columns(dtype: str, mode: str) -> int:
    """How many elements of a dtype a row of the atom holds."""
    return chunk_elements(dtype) * SWIZZLE_MODES[swizzle_mode(mode)][0] // CHUNK_BYTES


def mma_atom(dtype: str, mode: str) -> ComposeLayout:
    """The swizzled atom alone, over (8, atom_columns). Raises LayoutError for "none", which has no swizzle."""
    name = swizzle_mode(mode)
    if name == "none":
        raise LayoutError("mode none has no swizzle atom; use mma_shared_layout")
    s = swizzle_of(dtype, name)
    return ComposeLayout(s.per_element, s.swizzle_len, s.atom_len, TileLayout(S[ATOM_ROWS * atom_columns(dtype, name)]))


def swizzle_of(dtype: str, mode: str) -> Swizzle:
    """The address permutation of a mode, in elements of a dtype."""
    return Swizzle(chunk_elements(dtype).bit_length() - 1, SWIZZLE_MODES[swizzle_mode(mode)][1], 3)


def mma_shared_layout(dtype: str, mode: str, shape: Sequence[int]) -> Layout:
    """The canonical layout of an operand tile (..., rows, columns) in shared memory, columns running along K.

    `mode` is "none", "32B", "64B" or "128B". Atoms are stacked down the rows, then across the columns, then over leading
    dimensions. Without a swizzle, columns of 16-byte chunks, or plain row-major where 16 bytes do not divide a row. Raises
    LayoutError when the columns are no multiple of the atom's: what would not fit it is never dropped.
    """
    name = swizzle_mode(mode)
    if not shape or any(e < 1 for e in shape):
        raise LayoutError(f"shape {tuple(shape)} must have positive extents")
    *lead, rows, columns = (1, *shape) if len(shape) == 1 else shape
    width = atom_columns(dtype, name)
    if name == "none" and columns % width:
        return TileLayout(S[tuple(shape)]).canonicalize()
    if columns % width:
        raise LayoutError(f"{columns} columns of {dtype} are no multiple of {width}, a row of the {name} swizzle atom; widen the shape, or use "
                          + (" or ".join(repr(o) for o in SWIZZLE_MODES if columns % atom_columns(dtype, o) == 0) or "another dtype"))
    tile = TileLayout(Spec((Iter(product(lead), rows * columns), Iter(rows, width), Iter(columns // width, rows * width),
                            Iter(width, 1)))).canonicalize()
    if name == "none":
        return tile
    s = swizzle_of(dtype, name)
    return ComposeLayout(s.per_element, s.swizzle_len, s.atom_len, tile)


def get_swizzle_mode(layout: Layout, dtype: str | None = None) -> str:
    """Which hardware mode a layout's swizzle is. Raises LayoutError when it is none: another direction, or other bits.

    With a dtype, also that the swizzle moves whole 16-byte chunks of it.
    """
    if not isinstance(layout, ComposeLayout) or layout.swizzle.swizzle_len == 0:
        return "none"
    s = layout.swizzle
    for name, (_, bits, _, _) in SWIZZLE_MODES.items():
        if s.swizzle_inner and s.swizzle_len == bits and s.atom_len == 3 and dtype in (None, *_with_chunk(1 << s.per_element)):
            return name
    raise LayoutError(f"{s} is no hardware mode: those XOR bits 3 and up of the 16-byte chunk number into its low ones (swizzle_inner=True)")


def _with_chunk(elements: int) -> list[str]:
    from symbolic.layout.banks import BITS
    return [dtype for dtype, bits in BITS.items() if elements * bits == CHUNK_BYTES * 8]
