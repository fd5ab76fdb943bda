"""Warps that wait for each other: one agent a warp, in turns, until all have ended or nobody can go on.

The turns are round-robin and fair: in each round every agent that can go on runs until it waits. When none can, the oldest operation under
way lands; when there is none, the next cluster of blocks starts; when there is none, time passes for those who look at the clock; else it is a
deadlock. So blocks start late and copies land late, and what relies on either being early shows. A loop that polls memory waits, too: until
memory has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from runtime.simulator.agent import Agent, Launch, Wait, line
from runtime.simulator.ending import check_end, warp_ended
from runtime.simulator.engines import Engines
from runtime.simulator.frames import Array
from runtime.simulator.leaves import begin
from runtime.simulator.memory import Layout, Memory
from runtime.simulator.program import Flow, Program
from runtime.simulator.resident import Cluster
from runtime.simulator.texts import runs
from tracer import operations as op
from tracer.errors import DeadlockError
from tracer.ir import Node, Storage

EAGER = 0.5         # with a seed: how often the next blocks start before a round, whether or not anybody needs them


def run_warps(program: Program, launch: Launch, blocks: Array, memory: dict[Storage, Memory], layout: Layout, values: Mapping[Node, Any],
              engines: Engines, checks: bool, counts: list[int]) -> list[str]:
    """Run the blocks (whole clusters). Returns notes."""
    return Scheduler(program, launch, memory, layout, values, engines, checks, counts).run(blocks)


class Running:
    """An agent under way: its statements, and what it waits for."""

    def __init__(self, agent: Agent, flow: Flow) -> None:
        self.agent, self.flow = agent, flow
        self.wait: Wait | None = None


class Scheduler:
    def __init__(self, program: Program, launch: Launch, memory: dict[Storage, Memory], layout: Layout, values: Mapping[Node, Any],
                 engines: Engines, checks: bool, counts: list[int]) -> None:
        self.program, self.launch, self.memory, self.layout, self.values = program, launch, memory, layout, values
        self.engines, self.checks, self.counts = engines, checks, counts
        self.running: list[Running] = []
        self.notes: list[str] = []

    def run(self, blocks: Array) -> list[str]:
        clusters = clusters_of(blocks.tolist(), self.launch)
        while True:
            if self.engines.random is not None and self.engines.random.random() < EAGER:
                for early in islice(clusters, 1):
                    self._start(early)
            if not self._round():
                if self.running and self.engines.land_one():
                    continue
                numbers = next(clusters, None)
                if numbers is not None:
                    self._start(numbers)
                elif any(each.wait is not None and each.wait.timed for each in self.running):
                    self.engines.pass_time()
                elif self.running:
                    raise DeadlockError(deadlock_text([each.wait for each in self.running if each.wait is not None]))
                else:
                    return self.notes

    def _round(self) -> bool:
        """Let everybody run who can; False where nobody could."""
        moved = False
        for each in self._turn():
            if each.wait is None or each.wait.ready():
                self._step(each)
                moved = True
        return moved

    def _turn(self) -> Iterable[Running]:
        """Who runs, in which order, in the next round."""
        if self.engines.random is None:
            return tuple(self.running)
        return self.engines.random.sample(self.running, len(self.running))

    def _start(self, numbers: list[int]) -> None:
        self.engines.progress.start(len(numbers))
        cluster = Cluster(self.launch, numbers, self.layout, self.memory, self.engines, self.counts, self.checks)
        for block in cluster.blocks:
            for observer in self.engines.observers:
                observer.start(block.agents[0].blocks)
            for agent in block.agents:
                begin(agent, self.program, self.values)
                self.running.append(Running(agent, self.program.body.run(agent, agent.root)))

    def _step(self, each: Running) -> None:
        """Let an agent run until it waits."""
        each.wait = next(each.flow, None)
        if each.wait is None:
            self.running.remove(each)
            self._ended(each.agent)

    def _ended(self, agent: Agent) -> None:
        block = agent.resident
        assert block is not None
        warp_ended(agent, block)
        self.notes += agent.notes
        if block.ended and all(other.ended for other in block.cluster.blocks):
            check_end(block.cluster)


def clusters_of(numbers: Iterable[int], launch: Launch) -> Iterator[list[int]]:
    """The linear numbers of each cluster's blocks, in the order of their rank; of the clusters that have one of `numbers`."""
    (gx, gy, _), (cx, cy, cz) = launch.grid, launch.cluster
    seen = set()
    for number in numbers:
        x, y, z = number % gx, number // gx % gy, number // (gx * gy)
        origin = x - x % cx, y - y % cy, z - z % cz
        if origin not in seen:
            seen.add(origin)
            x, y, z = origin
            yield [((z + k) * gy + y + j) * gx + x + i for k in range(cz) for j in range(cy) for i in range(cx)]


# ---- deadlocks ---------------------------------------------------------------------------------------------------------

SHOWN = 24      # waiters in a message


def deadlock_text(waits: list[Wait]) -> str:
    """Everybody who waits: where, for what; threads that wait for the same are told together."""
    flat = list(_each(waits))
    waiting: dict[Agent, Array] = {}
    for wait, _ in flat:
        waiting.setdefault(wait.agent, np.zeros(wait.agent.lanes, np.bool_))[wait.frame.lanes.reshape(-1)] = True
    entries: dict[tuple[str, str], list[str]] = {}
    for wait, place in flat:
        entries.setdefault((wait.text() + _behind(wait.agent, waiting[wait.agent], place), line(wait.node)), []).append(_who(wait))
    told = [f"  {_joined(who)}: {text}{where.replace(chr(10), chr(10) + '  ')}" for (text, where), who in entries.items()]
    more = [f"  ... and {len(told) - SHOWN} more"] if len(told) > SHOWN else []
    return "\n".join(["deadlock: every thread that has not ended waits for what nobody left can bring", *told[:SHOWN], *more, *_ended(waits)])


def _ended(waits: Iterable[Wait]) -> Iterator[str]:
    """The warps that have ended, of blocks in which others wait."""
    blocks = dict.fromkeys(wait.agent.resident for wait in waits)
    for block in list(blocks)[:SHOWN]:
        if block is not None and len(block.running) < len(block.agents):
            gone = np.array([agent not in block.running for agent in block.agents])
            yield f"  ended: {block.launch.block_text(block.number)} warp{'s' if np.count_nonzero(gone) > 1 else ''} {runs(gone)}"


def _each(waits: Iterable[Wait], around: Node | None = None) -> Iterator[tuple[Wait, Node | None]]:
    """The waits, both sides of a branch by themselves, each with the branch or loop that its lanes are in."""
    for wait in waits:
        if wait.parts:
            yield from _each(wait.parts, wait.node)
        else:
            splits = wait.agent.splits
            yield wait, around or (wait.node if wait.node.op is op.WHILE else splits[-1] if splits else None)


def _behind(agent: Agent, waiting: Array, place: Node | None) -> str:
    """What the lanes of the warp do that are not among those that wait: they have left the branch or the loop."""
    others = ~waiting if agent.returned is None else ~waiting & ~agent.returned
    if not others.any() or place is None:
        return ""
    return f"; {_lanes(others)} of the warp wait for them behind the {place.op.name} at {place.location}"


def _who(wait: Wait) -> str:
    agent, lanes = wait.agent, wait.frame.lanes.reshape(-1)
    warp = f"{agent.block_text(0)} warp {agent.first // 32}"
    flags = np.zeros(agent.lanes, np.bool_)
    flags[lanes] = True
    return warp if flags.all() else f"{warp} {_lanes(flags)}"


def _lanes(flags: Array) -> str:
    return f"lane{'s' if np.count_nonzero(flags) > 1 else ''} {runs(flags)}"


def _joined(who: list[str]) -> str:
    return ", ".join(who[:8]) + (f" and {len(who) - 8} more" if len(who) > 8 else "")
