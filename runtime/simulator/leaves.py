"""The values that are there before a kernel's first statement: hardware indices, scalars, extents."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Array
from runtime.simulator.program import Program
from tracer import operations as op
from tracer.ir import Node
from tracer.operations import Operation


def begin(agent: Agent, program: Program, values: Mapping[Node, Any]) -> None:
    """Give the agent its leaves, and what is computed from them alone. `values`: of scalars and extents."""
    for leaf, write in program.leaves:
        write(agent, agent.root, _leaf(agent, leaf, values))
    for _ in program.prologue.run(agent, agent.root):
        raise AssertionError("nothing waits before the body")


def _leaf(agent: Agent, leaf: Node, values: Mapping[Node, Any]) -> Any:
    """The value of a hardware index, a scalar or an extent, in the root frame."""
    assert leaf.dtype is not None
    storage = leaf.dtype.storage
    if leaf.op not in _INDICES:
        return storage.type(values[leaf])
    axis = leaf.attrs["axis"]
    index = _INDICES[leaf.op](agent, axis)
    return storage.type(index.flat[0]) if index.size == 1 else index.astype(storage)


def _along(numbers: Array, extents: tuple[int, ...], axis: int) -> Array:
    """The coordinate along `axis` of linear numbers, x fastest."""
    return numbers // math.prod(extents[:axis]) % extents[axis]


def _block(agent: Agent, axis: int) -> Array:
    return _along(agent.blocks[:, None], agent.launch.grid, axis)


# As (1, threads) or (blocks, 1). Blocks of a cluster are neighbours in the grid: PTX ISA 10, %clusterid and %cluster_ctaid.
_INDICES: dict[Operation, Callable[[Agent, int], Array]] = {
    op.THREAD_INDEX: lambda agent, axis: _along(agent.first + agent.root.thread_numbers, agent.launch.block, axis),
    op.BLOCK_INDEX: _block,
    op.CLUSTER_INDEX: lambda agent, axis: _block(agent, axis) // agent.launch.cluster[axis],
    op.CTA_IN_CLUSTER: lambda agent, axis: _block(agent, axis) % agent.launch.cluster[axis],
}
