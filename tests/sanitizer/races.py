"""Planted races: in shared memory, inside a warp, through aliases, in global memory, with atomics (rows 8 to 13 and 16)."""

# ruff: noqa: F821
from __future__ import annotations

from tests.sanitizer.corpus import f32, i32, planted, zeros
from tracer import T
from tracer.errors import ArgumentValueError, DataRaceError, SameValueRaceError

# ---- 8: shared memory --------------------------------------------------------------------------------------------------


@planted(8, DataRaceError, "tile", f32(256), zeros(256))
def reversed_without_a_barrier(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([256])
    tile = T.alloc_shared((256,), "float32")
    tile[tx] = A[tx]            # BUG
    if fixed:
        T.cuda.cta_sync()
    B[tx] = tile[255 - tx]      # BUG


@planted(8, DataRaceError, "tile", f32(256), zeros(256))
def barrier_before_the_store(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([256])
    tile = T.alloc_shared((256,), "float32")
    if not fixed:
        T.cuda.cta_sync()
    tile[tx] = A[tx]            # BUG
    if fixed:
        T.cuda.cta_sync()
    B[tx] = tile[(tx + 64) % 256]       # BUG


@planted(8, DataRaceError, "tree", f32(256), zeros(1))
def tree_without_barriers(A: T.Buffer((256,), "float32"), B: T.Buffer((1,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([256])
    tree = T.alloc_shared((256,), "float32")
    tree[tx] = A[tx]
    T.cuda.cta_sync()
    for step in (128, 64, 32, 16, 8, 4, 2, 1):
        with T.If(tx < step):
            tree[tx] += tree[tx + step]     # BUG
        if fixed:
            T.cuda.cta_sync()
    with T.If(tx == 0):
        B[0] = tree[0]


@planted(8, DataRaceError, "tree", f32(256), zeros(1))
def tree_without_its_first_barrier(A: T.Buffer((256,), "float32"), B: T.Buffer((1,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([256])
    tree = T.alloc_shared((256,), "float32")
    tree[tx] = A[tx]                        # BUG
    if fixed:
        T.cuda.cta_sync()
    stride = T.local_scalar("int32", 128)
    with T.While(lambda: stride > 0):
        with T.If(tx < stride):
            tree[tx] += tree[tx + stride]   # BUG
        T.cuda.cta_sync()
        stride //= 2
    with T.If(tx == 0):
        B[0] = tree[0]


@planted(8, DataRaceError, "tile", f32(256), zeros(256))
def stencil_in_place(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([256])
    tile = T.alloc_shared((256,), "float32")
    tile[tx] = A[tx]
    T.cuda.cta_sync()
    mean = (tile[tx] + tile[(tx + 1) % 256]) * 0.5      # BUG
    if fixed:
        T.cuda.cta_sync()
    tile[tx] = mean                                     # BUG
    T.cuda.cta_sync()
    B[tx] = tile[255 - tx]


@planted(8, DataRaceError, "tile", f32(8, 128), zeros(8, 128))
def tile_refilled_too_early(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8, 128), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([128])
    tile = T.alloc_shared((128,), "float32")
    for row in T.serial(8):
        tile[tx] = A[row, tx]           # BUG
        T.cuda.cta_sync()
        B[row, tx] = tile[127 - tx]     # BUG
        if fixed:
            T.cuda.cta_sync()


@planted(8, DataRaceError, "tiles", f32(8, 128), zeros(8, 128))
def two_buffers_and_a_barrier_too_few(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8, 128), "float32"), *, fixed: T.constexpr):
    """With a barrier in every turn two buffers are enough; with one in every other turn they are not."""
    T.device_entry()
    tx = T.thread_id([128])
    tiles = T.alloc_shared((2, 128), "float32")
    for row in T.serial(8):
        tiles[row % 2, tx] = A[row, tx]             # BUG
        if fixed:
            T.cuda.cta_sync()
        else:
            with T.If(row % 2 == 0):
                T.cuda.cta_sync()
        B[row, tx] = tiles[row % 2, 127 - tx]       # BUG


@planted(8, DataRaceError, "x", f32(128), zeros(128))
def scan_in_one_buffer(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), *, fixed: T.constexpr):
    """Hillis and Steele: read, barrier, write, barrier."""
    T.device_entry()
    tx = T.thread_id([128])
    x = T.alloc_shared((128,), "float32")
    x[tx] = A[tx]
    T.cuda.cta_sync()
    for distance in (1, 2, 4, 8, 16, 32, 64):
        below = T.if_then_else(tx >= distance, x[tx - distance], 0.0)      # BUG
        if fixed:
            T.cuda.cta_sync()
        x[tx] = x[tx] + below                       # BUG
        T.cuda.cta_sync()
    B[tx] = x[tx]


@planted(8, DataRaceError, "first", f32(128), zeros(128))
def broadcast_without_a_barrier(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([128])
    first = T.shared_scalar("float32")
    with T.If(tx == 0):
        first.assign(A[0])      # BUG
    if fixed:
        T.cuda.cta_sync()
    B[tx] = A[tx] - first       # BUG


@planted(8, DataRaceError, "scratch", f32(2, 64), zeros(2, 64))
def scratch_of_two_reductions(A: T.Buffer((2, 64), "float32"), B: T.Buffer((2, 64), "float32"), *, fixed: T.constexpr):
    """The second sum writes where slow threads still read the first."""
    T.device_entry()
    tx = T.thread_id([64])
    scratch = T.alloc_shared((2,), "float32")
    for row in range(2):
        total = T.local_scalar("float32", A[row, tx])
        for distance in (16, 8, 4, 2, 1):
            total += T.cuda.shfl_xor_sync(0xFFFFFFFF, +total, distance)
        with T.If(tx % 32 == 0):
            scratch[tx // 32] = total               # BUG
        T.cuda.cta_sync()
        B[row, tx] = scratch[0] + scratch[1]        # BUG
        if fixed:
            T.cuda.cta_sync()


@planted(8, DataRaceError, "tile", f32(32, 32), zeros(32, 32))
def transpose_ordered_by_warps_only(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx, ty = T.thread_id([32, 8])
    tile = T.alloc_shared((32, 33), "float32")
    for k in T.unroll(4):
        tile[ty + 8 * k, tx] = A[ty + 8 * k, tx]            # BUG
    if fixed:
        T.cuda.cta_sync()
    else:
        T.cuda.warp_sync()
    for k in T.unroll(4):
        B[ty + 8 * k, tx] = tile[tx, ty + 8 * k]            # BUG


@planted(8, DataRaceError, "count", f32(64), zeros(64))
def counter_reset_while_others_read(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    count = T.shared_scalar("int32")
    with T.If(tx == 0):
        count.assign(0)
    T.cuda.cta_sync()
    with T.If(A[tx] > 10.0):
        T.cuda.atomic_add(T.address_of(count), 1)
    T.cuda.cta_sync()
    B[tx] = count.astype("float32")     # BUG
    if fixed:
        T.cuda.cta_sync()
    with T.If(tx == 0):
        count.assign(0)                 # BUG


@planted(8, DataRaceError, "tile", f32(64, 64), f32(64, 64), zeros(64, 64))
def matrix_product_with_one_barrier(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32"), *,
                                    fixed: T.constexpr):
    T.device_entry()
    bx, by = T.cta_id([4, 4])
    tx, ty = T.thread_id([16, 16])
    a_tile, b_tile = T.alloc_shared((16, 16), "float32"), T.alloc_shared((16, 16), "float32")
    total = T.local_scalar("float32", 0.0)
    for k0 in T.serial(0, 64, 16):
        a_tile[ty, tx] = A[by * 16 + ty, k0 + tx]           # BUG
        b_tile[ty, tx] = B[k0 + ty, bx * 16 + tx]
        T.cuda.cta_sync()
        for k in T.serial(16):
            total += a_tile[ty, k] * b_tile[k, tx]          # BUG
        if fixed:
            T.cuda.cta_sync()
    C[by * 16 + ty, bx * 16 + tx] = total


# ---- 9: inside a warp --------------------------------------------------------------------------------------------------

@planted(9, DataRaceError, "tile", f32(32), zeros(32))
def neighbours_in_step(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    lane = T.lane_id([32])
    tile = T.alloc_shared((32,), "float32")
    tile[lane] = A[lane]            # BUG
    if fixed:
        T.cuda.warp_sync()
    B[lane] = tile[31 - lane]       # BUG


@planted(9, DataRaceError, "tile", f32(64), zeros(64))
def shuffle_as_a_barrier(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    tile = T.alloc_shared((64,), "float32")
    tile[tx] = A[tx]                # BUG
    top = T.cuda.shfl_xor_sync(0xFFFFFFFF, A[tx], 16)
    if fixed:
        T.cuda.warp_sync()
    B[tx] = tile[tx ^ 1] + top      # BUG


@planted(9, DataRaceError, "tile", f32(64), zeros(64))
def vote_as_a_barrier(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    tile = T.alloc_shared((64,), "float32")
    with T.If(T.cuda.any_sync(0xFFFFFFFF, A[tx] > 0.0)):
        tile[tx] = A[tx]            # BUG
    T.cuda.ballot_sync(0xFFFFFFFF, A[tx] > 1.0)
    if fixed:
        T.cuda.warp_sync()
    with T.If(T.cuda.any_sync(0xFFFFFFFF, A[tx] > 0.0)):
        B[tx] = tile[tx ^ 3]        # BUG


@planted(9, DataRaceError, "tree", f32(64), zeros(2))
def last_steps_of_a_tree_in_one_warp(A: T.Buffer((64,), "float32"), B: T.Buffer((2,), "float32"), *, fixed: T.constexpr):
    """The warp-synchronous end of old reductions."""
    T.device_entry()
    tx = T.thread_id([64])
    tree = T.alloc_shared((64,), "float32")
    tree[tx] = A[tx]
    T.cuda.cta_sync()
    with T.If(tx < 32):
        for step in (32, 16, 8, 4, 2, 1):
            found = tree[tx] + tree[tx + step]          # BUG
            if fixed:
                T.cuda.warp_sync()
            tree[tx] = found                            # BUG
            if fixed:
                T.cuda.warp_sync()
        with T.If(tx == 0):
            B[0] = tree[0]


@planted(9, DataRaceError, "tile", f32(32), zeros(32))
def halves_of_a_warp(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    """Each half waits for itself, and reads the other's."""
    T.device_entry()
    lane = T.lane_id([32])
    tile = T.alloc_shared((32,), "float32")
    tile[lane] = A[lane]            # BUG
    if fixed:
        T.cuda.warp_sync()
    else:
        T.cuda.warp_sync(T.select(lane < 16, T.uint32(0x0000FFFF), T.uint32(0xFFFF0000)))
    B[lane] = tile[lane ^ 16]       # BUG


@planted(9, DataRaceError, "A", i32(64))
def compaction_in_place(A: T.Buffer((64,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    warp, lane = T.warp_id([2]), T.lane_id([32])
    value = A[warp * 32 + lane]                                 # BUG
    chosen = T.cuda.ballot_sync(0xFFFFFFFF, value % 3 == 0)
    below = T.cuda.popc(chosen & ((T.uint32(1) << lane) - 1))
    if fixed:
        T.cuda.warp_sync()
    with T.If(value % 3 == 0):
        A[warp * 32 + below] = value                            # BUG


# ---- 10: aliases and bytes ---------------------------------------------------------------------------------------------

@planted(10, DataRaceError, "pairs", f32(64), zeros(32, dtype="uint32"))
def half_of_a_pair(A: T.Buffer((64,), "float32"), B: T.Buffer((32,), "uint32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    halves = T.alloc_shared((64,), "float16", align=4)
    pairs = halves.view("uint32")
    halves[tx] = A[tx].astype("float16")        # BUG
    if fixed:
        T.cuda.cta_sync()
    with T.If(tx < 32):
        B[tx] = pairs[tx]                       # BUG


@planted(10, DataRaceError, "words", zeros(32, dtype="uint32"))
def bytes_set_through_words(W: T.Buffer((32,), "uint32"), *, fixed: T.constexpr):
    """Four threads each replace a byte of a word by reading and writing the whole word."""
    T.device_entry()
    tx = T.thread_id([128])
    words = T.alloc_shared((32,), "uint32")
    bytes_ = words.view("uint8")
    with T.If(tx < 32):
        words[tx] = 0
    T.cuda.cta_sync()
    if fixed:
        bytes_[tx] = tx.astype("uint8")
    else:
        by = (8 * (tx % 4)).astype("uint32")
        words[tx // 4] = words[tx // 4] | (tx.astype("uint32") << by)       # BUG
    T.cuda.cta_sync()
    with T.If(tx < 32):
        W[tx] = words[tx]


@planted(10, DataRaceError, "late", f32(128), zeros(128))
def pool_reused_without_a_barrier(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([128])
    pool = T.SMEMPool()
    early = pool.alloc((128,), "float32")
    pool.move_base_to(0)
    late = pool.alloc((256,), "int16")
    pool.commit()
    early[tx] = A[tx]
    T.cuda.cta_sync()
    value = early[127 - tx]                     # BUG
    if fixed:
        T.cuda.cta_sync()
    late[2 * tx] = value.astype("int16")        # BUG
    B[tx] = late[2 * tx].astype("float32")


@planted(10, DataRaceError, "upper", f32(96), zeros(96))
def overlapping_views(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([96])
    whole = T.alloc_shared((192,), "float32")
    lower = T.decl_buffer((96,), "float32", data=whole.data)
    upper = T.decl_buffer((96,), "float32", data=whole.data, elem_offset=96 if fixed else 64)
    lower[tx] = A[tx]       # BUG
    upper[tx] = -A[tx]      # BUG
    T.cuda.cta_sync()
    B[tx] = lower[tx] + upper[tx]


# ---- 11: the same value ------------------------------------------------------------------------------------------------

@planted(11, SameValueRaceError, "total", f32(64), zeros(64))
def everybody_clears_the_sum(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    total = T.shared_scalar("float32")
    with T.If(tx == 0 if fixed else tx >= 0):
        total.assign(0.0)                   # BUG
    T.cuda.cta_sync()
    T.cuda.atomic_add(T.address_of(total), A[tx])
    T.cuda.cta_sync()
    B[tx] = total


@planted(11, SameValueRaceError, "found", i32(4, 64), zeros(1, dtype="int32"))
def everybody_says_yes(A: T.Buffer((4, 64), "int32"), found: T.Buffer((1,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([4]), T.thread_id([64])
    with T.If(A[bx, tx] % 7 == 3):
        if fixed:
            T.cuda.atomic_exch(found.ptr_to([0]), 1)
        else:
            found[0] = 1                    # BUG


# ---- 12: global memory -------------------------------------------------------------------------------------------------

@planted(12, DataRaceError, "A", f32(512))
def stencil_in_place_across_blocks(A: T.Buffer((512,), "float32"), *, fixed: T.constexpr):
    """A barrier orders the threads of a block, not the blocks."""
    T.device_entry()
    i = T.cta_id([1 if fixed else 2]) * 256 + T.thread_id([512 if fixed else 256])
    left = T.if_then_else(i > 0, A[i - 1], 0.0)     # BUG
    T.cuda.cta_sync()
    A[i] = left + 1.0                               # BUG


@planted(12, DataRaceError, "A", f32(256))
def reversed_in_place(A: T.Buffer((256,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([256])
    value = A[255 - tx]         # BUG
    if fixed:
        T.cuda.cta_sync()
    A[tx] = value               # BUG


@planted(12, DataRaceError, "counts", i32(4, 64), zeros(8, dtype="int32"))
def histogram_without_atomics(A: T.Buffer((4, 64), "int32"), counts: T.Buffer((8,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([4]), T.thread_id([64])
    bin_ = A[bx, tx] % 8
    if fixed:
        T.cuda.atomic_add(counts.ptr_to([bin_]), 1)
    else:
        counts[bin_] = counts[bin_] + 1         # BUG


@planted(12, DataRaceError, "B", f32(128), zeros(64))
def two_threads_an_element(A: T.Buffer((128,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([128])
    with T.If(tx % 2 == 0 if fixed else tx >= 0):
        B[tx // 2] = A[tx]          # BUG


@planted(12, DataRaceError, "B", f32(4, 64), zeros(200))
def tiles_of_blocks_overlap(A: T.Buffer((4, 64), "float32"), B: T.Buffer((200,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([3]), T.thread_id([64])
    B[bx * (64 if fixed else 60) + tx] = A[bx, tx]      # BUG


@planted(12, DataRaceError, "partial", f32(4, 64), zeros(4), zeros(1))
def sum_of_partial_sums_at_once(A: T.Buffer((4, 64), "float32"), partial: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32"), *,
                                fixed: T.constexpr):
    """A second kernel, or the last block to come, must add what the blocks found."""
    T.device_entry()
    bx, tx = T.cta_id([4]), T.thread_id([64])
    scratch = T.alloc_shared((2,), "float32")
    total = T.cuda.cta_sum(A[bx, tx], 2, scratch.ptr_to([0]))
    with T.If(tx == 0):
        partial[bx] = total                     # BUG
    T.cuda.cta_sync()
    with T.If((bx == 3) & (tx == 0)):
        whole = T.local_scalar("float32", 0.0)
        for block in T.serial(3, 4) if fixed else T.serial(4):
            whole += partial[block]             # BUG
        B[0] = whole


@planted(12, DataRaceError, "A", f32(16, 16))
def transposed_in_place(A: T.Buffer((16, 16), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx, ty = T.thread_id([16, 16])
    with T.If(tx > ty if fixed else tx >= 0):
        a, b = A[ty, tx], A[tx, ty]     # BUG
        A[ty, tx] = b                   # BUG
        if fixed:
            A[tx, ty] = a


@planted(12, DataRaceError, "A", f32(64, 4))
def rows_shifted_by_blocks(A: T.Buffer((64, 4), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([63]), T.thread_id([4])
    if fixed:
        A[bx, tx] = A[bx, tx] + 1.0
    else:
        A[bx, tx] = A[bx + 1, tx]       # BUG


# ---- 13: atomics and plain accesses ------------------------------------------------------------------------------------

@planted(13, DataRaceError, "count", i32(64), zeros(64, dtype="int32"))
def counter_read_at_once(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    count = T.shared_scalar("int32")
    with T.If(tx == 0):
        count.assign(0)
    T.cuda.cta_sync()
    T.cuda.atomic_add(T.address_of(count), A[tx])       # BUG
    if fixed:
        T.cuda.cta_sync()
    B[tx] = count                                       # BUG


@planted(13, DataRaceError, "count", zeros(1, dtype="int32"))
def counter_by_hand(count: T.Buffer((1,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    T.cta_id([8])
    tx = T.thread_id([32])
    with T.If(tx == 0):
        if fixed:
            T.cuda.atomic_add(count.ptr_to([0]), 1)
        else:
            count[0] = count[0] + 1         # BUG


@planted(13, DataRaceError, "B", i32(4, 32), zeros(1, dtype="int32"))
def cleared_by_one_block(A: T.Buffer((4, 32), "int32"), B: T.Buffer((1,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([4]), T.thread_id([32])
    if not fixed:
        with T.If((bx == 0) & (tx == 0)):
            B[0] = 0                                    # BUG
        T.cuda.cta_sync()
    T.cuda.atomic_add(B.ptr_to([0]), A[bx, tx])         # BUG


@planted(13, DataRaceError, "best", f32(128), zeros(1))
def maximum_checked_before_the_atomic(A: T.Buffer((128,), "float32"), B: T.Buffer((1,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([128])
    best = T.shared_scalar("int32")
    with T.If(tx == 0):
        best.assign(0)
    T.cuda.cta_sync()
    mine = A[tx].astype("int32")
    with T.If((tx >= 0) if fixed else mine > best):         # BUG
        T.cuda.atomic_max(T.address_of(best), mine)         # BUG
    T.cuda.cta_sync()
    with T.If(tx == 0):
        B[0] = best.astype("float32")


@planted(13, DataRaceError, "A", zeros(4, 32, dtype="int32"), zeros(4, dtype="int32"))
def atomic_of_too_small_a_scope(A: T.Buffer((4, 32), "int32"), B: T.Buffer((4,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([4]), T.thread_id([32])
    T.cuda.atomic_add(A.ptr_to([0, tx]), bx, scope="device" if fixed else "block")      # BUG
    with T.If(tx == 0):
        B[bx] = 1


# ---- 16: one array for two parameters ----------------------------------------------------------------------------------

_SHARED_ARRAY = f32(64)


@planted(16, ArgumentValueError, "B", lambda: _SHARED_ARRAY, lambda: _SHARED_ARRAY)
def the_same_array_twice(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    if not fixed:
        B[tx] = A[63 - tx]


