"""`T.cuda`: loads and stores of global memory that say how they use the caches. Everything else about them is a plain load or store.

PTX ISA 9.7.9.1, cache operators, and 9.7.9.9 `ld.global.nc`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ir
from tracer import operations as ops
from tracer.buffers import Buffer
from tracer.dtypes import DType
from tracer.errors import DTypeError, TraceError
from tracer.instructions import WRITTEN_ROLES
from tracer.intrinsics.operands import element
from tracer.intrinsics.ptx.alignment import pointers
from tracer.operations import Effect
from tracer.recorder import Recorder, current
from tracer.spelling import CACHED_LOADS, CACHED_STORES
from tracer.values import Value, as_node, convert_for_store, wrap

_LOADS = {"nc": "through the read-only cache; the kernel must not write that memory", "ca": "cached at all levels", "cg": "cached in L2 only",
          "cs": "likely read once, evicted first", "lu": "the last use of a line", "cv": "not cached, fetched anew (volatile)"}
_STORES = {"wb": "written back", "cg": "cached in L2 only", "cs": "likely used once, evicted first", "wt": "written through to memory"}
MOVED = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64")
# CUDA's own vectors of 16 bytes at most.
VECTORS = (*(f"{name}x{lanes}" for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32") for lanes in (2, 4)),
           "float16x2", "bfloat16x2", "int64x2", "uint64x2", "float64x2")


def _place(pointer: Any, name: str, recorder: Recorder, writes: bool = False) -> tuple[ir.Buffer, tuple[ir.Node, ...]]:
    recorder.observe()
    buffer, coords = element(pointer, name, recorder, writes)
    if buffer.scope != "global":
        recorder.fail(f"`{name}` on {buffer.name!r} in {buffer.scope} memory; it is for global memory")
    return buffer, coords


def _check_moved(moved: DType, buffer: ir.Buffer, coords: Sequence[ir.Node], name: str, recorder: Recorder) -> None:
    """What is moved is an element of the buffer, or several of its neighbours along the last axis."""
    if moved.name not in (*MOVED, *VECTORS):
        recorder.fail(f"`{name}` of {moved}; it moves {', '.join((*MOVED, *VECTORS))}", kind=DTypeError)
    if moved is not buffer.dtype and (moved.scalar is not buffer.dtype or not coords):
        recorder.fail(f"`{name}` of {moved} from {buffer.name!r}, whose elements are {buffer.dtype}; the element types must agree", kind=DTypeError)
    if moved is not buffer.dtype and not recorder.dead:
        Buffer(buffer, recorder).check_bounds(coords[-1], len(coords) - 1, moved.lanes)


def _load(hint: str) -> Callable[..., Value]:
    name = CACHED_LOADS[hint].removeprefix("T.")

    def load(pointer: Any, dtype: Any) -> Value:
        recorder = current()
        buffer, coords = _place(pointer, name, recorder)
        wanted = recorder.dtype(dtype)
        _check_moved(wanted, buffer, coords, name, recorder)
        return wrap(recorder.record(ops.LOAD, coords, wanted, {"buffer": buffer, "cache": hint}), recorder)

    load.__name__ = load.__qualname__ = name.removeprefix("cuda.")
    load.__doc__ = f"Load the element at `pointer`, of `dtype`, or a vector that starts there, {_LOADS[hint]} (`__{load.__name__}`)."
    return load


def _store(hint: str) -> Callable[..., None]:
    name = CACHED_STORES[hint].removeprefix("T.")

    def store(pointer: Any, value: Any) -> None:
        recorder = current()
        buffer, coords = _place(pointer, name, recorder, writes=True)
        lanes = (as_node(value, buffer.dtype, recorder).dtype or buffer.dtype).lanes if isinstance(value, Value) else 1
        wanted = buffer.dtype if buffer.dtype.lanes > 1 else buffer.dtype.vector(lanes)
        _check_moved(wanted, buffer, coords, name, recorder)
        node = convert_for_store(value, wanted, repr(buffer.name), recorder)
        recorder.record(ops.STORE, [*coords, node], None, {"buffer": buffer, "cache": hint})

    store.__name__ = store.__qualname__ = name.removeprefix("cuda.")
    store.__doc__ = f"Store `value`, which may be a vector, from the element at `pointer` on, {_STORES[hint]} (`__{store.__name__}`)."
    return store


CACHED = {f.__name__: f for f in (*map(_load, CACHED_LOADS), *map(_store, CACHED_STORES))}


def check_read_only(function: ir.Function) -> None:
    """Raise `TraceError` where `ldg` reads memory that the kernel writes: the read-only cache would not see it."""
    written = {node.attrs["buffer"].storage: node for node in function.device.walk() if node.op.effect & Effect.WRITE}
    written |= {pointer.attrs["buffer"].storage: node for node in function.device.walk() if "form" in node.attrs
                for argument, pointer, _ in pointers(node) if argument.role in WRITTEN_ROLES}
    for node in function.device.walk():
        write = written.get(node.attrs["buffer"].storage) if node.attrs.get("cache") == "nc" else None
        if write is not None:
            raise TraceError(f"{node.location}: `cuda.ldg` reads {node.attrs['buffer'].name!r}, which the kernel writes at {write.location}; "
                             "the read-only cache does not see that. Write a plain load")
