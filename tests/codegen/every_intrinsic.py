"""Kernels that together use every intrinsic of `T.cuda` that needs neither descriptors nor async copies, on every dtype that it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tests.simulator.running import random
from tracer import T, trace
from tracer.intrinsics.atomics import DTYPES, SCOPES, WIDE_SINCE
from tracer.intrinsics.bits import FUNNEL_SHIFTS, WORDS
from tracer.intrinsics.cached import MOVED, VECTORS
from tracer.intrinsics.votes import MATCHED, REDUCTIONS
from tracer.spelling import CACHED_LOADS, CACHED_STORES

FULL = 0xFFFFFFFF


def _kernel(name: str, operand: str, result: str, body: Callable[[Any, Any], list[Any]]) -> Any:
    outputs: int = _count(body, operand)

    def kernel(A: T.Buffer((64,), operand), B: T.Buffer((64,), operand), C: T.Buffer((outputs, 64), result)) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        a, b = A[tx], B[tx]
        for k, value in enumerate(body(a, b)):
            C[k, tx] = value

    kernel.__name__ = name
    return trace(kernel)


def _count(body: Callable[[Any, Any], list[Any]], operand: str) -> int:
    found = 0

    def kernel(A: T.Buffer((64,), operand)) -> None:
        nonlocal found
        T.device_entry()
        tx = T.thread_id([64])
        found = len(body(A[tx], A[tx]))

    trace(kernel)
    return found


def _atomics(name: str, dtype: str) -> Any:
    """Each thread at an element of its own, so that there is one result: in every scope on global memory, and on shared memory.

    One more, of a mutable scalar that all threads share, has no result that counts.
    """
    scopes = SCOPES if dtype not in ("uint16", "float16", "bfloat16") else ("device",)

    def kernel(A: T.Buffer((64,), dtype), B: T.Buffer((64,), dtype), C: T.Buffer((3, 64), dtype)) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        act = getattr(T.cuda, f"atomic_{name}")
        tile, cell = T.alloc_shared((64,), dtype), T.shared_scalar(dtype)
        tile[tx] = A[tx]
        C[0, tx] = A[tx]
        with T.If(tx == 0):
            cell.assign(A[0])
        T.cuda.cta_sync()
        operands = (A[tx // 2 * 2], B[tx]) if name == "cas" else (B[tx],)
        for scope in scopes:
            act(C.ptr_to([0, tx]), *operands, scope=scope)
        C[1, tx] = act(tile.ptr_to([tx]), *operands)
        C[2, tx] = tile[tx]
        act(T.address_of(cell), *operands)

    kernel.__name__ = f"atomic_{name}_{dtype}"
    return trace(kernel)


def _paired_atomics(half: str) -> Any:
    def kernel(A: T.Buffer((64,), half, align=4), B: T.Buffer((64,), half, align=4), C: T.Buffer((128,), half, align=4)) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((32,), f"{half}x2")
        tile[tx] = A.vload([2 * tx], dtype=f"{half}x2")
        T.cuda.cta_sync()
        b = B.vload([2 * tx], dtype=f"{half}x2")
        T.cuda.atomic_add(tile.ptr_to([tx]), b)
        C.vstore([2 * tx], T.cuda.atomic_add(tile.ptr_to([tx]), 1.0))
        C.vstore([2 * tx + 64], b)
        T.cuda.atomic_add(C.view(f"{half}x2").ptr_to([tx + 32]), b + b)

    kernel.__name__ = f"atomic_add_{half}x2"
    return trace(kernel)


def _wide_atomics(dtype: str) -> Any:
    lanes = int(dtype[-1])

    def kernel(A: T.Buffer((128,), "float32", align=16), B: T.Buffer((128,), "float32", align=16), C: T.Buffer((384,), "float32", align=16)) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        a, b = A.vload([lanes * tx], dtype=dtype), B.vload([lanes * tx], dtype=dtype)
        vectors = C.view(dtype)
        for row, scope in enumerate(SCOPES):
            C.vstore([lanes * tx + 128 * row], a)
            C.vstore([lanes * tx + 128 * row], b + T.cuda.atomic_add(vectors.ptr_to([tx + 128 // lanes * row]), b, scope=scope))

    kernel.__name__ = f"atomic_add_{dtype}"
    return trace(kernel)


def _cached_vectors(dtype: str) -> Any:
    rows, lanes = len(CACHED_LOADS) + len(CACHED_STORES), int(dtype[-1])
    scalar = dtype[:-2]

    def kernel(A: T.Buffer((32 * lanes,), scalar, align=16), C: T.Buffer((rows, 32 * lanes), scalar, align=16)) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        for row, name in enumerate([*CACHED_LOADS.values(), *CACHED_STORES.values()]):
            act = getattr(T.cuda, name.removeprefix("T.cuda."))
            if row < len(CACHED_LOADS):
                C.vstore([row, lanes * tx], act(A.ptr_to([lanes * tx]), dtype))
            else:
                act(C.ptr_to([row, lanes * tx]), A.vload([lanes * (31 - tx)], dtype=dtype))

    kernel.__name__ = f"cached_{dtype}"
    return trace(kernel)


def _cached(dtype: str) -> Any:
    rows = len(CACHED_LOADS) + len(CACHED_STORES)

    def kernel(A: T.Buffer((64,), dtype), C: T.Buffer((rows, 64), dtype)) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        for row, name in enumerate([*CACHED_LOADS.values(), *CACHED_STORES.values()]):
            act = getattr(T.cuda, name.removeprefix("T.cuda."))
            if row < len(CACHED_LOADS):
                C[row, tx] = act(A.ptr_to([tx]), dtype)
            else:
                act(C.ptr_to([row, tx]), A[63 - tx])

    kernel.__name__ = f"cached_{dtype}"
    return trace(kernel)


def _order() -> Any:
    def order(A: T.Buffer((64,), "int64"), n: T.uint32) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        start = T.cuda.clock64()
        T.cuda.thread_fence()
        T.cuda.thread_fence_block()
        T.cuda.thread_fence_system()
        T.cuda.nano_sleep(n)
        T.cuda.clock64()
        A[tx] = T.cuda.clock64() - start

    return trace(order)


def _sums() -> Any:
    def sums(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        scratch = T.alloc_shared((2,), "float32")
        B[tx] = T.cuda.warp_sum(A[tx]) + T.cuda.cta_sum(A[tx], 2, scratch.ptr_to([0]))

    return trace(sums)


@cache
def kernels() -> dict[str, Any]:
    """Traced kernels by name."""
    cuda = T.cuda
    found = [
        _kernel("votes", "uint32", "uint32", lambda a, b: [
            cuda.ballot_sync(FULL, a < b), cuda.ballot_sync(b, a), T.select(cuda.any_sync(FULL, a == b), a, b),
            T.select(cuda.all_sync(b, a > 3), a, b), cuda.activemask(), cuda.ballot_sync(FULL, cuda.any_sync(FULL, a == b) ^ (a < b))]),
        _kernel("elected", "uint32", "uint32", lambda a, b: [T.select(cuda.elect_sync(), a, b), T.select(cuda.elect_sync(b), a, b)]),
        _kernel("words", "uint32", "uint32", lambda a, b: [
            cuda.byte_perm(a, b, 0x5410), *(f(a, b, b + 1) for f in FUNNEL_SHIFTS.values()), cuda.dp4a(a, b, a + b)]),
        _kernel("signed_words", "int32", "int32", lambda a, b: [cuda.dp4a(a, b, a + b), cuda.dp4a(a, b, 1), cuda.popc(a + 1)]),
        _kernel("floats", "float32", "float32", lambda a, b: [cuda.fdividef(a, b), cuda.uint_as_float(cuda.float_as_uint(a) + 1)]),
        _order(), _sums(),
    ]
    found += [_kernel(f"match_{dtype}", dtype, "uint32", lambda a, b: [
        cuda.match_any_sync(FULL, a), cuda.match_all_sync(FULL, b), cuda.match_all_sync(FULL, a + b)]) for dtype in MATCHED]
    for name in REDUCTIONS:
        dtype = "uint32" if name.endswith("u32") else "int32"
        found.append(_kernel(name, dtype, dtype, lambda a, b, name=name: [getattr(cuda, name)(FULL, a), getattr(cuda, name)(FULL, a + b)]))
    for dtype in WORDS:
        found.append(_kernel(f"counts_{dtype}", dtype, "int32", lambda a, b: [cuda.popc(a), cuda.clz(a + b), cuda.ffs(b)]))
        found.append(_kernel(f"brev_{dtype}", dtype, dtype, lambda a, b: [cuda.brev(a), cuda.brev(a + b) >> 3]))
    found += [_atomics(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes if "x" not in dtype]
    found += [_paired_atomics(half) for half in ("float16", "bfloat16")]
    found += [_wide_atomics(dtype) for dtype in WIDE_SINCE]
    found += [_cached(dtype) for dtype in MOVED]
    found += [_cached_vectors(dtype) for dtype in VECTORS]
    return {kernel.__name__: kernel for kernel in found}


def arguments(kernel: Any) -> list[Any]:
    """NumPy arrays for a call: `A` random, `B` random too but for the masks that it holds in votes, the others 77; scalars 20."""
    found: list[Any] = []
    for parameter in kernel.function.parameters:
        buffer = parameter.buffer
        if buffer is None:
            found.append(20)
            continue
        shape, storage = tuple(extent.value for extent in buffer.shape), buffer.dtype.storage
        if kernel.__name__ in ("votes", "elected") and parameter.name == "B":
            found.append(np.full(shape, FULL, np.uint32))
        elif parameter.name in ("A", "B"):
            found.append(random(storage, math.prod(shape), seed=len(found)).reshape(shape))
        else:
            found.append(np.full(shape, 77, storage))
    return found
