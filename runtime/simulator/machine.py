"""The simulator: a device half run in NumPy, as the GPU would run it.

`simulate` is the definition of what a kernel means. It runs what lowering says (`lowered.integers`, `accesses[...].emitted`)
with CUDA's semantics, all threads of a chunk of blocks in lockstep, chunks one after the other in the order of blockIdx.

Lockstep hides the order between threads. Where two threads store different values to one element in one statement, the one
with the greater number (block, then thread) wins, always; a GPU promises nothing. Such races are not found yet, nor are
waits that nobody ends: a `T.While` that polls what another thread writes later does not terminate.

With `checks` (the default) the run also looks for what no kernel should do; each finding is an exception of `tracer.errors`
with buffer, logical index, block, thread and Python line. What has no outcome at all (an element that does not exist, a division
by zero, a barrier that some threads do not reach) is refused with or without them. Stores made before the failing statement
stay in the arrays, as on a GPU. A thread that has returned is not waited for at barriers (compute capability 7.0 and later); the
report notes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from codegen.lowered import DeviceHalf
from runtime.simulator import access, atomics, bits, control, convergent, order, votes  # noqa: F401  (they register their statements)
from runtime.simulator.agent import Agent, Arrival, line
from runtime.simulator.events import Observer
from runtime.simulator.frames import Array
from runtime.simulator.memory import Memory, global_memory
from runtime.simulator.program import Program, program_of
from runtime.simulator.report import AccessCount, Report
from symbolic.integers import substitute
from tracer import operations as op
from tracer.errors import BarrierDivergenceError
from tracer.ir import Buffer, Extents, Node, Storage
from tracer.operations import Operation

CHUNK_THREADS = 1 << 16             # values of a chunk then fit a core's cache
CHUNK_BYTES = 256 << 20             # of shared and local memory


def simulate(half: DeviceHalf, grid: tuple[int, ...], block: tuple[int, ...], arrays: Mapping[Buffer, Array],
             values: Mapping[Node, Any], *, checks: bool = True, blocks: Iterable[int] | None = None,
             observers: Iterable[Observer] = ()) -> Report:
    """Run the kernel `half` on `grid` x `block` threads; stores go through to `arrays`.

    * `arrays`: for each parameter's buffer a flat view of its storage, element 0 where the data pointer points.
    * `values`: for each scalar parameter's and extent's node its value.
    * `observers` are told of everything that happens (see `events`).
    * `blocks`: linear numbers (x fastest) of the blocks to run; all of them if None.

    Raises a `SimulationError` for what the kernel does wrong (see the module), `NotSupportedError` for what cannot be
    simulated yet; the latter before anything ran.
    """
    program = program_of(half, checks)
    full_grid, full_block = _three(grid), _three(block)
    cluster = _three(tuple(size.value for size in half.lowered.function.launch.cluster or ()))
    total = full_grid[0] * full_grid[1] * full_grid[2]
    chosen = np.arange(total) if blocks is None else np.unique(np.fromiter(blocks, np.int64))
    if chosen.size and not 0 <= chosen[0] <= chosen[-1] < total:
        raise ValueError(f"blocks must be in [0, {total}) for the grid {full_grid}, not {chosen[-1] if chosen[0] >= 0 else chosen[0]}")
    counts = np.zeros(len(program.counters), np.int64)
    notes: dict[str, None] = {}
    watching = tuple(observers)
    parameters: dict[Storage, Memory] = {buffer.storage: global_memory(array) for buffer, array in arrays.items()}
    with np.errstate(all="ignore"):
        for chunk in _chunks(chosen, program, full_block, _dynamic_bytes(half, values)):
            for observer in watching:
                observer.start(chunk)
            agent = Agent(chunk, full_grid, full_block, cluster, dict(parameters), len(program.counters), watching)
            run(agent, program, values)
            counts += np.asarray(agent.counts, np.int64)     # of an empty list NumPy makes floats
            notes.update(dict.fromkeys(agent.notes))
    for observer in watching:
        observer.end()
    return _report(half, grid, block, program, counts, list(notes))


def _three(extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*(int(e) for e in extents), 1, 1, 1)[:3]
    return x, y, z


def _dynamic_bytes(half: DeviceHalf, values: Mapping[Node, Any]) -> int:
    """Bytes of dynamic shared memory that the launch gives a block."""
    asked = half.lowered.function.launch.dynamic_shared_bytes
    if asked is None:
        return 0
    return substitute(asked, {node.sym: int(value) for node, value in values.items() if node.sym is not None}).value


def _chunks(blocks: Array, program: Program, block: tuple[int, ...], dynamic: int) -> Iterator[Array]:
    threads = max(1, block[0] * block[1] * block[2])
    per_block = max(1, program.bytes_per_block + dynamic + threads * program.bytes_per_thread)
    size = max(1, min(CHUNK_THREADS // threads, CHUNK_BYTES // per_block))
    for start in range(0, len(blocks), size):
        yield blocks[start:start + size]


def run(agent: Agent, program: Program, values: Mapping[Node, Any]) -> None:
    """Run one agent to its end."""
    for leaf, write in program.leaves:
        write(agent, agent.root, _leaf(agent, leaf, values))
    for _ in program.prologue.run(agent, agent.root):
        raise AssertionError("nothing waits before the body")
    for arrival in program.body.run(agent, agent.root):
        complete(arrival)


def _leaf(agent: Agent, leaf: Node, values: Mapping[Node, Any]) -> Any:
    """The value of a hardware index, a scalar or an extent, in the root frame."""
    assert leaf.dtype is not None
    storage = leaf.dtype.storage
    if leaf.op not in _INDICES:
        return storage.type(values[leaf])
    axis = leaf.attrs["axis"]
    index = _INDICES[leaf.op](agent, axis)
    return storage.type(index.flat[0]) if index.size == 1 else index.astype(storage)


def _along(numbers: Array, extents: tuple[int, ...], axis: int) -> Array:
    """The coordinate along `axis` of linear numbers, x fastest."""
    return numbers // math.prod(extents[:axis]) % extents[axis]


# As (1, threads) or (blocks, 1). Blocks of a cluster are neighbours in the grid: PTX ISA 10, %clusterid and %cluster_ctaid.
_INDICES: dict[Operation, Callable[[Agent, int], Array]] = {
    op.THREAD_INDEX: lambda agent, axis: _along(agent.root.thread_numbers, agent.block, axis),
    op.BLOCK_INDEX: lambda agent, axis: _along(agent.blocks[:, None], agent.grid, axis),
    op.CLUSTER_INDEX: lambda agent, axis: _along(agent.blocks[:, None], agent.grid, axis) // agent.cluster[axis],
    op.CTA_IN_CLUSTER: lambda agent, axis: _along(agent.blocks[:, None], agent.grid, axis) % agent.cluster[axis],
}


def complete(arrival: Arrival) -> None:
    """Let the threads at a barrier of the block go on, or raise BarrierDivergenceError: all that have not returned must be there.

    The chunk's threads move together, so whoever is not here is somewhere else for good: in the other branch, behind the
    loop. A barrier on another line does not count, even if the hardware would pair the two.
    """
    agent, frame, node = arrival
    if frame.columns is not None and len(frame.columns) == agent.threads:
        for observer in agent.observers:
            observer.join(agent.numbers(frame).reshape(-1, agent.threads), node)
        return
    here = np.zeros((len(agent.blocks), agent.threads), np.bool_)
    here.reshape(-1)[frame.lanes] = True
    returned = np.zeros_like(here) if agent.returned is None else agent.returned.reshape(here.shape)
    missing = ~here & ~returned
    rows = np.flatnonzero(here.any(axis=1) & missing.any(axis=1))
    if len(rows):
        row = rows[0]
        parted = f"\n  parted by the {agent.splits[-1].op.name} at {agent.splits[-1].location}" if agent.splits else ""
        raise BarrierDivergenceError(
            f"{node.op.name}: threads of block {agent.block_text(row)} wait for others that do not come\n"
            f"  waiting: {_runs(here[row])}\n  not there: {_runs(missing[row])}{parted}{line(node)}"
        )
    if agent.observers:
        numbers = agent.numbers(frame)
        for block in np.split(numbers, np.flatnonzero(np.diff(numbers // agent.threads)) + 1):
            for observer in agent.observers:
                observer.join(block, node)
    agent.notes.append(f"{node.op.name} at {node.location}: some threads of a block have returned before it")


def _runs(flags: Array) -> str:
    """`0-127, 130` for the threads that are set, by linear number."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return ", ".join(str(a) if b - a == 1 else f"{a}-{b - 1}" for a, b in edges.reshape(-1, 2))


def _report(half: DeviceHalf, grid: tuple[int, ...], block: tuple[int, ...], program: Program, counts: Array, notes: list[str]) -> Report:
    report = Report(half.name, Extents(grid), Extents(block), notes=notes)
    for (node, kind), count in reversed(list(zip(program.counters, counts.tolist()))):
        report.instructions[node.op.name] = report.instructions.get(node.op.name, 0) + count
        if kind is not None:
            buffer: Buffer = node.attrs["buffer"]
            value = node.dtype or node.operands[-1].dtype
            assert value is not None
            report.accesses.append(AccessCount(buffer.name, buffer.scope, kind, node.location, value.bytes, count))
    return report
