"""Calling a kernel: its host half checks the arguments, then it runs where the arrays are.

The host half is Python source (`codegen.host`), made once a kernel and executed here with what it may call. It serves the
simulator and the GPU alike, so that both refuse the same calls in the same words.
"""

from __future__ import annotations

import builtins
import linecache
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from codegen import host
from codegen.lowered import DeviceHalf
from runtime import arguments
from runtime.device import Parameters, device, stream_handle
from runtime.executable import Executable, compile
from runtime.indices import index_check
from runtime.simulator import simulate as run_simulator
from tracer import errors
from tracer.dtypes import DType
from tracer.errors import ArgumentValueError, NotSupportedError

Extent: TypeAlias = "tuple[int, int, int]"


def call(kernel: Any, args: Sequence[Any], stream: Any = None, using: Executable | None = None) -> None:
    """Run `kernel` on `args`: on the simulator for arrays in host memory, on their GPU for CUDA arrays.

    On a GPU it is enqueued on `stream`, by default the stream on which the arrays' framework works now, from the executable
    `using`, by default one compiled for that GPU. Raises `ArgumentError` or `LaunchError` before anything runs.
    """
    chosen = current_stream(args) if stream is None else stream

    def launch(ordinal: int | None, grid: Extent, block: Extent, shared: int, values: Sequence[Any], known: Sequence[Any]) -> None:
        if ordinal is not None:
            _refuse_unsupported(kernel.half)
            executable = using or compile(kernel, device(ordinal).arch)
            loaded = device(ordinal).load(executable.cubin, executable.entry)
            loaded.launch(grid, block, shared, _packing(kernel).pack(values), chosen)
        elif using is None:
            _simulate(kernel.half, grid, block, values, known, True)
        else:
            raise ArgumentValueError(f"{kernel.function.name}: an executable runs on CUDA arrays; these are in host memory")

    host_function(kernel)(partial(arguments.array_of, stream=stream_handle(chosen)), launch, *args)


def simulate(kernel: Any, *args: Any, checks: bool = True, grid: Sequence[int] | None = None, observers: Sequence[Any] = ()) -> Any:
    """Run `kernel` on the simulator and return its report. `grid` replaces the launch's own number of blocks; `observers`
    (`runtime.simulator.events`) are told of everything that happens.

    Raises `ArgumentError` for arguments that do not fit (CUDA arrays among them) and `SimulationError` for what the kernel
    does wrong. Returns None for an empty grid.
    """
    def launch(ordinal: int | None, own: Extent, block: Extent, shared: int, values: Sequence[Any], known: Sequence[Any]) -> Any:
        if ordinal is not None:
            raise ArgumentValueError(f"{kernel.function.name}: the simulator takes arrays in host memory, such as NumPy's; "
                                     f"these are on cuda:{ordinal}")
        x, y, z = own if grid is None else (*grid, 1, 1)[:3]
        return _simulate(kernel.half, (x, y, z), block, values, known, checks, observers)

    return host_function(kernel)(arguments.array_of, launch, *args)


# ---- the host half -----------------------------------------------------------------------------------------------------

def host_function(kernel: Any) -> Callable[..., Any]:
    """The host half of `kernel`, compiled once. Tracebacks show its lines."""
    made: Callable[..., Any] | None = kernel.memo.get("host")
    if made is None:
        made = kernel.memo["host"] = load_host(kernel.half)
    return made


def load_host(half: DeviceHalf) -> Callable[..., Any]:
    """The function that `codegen.host.host_source(half)` defines."""
    source = host.host_source(half)
    name = f"<host half of {half.lowered.function.name}, {id(half):x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    helpers = {
        "number_of": arguments.number_of, "what": arguments.what, "held": arguments.held, "overlap": arguments.overlap,
        "strides_differ": arguments.strides_differ, "check_indices": index_check(half), "truncdiv": _truncdiv,
        "truncmod": _truncmod,
        **{name: getattr(errors, name) for name in host.HELPERS if name.endswith("Error")},
    }
    exec(builtins.compile(source, name, "exec"), helpers)
    function: Callable[..., Any] = helpers[host.entry_name(half)]
    return function


def _truncdiv(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _truncmod(a: int, b: int) -> int:
    return a - b * _truncdiv(a, b)


# ---- running -----------------------------------------------------------------------------------------------------------

def _simulate(half: DeviceHalf, grid: Extent, block: Extent, values: Sequence[Any], known: Sequence[Any], checks: bool,
              observers: Sequence[Any] = ()) -> Any:
    views = {}
    for argument, value in zip(half.arguments, values):
        if argument.buffer is not None:
            array, _, offset, size = value
            views[argument.buffer] = arguments.storage_view(array, offset, size)
    return run_simulator(half, grid, block, views, dict(zip(host.known_nodes(half), known)), checks=checks, observers=observers)


def current_stream(args: Sequence[Any]) -> int:
    """The stream on which the frameworks of the arrays among `args` work now; the legacy default stream for none.

    Raises `ArgumentValueError` where two of them work on different streams.
    """
    found: dict[int, str] = {}
    for argument in args:
        kind = arguments.kind_of(type(argument))
        handle = None if kind is None else kind.stream(argument)
        if kind is not None and handle is not None:
            found.setdefault(handle, kind.name)
    if len(found) > 1:
        told = ", ".join(f"{name} on {handle:#x}" for handle, name in found.items())
        raise ArgumentValueError(f"the arrays' current streams differ ({told}); say which one to launch on with stream=")
    return next(iter(found), 0)


_ATTRIBUTES = {"tirx.programmatic_dependent_launch": "programmatic dependent launch",
               "tirx.cooperative_launch": "cooperative launch"}


def _refuse_unsupported(half: DeviceHalf) -> None:
    function = half.lowered.function
    asked = [words for key, words in _ATTRIBUTES.items() if function.attrs.get(key)]
    asked += ["a cluster"] * (function.launch.cluster is not None)
    asked += ["a preferred cluster"] * (function.launch.preferred_cluster is not None)
    if asked:
        raise NotSupportedError(f"{function.name}: launching with {' and '.join(asked)} on a GPU is not supported in this version")


def _packing(kernel: Any) -> Packing:
    made: Packing | None = kernel.memo.get("packing")
    if made is None:
        made = kernel.memo["packing"] = Packing([a.node.dtype if a.node is not None else None for a in kernel.half.arguments])
    return made


class Packing:
    """How a kernel's arguments lie in its parameter buffer: each aligned to its own size, as in a C struct.

    One dtype an argument, None for a pointer.
    """

    _CODES = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
              "uint64": "Q", "float16": "e", "bfloat16": "H", "float32": "f", "float64": "d"}

    def __init__(self, dtypes: Sequence[DType | None]) -> None:
        codes = ["P" if kind is None else self._CODES[kind.name] for kind in dtypes]
        self._struct = struct.Struct("@" + "".join(codes))
        self._offsets = tuple(struct.calcsize("@" + "".join(codes[:i + 1])) - struct.calcsize(code) for i, code in enumerate(codes))
        self._bits = [i for i, kind in enumerate(dtypes) if kind is not None and kind.name == "bfloat16"]

    def pack(self, values: Sequence[Any]) -> Parameters:
        """The parameter buffer for what the host half hands to its `launch`."""
        plain = [value[1] if type(value) is tuple else value for value in values]
        for i in self._bits:
            plain[i] = int(np.asarray(plain[i]).view(np.uint16))
        return Parameters(self._struct.pack(*plain), self._offsets)
