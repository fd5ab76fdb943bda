"""CUDA C++ to a cubin: NVRTC where it can be loaded, else nvcc. Needs no driver and no GPU.

Both compilers speak the same diagnostics (`name.cu(12): error: ...`) and both print ptxas's account of registers,
shared memory and spills under `-v`, so their logs are read by one reader. The architecture is always explicit.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import runtime.cache
from runtime.compiler_log import Resources, paired, resources, without_account
from tracer.errors import CompileError, CompilerNotFoundError
from tracer.ir import Location


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture. `log` holds the compiler's warnings; it is empty for clean source. `key` is its name in
    the cache.
    """

    code: bytes
    arch: str
    compiler: str
    resources: Resources
    log: str
    key: str


@dataclass(frozen=True, slots=True)
class Compiler:
    """One way to compile. `run(source, name, options)` gives the cubin (None: the source was refused) and the log."""

    name: str
    version: str
    options: tuple[str, ...]
    run: Callable[[str, str, list[str]], tuple[bytes | None, str]]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


_MAJORS = range(12, 16)     # versions of CUDA that name their NVRTC
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
    path = _nvcc_path()
    if path is None:
        return "nvcc: not on PATH, nor under CUDA_HOME or CUDA_PATH"
    told = subprocess.run([path, "--version"], capture_output=True, text=True)
    version = re.search(r"V([\d.]+)", told.stdout)
    if told.returncode or version is None:
        return f"nvcc: {path} --version failed: {told.stderr.strip()}"
    return Compiler("nvcc", version[1], _COMMON, lambda source, name, options: _run_nvcc(path, source, name, options))


def _nvcc_path() -> str | None:
    path = shutil.which("nvcc")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        path = path or shutil.which("nvcc", path=os.path.join(os.environ.get(variable, os.devnull), "bin"))
    return path


def compiler() -> Compiler:
    """The compiler in use. Raises `CompilerNotFoundError`, saying what was looked for and what to install."""
    reasons = []
    for find in (nvrtc, nvcc):
        found = find()
        if isinstance(found, Compiler):
            _remember(found)
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
    for found in [lambda: using] if using else [remembered_compiler, compiler]:
        chosen = found()
        if chosen is None:
            continue
        options = [f"--gpu-architecture={arch}", *chosen.options, *extra]
        name = runtime.cache.key("cubin", source, entry, str(chosen), *options)
        held = runtime.cache.load(name)
        if held is not None:
            head, code = held
            return Cubin(code, head["arch"], head["compiler"], Resources(**head["resources"]), head["log"], name)
    assert chosen is not None
    made_code, log = chosen.run(source, f"{entry}.cu", options)
    if made_code is None:
        raise CompileError(f"{chosen} refused {entry} for {arch}:\n{paired(log, lines or {})}")
    made = Cubin(made_code, arch, str(chosen), resources(log, entry), without_account(log), name)
    keep(made, entry, options)
    return made


def keep(cubin: Cubin, entry: str, options: Sequence[str]) -> None:
    """Put machine code into the cache of this machine, under the key that it was looked for with."""
    runtime.cache.store(cubin.key, {"kind": "cubin", "entry": entry, "options": list(options), "arch": cubin.arch, "compiler": cubin.compiler,
                                    "resources": asdict(cubin.resources), "log": cubin.log}, cubin.code)


# ---- the compiler's name without the compiler ------------------------------------------------------------------------

def remembered_compiler() -> Compiler | None:
    """The compiler that `compiler()` found when the machine was as it is now: enough to look into the cache with.

    To load NVRTC, or to ask nvcc for its version, takes ten times as long as to load a kernel. None where nothing is remembered.
    """
    held = runtime.cache.load(runtime.cache.key("compiler", *_fingerprint()))
    if held is None:
        return None
    head, _ = held

    def run(*_: Any) -> tuple[bytes | None, str]:
        raise AssertionError("what is remembered only names a compiler")
    return Compiler(head["name"], head["version"], tuple(head["options"]), run)


def _remember(found: Compiler) -> None:
    name = runtime.cache.key("compiler", *_fingerprint())
    head = {"kind": "compiler", "name": found.name, "version": found.version, "options": list(found.options)}
    if runtime.cache.load(name) != (head, b""):
        runtime.cache.store(name, head)


def _fingerprint() -> list[str]:
    """What decides which compiler is found: the environment, and the files that hold compilers, with size and time of change."""
    told = [sys.prefix, *(f"{name}={os.environ.get(name, '')}" for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"))]
    for path in sorted(_compiler_files()):
        file = path.stat()
        told.append(f"{path} {file.st_size} {file.st_mtime_ns}")
    return told


def _compiler_files() -> Iterator[Path]:
    nvcc_path = _nvcc_path()
    if nvcc_path:
        yield Path(nvcc_path)
    bound = importlib.util.find_spec("cuda")
    for root in (bound.submodule_search_locations or ()) if bound else ():
        yield from Path(root).glob("bindings/__init__.py")
    wheels = importlib.util.find_spec("nvidia")
    for root in (wheels.submodule_search_locations or ()) if wheels else ():
        yield from Path(root).glob("*/lib/libnvrtc.so*")
    for toolkit in {os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"} - {""}:
        yield from Path(toolkit).glob("lib64/libnvrtc.so*")
    named = (Path(f"/usr/lib/{os.uname().machine}-linux-gnu/libnvrtc.so.{major}") for major in _MAJORS)     # to list that folder takes long
    yield from (path for path in named if path.is_file())
