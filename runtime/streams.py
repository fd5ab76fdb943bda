"""Streams: the handle behind one of any library, and the one on which the frameworks of a call's arrays work now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime import arguments
from tracer.errors import ArgumentTypeError, ArgumentValueError


def stream_handle(stream: Any) -> int:
    """The CUstream behind an int, a PyTorch, CuPy or PyCUDA stream, or anything with `__cuda_stream__`.

    Raises `ArgumentTypeError` for anything else.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    told = getattr(stream, "__cuda_stream__", None)
    if told is not None:
        return int((told() if callable(told) else told)[1])
    for name in ("cuda_stream", "ptr", "handle"):   # PyTorch, CuPy, PyCUDA
        if hasattr(stream, name):
            return int(getattr(stream, name))
    raise ArgumentTypeError(f"stream: expected a CUDA stream (an int, a PyTorch, CuPy or PyCUDA stream, or an object with "
                            f"__cuda_stream__), got {stream!r}")


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
