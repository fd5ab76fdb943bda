"""PTX types as NumPy's, and values in registers of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Array, Frame
from runtime.simulator.program import Compiler
from tracer.ir import Node

# Of a packed pair, the type of one element.
ELEMENTS: dict[str, np.dtype[Any]] = {
    **{f"{letter}{bits}": np.dtype(f"{kind}{bits}") for letter, kind in (("b", "uint"), ("u", "uint"), ("s", "int")) for bits in (8, 16, 32, 64)},
    "f32": np.dtype(np.float32), "f32x2": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16), "f16x2": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "bf16x2": np.dtype(ml_dtypes.bfloat16),
}
SIZES = {name: element.itemsize * (2 if name.endswith("x2") else 1) for name, element in ELEMENTS.items()}


class Values:
    """Value operands of an instruction, registers of the PTX type `kind`."""

    def __init__(self, c: Compiler, operands: Sequence[Node], kind: str) -> None:
        self.reads = [(c.narrow(operand), operand.dtype.lanes if operand.dtype is not None else 1) for operand in operands]
        self.size = SIZES[kind]

    def read(self, agent: Agent, frame: Frame) -> Array:
        """Their bytes: (threads, operands * SIZES[kind]). Bits where the widths agree, else numbers."""
        parts = []
        for read, lanes in self.reads:
            value = np.asarray(read(agent, frame))
            if value.dtype == np.bool_ or (lanes == 1 and value.dtype.kind in "iu" and value.dtype.itemsize != self.size):
                value = value.astype(f"u{self.size}")
            whole = np.broadcast_to(value, frame.shape if lanes == 1 else (*frame.shape, lanes)).reshape(frame.count, lanes)
            parts.append(np.ascontiguousarray(whole).view(np.uint8))
        return np.concatenate(parts, axis=1)
