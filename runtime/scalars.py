"""The numbers among the arguments of a call: what they are, and whether a dtype holds them."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from tracer.dtypes import dtype


def number_of(argument: Any) -> bool | int | float | None:
    """The Python number in a Python or NumPy scalar; None where it is neither."""
    if isinstance(argument, np.generic):
        argument = argument.item() if argument.dtype.kind in "biufV" else None
    for cls in (bool, int, float):
        if isinstance(argument, cls):
            return cls(argument)
    return None


def held(name: str, value: bool | int | float) -> Any:
    """`value` as a NumPy scalar of the dtype called `name`; None where that cannot hold it. Floats round to nearest even."""
    kind = dtype(name)
    if kind.kind != "float":
        low, high = kind.limits
        return kind.storage.type(value) if low <= value <= high else None
    try:
        exact = float(value)
    except OverflowError:   # an int beyond every float
        return None
    if abs(exact) <= _greatest(name) or not np.isfinite(exact):
        return kind.storage.type(exact)
    with np.errstate(over="ignore"):
        rounded = kind.storage.type(exact)
    return rounded if np.isfinite(float(rounded)) else None


@cache
def _greatest(name: str) -> float:
    """The greatest number of a float dtype."""
    return float(ml_dtypes.finfo(dtype(name).storage).max)


def what(argument: Any) -> str:
    """What came, for a message: `None`, `3.5 (a float)`, `a str`."""
    if argument is None:
        return "None"
    name = type(argument).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    return f"{argument} ({article} {name})" if number_of(argument) is not None else f"{article} {name}"
