"""Calling a kernel: its host half checks the arguments, then it runs where the arrays are, on the simulator or a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from codegen import host
from codegen.host import LaunchShape
from runtime import arguments
from runtime.executable import Executable
from runtime.gpu import Call, run_on_gpu
from runtime.hosting import host_function
from runtime.simulator import simulate as run_simulator
from runtime.simulator.checks import Checks
from runtime.streams import current_stream, stream_handle
from tracer.errors import ArgumentValueError


def call(kernel: Any, args: Sequence[Any], stream: Any = None, using: Executable | None = None) -> None:
    """Run `kernel` on `args`: on the simulator for arrays in host memory, on their GPU for CUDA arrays.

    On a GPU it is enqueued on `stream`, by default the stream on which the arrays' framework works now, from the executable
    `using`, by default one compiled for that GPU. Raises `ArgumentError` or `LaunchError` before anything runs.
    """
    chosen = current_stream(args) if stream is None else stream_handle(stream)

    def launch(ordinal: int | None, shape: LaunchShape, values: Sequence[Any], known: Sequence[Any]) -> None:
        if ordinal is not None:
            run_on_gpu(Call(kernel, using, args, chosen, stream is not None), ordinal, shape, values, known)
        elif using is None:
            _simulate(kernel, shape, values, known, True)
        else:
            raise ArgumentValueError(f"{kernel.function.name}: an executable runs on CUDA arrays; these are in host memory")

    host_function(kernel)(partial(arguments.array_of, stream=chosen), launch, *args)


def simulate(kernel: Any, *args: Any, checks: bool | Checks = True, grid: Sequence[int] | None = None, observers: Sequence[Any] = (),
             seed: int | None = None) -> Any:
    """Run `kernel` on the simulator and return its report, profile included (`runtime.simulator.report`).

    * `grid`: run a sample of so many blocks along each axis, evenly spread over the launch's own grid; the report says so.
    * `observers` (`runtime.simulator.events`) are told of everything that happens; `checks` says what is looked for (`runtime.Checks`).
    * `seed`: run warps that wait for each other, and asynchronous operations, in another legal order.

    Raises `ArgumentError` for arguments that do not fit (CUDA arrays among them, and a sample larger than the grid) and `SimulationError`
    for what the kernel does wrong. Returns None for an empty grid.
    """
    def launch(ordinal: int | None, shape: LaunchShape, values: Sequence[Any], known: Sequence[Any]) -> Any:
        if ordinal is not None:
            raise ArgumentValueError(f"{kernel.function.name}: the simulator takes arrays in host memory, such as NumPy's; "
                                     f"these are on cuda:{ordinal}")
        blocks = None if grid is None else _sample(kernel, tuple(grid), shape.grid)
        return _simulate(kernel, shape, values, known, checks, blocks, observers, profile=True, seed=seed)

    return host_function(kernel)(arguments.array_of, launch, *args)


# ---- the simulator -----------------------------------------------------------------------------------------------------

def _simulate(kernel: Any, shape: LaunchShape, values: Sequence[Any], known: Sequence[Any], checks: bool | Checks,
              blocks: Sequence[int] | None = None, observers: Sequence[Any] = (), profile: bool = False, seed: int | None = None) -> Any:
    half = kernel.wide.half if shape.wide else kernel.half
    views = {}
    for argument, value in zip(half.arguments, values):
        if argument.buffer is not None:
            array, _, offset, size = value
            views[argument.buffer] = arguments.storage_view(array, offset, size)
        elif argument.tensor_map is not None:
            (array, _, offset, size), *_ = value
            parameter = kernel.function.parameters[argument.tensor_map.buffer.storage.parameter]
            views.setdefault(parameter.buffer, arguments.storage_view(array, offset, size))
    return run_simulator(half, shape.grid, shape.block, views, dict(zip(host.known_nodes(half), known)), checks=checks, blocks=blocks,
                         observers=observers, profile=profile, seed=seed)


def _sample(kernel: Any, wanted: tuple[int, ...], grid: tuple[int, int, int]) -> list[int]:
    """The linear numbers of `wanted` blocks along each axis, spread over the grid: at the ends of the grid things may be different."""
    counts = (*wanted, 1, 1)[:3]
    if not 0 < len(wanted) <= 3 or not all(0 < count <= size for count, size in zip(counts, grid)):
        raise ArgumentValueError(f"{kernel.function.name}: grid={wanted} asks for blocks that the launch does not have: its grid is {grid}")
    x, y, z = ([k * size // count for k in range(count)] for count, size in zip(counts, grid))
    return [i + grid[0] * (j + grid[1] * k) for k in z for j in y for i in x]
