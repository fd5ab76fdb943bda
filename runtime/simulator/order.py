"""Fences, pauses and the clock: threads of a chunk run in lockstep and one after the other, so that there is nothing to wait for."""

from __future__ import annotations

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Frame
from runtime.simulator.mbarriers import fence_inits
from runtime.simulator.program import Compiler, Run, counted, statement
from tracer import operations as op
from tracer.ir import Node

_SCOPES = dict(zip(op.FENCES, ("gpu", "cta", "sys")))


@statement(*op.FENCES)
def _fence(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter, scope = c.count(node), _SCOPES[node.op]

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        for observer in agent.observers:
            observer.fence(agent.numbers(frame), node, scope, "generic")
        if scope != "cta":
            fence_inits(agent, frame)

    return run, False


statement(op.NANO_SLEEP)(counted)


@statement(op.CLOCK64)
def _clock(c: Compiler, node: Node) -> tuple[Run, bool]:
    """The operations that all threads have run so far, and the time that they only waited for: deterministic, and more at every reading."""
    counter, write = c.count(node), c.define(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        write(agent, frame, np.int64(sum(agent.counts) + agent.engines.time))

    return run, False
