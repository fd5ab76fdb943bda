"""Barriers of the block, named ones among them.

Sources: PTX ISA 9.7.13.1 `bar`, `barrier`: sixteen barriers a block; a warp arrives as a whole, once all its threads that have not returned
are there, and counts as 32; without a count the block's warps that have not ended are waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runtime.simulator.agent import Agent, Wait, line
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.pointers import put_registers
from runtime.simulator.program import Compiler, Flow, Read, Run, statement
from runtime.simulator.register_operands import Registers
from runtime.simulator.resident import WARP, Block
from runtime.simulator.texts import runs
from tracer import instructions as ins
from tracer import operations as op
from tracer.errors import BarrierDivergenceError, BarrierError
from tracer.ir import Node

BARRIERS = 16
WARPGROUP = 4 * WARP


# ---- the whole block, in lockstep ----------------------------------------------------------------------------------------------

@statement(op.CTA_SYNC)
def _cta_sync(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> Flow:
        agent.counts[counter] += frame.count
        if agent.resident is None:
            complete(agent, frame, node)
        else:
            yield from meet(agent, frame, node, 0, None)
        return frame

    return run, True


def complete(agent: Agent, frame: Frame, node: Node) -> None:
    """Let the threads at a barrier of the block go on, or raise BarrierDivergenceError: all that have not returned must be there.

    The chunk's threads move together, so whoever is not here is somewhere else for good: in the other branch, behind the
    loop. A barrier on another line does not count, even if the hardware would pair the two.
    """
    if frame.columns is not None and len(frame.columns) == agent.threads:
        for observer in agent.observers:
            observer.join(agent.numbers(frame).reshape(-1, agent.threads), node)
        return
    here = np.zeros((len(agent.blocks), agent.threads), np.bool_)
    here.reshape(-1)[frame.lanes] = True
    returned = np.zeros_like(here) if agent.returned is None else agent.returned.reshape(here.shape)
    missing = ~here & ~returned
    rows = np.flatnonzero(here.any(axis=1) & missing.any(axis=1))
    if len(rows):
        row = rows[0]
        raise absent(node, agent.block_text(int(row)), here[row], missing[row], agent)
    if agent.observers:
        numbers = agent.numbers(frame)
        for block in np.split(numbers, np.flatnonzero(np.diff(numbers // agent.threads)) + 1):
            for observer in agent.observers:
                observer.join(block, node)
    agent.notes.append(early(node))


def absent(node: Node, block: str, here: Array, missing: Array, agent: Agent) -> BarrierDivergenceError:
    """The error of a barrier of the whole block that some of its threads do not reach; `agent` is one that waits."""
    return BarrierDivergenceError(f"{node.op.name}: threads of block {block} wait for others that do not come\n"
                                  f"  waiting: {runs(here)}\n  not there: {runs(missing)}{parted(agent)}{line(node)}")


def parted(agent: Agent) -> str:
    """The line of a message that says which branch keeps the others away."""
    return f"\n  parted by the {agent.splits[-1].op.name} at {agent.splits[-1].location}" if agent.splits else ""


def early(node: Node) -> str:
    return f"{node.op.name} at {node.location}: some threads of a block have returned before it"


# ---- named barriers, warp by warp ----------------------------------------------------------------------------------------------

@dataclass(slots=True)
class NamedBarrier:
    """Barrier `id` of a block: who has arrived since it last completed. `expected` threads; None: all warps that have not ended."""

    block: Block
    id: int
    expected: int | None = None
    arrived: dict[Agent, Node] = field(default_factory=dict)
    gathering: dict[Agent, Array] = field(default_factory=dict)     # lanes that wait for others of their warp to come, too
    waiting: list[Array] = field(default_factory=list)      # the threads that wait
    passed: bool = False                                    # some arrived and did not wait
    flags: list[Array] = field(default_factory=list)        # of a reduction, one an arrival
    round: int = 0                                          # how often it has completed
    result: Array | None = None                             # the flags of the last round, together

    @property
    def key(self) -> tuple[Any, ...]:
        return ("bar", self.block.number, self.id, self.round)

    def full(self) -> bool:
        if self.expected is None:
            return self.block.running <= self.arrived.keys()
        return len(self.arrived) * WARP == self.expected

    def complete_if_full(self) -> None:
        if not self.arrived or not self.full():
            return
        node = next(iter(self.arrived.values()))
        engines = self.block.cluster.engines
        for observer in engines.observers:
            if not self.passed:
                observer.join(np.concatenate(self.waiting), node)
            else:
                for threads in self.waiting:
                    observer.release(threads, self.key, node, "cta")
                for threads in self.waiting:
                    observer.acquire(threads, self.key, node, "cta")
        if self.expected is None and len(self.arrived) < len(self.block.agents):
            self._without(node)
        self.result = np.concatenate(self.flags) if self.flags else None
        self.arrived, self.waiting, self.flags, self.expected, self.passed = {}, [], [], None, False
        self.round += 1
        engines.changes += 1

    def _without(self, node: Node) -> None:
        """Some warps have ended: by a return, which is worth a note; or they went past this barrier, which CUDA leaves undefined."""
        first = next(iter(self.arrived))
        here, missing = (np.zeros(self.block.launch.threads, np.bool_) for _ in range(2))
        for agent in self.block.agents:
            lanes = slice(agent.first, agent.first + agent.threads)
            if agent in self.arrived:
                here[lanes] = True
            else:
                missing[lanes] = True if agent.returned is None else ~agent.returned
        if node.op is op.CTA_SYNC and missing.any():
            raise absent(node, self.block.launch.block_text(self.block.number), here, missing, first)
        first.notes.append(early(node))

    def text(self) -> str:
        counted = f"{len(self.arrived) * WARP} of {self.expected} threads" if self.expected is not None else \
            f"{len(self.arrived)} of the block's {len(self.block.running)} warps that run"
        return f"barrier {self.id}, at which {counted} have arrived"


def meet(agent: Agent, frame: Frame, node: Node, number: int, count: int | None, waits: bool = True, flags: Array | None = None) -> Flow:
    """A warp arrives at barrier `number` of its block, and goes on when `count` threads have, if it `waits`."""
    block = agent.resident
    assert block is not None
    barrier = block.barriers.get(number)
    if barrier is None:
        barrier = block.barriers[number] = NamedBarrier(block, number)
    if _gathered(barrier, agent, frame, node):
        _arrive(barrier, agent, node, count)
    numbers = agent.numbers(frame)
    if waits:
        barrier.waiting.append(numbers)
    else:
        barrier.passed = True
        for observer in agent.observers:
            observer.release(numbers, barrier.key, node, "cta")
    if flags is not None:
        barrier.flags.append(flags)
    turn = barrier.round
    barrier.complete_if_full()
    if waits and barrier.round == turn:
        yield Wait(agent, frame, node, lambda: barrier.round != turn, lambda: f"{node.op.name} waits at {barrier.text()}")
    return frame


def _gathered(barrier: NamedBarrier, agent: Agent, frame: Frame, node: Node) -> bool:
    """Whether all threads of the warp that have not returned have come: at once, or, without `.aligned`, one after the other."""
    if node.op not in _NAMED or node.attrs.get("aligned") or node.attrs["instruction"].startswith("bar."):
        whole_warp(agent, frame, node)
        return True
    here = barrier.gathering.pop(agent, np.zeros(agent.lanes, np.bool_))
    here[frame.lanes.reshape(-1)] = True
    if not here.all() if agent.returned is None else (~here & ~agent.returned).any():
        barrier.gathering[agent] = here
        return False
    return True


_NAMED = (ins.BAR_SYNC, ins.BAR_ARRIVE, ins.BAR_RED)


def whole_warp(agent: Agent, frame: Frame, node: Node) -> None:
    """Raise BarrierDivergenceError unless all threads of the warp that have not returned are here."""
    if frame.count == agent.threads:
        return
    here = np.zeros(agent.lanes, np.bool_)
    here[frame.lanes.reshape(-1)] = True
    missing = ~here if agent.returned is None else ~here & ~agent.returned
    if missing.any():
        raise BarrierDivergenceError(
            f"{node.op.name}: a part of a warp is at the barrier, which a warp reaches as a whole\n  in block {agent.block_text(0)}, "
            f"warp {agent.first // WARP}, lanes {runs(here)}; not there: lanes {runs(missing)}{parted(agent)}{line(node)}"
        )
    if node.op is op.CTA_SYNC:
        agent.notes.append(early(node))


def _arrive(barrier: NamedBarrier, agent: Agent, node: Node, count: int | None) -> None:
    where = f"\n  in block {agent.block_text(0)}, warp {agent.first // WARP}"
    if agent in barrier.arrived:
        raise BarrierError(
            f"{node.op.name}: the warp arrives at barrier {barrier.id} a second time before it is complete ({barrier.text()})"
            f"{where}, first at {barrier.arrived[agent].location}{line(node)}"
        )
    if barrier.arrived:
        other, first = next(iter(barrier.arrived.items()))
        if first.op is op.CTA_SYNC and node.op is op.CTA_SYNC and first is not node:
            raise BarrierDivergenceError(
                f"{node.op.name}: warps of block {agent.block_text(0)} wait at different ones, which CUDA leaves undefined\n"
                f"  warp {other.first // WARP} at {first.location}, warp {agent.first // WARP} at {node.location}"
            )
        if count != barrier.expected:
            raise BarrierError(
                f"{node.op.name}: {_count(count)} meet at barrier {barrier.id}, but warp {other.first // WARP} expects {_count(barrier.expected)} "
                f"at {first.location}{where}{line(node)}"
            )
    barrier.arrived[agent] = node
    barrier.expected = count


def _count(count: int | None) -> str:
    return "all threads" if count is None else f"{count} threads"


def _uniform(agent: Agent, frame: Frame, value: Value, what: str, node: Node) -> int:
    """An operand that must be the same for all threads of the warp."""
    values = np.unique(np.asarray(value))
    if len(values) > 1:
        raise BarrierError(f"{node.op.name}: {what} differs between the threads of a warp: {', '.join(map(str, values[:4].tolist()))}\n"
                           f"  in block {agent.block_text(0)}, warp {agent.first // WARP}{line(node)}")
    return int(values[0])


def _named(agent: Agent, frame: Frame, node: Node, number: Value, count: Value | None) -> tuple[int, int | None]:
    """The number of a barrier and its count, checked."""
    which = _uniform(agent, frame, number, "the barrier", node)
    where = f"\n  in block {agent.block_text(0)}, warp {agent.first // WARP}{line(node)}"
    if not 0 <= which < BARRIERS:
        raise BarrierError(f"{node.op.name}: there is no barrier {which}; a block has 0 to {BARRIERS - 1}{where}")
    if count is None:
        return which, None
    threads = _uniform(agent, frame, count, "the count", node)
    padded = -(-agent.launch.threads // WARP) * WARP
    if threads % WARP or not 0 < threads <= padded:
        raise BarrierError(f"{node.op.name}: a count of {threads} threads; it is a multiple of {WARP} from {WARP} to the block's {padded}{where}")
    return which, threads


@statement(ins.BAR_SYNC, ins.BAR_ARRIVE, ins.BAR_RED, ins.WARPGROUP_SYNC)
def _bar(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = ins.arguments(node)
    counter, number = c.count(node), c.narrow(given["id"][0])
    count: Read | None = c.narrow(given["threads"][0]) if given.get("threads") else None
    if node.op is ins.WARPGROUP_SYNC:
        count = lambda agent, frame: WARPGROUP      # noqa: E731
    waits = node.op is not ins.BAR_ARRIVE
    flag = c.narrow(given["p"][0]) if node.op is ins.BAR_RED else None
    out = Registers(c, node, given["d"]) if node.op is ins.BAR_RED else None

    def run(agent: Agent, frame: Frame) -> Flow:
        agent.counts[counter] += frame.count
        which, threads = _named(agent, frame, node, number(agent, frame), None if count is None else count(agent, frame))
        flags = None if flag is None else frame.spread(flag(agent, frame)).reshape(-1) != 0
        yield from meet(agent, frame, node, which, threads, waits, flags)
        if out is not None:
            assert agent.resident is not None
            result = agent.resident.barriers[which].result
            assert result is not None
            put_registers(out, agent, frame, _REDUCTIONS[node.attrs["op"]](result))
        return frame

    return run, True


_REDUCTIONS: dict[str, Callable[[Array], Any]] = {"popc": np.count_nonzero, "and": np.all, "or": np.any}
