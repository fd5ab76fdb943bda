"""Kernels that together use every intrinsic of `T.cuda` that needs neither descriptors nor async copies, on every dtype that it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tracer import T, trace
from tracer.intrinsics.atomics import DTYPES, SCOPES
from tracer.intrinsics.bits import FUNNEL_SHIFTS, WORDS
from tracer.intrinsics.cached import MOVED
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
    """In every scope that there is, on global and shared memory and through a pointer to a mutable scalar; a result used and one not."""
    scopes = SCOPES if dtype not in ("uint16", "float16", "bfloat16") else ("device",)

    def kernel(A: T.Buffer((64,), dtype), B: T.Buffer((64,), dtype)) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        tile, cell = T.alloc_shared((64,), dtype), T.shared_scalar(dtype)
        tile[tx] = A[tx]
        with T.If(tx == 0):
            cell.assign(A[0])
        T.cuda.cta_sync()
        v = A[63 - tx]
        operands = (v, A[tx // 2]) if name == "cas" else (v,)
        for scope in scopes:
            B[tx] = getattr(T.cuda, f"atomic_{name}")(tile.ptr_to([tx // 4]), *operands, scope=scope)
            getattr(T.cuda, f"atomic_{name}")(B.ptr_to([tx // 4]), *operands, scope=scope)
        getattr(T.cuda, f"atomic_{name}")(T.address_of(cell), *operands)

    kernel.__name__ = f"atomic_{name}_{dtype}"
    return trace(kernel)


def _cached(dtype: str) -> Any:
    def kernel(A: T.Buffer((64,), dtype), B: T.Buffer((64,), dtype)) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        for hint in CACHED_LOADS.values():
            B[tx] = getattr(T.cuda, hint.rsplit(".", 1)[1])(A.ptr_to([tx]), dtype)
        for hint in CACHED_STORES.values():
            getattr(T.cuda, hint.rsplit(".", 1)[1])(B.ptr_to([63 - tx]), A[tx])

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
        cuda.match_any_sync(FULL, a), cuda.match_all_sync(FULL, b), cuda.match_all_sync(0xFFFF, a + b)]) for dtype in MATCHED]
    for name in REDUCTIONS:
        dtype = "uint32" if name.endswith("u32") else "int32"
        found.append(_kernel(name, dtype, dtype, lambda a, b, name=name: [getattr(cuda, name)(FULL, a), getattr(cuda, name)(0xFF, a + b)]))
    for dtype in WORDS:
        found.append(_kernel(f"counts_{dtype}", dtype, "int32", lambda a, b: [cuda.popc(a), cuda.clz(a + b), cuda.ffs(b)]))
        found.append(_kernel(f"brev_{dtype}", dtype, dtype, lambda a, b: [cuda.brev(a), cuda.brev(a + b) >> 3]))
    found += [_atomics(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes]
    found += [_cached(dtype) for dtype in MOVED]
    return {kernel.__name__: kernel for kernel in found}
