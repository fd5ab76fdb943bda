"""Blocks that are on the machine now, with all that their threads share: shared memory, barriers, the pool of registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.simulator.agent import Agent, Launch
from runtime.simulator.engines import Engines
from runtime.simulator.memory import Layout, Memory, allocations, shared_space
from tracer.ir import Node, Storage

if TYPE_CHECKING:
    from runtime.simulator.barriers import NamedBarrier
    from runtime.simulator.cluster_barriers import ClusterBarrier
    from runtime.simulator.mbarriers import MBarrier

WARP = 32
REGISTERS = 65536       # of a multiprocessor: CUDA C++ Programming Guide, table of technical specifications


class Cluster:
    """Blocks that run together (one, where the launch has no clusters). `space` is their shared memory, a row a block."""

    def __init__(self, launch: Launch, numbers: list[int], layout: Layout, memory: dict[Storage, Memory], engines: Engines, counts: list[int],
                 checks: bool) -> None:
        self.engines = engines
        self.space = shared_space(layout, checks, len(numbers))
        self.mbarriers: dict[int, MBarrier] = {}      # by their byte in the space
        self.barrier: ClusterBarrier | None = None
        self.blocks = [Block(self, rank, number, launch, memory | allocations(self.space, layout, rank), counts)
                       for rank, number in enumerate(numbers)]

    @property
    def ended(self) -> bool:
        return all(block.ended for block in self.blocks)


class Block:
    """One block: `number` in the grid, `rank` in its cluster. `agents` are its warps.

    `state` is for what other instructions keep for a block (its tensor memory), by name.
    """

    def __init__(self, cluster: Cluster, rank: int, number: int, launch: Launch, memory: dict[Storage, Memory], counts: list[int]) -> None:
        self.cluster, self.rank, self.number, self.launch = cluster, rank, number, launch
        threads = launch.threads
        self.agents = [
            Agent(launch, np.array([number]), min(WARP, threads - first), dict(memory), cluster.space, cluster.engines, counts, first, self)
            for first in range(0, threads, WARP)
        ]
        self.running = set(self.agents)
        self.barriers: dict[int, NamedBarrier] = {}
        each = min(256, REGISTERS // max(threads, WARP) // 8 * 8)
        self.registers = dict.fromkeys(self.agents, each)       # of a thread of each warp
        self.free_registers = 0
        self.setmaxnreg: Node | None = None     # the latest that ran
        self.state: dict[str, Any] = {}

    @property
    def ended(self) -> bool:
        return not self.running

    def text(self) -> str:
        return f"block {self.launch.block_text(self.number)}"
