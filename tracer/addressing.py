"""From a buffer's logical coordinates to the element offset into its storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter
from symbolic.layout.swizzle import ComposeLayout
from symbolic.layout.tile import TileLayout
from tracer.dtypes import DType
from tracer.ir import Buffer, Storage

MEMORY_AXIS = "m"


def flat_index(buffer: Buffer, coords: Sequence[Int], facts: Facts) -> Int:
    """elem_offset + layout(coords), in elements of the buffer's dtype; dense row-major where there is no layout.

    A window looks at its base: its coordinates are shifted by where it starts.
    """
    if buffer.window is not None:
        return flat_index(buffer.window.base, buffer.window.coordinates(coords), facts)
    if buffer.layout is None:
        return buffer.elem_offset + row_major_index(buffer.shape, coords)
    place = buffer.layout.apply(*coords, shape=buffer.shape, facts=facts)
    return buffer.elem_offset + si.to_int(place.get(MEMORY_AXIS, 0))


def row_major_index(shape: Sequence[Int], coords: Sequence[Int]) -> Int:
    """The number of the element at `coords` when the last axis varies fastest."""
    index, step = si.const(0), si.const(1)
    for coord, size in zip(reversed(coords), reversed(shape)):
        index = index + coord * step
        step = step * size
    return index


def row_major(shape: Sequence[Int]) -> list[Int]:
    """The strides of a dense row-major buffer, in elements."""
    strides: list[Int] = []
    step = si.const(1)
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return strides[::-1]


def axis_strides(shape: Sequence[Int], layout: Any) -> list[Int] | None:
    """One stride for each axis, in elements, where that and an offset are all that the layout says: nothing replicated, swizzled
    or running backwards. None for any other layout."""
    if layout is None:
        return row_major(shape)
    if not isinstance(layout, TileLayout) or layout.replica or any(axis.name != MEMORY_AXIS for axis in layout.axes):
        return None
    iters = layout.shard
    if len(iters) != len(shape) or any(si.to_int(i.extent) is not size for i, size in zip(iters, shape)):
        try:
            grouped, ends = layout.canonicalize().group(shape)
        except LayoutError:
            return None
        if ends != list(range(len(shape) + 1)):
            return None
        iters = grouped.shard
    steps = [si.to_int(i.stride) for i in iters]
    return None if any(si.is_const(step) and step.value < 0 for step in steps) else steps


def least(layout: Any) -> Int:
    """The least address that a layout gives out: below 0 where a stride is negative and no offset makes up for it."""
    if layout is None:
        return si.const(0)
    tile: TileLayout = layout if isinstance(layout, TileLayout) else layout.tile_layout
    lowest = constant_part(tile)
    for i in (*tile.shard, *tile.replica):
        if i.axis.name == MEMORY_AXIS:
            lowest = lowest + si.minimum((si.to_int(i.extent) - 1) * si.to_int(i.stride), si.const(0))
    return lowest


def constant_part(layout: TileLayout) -> Int:
    """What a layout adds to every address."""
    return sum((si.to_int(offset) for axis, offset in layout.offsets.items() if axis.name == MEMORY_AXIS), si.const(0))


def first_element(buffer: Buffer) -> Int:
    """How far into its storage, in elements, the array of a parameter begins: what offset and a strided layout add to every address."""
    if buffer.layout is None or axis_strides(buffer.shape, buffer.layout) is None:
        return buffer.elem_offset
    return buffer.elem_offset + constant_part(buffer.layout)


def product(shape: Sequence[Int]) -> Int:
    """The number of elements of a shape."""
    count = si.const(1)
    for size in shape:
        count = count * size
    return count


def span(shape: Sequence[Int], layout: Any) -> Int:
    """How many elements a storage must hold, from the first address that the layout gives out: its span, not its size."""
    return product(shape) if layout is None else si.to_int(layout.span(MEMORY_AXIS))


def in_bytes(count: Int, element: DType) -> Int:
    """Bytes that `count` neighbours of type `element` take, rounded up."""
    return si.floordiv(count + 1, si.const(2)) if element.packed and element.lanes == 1 else count * element.bytes


def cells_in(storage: Storage) -> Int:
    """How many `dtype.cell` a storage consists of."""
    return in_bytes(storage.size, storage.dtype) if storage.dtype.packed else storage.size * storage.dtype.lanes


def elements_in(size: Int, element: DType) -> Int:
    """How many elements of type `element` fit `size` bytes."""
    return size * 2 if element.packed and element.lanes == 1 else si.floordiv(size, si.const(element.bytes))


def thread_axes(layout: Any) -> list[str]:
    """The axes of a layout that name threads, not memory."""
    if layout is None:
        return []
    return [axis.name for axis in layout.axes if not axis.is_memory]


def with_symbols(layout: Any, change: Callable[[Int], Int]) -> Any:
    """The layout with every expression in it replaced by `change` of it."""
    tile = getattr(layout, "tile_layout", layout)
    if not tile.is_symbolic:
        return layout

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, Int) else value

    def iters(group: Any) -> list[Iter]:
        return [Iter(changed(i.extent), changed(i.stride), i.axis) for i in group]

    rebuilt = TileLayout.from_iters(iters(tile.shard), iters(tile.replica), {axis: changed(value) for axis, value in tile.offsets.items()})
    if tile is layout:
        return rebuilt
    xor = layout.swizzle
    return ComposeLayout(xor.per_element, xor.swizzle_len, xor.atom_len, rebuilt, xor.swizzle_inner)
