"""Matrices of a warp: ldmatrix, stmatrix and mma.sync. PTX ISA 9.7.14.5."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from runtime.simulator import pointers
from runtime.simulator.agent import Agent, line
from runtime.simulator.frames import Array, Frame
from runtime.simulator.pointers import Pointer, check_written, touch
from runtime.simulator.program import Compiler, Run, statement
from runtime.simulator.register_operands import Registers
from runtime.simulator.registers import LANES, to_matrix, to_registers
from runtime.simulator.tensor_cores import STORED, multiply, numbers
from runtime.simulator.texts import runs
from symbolic.layout import Fragment, fragment
from tracer import instructions as ins
from tracer.errors import BarrierDivergenceError
from tracer.ir import Node
from tracer.matrix import MMA_FORMS, register_of

ROW_BYTES = 16      # of a row of an 8 by 8 matrix of 16-bit elements

Values = Callable[[Agent, Frame], Array]


def whole_warps(agent: Agent, frame: Frame, node: Node) -> None:
    """Raise BarrierDivergenceError unless all threads of every warp that is here are: what `.aligned` demands."""
    lanes = frame.lanes.reshape(-1)
    if len(lanes) % LANES == 0 and len(lanes) and agent.threads % LANES == 0:
        groups = lanes.reshape(-1, LANES)
        if (groups[:, 0] % LANES == 0).all() and (groups[:, -1] - groups[:, 0] == LANES - 1).all():
            return
    row, first = divmod(int(lanes[0]), agent.threads)
    warp = (agent.first + first) // LANES
    here = lanes[(lanes // agent.threads == row) & ((lanes % agent.threads + agent.first) // LANES == warp)] % agent.threads + agent.first
    flags = np.zeros(LANES, np.bool_)
    flags[here % LANES] = True
    apart = f"\n  parted by the {agent.splits[-1].op.name} at {agent.splits[-1].location}" if agent.splits else ""
    raise BarrierDivergenceError(f"{node.attrs['instruction']}: all 32 threads of a warp run it together; of warp {warp} of block "
                                 f"{agent.block_text(row)} there are lanes {runs(flags)}{apart}{line(node)}")


def values_of(c: Compiler, operands: Sequence[Node]) -> Values:
    """How to read value operands of one width as bits: (threads, operands) of unsigned words."""
    reads = [c.narrow(o) for o in operands]
    assert operands[0].dtype is not None
    word = np.dtype(f"u{operands[0].dtype.bits * operands[0].dtype.lanes // 8}")

    def values(agent: Agent, frame: Frame) -> Array:
        out = np.empty((frame.count, len(reads)), word)
        for k, (read, operand) in enumerate(zip(reads, operands)):
            assert operand.dtype is not None
            value = np.asarray(read(agent, frame))
            if operand.dtype.lanes > 1:
                value = np.ascontiguousarray(value).view(word)[..., 0]
            elif value.dtype != word:
                value = np.ascontiguousarray(value).view(word).reshape(value.shape)
            out[:, k] = frame.spread(value).reshape(-1)
        return out

    return values


def _warps(values: Array) -> Array:
    """(threads, operands) as (warps, 32, operands)."""
    return values.reshape(-1, LANES, values.shape[-1])


# ---- ldmatrix, stmatrix: row r of matrix q is where lane 8 q + r points ----------------------------------------------------------

class _Rows:
    """What the two share: the rows of `num` matrices that the warps' first lanes point to."""

    def __init__(self, c: Compiler, node: Node, pointer: Node, kind: str) -> None:
        self.node, self.num = node, node.attrs["num"]
        self.pointer = Pointer(c, node, pointer, kind, node.attrs.get("space", ""))
        self.counter = c.count(node)
        trans = ".trans" if node.attrs.get("trans") else ""
        name = "ldmatrix" if kind == "load" else "stmatrix"
        self.fragment: Fragment = fragment(f"{name}.x{self.num}{trans}", "D" if kind == "load" else "A")

    def frame(self, agent: Agent, frame: Frame) -> Frame:
        """The threads whose addresses count."""
        whole_warps(agent, frame, self.node)
        agent.counts[self.counter] += frame.count
        return frame if self.num == 4 else frame.keep(frame.thread_numbers % LANES < 8 * self.num)


@statement(ins.LDMATRIX)
def _ldmatrix(c: Compiler, node: Node) -> tuple[Run, bool]:
    *targets, source = node.operands
    rows, out = _Rows(c, node, source, "load"), Registers(c, node, targets)

    def run(agent: Agent, frame: Frame) -> None:
        part = rows.frame(agent, frame)
        found = rows.pointer.locate(agent, part, ROW_BYTES, ROW_BYTES)
        check_written(agent, part, rows.pointer, found, ROW_BYTES)
        for observer in agent.observers:
            observer.access(touch(agent, part, rows.pointer, found, "load", ROW_BYTES))
        matrices = pointers.fetch(found, ROW_BYTES).view(np.uint16).reshape(-1, 8 * rows.num, 8)
        out.write(agent, frame, to_registers(matrices, rows.fragment).reshape(frame.count, -1))

    return run, False


@statement(ins.STMATRIX)
def _stmatrix(c: Compiler, node: Node) -> tuple[Run, bool]:
    target, *sources = node.operands
    rows, values = _Rows(c, node, target, "store"), values_of(c, sources)

    def run(agent: Agent, frame: Frame) -> None:
        part = rows.frame(agent, frame)
        found = rows.pointer.locate(agent, part, ROW_BYTES, ROW_BYTES)
        matrices = np.ascontiguousarray(to_matrix(_warps(values(agent, frame)), rows.fragment, "f16"))
        data = matrices.view(np.uint8).reshape(part.count, ROW_BYTES)
        for observer in agent.observers:
            observer.access(touch(agent, part, rows.pointer, found, "store", ROW_BYTES, data))
        pointers.put(found, data)
        agent.engines.changes += 1

    return run, False


# ---- mma -----------------------------------------------------------------------------------------------------------------------

@statement(ins.MMA)
def _mma(c: Compiler, node: Node) -> tuple[Run, bool]:
    attrs = node.attrs
    form = MMA_FORMS[attrs["shape"], attrs["d_type"], attrs["a_type"], attrs["b_type"]]
    given = ins.arguments(node)
    out = Registers(c, node, given["d"])
    reads = [(values_of(c, given[name]), form.fragment(name.upper()), kind) for name, kind in (("a", form.a), ("b", form.b), ("c", form.d))]
    target, counter, saturate = form.fragment("D"), c.count(node), bool(attrs.get("satfinite"))
    word = "uint64" if register_of(form.d) == "float64" else "uint32"

    def run(agent: Agent, frame: Frame) -> None:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        a, b, accumulator = (numbers(to_matrix(_warps(read(agent, frame)), where, kind), kind) for read, where, kind in reads)
        made = multiply(a, b, accumulator, form.d, saturate)
        out.write(agent, frame, to_registers(made, target, word).reshape(frame.count, -1))

    return run, False


# ---- two floats in a register --------------------------------------------------------------------------------------------------

@statement(ins.CVT_PACK)
def _cvt_pack(c: Compiler, node: Node) -> tuple[Run, bool]:
    target, *sources = node.operands
    out, counter, reads = Registers(c, node, [target]), c.count(node), [c.narrow(o) for o in reversed(sources)]
    half, positive = STORED[node.attrs["type"].removesuffix("x2")], bool(node.attrs.get("relu"))

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        both = np.stack([frame.spread(read(agent, frame)).reshape(-1) for read in reads], axis=-1)
        rounded = (np.where(both < 0, np.float32(0), both) if positive else both).astype(half)
        out.write(agent, frame, np.ascontiguousarray(rounded).view(np.uint32))

    return run, False
