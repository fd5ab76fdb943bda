"""Atomics: the threads of a statement take their turns in the order of block and thread number.

A GPU may choose any order; what it returns is what some order gives. The sums of floats are rounded after each thread, so they depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.access import Access
from runtime.simulator.agent import Agent
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.program import NARROW, WIDE, Compiler, Run, statement
from tracer import operations as op
from tracer.ir import Node


class Rule(NamedTuple):
    """What an atomic leaves where it found `old`; and, where that is one (but for subnormals, if it flushes them), the ufunc of old and value."""

    step: Callable[..., Value]
    ufunc: Any = None


def _binary(ufunc: Any) -> Rule:
    return Rule(ufunc, ufunc)


# PTX ISA 9.7.13.5 `atom`.
RULES: dict[str, Rule] = {
    "add": _binary(np.add), "sub": _binary(np.subtract), "min": _binary(np.minimum), "max": _binary(np.maximum),
    "and": _binary(np.bitwise_and), "or": _binary(np.bitwise_or), "xor": _binary(np.bitwise_xor),
    "exch": Rule(lambda old, value: value),
    "cas": Rule(lambda old, compare, value: np.where(old == compare, value, old)),
    "inc": Rule(lambda old, limit: np.where(old >= limit, 0, old + 1)),
    "dec": Rule(lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1)),
}

_LEAST_NORMAL = np.finfo(np.float32).smallest_normal


def _is_subnormal(x: Value) -> Value:
    return (x != 0) & (np.abs(x) < _LEAST_NORMAL)


def _flushed(x: Value) -> Value:
    return np.where(_is_subnormal(x), np.copysign(np.float32(0), x), x)


# "atom.add.f32 on global memory flushes subnormal inputs and results to sign-preserving zero"; on shared memory it does not.
FLUSHING = Rule(lambda old, value: _flushed(_flushed(old) + _flushed(value)), np.add)


def _rule(node: Node) -> Rule:
    buffer, name = node.attrs["buffer"], node.op.name.removeprefix("cuda.atomic_")
    return FLUSHING if name == "add" and buffer.dtype.scalar.name == "float32" and buffer.scope == "global" else RULES[name]


_SCOPES = {"block": "cta", "device": "gpu", "system": "sys"}     # CUDA's names for PTX's


@statement(*op.ATOMICS)
def _atomic(c: Compiler, node: Node) -> tuple[Run, bool]:
    rule = _rule(node)
    # An exchange whose answer nobody wants is a store.
    reads = rule is not RULES["exch"] or any((node, form) in c.slots for form in (NARROW, WIDE))
    values, write = [c.narrow(o) for o in node.op.split(node.operands)[1]], c.define(node)
    assert node.dtype is not None
    lanes = node.dtype.lanes
    access = Access(c, node, "atomic", lanes)
    storage, polled = access.element, c.polls > 0

    def run(agent: Agent, frame: Frame) -> None:
        memory, position = access.locate(agent, frame)
        if memory.written is not None and reads:
            access.check_written(agent, frame, memory, position)
        if agent.observers:
            access.tell(agent, frame, memory, position, order="relaxed", scope=_SCOPES[node.attrs["scope"]])
        shape = frame.shape if lanes == 1 else (*frame.shape, lanes)      # each lane is an element of its own
        where = np.broadcast_to(position, shape).reshape(-1)
        given = [np.broadcast_to(value(agent, frame), shape).reshape(-1) for value in values]
        cells = memory.viewed(storage)
        before = cells[where] if polled else None
        old = in_turn(cells, where, rule, given)
        if before is None or np.any(cells[where] != before):
            agent.engines.changes += 1
        memory.mark(position, storage.itemsize)
        write(agent, frame, old.reshape(shape))

    return run, False


def in_turn(cells: Array, where: Array, rule: Rule, given: list[Array]) -> Array:
    """Apply `rule` to `cells[where[k]]` for k = 0, 1, ... with the operands `given[...][k]`; return what each found.

    Turns at different elements do not see each other. So the k-th turns of all elements are taken together; or, where fewer elements than
    turns are concerned, all turns of one element.
    """
    order = np.argsort(where, kind="stable")
    places = where[order]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    turns = np.diff(np.concatenate((starts, [len(places)])))
    old = np.empty(len(where), cells.dtype)
    if rule.ufunc is not None and len(starts) < turns.max():
        for start, count in zip(starts.tolist(), turns.tolist()):
            who = order[start:start + count]
            found = _at_one(rule, np.concatenate((cells[where[who[:1]]], given[0][who])))
            old[who], cells[places[start]] = found[:-1], found[-1]
        return old
    for turn in range(int(turns.max())):
        who = order[starts[turns > turn] + turn]
        found = cells[where[who]]
        old[who] = found
        cells[where[who]] = rule.step(found, *[operand[who] for operand in given])
    return old


def _at_one(rule: Rule, chain: Array) -> Array:
    """What one element holds at first, `chain[0]`, and after each turn with one of the other operands."""
    found: Array = rule.ufunc.accumulate(chain, dtype=chain.dtype)
    if rule is FLUSHING and (_is_subnormal(chain) | _is_subnormal(found)).any():
        for turn in range(1, len(chain)):
            found[turn] = rule.step(found[turn - 1], chain[turn])
    return found
