"""tcgen05: matrix products that accumulate in tensor memory, copies into it, and the commits that tell of their end. One thread issues them.

PTX ISA 9.7.16.9 (cp), 9.7.16.10 (mma), 9.7.16.12 (commit).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from runtime.simulator.agent import Agent
from runtime.simulator.events import AsyncOperation, Observer, Touch
from runtime.simulator.frames import Array, Frame
from runtime.simulator.mbarriers import ArriveCompletion, BarrierOperand
from runtime.simulator.operands import Bad, Operand, operand
from runtime.simulator.program import Compiler, Read, Run, statement
from runtime.simulator.resident import WARP
from runtime.simulator.tensor_cores import STORED, multiply, numbers
from runtime.simulator.tensor_memory import COPIES, LANES, Unusable, accumulator_cells, column_of, lane_of
from runtime.simulator.tensor_state import Cells, Tensor, Work, fail, tensor_of
from tracer import instructions as ins
from tracer.errors import DescriptorError, UninitializedReadError
from tracer.instructions import arguments
from tracer.ir import Node
from tracer.matrix import BITS, InstructionDescriptor


def _one_thread(agent: Agent, frame: Frame, node: Node) -> int:
    """The number of the only thread that runs the statement."""
    if frame.count != 1:
        fail(agent, frame, node, f"{frame.count} threads of a warp issue it, so that it would happen {frame.count} times: let one thread do it, "
              "with T.If(T.cuda.elect_sync())")
    return int(agent.numbers(frame)[0])


def _shared_operand(tensor: Tensor, work: Work, name: str, bits: int, major: str, mn: int, k: int, kind: str) -> Operand:
    """An operand in shared memory, told to the observers."""
    space = tensor.block.cluster.space
    try:
        found = operand(bits, "tcgen05", major, mn, k, kind, space.pitch)
    except Bad as bad:
        work.fail(DescriptorError, f"{name}: {bad}")
    base = tensor.block.rank * space.pitch
    work.touches.append(Touch(work.node, None, space, "load", work.threads[:1], base + found.chunks()[None, :], 16, proxy="async", actor=work))
    return found


def _shared_elements(work: Work, name: str, found: Operand) -> Array:
    assert work.tensor is not None
    block = work.tensor.block
    space = block.cluster.space
    base = block.rank * space.pitch
    if space.written is not None:
        bad = space.unwritten(base + found.addresses, 1)
        if bad.any():
            work.fail(UninitializedReadError, f"operand {name}, which its descriptor puts at shared addresses {int(found.addresses.min()):#x} to "
                      f"{int(found.addresses.max()):#x}, has bytes that nothing has written, the first at {int(found.addresses[bad].min()):#x}")
    return found.elements(space.viewed(np.dtype(np.uint8))[base:base + space.pitch])


def _in_order(earlier: Work, later: Work) -> bool:
    """PTX ISA 9.7.16.6.2: mma after mma on the same accumulator in the same shape, mma after cp."""
    return later.shape is not None and earlier.shape in (None, later.shape)


def _issue(agent: Agent, frame: Frame, node: Node, tensor: Tensor, work: Work) -> None:
    """Hand work over, behind what it may not overtake."""
    for cells in work.reads + work.writes:
        try:
            tensor.check(cells)
        except Unusable as why:
            fail(agent, frame, node, str(why))
    for cells, writes in [*((cells, False) for cells in work.reads), *((cells, True) for cells in work.writes)]:
        others = [earlier for earlier in tensor.pending() if not _in_order(earlier, work)]
        if (busy := tensor.clash(cells, others, reads_too=writes)) is not None:
            fail(agent, frame, node, f"{busy.node.op.name}, issued at {busy.node.location}, still works on the same cells in another shape: only mma "
                  "on the same accumulator, and cp before mma, keep their order; wait for the mbarrier of a tcgen05.commit between")
        if (moved := tensor.unwaited(cells, writes)) is not None:
            fail(agent, frame, node, f"{moved.node.op.name} at {moved.node.location} still moves the same cells: write tcgen05.wait::"
                  f"{'ld' if moved.values is None else 'st'} behind it")
        users = tensor.user[cells.lanes, cells.columns]
        foreign = (users >= 0) & (users != agent.first // WARP)
        if foreign.any():
            fail(agent, frame, node, f"warp {int(users[foreign][0])} moved the same cells by ld or st, and ran no tcgen05.fence::before_thread_sync "
                  "since: write T.ptx.tcgen05.fence__before_thread_sync() there, between its wait and the barrier")
        if tensor.released[cells.lanes, cells.columns].max() > tensor.fenced.get(agent, 0):
            fail(agent, frame, node, "another warp has moved the same cells by ld or st, and this one ran no tcgen05.fence::after_thread_sync "
                  "since: write T.ptx.tcgen05.fence__after_thread_sync() behind the barrier")
    pending = tensor.pending()
    work.after = tuple(pending[-1:])
    tensor.work.append(work)
    tensor.issued.setdefault(int(work.threads[0]), []).append(work)
    agent.engines.issue(work)


@dataclass(eq=False)
class Product(Work):
    """One tcgen05.mma."""

    what: InstructionDescriptor | None = None
    a: Operand | Cells | None = None
    b: Operand | None = None
    accumulates: bool = False
    scale: int = 0
    keep: Array | None = None       # lanes whose output is not written

    def perform(self) -> None:
        what, tensor = self.what, self.tensor
        assert what is not None and tensor is not None and self.b is not None and self.a is not None
        memory = tensor.memory
        if isinstance(self.a, Operand):
            a = numbers(_shared_elements(self, "A", self.a), what.a)
        else:
            a = numbers(np.ascontiguousarray(self._cells(self.a)).view(STORED[what.a]), what.a)
        b = numbers(_shared_elements(self, "B", self.b), what.b)
        lanes, columns = self.writes[0]
        accumulator = None
        if self.accumulates:
            held = self._cells(self.writes[0])
            accumulator = numbers(held if what.d == "f32" else held.astype(np.uint16), what.d) * 2.0 ** -self.scale
        made = multiply(a * (-1) ** what.negate_a, b.T * (-1) ** what.negate_b, accumulator, what.d)
        words = made.view(np.uint32 if what.d == "f32" else np.uint16).astype(np.uint32)
        if self.keep is not None:
            words = np.where(self.keep[lanes], memory.cells[lanes, columns], words)
        memory.cells[lanes, columns] = words

    def _cells(self, cells: Cells) -> Array:
        assert self.tensor is not None
        memory = self.tensor.memory
        bad = ~memory.written[cells.lanes, cells.columns]
        if bad.any():
            lane, column = (int(np.broadcast_to(part, bad.shape)[bad][0]) for part in cells)
            self.fail(UninitializedReadError, f"reads lane {lane}, column {column} of tensor memory, which nothing has written; the first mma on an "
                      "accumulator has enable-input-d false")
        return memory.cells[cells.lanes, cells.columns]


@statement(ins.TCGEN05_MMA)
def _mma(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = arguments(node)
    d, a, b, idesc, enable = (c.narrow(given[name][0]) for name in ("d", "a", "b", "idesc", "enable_d"))
    disable, counter = [c.narrow(o) for o in given["disable"]], c.count(node)
    a_type = given["a"][0].dtype
    assert a_type is not None
    in_shared = a_type.bits == 64

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        thread = _one_thread(agent, frame, node)
        tensor = tensor_of(agent)

        def value(read: Read) -> Any:
            return frame.spread(read(agent, frame)).flat[0]

        what = InstructionDescriptor.decode(int(value(idesc)), node.attrs["kind"])
        if isinstance(what, str):
            fail(agent, frame, node, f"the instruction descriptor {what}", DescriptorError)
        address, k = int(value(d)), 256 // BITS[what.a]
        lanes, columns = accumulator_cells(what.m, what.n)
        work = Product(node, np.array([thread]), tensor=tensor, what=what, accumulates=bool(value(enable)), scale=node.attrs.get("scale_d", 0),
                       shape=(address, what.m, what.n))
        work.writes.append(Cells(lane_of(address) + lanes, column_of(address) + columns))
        if in_shared:
            work.a = _shared_operand(tensor, work, "A", int(value(a)), "MN" if what.transpose_a else "K", what.m, k, what.a)
        else:
            place, width = int(value(a)), k * BITS[what.a] // 32
            rows, across = accumulator_cells(what.m, width)
            work.a = Cells(lane_of(place) + rows, column_of(place) + across)
            work.reads.append(work.a)
        work.b = _shared_operand(tensor, work, "B", int(value(b)), "MN" if what.transpose_b else "K", what.n, k, what.b)
        if disable:
            words = [int(value(read)) for read in disable]
            work.keep = np.array([words[lane // 32] >> lane % 32 & 1 for lane in range(LANES)], np.bool_)
        _issue(agent, frame, node, tensor, work)

    return run, False


@dataclass(eq=False)
class Load(Work):
    """One tcgen05.cp."""

    source: Operand | None = None

    def perform(self) -> None:
        assert self.tensor is not None and self.source is not None
        found = _shared_elements(self, "desc", self.source)
        for lanes, columns in self.writes:
            self.tensor.memory.cells[lanes, columns] = found


@statement(ins.TCGEN05_CP)
def _cp(c: Compiler, node: Node) -> tuple[Run, bool]:
    address, desc = (c.narrow(o) for o in node.operands)
    copy, counter = COPIES[node.attrs["shape"], node.attrs.get("multicast", "")], c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        thread = _one_thread(agent, frame, node)
        tensor = tensor_of(agent)
        place, bits = (int(frame.spread(read(agent, frame)).flat[0]) for read in (address, desc))
        work = Load(node, np.array([thread]), tensor=tensor)
        columns = column_of(place) + np.arange(copy.bytes // 4)[None, :]
        work.writes = [Cells(lane_of(place) + lanes[:, None], columns) for lanes in copy.lanes]
        work.source = _shared_operand(tensor, work, "desc", bits, "K", copy.rows, copy.bytes // 4, "tf32")
        _issue(agent, frame, node, tensor, work)

    return run, False


@dataclass(eq=False)
class Commit(AsyncOperation):
    """Arrives at mbarriers once the `works`, all that its thread issued before, have ended."""

    works: tuple[Work, ...] = ()
    observers: tuple[Observer, ...] = ()

    def land(self) -> None:
        for observer in self.observers:
            for work in self.works:
                for completion in self.completions:
                    observer.land(work, completion.key)


@statement(ins.TCGEN05_COMMIT)
def _commit(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = arguments(node)
    barrier = BarrierOperand(c, node, given["bar"][0], node.attrs.get("space", ""), told="")
    mask, counter = c.narrow(given["cta_mask"][0]) if given["cta_mask"] else None, c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        thread = _one_thread(agent, frame, node)
        tensor = tensor_of(agent)
        (place,) = barrier.places(agent, frame).tolist()
        places = [place]
        if mask is not None:
            bits, pitch = int(frame.spread(mask(agent, frame)).flat[0]), agent.space.pitch
            places = [rank * pitch + place % pitch for rank in range(len(tensor.block.cluster.blocks)) if bits >> rank & 1]
        works = tuple(tensor.issued.get(thread, ()))
        commit = Commit(node, np.array([thread]), after=works, works=works, observers=agent.observers)
        commit.completions = tuple(ArriveCompletion(barrier.at(agent, frame, each)) for each in places)
        agent.engines.issue(commit)

    return run, False
