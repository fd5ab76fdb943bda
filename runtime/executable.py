"""A kernel compiled for one architecture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from codegen.architecture import check
from runtime.compiler import Cubin, compile_cubin
from runtime.compiler_log import Resources
from runtime.device import device
from tracer.errors import CompileError, LaunchError


def never(*_: Any, stream: Any = None) -> bool:
    """The short way of what has none."""
    return False


@dataclass(slots=True, eq=False)
class Executable:
    """Machine code for one architecture, and what the compiler said of it. Call it with CUDA arrays to run it.

    `source` is the CUDA C++, `entry` the kernel's name in it, `compiler` the compiler and its version, `log` its warnings.
    """

    kernel: Any
    cubin: bytes
    arch: str
    source: str
    entry: str
    compiler: str
    resources: Resources
    log: str
    options: tuple[str, ...] = ()
    memo: dict[Any, Any] = field(default_factory=dict)      # what the runtime keeps for its calls
    again: Callable[..., bool] = never                      # the short way; see `codegen.host.again`

    def __repr__(self) -> str:
        return f"<executable {self.entry} for {self.arch}, {self.resources.registers} registers, by {self.compiler}>"

    def __call__(self, *args: Any, stream: Any = None) -> None:
        """Run on CUDA arrays, as the kernel itself would. Raises `ArgumentError` and `LaunchError` before anything runs."""
        if not (self.again(*args) if stream is None else self.again(*args, stream=stream)):
            from runtime.launcher import call  # which compiles, and so imports this module
            call(self.kernel, args, stream, using=self)

    def wide(self) -> Executable:
        """The build of the same kernel, architecture and options whose indices have 64 bits."""
        return compile(self.kernel.wide, self.arch, self.options)


def compile(kernel: Any, arch: str | None = None, options: Sequence[str] = ()) -> Executable:
    """`kernel` for `arch` ("sm_90a"; None: the architecture of the first GPU), compiled once a kernel and cached on disk.

    `options` go to the compiler as they are; NVRTC and nvcc share most, `--fmad=false` (no fused multiply-add) among them.

    Raises `CompileError`; also where `arch` lacks an operation of the kernel, and where it is None and there is no GPU to take it from.
    """
    arch = arch or default_arch()
    made: Executable | None = kernel.memo.get(("executable", arch, *options))
    if made is None:
        check(kernel.half, arch)
        cuda = kernel.cuda
        made = adopt(kernel, arch, options, compile_cubin(cuda.text, cuda.entry, arch, cuda.lines, options))
    return made


def adopt(kernel: Any, arch: str, options: Sequence[str], cubin: Cubin) -> Executable:
    """The executable of `kernel` whose machine code is `cubin`; `compile` gives the same one from now on."""
    key = ("executable", arch, *options)
    if key not in kernel.memo:
        cuda = kernel.cuda
        kernel.memo[key] = Executable(kernel, cubin.code, arch, cuda.text, cuda.entry, cubin.compiler, cubin.resources, cubin.log,
                                      tuple(options))
    made: Executable = kernel.memo[key]
    return made


def default_arch() -> str:
    """The architecture of the first GPU. Raises `CompileError` where there is none."""
    try:
        return device(0).arch
    except LaunchError as problem:
        raise CompileError(f"no GPU to take the architecture from ({problem}); name one: compile(arch=\"sm_90a\")") from problem
