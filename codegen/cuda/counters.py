"""Steps of a mutable scalar that cannot overflow, as the condition of their `while` loop bounds it: `while x < n: ... x += 1`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codegen.lowered import Lowered
from codegen.words import facts_at
from tracer import operations as ops
from tracer.ir import Node, Region, Storage

_RISING, _FALLING = (ops.LT, ops.LE), (ops.GT, ops.GE)
_LOOPS = (ops.FOR, ops.WHILE)


def safe_steps(live: Iterable[Node], lowered: Lowered) -> set[Node]:
    """The sums `x + c` and differences `x - c` of a local scalar `x` that are proved to stay in its dtype.

    The scalar is stored to once in the loop, outside inner loops, so that the condition holds for what the sum reads.
    """
    return {step for loop in live if loop.op is ops.WHILE for step in _safe_steps(loop, lowered)}


def _safe_steps(loop: Node, lowered: Lowered) -> Iterator[Node]:
    condition, body = loop.regions
    touched = [n for n in body.walk() if n.op.accesses and n.op is not ops.LOAD]
    once = list(_outside_inner_loops(body))
    for least, greatest, storage in _bounds(condition.result, lowered):
        changes = [n for n in touched if n.attrs["buffer"].storage is storage]
        if len(changes) == 1 and changes[0].op is ops.STORE and changes[0] in once:
            value = changes[0].operands[-1]
            distance = _distance(value, storage, once)
            assert value.dtype is not None
            if distance is not None and value.dtype.limits[0] <= least + distance and greatest + distance <= value.dtype.limits[1]:
                yield value


def _outside_inner_loops(region: Region) -> Iterator[Node]:
    for node in region.nodes:
        yield node
        if node.op not in _LOOPS:
            for inner in node.regions:
                yield from _outside_inner_loops(inner)


def _bounds(condition: Node | None, lowered: Lowered) -> Iterator[tuple[int, int, Storage]]:
    """The range in which `condition` says that a local scalar lies, for the sides on which it says so; a step goes to that side."""
    if condition is None:
        return
    if condition.op is ops.AND:
        for part in condition.operands:
            yield from _bounds(part, lowered)
    if condition.op not in (*_RISING, *_FALLING):
        return
    a, b = condition.operands
    for cell, bound, rising in ((a, b, condition.op in _RISING), (b, a, condition.op in _FALLING)):
        if _is_cell(cell) and cell.dtype is not None and cell.dtype.kind == "int":
            low, high = facts_at(condition, lowered).bounds(bound.sym) if bound.sym is not None else (None, None)
            strict = 1 if condition.op in (ops.LT, ops.GT) else 0
            least, greatest = cell.dtype.limits
            storage = cell.attrs["buffer"].storage
            if rising:
                yield 0, (greatest if high is None else min(high, greatest)) - strict, storage
            else:
                yield (least if low is None else max(low, least)) + strict, 0, storage


def _is_cell(node: Node) -> bool:
    return node.op is ops.LOAD and bool(node.attrs["buffer"].cell) and node.attrs["buffer"].scope == "local"


def _distance(value: Node, storage: Storage, once: list[Node]) -> int | None:
    """The constant that `value` adds to what stands in `storage`."""
    if value.op not in (ops.ADD, ops.SUB):
        return None
    a, b = value.operands
    if value.op is ops.ADD and a.op is ops.CONST:
        a, b = b, a
    if b.op is not ops.CONST or not _is_cell(a) or a.attrs["buffer"].storage is not storage or a not in once or value not in once:
        return None
    constant = int(b.attrs["value"])
    return constant if value.op is ops.ADD else -constant
