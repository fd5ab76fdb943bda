"""CUDA C++ to a cubin: NVRTC where it can be loaded, else nvcc. Needs no driver and no GPU.

Both compilers speak the same diagnostics (`name.cu(12): error: ...`) and both print ptxas's account of registers,
shared memory and spills under `-v`, so their logs are read by one reader. The architecture is always explicit.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import linecache
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import runtime.cache
from tracer.errors import CompileError, CompilerNotFoundError
from tracer.ir import Location


@dataclass(frozen=True, slots=True)
class Resources:
    """What one thread and one block of a kernel take, as ptxas reports it: registers a thread, the rest in bytes.

    `shared` is the static shared memory of a block, `local` the stack frame of a thread.
    """

    registers: int
    shared: int
    local: int
    spill_stores: int
    spill_loads: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture. `log` holds the compiler's warnings; it is empty for clean source."""

    code: bytes
    arch: str
    compiler: str
    resources: Resources
    log: str


@dataclass(frozen=True, slots=True)
class Compiler:
    """One way to compile. `run(source, name, options)` gives the cubin (None: the source was refused) and the log."""

    name: str
    version: str
    options: tuple[str, ...]
    run: Callable[[str, str, list[str]], tuple[bytes | None, str]]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


_COMMON = ("--std=c++17", "--ptxas-options=-v")


# ---- the two compilers -----------------------------------------------------------------------------------------------

@cache
def nvrtc() -> Compiler | str:
    """NVRTC through cuda-bindings, or why there is none: no binding, no library, or no headers to compile against."""
    try:
        binding = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError as problem:
        return f"NVRTC: {problem}"
    try:
        status, major, minor = binding.nvrtcVersion()
    except RuntimeError as problem:   # cuda-bindings loads libnvrtc on the first call
        return f"NVRTC: {str(problem).splitlines()[0]}"
    if status != binding.nvrtcResult.NVRTC_SUCCESS:
        return f"NVRTC: {status}"
    include = _include_folder()
    if include is None:
        return "NVRTC: no folder with cuda_fp16.h"
    # Its own cache, kept beside a driver, would answer without ptxas's account of registers and spills; `runtime.cache` is ours.
    return Compiler("NVRTC", f"{major}.{minor}", (*_COMMON, "--no-cache", f"--include-path={include}"), _run_nvrtc)


@cache
def nvcc() -> Compiler | str:
    """nvcc from PATH, CUDA_HOME or CUDA_PATH, or why there is none."""
    path = shutil.which("nvcc")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        path = path or shutil.which("nvcc", path=os.path.join(os.environ.get(variable, os.devnull), "bin"))
    if path is None:
        return "nvcc: not on PATH, nor under CUDA_HOME or CUDA_PATH"
    told = subprocess.run([path, "--version"], capture_output=True, text=True)
    version = re.search(r"V([\d.]+)", told.stdout)
    if told.returncode or version is None:
        return f"nvcc: {path} --version failed: {told.stderr.strip()}"
    return Compiler("nvcc", version[1], _COMMON, lambda source, name, options: _run_nvcc(path, source, name, options))


def compiler() -> Compiler:
    """The compiler in use. Raises `CompilerNotFoundError`, saying what was looked for and what to install."""
    reasons = []
    for find in (nvrtc, nvcc):
        found = find()
        if isinstance(found, Compiler):
            return found
        reasons.append(found)
    raise CompilerNotFoundError("no CUDA compiler: " + "; ".join(reasons)
                                + ". Run pip install 'kernelwright[nvrtc]', or put a CUDA toolkit's nvcc on PATH")


def _include_folder() -> str | None:
    """The folder of CUDA's headers: that of a wheel, a toolkit's, or the one beside nvcc."""
    return next((str(place) for place in _include_candidates() if (place / "cuda_fp16.h").is_file()), None)


def _include_candidates() -> Iterator[Path]:
    wheels = importlib.util.find_spec("nvidia")
    for root in (wheels.submodule_search_locations or ()) if wheels else ():
        yield from sorted(Path(root).glob("*/include"))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            yield Path(os.environ[variable], "include")
    path = shutil.which("nvcc")
    if path:
        yield Path(path).resolve().parent.parent / "include"
    yield Path("/usr/local/cuda/include")


def _run_nvrtc(source: str, name: str, options: list[str]) -> tuple[bytes | None, str]:
    binding = importlib.import_module("cuda.bindings.nvrtc")

    def call(function: Any, *arguments: Any) -> Any:
        status, *values = function(*arguments)
        if status != binding.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(f"NVRTC: {function.__name__}: {status.name}")
        return values[0] if values else None

    def text(size: Any, read: Any) -> bytes:
        held: bytes = b"\0" * call(size, program)
        call(read, program, held)
        return held

    program = call(binding.nvrtcCreateProgram, source.encode(), name.encode(), 0, [], [])
    try:
        status, = binding.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = text(binding.nvrtcGetProgramLogSize, binding.nvrtcGetProgramLog).rstrip(b"\0").decode()
        refused = status != binding.nvrtcResult.NVRTC_SUCCESS
        return (None if refused else text(binding.nvrtcGetCUBINSize, binding.nvrtcGetCUBIN)), log
    finally:
        call(binding.nvrtcDestroyProgram, program)


def _run_nvcc(path: str, source: str, name: str, options: list[str]) -> tuple[bytes | None, str]:
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as place:
        Path(place, name).write_text(source)
        command = [path, "--cubin", *options, "-o", "out.cubin", name]
        told = subprocess.run(command, cwd=place, capture_output=True, text=True)
        log = told.stderr + told.stdout
        return (None if told.returncode else Path(place, "out.cubin").read_bytes()), log


# ---- compiling -------------------------------------------------------------------------------------------------------

def compile_cubin(source: str, entry: str, arch: str, lines: Mapping[int, Location] | None = None,
                  extra: Sequence[str] = (), using: Compiler | None = None) -> Cubin:
    """The cubin of `source` for `arch` ("sm_90a"), from the disk cache where it is there.

    `entry` names the kernel, `lines` says which Python line each line of `source` (from 1) comes from, `extra` are
    options beside our own. Raises
    `CompileError`, with the compiler's message beside those lines; a failure is not cached.
    """
    using = using or compiler()
    options = [f"--gpu-architecture={arch}", *using.options, *extra]
    name = runtime.cache.key("cubin", source, entry, str(using), *options)
    held = runtime.cache.load(name)
    if held is not None:
        return _unpack(held)
    code, log = using.run(source, f"{entry}.cu", options)
    if code is None:
        raise CompileError(f"{using} refused {entry} for {arch}:\n{paired(log, lines or {})}")
    made = Cubin(code, arch, str(using), _resources(log, entry), _without_account(log))
    runtime.cache.store(name, _pack(made))
    return made


def _pack(cubin: Cubin) -> bytes:
    head = {"arch": cubin.arch, "compiler": cubin.compiler, "resources": asdict(cubin.resources), "log": cubin.log}
    return json.dumps(head, sort_keys=True).encode() + b"\n" + cubin.code


def _unpack(payload: bytes) -> Cubin:
    head, code = payload.split(b"\n", 1)
    fields = json.loads(head)
    return Cubin(code, fields["arch"], fields["compiler"], Resources(**fields["resources"]), fields["log"])


# ---- reading the log -------------------------------------------------------------------------------------------------

_PLACE = re.compile(r"^[^\s():]+\.cu(?:\((\d+)\)|:(\d+):\d+):", re.M)


def paired(log: str, lines: Mapping[int, Location]) -> str:
    """The compiler's messages, each followed by the Python line that its CUDA line comes from."""
    places = list(_PLACE.finditer(log))
    if not places:
        return log.strip()
    shown = [log[:places[0].start()].strip()]
    for place, following in zip(places, [*places[1:], None]):
        message = log[place.start():following.start() if following else len(log)].rstrip()
        said, _, rest = message.partition("\n\n")   # the message itself, then what closes the log
        location = lines.get(int(place[1] or place[2]))
        code = linecache.getline(location.file, location.line).strip() if location else ""
        origin = f"    from {location}, in {location.function}" + (f": {code}" if code else "") if location else ""
        shown += [said, origin, rest]
    return "\n".join(filter(None, shown))


def _without_account(log: str) -> str:
    """The log without ptxas's `-v` lines: warnings, or nothing."""
    kept = [line for line in log.splitlines()
            if not re.match(r"ptxas info|ptxas\s+\.\s|\s+\d+ bytes stack frame", line) and line.strip(" \0")]
    return "\n".join(kept)


def _resources(log: str, entry: str) -> Resources:
    """ptxas's figures for `entry`. Raises `CompileError` where the log does not have them."""
    account = log.partition(f"Compiling entry function '{entry}'")[2]

    def figure(pattern: str, otherwise: int | None = None) -> int:
        found = re.search(pattern, account)
        if found is None and otherwise is None:
            raise CompileError(f"the source has no kernel {entry}, or ptxas did not report on it:\n{log}")
        return int(found[1]) if found else int(otherwise or 0)

    return Resources(
        registers=figure(r"Used (\d+) registers"),
        shared=figure(r"(\d+) bytes smem", 0),
        local=figure(r"(\d+) bytes stack frame"),
        spill_stores=figure(r"(\d+) bytes spill stores"),
        spill_loads=figure(r"(\d+) bytes spill loads"),
    )
