"""Threads that wait for no other thread but at barriers of the block: all threads of a chunk of blocks run as one agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from runtime.simulator.agent import Agent, Launch
from runtime.simulator.ending import agent_ended
from runtime.simulator.engines import Engines
from runtime.simulator.frames import Array
from runtime.simulator.leaves import begin
from runtime.simulator.memory import Layout, Memory, allocations, shared_space
from runtime.simulator.program import Program
from tracer.ir import Node, Storage

CHUNK_THREADS = 1 << 16             # values of a chunk then fit a core's cache
CHUNK_BYTES = 256 << 20             # of shared and local memory


def run_lockstep(program: Program, launch: Launch, blocks: Array, memory: dict[Storage, Memory], layout: Layout, values: Mapping[Node, Any],
                 engines: Engines, checks: bool, counts: list[int]) -> list[str]:
    """Run the blocks, chunk after chunk in their order. Returns notes."""
    notes: list[str] = []
    for chunk in _chunks(blocks, launch.threads, layout.bytes + launch.threads * program.bytes_per_thread):
        engines.progress.start(len(chunk))
        for observer in engines.observers:
            observer.start(chunk)
        space = shared_space(layout, checks, len(chunk))
        agent = Agent(launch, chunk, launch.threads, memory | allocations(space, layout), space, engines, counts)
        begin(agent, program, values)
        for wait in program.body.run(agent, agent.root):
            raise AssertionError(f"{wait.node!r} waits in lockstep")
        agent_ended(agent)
        while engines.land_one():
            pass
        notes += agent.notes
    return notes


def _chunks(blocks: Array, threads: int, bytes_per_block: int) -> Iterator[Array]:
    size = max(1, min(CHUNK_THREADS // max(1, threads), CHUNK_BYTES // max(1, bytes_per_block)))
    for start in range(0, len(blocks), size):
        yield np.asarray(blocks[start:start + size])
