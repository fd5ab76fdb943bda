"""What a warp's access costs, from its index alone: sectors of global memory, passes through the banks of shared memory.

The part of the index that depends on the thread is evaluated for every warp of a block; what is the same for a warp's threads only shifts
the whole, by a multiple of a sector where that is provable, else by anything that the element's size allows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codegen.check.findings import Cost
from codegen.check.names import access_text
from codegen.check.threads import Array, Threads
from codegen.lowered import FlatAccess, Lowered
from codegen.packets import is_packet, moved, moves_whole
from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.layout.banks import WORD
from symbolic.layout.traffic import LANES, SECTOR, move_of, passes, sectors
from symbolic.text import text
from tracer import operations as ops


def costs(lowered: Lowered, names: dict[Int, str]) -> Iterator[Cost]:
    threads = Threads(lowered)
    for node, access in lowered.accesses.items():
        scope = access.buffer.storage.scope
        if node.op is ops.ADDRESS_OF or access.buffer.cell or scope not in ("global", "shared", "shared.dyn"):
            continue
        unit = "sectors" if scope == "global" else "passes"
        what = access_text(access, names)
        if not threads.known:
            yield Cost(unit, what, 0, 0, 0, "the block's extents are no numbers", node.location)
        else:
            yield _cost(unit, what, access, threads, lowered, names)


def _cost(unit: str, what: str, access: FlatAccess, threads: Threads, lowered: Lowered, names: dict[Int, str]) -> Cost:
    node, facts = access.node, lowered.known[access.node]
    dtype = moved(node)
    whole = not is_packet(node) or moves_whole(node, lowered)
    element = access.buffer.dtype
    bits = element.width * element.lanes                # of what the index counts: 4 where two elements share a byte
    size = dtype.bytes if whole else max(bits // 8, 1)
    index, facts, turns = threads.turned(access.index, facts)
    found = _in_block(index, threads, turns)
    if isinstance(found, str):
        return Cost(unit, what, 0, 0, 0, found.format(text(access.index, names)), node.location)
    own, rest = found
    values, active = _warps(own, threads.count)
    step = max(8 * (SECTOR if unit == "sectors" else WORD) // bits, 1)      # a shift by so many elements changes nothing
    shifts = _shifts(rest, step, facts)
    move = move_of(size)
    costs = [_of(unit, (values + shift) * bits // 8 + at, move, active) for shift in shifts for at in range(0, size, move)]
    least, most = min(int(taken.min()) for taken, _ in costs), max(int(taken.max()) for taken, _ in costs)
    reason = f"depends on {text(facts.simplify(rest % step), names)}" if len(shifts) > 1 and least != most else ""
    return Cost(unit, what, least, most, max(int(fewest.max()) for _, fewest in costs), reason, node.location)


def _of(unit: str, start: Array, size: int, active: Array | None) -> tuple[Array, Array]:
    if unit == "sectors":
        return sectors(start, size, active)
    found = passes(start, size, active)
    return found.taken, found.least


def _in_block(index: Int, threads: Threads, turns: frozenset[Int]) -> tuple[Array, Int] | str:
    """(what the index is for each thread, what is added for all); or why that cannot be told."""
    own: dict[Int, int] = {}
    rest: dict[Int, int] = {}
    for term, c in si.terms_of(index).items():
        symbols = si.free_symbols(term)
        alike = [s in turns or threads.is_uniform(s) or _same_in_a_warp(threads.indices.get(s)) for s in symbols]
        if all(map(threads.is_thread, symbols)):
            own[term] = c
        elif all(alike):
            rest[term] = c
        elif all(same or threads.is_thread(s) for s, same in zip(symbols, alike)):
            return "in {} the thread's stride is no number"
        else:
            return "{} depends on more than the thread"
    return threads.over_threads(si.make_sum(own), {})[1], si.make_sum(rest, si.constant_of(index))


def _same_in_a_warp(index: Array | None) -> bool:
    """True for `threadIdx.y` in blocks of 32 x 8 threads."""
    if index is None or len(index) % LANES:
        return False
    rows = index.reshape(-1, LANES)
    return bool((rows == rows[:, :1]).all())


def _shifts(rest: Int, step: int, facts: Facts) -> list[int]:
    """What `rest` may be modulo `step`."""
    left = facts.simplify(rest % step)
    if si.is_const(left):
        return [left.value]
    low, high = facts.bounds(left)
    every = range(low or 0, (step - 1 if high is None else high) + 1)
    return [k for k in every if facts.prove(si.eq(left, k)) is not False]


def _warps(values: Array, count: int) -> tuple[Array, Array | None]:
    """The threads' values in rows of a warp each; which lanes there are, where a warp is not full."""
    missing = -count % LANES
    if not missing:
        return values.reshape(-1, LANES), None
    rows = np.concatenate((values, np.zeros(missing, values.dtype))).reshape(-1, LANES)
    return rows, (np.arange(count + missing) < count).reshape(-1, LANES)
