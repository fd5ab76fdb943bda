"""Votes, matches and reductions of a warp: each thread sees the values of all lanes of its warp, as one more axis of 32.

Sources: PTX ISA 9.7.13.9 to 9.7.13.14. Who must be there is checked as for shuffles (see `warp`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.program import Compiler, Run, statement
from runtime.simulator.warp import WARP, Warps, check_mask, warps_of
from tracer import operations as op
from tracer.ir import Node
from tracer.operations import Operation

BITS = np.uint32(1) << np.arange(WARP, dtype=np.uint32)


class Seen(NamedTuple):
    """For each thread, arranged as `Warps` says: the lanes that take part and their values (both ... x 32), its own lane and value."""

    member: Array
    values: Array
    lane: Array
    own: Array


def _seen(warps: Warps, mask: Array, value: Array) -> Seen:
    keys = warps.keys
    place = warps.place[(keys & -WARP)[:, None] + np.arange(WARP)]              # (k, 32)
    member = (mask[..., None] & BITS).astype(np.bool_) & (place >= 0)
    whole = np.broadcast_to(value, (len(value), len(keys)))
    return Seen(member, whole[:, place], keys % WARP, whole)


def lanes(flags: Array) -> Array:
    """A mask of the lanes that are set along the last axis."""
    packed: Array = np.where(flags, BITS, np.uint32(0)).sum(axis=-1, dtype=np.uint32)
    return packed


def _as_bits(x: Value) -> Value:
    """Floats match where their bits do."""
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "f" else x


def _matching(s: Seen) -> Array:
    same: Array = _as_bits(s.values) == _as_bits(s.own)[..., None]
    return same


def _match_all(s: Seen) -> Array:
    return np.where((_matching(s) | ~s.member).all(axis=-1), lanes(s.member), np.uint32(0))


def _reduction(ufunc: Any, neutral: Callable[[np.dtype[Any]], int]) -> Callable[[Seen], Array]:
    def reduce(s: Seen) -> Array:
        t = s.values.dtype
        taken = np.where(s.member, s.values, t.type(neutral(t)))
        reduced: Array = ufunc.reduce(taken, axis=-1, dtype=t)
        return reduced
    return reduce


_REDUCTIONS: dict[str, Callable[[Seen], Array]] = {
    "add": _reduction(np.add, lambda t: 0), "min": _reduction(np.minimum, lambda t: np.iinfo(t).max),
    "max": _reduction(np.maximum, lambda t: np.iinfo(t).min), "and": _reduction(np.bitwise_and, lambda t: np.iinfo(t).max),
    "or": _reduction(np.bitwise_or, lambda t: 0), "xor": _reduction(np.bitwise_xor, lambda t: 0),
}

RULES: dict[Operation, Callable[[Seen], Value]] = {
    op.BALLOT: lambda s: lanes(s.member & s.values),
    op.ANY: lambda s: (s.member & s.values).any(axis=-1),
    op.ALL: lambda s: (~s.member | s.values).all(axis=-1),
    op.MATCH_ANY: lambda s: lanes(s.member & _matching(s)),
    op.MATCH_ALL: _match_all,
    op.ELECT: lambda s: s.member.argmax(axis=-1) == s.lane,
    **{row: _REDUCTIONS[row.name.split("_")[1]] for row in op.REDUCE},
}


@statement(*RULES)
def _vote(c: Compiler, node: Node) -> tuple[Run, bool]:
    mask, *values = (c.narrow(o) for o in node.operands)
    counter, write, rule = c.count(node), c.define(node), RULES[node.op]

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        warps = warps_of(agent, frame)
        masks = warps.arranged(mask(agent, frame))
        check_mask(warps, masks, node)
        value = warps.arranged(values[0](agent, frame)) if values else np.zeros((1, 1), np.bool_)
        write(agent, frame, warps.restored(rule(_seen(warps, masks, value))))

    return run, False


@statement(op.ACTIVEMASK)
def _activemask(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter, write = c.count(node), c.define(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        warps = warps_of(agent, frame)
        everyone = np.full((1, 1), 0xFFFFFFFF, np.uint32)
        write(agent, frame, warps.restored(lanes(_seen(warps, everyone, everyone).member)))

    return run, False
