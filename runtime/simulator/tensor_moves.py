"""tcgen05: allocation of tensor memory, and what moves between it and registers. PTX ISA 9.7.16.7, 9.7.16.8."""

from __future__ import annotations

import numpy as np

from runtime.simulator.agent import Agent, Wait
from runtime.simulator.frames import Frame
from runtime.simulator.matrix import values_of, whole_warps
from runtime.simulator.pointers import Pointer, put, touch
from runtime.simulator.program import Compiler, Flow, Run, statement
from runtime.simulator.register_operands import Registers
from runtime.simulator.resident import WARP
from runtime.simulator.tensor_memory import COLUMNS, LANES, Unusable, cells_of, column_of, lane_of, text_of
from runtime.simulator.tensor_state import Cells, Tensor, Transfer, fail, tensor_of, uniform
from runtime.simulator.tracking import tracker_of
from tracer import instructions as ins
from tracer.errors import UninitializedReadError
from tracer.instructions import arguments
from tracer.ir import Node

# ---- allocation ----------------------------------------------------------------------------------------------------------------

@statement(ins.TCGEN05_ALLOC)
def _alloc(c: Compiler, node: Node) -> tuple[Run, bool]:
    target, count = node.operands
    pointer, columns, counter = Pointer(c, node, target, "store", node.attrs.get("space", "")), c.narrow(count), c.count(node)

    def run(agent: Agent, frame: Frame) -> Flow:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        tensor, wanted = tensor_of(agent), uniform(agent, frame, node, "n_cols", columns(agent, frame))
        found: list[int] = []

        def ready() -> bool:
            try:
                start = tensor.memory.allocate(wanted, node)
            except Unusable as why:
                fail(agent, frame, node, str(why))
            if start is not None:
                found.append(start)
                tensor.forget(start, wanted)
            return bool(found)

        if not ready():
            yield Wait(agent, frame, node, lambda: bool(found) or ready(), lambda: f"{wanted} columns of tensor memory; allocated are " + ", ".join(
                f"{a.columns} at {a.node.location}" for a in tensor.memory.allocations))
        one = frame.keep(frame.lanes == frame.lanes.min())
        place = pointer.locate(agent, one, 4, 4)
        data = np.array(found, np.uint32).view(np.uint8).reshape(1, 4)
        for observer in agent.observers:
            observer.access(touch(agent, one, pointer, place, "store", 4, data))
        put(place, data)
        agent.engines.changes += 1
        return frame

    return run, True


@statement(ins.TCGEN05_DEALLOC)
def _dealloc(c: Compiler, node: Node) -> tuple[Run, bool]:
    address, columns = (c.narrow(o) for o in node.operands)
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        tensor = tensor_of(agent)
        start, count = uniform(agent, frame, node, "taddr", address(agent, frame)), uniform(agent, frame, node, "n_cols", columns(agent, frame))
        every = Cells(np.arange(LANES)[:, None], np.arange(column_of(start), min(COLUMNS, column_of(start) + count))[None, :])
        if (busy := tensor.clash(every, tensor.pending(), reads_too=True)) is not None:
            fail(agent, frame, node, f"the columns are still used by {busy.node.op.name} at {busy.node.location}: wait for its commit first")
        if (moved := tensor.unwaited(every, writes=True)) is not None:
            fail(agent, frame, node, f"the columns are still used by {moved.node.op.name} at {moved.node.location}: wait for it first")
        tensor.use(agent, frame, node, every, "store")
        try:
            tensor.memory.free(start, count)
        except Unusable as why:
            fail(agent, frame, node, str(why))

    return run, False


@statement(ins.TCGEN05_RELINQUISH)
def _relinquish(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        tensor_of(agent).memory.relinquished = node

    return run, False


# ---- between registers and tensor memory ---------------------------------------------------------------------------------------

def _moved(agent: Agent, frame: Frame, node: Node, tensor: Tensor, address: int) -> Cells:
    """The cells of a ld or st, (32, registers) each, or (32, registers, 2) where two columns share a register."""
    attrs = node.attrs
    lanes, columns = cells_of(attrs["shape"], attrs["num"], attrs.get("offset", 0), bool(attrs.get("pack") or attrs.get("unpack")))
    cells = Cells(lane_of(address) + lanes, column_of(address) + columns)
    slab = agent.first // WARP % 4 * WARP
    if cells.lanes.min() < slab or cells.lanes.max() >= slab + WARP:
        fail(agent, frame, node, f"the address {text_of(address)} is outside lanes {slab} to {slab + WARP - 1}, which are all that warp "
              f"{agent.first // WARP} reaches: add its lanes, T.cuda.get_tmem_addr(addr, warp % 4 * 32, col)")
    try:
        tensor.check(cells)
    except Unusable as why:
        fail(agent, frame, node, str(why))
    return cells


def _check_order(agent: Agent, frame: Frame, node: Node, tensor: Tensor, cells: Cells, writes: bool) -> None:
    """What a ld or st may not overtake."""
    if (busy := tensor.clash(cells, tensor.pending(), reads_too=writes)) is not None:
        fail(agent, frame, node, f"{busy.node.op.name}, issued at {busy.node.location}, still works on these cells: wait for the mbarrier of a "
              "tcgen05.commit behind it")
    if (moved := tensor.unwaited(cells, writes)) is not None:
        fail(agent, frame, node, f"{moved.node.op.name} at {moved.node.location} still moves these cells: write tcgen05.wait::"
              f"{'ld' if moved.values is None else 'st'} behind it")
    if tensor.finished[cells.lanes, cells.columns].max() > tensor.fenced.get(agent, 0):
        fail(agent, frame, node, "an mma or cp has written these cells, and the warp ran no tcgen05.fence::after_thread_sync behind its wait: write "
              "T.ptx.tcgen05.fence__after_thread_sync() between the wait for the mbarrier and this")


@statement(ins.TCGEN05_LD)
def _ld(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = arguments(node)
    out, address, counter = Registers(c, node, given["d"]), c.narrow(given["taddr"][0]), c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        tensor = tensor_of(agent)
        cells = _moved(agent, frame, node, tensor, uniform(agent, frame, node, "taddr", address(agent, frame)))
        _check_order(agent, frame, node, tensor, cells, writes=False)
        bad = ~tensor.memory.written[cells.lanes, cells.columns]
        if bad.any():
            lane, column = (int(np.broadcast_to(part, bad.shape)[bad][0]) for part in cells)
            fail(agent, frame, node, f"reads lane {lane}, column {column} of tensor memory, which nothing has written", UninitializedReadError)
        use = tensor.use(agent, frame, node, cells, "load")
        tensor.transfers.setdefault(agent, []).append(Transfer(node, frame, cells, out, None, use))
        for _, memory, positions in out.places(agent, frame):
            tracker = tracker_of(memory)
            tracker.take(tracker.filled, positions, out.cell.itemsize, node)

    return run, False


@statement(ins.TCGEN05_ST)
def _st(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = arguments(node)
    values, address, counter = values_of(c, given["value"]), c.narrow(given["taddr"][0]), c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        tensor = tensor_of(agent)
        cells = _moved(agent, frame, node, tensor, uniform(agent, frame, node, "taddr", address(agent, frame)))
        _check_order(agent, frame, node, tensor, cells, writes=True)
        use = tensor.use(agent, frame, node, cells, "load")
        tensor.transfers.setdefault(agent, []).append(Transfer(node, frame, cells, None, values(agent, frame), use))

    return run, False


@statement(ins.TCGEN05_WAIT)
def _wait(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter, loads = c.count(node), node.attrs["wait"] == "ld"

    def run(agent: Agent, frame: Frame) -> None:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        tensor = tensor_of(agent)
        transfers = tensor.transfers.get(agent, [])
        due = [t for t in transfers if (t.values is None) == loads]
        tensor.transfers[agent] = [t for t in transfers if (t.values is None) != loads]
        for transfer in due:
            _finish(agent, tensor, transfer)
            tensor.waited(agent, frame, node, transfer.use)
        agent.engines.changes += 1

    return run, False


def _finish(agent: Agent, tensor: Tensor, transfer: Transfer) -> None:
    """A ld or st has ended: the registers are filled, or the cells."""
    lanes, columns = transfer.cells
    packed = columns.ndim == 3
    memory = tensor.memory
    if transfer.values is None:
        assert transfer.registers is not None
        for _, local, positions in transfer.registers.places(agent, transfer.frame):
            tracker_of(local).filled.view(f"u{transfer.registers.cell.itemsize}")[positions] = 0
        found = memory.cells[lanes, columns]
        words = found[..., 0] & 0xFFFF | found[..., 1] << 16 if packed else found
        transfer.registers.write(agent, transfer.frame, np.ascontiguousarray(words))
    else:
        words = transfer.values.view(np.uint32)
        memory.cells[lanes, columns] = np.stack([words & 0xFFFF, words >> 16], axis=-1) if packed else words
        memory.written[lanes, columns] = True
    tensor.user[lanes, columns] = agent.first // WARP


@statement(ins.TCGEN05_FENCE)
def _fence(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter, before = c.count(node), node.attrs["fence"] == "before_thread_sync"

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        tensor = tensor_of(agent)
        tensor.tick += 1
        if before:
            mine = tensor.user == agent.first // WARP
            tensor.released[mine], tensor.user[mine] = tensor.tick, -1
        else:
            tensor.fenced[agent] = tensor.tick

    return run, False
