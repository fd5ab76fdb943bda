"""Memories seen through element types of several widths, and what counts as written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.simulator.frames import Frame
from runtime.simulator.memory import Memory, allocations, global_memories, layout_of, local_memory, shared_space
from symbolic.integers import const
from tracer.dtypes import dtype
from tracer.ir import Storage

BYTE, WORD = np.dtype(np.uint8), np.dtype(np.float32)
BLOCKS, THREADS = 2, 3


def frame() -> Frame:
    return Frame(THREADS, np.arange(BLOCKS), np.arange(THREADS))


def storage(name: str, kind: str, size: int, scope: str = "shared") -> Storage:
    return Storage(name, dtype(kind), scope, const(size), 16)


def shared_memory(kind: str, size: int, watched: bool = True, blocks: int = BLOCKS) -> Memory:
    """An allocation behind 48 bytes of another one."""
    other, mine = storage("other", "uint8", 33), storage("mine", kind, size)
    layout = layout_of([(other, 33, 16), (mine, size, 16)])
    return allocations(shared_space(layout, watched, blocks), layout)[mine]


def bytes_of(scope: str) -> Memory:
    """20 bytes for each owner, which words look at too."""
    if scope == "shared":
        return shared_memory("uint8", 20)
    return local_memory(20, BYTE, watched=True, threads=BLOCKS * THREADS, mixed=True)


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_words_over_bytes(scope: str) -> None:
    memory, f = bytes_of(scope), frame()
    assert memory.limit(1) == 20 and memory.limit(4) == 5
    position = memory.position(f, 2, 4)
    memory.viewed(WORD)[position] = np.float32(1.5)
    memory.mark(position, 4)
    for k in range(20):
        at = memory.position(f, k, 1)
        written = 8 <= k < 12
        assert (memory.unwritten(at, 1) != written).all()
        assert (memory.viewed(BYTE)[at] == (np.float32([1.5]).view(np.uint8)[k - 8] if written else 0xFF)).all()


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_one_missing_byte_makes_a_word_unwritten(scope: str) -> None:
    memory, f = bytes_of(scope), frame()
    for k in (0, 1, 3):
        memory.mark(memory.position(f, k, 1), 1)
    assert memory.unwritten(memory.position(f, 0, 4), 4).all()
    memory.mark(memory.position(f, 2, 1), 1)
    assert not memory.unwritten(memory.position(f, 0, 4), 4).any()


def owners(memory: Any, count: int, itemsize: int) -> list[set[int]]:
    f = frame()
    places = np.stack([np.broadcast_to(memory.position(f, np.full(f.shape, k), itemsize), f.shape) for k in range(count)])
    return [set(places[:, r, t].tolist()) for r in range(BLOCKS) for t in range(THREADS)]


def test_blocks_share_what_is_shared_and_threads_what_is_local() -> None:
    shared = owners(shared_memory("float32", 5), 5, 4)
    assert all(len(s) == 5 for s in shared) and shared[0] == shared[1] == shared[2] and not shared[0] & shared[3]
    for mixed in (False, True):
        local = owners(local_memory(5, WORD, True, BLOCKS * THREADS, mixed), 5, 4)
        assert len(set().union(*local)) == 5 * BLOCKS * THREADS


@pytest.mark.parametrize("mixed", [False, True])
def test_forget(mixed: bool) -> None:
    memory = local_memory(2, WORD, True, BLOCKS * THREADS, mixed)
    whole, part = frame(), Frame(THREADS, None, None, np.array([1, 4]))
    every = np.zeros(whole.shape, np.int64)
    for k in (0, 1):
        memory.viewed(WORD)[memory.position(whole, every + k, 4)] = 7.0
        memory.mark(memory.position(whole, every + k, 4), 4)
    memory.forget(part)
    assert memory.unwritten(memory.position(whole, every + 1, 4), 4).reshape(-1).tolist() == [False, True, False, False, True, False]
    assert np.isnan(memory.viewed(WORD)[memory.position(part, np.zeros(2, np.int64), 4)]).all()


def test_global_memory_is_the_callers() -> None:
    array = np.zeros(10, np.uint8)
    where = storage("A", "uint8", 10, "global")
    memory = global_memories({where: array})[where]
    memory.viewed(WORD)[1] = 1.0
    assert memory.limit(4) == 2 and memory.written is None
    assert memory.address % 256 == array.ctypes.data % 256
    assert array[4:8].tobytes() == np.float32(1.0).tobytes() and not array[8:].any()


def test_fresh_memory_is_not_zero() -> None:
    for kind in ("float16", "float32", "float64"):
        assert np.isnan(shared_memory(kind, 4, False, 1).cells).all()
    assert (local_memory(4, np.dtype(np.int32), False, 2, False).cells == -1).all()
    assert shared_memory("bool", 4, False, 1).cells.view(np.uint8)[:4].max() == 1


def test_allocations_have_places_in_a_space_of_bytes() -> None:
    """Static ones in order, the arena behind them at a multiple of 1024; each block has a row."""
    a, arena, b = storage("a", "float32", 5), storage("arena", "uint8", 100, "shared.dyn"), storage("b", "uint16", 3)
    layout = layout_of([(a, 5, 16), (arena, 100, 16), (b, 3, 128)])
    assert {s.name: tuple(place) for s, place in layout.places.items()} == {"a": (0, 5), "b": (128, 3), "arena": (1024, 100)}
    assert layout.bytes == 1136
    space = shared_space(layout, True, BLOCKS)
    parts = allocations(space, layout)
    f = frame()
    assert parts[b].start(np.broadcast_to(parts[b].position(f, 2, 2), f.shape), 2).tolist() == [[132] * 3, [1136 + 132] * 3]
    own = allocations(space, layout, row=1)
    own[b].cells[2] = 7
    own[b].mark(2, 2)
    assert own[b].start(2, 2) == 1136 + 132 and space.cells[1136 + 132:1136 + 134].view(np.uint16) == 7
    assert parts[b].cells[parts[b].position(f, 2, 2)].tolist() == [[65535], [7]] and np.flatnonzero(space.written).tolist() == [1268, 1269]
