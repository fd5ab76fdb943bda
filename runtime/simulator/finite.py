"""Where the first NaN or infinity comes from: operations that make one out of finite numbers (`Checks.nan`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.frames import Frame, Value
from tracer.errors import NonFiniteError
from tracer.ir import Node


def check_finite(agent: Agent, frame: Frame, node: Node, value: Value, operands: Sequence[Value]) -> None:
    """Raise NonFiniteError where `value`, that of `node`, is none of the finite numbers and all of its floating-point operands are."""
    bad = ~np.isfinite(value)
    if not np.any(bad):
        return
    for operand in operands:
        if np.asarray(operand).dtype.kind not in "iub":
            bad = bad & np.isfinite(operand)
    if not np.any(bad):
        return
    bad = np.asarray(bad)
    lanes = node.dtype is not None and node.dtype.lanes > 1
    shown = [_at(operand, bad) for operand in operands]
    agent.fail(NonFiniteError, f"{node.op.name} makes {_at(value, bad)} out of {', '.join(shown)}", frame, bad.any(axis=-1) if lanes else bad, node)


def _at(value: Value, bad: Value) -> str:
    """The value where `bad` holds first."""
    value = np.asarray(value)
    shape = np.broadcast_shapes(value.shape, bad.shape)
    return str(np.broadcast_to(value, shape)[np.broadcast_to(bad, shape)][0])
