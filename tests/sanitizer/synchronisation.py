"""Planted bugs of barriers and warps: threads that do not come, and lanes that are not there (rows 17 and 20)."""

# ruff: noqa: F821
from __future__ import annotations

from tests.sanitizer.corpus import f32, i32, planted, zeros
from tracer import T
from tracer.errors import BarrierDivergenceError

# ---- 17: barriers that some threads do not reach -----------------------------------------------------------------------


@planted(17, BarrierDivergenceError, "cta_sync", f32(64), zeros(64))
def barrier_in_a_branch(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    tile = T.alloc_shared((64,), "float32")
    tile[tx] = A[tx]
    if fixed:
        T.cuda.cta_sync()
    with T.If(tx < 32):
        if not fixed:
            T.cuda.cta_sync()       # BUG
        B[tx] = tile[tx if not fixed else 63 - tx]


@planted(17, BarrierDivergenceError, "cta_sync", i32(64), zeros(64))
def barrier_in_a_loop_over_data(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    for k in T.serial(4 if fixed else A[tx] % 4):
        B[tx] = k.astype("float32")
        T.cuda.cta_sync()           # BUG


@planted(17, BarrierDivergenceError, "cta_sync", f32(64), zeros(64))
def barrier_behind_a_break(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    for k in T.serial(4):
        with T.If((A[tx] > 30.0) & (k == 2) if not fixed else k == 2):
            T.break_()
        T.cuda.cta_sync()           # BUG
    B[tx] = A[tx]


@planted(17, BarrierDivergenceError, "cta_sync", f32(64), zeros(64))
def a_barrier_in_each_branch(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    """Two barriers are two barriers, even if the hardware happens to pair them."""
    T.device_entry()
    tx = T.thread_id([64])
    with T.If(tx < 32 if not fixed else A[0] < 1.0):
        B[tx] = A[tx]
        T.cuda.cta_sync()           # BUG
    with T.Else():
        B[tx] = -A[tx]
        T.cuda.cta_sync()


@planted(17, BarrierDivergenceError, "cta_sync", f32(100), zeros(128))
def barrier_under_the_tail_guard(A: T.Buffer(("n",), "float32"), B: T.Buffer((128,), "float32"), *, fixed: T.constexpr):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([128])
    tile = T.alloc_shared((128,), "float32")
    with T.If(tx < n):
        tile[tx] = A[tx]
        if not fixed:
            T.cuda.cta_sync()       # BUG
            B[tx] = tile[n - 1 - tx]
    if fixed:
        T.cuda.cta_sync()
        with T.If(tx < n):
            B[tx] = tile[n - 1 - tx]


@planted(17, BarrierDivergenceError, "cta_sync", f32(64), zeros(64))
def barrier_in_a_while_of_each_thread(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    step = T.local_scalar("int32", 4 if fixed else tx % 5)
    with T.While(lambda: step > 0):
        T.cuda.cta_sync()           # BUG
        step -= 1
    B[tx] = A[tx]


# ---- 20: masks of a warp -----------------------------------------------------------------------------------------------

@planted(20, BarrierDivergenceError, "shfl_down_sync", f32(64), zeros(64))
def shuffle_in_a_branch(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    if fixed:
        below = T.cuda.shfl_down_sync(0xFFFFFFFF, A[tx], 1)
        with T.If(tx % 32 < 16):
            B[tx] = below
    else:
        with T.If(tx % 32 < 16):
            B[tx] = T.cuda.shfl_down_sync(0xFFFFFFFF, A[tx], 1)         # BUG


@planted(20, BarrierDivergenceError, "shfl_xor_sync", f32(64), zeros(64))
def caller_not_in_its_mask(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    B[tx] = T.cuda.shfl_xor_sync(0xFFFFFFFF if fixed else 0x0000FFFF, A[tx], 1)     # BUG


@planted(20, BarrierDivergenceError, "shfl_sync", f32(64), zeros(64))
def shuffle_from_a_lane_outside_the_mask(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    with T.If(tx % 32 < 8):
        B[tx] = T.cuda.shfl_sync(0x000000FF, A[tx], 3 if fixed else 12)     # BUG


@planted(20, BarrierDivergenceError, "warp_sync", f32(40), zeros(40))
def warp_sync_behind_a_divergent_branch(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([40])
    with T.If(A[tx] > 3.0):
        B[tx] = A[tx]
        if not fixed:
            T.cuda.warp_sync()      # BUG
    if fixed:
        T.cuda.warp_sync()


@planted(20, BarrierDivergenceError, "ballot_sync", i32(32), zeros(32, dtype="uint32"))
def ballot_of_lanes_that_left(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "uint32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    for k in T.serial(4):
        with T.If(A[tx] % 4 < k if not fixed else k == 3):
            T.break_()
        B[tx] = T.cuda.ballot_sync(0xFFFFFFFF, A[tx] > k)       # BUG


@planted(20, BarrierDivergenceError, "shfl_down_sync", f32(40), zeros(40))
def full_mask_in_a_short_warp(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([40])
    if fixed:
        with T.If(tx < 32):
            B[tx] = T.cuda.shfl_down_sync(0xFFFFFFFF, A[tx], 1)
    else:
        B[tx] = T.cuda.shfl_down_sync(0xFFFFFFFF, A[tx], 1)     # BUG


@planted(20, BarrierDivergenceError, "warp_sync", f32(32), zeros(32))
def lanes_with_different_masks(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    lane = T.lane_id([32])
    T.cuda.warp_sync(T.select(lane < 4, T.uint32(0xFFFFFFFF if fixed else 0xFF), T.uint32(0xFFFFFFFF)))      # BUG
    B[lane] = A[lane]
