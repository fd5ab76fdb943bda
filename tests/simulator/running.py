"""Run a traced kernel on the simulator without the launcher: arguments are taken as they are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from runtime.simulator import Report, simulate
from runtime.simulator.checks import Checks
from symbolic.integers import substitute


def run(kernel: Any, *args: Any, checks: Any = True, blocks: Any = None, observers: Any = (), profile: bool = False,
        seed: int | None = None) -> Report:
    """Arguments in parameter order: C-contiguous arrays and scalars. Extents must stand bare in some shape."""
    function = kernel.function
    arrays, values, known = {}, {}, {}
    for parameter, argument in zip(function.parameters, args, strict=True):
        if parameter.buffer is None:
            values[parameter.node] = argument
            continue
        arrays[parameter.buffer] = argument.reshape(-1)
        known |= {extent: size for extent, size in zip(parameter.buffer.shape, argument.shape) if extent in function.atoms}
    values |= {node: known[node.sym] for node in function.extents}
    for symbol, node in function.atoms.items():
        if node in values:
            known.setdefault(symbol, int(values[node]))
    grid, block = ([substitute(size, known).value for size in sizes] for sizes in (function.launch.grid, function.launch.block))
    return simulate(kernel.half, tuple(grid) or (1,), tuple(block), arrays, values, checks=checks, blocks=blocks, observers=observers,
                    profile=profile, seed=seed)


ALONE = Checks(races=False)         # what the machine itself finds, whatever else is wrong


def fails(error: type[Exception], kernel: Any, *args: Any, **options: Any) -> str:
    """The message of a run that fails, with lines counted from the kernel's `def` below its `@trace`: `+3` is the third behind it."""
    with pytest.raises(error) as caught:
        run(kernel, *args, checks=ALONE, **options)
    first = kernel.function.location.line + 1
    return re.sub(r"(?:/\S+/)?test_\w+\.py:(\d+)", lambda m: f"+{int(m[1]) - first}", str(caught.value))


def random(dtype: Any, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Values of every kind that a dtype has: for floats also zeros of both signs, infinities, NaN, denormals."""
    rng = np.random.default_rng(seed)
    storage = np.dtype(dtype)
    if storage == np.bool_:
        return rng.integers(0, 2, count).astype(np.bool_)
    if storage.kind in "iu":
        limits = np.iinfo(storage)
        values = rng.integers(limits.min, limits.max, count, dtype=storage, endpoint=True)
        small = rng.integers(0, 100, count).astype(storage)
        values = np.where(rng.random(count) < 0.5, values, small)
        values[:4] = [limits.min, limits.max, 0, 1]
        return values
    raw = np.frombuffer(rng.bytes(count * storage.itemsize), storage)
    near = (rng.standard_normal(count) * 4).astype(storage)
    values = np.where(rng.random(count) < 0.5, raw, near)
    values[:6] = np.array([0.0, -0.0, 1.0, -1.5, np.inf, np.nan]).astype(storage)
    return values
