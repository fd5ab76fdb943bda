"""The short way of a call, compiled: `short.c`, built once a machine by its C compiler, and what it is told of a kernel and its calls.

Python itself would cost more than twice the driver's launch (figures in docs). Where there is no C compiler or no header of Python's,
the function that the host half has in its source takes its place (`runtime.forms`).
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import runtime.cache
from codegen.host import ShortForm
from runtime import arguments
from runtime.driver import driver_function
from runtime.forms import MOST, Passed, comparison, current_stream, form_key, reach
from runtime.parameters import CODES, Packing

SOURCE = Path(__file__).with_name("short.c")
MODULE = "kernelwright_short"
LIMITS = {"MOST_BYTES": 4096, "MOST_PARAMETERS": 128, "MOST_ARRAYS": 32}       # what a kernel with a short way may have; C is told


@cache
def compiled() -> type[Any] | str:
    """The type that `short.c` defines, or why there is none."""
    problem = "no C compiler"
    for path in _candidates():
        try:
            if isinstance(path, str):
                return path
            loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
            spec = importlib.util.spec_from_file_location(MODULE, str(path), loader=loader)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            found: type[Any] = module.Short
            return found
        except ImportError as error:       # torn on the disk: the next candidate is built anew
            problem = str(error)
    return problem


def _candidates() -> Iterator[Path | str]:
    """Where the module may be: in the cache, else built there, else built for this process alone. A string says why it cannot be."""
    name = runtime.cache.key("short", SOURCE.read_text(), repr(LIMITS), sys.version, str(sysconfig.get_config_var("SOABI"))) + runtime.cache.MODULE
    kept = runtime.cache.folder() / name
    if kept.is_file():
        yield kept
    with tempfile.TemporaryDirectory(prefix="kernelwright-", ignore_cleanup_errors=True) as place:
        built = Path(place, name)
        problem = build(built)
        if problem:
            yield problem
            return
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            beside = kept.with_suffix(f".{os.getpid()}.tmp")
            shutil.copyfile(built, beside)
            os.replace(beside, kept)
            yield kept
        yield built         # the cache cannot be written, or nothing in it can be run


def build(target: Path) -> str:
    """Compile `short.c` for this Python; "" if that went well, else why not."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return "no C compiler (cc, gcc or clang) on PATH"
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").is_file():
        return f"no Python.h in {include}"
    limits = [f"-D{name}={limit}" for name, limit in LIMITS.items()]
    told = subprocess.run([compiler, "-O2", "-shared", "-fPIC", *limits, f"-I{include}", "-o", str(target), str(SOURCE)], capture_output=True,
                          text=True)
    return told.stderr.strip() or f"{compiler} failed" if told.returncode else ""


def fits(form: ShortForm, packing: Packing) -> bool:
    """Whether a kernel keeps within `LIMITS`."""
    return (packing.size <= LIMITS["MOST_BYTES"] and len(form.arrays) <= LIMITS["MOST_ARRAYS"]
            and max(len(packing.offsets), len(form.scalars)) <= LIMITS["MOST_PARAMETERS"])


class Shortcut:
    """The short way of one kernel, or of one executable of it. `call(*args)` launches and is True, or has done nothing and is False."""

    def __init__(self, form: ShortForm, packing: Packing, made: type[Any]) -> None:
        self.form, self.packing = form, packing
        offset = packing.offsets
        self.call: Any = made(
            form.count, form.arrays, tuple((array, offset[k], shift) for array, k, shift in form.pointers),
            tuple((array, offset[k]) for array, k in form.maps),
            tuple((place, -1 if k < 0 else offset[k], fixed, ord(CODES[kind])) for place, k, fixed, kind in form.scalars),
            form.pairs, tuple(offset), packing.size, MOST, driver_function("cuLaunchKernelEx"))

    def learn(self, passed: Passed) -> None:
        """Keep the form of a call, unless it is kept: then the call went the long way for another reason."""
        arrays = tuple(passed.args[place] for place, *_ in self.form.arrays)
        kind = next((kind for kind in KINDS if kind.takes(arrays)), None)
        known = self.call.knows(*passed.args, stream=passed.stream) if passed.named else self.call.knows(*passed.args)
        if kind is None or known:
            return
        same, expected = kind.comparison(arrays)
        ready = passed.ready()
        self.call.add(same, expected, kind.exchange(arrays), kind.stream(), ready.device, passed.stream, ready.config.getPtr(),
                      int(ready.function), passed.parameters, tuple(passed.known[i] for i in self.form.fixed),
                      tuple(map(kind.reach, arrays)), tuple(m.encode for m in passed.maps), tuple(m.address for m in passed.maps), ready)


# ---- the kinds of arrays that have it --------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Kind:
    """Arrays of one framework, all those of a call: whether these may come the short way; how C compares (a function of them all, or
    for each its type and attributes); its DLPack functions, if it has them in C; what gives its current stream otherwise; and the bytes
    that one array reaches over.
    """

    takes: Callable[[Sequence[Any]], bool]
    comparison: Callable[[Sequence[Any]], tuple[Any, Any]]
    exchange: Callable[[Sequence[Any]], Any]
    stream: Callable[[], Callable[[int], int]]
    reach: Callable[[Any], int]


def _takes_torch(arrays: Sequence[Any]) -> bool:
    return form_key(arrays, ()) is not None and all(0 not in a.shape for a in arrays)


def _takes_cupy(arrays: Sequence[Any]) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and all(type(a) is cupy.ndarray and 0 not in a.shape for a in arrays)


def _cupy_form(arrays: Sequence[Any]) -> tuple[Any, ...]:
    return tuple((type(a), ("shape", a.shape), ("strides", a.strides), ("dtype", a.dtype)) for a in arrays)


def _cupy_stream() -> Callable[[int], int]:
    """CuPy's own function for its current stream, where it takes a device as it does since version 9; its stream object costs more."""
    found: Callable[[int], int] | None = getattr(sys.modules.get("cupy_backends.cuda.stream"), "get_current_stream_ptr", None)
    try:
        if found is not None and found(-1) == arguments.CUPY.stream(None):
            return found
    except TypeError:
        pass
    return lambda device: arguments.CUPY.stream(None) or 0


def _cupy_reach(array: Any) -> int:
    return int(sum((size - 1) * abs(step) for size, step in zip(array.shape, array.strides))) + int(array.itemsize)


KINDS = (
    Kind(_takes_torch, lambda arrays: (comparison(arrays), None),
         lambda arrays: getattr(sys.modules["torch"].Tensor, "__dlpack_c_exchange_api__", None), current_stream, reach),
    Kind(_takes_cupy, lambda arrays: (None, _cupy_form(arrays)),
         lambda arrays: None, _cupy_stream, _cupy_reach),
)
