"""The fastest of many configurations of a kernel, on the arrays at hand: every one is traced and compiled, and run on the GPU."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from runtime import arguments, cache
from runtime.device import device
from runtime.driver import ask
from runtime.executable import Executable
from runtime.many import compile_each
from runtime.simulator.progress import Progress
from runtime.streams import current_stream
from tracer.errors import ArgumentValueError, KernelwrightError, SpecializeError

WARM_UP, RUNS = 3, 20       # launches of each configuration: those that are not counted, and those that are
BATCH = 5                   # launches between two events, so that the clock's step does not tell

Measure = Callable[[Any, Sequence[Any]], float]


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration: its constants, how many seconds a launch took (None: it does not work), and why it does not."""

    constants: dict[str, Any]
    seconds: float | None
    problem: str = ""

    def __str__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.constants.items())
        return f"{told}: {self.problem}" if self.seconds is None else f"{told}: {self.seconds * 1e6:.1f} us"


@dataclass(frozen=True, slots=True)
class Tuned:
    """What `tune` found: the kernel of the best configuration, its constants, and every trial, the fastest first."""

    kernel: Any
    constants: dict[str, Any]
    seconds: float
    trials: tuple[Trial, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.trials))


def tune(fn: Any, space: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]], args: Sequence[Any], executor: Executor | None = None,
         *, measure: Measure | None = None, options: Sequence[str] = ()) -> Tuned:
    """The fastest configuration of `fn`, a traced function with constexpr parameters or any function from constants to a kernel.

    `space` has for each constant the values to try, all combinations of them; or it is the configurations themselves, as dicts.
    They are compiled on `executor` (see `compile_many`) and run one after the other on `args`, CUDA arrays, of which the kernels
    get copies where the framework has a way to make them. `measure(executable, args)` gives seconds instead of the GPU's clock.
    The result is kept in the cache for the same kernels, arrays of the same form and the same GPU. A configuration that cannot be
    traced, compiled or launched is a trial with its problem.

    Raises `ArgumentValueError` for arrays in host memory without `measure`, and `SpecializeError` where no configuration works.
    """
    configurations = _configurations(space)
    made = [_made(fn, constants) for constants in configurations]
    place, form = _form_of(args, measure is not None)
    kernels = [kernel for kernel in made if not isinstance(kernel, str)]
    name = cache.key("tuning", place, form, *options, *(repr(c) for c in configurations), *(k if isinstance(k, str) else k.cuda.text for k in made))
    held = cache.load(name)
    if held is not None:
        trials = [Trial(constants, *told) for constants, told in zip(configurations, held[0]["trials"])]
    else:
        built = iter(compile_each(kernels, executor, None if place == "host" else place.split()[0], options) if kernels else [])
        results = [kernel if isinstance(kernel, str) else next(built) for kernel in made]
        trials = _tried(configurations, results, args, measure or _on_the_gpu)
        cache.store(name, {"kind": "tuning", "name": getattr(fn, "__name__", "kernel"), "arch": place,
                           "trials": [[trial.seconds, trial.problem] for trial in trials]})
    working = [(trial.seconds, number) for number, trial in enumerate(trials) if trial.seconds is not None]
    if not working:
        raise SpecializeError("no configuration works:\n" + "\n".join(f"  {trial}" for trial in trials))
    seconds, best = min(working)
    ordered = sorted(trials, key=lambda trial: float("inf") if trial.seconds is None else trial.seconds)
    return Tuned(made[best], configurations[best], seconds, tuple(ordered))


def _configurations(space: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(space, Mapping):
        return [dict(zip(space, values)) for values in itertools.product(*space.values())]
    return [dict(constants) for constants in space]


def _made(fn: Any, constants: Mapping[str, Any]) -> Any:
    """The kernel of one configuration, or why there is none."""
    try:
        return fn.specialize(**constants) if hasattr(fn, "specialize") else fn(**constants)
    except KernelwrightError as problem:
        return _first_line(problem)


def _form_of(args: Sequence[Any], measured: bool) -> tuple[str, str]:
    """Where the arrays are ("sm_90a NVIDIA H200", or "host"), and what else the times depend on: shapes, strides, dtypes, scalars."""
    places, form = set[int | None](), list[str]()
    for argument in args:
        array = arguments.array_of(argument)
        if isinstance(array, str):
            form.append(repr(argument))
        else:
            places.add(array.device)
            form.append(f"{array.shape} {array.strides} {array.dtype}")
    ordinals = [place for place in places if place is not None]
    if not ordinals and not measured:
        raise ArgumentValueError("tune measures on a GPU: pass CUDA arrays, or say how to measure with measure=")
    if not ordinals:
        return "host", "; ".join(form)
    gpu = device(min(ordinals))
    return f"{gpu.arch} {gpu.name}", "; ".join(form)


def _tried(configurations: Sequence[dict[str, Any]], results: Sequence[Any], args: Sequence[Any], measure: Measure) -> list[Trial]:
    bar = Progress("tuning", len(results), unit="configurations")
    try:
        trials = []
        for constants, result in zip(configurations, results):
            bar.start(1)
            trials.append(_trial(constants, result, args, measure))
        return trials
    finally:
        bar.end()


def _trial(constants: dict[str, Any], result: Any, args: Sequence[Any], measure: Measure) -> Trial:
    if not isinstance(result, Executable):
        return Trial(constants, None, result if isinstance(result, str) else _first_line(result))
    try:
        return Trial(constants, measure(result, [_copy(argument) for argument in args]))
    except KernelwrightError as problem:
        return Trial(constants, None, _first_line(problem))


def _copy(argument: Any) -> Any:
    """A kernel under test must not add to the caller's results: PyTorch tensors `clone`, others `copy`."""
    if isinstance(arguments.array_of(argument), str):
        return argument
    make = getattr(argument, "clone", None) or getattr(argument, "copy", None)
    return argument if make is None else make()


def _on_the_gpu(executable: Executable, args: Sequence[Any]) -> float:
    """Seconds a launch: the median over `RUNS` batches between two events on the arrays' stream."""
    stream = current_stream(args)
    arrays = [array for array in map(arguments.array_of, args) if not isinstance(array, str)]
    with device(arrays[0].device or 0).current():
        begin, end = ask("cuEventCreate", 0), ask("cuEventCreate", 0)
        try:
            times = []
            for turn in range(WARM_UP + RUNS):
                ask("cuEventRecord", begin, stream)
                for _ in range(BATCH):
                    executable(*args)
                ask("cuEventRecord", end, stream)
                ask("cuEventSynchronize", end)
                if turn >= WARM_UP:
                    times.append(ask("cuEventElapsedTime", begin, end) * 1e-3 / BATCH)
            return float(statistics.median(times))
        finally:
            ask("cuEventDestroy", begin)
            ask("cuEventDestroy", end)


def _first_line(problem: BaseException) -> str:
    return str(problem).split("\n", 1)[0]
