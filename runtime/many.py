"""Many kernels at once, on any `concurrent.futures.Executor`: threads, processes, or a pool of other machines.

What goes to a worker is the CUDA source as text, and what comes back the machine code, so that threads, processes,
dask.distributed (`client.get_executor()`), mpi4py.futures and others do. Results are kept in the cache of this machine too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from typing import Any

import runtime.cache
from codegen.architecture import check
from runtime import compiler
from runtime.compiler import Cubin
from runtime.executable import Executable, adopt, default_arch
from runtime.simulator.progress import Progress
from tracer.errors import KernelwrightError
from tracer.ir import Location


def compile_many(kernels: Iterable[Any], executor: Executor | None = None, arch: str | None = None,
                 options: Sequence[str] = ()) -> list[Executable]:
    """Each kernel as an `Executable`, in their order, compiled side by side; by default on threads, one a processor.

    Equal kernels are compiled once. Raises the first `CompileError`, when the others have ended; what did compile stays cached.
    """
    made = compile_each(list(kernels), executor, arch, options)
    for result in made:
        if isinstance(result, Exception):
            raise result
    return [result for result in made if isinstance(result, Executable)]


def compile_each(kernels: Sequence[Any], executor: Executor | None = None, arch: str | None = None,
                 options: Sequence[str] = ()) -> list[Executable | KernelwrightError]:
    """The same, with the error of a kernel that does not compile in its place."""
    arch = arch or default_arch()
    waiting: dict[Future[Cubin], list[int]] = {}
    results: list[Executable | KernelwrightError | None] = [None] * len(kernels)
    sent: dict[tuple[str, str], Future[Cubin]] = {}
    with ThreadPoolExecutor(os.cpu_count()) if executor is None else nullcontext(executor) as workers:
        for place, kernel in enumerate(kernels):
            try:
                check(kernel.half, arch)
                cuda = kernel.cuda
            except KernelwrightError as problem:
                results[place] = problem
                continue
            source = (cuda.text, cuda.entry)
            if source not in sent:
                sent[source] = workers.submit(compile_text, cuda.text, cuda.entry, arch, cuda.lines, tuple(options))
            waiting.setdefault(sent[source], []).append(place)
        bar = Progress("compiling", len(waiting), unit="kernels")
        try:
            for done in as_completed(waiting):
                bar.start(1)
                for place in waiting[done]:
                    results[place] = _result(kernels[place], arch, options, done)
        finally:
            bar.end()
    return [result for result in results if result is not None]


def _result(kernel: Any, arch: str, options: Sequence[str], done: Future[Cubin]) -> Executable | KernelwrightError:
    try:
        cubin = done.result()
    except KernelwrightError as problem:
        return problem
    if runtime.cache.load(cubin.key) is None:       # it was compiled on another machine
        compiler.keep(cubin, kernel.cuda.entry, options)
    return adopt(kernel, arch, options, cubin)


def compile_text(text: str, entry: str, arch: str, lines: Mapping[int, Location], options: Sequence[str]) -> Cubin:
    """One kernel's machine code: what a worker does."""
    return compiler.compile_cubin(text, entry, arch, lines, options)
