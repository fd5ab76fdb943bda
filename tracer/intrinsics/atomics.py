"""`T.cuda`: atomic operations on an element of global or shared memory. Each gives the value that it found.

`scope` says among whose threads the operation is atomic: "block", "device" (the default) or "system". The order is relaxed: a fence or
a barrier orders other accesses around it. Of a vector each lane is added atomically, not all of them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import operations as ops
from tracer.errors import DTypeError
from tracer.intrinsics.operands import element, exactly
from tracer.operations import Operation
from tracer.recorder import current
from tracer.values import Value, wrap

SCOPES = ("block", "device", "system")
# CUDA C++ Programming Guide, "Atomic Functions": the dtypes that each takes.
_WORDS = ("int32", "uint32", "int64", "uint64")
DTYPES: dict[str, tuple[str, ...]] = {
    "add": (*_WORDS, "float16", "bfloat16", "float32", "float64", "float16x2", "bfloat16x2", "float32x2", "float32x4"),
    "sub": ("int32", "uint32"),
    "min": _WORDS, "max": _WORDS, "and": _WORDS, "or": _WORDS, "xor": _WORDS,
    "exch": (*_WORDS, "float32"), "cas": ("uint16", *_WORDS), "inc": ("uint32",), "dec": ("uint32",),
}
# `float2 atomicAdd(float2*, float2)` and its like: in global memory, from one architecture on.
WIDE_SINCE = {"float32x2": "sm_90", "float32x4": "sm_90"}
_MEANINGS = {
    "add": "old + value (wraps)", "sub": "old - value (wraps)", "min": "the lesser of old and value", "max": "the greater of old and value",
    "and": "old & value", "or": "old | value", "xor": "old ^ value", "exch": "value", "cas": "value where old == compare, else old",
    "inc": "0 where old >= limit, else old + 1", "dec": "limit where old is 0 or > limit, else old - 1",
}


def _atomic(op: Operation) -> Callable[..., Value]:
    name = op.name.removeprefix("cuda.atomic_")
    arity = len(op.operands) - 1

    def atomic(pointer: Any, *values: Any, scope: str = "device") -> Value:
        recorder = current()
        recorder.observe()
        buffer, coords = element(pointer, op.name, recorder)
        if len(values) != arity:
            recorder.fail(f"T.{op.name}(pointer, {', '.join(op.operands[1:])}) takes {arity} operand(s) behind the pointer, got {len(values)}")
        if scope not in SCOPES:
            recorder.fail(f"`{op.name}`: scope={scope!r}; it is {', '.join(map(repr, SCOPES))}")
        if buffer.scope == "local":
            recorder.fail(f"`{op.name}` on {buffer.name!r}, which is each thread's own; atomics are for global and shared memory")
        if buffer.dtype.name not in DTYPES[name]:
            recorder.fail(f"`{op.name}` of {buffer.dtype}: the hardware has it for {', '.join(DTYPES[name])}", kind=DTypeError)
        if buffer.dtype.bits == 16 and scope != "device":
            recorder.fail(f"`{op.name}` of {buffer.dtype} has no scope={scope!r}; leave it out", kind=DTypeError)
        wide = WIDE_SINCE.get(buffer.dtype.name)
        if wide is not None and buffer.scope != "global":
            recorder.fail(f"`{op.name}` of {buffer.dtype} on {buffer.name!r} in {buffer.scope} memory; vectors of float32 are added in "
                          f"global memory. Add its lanes one by one, through {buffer.name}.view(\"float32\")", kind=DTypeError)
        operands = [exactly(value, buffer.dtype, op.name, recorder) for value in values]
        return wrap(recorder.record(op, [*coords, *operands], buffer.dtype, {"buffer": buffer, "scope": scope,
                                    **({} if wide is None else {"architecture": (wide,)})}), recorder)

    atomic.__name__ = atomic.__qualname__ = f"atomic_{name}"
    atomic.__doc__ = (f"`atomic_{name}(pointer, {', '.join(op.operands[1:])}, scope=\"device\")`: write {_MEANINGS[name]}; give the old value. "
                      f"For {', '.join(DTYPES[name])} ({op.source}).")
    return atomic


ATOMICS = {op.name.removeprefix("cuda."): _atomic(op) for op in ops.ATOMICS}
