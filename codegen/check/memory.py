"""Bounds of every access, and where vectors may be moved at once."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.check.findings import OPEN, SAFE, WRONG, Finding
from codegen.check.names import access_text, range_text
from codegen.lowered import FlatAccess, Lowered
from codegen.packets import is_packet, moved
from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.text import text
from tracer import operations as ops


def bounds(lowered: Lowered, names: dict[Int, str]) -> Iterator[Finding]:
    """Whether each coordinate lies within its extent; of a pointer, that of the element it points to."""
    for node, access in lowered.accesses.items():
        if access.buffer.cell or not access.coords:
            continue
        facts = lowered.known[node]
        lanes = moved(node).lanes if node.op is not ops.ADDRESS_OF and is_packet(node) else 1
        coords, _ = node.op.split(node.operands)
        for axis, (coordinate, size, shown) in enumerate(zip(coords, access.buffer.shape, access.coords)):
            if coordinate.sym is not None and not _is_plain(coordinate.sym, size, lanes):
                last = coordinate.sym + (lanes - 1 if axis == len(coords) - 1 else 0)
                yield _within(access, axis, coordinate.sym, last, size, shown, facts, names)


def _is_plain(coordinate: Int, size: Int, lanes: int) -> bool:
    """A number that is seen to lie within."""
    return si.is_const(coordinate) and si.is_const(size) and lanes == 1 and 0 <= coordinate.value < size.value


def _within(access: FlatAccess, axis: int, first: Int, last: Int, size: Int, shown: Int, facts: Facts, names: dict[Int, str]) -> Finding:
    what, extent = access_text(access, names), text(size, names)
    relation = si.land(si.ge(first, 0), si.lt(last, size))
    low = facts.prove(si.ge(first, 0))
    side = "is not known to be 0 or more" if low is None else f"is not known to be less than {range_text(size, facts, names)}"
    reasons = {
        SAFE: f"0 <= {text(shown, names)}" + (f" and {text(last, names)} < {extent}" if last is not first else f" < {extent}"),
        WRONG: f"index {axis} is {range_text(first, facts, names)}, never in [0, {extent})",
        OPEN: f"index {axis}, {range_text(last if low else first, facts, names)}, {side}",
    }
    if access.node.op is ops.ADDRESS_OF and facts.prove(relation) is not True:
        # It may stand behind the last element, if nothing is reached through it.
        reason = f"index {axis} is {range_text(first, facts, names)}; what is reached from there, the simulator sees"
        return Finding("bounds", OPEN, what, reason, access.node.location, relation, facts, names)
    if access.node.op is ops.ADDRESS_OF:
        reasons[SAFE] += ", the element it points to; what is reached from there, the simulator sees"
    return Finding.of("bounds", what, relation, facts, reasons, access.node.location, names)


def alignment(lowered: Lowered, names: dict[Int, str]) -> Iterator[Finding]:
    """Whether a vector lies on its own alignment; else its lanes move one by one."""
    for node, access in lowered.accesses.items():
        if node.op is ops.ADDRESS_OF or access.buffer.cell or not is_packet(node):
            continue
        facts, dtype = lowered.known[node], moved(node)
        step = 8 * dtype.alignment // dtype.width
        relation = si.eq(access.index % step, 0)
        where, what = f"element {text(access.index, names)} of {access.buffer.storage.name}", access_text(access, names)
        if access.lanes:
            yield Finding("alignment", SAFE, what, "its lanes are no neighbours in memory and move one by one", node.location)
            continue
        reasons = {
            SAFE: f"{where} is a multiple of {step}: one move of {dtype.bytes} bytes",
            WRONG: f"{where} is never a multiple of {step}, as a move of {dtype.bytes} bytes needs",
            OPEN: f"{where} is not known to be a multiple of {step}: the lanes move one by one",
        }
        yield Finding.of("alignment", what, relation, facts, reasons, node.location, names)
