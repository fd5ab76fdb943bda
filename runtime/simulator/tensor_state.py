"""The tensor memory of a block while it runs: what is under way in it, and what may not overtake what.

mma and cp go on beside the threads: they happen, in the order of issue, when the mbarrier of a commit behind them is waited for. ld
fills its registers, and st its cells, at the wait for them. Everything else that touches the same cells or registers before that is an
error, and so is what crosses from one warp to another without `fence::before_thread_sync` there and `fence::after_thread_sync` here.
PTX ISA 9.7.16.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

import numpy as np

from runtime.simulator.agent import Agent, line
from runtime.simulator.events import AsyncOperation, Touch
from runtime.simulator.frames import Array, Frame, Value
from runtime.simulator.memory import Memory
from runtime.simulator.register_operands import Registers
from runtime.simulator.resident import WARP, Block
from runtime.simulator.tensor_memory import COLUMNS, LANES, TensorMemory
from symbolic.integers import const
from tracer.dtypes import dtype
from tracer.errors import AsyncError, SimulationError, TensorMemoryError
from tracer.ir import Buffer, Node, Storage


class Cells(NamedTuple):
    """Some cells of tensor memory, by lane and column; both broadcast to one shape."""

    lanes: Array
    columns: Array


class Transfer(NamedTuple):
    """A tcgen05.ld or st that a warp has not waited for: `values` are what st stores."""

    node: Node
    frame: Frame
    cells: Cells
    registers: Registers | None
    values: Array | None
    use: Use


# What observers are shown of an allocation: a byte for each column, which is read by whoever moves its cells and written by whoever frees it.
_SIZE, _BYTE = const(COLUMNS), dtype("uint8")
SHOWN = Buffer("tensor memory", (_SIZE,), _BYTE, "tmem", None, const(0), Storage("tensor memory", _BYTE, "tmem", _SIZE, 1))


class Use(AsyncOperation):
    """What a whole warp does to columns, as observers are told: an actor that knows what any lane knew, of which all lanes know afterwards."""

    def land(self) -> None:
        """Nothing: it is only looked at."""


@dataclass(eq=False)
class Work(AsyncOperation):
    """An mma or a cp of `tensor`'s block: it reads and writes these cells. `shape` is the accumulator's, for an mma."""

    tensor: Tensor | None = None
    reads: list[Cells] = field(default_factory=list)
    writes: list[Cells] = field(default_factory=list)
    shape: tuple[int, int, int] | None = None       # address, m, n

    def perform(self) -> None:
        """Compute, and write the cells."""
        raise NotImplementedError

    def land(self) -> None:
        assert self.tensor is not None
        self.perform()
        self.tensor.tick += 1
        for lanes, columns in self.writes:
            self.tensor.finished[lanes, columns] = self.tensor.tick
            self.tensor.memory.written[lanes, columns] = True

    def fail(self, error: type[SimulationError], what: str) -> NoReturn:
        assert self.tensor is not None
        raise error(f"{self.node.op.name}: {what}\n  in {self.tensor.block.text()}{line(self.node)}")


class Tensor:
    """The tensor memory of a block, and what is under way in it.

    `finished`: when mma or cp last wrote each cell; `user` and `released`: the warp that last moved it by ld or st, and when that warp's
    fence::before_thread_sync let others have it. Times are ticks, counted by the fences and the ends of work.
    """

    def __init__(self, block: Block) -> None:
        self.block, self.memory, self.tick = block, TensorMemory(), 0
        self.finished, self.released = np.zeros((LANES, COLUMNS), np.int64), np.zeros((LANES, COLUMNS), np.int64)
        self.user = np.full((LANES, COLUMNS), -1, np.int16)
        self.fenced: dict[Agent, int] = {}                      # when each warp last ran fence::after_thread_sync
        self.transfers: dict[Agent, list[Transfer]] = {}
        self.work: list[Work] = []                              # not landed
        self.issued: dict[int, list[Work]] = {}                 # by thread, from the start: a commit is of all of it
        self.shown: dict[int, Memory] = {}                      # by column, for observers: that of its allocation

    def pending(self) -> list[Work]:
        self.work = [work for work in self.work if not work.landed]
        return self.work

    def forget(self, start: int, columns: int) -> None:
        """These columns are a new allocation."""
        which = slice(start, start + columns)
        self.finished[:, which], self.released[:, which], self.user[:, which] = 0, 0, -1
        self.shown.update(dict.fromkeys(range(start, start + columns), Memory(np.zeros(COLUMNS, np.uint8), COLUMNS)))

    def use(self, agent: Agent, frame: Frame, node: Node, cells: Cells, kind: str) -> Use:
        """Tell observers that a warp begins to use columns: a "load" that moves their cells, or the "store" that frees them."""
        used = Use(node, agent.numbers(frame))
        if not agent.observers:
            return used
        shown: dict[int, list[int]] = {}        # columns by their allocation
        for column in np.unique(cells.columns).tolist():
            if column in self.shown:
                shown.setdefault(id(self.shown[column]), []).append(column)
        for observer in agent.observers:
            observer.issue(used, used.threads)
            for columns in shown.values():
                memory = self.shown[columns[0]]
                observer.access(Touch(node, SHOWN, memory, kind, used.threads[:1], np.array(columns)[None, :], 1, actor=used))
        return used

    def waited(self, agent: Agent, frame: Frame, node: Node, use: Use) -> None:
        """Tell them that it has ended, and that the frame's threads know."""
        for observer in agent.observers:
            observer.land(use, use)
            observer.acquire(agent.numbers(frame), use, node, "cta")

    def check(self, cells: Cells) -> None:
        """Raise Unusable unless these cells exist and are allocated."""
        self.memory.check(cells.lanes, cells.columns)

    def clash(self, cells: Cells, works: list[Work], reads_too: bool) -> Work | None:
        """Work under way that writes (or, with `reads_too`, reads) one of these cells."""
        marked = np.zeros((LANES, COLUMNS), np.bool_)
        marked[cells.lanes, cells.columns] = True
        for work in works:
            for lanes, columns in work.writes + (work.reads if reads_too else []):
                if marked[lanes, columns].any():
                    return work
        return None

    def unwaited(self, cells: Cells, writes: bool) -> Transfer | None:
        """A ld (only where the cells are to be written) or a st of any warp that touches one of these cells and was not waited for."""
        marked = np.zeros((LANES, COLUMNS), np.bool_)
        marked[cells.lanes, cells.columns] = True
        for transfers in self.transfers.values():
            for transfer in transfers:
                if (writes or transfer.values is not None) and marked[transfer.cells.lanes, transfer.cells.columns].any():
                    return transfer
        return None

    def warp_ended(self, agent: Agent) -> None:
        """Raise where a warp, or the block's last one, leaves something behind."""
        where = f"\n  in {self.block.text()}"
        if left := self.transfers.get(agent):
            kind = "ld" if left[0].values is None else "st"
            raise AsyncError(f"{left[0].node.op.name}: the kernel ends while it is under way: write T.ptx.tcgen05.wait__{kind}.sync.aligned() behind "
                             f"it{where}, warp {agent.first // WARP}{line(left[0].node)}")
        if self.block.running:
            return
        if work := self.pending():
            raise AsyncError(f"{work[0].node.op.name}: the kernel ends while it is under way: commit it to an mbarrier (tcgen05.commit) and wait for "
                             f"that{where}{line(work[0].node)}")
        if self.memory.allocations:
            a = self.memory.allocations[0]
            raise TensorMemoryError(f"{a.columns} columns of tensor memory, at column {a.start}, are still allocated when the block ends: free them "
                                    f"with tcgen05.dealloc{where}{line(a.node)}")


def tensor_of(agent: Agent) -> Tensor:
    """The tensor memory of the agent's block."""
    block = agent.resident
    assert block is not None
    found: Tensor | None = block.state.get("tensor memory")
    if found is None:
        found = block.state["tensor memory"] = Tensor(block)
    return found


def fail(agent: Agent, frame: Frame, node: Node, what: str, error: type[SimulationError] = TensorMemoryError) -> NoReturn:
    agent.fail(error, f"{node.op.name}: {what}", frame, np.ones((1,) * len(frame.shape), np.bool_), node)


def uniform(agent: Agent, frame: Frame, node: Node, name: str, value: Value) -> int:
    values = frame.spread(value)
    if (values != values.flat[0]).any():
        agent.fail(TensorMemoryError, f"{node.op.name}: the threads of a warp pass different values for {name}: {int(values.flat[0]):#x} and "
                   f"{int(values[values != values.flat[0]][0]):#x}", frame, values != values.flat[0], node)
    return int(values.flat[0])
