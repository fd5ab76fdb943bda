"""Planted bugs of memory: bounds, alignment, and what nothing wrote (rows 1 to 7, 31 to 34)."""

# ruff: noqa: F821
from __future__ import annotations

from runtime.simulator.checks import Checks
from tests.sanitizer.corpus import f32, i32, planted, zeros
from tracer import T
from tracer.errors import (
    MisalignedAccessError,
    OutOfBoundsError,
    TraceError,
    UninitializedReadError,
    UnwrittenOutputError,
)

# ---- 1: out of bounds --------------------------------------------------------------------------------------------------


@planted(1, OutOfBoundsError, "B", f32(1000), zeros(1000))
def tail_without_a_guard(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), *, fixed: T.constexpr):
    n = A.shape[0]
    T.device_entry()
    i = T.cta_id([T.ceildiv(n, 256)]) * 256 + T.thread_id([256])
    with T.If(i < n if fixed else i < n + 1):
        B[i] = 1.0              # BUG


@planted(1, OutOfBoundsError, "A", f32(100), zeros(100))
def neighbour_of_the_last(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), *, fixed: T.constexpr):
    n = A.shape[0]
    T.device_entry()
    i = T.thread_id([128])
    with T.If(i < (n - 1 if fixed else n)):
        B[i] = A[i + 1] - A[i]  # BUG


@planted(1, OutOfBoundsError, "A", f32(64), i32(64) - 1, zeros(64))
def negative_index_from_data(A: T.Buffer((64,), "float32"), I: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):  # noqa: E741
    T.device_entry()
    tx = T.thread_id([64])
    at = I[tx]
    B[tx] = A[T.max(at, 0) if fixed else at]            # BUG


@planted(1, OutOfBoundsError, "tile", f32(2, 64), zeros(2, 64))
def halo_past_the_tile(A: T.Buffer((2, 64), "float32"), B: T.Buffer((2, 64), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([2]), T.thread_id([64])
    tile = T.alloc_shared((66 if fixed else 65,), "float32")
    tile[tx + 1] = A[bx, tx]
    with T.If(tx == 0):
        tile[0] = 0.0
        at = T.local_scalar("int32", 65)
        with T.If(A[0, 0] == 0.0):
            tile[at] = 0.0      # BUG
    T.cuda.cta_sync()
    B[bx, tx] = tile[tx] + tile[tx + 1]


@planted(1, OutOfBoundsError, "mine", i32(32), zeros(32, dtype="int32"))
def local_array_too_short(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    mine = T.alloc_local((4,), "int32")
    for k in T.serial(4):
        mine[k] = k
    B[tx] = mine[A[tx] % 4 if fixed else A[tx] % 5]     # BUG


@planted(1, OutOfBoundsError, "B", f32(10, 10), zeros(10, 10))
def second_axis_without_a_guard(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n", "m"), "float32"), *, fixed: T.constexpr):
    n, m = A.shape
    T.device_entry()
    bx, by = T.cta_id([T.ceildiv(m, 8), T.ceildiv(n, 8)])
    tx, ty = T.thread_id([8, 8])
    i, j = by * 8 + ty, bx * 8 + tx
    with T.If((i < n) & (j < m) if fixed else i < n):
        B[i, j] = 2.0           # BUG


@planted(1, OutOfBoundsError, "A", f32(100), zeros(1))
def one_turn_too_many(A: T.Buffer(("n",), "float32"), B: T.Buffer((1,), "float32"), *, fixed: T.constexpr):
    n = A.shape[0]
    T.device_entry()
    T.thread_id([1])
    total = T.local_scalar("float32", 0.0)
    for k in T.serial(n if fixed else n + 1):
        total += A[k]           # BUG
    B[0] = total


@planted(1, TraceError, "B", zeros(8))
def constant_index_past_the_end(B: T.Buffer((8,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    T.thread_id([1])
    B[7 if fixed else 8] = 1.0  # BUG


# ---- 2: inside the allocation, outside the buffer ----------------------------------------------------------------------

@planted(2, OutOfBoundsError, "A", f32(4, 32))
def row_overrun(A: T.Buffer((4, 32), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    at = T.local_scalar("int32", tx)
    at += 0 if fixed else 1
    A[0, at] = 1.0              # BUG


@planted(2, OutOfBoundsError, "first", f32(64), zeros(64))
def neighbour_in_the_pool(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    pool = T.SMEMPool()
    first = pool.alloc((64,), "float32")
    second = pool.alloc((64,), "float32")
    pool.commit()
    first[tx] = A[tx]
    second[tx] = A[tx]
    T.cuda.cta_sync()
    at = T.local_scalar("int32", tx)
    at += 0 if fixed else 5
    B[tx] = first[at] + second[tx]      # BUG


@planted(2, OutOfBoundsError, "low", f32(64), zeros(64))
def alias_of_half_the_storage(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    whole = T.alloc_shared((64,), "float32")
    low = T.decl_buffer((32,), "float32", data=whole.data)
    whole[tx] = A[tx]
    T.cuda.cta_sync()
    at = T.local_scalar("int32", tx)
    B[tx] = low[at % 32 if fixed else at]       # BUG


@planted(2, OutOfBoundsError, "part", f32(8, 8), zeros(8))
def outside_of_a_slice(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([8])
    part = A[2:6, 0:8]
    at = T.local_scalar("int32", tx)
    B[tx] = part[at // 2 if fixed else at, 3]   # BUG


@planted(2, OutOfBoundsError, "A", lambda: f32(4, 16)[:, :8], zeros(4, 8))
def padding_of_a_row(A_ptr: T.handle, B: T.Buffer((4, 8), "float32"), *, fixed: T.constexpr):
    A = T.match_buffer(A_ptr, (4, 8), "float32", strides=[16, 1])
    T.device_entry()
    tx, ty = T.thread_id([8, 4])
    at = T.local_scalar("int32", tx)
    at += 0 if fixed else 1
    B[ty, tx] = A[ty, at]       # BUG


# ---- 3: the whole footprint --------------------------------------------------------------------------------------------

@planted(3, OutOfBoundsError, "A", f32(70), zeros(72))
def tail_of_a_vector(A: T.Buffer(("n",), "float32"), B: T.Buffer((72,), "float32"), *, fixed: T.constexpr):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([18])
    with T.If(tx * 4 + 3 < n if fixed else tx * 4 < n):
        B.vstore([tx * 4], A.vload([tx * 4], dtype="float32x4"))        # BUG


@planted(3, OutOfBoundsError, "counts", i32(64), zeros(32, dtype="int32"))
def histogram_bin_from_data(A: T.Buffer((64,), "int32"), B: T.Buffer((32,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    counts = T.alloc_shared((32,), "int32")
    with T.If(tx < 32):
        counts[tx] = 0
    T.cuda.cta_sync()
    T.cuda.atomic_add(counts.ptr_to([A[tx] % 32 if fixed else A[tx]]), 1)       # BUG
    T.cuda.cta_sync()
    with T.If(tx < 32):
        B[tx] = counts[tx]


@planted(3, OutOfBoundsError, "tile", f32(32), zeros(32))
def vector_store_over_the_end(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([8])
    tile = T.alloc_shared((32 if fixed else 30,), "float32", align=16)
    tile.vstore([tx * 4], A.vload([tx * 4], dtype="float32x4"))     # BUG
    T.cuda.cta_sync()
    B[tx] = tile[tx]


# ---- 4: both arms of a select are computed -----------------------------------------------------------------------------

@planted(4, OutOfBoundsError, "A", f32(40), zeros(64))
def select_as_a_guard(A: T.Buffer(("n",), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([64])
    B[tx] = (T.if_then_else(tx < n, A[tx], 0.0) if fixed
             else T.select(tx < n, A[tx], 0.0))         # BUG


# ---- 5: alignment ------------------------------------------------------------------------------------------------------

@planted(5, MisalignedAccessError, "A", f32(68), zeros(64), 1)
def vector_at_an_odd_offset(A: T.Buffer((68,), "float32"), B: T.Buffer((64,), "float32"), start: T.int32, *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([16])
    at = tx * 4 + (start * 4 if fixed else start)
    B.vstore([tx * 4], A.vload([at], dtype="float32x4"))        # BUG


@planted(5, MisalignedAccessError, "tile", f32(64), zeros(32))
def rows_of_odd_length(A: T.Buffer((64,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([8])
    tile = T.alloc_shared((8, 12 if fixed else 9), "float32", align=16)
    for k in T.serial(8):
        tile[tx, k] = A[tx * 8 + k]
    row = T.local_scalar("int32", tx)
    B.vstore([tx * 4], tile.vload([row, 0], dtype="float32x4"))     # BUG


# ---- 6: what nothing wrote ---------------------------------------------------------------------------------------------

@planted(6, UninitializedReadError, "tile", f32(64), zeros(64))
def halo_never_loaded(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    tile = T.alloc_shared((66,), "float32")
    tile[tx + 1] = A[tx]
    with T.If((tx == 0) | (tx == 63) if fixed else tx == 0):
        tile[T.select(tx == 0, 0, 65)] = 0.0
    T.cuda.cta_sync()
    B[tx] = tile[tx] + tile[tx + 2]     # BUG


@planted(6, UninitializedReadError, "total", f32(64), zeros(8))
def sum_without_a_start(A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([8])
    total = T.local_scalar("float32", 0.0) if fixed else T.local_scalar("float32")
    for k in T.serial(8):
        total += A[tx * 8 + k]          # BUG
    B[tx] = total


@planted(6, UninitializedReadError, "best", i32(32), zeros(32, dtype="int32"))
def set_on_one_path_only(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    best = T.local_scalar("int32")
    with T.If(A[tx] > 3):
        best.assign(1)
    if fixed:
        with T.Else():
            best.assign(0)
    B[tx] = best                        # BUG


@planted(6, UninitializedReadError, "counts", i32(64), zeros(16, dtype="int32"))
def histogram_not_cleared(A: T.Buffer((64,), "int32"), B: T.Buffer((16,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    counts = T.alloc_shared((16,), "int32")
    with T.If(tx < (16 if fixed else 15)):
        counts[tx] = 0
    T.cuda.cta_sync()
    T.cuda.atomic_add(counts.ptr_to([A[tx] % 16]), 1)       # BUG
    T.cuda.cta_sync()
    with T.If(tx < 16):
        B[tx] = counts[tx]


@planted(6, UninitializedReadError, "words", i32(32), zeros(32, dtype="uint32"))
def three_bytes_of_a_word(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "uint32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    bytes_ = T.alloc_shared((128,), "uint8", align=4)
    words = bytes_.view("uint32")
    for k in T.serial(4 if fixed else 3):
        bytes_[tx * 4 + k] = A[tx].astype("uint8")
    B[tx] = words[tx]                   # BUG


@planted(6, UninitializedReadError, "tile", f32(16, 16), zeros(16, 16))
def tile_larger_than_the_block(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx, ty = T.thread_id([16, 8])
    tile = T.alloc_shared((16, 16), "float32")
    for half in T.serial(2 if fixed else 1):
        tile[ty + half * 8, tx] = A[ty + half * 8, tx]
    T.cuda.cta_sync()
    for half in T.serial(2):
        B[tx, ty + half * 8] = tile[ty + half * 8, tx]      # BUG


@planted(6, UninitializedReadError, "mine", f32(8, 4), zeros(8))
def part_of_a_local_array(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([8])
    mine = T.alloc_local((4,), "float32")
    for k in T.serial(1 if not fixed else 0, 4):
        mine[k] = A[tx, k]
    total = T.local_scalar("float32", 0.0)
    for k in T.serial(4):
        total += mine[k]                # BUG
    B[tx] = total


@planted(6, UninitializedReadError, "tile", f32(64), zeros(64))
def guard_of_the_load_shorter_than_the_use(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), *, fixed: T.constexpr):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([64])
    tile = T.alloc_shared((64,), "float32")
    with T.If(tx < (n if fixed else n - 1)):
        tile[tx] = A[tx]
    T.cuda.cta_sync()
    with T.If(tx < n):
        B[tx] = tile[n - 1 - tx]        # BUG


# ---- 7: outputs that stay unwritten (on request) -----------------------------------------------------------------------

_OUTPUTS = Checks(unwritten_outputs=True)


@planted(7, UnwrittenOutputError, "B", f32(1000), zeros(1000), checks=_OUTPUTS)
def grid_too_small(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), *, fixed: T.constexpr):
    n = A.shape[0]
    T.device_entry()
    i = T.cta_id([T.ceildiv(n, 256) if fixed else n // 256]) * 256 + T.thread_id([256])
    with T.If(i < n):
        B[i] = A[i]             # BUG


@planted(7, UnwrittenOutputError, "B", f32(8, 8), zeros(8, 8), checks=_OUTPUTS)
def border_left_out(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx, ty = T.thread_id([8, 8])
    inside = (tx > 0) & (tx < 7) & (ty > 0) & (ty < 7)
    with T.If(inside):
        B[ty, tx] = A[ty - 1, tx] + A[ty + 1, tx]       # BUG
    if fixed:
        with T.Else():
            B[ty, tx] = A[ty, tx]


# ---- 34: limits of the hardware ----------------------------------------------------------------------------------------

@planted(34, TraceError, "tile", zeros(64))
def static_shared_beyond_48_kib(B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    tile = T.alloc_shared((12288 if fixed else 12289,), "float32")      # BUG
    tile[tx] = 1.0
    B[tx] = tile[tx]


# ---- pointers for reading ----------------------------------------------------------------------------------------------

@planted(36, TraceError, "A", zeros(32), zeros(32))
def atomic_through_a_pointer_for_reading(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    T.cuda.atomic_add(A.access_ptr("rw" if fixed else "r", offset=tx), 1.0)     # BUG
    B[tx] = 1.0


@planted(36, TraceError, "A", zeros(32, dtype="uint32"), zeros(32))
def store_through_a_pointer_for_reading(A: T.Buffer((32,), "uint32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    word = T.local_scalar("uint32", 7)
    T.ptx.st.global_.b32(A.access_ptr("w" if fixed else "r", offset=tx), word)      # BUG
    B[tx] = 1.0
