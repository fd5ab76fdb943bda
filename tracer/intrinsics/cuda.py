"""`T.cuda`: barriers, shuffles, and the escape hatch `func_call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import operations as ops
from tracer.buffers import Buffer
from tracer.dtypes import DType, dtype
from tracer.intrinsics.operands import FULL_MASK, lane_mask
from tracer.operations import Operation
from tracer.recorder import current
from tracer.values import Value, as_node, cast, wrap

INT32 = dtype("int32")
SHUFFLED = ("int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64")


def cta_sync() -> None:
    """Barrier of the whole block; memory written before it is seen after it (`__syncthreads`)."""
    current().record(ops.CTA_SYNC)


def warp_sync(mask: Any = FULL_MASK) -> None:
    """Barrier of the lanes of `mask` (`__syncwarp`)."""
    recorder = current()
    recorder.record(ops.WARP_SYNC, [lane_mask(mask, recorder)])


def _shuffle(op: Operation, meaning: str) -> Callable[..., Value]:
    def shuffle(mask: Any, value: Any, lane: Any, width: int = 32) -> Value:
        recorder = current()
        recorder.observe()
        node = as_node(value, None, recorder)
        if node.dtype is None or node.dtype.name not in SHUFFLED:
            recorder.fail(f"`{op.name}` moves {', '.join(SHUFFLED)}; not {node.dtype}", node)
        if width not in (1, 2, 4, 8, 16, 32):
            recorder.fail(f"`{op.name}`: width={width!r}; it is 1, 2, 4, 8, 16 or 32")
        operands = [lane_mask(mask, recorder), node, cast(as_node(lane, INT32, recorder), INT32)]
        return wrap(recorder.record(op, operands, node.dtype, {"width": int(width)}), recorder)

    shuffle.__name__ = shuffle.__qualname__ = op.name.removeprefix("cuda.")
    shuffle.__doc__ = f"{meaning} Lanes outside the segment of `width` keep their own value ({op.source})."
    return shuffle


shfl_sync = _shuffle(ops.SHFL, "The value that lane `lane` of the segment holds.")
shfl_up_sync = _shuffle(ops.SHFL_UP, "The value of the lane `delta` below.")
shfl_down_sync = _shuffle(ops.SHFL_DOWN, "The value of the lane `delta` above.")
shfl_xor_sync = _shuffle(ops.SHFL_XOR, "The value of the lane whose number is this one's XOR `lane_mask`.")


def func_call(name: str, *args: Any, source_code: str, return_type: Any = "void") -> Value | None:
    """Call the CUDA `__device__` function `name`, whose text is `source_code` (emitted once, verbatim).

    Arguments are values, literals, pointers (`A.ptr_to([i])`, `A.data`) or buffers (their data pointer). Returns a value of
    dtype `return_type`, or nothing for "void".
    """
    recorder = current()
    recorder.observe()
    if not isinstance(name, str) or not name.isidentifier():
        recorder.fail(f"T.cuda.func_call: {name!r} is not the name of a function")
    for node in recorder.function.device.walk():
        if node.op is ops.FUNC_CALL and node.attrs["name"] == name and node.attrs["source_code"] != source_code:
            recorder.fail(f"T.cuda.func_call({name!r}) was given another source_code at {node.location}; one name has one text")
    operands = [as_node(a.data if isinstance(a, Buffer) else a, None, recorder) for a in args]
    result: DType | None = None if return_type in ("void", None) else recorder.dtype(return_type)
    node = recorder.record(ops.FUNC_CALL, operands, result, {"name": name, "source_code": source_code})
    return None if result is None else wrap(node, recorder)
