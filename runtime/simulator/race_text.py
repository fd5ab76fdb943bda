"""What a data race is told as: both accesses with their element, value, thread and line, why nothing orders them, and what would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from runtime.simulator.elements import Known, coordinates
from runtime.simulator.memory import Memory
from tracer.ir import Buffer, Node, Storage


class Grid(NamedTuple):
    """The launch: extents of grid and block, the values of the kernel's symbols that are known before it runs, and its parameters' memories."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    known: Known
    parameters: Mapping[Storage, Memory]


class Accused(NamedTuple):
    """One of the two accesses. `thread`: linear numbers of the block, and of the thread in it; `stored`: the bytes of an element, if known."""

    node: Node
    buffer: Buffer | None
    kind: str
    thread: tuple[int, int]
    engine: bool
    stored: bytes | None = None


REASONS = {
    "statement": "Several threads of one statement store to one element: let one of them do it (with T.If), or use an atomic.",
    "block": "Threads of a block are ordered by barriers alone: put a T.cuda.cta_sync() between the two.",
    "warp": "Lanes of a warp need not run in step, and shuffles and votes order no memory: put a T.cuda.warp_sync() between the two.",
    "grid": "Blocks run in any order, and a barrier of a block does not order others. Let one block alone use the element, use an atomic, "
            "or hand it over: T.cuda.thread_fence() and an atomic behind the first access; an atomic that reads it and "
            "T.cuda.thread_fence() before the second.",
    "cluster": "Blocks of a cluster are ordered by its barriers: put a T.cuda.cluster_sync() between the two.",
    "atomic": "An atomic orders other atomics only, not the plain access of the same element: make both atomic, or put a T.cuda.cta_sync() "
              "between the two.",
    "atomic grid": "An atomic orders other atomics only, not the plain access of the same element by another block: make both atomic.",
    "scope": "Both are atomic, but the scope of one does not reach the block of the other: use scope=\"device\".",
    "width": "Both are atomic, but of different widths, so that neither is atomic for the other: use one type for all atomics of these bytes.",
    "unreached": "What was handed over between the two blocks has too narrow a scope to reach from one to the other: use "
                 "T.cuda.thread_fence() and atomics of scope=\"device\".",
    "proxy": "The two are ordered, but the asynchronous operation goes through another proxy, which does not see plain stores before a fence: "
             "put a T.ptx.fence.proxy.async_() behind the stores, before the barrier that orders the two.",
    "issue": "The asynchronous operation begins when it is issued, and ends when somebody waits for that; nothing orders the other access before "
             "the one or behind the other. If it belongs before, put a barrier between it and the issue; if behind, wait first (the "
             "operation's mbarrier, or a wait_group of the thread that issued it, then a barrier for the others).",
    "async": "An asynchronous operation reads and writes at any time between its issue and the end that somebody waits for: wait for it (its "
             "mbarrier, or a wait_group of the thread that issued it, then a barrier for the others) before its memory is used.",
}
_SAME = "Both store the same value, so the outcome is the same on today's hardware, but the order is nowhere said. Let one thread store it; " \
        "or, if it is meant, ask for checks=Checks(same_value_writes=False)."


def describe(grid: Grid, memory: Memory, byte: int, first: Accused, second: Accused, why: str, same: bool) -> str:
    """The message of a race at a byte of a memory."""
    name = _element(grid, memory, byte, second.buffer or first.buffer)
    title = f"threads race to store the same value to {name}:" if same else f"data race on {name}: nothing orders these two"
    lines = [title, *(access_text(grid, memory, byte, one) for one in (first, second)), REASONS[why]]
    return "\n  ".join([*lines, _SAME] if same else lines)


def access_text(grid: Grid, memory: Memory, byte: int, one: Accused) -> str:
    """`store of A[3] = 1.5 by thread (3, 0, 0) of block (0, 0, 0)`, and where."""
    block, thread = (three(number, extents) for number, extents in zip(one.thread, (grid.grid, grid.block)))
    value = _value(memory, byte, one)
    who = f"by {one.node.op.name}, issued by" if one.engine else "by"
    at = f"\n    at {one.node.location}" if one.node.location else ""
    return f"{one.kind} of {_element(grid, memory, byte, one.buffer)}{value} {who} thread {thread} of block {block}{at}"


def three(linear: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    return linear % extents[0], linear // extents[0] % extents[1], linear // (extents[0] * extents[1])


def _value(memory: Memory, byte: int, one: Accused) -> str:
    """The value stored; of a load, what is there. Of an operation it is not known when it comes."""
    if one.buffer is None or one.kind == "atomic" or one.engine:
        return ""
    storage = one.buffer.dtype.cell
    raw = one.stored
    if raw is None or len(raw) != storage.itemsize:
        if one.kind == "store" and one.stored is not None:
            return ""
        first = byte - memory.offset(one.buffer.storage, byte) % storage.itemsize
        raw = memory.cells.view(np.uint8).reshape(-1)[first:first + storage.itemsize].tobytes()
        if len(raw) != storage.itemsize:
            return ""
    value = np.frombuffer(raw, storage)[0]
    return f" = {value}" if one.kind == "store" else f" ({value} here)"


# ---- which element -----------------------------------------------------------------------------------------------------

def _element(grid: Grid, memory: Memory, byte: int, buffer: Buffer | None) -> str:
    """`A[2, 5]`: the element of `buffer` that holds the byte; where it is none, the byte of an allocation."""
    if buffer is None:
        inside = byte % memory.pitch if memory.places else byte
        for storage, place in memory.places.items():
            if place.base <= inside < place.base + place.size * storage.dtype.cell.itemsize:
                return f"{storage.name} (byte {inside - place.base})"
        names = [storage.name for storage, owned in grid.parameters.items() if owned is memory]
        return f"{names[0]} (byte {byte})" if names else f"byte {byte}"
    if buffer.cell:
        return buffer.name
    if buffer.window is not None:
        return _element(grid, memory, byte, buffer.window.base)
    coords = coordinates(grid.known, buffer, memory.offset(buffer.storage, byte))
    if coords is None:
        return f"{buffer.name} (byte {memory.offset(buffer.storage, byte)} of {buffer.storage.name})"
    return f"{buffer.name}[{', '.join(map(str, coords))}]"
