"""Arithmetic on two float32 in one 64-bit register, in every rounding. PTX ISA 9.7.3 `add`, `sub`, `mul`, `fma` of `.f32x2`.

Each result is the exact one rounded once: it is computed in float64 rounded to odd (see `conversions`), and then rounded as asked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.elementary import exact_sum, fused
from runtime.simulator.frames import Array, Frame
from runtime.simulator.program import Compiler, Run, statement
from runtime.simulator.register_operands import Registers
from runtime.simulator.types import Values
from tracer import instructions as ins
from tracer.ir import Node
from tracer.operations import Operation

_LEAST_NORMAL = np.finfo(np.float32).smallest_normal


def _wide(x: Array) -> Array:
    return x.astype(np.float64)


# The exact result as float64 rounded to odd, and the two numbers whose sum it is: opposite ones give -0 when rounding down.
_EXACT: dict[Operation, Callable[..., tuple[Array, Array, Array]]] = {
    ins.ADD_F32X2: lambda a, b: (exact_sum(_wide(a), _wide(b)), a, b),
    ins.SUB_F32X2: lambda a, b: (exact_sum(_wide(a), -_wide(b)), a, -b),
    ins.MUL_F32X2: lambda a, b: (_wide(a) * _wide(b),) * 3,
    ins.FMA_F32X2: lambda a, b, c: (fused(a, b, c), _wide(a) * _wide(b), c),
}


def rounded(exact: Array, rounding: str) -> Array:
    """float64 that was rounded to odd as the float32 that `rounding` asks for: rn, rz, rp or rm (nearest even, to zero, up, down)."""
    nearest: Array = exact.astype(np.float32)
    back = nearest.astype(np.float64)
    if rounding == "rp" or rounding == "rm":
        beyond, end = (back < exact, np.inf) if rounding == "rp" else (back > exact, -np.inf)
        return np.where(beyond, np.nextafter(nearest, np.float32(end)), nearest)
    return np.where(np.abs(back) > np.abs(exact), np.nextafter(nearest, np.float32(0)), nearest) if rounding == "rz" else nearest


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < _LEAST_NORMAL, np.copysign(np.float32(0), x), x)


@statement(*_EXACT)
def _pairs(c: Compiler, node: Node) -> tuple[Run, bool]:
    given, counter = ins.arguments(node), c.count(node)
    operands = [Values(c, given[name], "f32x2") for name in ("a", "b", "c") if name in given]
    out, rounding, flushes = Registers(c, node, given["d"]), node.attrs.get("rounding", "rn"), "ftz" in node.attrs
    compute = _EXACT[node.op]

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        lanes = [operand.read(agent, frame).view(np.float32) for operand in operands]
        exact, p, q = compute(*(map(_flushed, lanes) if flushes else lanes))
        result = rounded(exact, rounding)
        if rounding == "rm":
            result = np.where((result == 0) & (np.signbit(p) != np.signbit(q)), np.float32(-0.0), result)
        result = np.ascontiguousarray(_flushed(result) if flushes else result)
        out.write(agent, frame, result.view(np.uint64))

    return run, False
