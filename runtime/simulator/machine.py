"""The simulator: a device half run in NumPy, as the GPU would run it.

`simulate` is the definition of what a kernel means. It runs what lowering says (`lowered.integers`, `accesses[...].emitted`)
with CUDA's semantics: in lockstep, all threads of a chunk of blocks at once (`lockstep`), where threads wait for each other only at barriers of
the whole block; else one agent a warp, which wait for each other as they would on the GPU (`scheduler`).

Lockstep hides the order between threads. Where two threads store different values to one element in one statement, the one
with the greater number (block, then thread) wins, always; a GPU promises nothing.

With `checks` (the default) the run also looks for what no kernel should do; each finding is an exception of `tracer.errors`
with buffer, logical index, block, thread and Python line. What has no outcome at all (an element that does not exist, a division
by zero, a barrier that some threads do not reach, threads that wait for ever) is refused with or without them. Stores made before the failing
statement stay in the arrays, as on a GPU. A thread that has returned is not waited for at barriers (compute capability 7.0 and later); the
report notes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from codegen.lowered import DeviceHalf
from runtime.simulator import statements  # noqa: F401  (registers them)
from runtime.simulator.agent import Launch
from runtime.simulator.checks import Checks, checks_of
from runtime.simulator.counting import report_of
from runtime.simulator.doubts import Doubts
from runtime.simulator.engines import Engines
from runtime.simulator.events import Observer
from runtime.simulator.frames import Array
from runtime.simulator.lockstep import run_lockstep
from runtime.simulator.memory import Layout, Memory, global_memories, layout_of
from runtime.simulator.outputs import Outputs
from runtime.simulator.profile import Profile
from runtime.simulator.program import Program, program_of
from runtime.simulator.progress import Progress
from runtime.simulator.races import Races
from runtime.simulator.report import Report
from runtime.simulator.scheduler import run_warps
from symbolic.integers import Int, substitute
from tracer.addressing import cells_in
from tracer.errors import SimulationError
from tracer.ir import Buffer, Node, Storage


def simulate(half: DeviceHalf, grid: tuple[int, ...], block: tuple[int, ...], arrays: Mapping[Buffer, Array],
             values: Mapping[Node, Any], *, checks: bool | Checks = True, blocks: Iterable[int] | None = None,
             observers: Iterable[Observer] = (), seed: int | None = None, profile: bool = False) -> Report:
    """Run the kernel `half` on `grid` x `block` threads; stores go through to `arrays`.

    * `arrays`: for each parameter's buffer a flat view of its storage, element 0 where the data pointer points.
    * `values`: for each scalar parameter's and extent's node its value.
    * `observers` are told of everything that happens (see `events`).
    * `checks`: what is looked for (`checks.Checks`).
    * `blocks`: linear numbers (x fastest) of the blocks to run; all of them if None. Of a cluster all blocks run if one does.
    * `seed`: of another legal order of warps and of asynchronous operations.
    * `profile`: the report also has what accesses cost (`profile`).

    Raises a `SimulationError` for what the kernel does wrong (see the module), `NotSupportedError` for what cannot be
    simulated yet; the latter before anything ran.
    """
    wanted = checks_of(checks)
    program = program_of(half, wanted is not None, wanted is not None and wanted.nan)
    cluster = tuple(substitute(size, _known(values)).value for size in half.lowered.function.launch.cluster or ())
    launch = Launch(_three(grid), _three(block), _three(cluster))
    memory = global_memories({buffer.storage: array for buffer, array in arrays.items()})
    seen = Profile(half.lowered, launch.threads) if profile else None
    chosen = _chosen(blocks, launch.grid)
    watching = _watching(half, launch, memory, _known(values), wanted, len(chosen) == prod(launch.grid))
    engines = Engines((*watching, *observers, *([seen] if seen is not None else [])), seed, Progress(half.name, len(chosen)))
    engines.doubts = Doubts() if wanted is not None and wanted.races else None
    counts = [0] * len(program.counters)
    run = run_warps if program.warps else run_lockstep
    try:
        with np.errstate(all="ignore"):
            notes = run(program, launch, chosen, memory, _layout(program, _known(values)), values, engines, wanted is not None, counts)
    except SimulationError as error:
        if engines.doubts is not None:
            engines.doubts.settle(error)
        raise
    finally:
        engines.progress.end()
    if engines.doubts is not None:
        engines.doubts.settle()
    for observer in engines.observers:
        observer.end()
        notes += observer.notes()
    sample = (len(chosen), prod(launch.grid)) if len(chosen) != prod(launch.grid) else None
    return report_of(half, grid, block, program.counters, counts, list(dict.fromkeys(notes)), seen, sample)


def _three(extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*(int(e) for e in extents), 1, 1, 1)[:3]
    return x, y, z


def _chosen(blocks: Iterable[int] | None, grid: tuple[int, int, int]) -> Array:
    total = grid[0] * grid[1] * grid[2]
    chosen = np.arange(total) if blocks is None else np.unique(np.fromiter(blocks, np.int64))
    if chosen.size and not 0 <= chosen[0] <= chosen[-1] < total:
        raise ValueError(f"blocks must be in [0, {total}) for the grid {grid}, not {chosen[-1] if chosen[0] >= 0 else chosen[0]}")
    return chosen


def _known(values: Mapping[Node, Any]) -> dict[Int, int]:
    """The values of the symbols that the launch decides."""
    return {node.sym: int(value) for node, value in values.items() if node.sym is not None}


def _watching(half: DeviceHalf, launch: Launch, memory: Mapping[Storage, Memory], known: dict[Int, int], wanted: Checks | None,
              whole: bool) -> list[Observer]:
    """The observers that make the checks. Of a part of the grid nobody expects that it writes all outputs."""
    found: list[Observer] = []
    if wanted is not None and wanted.races:
        found.append(Races(half, launch.grid, launch.block, launch.cluster, known, wanted, memory))
    if wanted is not None and wanted.unwritten_outputs and whole:
        found.append(Outputs(half, memory, known))
    return found


def _layout(program: Program, known: dict[Int, int]) -> Layout:
    """Where the allocations lie in a block's shared memory; the size of dynamic ones may depend on extents."""
    return layout_of((storage, substitute(cells_in(storage), known).value, alignment) for storage, alignment in program.shared.items())
