"""Calling a kernel: its host half checks the arguments, then it runs where the arrays are.

The host half is Python source (`codegen.host`), made once a kernel and executed here with what it may call. It serves the
simulator and the GPU alike, so that both refuse the same calls in the same words.
"""

from __future__ import annotations

import builtins
import linecache
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import Any

from codegen import host
from codegen.host import LaunchShape
from runtime import arguments, forms
from runtime.device import device
from runtime.driver import bindings
from runtime.executable import Executable, compile
from runtime.forms import Forms, Launch
from runtime.indices import index_check, wide_index_check
from runtime.loaded import Traits, configuration
from runtime.narrow import narrow
from runtime.parameters import TENSOR_MAP, Packing
from runtime.short import EncodedMap, Shortcut, compiled, fits
from runtime.simulator import simulate as run_simulator
from runtime.simulator.checks import Checks
from runtime.streams import current_stream, stream_handle
from runtime.tensor_maps import encoder
from tracer import errors
from tracer.errors import ArgumentValueError


def call(kernel: Any, args: Sequence[Any], stream: Any = None, using: Executable | None = None) -> None:
    """Run `kernel` on `args`: on the simulator for arrays in host memory, on their GPU for CUDA arrays.

    On a GPU it is enqueued on `stream`, by default the stream on which the arrays' framework works now, from the executable
    `using`, by default one compiled for that GPU. Raises `ArgumentError` or `LaunchError` before anything runs.
    """
    chosen = current_stream(args) if stream is None else stream_handle(stream)

    def launch(ordinal: int | None, shape: LaunchShape, values: Sequence[Any], known: Sequence[Any]) -> None:
        if ordinal is not None:
            _launch(kernel, using, ordinal, shape, values, known, chosen, stream is not None, args)
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


# ---- the host half -----------------------------------------------------------------------------------------------------

def host_function(kernel: Any) -> Callable[..., Any]:
    """The host half of `kernel`, compiled once. Tracebacks show its lines."""
    made: Callable[..., Any] | None = kernel.memo.get("host")
    if made is None:
        half = kernel.half
        helpers = {
            "number_of": arguments.number_of, "what": arguments.what, "held": arguments.held, "overlap": arguments.overlap,
            "narrow": narrow,
            "strides_differ": arguments.strides_differ, "indices_fit": index_check(half), "LaunchShape": LaunchShape,
            "check_wide_indices": wide_index_check(kernel), "truncdiv": truncdiv, "truncmod": truncmod,
            **{name: getattr(errors, name) for name in host.HELPERS if name.endswith("Error")},
        }
        exec(_host_code(kernel), helpers)
        made = kernel.memo["host"] = helpers[host.entry_name(half)]
    return made


def _host_code(kernel: Any) -> CodeType:
    made: CodeType | None = kernel.memo.get("host code")
    if made is None:
        source = host.host_source(kernel.half)
        name = f"<host half of {kernel.function.name}, {id(kernel):x}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        made = kernel.memo["host code"] = builtins.compile(source, name, "exec")
    return made


def truncdiv(a: int, b: int) -> int:
    """C's division of ints."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def truncmod(a: int, b: int) -> int:
    """C's remainder of ints."""
    return a - b * truncdiv(a, b)


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


# ---- a GPU -------------------------------------------------------------------------------------------------------------

def _launch(kernel: Any, using: Executable | None, ordinal: int, shape: LaunchShape, values: Sequence[Any], known: Sequence[Any],
            stream: int, named: bool, args: Sequence[Any]) -> None:
    build = kernel.wide if shape.wide else kernel
    gpu = device(ordinal)
    if using is None:
        executable = compile(build, gpu.arch)
    else:
        executable = using.wide() if shape.wide else using
    loaded = gpu.load(executable.cubin, executable.entry)
    traits, packing = _traits(kernel), _packing(build)
    maps = [EncodedMap(value[0][1], encoder(argument.tensor_map, *value[1:]))
            for argument, value in zip(build.half.arguments, values) if argument.tensor_map is not None]
    parameters = packing.filled(_plain(build, values, maps))
    try:
        loaded.launch(shape, traits, parameters, stream)
        _learn(kernel, kernel if using is None else using, shape, args, known, bytes(parameters.memory)[:packing.size], maps,
               stream, named, lambda: Launch(ordinal, configuration(shape, traits, stream), loaded.function, packing))
    finally:
        packing.release(parameters)


def _plain(build: Any, values: Sequence[Any], maps: Sequence[EncodedMap]) -> list[Any]:
    """The arguments as they go into the parameter buffer."""
    encoded = iter([m.encode(m.address) for m in maps])
    return [value[1] if argument.buffer is not None else next(encoded) if argument.tensor_map is not None else value
            for argument, value in zip(build.half.arguments, values)]


def _traits(kernel: Any) -> Traits:
    asked = kernel.function.attrs
    return Traits(bool(asked.get("tirx.programmatic_dependent_launch")), bool(asked.get("tirx.cooperative_launch")))


def _packing(build: Any) -> Packing:
    made: Packing | None = build.memo.get("packing")
    if made is None:
        made = build.memo["packing"] = Packing([
            TENSOR_MAP if a.tensor_map is not None else None if a.node is None else a.node.dtype for a in build.half.arguments])
    return made


# ---- the short way -----------------------------------------------------------------------------------------------------

def _learn(kernel: Any, owner: Any, shape: LaunchShape, args: Sequence[Any], known: Sequence[Any], filled: bytes,
           maps: Sequence[EncodedMap], stream: int, named: bool, launch: Callable[[], Launch]) -> None:
    """Let later calls of `owner`, the kernel or an executable of it, go the short way: the compiled one, else that of the host half."""
    if not any(arguments.kind_of(type(a)) in (arguments.TORCH, arguments.CUPY) for a in args):
        return      # the other kinds have none
    if "short" not in owner.memo:
        made = _shortcut(kernel, owner)
        if made is None and "torch" not in sys.modules:
            return      # the other one is for PyTorch alone, which may yet come
        owner.memo["short"] = made or _forms(kernel, owner)
    kept: Shortcut | Forms | None = owner.memo["short"]
    if isinstance(kept, Shortcut) and not shape.wide:
        kept.learn(args, known, filled, maps, stream, named, launch)
    elif isinstance(kept, Forms) and not named:
        kept.learn(args, known, stream, launch)


def _shortcut(kernel: Any, owner: Any) -> Shortcut | None:
    made = compiled()
    if isinstance(made, str):
        return None
    form, packing = host.short_form(kernel.half), _packing(kernel)
    if form is None or not fits(form, packing):
        return None
    shortcut = Shortcut(form, packing, made)
    owner.again = shortcut.call
    return shortcut


def _forms(kernel: Any, owner: Any) -> Forms | None:
    ready = host.ready(kernel.half)
    if ready is None:
        return None
    kept = Forms(ready)
    scope = {"forms": kept.idle, "another": kept.another, "current_stream": forms.current_stream(),
             "enqueue": bindings().cuLaunchKernelEx, "SUCCESS": bindings().CUresult.CUDA_SUCCESS, "PackError": struct.error}
    exec(_host_code(kernel), scope)
    owner.again = scope[host.again_name(kernel.half)]
    return kept
