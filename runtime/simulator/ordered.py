"""Loads, stores and atomics with an order and a scope, fences between them, and hints to caches.

Sources: PTX ISA 9.7.9.8 `ld`, 9.7.9.11 `st`, 9.7.13.5 `atom`, 9.7.13.6 `red`, 9.7.13.4 `fence`. Warps take turns here, and each sees at once what the
others wrote: orders and scopes change no value. What they promise, and what is missing of them, is for observers to say.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.atomics import FLUSHING, RULES, Rule, in_turn
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.mbarriers import fence_inits
from runtime.simulator.pointers import Pointer, check_written, fetch, put, put_registers, touch
from runtime.simulator.program import Compiler, Run, counted, statement
from runtime.simulator.register_operands import Registers
from runtime.simulator.types import ELEMENTS, SIZES, Values
from tracer import instructions as ins
from tracer.ir import Node


def order_of(node: Node) -> tuple[str, str]:
    """The order and the scope of an access, as observers are told: a volatile one is a relaxed one of the whole system (PTX ISA 8.4)."""
    order = node.attrs.get("sem", "weak")
    if order == "volatile":
        return "relaxed", "sys"
    return ("", "") if order == "weak" else (order, node.attrs["scope"])


@statement(ins.LD)
def _ld(c: Compiler, node: Node) -> tuple[Run, bool]:
    given, counter, kind = ins.arguments(node), c.count(node), node.attrs["type"]
    source = Pointer(c, node, given["src"][0], "load", node.attrs.get("space", ""))
    outs = [Registers(c, node, [out]) for out in given["d"]]
    size, (order, scope) = SIZES[kind] * len(outs), order_of(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        found = source.locate(agent, frame, size, size)
        check_written(agent, frame, source, found, size)
        for observer in agent.observers:
            observer.access(touch(agent, frame, source, found, "load", size, order=order, scope=scope))
        data = np.ascontiguousarray(fetch(found, size)).view(ELEMENTS[kind])
        if order:
            agent.polled = partial(_polled, node, source.name(agent, frame))
        for k, out in enumerate(outs):
            put_registers(out, agent, frame, data[:, k].reshape(frame.shape))

    return run, False


def _polled(node: Node, name: str) -> str:
    return f"{node.op.name} of {name}, which nobody changes"


@statement(ins.ST)
def _st(c: Compiler, node: Node) -> tuple[Run, bool]:
    given, counter, kind = ins.arguments(node), c.count(node), node.attrs["type"]
    target = Pointer(c, node, given["dst"][0], "store", node.attrs.get("space", ""))
    values = Values(c, given["value"], kind)
    size, (order, scope), polled = SIZES[kind] * len(given["value"]), order_of(node), c.polls > 0

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        found = target.locate(agent, frame, size, size)
        data = values.read(agent, frame)
        for observer in agent.observers:
            observer.access(touch(agent, frame, target, found, "store", size, data, order=order, scope=scope))
        if not polled or (fetch(found, size) != data).any():
            agent.engines.changes += 1
        put(found, data)

    return run, False


# ---- atomics -------------------------------------------------------------------------------------------------------------------

def rule_of(name: str, kind: str, in_global: bool) -> Rule:
    """What an atomic does. `.f32` additions in global memory flush subnormal numbers."""
    return FLUSHING if (name, kind) == ("add", "f32") and in_global else RULES[name]


@statement(ins.ATOM, ins.RED)
def _atom(c: Compiler, node: Node) -> tuple[Run, bool]:
    given, counter, kind, name = ins.arguments(node), c.count(node), node.attrs["type"], node.attrs["op"]
    target = Pointer(c, node, given["dst"][0], "atomic", node.attrs.get("space", ""))
    outs = [Registers(c, node, [out]) for out in given.get("d", ())]
    # As the rule takes them: what to compare with goes first.
    taken = [Values(c, given[operand], kind) for operand in ("compare", "value") if given.get(operand)]
    order, scope, polled = node.attrs.get("sem", "relaxed"), node.attrs.get("scope", "gpu"), c.polls > 0
    element = ELEMENTS[kind]
    each = SIZES[kind]
    registers = len(given["value"])
    size = each * registers
    lanes = each // element.itemsize        # of a packed pair each is changed by itself

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        found = target.locate(agent, frame, size, size)
        check_written(agent, frame, target, found, size)
        for observer in agent.observers:
            observer.access(touch(agent, frame, target, found, "atomic", size, order=order, scope=scope))
        cells = found.memory.viewed(element)
        where = ((found.start // element.itemsize)[:, None] + np.arange(registers * lanes)).reshape(-1)
        given_values = [operand.read(agent, frame).view(element).reshape(-1) for operand in taken]
        before = cells[where]
        old = in_turn(cells, where, rule_of(name, kind, found.memory is not agent.space), given_values)
        if not polled or (cells[where].view(np.uint8) != before.view(np.uint8)).any():
            agent.engines.changes += 1
        elif outs:
            agent.polled = partial(_polled, node, target.name(agent, frame))
        found.memory.mark(where, element.itemsize)
        results = np.ascontiguousarray(old.reshape(frame.count, -1)).view(np.uint8).reshape(frame.count, registers, each)
        for k, out in enumerate(outs):
            put_registers(out, agent, frame, _word(results[:, k], each).reshape(frame.shape))

    return run, False


def _word(data: Array, size: int) -> Array:
    """Bytes (threads, size) as one word each."""
    words: Array = np.ascontiguousarray(data).view(f"u{size}")
    return words


# ---- fences --------------------------------------------------------------------------------------------------------------------

@statement(ins.FENCE, ins.FENCE_MBARRIER_INIT, ins.FENCE_PROXY, ins.FENCE_PROXY_TENSORMAP)
def _fence(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter = c.count(node)
    scope = node.attrs.get("scope", "cta")
    proxy = "tensormap" if node.op is ins.FENCE_PROXY_TENSORMAP else node.attrs.get("proxy", "generic")
    shows_inits = proxy == "async" or (proxy == "generic" and scope != "cta")

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        for observer in agent.observers:
            observer.fence(agent.numbers(frame), node, scope, proxy)
        if shows_inits:
            fence_inits(agent, frame)

    return run, False


# ---- caches --------------------------------------------------------------------------------------------------------------------

# They change nothing but speed, whatever the address is.
statement(ins.PREFETCH, ins.PREFETCH_TENSORMAP, ins.TENSOR_PREFETCH)(counted)


@statement(ins.CREATE_POLICY)
def _policy(c: Compiler, node: Node) -> tuple[Run, bool]:
    """A policy is opaque; all are one here."""
    out, counter = Registers(c, node, ins.arguments(node)["policy"]), c.count(node)
    policy: Value = np.uint64(0)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        put_registers(out, agent, frame, policy)

    return run, False
