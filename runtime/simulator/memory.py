"""Memories: flat NumPy arrays with a rule that turns a thread's element offset into a position in them.

Global memory is the caller's array and is written through. Shared memory has a row a block of the chunk. Local memory is
interleaved, as on the GPU: element `k` of all threads, then element `k + 1`, so that a constant offset is one slice.

Fresh shared and local memory holds bytes of ones (NaN in every float type, -1 in signed integers), never zeros, and
remembers which parts were written, in units of the smallest element that any view of it has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runtime.simulator.frames import Array, Frame, Value

Position = Any      # of elements in a flat array: an int, a slice (one element for each thread of a full frame) or an index array


@dataclass(slots=True)
class Memory:
    """`size` elements of `cells.dtype` for each owner: the grid, a block, or a thread. This class: global memory."""

    cells: Array
    size: int
    pitch: int = 0                      # bytes from one owner's first element to the next one's
    written: Array | None = None        # None: taken as initialised
    unit: int = 1                       # bytes that one element of `written` stands for
    space: Memory | None = None         # the memory that these cells are a part of, from its byte `base` on; None: they are all
    base: int = 0
    _views: dict[Any, Array] = field(default_factory=dict)

    def viewed(self, storage: np.dtype[Any]) -> Array:
        """The cells as elements of another type."""
        if storage == self.cells.dtype:
            return self.cells
        view = self._views.get(storage)
        if view is None:
            whole = self.cells.nbytes // storage.itemsize * storage.itemsize // self.cells.itemsize
            view = self._views[storage] = self.cells[:whole].view(storage)
        return view

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

    def unwritten(self, position: Position, itemsize: int) -> Array:
        """Which of these elements have a byte that nothing wrote."""
        assert self.written is not None
        parts = itemsize // self.unit
        if parts == 1:
            return ~np.asarray(self.written[position])
        return ~np.asarray(self.written[np.asarray(position)[..., None] * parts + np.arange(parts)].all(axis=-1))

    def mark(self, position: Position, itemsize: int) -> None:
        """These elements are written now."""
        if self.written is not None:
            parts = itemsize // self.unit
            self.written[position if parts == 1 else np.asarray(position)[..., None] * parts + np.arange(parts)] = True


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
        for array, value in ((self.cells, _poison(self.cells.itemsize, self.cells.dtype)[0]), (self.written, False)):
            if array is not None and self.rows:
                array.reshape(self.threads, -1)[who] = value
            elif array is not None:
                array.reshape(-1, self.threads)[:, who] = value


def _poison(count: int, storage: np.dtype[Any]) -> Array:
    """`count` bytes that nobody would take for data."""
    return np.full(count, 1 if storage == np.bool_ else 0xFF, np.uint8).view(storage)


def global_memory(array: Array) -> Memory:
    """The caller's array, flat."""
    return Memory(array, array.size)


def _pitch(size: int, storage: np.dtype[Any]) -> int:
    """Bytes of `size` elements, rounded up so that every element type fits in a whole number of times."""
    return -(-size * storage.itemsize // 16) * 16


def shared_memory(size: int, storage: np.dtype[Any], unit: int, watched: bool, blocks: int) -> SharedMemory:
    """`size` elements for each of `blocks` blocks. `unit`: bytes of the smallest element that a view of it has."""
    pitch = _pitch(size, storage)
    written = np.zeros(blocks * pitch // unit, np.bool_) if watched else None
    return SharedMemory(_poison(blocks * pitch, storage), size, pitch, written, unit, blocks=blocks)


def local_memory(size: int, storage: np.dtype[Any], unit: int, watched: bool, threads: int, mixed: bool) -> LocalMemory:
    """`size` elements for each of `threads` threads; `mixed` where views of several element widths look at it."""
    pitch = _pitch(size, storage) if mixed else size * storage.itemsize
    written = np.zeros(threads * pitch // unit, np.bool_) if watched else None
    return LocalMemory(_poison(threads * pitch, storage), size, pitch, written, unit, threads=threads, rows=mixed)
