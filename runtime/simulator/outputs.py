"""Outputs that stay unwritten: elements of arrays that a kernel writes, but not all of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from codegen.lowered import DeviceHalf
from runtime.simulator.agent import line
from runtime.simulator.elements import Known, places_of
from runtime.simulator.events import Observer, Touch
from runtime.simulator.frames import Array
from runtime.simulator.memory import Memory
from tracer.errors import UnwrittenOutputError
from tracer.ir import Buffer, Node, Storage


class Outputs(Observer):
    """Raises `UnwrittenOutputError` at the end, for the first element of a written parameter that no thread stored to."""

    def __init__(self, half: DeviceHalf, memory: Mapping[Storage, Memory], known: Known) -> None:
        self.known = known
        buffers = [a.buffer for a in half.arguments if a.buffer is not None and not a.read_only]
        self.written: dict[int, tuple[Buffer, Array]] = {
            id(memory[b.storage]): (b, np.zeros(memory[b.storage].cells.nbytes, np.bool_)) for b in buffers}
        self.stores: dict[Buffer, dict[Node, None]] = {b: {} for b in buffers}

    def access(self, touch: Touch) -> None:
        entry = self.written.get(id(touch.memory))
        if entry is not None and touch.kind != "load":
            self.stores[entry[0]][touch.node] = None
            entry[1][touch.start.reshape(-1)[:, None] + np.arange(touch.size)] = True

    def end(self) -> None:
        for buffer, written in self.written.values():
            places = places_of(self.known, buffer)
            if places is None:
                continue
            size = buffer.dtype.bytes
            bytes_ = places.reshape(-1)[:, None] * buffer.dtype.width * buffer.dtype.lanes // 8 + np.arange(size)
            missing = np.flatnonzero(~written[bytes_].all(axis=1))
            if len(missing):
                coords = ", ".join(str(int(x)) for x in np.unravel_index(missing[0], places.shape))
                more = f" (and {len(missing) - 1} more of its {prod(places.shape)} elements)" if len(missing) > 1 else ""
                raise UnwrittenOutputError(f"{buffer.name}[{coords}]{more} was written by no thread: the grid is too small, or a guard leaves "
                                           f"it out{''.join(map(line, self.stores[buffer]))}")
