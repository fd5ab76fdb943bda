"""`T.cuda`: loads and stores of global memory that say how they use the caches. Everything else about them is a plain load or store.

PTX ISA 9.7.9.1, cache operators, and 9.7.9.9 `ld.global.nc`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import ir
from tracer import operations as ops
from tracer.errors import DTypeError, TraceError
from tracer.intrinsics.operands import element
from tracer.operations import Effect
from tracer.recorder import Recorder, current
from tracer.spelling import CACHED_LOADS, CACHED_STORES
from tracer.values import Value, convert_for_store, wrap

_LOADS = {"nc": "through the read-only cache; the kernel must not write that memory", "ca": "cached at all levels", "cg": "cached in L2 only",
          "cs": "likely read once, evicted first", "lu": "the last use of a line", "cv": "not cached, fetched anew (volatile)"}
_STORES = {"wb": "written back", "cg": "cached in L2 only", "cs": "likely used once, evicted first", "wt": "written through to memory"}
MOVED = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64")


def _place(pointer: Any, name: str, recorder: Recorder) -> tuple[ir.Buffer, tuple[ir.Node, ...]]:
    recorder.observe()
    buffer, coords = element(pointer, name, recorder)
    if buffer.scope != "global":
        recorder.fail(f"`{name}` on {buffer.name!r} in {buffer.scope} memory; it is for global memory")
    if buffer.dtype.name not in MOVED:
        recorder.fail(f"`{name}` of {buffer.dtype}; it moves {', '.join(MOVED)}", kind=DTypeError)
    return buffer, coords


def _load(hint: str) -> Callable[..., Value]:
    name = CACHED_LOADS[hint].removeprefix("T.")

    def load(pointer: Any, dtype: Any) -> Value:
        recorder = current()
        buffer, coords = _place(pointer, name, recorder)
        wanted = recorder.dtype(dtype)
        if wanted is not buffer.dtype:
            recorder.fail(f"`{name}` of {wanted} from {buffer.name!r}, whose elements are {buffer.dtype}; vector and other types are not "
                          "supported here", kind=DTypeError)
        return wrap(recorder.record(ops.LOAD, coords, wanted, {"buffer": buffer, "cache": hint}), recorder)

    load.__name__ = load.__qualname__ = name.removeprefix("cuda.")
    load.__doc__ = f"Load the element at `pointer`, of `dtype`, {_LOADS[hint]} (`__{load.__name__}`)."
    return load


def _store(hint: str) -> Callable[..., None]:
    name = CACHED_STORES[hint].removeprefix("T.")

    def store(pointer: Any, value: Any) -> None:
        recorder = current()
        buffer, coords = _place(pointer, name, recorder)
        node = convert_for_store(value, buffer.dtype, repr(buffer.name), recorder)
        recorder.record(ops.STORE, [*coords, node], None, {"buffer": buffer, "cache": hint})

    store.__name__ = store.__qualname__ = name.removeprefix("cuda.")
    store.__doc__ = f"Store `value` in the element at `pointer`, {_STORES[hint]} (`__{store.__name__}`)."
    return store


CACHED = {f.__name__: f for f in (*map(_load, CACHED_LOADS), *map(_store, CACHED_STORES))}


def check_read_only(function: ir.Function) -> None:
    """Raise `TraceError` where `ldg` reads memory that the kernel writes: the read-only cache would not see it."""
    written = {node.attrs["buffer"].storage: node for node in function.device.walk() if node.op.effect & Effect.WRITE}
    for node in function.device.walk():
        write = written.get(node.attrs["buffer"].storage) if node.attrs.get("cache") == "nc" else None
        if write is not None:
            raise TraceError(f"{node.location}: `cuda.ldg` reads {node.attrs['buffer'].name!r}, which the kernel writes at {write.location}; "
                             "the read-only cache does not see that. Write a plain load")
