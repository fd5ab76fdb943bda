"""Memories: flat NumPy arrays with a rule that turns a thread's element offset into a position in them.

Global memory is the caller's array and is written through. The shared memory of the blocks that run together is one *space* of bytes, a row
a block, in which every allocation has its place (`Layout`). Local memory is interleaved, as on the GPU: element `k` of all threads, then
element `k + 1`, so that a constant offset is one slice.

Fresh shared and local memory holds bytes of ones (NaN in every float type, -1 in signed integers), never zeros, and
remembers which of its bytes were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.frames import Array, Frame, Value
from tracer.ir import Storage

Position = Any      # of elements in a flat array: an int, a slice (one element for each thread of a full frame) or an index array


@dataclass(slots=True)
class Memory:
    """`size` elements of `cells.dtype` for each owner: the grid, a block, or a thread. This class: global memory."""

    cells: Array
    size: int
    pitch: int = 0                      # bytes from one owner's first element to the next one's
    written: Array | None = None        # bytes: _WRITTEN where something wrote; None: taken as initialised
    space: Memory | None = None         # the memory that these cells are a part of, from its byte `base` on; None: they are all
    base: int = 0
    address: int = 0                    # of the first byte: of global memory in the address space of the device
    places: Mapping[Storage, Place] = field(default_factory=dict)       # of a space: where each allocation lies in a row
    tracker: Any = None                 # of a thread's own memory: what the matrix engines still use of it
    shadow: Any = None                  # what the race detector remembers of it
    _views: dict[Any, Array] = field(default_factory=dict)
    _flags: dict[int, Array] = field(default_factory=dict)

    def viewed(self, storage: np.dtype[Any]) -> Array:
        """The cells as elements of another type."""
        if storage == self.cells.dtype:
            return self.cells
        view = self._views.get(storage)
        if view is None:
            whole = self.cells.nbytes // storage.itemsize * storage.itemsize // self.cells.itemsize
            view = self._views[storage] = self.cells[:whole].view(storage)
        return view

    def offset(self, storage: Storage, byte: int) -> int:
        """How far into the allocation of `storage` a byte of this memory lies."""
        place = self.places.get(storage)
        return byte if place is None else byte % self.pitch - place.base

    def limit(self, itemsize: int) -> int:
        """How many elements of `itemsize` bytes one owner has."""
        return self.size * self.cells.itemsize // itemsize

    def position(self, frame: Frame, offset: Value, itemsize: int) -> Position:
        """Where the elements at `offset` (in elements of `itemsize` bytes) of the frame's threads lie."""
        return offset

    def each(self, frame: Frame, offset: Value, itemsize: int) -> Array:
        """As `position`, as an index array of the frame's shape."""
        position = self.position(frame, offset, itemsize)
        if isinstance(position, slice):
            position = np.arange(position.start, position.stop).reshape(frame.shape)
        return np.broadcast_to(position, frame.shape)

    def span(self, frame: Frame, offset: Value, itemsize: int, lanes: int) -> Position:
        """As `position`, for `lanes` consecutive elements: one more axis."""
        return np.asarray(self.position(frame, offset, itemsize))[..., None] + np.arange(lanes)

    def start(self, position: Position, itemsize: int) -> Array:
        """The first bytes of these elements in the space."""
        if isinstance(position, slice):
            position = np.arange(position.start, position.stop)
        return np.asarray(position) * itemsize + self.base

    def flags(self, itemsize: int) -> Array:
        """What is written, as words of the size of an element."""
        assert self.written is not None
        view = self._flags.get(itemsize)
        if view is None:
            view = self._flags[itemsize] = self.written[:self.written.size // itemsize * itemsize].view(f"u{itemsize}")
        return view

    def unwritten(self, position: Position, itemsize: int) -> Array:
        """Which of these elements have a byte that nothing wrote."""
        return np.asarray(self.flags(itemsize)[position] != _WRITTEN[itemsize])

    def mark(self, position: Position, itemsize: int) -> None:
        """These elements are written now."""
        if self.written is not None:
            self.flags(itemsize)[position] = _WRITTEN[itemsize]


_WRITTEN = {size: np.array([0xFF] * size, np.uint8).view(f"u{size}")[0] for size in (1, 2, 4, 8)}      # every byte of a word


@dataclass(slots=True)
class SharedMemory(Memory):
    """One row of cells for each of `blocks` blocks."""

    blocks: int = 1

    def position(self, frame: Frame, offset: Value, itemsize: int) -> Position:
        return offset if self.blocks == 1 else frame.block_rows * (self.pitch // itemsize) + offset


@dataclass(slots=True)
class LocalMemory(Memory):
    """One column for each of `threads` threads, or one row each (`rows`) where views of several widths share it."""

    threads: int = 1
    rows: bool = False

    def position(self, frame: Frame, offset: Value, itemsize: int) -> Position:
        if self.rows:
            return frame.lanes * (self.pitch // itemsize) + offset
        if isinstance(offset, int) and frame.count == self.threads:
            return slice(offset * self.threads, (offset + 1) * self.threads)
        return frame.lanes + offset * self.threads

    def span(self, frame: Frame, offset: Value, itemsize: int, lanes: int) -> Position:
        if self.rows:
            return Memory.span(self, frame, offset, itemsize, lanes)
        return (frame.lanes + offset * self.threads)[..., None] + np.arange(lanes) * self.threads

    def forget(self, frame: Frame) -> None:
        """The frame's threads enter the scope of the variable again: its contents are gone."""
        who = frame.lanes.reshape(-1)
        arrays = [(self.cells, _poison(self.cells.itemsize, self.cells.dtype)[0])]
        if self.written is not None:
            arrays.append((self.flags(self.cells.itemsize), 0))
        for array, value in arrays:
            if self.rows:
                array.reshape(self.threads, -1)[who] = value
            else:
                array.reshape(-1, self.threads)[:, who] = value


def _poison(count: int, storage: np.dtype[Any]) -> Array:
    """`count` bytes that nobody would take for data."""
    return np.full(count, 1 if storage == np.bool_ else 0xFF, np.uint8).view(storage)


_GLOBAL = 1 << 40           # where global memory begins in the simulator's device
_GUARD = 4096               # between arrays, so that an access beyond one reaches no other


def global_memories(arrays: Mapping[Storage, Array]) -> dict[Storage, Memory]:
    """The callers' arrays, flat, each at an address that agrees with its pointer modulo 256."""
    found, end = {}, _GLOBAL
    for storage, array in arrays.items():
        address = -(-end // 256) * 256 + array.ctypes.data % 256
        found[storage] = Memory(array, array.size, address=address)
        end = address + array.nbytes + _GUARD
    return found


def _pitch(size: int, storage: np.dtype[Any]) -> int:
    """Bytes of `size` elements, rounded up so that every element type fits in a whole number of times."""
    return -(-size * storage.itemsize // 16) * 16


def local_memory(size: int, storage: np.dtype[Any], watched: bool, threads: int, mixed: bool) -> LocalMemory:
    """`size` elements for each of `threads` threads; `mixed` where views of several element widths look at it."""
    pitch = _pitch(size, storage) if mixed else size * storage.itemsize
    written = np.zeros(threads * pitch, np.uint8) if watched else None
    return LocalMemory(_poison(threads * pitch, storage), size, pitch, written, threads=threads, rows=mixed)


# ---- shared memory -----------------------------------------------------------------------------------------------------

ARENA_ALIGNMENT = 1024      # where dynamic shared memory begins: what the largest swizzle asks for


class Place(NamedTuple):
    """Where an allocation lies in each block's shared memory, and how many elements it has."""

    base: int       # in bytes
    size: int


class Layout(NamedTuple):
    """The shared memory of a block: `places` of its allocations in `bytes` bytes."""

    places: dict[Storage, Place]
    bytes: int


def layout_of(allocated: Iterable[tuple[Storage, int, int]]) -> Layout:
    """Lay allocations (each with its cells and its alignment in bytes) out: static ones in order, then the dynamic arena."""
    places, end = {}, 0
    for storage, size, needed in sorted(allocated, key=lambda entry: entry[0].scope == "shared.dyn"):
        alignment = max(needed, ARENA_ALIGNMENT if storage.scope == "shared.dyn" else 1)
        base = -(-end // alignment) * alignment
        places[storage] = Place(base, size)
        end = base + size * storage.dtype.cell.itemsize
    return Layout(places, -(-end // 16) * 16)


def shared_space(layout: Layout, watched: bool, blocks: int) -> SharedMemory:
    """Fresh shared memory of `blocks` blocks, as bytes."""
    total = blocks * layout.bytes
    space = SharedMemory(_poison(total, np.dtype(np.uint8)), layout.bytes, layout.bytes, places=layout.places, blocks=blocks)
    if watched:
        space.written = np.zeros(total, np.uint8)
    rows = space.cells.reshape(blocks, layout.bytes)
    for storage, (base, size) in layout.places.items():
        if storage.dtype.cell == np.bool_:
            rows[:, base:base + size] = 1       # of bytes that are no zero the only one that is a bool
    return space


def allocations(space: SharedMemory, layout: Layout, row: int | None = None) -> dict[Storage, Memory]:
    """Each allocation as a part of the space: of all its blocks, or of the one in this row."""
    first, blocks = (0, space.blocks) if row is None else (row * space.pitch, 1)
    parts: dict[Storage, Memory] = {}
    for storage, (place, size) in layout.places.items():
        element = storage.dtype.cell
        base = first + place
        end = base + (blocks - 1) * space.pitch + -(-size * element.itemsize // 16) * 16
        written = None if space.written is None else space.written[base:end]
        parts[storage] = SharedMemory(space.cells[base:end].view(element), size, space.pitch, written, space=space, base=base, blocks=blocks)
    return parts
