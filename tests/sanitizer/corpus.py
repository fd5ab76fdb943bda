"""Planted bugs: a table of small kernels, each with the bug and, the same but for a line or two, without it.

A kernel takes the compile-time parameter `fixed`. The line where the bug shows has the comment `# BUG`, and the message must have every such
line (that of a race has both of its accesses).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from runtime.simulator.checks import Checks
from tracer import trace

MARK = "# BUG"


@dataclass(frozen=True)
class Planted:
    """`fn` specialised with `fixed=False` and called on `arguments()` must raise exactly `error`, of `buffer`; with `fixed=True` nothing.

    `number` is the row of the table of classes that the bug belongs to; `checks` what is asked for besides the default.
    """

    number: int
    fn: Callable[..., Any]
    error: type[Exception] | tuple[type[Exception], ...]
    buffer: str
    arguments: Callable[[], list[Any]]
    checks: Checks | bool = True
    marks: tuple[str, ...] = (MARK,)

    @property
    def name(self) -> str:
        return f"{self.number:02}-{self.fn.__name__}"

    def run(self, fixed: bool, seed: int | None = None) -> Any:
        """Trace and simulate, with a `seed` in another legal order; the result is the report."""
        return trace(self.fn).specialize(fixed=fixed).simulate(*self.arguments(), checks=self.checks, seed=seed)

    def lines(self) -> list[str]:
        """`file:line` of every marked line, the file by its last part, as messages before the run give it."""
        lines, start = inspect.getsourcelines(self.fn)
        file = os.path.basename(self.fn.__code__.co_filename)
        return [f"{file}:{start + k}" for k, line in enumerate(lines) if any(mark in line for mark in self.marks)]


CORPUS: list[Planted] = []


def planted(number: int, error: type[Exception] | tuple[type[Exception], ...], buffer: str, *arguments: Any,
            checks: Checks | bool = True, marks: tuple[str, ...] = (MARK,)) -> Callable[[Any], Any]:
    """Add the decorated kernel to the corpus. `arguments`: arrays (copied for each run) and scalars, or functions that make them; `marks`:
    the comments behind the lines that the message must have."""
    def made() -> list[Any]:
        return [a() if callable(a) else a.copy() if isinstance(a, np.ndarray) else a for a in arguments]

    def add(fn: Any) -> Any:
        CORPUS.append(Planted(number, fn, error, buffer, made, checks, marks))
        return fn
    return add


def f32(*shape: int) -> Any:
    """Numbers from 0 on."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def i32(*shape: int) -> Any:
    """Numbers from 0 on."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


def zeros(*shape: int, dtype: str = "float32") -> Any:
    """Zeros."""
    return np.zeros(shape, dtype)
