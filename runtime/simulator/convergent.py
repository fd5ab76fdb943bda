"""Statements of a whole warp, and what only the hardware can run."""

from __future__ import annotations

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Array, Frame
from runtime.simulator.program import Compiler, Run, statement
from runtime.simulator.warp import WARP, Warps, all_here, check_mask, shuffle, warps_of
from tracer import operations as op
from tracer.errors import NotSupportedError
from tracer.ir import Node


@statement(op.WARP_SYNC)
def _warp_sync(c: Compiler, node: Node) -> tuple[Run, bool]:
    mask, counter = c.narrow(node.operands[0]), c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        warps = warps_of(agent, frame)
        masks = warps.arranged(mask(agent, frame))
        check_mask(warps, masks, node)
        if agent.observers:
            _tell(agent, warps, masks, node)

    return run, False


def _tell(agent: Agent, warps: Warps, masks: Array, node: Node) -> None:
    """Each group of lanes with one mask joins."""
    numbers = agent.numbers(warps.frame).reshape(-1, len(warps.keys))
    if all_here(warps, masks) and (agent.threads <= WARP or agent.threads % WARP == 0):
        for observer in agent.observers:
            observer.join(numbers.reshape(-1, min(agent.threads, WARP)), node)
        return
    groups = np.broadcast_to(masks, numbers.shape).astype(np.int64) | warps.keys >> 5 << 32
    for row, kinds in zip(numbers, groups):
        order = np.argsort(kinds, kind="stable")
        parts = np.split(row[order], np.flatnonzero(np.diff(kinds[order])) + 1)
        for same in (parts,) if len({len(part) for part in parts}) == 1 else ([part] for part in parts):
            for observer in agent.observers:
                observer.join(np.stack(same), node)


@statement(op.SHFL, op.SHFL_UP, op.SHFL_DOWN, op.SHFL_XOR)
def _shuffle(c: Compiler, node: Node) -> tuple[Run, bool]:
    if node.dtype is not None and node.dtype.lanes > 1:
        raise NotSupportedError(f"{node.op.name} of {node.dtype}: the simulator shuffles scalars; at {node.location}")
    mask, value, operand = (c.narrow(o) for o in node.operands)
    counter, write = c.count(node), c.define(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        write(agent, frame, shuffle(agent, frame, node, mask(agent, frame), value(agent, frame), operand(agent, frame)))

    return run, False


@statement(op.FUNC_CALL)
def _foreign(c: Compiler, node: Node) -> tuple[Run, bool]:
    name = node.attrs.get("name", node.op.name)
    raise NotSupportedError(
        f"the simulator cannot run CUDA source text: the call of {name!r} at {node.location}. Run this kernel on a GPU, or write "
        "what the function does with T."
    )
