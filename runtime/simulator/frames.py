"""Which threads a statement runs for, and how values are laid out over them.

A chunk is some blocks of the grid, each of `threads` threads; thread `t` of the chunk's row `r` is *lane* `r*threads + t`.
A `Frame` is the set of lanes that run together. While control flow has split blocks and threads apart only as a whole it is
a *product*, `rows` x `columns`; once it depends on both it is *ragged*, a sorted list of lanes.

A value in a frame is a scalar (the same for all), or an array that broadcasts to `shape`, (rows, columns) or (lanes,). So a
value that depends on the block alone has one column, and costs little. A vector has one more axis, its elements.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Value = Any     # a Python int, a NumPy scalar, or an Array


class Frame:
    """The threads that run a statement, with the values that they have computed so far."""

    def __init__(self, threads: int, rows: Array | None, columns: Array | None, lanes: Array | None = None) -> None:
        self.threads = threads          # of a block
        self.rows, self.columns = rows, columns
        if lanes is not None:
            self.lanes = lanes
        self.shape = tuple(len(part) for part in (rows, columns, lanes) if part is not None)
        self.count = math.prod(self.shape)
        self.values: dict[int, Value] = {}
        self.numbers: Array | None = None       # of the threads in the grid, once somebody asked (`Agent.numbers`)
        self._from: dict[Frame, tuple[Array | None, ...]] = {}

    @property
    def ragged(self) -> bool:
        return self.rows is None

    @cached_property
    def lanes(self) -> Array:
        """Lane numbers, of the frame's shape."""
        assert self.rows is not None and self.columns is not None
        return self.rows[:, None] * self.threads + self.columns

    @cached_property
    def block_rows(self) -> Array:
        """The chunk's row that each thread belongs to; broadcasts to the shape."""
        return self.lanes // self.threads if self.rows is None else self.rows[:, None]

    @cached_property
    def thread_numbers(self) -> Array:
        """The linear number of each thread in its block; broadcasts to the shape."""
        return self.lanes % self.threads if self.columns is None else self.columns[None, :]

    def keep(self, mask: Value) -> Frame:
        """The threads for which `mask`, which broadcasts to the shape, holds. This frame itself where it holds for all."""
        mask = np.asarray(mask)
        if mask.all():
            return self
        if not mask.ndim:
            return empty(self.threads)
        if self.ragged:
            return Frame(self.threads, None, None, self.lanes[np.broadcast_to(mask, self.shape)])
        if mask.shape[0] == 1:
            return Frame(self.threads, self.rows, self.columns[mask[0]])    # type: ignore[index]
        if mask.shape[1] == 1:
            return Frame(self.threads, self.rows[mask[:, 0]], self.columns)     # type: ignore[index]
        return Frame(self.threads, None, None, self.lanes[mask])

    def split(self, condition: Value) -> tuple[Frame, Frame]:
        """The threads for which `condition` holds, and the others."""
        held = self.keep(condition)
        if held is self:
            return self, empty(self.threads)
        return held, self.keep(~np.asarray(condition))

    def take(self, home: Frame, value: Value, vector: bool = False) -> Value:
        """`value`, computed in the larger frame `home`, for this frame's threads."""
        if getattr(value, "ndim", 0) - vector < len(home.shape):
            return value
        where = self._from.get(home)
        if where is None:
            where = self._from[home] = self._positions_in(home)
        if home.ragged:
            return value if value.shape[0] == 1 else value[where[0]]
        row, column = where
        if self.ragged:
            if value.shape[1] == 1:
                return value[0] if value.shape[0] == 1 else value[row, 0]
            return value[0 if value.shape[0] == 1 else row, column]
        if row is not None and value.shape[0] != 1:
            value = value[row]
        if column is not None and value.shape[1] != 1:
            value = value[:, column]
        return value

    def _positions_in(self, home: Frame) -> tuple[Array | None, ...]:
        if home.ragged:
            return (np.searchsorted(home.lanes, self.lanes),)
        assert home.rows is not None and home.columns is not None
        if self.rows is None or self.columns is None:
            return (np.searchsorted(home.rows, self.block_rows), np.searchsorted(home.columns, self.thread_numbers))
        return (None if len(self.rows) == len(home.rows) else np.searchsorted(home.rows, self.rows),
                None if len(self.columns) == len(home.columns) else np.searchsorted(home.columns, self.columns))

    def put(self, out: Array, part: Frame, value: Value) -> None:
        """Write `value`, computed in the smaller frame `part`, into `out`, an array over this frame's threads."""
        if part is self:
            out[...] = value
            return
        where = part._positions_in(self)
        if self.ragged or part.ragged:
            out[where if len(where) > 1 else where[0]] = value
        else:
            row, column = where
            if column is None:
                out[row] = value
            elif row is None:
                out[:, column] = value
            else:
                out[row[:, None], column] = value

    def spread(self, value: Value) -> Array:
        """`value`, of a scalar dtype, with one element for each thread: a read-only array of the frame's shape."""
        return np.broadcast_to(value, self.shape)

    def first(self, bad: Value, value: Value) -> int:
        """The value, of an integer type, of the first thread for which `bad` holds."""
        return int(self.spread(value)[self.spread(bad)][0])


def empty(threads: int) -> Frame:
    """Nobody."""
    return Frame(threads, None, None, np.empty(0, np.int64))
