"""What the accesses of many warps cost: sectors of global memory, passes through the banks of shared memory. Vectorised.

A row is one *request*: one instruction of one warp, the byte address at which each of its 32 lanes begins and whether the lane takes
part. Global memory moves in sectors of 32 bytes, and a request moves each sector that it touches once (CUDA C++ Programming Guide,
"Device Memory Accesses"; Nsight Compute's `l1tex__t_sectors`). Shared memory serves a request in passes, as `banks` says for one warp:
lanes that move 8 bytes in two halves, 16 bytes in four quarters.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from symbolic.layout.banks import BANKS, PASS_BYTES, WORD

Array: TypeAlias = np.ndarray[Any, Any]

SECTOR: Final = 32
LANES: Final = 32
WIDEST: Final = 16          # bytes that a lane moves at once, at most


class Sectors(NamedTuple):
    """Of each request: how many sectors it moves, and how few would hold the bytes that it asks for."""

    moved: Array
    least: Array


class Passes(NamedTuple):
    """Of each request: how often the banks are used, how often they would be without conflicts, and the greatest number of words
    that one bank serves in one part of it (1: free of conflicts)."""

    taken: Array
    least: Array
    ways: Array


def move_of(size: int) -> int:
    """The bytes that one instruction of a lane moves of `size` that lie together: 1, 2, 4, 8 or 16."""
    return min(size & -size, WIDEST)


def sectors(start: Array, size: int, active: Array | None = None) -> Sectors:
    """The cost of requests to global memory.

    `start` has shape (requests, 32), `active` too (None: all lanes take part); a lane moves `size` bytes, at most 32.
    """
    start = _filled(start, active)
    first, last = start // SECTOR, (start + size - 1) // SECTOR
    moved = _distinct(first if (first == last).all() else np.concatenate((first, last), axis=1))
    return Sectors(moved, -(-_distinct(start) * size // SECTOR))


def passes(start: Array, size: int, active: Array | None = None) -> Passes:
    """The cost of requests to shared memory; arguments as for `sectors`, but that a lane moves 1, 2, 4, 8 or 16 bytes."""
    together = min(LANES, PASS_BYTES // max(size, WORD))
    parts = LANES // together
    served = None if active is None else active.reshape(-1, together)
    words = _filled(start.reshape(-1, together), served) // WORD
    span = -(-size // WORD)
    if span > 1:
        words = (words[:, :, None] + np.arange(span)).reshape(len(words), -1)
    most = _most_in_a_bank(words)
    live = np.ones_like(most) if served is None else served.any(axis=1) + 0
    taken, live = (most * live).reshape(-1, parts), live.reshape(-1, parts)
    return Passes(taken.sum(axis=1), live.sum(axis=1), taken.max(axis=1, initial=0))


def _filled(start: Array, active: Array | None) -> Array:
    """The lanes that take no part put where the first does that takes one: there they cost nothing."""
    if active is None:
        return start
    first = np.take_along_axis(start, active.argmax(axis=1)[:, None], axis=1)
    return np.where(active, start, first)


def _distinct(values: Array) -> Array:
    """How many different values each row has."""
    if not (values[:, 1:] >= values[:, :-1]).all():
        values = np.sort(values, axis=1)
    return np.asarray(1 + (values[:, 1:] != values[:, :-1]).sum(axis=1))


def _most_in_a_bank(words: Array) -> Array:
    """The greatest number of different words of each row that lie in one bank."""
    words = np.sort(words, axis=1)
    new = np.ones(words.shape, np.bool_)
    new[:, 1:] = words[:, 1:] != words[:, :-1]
    rows = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    counts = np.bincount(rows[new] * BANKS + words[new] % BANKS, minlength=len(words) * BANKS)
    return np.asarray(counts.reshape(-1, BANKS).max(axis=1, initial=0))
