"""Elements of which each belongs to one thread of the grid: an index that is a number in mixed radix says whose it is."""

from __future__ import annotations

from codegen.check.names import access_text, line_of
from codegen.check.threads import Threads, expanded
from codegen.lowered import FlatAccess, Lowered
from codegen.packets import is_packet, moved
from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.text import text
from tracer import operations as ops


def owners(accesses: list[FlatAccess], threads: Threads, lowered: Lowered, names: dict[Int, str]) -> str:
    """Why two threads may touch one element; "" where the index tells the thread.

    It does if its terms, from the smallest stride up, are digits: what stands below a stride is never negative and less than it. Accesses
    that differ by a constant, as in an unrolled loop, are told apart by digits of their own (`_steps`).
    """
    first = accesses[0]
    if any(a.lanes or a.buffer.dtype is not first.buffer.dtype for a in accesses):
        return "it is accessed with lanes or types of several widths"
    steps = _steps([si.sub(expanded(a.index), expanded(first.index)) for a in accesses], threads)
    if steps is None:
        other = next(a for a in accesses if a.index is not first.index)
        return f"{access_text(other, names)}, line {line_of(other.node)}, goes by another index than {access_text(first, names)}"
    pinned: dict[Int, int] = {}     # what guards say of thread and block indices: the same for all accesses
    for access, digits in zip(accesses, steps):
        reason = _has_one_owner(access, digits, pinned, threads, lowered, names)
        if reason:
            return reason
    return ""


def _steps(apart: list[Int], threads: Threads) -> list[dict[Int, int]] | None:
    """Each of these distances as a sum of strides that they share, {stride: times}; None where they make up no such grid."""
    lowest = next((low for low in apart if all(_is_ahead(si.sub(d, low)) for d in apart)), None)
    if lowest is None or not all(map(threads.is_constant, apart)):
        return None
    left = {si.sub(d, lowest) for d in apart}
    sums: dict[Int, dict[Int, int]] = {si.ZERO: {}}
    while len(left) > 1:
        stride = min((d for d in left if d is not si.ZERO), key=_size)
        length = 1
        while si.scale(stride, length) in left:
            length += 1
        sums = {si.add(d, si.scale(stride, k)): {**times, stride: k} for d, times in sums.items() for k in range(length)}
        left = {d for d in left if si.sub(d, stride) not in left}
    return [sums[si.sub(d, lowest)] for d in apart] if {si.sub(d, lowest) for d in apart} <= set(sums) else None


def _is_ahead(e: Int) -> bool:
    return si.constant_of(e) >= 0 and all(c > 0 for c in si.terms_of(e).values())


def _size(e: Int) -> tuple[int, int, object]:
    """Orders strides: numbers before products with extents, small ones first."""
    return len(si.free_symbols(e)), max(abs(si.constant_of(e)), *map(abs, si.terms_of(e).values()), 0), e.key


def _has_one_owner(access: FlatAccess, steps: dict[Int, int], pinned: dict[Int, int], threads: Threads, lowered: Lowered,
                   names: dict[Int, str]) -> str:
    index, facts, turns = threads.turned(access.index, lowered.known[access.node])
    offset = si.make_sum({})
    for stride, times in steps.items():
        offset = si.add(offset, si.scale(stride, times))
    digits = [(stride, si.scale(stride, times)) for stride, times in steps.items()]
    atoms: set[Int] = set()
    for term, c in si.terms_of(si.sub(index, offset)).items():
        varying = [f for f in si.factors_of(term) if not threads.is_constant(f)]
        if not varying:
            continue
        if len(varying) > 1 or varying[0].op is not si.SYMBOL or not (varying[0] in turns or _is_digit(varying[0], threads)):
            return f"{text(access.index, names)} is no plain sum of indices with strides"
        atoms.add(varying[0])
        digits.append((si.scale(si.product(f for f in si.factors_of(term) if f is not varying[0]), c), si.scale(term, c)))
    for symbol, node in threads.function.atoms.items():
        if node.op in (ops.THREAD_INDEX, ops.BLOCK_INDEX) and symbol not in atoms and not _is_pinned(symbol, facts, pinned):
            return f"threads that differ in {names.get(symbol, symbol.name)} alone touch the same element"
    below = si.const((moved(access.node).lanes if is_packet(access.node) else 1) - 1)
    for stride, term in sorted(digits, key=lambda digit: _size(digit[0])):
        if facts.prove(si.land(si.ge(below, 0), si.lt(below, stride))) is not True:
            return f"{text(below, names)} is not known to be less than {text(stride, names)}"
        below = si.add(below, term)
    return ""


def _is_digit(symbol: Int, threads: Threads) -> bool:
    return threads.node(symbol).op in (ops.THREAD_INDEX, ops.BLOCK_INDEX, ops.LOOP_VAR)


def _is_pinned(symbol: Int, facts: Facts, pinned: dict[Int, int]) -> bool:
    """Whether it has one value where the access stands, and the same one as at the accesses before."""
    low, high = facts.bounds(symbol)
    return low is not None and low == high and pinned.setdefault(symbol, low) == low
