"""Intrinsics used wrongly: each message says what is taken instead. And what a trace makes of those used rightly."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.tracer.test_capture import body
from tracer import T, trace
from tracer.errors import DTypeError, TraceError


def refused(act: Any, kind: type[TraceError] = TraceError) -> str:
    def kernel(A: T.Buffer((256, 8), "float32"), I: T.Buffer((256,), "int32"), H: T.Buffer((256,), "float16")):  # noqa: E741
        T.device_entry()
        tx = T.thread_id([256])
        act(A, I, H, tx)

    with pytest.raises(TraceError) as caught:
        trace(kernel)
    assert type(caught.value) is kind
    assert re.match(r".*test_intrinsics.py:\d+: ", str(caught.value))
    return str(caught.value)


FULL = 0xFFFFFFFF
MISUSES: dict[str, tuple[Any, str]] = {
    "a value for a pointer": (lambda A, I, H, tx: T.cuda.atomic_add(A[tx, 0], 1.0),
                              r"`cuda.atomic_add` takes a pointer to one element, A.ptr_to\(\[i, j\]\) or T.address_of\(x\), not <float32 value"),
    "a buffer for a pointer": (lambda A, I, H, tx: T.cuda.atomic_add(I, 1), r"not a buffer; write A.ptr_to\(\[i\]\)"),
    "memory for a pointer": (lambda A, I, H, tx: T.cuda.atomic_add(I.data, 1), r"not a buffer's whole memory; write A.ptr_to\(\[0\]\)"),
    "a number for a pointer": (lambda A, I, H, tx: T.cuda.ldg(7, "float32"), r"`cuda.ldg` takes a pointer to one element.*, not 7"),
    "too few operands": (lambda A, I, H, tx: T.cuda.atomic_cas(I.ptr_to([0]), 1),
                         r"T.cuda.atomic_cas\(pointer, compare, value\) takes 2 operand\(s\) behind the pointer, got 1"),
    "a scope": (lambda A, I, H, tx: T.cuda.atomic_add(I.ptr_to([0]), 1, scope="gpu"), r"scope='gpu'; it is 'block', 'device', 'system'"),
    "local memory": (lambda A, I, H, tx: T.cuda.atomic_add(T.address_of(T.local_scalar("int32", 0)), 1),
                     r"which is each thread's own; atomics are for global and shared memory"),
    "an index beyond": (lambda A, I, H, tx: T.cuda.atomic_add(I.ptr_to([256]), 1), r"index 0 of 'I' is 256, which is out of bounds for every thread"),
    "a shared sum": (lambda A, I, H, tx: T.cuda.cta_sum(A[tx, 0], 8, A.ptr_to([0, 0])),
                     r"needs 8 float32 elements of shared memory as scratch, not 'A' \(float32, global\); "
                     r"write T.alloc_shared\(\(8,\), \"float32\"\)"),
    "too little scratch": (lambda A, I, H, tx: T.cuda.cta_sum(A[tx, 0], 8, T.alloc_shared((7,), "float32").ptr_to([0])),
                           r"is 7, which is out of bounds for every thread: the extent is 7"),
    "warps": (lambda A, I, H, tx: T.cuda.cta_sum(A[tx, 0], 33, T.alloc_shared((64,), "float32").ptr_to([0])),
              r"warps=33; it is the number of the block's warps, 1 to 32"),
    "too few warps": (lambda A, I, H, tx: [T.warp_id([8]), T.cuda.cta_sum(A[tx, 0], 4, T.alloc_shared((4,), "float32").ptr_to([0]))],
                      r"T.warp_id was declared with extent \[8\], and 4 is needed here"),
    "a guarded atomic": (lambda A, I, H, tx: T.if_then_else(tx < 3, T.cuda.atomic_add(I.ptr_to([0]), 1) + 1, 0),
                         r"`cuda.atomic_add` inside T.if_then_else would be performed whether it is chosen or not; put it into a T.If"),
    "a hint on shared memory": (lambda A, I, H, tx: T.cuda.ldcg(T.alloc_shared((8,), "int32").ptr_to([0]), "int32"),
                                r"`cuda.ldcg` on .* in shared memory; it is for global memory"),
}
DTYPES: dict[str, tuple[Any, str]] = {
    "an atomic that there is not": (lambda A, I, H, tx: T.cuda.atomic_min(A.ptr_to([0, 0]), 1.0),
                                    r"`cuda.atomic_min` of float32: the hardware has it for int32, uint32, int64, uint64$"),
    "inc of int32": (lambda A, I, H, tx: T.cuda.atomic_inc(I.ptr_to([0]), 1), r"`cuda.atomic_inc` of int32: the hardware has it for uint32$"),
    "a narrowing operand": (lambda A, I, H, tx: T.cuda.atomic_add(I.ptr_to([0]), A[tx, 0]),
                            r"`cuda.atomic_add` takes int32; not float32. Write .astype\('int32'\)"),
    "halves and scopes": (lambda A, I, H, tx: T.cuda.atomic_add(H.ptr_to([0]), 1.0, scope="block"),
                          r"`cuda.atomic_add` of float16 has no scope='block'; leave it out"),
    "popc of a float": (lambda A, I, H, tx: T.cuda.popc(A[tx, 0]), r"`cuda.popc` takes int32, uint32, int64, uint64; not float32"),
    "popc of a byte": (lambda A, I, H, tx: T.cuda.popc(tx.astype("uint8")), r"not uint8. Write .astype\('int32'\)"),
    "byte_perm of int32": (lambda A, I, H, tx: T.cuda.byte_perm(tx, tx, 0), r"`cuda.byte_perm` takes uint32; not int32"),
    "a mixed dp4a": (lambda A, I, H, tx: T.cuda.dp4a(tx, tx.astype("uint32"), 0), r"`cuda.dp4a` takes int32; not uint32"),
    "fdividef of halves": (lambda A, I, H, tx: T.cuda.fdividef(A[tx, 0].astype("float64"), 2.0), r"`cuda.fdividef` takes float32; not float64"),
    "bits of a double": (lambda A, I, H, tx: T.cuda.float_as_uint(A[tx, 0].astype("float64")), r"`cuda.float_as_uint` takes float32; not float64"),
    "a float predicate": (lambda A, I, H, tx: T.cuda.ballot_sync(FULL, A[tx, 0]), r"`a vote's predicate` takes bool; not float32"),
    "match of halves": (lambda A, I, H, tx: T.cuda.match_any_sync(FULL, H[tx]), r"`cuda.match_any_sync` takes int32, .*float64; not float16"),
    "reduction": (lambda A, I, H, tx: T.cuda.reduce_add_sync_u32(FULL, tx), r"`cuda.reduce_add_sync_u32` takes uint32; not int32"),
    "ldg of another type": (lambda A, I, H, tx: T.cuda.ldg(A.ptr_to([0, 0]), "int32"), r"`cuda.ldg` of int32 from 'A', whose elements are float32"),
    "a hinted narrowing store": (lambda A, I, H, tx: T.cuda.stcs(I.ptr_to([0]), A[tx, 0]), r"a float32 value is stored into 'I' of dtype int32"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuse(name: str) -> None:
    act, message = MISUSES[name]
    text = refused(act)
    assert re.search(message, text.split("\n")[0]), text


@pytest.mark.parametrize("name", DTYPES)
def test_misuse_of_dtypes(name: str) -> None:
    act, message = DTYPES[name]
    text = refused(act, DTypeError)
    assert re.search(message, text.split("\n")[0]), text


def test_ldg_of_memory_that_the_kernel_writes() -> None:
    text = refused(lambda A, I, H, tx: A.__setitem__((tx, 0), T.cuda.ldg(A.ptr_to([tx, 1]), "float32")))
    assert re.search(r"`cuda.ldg` reads 'A', which the kernel writes at .*test_intrinsics.py:\d+; the read-only cache does not see that. "
                     "Write a plain load$", text)


def test_a_call_whose_result_is_unused_is_a_statement() -> None:
    def kernel(A: T.Buffer((64,), "uint32")):
        T.device_entry()
        tx = T.thread_id([64])
        T.cuda.atomic_or(A.ptr_to([0]), 1, scope="block")
        T.cuda.elect_sync()
        T.cuda.clock64()
        old = T.cuda.atomic_exch(A.ptr_to([tx]), 2)
        T.cuda.atomic_inc(A.ptr_to([1]), old)

    assert body(trace(kernel)) == [
        "tx = T.thread_id([64])",
        'T.cuda.atomic_or(A.ptr_to([0]), T.uint32(1), scope="block")',
        "T.cuda.elect_sync(T.uint32(4294967295))",
        "T.cuda.clock64()",
        "old = T.cuda.atomic_exch(A.ptr_to([tx]), T.uint32(2))",
        "T.cuda.atomic_inc(A.ptr_to([1]), old)",
    ]


def test_a_named_atomic_may_be_chosen() -> None:
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        T.device_entry()
        tx = T.thread_id([64])
        old = T.cuda.atomic_add(A.ptr_to([0]), 1)
        B[tx] = T.if_then_else(tx < 3, old + 1, 0)

    assert body(trace(kernel))[-1] == "B[tx] = T.if_then_else(tx < 3, old + 1, 0)"


def test_a_pointer_reads_its_mutable_scalars_before_the_operands_are_evaluated() -> None:
    def kernel(A: T.Buffer((64,), "int32")):
        T.device_entry()
        T.thread_id([32])
        i, v = T.local_scalar("int32", 0), T.local_scalar("int32", 1)
        T.cuda.atomic_add(A.ptr_to([i]), A[5] + v)
        i += 1
        T.cuda.atomic_add(A.ptr_to([i]), v)

    kernel = trace(kernel)
    assert body(kernel)[-3:] == ["T.cuda.atomic_add(A.ptr_to([i]), A[5] + v)", "i.assign(i + 1)", "T.cuda.atomic_add(A.ptr_to([i]), v)"]
    namespace: dict[str, Any] = {}
    exec(kernel.script(), namespace)
    assert trace(namespace["kernel"]).script() == kernel.script()


def test_address_of_a_mutable_scalar_in_a_script() -> None:
    def kernel(A: T.Buffer((64,), "int32")):
        T.device_entry()
        tx = T.thread_id([64])
        cell = T.shared_scalar("int32", 0)
        T.cuda.func_call("f", T.address_of(cell), source_code="__device__ void f(int* p) {}")
        A[tx] = T.cuda.atomic_add(T.address_of(cell), tx)

    lines = body(trace(kernel))
    assert lines[2:] == [
        r"""T.cuda.func_call("f", T.address_of(cell), source_code='__device__ void f(int* p) {}')""",
        "A[tx] = T.cuda.atomic_add(T.address_of(cell), tx)",
    ]


def test_intrinsics_belong_below_the_device_entry() -> None:
    def kernel(A: T.Buffer((64,), "int32")):
        T.cuda.atomic_add(A.ptr_to([0]), 1)
        T.device_entry()

    with pytest.raises(TraceError, match=r"`cuda.atomic_add` before T.device_entry\(\): that part runs on the host"):
        trace(kernel)


def test_an_effect_that_waits_for_its_use_is_not_overtaken() -> None:
    def together(found, loaded):
        return found + loaded * loaded

    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        T.device_entry()
        tx = T.thread_id([64])
        B[tx] = together(T.cuda.atomic_add(A.ptr_to([0]), 1) * 2, A[tx])

    assert body(trace(kernel)) == [
        "tx = T.thread_id([64])",
        "v0 = T.cuda.atomic_add(A.ptr_to([0]), 1) * 2",
        "v1 = A[tx]",
        "B[tx] = v0 + v1 * v1",
    ]
