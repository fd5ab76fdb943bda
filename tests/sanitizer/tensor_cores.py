"""Planted bugs of wgmma, tcgen05, descriptors and the register pool (rows 26 to 29)."""

# ruff: noqa: F821
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from symbolic.layout import mma_shared_layout
from tests.sanitizer.corpus import planted, zeros
from tracer import T
from tracer.errors import (
    AsyncError,
    BarrierDivergenceError,
    DataRaceError,
    DeadlockError,
    TensorMemoryError,
    UninitializedReadError,
)

A_SHAPE, B_SHAPE, N, REGISTERS = (64, 64), (32, 64), 32, 16


def bf16(*shape: int) -> Any:
    return (np.arange(np.prod(shape)) % 7 - 3).astype(ml_dtypes.bfloat16).reshape(shape)


# ---- 26: wgmma ---------------------------------------------------------------------------------------------------------

def _wgmma(number: int, name: str, error: type[Exception] | tuple[type[Exception], ...], buffer: str, marks: tuple[str, ...], bug: str) -> None:
    """D = A B^T for one tile: stores to shared memory, four wgmma.mma_async, stores of the accumulator."""
    def kernel(A: T.Buffer(A_SHAPE, "bfloat16"), B: T.Buffer(B_SHAPE, "bfloat16"), D: T.Buffer((128, REGISTERS), "float32"), *, fixed: T.constexpr):
        T.device_entry()
        tx = T.thread_id([128])
        wrong = "" if fixed else bug
        tiles = [T.alloc_shared(shape, "bfloat16", layout=mma_shared_layout("bfloat16", "128B", shape), align=1024) for shape in (A_SHAPE, B_SHAPE)]
        for tile, source, (rows, columns) in zip(tiles, (A, B), (A_SHAPE, B_SHAPE)):
            for i in T.serial((rows - (8 if wrong == "fill" else 0)) * columns // 128):
                e = i * 128 + tx
                tile[e // columns, e % columns] = source[e // columns, e % columns]         # STORE
        if wrong != "proxy":
            T.ptx.fence.proxy.async_.shared__cta()
        if wrong != "barrier":
            T.cuda.cta_sync()
        acc = T.alloc_local((REGISTERS,), "float32")
        if wrong != "fence":
            for i in range(REGISTERS):
                acc[i] = 0.0
            T.ptx.wgmma.fence.sync.aligned()
        else:
            T.ptx.wgmma.fence.sync.aligned()
            for i in range(REGISTERS):
                acc[i] = 0.0

        def multiply(steps):
            for step in steps:
                a, b = (T.cuda.wgmma.descriptor(tile.ptr_to([0, step * 16])) for tile in tiles)
                T.ptx.wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16(acc, a, b, True, 1, 1, 0, 0)     # MMA
        if wrong == "warps":
            with T.If(tx < 96):
                multiply(range(4))
        else:
            multiply(range(4))
        if wrong != "commit":
            T.ptx.wgmma.commit_group.sync.aligned()
        if wrong == "registers":
            acc[0] = acc[0] * 2.0                       # TOUCH
        if wrong == "reuse":
            tiles[0][tx // 2, tx % 2] = A[0, 0]         # AGAIN
        if wrong == "reuse by the issuer":              # the fence that would make the store seen does not make the product wait
            with T.If(tx == 0):
                tiles[0][0, 0] = A[0, 0]                # ISSUER'S
                T.ptx.fence.proxy.async_.shared__cta()
        if wrong != "wait":
            T.ptx.wgmma.wait_group.sync.aligned(1 if wrong == "depth" else 0)
        for i in range(REGISTERS):
            D[tx, i] = acc[i]                           # USE
    kernel.__name__ = kernel.__qualname__ = name
    planted(number, error, buffer, bf16(*A_SHAPE), bf16(*B_SHAPE), zeros(128, REGISTERS), marks=marks)(kernel)


_wgmma(25, "wgmma_without_a_proxy_fence", DataRaceError, "data race", ("# STORE", "# MMA"), "proxy")
_wgmma(26, "wgmma_without_a_barrier_behind_the_stores", DataRaceError, "data race", ("# STORE", "# MMA"), "barrier")
_wgmma(26, "wgmma_without_its_fence", AsyncError, "wgmma", ("# MMA",), "fence")
_wgmma(26, "wgmma_without_a_commit", AsyncError, "acc", ("# USE",), "commit")
_wgmma(26, "wgmma_without_a_wait", AsyncError, "acc", ("# USE",), "wait")
_wgmma(26, "wgmma_wait_that_lets_one_group_go_on", AsyncError, "acc", ("# USE",), "depth")
_wgmma(26, "accumulator_touched_in_flight", AsyncError, "acc", ("# TOUCH",), "registers")
_wgmma(26, "operand_overwritten_in_flight", DataRaceError, "data race", ("# AGAIN", "# MMA"), "reuse")
_wgmma(26, "operand_overwritten_in_flight_by_its_issuer", DataRaceError, "data race", ("# ISSUER'S", "# MMA"), "reuse by the issuer")
_wgmma(26, "wgmma_by_three_of_four_warps", (BarrierDivergenceError, DeadlockError), "w", ("# MMA",), "warps")
_wgmma(27, "operand_with_rows_that_nothing_wrote", UninitializedReadError, "wgmma", ("# MMA",), "fill")


# ---- 28: tensor memory -------------------------------------------------------------------------------------------------

def _tcgen05(name: str, error: type[Exception], buffer: str, marks: tuple[str, ...], bug: str) -> None:
    """A column of numbers goes to tensor memory and comes back."""
    def kernel(A: T.Buffer((128,), "uint32"), B: T.Buffer((128,), "uint32"), *, fixed: T.constexpr):
        T.device_entry()
        tx = T.thread_id([128])
        warp = tx // 32
        wrong = "" if fixed else bug
        slot = T.alloc_shared((1,), "uint32")
        r = T.alloc_local((2,), "uint32")
        with T.If(warp == 0):
            T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](slot.ptr_to([0]), 32)         # ALLOC
        T.ptx.tcgen05.fence__before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence__after_thread_sync()
        base = T.let(slot[0])
        r[0] = A[tx]
        if wrong != "empty":
            T.ptx["tcgen05.st.sync.aligned.32x32b.x1.b32"](T.cuda.get_tmem_addr(base, warp * 32, 0), r[0])     # STORE
            if wrong != "wait_st":
                T.ptx.tcgen05.wait__st.sync.aligned()
        lane = (warp * 32 + 32) % 128 if wrong == "lanes" else warp * 32
        at = T.cuda.get_tmem_addr(base, lane, 40 if wrong == "column" else 0)
        T.ptx["tcgen05.ld.sync.aligned.32x32b.x1.b32"](r[1], at)        # LOAD
        if wrong != "wait_ld":
            T.ptx.tcgen05.wait__ld.sync.aligned()
        B[tx] = r[1]                                # USE
        T.ptx.tcgen05.wait__ld.sync.aligned()
        T.ptx.tcgen05.wait__st.sync.aligned()
        T.ptx.tcgen05.fence__before_thread_sync()
        if wrong != "early":
            T.cuda.cta_sync()
        T.ptx.tcgen05.fence__after_thread_sync()
        with T.If(warp == 2):
            if wrong != "leak":
                T.ptx["tcgen05.dealloc.cta_group::1.sync.aligned.b32"](base, 32)      # FREE
            if wrong == "relinquish":
                T.ptx["tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned"]()
                T.ptx["tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"](slot.ptr_to([0]), 32)     # AGAIN
    kernel.__name__ = kernel.__qualname__ = name
    planted(28, error, buffer, np.arange(128, dtype=np.uint32), zeros(128, dtype="uint32"), marks=marks)(kernel)


_tcgen05("tensor_memory_never_freed", TensorMemoryError, "columns", ("# ALLOC",), "leak")
_tcgen05("column_that_is_not_allocated", TensorMemoryError, "tcgen05.ld", ("# LOAD",), "column")
_tcgen05("lanes_of_another_warp", TensorMemoryError, "tcgen05.ld", ("# LOAD",), "lanes")
_tcgen05("tensor_memory_that_nothing_wrote", UninitializedReadError, "tcgen05.ld", ("# LOAD",), "empty")
_tcgen05("register_used_before_the_wait", AsyncError, "r", ("# USE",), "wait_ld")
_tcgen05("columns_freed_while_others_use_them", DataRaceError, "tensor memory", ("# LOAD", "# FREE"), "early")
_tcgen05("allocation_after_the_permit_is_given_up", TensorMemoryError, "tcgen05.alloc", ("# AGAIN",), "relinquish")


# ---- 29: the pool of registers -----------------------------------------------------------------------------------------

@planted(29, DeadlockError, "deadlock", zeros(384))
def registers_that_nobody_gives_back(B: T.Buffer((384,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([384])
    with T.If(tx < 128):
        if fixed:
            T.ptx["setmaxnreg.dec.sync.aligned.u32"](40)
    with T.Else():
        T.ptx["setmaxnreg.inc.sync.aligned.u32"](232)      # BUG
    B[tx] = 1.0
