"""Kernels that together use every operation on every dtype that the language has it for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tracer import T, trace
from tracer import operations as ops

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
EIGHT_BIT_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
NUMBERS = INTEGERS + FLOATS
SCALARS = ("bool", *NUMBERS)

Binary = Callable[[Any, Any], Any]
ARITHMETIC: dict[str, Binary] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b, "neg": lambda a, _: -a, "min": lambda a, b: T.min(a, b), "max": lambda a, b: T.max(a, b),
    "abs": lambda a, _: T.abs(a), "select": lambda a, b: T.select(a == b, a, b),
}
INTEGER_ONLY: dict[str, Binary] = {
    "truncdiv": lambda a, b: T.truncdiv(a, b), "truncmod": lambda a, b: T.truncmod(a, b), "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a, _: ~a, "shl": lambda a, b: a << 3, "shr": lambda a, b: a >> 3,
}
LOGIC: dict[str, Binary] = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a, _: ~a}
COMPARISONS: dict[str, Binary] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}


def elementwise(dtype: str) -> dict[str, Binary]:
    """The operations on two values of `dtype` that give one of the same dtype."""
    if dtype == "bool":
        return LOGIC
    if dtype in INTEGERS:
        return {**ARITHMETIC, **INTEGER_ONLY}
    functions = {row.name: (lambda a, b, row=row: getattr(T, row.name)(*(a, b, a)[:len(row.operands)])) for row in ops.MATH}
    return {**ARITHMETIC, "div": lambda a, b: a / b, **functions}


def _kernel(name: str, body: Callable[[Any, Any], list[Any]], result: str, operand: str, outputs: int) -> Any:
    def kernel(A: T.Buffer((64,), operand), B: T.Buffer((64,), operand), C: T.Buffer((outputs, 64), result)) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        a, b = A[tx], B[tx]
        for k, value in enumerate(body(a, b)):
            C[k, tx] = value

    kernel.__name__ = name
    return trace(kernel)


@cache
def kernels() -> dict[str, Any]:
    """Traced kernels by name. Each reads `A` and `B` and writes all of `C`."""
    found = {}
    for dtype in SCALARS:
        table = elementwise(dtype)
        found[f"{dtype}_values"] = _kernel(f"{dtype}_values", lambda a, b, t=table: [f(a, b) for f in t.values()], dtype, dtype, len(table))
        found[f"{dtype}_nested"] = _kernel(f"{dtype}_nested", lambda a, b, t=table: [f(f(a, b), f(b, a)) for f in t.values()],
                                           dtype, dtype, len(table))
        tests = COMPARISONS if dtype != "bool" else {k: COMPARISONS[k] for k in ("eq", "ne")}
        found[f"{dtype}_tests"] = _kernel(f"{dtype}_tests", lambda a, b, t=tests: [f(a, b) for f in t.values()], "bool", dtype, len(tests))
        for target in (*SCALARS, *EIGHT_BIT_FLOATS):
            name = f"{dtype}_to_{target}"
            found[name] = _kernel(name, lambda a, b, t=target: [a.astype(t)], target, dtype, 1)
    for dtype in EIGHT_BIT_FLOATS:
        for target in (*SCALARS, *EIGHT_BIT_FLOATS):
            name = f"{dtype}_to_{target}"
            found[name] = _kernel(name, lambda a, b, t=target: [a.astype(t)], target, dtype, 1)
    for dtype in FLOATS:
        found[f"{dtype}_isnan"] = _kernel(f"{dtype}_isnan", lambda a, b: [T.isnan(a), T.isinf(b), T.isnan(a) | (a < b)], "bool", dtype, 3)
    for dtype in NUMBERS:
        for lanes in (2, 3, 4, 8, 16):
            name = f"{dtype}_by_{lanes}"
            found[name] = _vector_kernel(name, dtype, lanes)
    for dtype in (*SCALARS, *EIGHT_BIT_FLOATS):
        found[f"{dtype}_memory"] = _memory_kernel(f"{dtype}_memory", dtype)
    for dtype in ("int32", "int64", "uint32", "uint64", *FLOATS):
        found[f"{dtype}_shuffles"] = _kernel(f"{dtype}_shuffles", lambda a, b: [
            T.cuda.shfl_sync(0xFFFFFFFF, a, 3), T.cuda.shfl_up_sync(0xFFFFFFFF, a, 3), T.cuda.shfl_down_sync(0xFFFFFFFF, a, 1),
            T.cuda.shfl_xor_sync(0xFFFFFFFF, a + b, 1, width=8)], dtype, dtype, 4)
    return found


def _vector_kernel(name: str, dtype: str, lanes: int) -> Any:
    """Called with n = lanes: the kernel cannot know that `tx * n` lies on a vector's alignment."""
    vector = f"{dtype}x{lanes}"

    def kernel(A: T.Buffer((64 * lanes,), dtype), B: T.Buffer((64 * lanes,), dtype), C: T.Buffer((64 * (2 * lanes + 1),), dtype), n: T.int32) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        v = A.vload([tx * lanes], dtype=vector)
        w = B.vload([tx * n], dtype=vector)
        C.vstore([tx * lanes], v + w * v)
        C.vstore([tx * n + 64 * n], T.max(v, w))
        C[tx + 128 * lanes] = T.min(v, w)[0] + T.abs(-v)[lanes - 1]

    kernel.__name__ = name
    return trace(kernel)


def _memory_kernel(name: str, dtype: str) -> Any:
    def kernel(A: T.Buffer((64,), dtype), B: T.Buffer((64,), dtype), C: T.Buffer((2, 64), dtype)) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        tile = T.alloc_shared((64,), dtype)
        mine = T.alloc_local((4,), dtype)
        first = T.shared_scalar(dtype)
        x = T.local_scalar(dtype)
        tile[tx] = A[tx]
        mine[tx % 4] = B[tx]
        with T.If(tx == 0):
            first.assign(A[1])
        T.cuda.cta_sync()
        x.assign(mine[tx % 4])
        with T.If(tx > 40):
            x.assign(first)
        C[0, tx] = tile[63 - tx]
        C[1, tx] = x

    kernel.__name__ = name
    return trace(kernel)
