"""What the race detector looks at, one by one: what happened when, and accesses spread over the units of memory that they touch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from runtime.simulator.events import Touch
from runtime.simulator.frames import Array
from runtime.simulator.knowledge import TIME_BITS, Actor
from runtime.simulator.shadow import Shadow
from tracer import instructions as ins
from tracer import operations as op
from tracer.ir import Buffer, Node


class Event(NamedTuple):
    """What happened at one time; `strong`, `rank` (of the scope) and `width` (see `width_of`) for accesses."""

    node: Node | None
    buffer: Buffer | None
    kind: str
    proxy: str
    strong: bool
    rank: int
    width: int = 0


def width_of(touch: Touch) -> int:
    """The bytes on which an atomic is atomic: those of an element of a vector or pair. 0 for anything else."""
    node = touch.node
    if node.op in op.ATOMICS and touch.buffer is not None:
        return int(touch.buffer.dtype.cell.itemsize)
    if node.op not in (ins.ATOM, ins.RED):
        return 0
    lanes = int(str(node.attrs.get("vec") or 1).lstrip("v")) * (2 if "x2" in str(node.attrs.get("type")) else 1)
    return touch.size // lanes


class Case(NamedTuple):
    """One access, spread over its units: the slot and stamp of who touches each."""

    touch: Touch
    strong: bool
    shadow: Shadow
    units: Array
    slots: Array
    stamps: Array
    actor: Actor | None


def as_actor(actor: Actor, slots: Array) -> tuple[Array, Array]:
    """The numbers under which an operation's rows touch memory: one for each of its issuers, or the first for all."""
    if len(slots) == len(actor.issuers):
        numbers = actor.first + np.arange(len(slots))
    else:
        numbers = np.full(len(slots), actor.first)
    return numbers, numbers + 1 << TIME_BITS
