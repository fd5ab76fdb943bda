"""Races that the indices decide: which threads touch the same element between two barriers.

Within a block: between two barriers every pair of accesses of which one writes is tried for all threads, and all turns of loops that each
thread runs by itself. Global memory, where no barrier orders blocks: an element whose index is a number in mixed radix, with the thread's,
the block's and loop indices for digits, belongs to one thread. What depends on data, on mbarriers or engines, is left to the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

import numpy as np

from codegen.check.findings import OPEN, SAFE, WRONG, Finding
from codegen.check.intervals import Step, intervals
from codegen.check.names import access_text, line_of
from codegen.check.owners import owners
from codegen.check.threads import MANY, Array, Threads, expanded
from codegen.lowered import FlatAccess, Lowered
from codegen.packets import is_packet, moved
from symbolic import integers as si
from symbolic.integers import Int
from symbolic.text import text
from tracer import instructions as ins
from tracer import operations as ops
from tracer.ir import Storage
from tracer.operations import Effect

_SHARED = ("shared", "shared.dyn")
_GRAVITY = {SAFE: 0, OPEN: 1, WRONG: 2}


def races(lowered: Lowered, names: dict[Int, str]) -> Iterator[Finding]:
    accesses = [a for node, a in lowered.accesses.items() if node.op is not ops.ADDRESS_OF]
    for storage in dict.fromkeys(a.buffer.storage for a in accesses):
        mine = [a for a in accesses if a.buffer.storage is storage]
        if storage.scope not in (*_SHARED, "global"):
            continue
        if not any(map(_writes, mine)):
            yield from _by_instructions(lowered, storage, names)
            continue
        reason = _beyond(lowered, storage)
        if reason:
            yield from (_finding(OPEN, a, reason, names) for a in mine if _writes(a))
        elif storage.scope == "global":
            yield from _global(lowered, mine, names)
        else:
            yield from _in_block(lowered, storage, names)


def _by_instructions(lowered: Lowered, storage: Storage, names: dict[Int, str]) -> Iterator[Finding]:
    """What is read by threads, and written by instructions alone."""
    for node in lowered.function.device.walk():
        for role, operand in ins.roles(node) if ins.is_instruction(node.op) else ():
            access = lowered.accesses.get(operand) if role in ("write", "update") else None
            if access is not None and access.buffer.storage is storage:
                yield _finding(OPEN, access, f"{node.op.name} writes there, which only a run follows", names)


def _beyond(lowered: Lowered, storage: Storage) -> str:
    """Why indices and barriers of the block alone do not tell; "" where they do."""
    if storage.dtype.packed:
        return "its elements share bytes"
    for node in lowered.function.device.walk():
        if ins.is_instruction(node.op) and node.op.effect & Effect.WAIT:
            return f"{node.op.name} orders threads, which only a run follows"
        if node.op is ops.ADDRESS_OF and node.attrs["buffer"].storage is storage:
            return f"its address is taken at line {line_of(node)}"
    return ""


def _writes(access: FlatAccess) -> bool:
    return bool(access.node.op.effect & Effect.WRITE)


def _is_atomic(access: FlatAccess) -> bool:
    return access.node.op in ops.ATOMICS


def _finding(verdict: str, access: FlatAccess, reason: str, names: dict[Int, str]) -> Finding:
    return Finding("race", verdict, access_text(access, names), reason, access.node.location)


# ---- shared memory -----------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class _Places:
    """Where the threads of a block touch a storage at one step: each point's thread and first byte; `size` bytes."""

    threads: Array
    start: Array
    size: int
    rest: Int           # added for all threads of the block, in bytes
    sure: bool          # every one of these points is reached


_Memo: TypeAlias = "dict[Any, _Places | str]"


def _in_block(lowered: Lowered, storage: Storage, names: dict[Int, str]) -> Iterator[Finding]:
    """The accesses that write, by what the threads of one block do between its barriers."""
    threads = Threads(lowered)
    told: dict[FlatAccess, Finding] = {}
    if not threads.known:
        writers = [a for a in lowered.accesses.values() if a.buffer.storage is storage and _writes(a)]
        yield from (_finding(OPEN, a, "the block's extents are no numbers", names) for a in writers)
        return
    memo: _Memo = {}
    for span in intervals(lowered, threads):
        steps = [s for s in span.steps if s.access.buffer.storage is storage]
        for a, b in combinations_with_replacement(steps, 2):
            if not (_writes(a.access) or _writes(b.access)) or _is_atomic(a.access) and _is_atomic(b.access):
                continue
            both = _writes(a.access) and _writes(b.access) and a.access is not b.access
            for one, two in ((a, b), (b, a)) if both else ((a, b),):
                writer = one.access if _writes(one.access) else two.access
                verdict, reason = _pair(one, two, span.certain, threads, lowered, memo, names)
                found = _finding(verdict, writer, reason, names)
                if writer not in told or _GRAVITY[found.verdict] > _GRAVITY[told[writer].verdict]:
                    told[writer] = found
    yield from told.values()


def _pair(a: Step, b: Step, certain: bool, threads: Threads, lowered: Lowered, memo: _Memo, names: dict[Int, str]) -> tuple[str, str]:
    """(verdict, reason) for two accesses, or two turns of one, between the same barriers."""
    one, two = (_places(s, threads, memo, names) for s in (a, b))
    if isinstance(one, str) or isinstance(two, str):
        return OPEN, one if isinstance(one, str) else str(two)
    apart = lowered.known[a.access.node].simplify(si.sub(two.rest, one.rest))
    if not si.is_const(apart):
        return OPEN, f"the elements of both lie {text(apart, names)} bytes apart"
    meeting = _meeting(one, two, apart.value)
    if meeting is None:
        return SAFE, "no two threads touch the same element between two barriers"
    first, second = meeting
    if _writes(a.access) and _writes(b.access):
        also = f", the other at line {line_of(b.access.node)}," if a.access is not b.access else ""
        return OPEN, f"threads {first} and {second}{also} write the same element: right only if they write the same"
    other = b.access if _writes(a.access) else a.access
    return (WRONG if certain and one.sure and two.sure else OPEN), \
        f"threads {first} and {second} touch the same element with no barrier between: {access_text(other, names)}, line {line_of(other.node)}"


def _places(step: Step, threads: Threads, memo: _Memo, names: dict[Int, str]) -> _Places | str:
    key = step.access, step.guards, tuple(step.loops), tuple(step.common.items())
    if key not in memo:
        memo[key] = _find_places(step, threads, names)
    return memo[key]


def _find_places(step: Step, threads: Threads, names: dict[Int, str]) -> _Places | str:
    """Where the threads touch the storage; or why that cannot be told."""
    access = step.access
    if access.lanes:
        return "its lanes are no neighbours in memory"
    index = expanded(si.substitute(access.index, step.common))
    together = {s for value in step.common.values() for s in si.free_symbols(value)}
    own: dict[Int, int] = {}
    rest: dict[Int, int] = {}
    for term, c in si.terms_of(index).items():
        symbols = si.free_symbols(term)
        if all(s in together or s not in threads.loops and threads.is_uniform(s) for s in symbols):
            rest[term] = c
        elif all(threads.is_thread(s) or s in step.loops for s in symbols):
            own[term] = c
        else:
            return f"{text(access.index, names)} depends on more than the thread and loops of known length"
    part, element = si.make_sum(own), access.buffer.dtype.bytes
    conditions = [c for c in step.guards if all(threads.is_thread(s) or s in step.loops for s in si.free_symbols(c))]
    used = {s: step.loops[s] for s in step.loops if any(s in si.free_symbols(e) for e in (part, *conditions))}
    if threads.points(used) > MANY:
        return "too many turns of its loops to try"
    who, where = threads.over_threads(part, used)
    if conditions:
        _, holds = threads.over_threads(si.land(*conditions), used)
        who, where = who[holds != 0], where[holds != 0]
    size = (moved(access.node).lanes if is_packet(access.node) else 1) * element
    sure = len(conditions) == len(step.guards)
    return _Places(who, where * element, size, si.scale(si.make_sum(rest, si.constant_of(index)), element), sure)


def _meeting(one: _Places, two: _Places, apart: int) -> tuple[int, int] | None:
    """Two different threads that touch one byte, the first by way of `one`; None where there are none."""
    if not len(one.start) or not len(two.start):
        return None
    grain = int(np.gcd.reduce([one.size, two.size, abs(apart), *map(_grain, (one, two))]))
    keys, owners = _grains(one, 0, grain)
    known, lowest, highest = _extremes(*_grains(two, apart, grain))
    where = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    bad = np.flatnonzero((known[where] == keys) & ((lowest[where] != owners) | (highest[where] != owners)))
    if not len(bad):
        return None
    first, at = owners[bad[0]], where[bad[0]]
    return int(first), int(lowest[at] if lowest[at] != first else highest[at])


def _grain(places: _Places) -> int:
    return int(np.gcd.reduce(places.start))


def _grains(places: _Places, shift: int, grain: int) -> tuple[Array, Array]:
    starts = (places.start + shift) // grain
    count = places.size // grain
    keys = (starts[:, None] + np.arange(count)).reshape(-1)
    return keys, np.repeat(places.threads, count)


def _extremes(keys: Array, owners: Array) -> tuple[Array, Array, Array]:
    """Each key once, in order; its lowest owner; its highest."""
    order = np.lexsort((owners, keys))
    keys, owners = keys[order], owners[order]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[first], owners[first], owners[np.concatenate((first[1:] - 1, [len(keys) - 1]))]


# ---- global memory -----------------------------------------------------------------------------------------------------

def _global(lowered: Lowered, accesses: list[FlatAccess], names: dict[Int, str]) -> Iterator[Finding]:
    threads = Threads(lowered)
    writers = [a for a in accesses if _writes(a)]
    if all(_is_atomic(a) and a.node.attrs["scope"] != "block" for a in accesses):
        yield from (_finding(SAFE, a, "only atomics touch it", names) for a in writers)
        return
    reason = owners(accesses, threads, lowered, names)
    if reason:
        inside = {f.what: f for f in _in_block(lowered, accesses[0].buffer.storage, names) if f.verdict == WRONG}
        yield from (inside.get(access_text(a, names)) or _finding(OPEN, a, reason, names) for a in writers)
    else:
        yield from (_finding(SAFE, a, "each element belongs to one thread of the grid", names) for a in writers)
