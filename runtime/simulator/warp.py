"""Operations of a warp: which lanes must be there, and what a shuffle moves.

Source: PTX ISA 9.7.9.6 `shfl.sync` and 9.7.13.2 `bar.warp.sync`. Every lane that a thread's mask names, if it exists and has
not returned, must run the same statement with the same mask. A source lane outside the segment gives the thread its own value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from runtime.simulator.agent import Agent, line
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.texts import runs
from tracer import operations as op
from tracer.errors import BarrierDivergenceError
from tracer.ir import Node
from tracer.operations import Operation

WARP = 32
FULL_MASK = 0xFFFFFFFF


@dataclass(slots=True)
class Warps:
    """The active threads of a frame arranged by warps: rows x threads, each thread with its key, a number whose low five bits
    are the lane. Rows are blocks where all run the same threads; else there is one row for all (`flat`)."""

    agent: Agent
    frame: Frame
    keys: Array             # (k,)
    blocks: Array           # (rows, 1) or (1, k): the chunk's row of each thread
    place: Array            # key -> position among the threads, -1 where the lane is not active
    alive: Array            # key -> the lane exists and has not returned
    flat: bool              # one row for all

    def arranged(self, value: Value) -> Array:
        """A value of the frame as (rows or 1, threads or 1)."""
        array: Array = np.asarray(value)
        if not array.ndim:
            return array.reshape(1, 1)
        return self.frame.spread(array).reshape(1, -1) if self.flat else array

    def restored(self, value: Array) -> Array:
        """The inverse of `arranged`."""
        return value.reshape(self.frame.shape) if value.size == self.frame.count else value


def warps_of(agent: Agent, frame: Frame) -> Warps:
    """Arrange the threads of `frame`."""
    padded = -(-agent.threads // WARP) * WARP
    flat = frame.ragged or agent.returned is not None
    if flat:
        lanes = frame.lanes.reshape(-1)
        rows = lanes // agent.threads
        keys = rows * padded + lanes % agent.threads
        remaining = np.zeros((len(agent.blocks), padded), np.bool_)
        remaining[:, :agent.threads] = True if agent.returned is None else ~agent.returned.reshape(-1, agent.threads)
        alive, blocks = remaining.reshape(-1), rows[None, :]
    else:
        assert frame.columns is not None
        keys, blocks = frame.columns, frame.block_rows
        alive = np.arange(padded) < agent.threads
    place = np.full(len(alive), -1)
    place[keys] = np.arange(len(keys))
    return Warps(agent, frame, keys, blocks, place, alive, flat)


def all_here(warps: Warps, mask: Array) -> bool:
    """Whether the mask names all lanes, and all threads run this."""
    return mask.size == 1 and int(mask.flat[0]) == FULL_MASK and not warps.flat and len(warps.keys) == warps.agent.threads


def check_mask(warps: Warps, mask: Array, node: Node) -> None:
    """Raise BarrierDivergenceError unless every lane that the mask names is here with the same mask, and the thread itself is."""
    keys = warps.keys
    if all_here(warps, mask):
        return
    bits = np.arange(WARP)
    peers = (keys & -WARP)[:, None] + bits                                      # (k, 32)
    absent = warps.alive[peers] & (warps.place[peers] < 0)
    if mask.size > 1 and (mask == mask.flat[0]).all():
        mask = mask[:1, :1]
    named = (mask[..., None] >> bits & 1).astype(np.bool_)                      # (rows, k or 1, 32)
    own = np.take_along_axis(np.broadcast_to(named, (len(named), len(keys), WARP)), (keys % WARP)[None, :, None], axis=2)[..., 0]
    _refuse(warps, ~own, mask, node, lambda row, k, m: "does not name itself")
    gone = named & absent
    _refuse(warps, gone.any(axis=-1), mask, node, lambda row, k, m: f"names lanes that are not there: {runs(absent[k] & _bits(m))}")
    if mask.size > 1:
        theirs = np.broadcast_to(mask, (len(mask), len(keys)))[:, warps.place[peers]]
        differs = named & (warps.place[peers] >= 0) & (theirs != mask[..., None])
        _refuse(warps, differs.any(axis=-1), mask, node, lambda row, k, m: "names lanes that came with another mask")


def _bits(mask: int) -> Array:
    return (mask >> np.arange(WARP) & 1).astype(np.bool_)


def _refuse(warps: Warps, bad: Array, mask: Array, node: Node, why: Callable[[int, int, int], str]) -> None:
    if not bad.any():
        return
    shape = np.broadcast_shapes(bad.shape, (len(warps.blocks), len(warps.keys)))
    row, k = np.argwhere(np.broadcast_to(bad, shape))[0]
    value = int(np.broadcast_to(mask, shape)[row, k])
    agent, threads = warps.agent, -(-warps.agent.threads // WARP) * WARP
    block = int(np.broadcast_to(warps.blocks, shape)[row, k])
    thread = agent.first + int(warps.keys[k]) % threads
    raise BarrierDivergenceError(
        f"{node.op.name}: the mask {value:#010x} of lane {thread % WARP} {why(int(row), int(k), value)}\n"
        f"  in block {agent.block_text(block)}, warp {thread // WARP}, thread {agent.launch.thread_text(thread)}{line(node)}"
    )


# ---- shuffles: (lane, operand, width) -> source lane and whether it lies in the segment -----------------------------------------

def _idx(lane: Array, b: Array, width: int) -> tuple[Array, Array]:
    source = lane & -width | b & (width - 1)
    return source, np.ones(source.shape, np.bool_)


def _up(lane: Array, b: Array, width: int) -> tuple[Array, Array]:
    return lane - b, lane - b >= (lane & -width)


def _down(lane: Array, b: Array, width: int) -> tuple[Array, Array]:
    return lane + b, lane + b <= (lane | width - 1)


def _xor(lane: Array, b: Array, width: int) -> tuple[Array, Array]:
    return lane ^ b, lane ^ b <= (lane | width - 1)


SOURCES: dict[Operation, Callable[[Array, Array, int], tuple[Array, Array]]] = {
    op.SHFL: _idx, op.SHFL_UP: _up, op.SHFL_DOWN: _down, op.SHFL_XOR: _xor,
}


def shuffle(agent: Agent, frame: Frame, node: Node, mask: Value, value: Value, operand: Value) -> Value:
    """The value that each thread receives. Only the operand's low five bits count, as in PTX."""
    width = node.attrs.get("width", WARP)
    warps = warps_of(agent, frame)
    masks = warps.arranged(mask)
    check_mask(warps, masks, node)
    lane = warps.keys % WARP
    source, inside = SOURCES[node.op](lane[None, :], warps.arranged(operand).astype(np.int64) & WARP - 1, width)
    source = np.where(inside, source, lane)
    place = warps.place[(warps.keys & -WARP) + source]
    sources = np.broadcast_to(source, np.broadcast_shapes(source.shape, (len(warps.blocks), len(lane))))
    _refuse(warps, masks >> source & 1 == 0, masks, node, lambda row, k, m: f"does not name lane {sources[row, k]}, which it reads")
    _refuse(warps, place < 0, masks, node, lambda row, k, m: f"names lane {sources[row, k]}, which it reads, but which does not run")
    values = warps.arranged(value)
    if values.shape[1] == 1:
        return value
    if len(place) == 1:
        return warps.restored(values[:, place[0]])
    values = np.broadcast_to(values, (len(place), values.shape[1]))
    return warps.restored(np.take_along_axis(values, place, axis=1))
