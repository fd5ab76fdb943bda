"""Planted bugs of barriers in memory and of asynchronous copies: rows 19 and 21 to 25, 30."""

# ruff: noqa: F821
from __future__ import annotations

from tests.sanitizer.corpus import f32, planted, zeros
from tracer import T
from tracer.errors import (
    AsyncError,
    BarrierDivergenceError,
    BarrierError,
    ClusterError,
    DataRaceError,
    DeadlockError,
    MBarrierError,
    OutOfBoundsError,
    TraceError,
    UninitializedReadError,
)

# ---- 19: named barriers ------------------------------------------------------------------------------------------------


@planted(19, DeadlockError, "deadlock", f32(64), zeros(64))
def count_of_a_named_barrier_too_large(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([128])
    with T.If(tx < 64):
        T.ptx.bar.sync(1, 64 if fixed else 96)      # BUG
        B[tx] = A[tx]


@planted(19, BarrierError, "bar.sync", f32(64), zeros(64))
def two_counts_at_a_named_barrier(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    with T.If(tx < 32):
        T.ptx.bar.sync(1, 64)
    with T.Else():
        T.ptx.bar.sync(1, 64 if fixed else 32)      # BUG
    B[tx] = A[tx]


@planted(19, TraceError, "barrier 16", f32(64), zeros(64))
def a_sixteenth_barrier(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    T.ptx.bar.sync(15 if fixed else 16, 64)         # BUG
    B[tx] = A[tx]


@planted(19, BarrierError, "bar.arrive", f32(64), zeros(64))
def arriving_twice_at_a_named_barrier(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    with T.If(tx < 32):
        T.ptx.bar.arrive(1, 64)
        if not fixed:
            T.ptx.bar.arrive(1, 64)                 # BUG
    with T.Else():
        T.ptx.bar.sync(1, 64)
    B[tx] = A[tx]


@planted(19, DataRaceError, "s", f32(4, 32), zeros(4, 32))
def producer_that_does_not_wait(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32"), *, fixed: T.constexpr):
    """One named barrier says that the slot is full; that it is free again is said by nothing."""
    T.device_entry()
    tx = T.thread_id([64])
    s = T.alloc_shared((32,), "float32")
    with T.If(tx < 32):
        for i in T.serial(4):
            s[tx] = A[i, tx]                        # BUG
            T.ptx.bar.sync(1, 64)
            if fixed:
                T.ptx.bar.sync(2, 64)
    with T.Else():
        for i in T.serial(4):
            T.ptx.bar.sync(1, 64)
            B[i, tx - 32] = s[63 - tx]              # BUG
            if fixed:
                T.ptx.bar.sync(2, 64)


@planted(19, BarrierDivergenceError, "bar.sync", f32(64), zeros(64))
def a_part_of_a_warp_at_a_named_barrier(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    with T.If(tx < (64 if fixed else 48)):
        T.ptx.bar.sync(1, 64)                       # BUG
    B[tx] = A[tx]


# ---- 21: mbarriers -----------------------------------------------------------------------------------------------------

@planted(21, MBarrierError, "bar", f32(32), zeros(32))
def arrival_before_the_init(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    bar = T.alloc_shared((1,), "uint64")
    if fixed:
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 32)
        T.cuda.cta_sync()
    with T.If(tx < 32):
        T.ptx.mbarrier.arrive.shared.b64(bar.ptr_to([0]))       # BUG
    with T.Else():
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
        B[tx - 32] = A[tx - 32]


@planted(21, DataRaceError, "bar", f32(32), zeros(32))
def init_that_nothing_orders(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    bar = T.alloc_shared((1,), "uint64")
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 32)     # BUG
    if fixed:
        T.cuda.cta_sync()
    with T.If(tx < 32):
        T.ptx.mbarrier.arrive.shared.b64(bar.ptr_to([0]))       # BUG
    with T.Else():
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
        B[tx - 32] = A[tx - 32]


@planted(21, DeadlockError, "deadlock", f32(32), zeros(32))
def count_larger_than_the_arrivals(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    bar = T.alloc_shared((1,), "uint64")
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 32 if fixed else 33)
    T.cuda.cta_sync()
    with T.If(tx < 32):
        T.ptx.mbarrier.arrive.shared.b64(bar.ptr_to([0]))
    with T.Else():
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)                # BUG
        B[tx - 32] = A[tx - 32]


@planted(21, MBarrierError, "bar", f32(32), zeros(32))
def more_arrivals_than_the_count(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    bar = T.alloc_shared((1,), "uint64")
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 32 if fixed else 16)
    T.cuda.cta_sync()
    with T.If(tx < 32):
        T.ptx.mbarrier.arrive.shared.b64(bar.ptr_to([0]))       # BUG
    with T.Else():
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
        B[tx - 32] = A[tx - 32]


@planted(21, DeadlockError, "deadlock", f32(4, 32), zeros(4, 32))
def parity_that_is_not_carried(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32"), *, fixed: T.constexpr):
    """The consumer's parity changes every turn, though there are two slots."""
    T.device_entry()
    tx = T.thread_id([64])
    full, empty = T.alloc_shared((2,), "uint64"), T.alloc_shared((2,), "uint64")
    slots = T.alloc_shared((2, 32), "float32")
    with T.If(tx == 0):
        for s in range(2):
            T.ptx.mbarrier.init.shared.b64(full.ptr_to([s]), 32)
            T.ptx.mbarrier.init.shared.b64(empty.ptr_to([s]), 32)
    T.cuda.cta_sync()
    with T.If(tx < 32):
        for i in T.serial(4):
            T.cuda.mbarrier_wait(empty.ptr_to([i % 2]), (i // 2 + 1) % 2)
            slots[i % 2, tx] = A[i, tx]
            T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([i % 2]))
    with T.Else():
        for i in T.serial(4):
            T.cuda.mbarrier_wait(full.ptr_to([i % 2]), i // 2 % 2 if fixed else (i + i // 2) % 2)       # BUG
            B[i, tx - 32] = slots[i % 2, 63 - tx]
            T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([i % 2]))


@planted(21, DataRaceError, "slots", f32(4, 32), zeros(4, 32))
def one_lane_arrives_for_all(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32"), *, fixed: T.constexpr):
    """An arrival publishes what its own thread did; the others of the warp must be ordered before it."""
    T.device_entry()
    tx = T.thread_id([64])
    full, empty = T.alloc_shared((2,), "uint64"), T.alloc_shared((2,), "uint64")
    slots = T.alloc_shared((2, 32), "float32")
    with T.If(tx == 0):
        for s in range(2):
            T.ptx.mbarrier.init.shared.b64(full.ptr_to([s]), 1)
            T.ptx.mbarrier.init.shared.b64(empty.ptr_to([s]), 32)
    T.cuda.cta_sync()
    with T.If(tx < 32):
        for i in T.serial(4):
            T.cuda.mbarrier_wait(empty.ptr_to([i % 2]), (i // 2 + 1) % 2)
            slots[i % 2, tx] = A[i, tx]                                 # BUG
            if fixed:
                T.cuda.warp_sync()
            with T.If(tx == 0):
                T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([i % 2]))
    with T.Else():
        for i in T.serial(4):
            T.cuda.mbarrier_wait(full.ptr_to([i % 2]), i // 2 % 2)
            B[i, tx - 32] = slots[i % 2, 63 - tx]                       # BUG
            T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([i % 2]))


@planted(21, DataRaceError, "slots", f32(8, 32), zeros(8, 128))
def one_of_four_warps_does_not_say_that_it_is_done(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 128), "float32"), *, fixed: T.constexpr):
    """And the count is that of the three others, so that nobody waits for ever."""
    T.device_entry()
    tx = T.thread_id([160])
    full, empty = T.alloc_shared((2,), "uint64"), T.alloc_shared((2,), "uint64")
    slots = T.alloc_shared((2, 32), "float32")
    with T.If(tx == 0):
        for s in range(2):
            T.ptx.mbarrier.init.shared.b64(full.ptr_to([s]), 32)
            T.ptx.mbarrier.init.shared.b64(empty.ptr_to([s]), 128 if fixed else 96)
    T.cuda.cta_sync()
    with T.If(tx >= 128):
        for i in T.serial(8):
            T.cuda.mbarrier_wait(empty.ptr_to([i % 2]), (i // 2 + 1) % 2)
            slots[i % 2, tx - 128] = A[i, tx - 128]                     # BUG
            T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([i % 2]))
    with T.Else():
        for i in T.serial(8):
            T.cuda.mbarrier_wait(full.ptr_to([i % 2]), i // 2 % 2)
            B[i, tx] = slots[i % 2, 31 - tx % 32]                       # BUG
            with T.If((tx // 32 != 1) | fixed):
                T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([i % 2]))


@planted(21, MBarrierError, "bar", f32(32), zeros(32))
def init_of_a_barrier_in_use(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    bar = T.alloc_shared((1,), "uint64")
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 2)
        T.ptx.mbarrier.arrive.shared.b64(bar.ptr_to([0]))
        if not fixed:
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)      # BUG
        T.ptx.mbarrier.arrive.shared.b64(bar.ptr_to([0]))
    T.cuda.cta_sync()
    T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
    B[tx] = A[tx]


@planted(22, DeadlockError, "deadlock", f32(32), zeros(32))
def each_waits_for_the_other(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    bars = T.alloc_shared((2,), "uint64")
    with T.If(tx == 0):
        for s in range(2):
            T.ptx.mbarrier.init.shared.b64(bars.ptr_to([s]), 32)
    T.cuda.cta_sync()
    with T.If(tx < 32):
        if fixed:
            T.ptx.mbarrier.arrive.shared.b64(bars.ptr_to([0]))
        T.cuda.mbarrier_wait(bars.ptr_to([1]), 0)                   # BUG
        if not fixed:
            T.ptx.mbarrier.arrive.shared.b64(bars.ptr_to([0]))
    with T.Else():
        T.cuda.mbarrier_wait(bars.ptr_to([0]), 0)                   # BUG
        T.ptx.mbarrier.arrive.shared.b64(bars.ptr_to([1]))
        B[tx - 32] = A[tx - 32]


@planted(22, DeadlockError, "deadlock", zeros(1, dtype="int32"), zeros(1))
def flag_that_nobody_sets(flag: T.Buffer((1,), "int32"), B: T.Buffer((1,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([2]), T.thread_id([32])
    with T.If(tx == 0):
        with T.If(bx == 0):
            if fixed:
                T.cuda.atomic_exch(flag.ptr_to([0]), 1)
        with T.Else():
            with T.While(lambda: T.cuda.atomic_add(flag.ptr_to([0]), 0) == 0):      # BUG
                pass
            B[0] = 1.0


# ---- 23: cp.async ------------------------------------------------------------------------------------------------------

def _two_stages(name: str, error: type[Exception], buffer: str, *, depth: int = 1, commit: bool = True, wait: bool = True, before: bool = True,
                behind: bool = True) -> None:
    """Rows of A through two buffers: the next row is fetched while this one is used."""
    def kernel(A: T.Buffer((8, 128), "float32", align=16), B: T.Buffer((8, 128), "float32"), *, fixed: T.constexpr):
        T.device_entry()
        tx = T.thread_id([32])
        tiles = T.alloc_shared((2, 128), "float32", align=16)

        def fetch(i):
            T.ptx["cp.async.cg.shared.global"](tiles.ptr_to([i % 2, tx * 4]), A.ptr_to([i, tx * 4]), 16)        # BUG
            if commit or fixed:
                T.ptx.cp.async_.commit_group()

        fetch(0)
        for i in T.serial(8):
            with T.If(i < 7):
                fetch(i + 1)
                if wait or fixed:
                    T.ptx.cp.async_.wait_group(1 if fixed else depth)
            with T.Else():
                if wait or fixed:
                    T.ptx.cp.async_.wait_group(0)
            if before or fixed:
                T.cuda.cta_sync()
            for k in range(4):
                B[i, tx + 32 * k] = tiles[i % 2, 127 - (tx + 32 * k)]       # BUG
            if behind or fixed:
                T.cuda.cta_sync()
    kernel.__name__ = kernel.__qualname__ = name
    planted(23, error, buffer, f32(8, 128), zeros(8, 128))(kernel)


_two_stages("copies_waited_for_one_too_few", DataRaceError, "tiles", depth=2)
_two_stages("copies_of_other_threads_without_a_barrier", DataRaceError, "tiles", before=False)
_two_stages("tile_overwritten_by_a_copy_while_it_is_read", DataRaceError, "tiles", behind=False)
_two_stages("copies_that_nobody_waits_for", DataRaceError, "tiles", wait=False)
_two_stages("copies_without_a_commit", DataRaceError, "tiles", commit=False)


@planted(23, AsyncError, "cp.async", f32(128), zeros(1))
def copy_left_under_way(A: T.Buffer((128,), "float32", align=16), B: T.Buffer((1,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    tile = T.alloc_shared((128,), "float32", align=16)
    T.ptx["cp.async.cg.shared.global"](tile.ptr_to([tx * 4]), A.ptr_to([tx * 4]), 16)       # BUG
    T.ptx.cp.async_.commit_group()
    if fixed:
        T.ptx.cp.async_.wait_group(0)
    with T.If(tx == 0):
        B[0] = A[0]


@planted(3, OutOfBoundsError, "A", f32(126), zeros(128))
def copy_over_the_end(A: T.Buffer(("n",), "float32", align=16), B: T.Buffer((128,), "float32"), *, fixed: T.constexpr):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([32])
    tile = T.alloc_shared((128,), "float32", align=16)
    with T.If(tx * 4 + 3 < n if fixed else tx * 4 < n):
        T.ptx["cp.async.cg.shared.global"](tile.ptr_to([tx * 4]), A.ptr_to([tx * 4]), 16)       # BUG
    T.ptx.cp.async_.wait_all()
    T.cuda.cta_sync()
    with T.If(tx == 0):
        B[0] = tile[5]


# ---- 24 and 25: bulk copies and the async proxy ------------------------------------------------------------------------

def _bulk(number: int, name: str, error: type[Exception], buffer: str, **missing: bool) -> None:
    """A tile comes by a bulk copy, is turned round, and goes by one."""
    kept = {step: step not in missing for step in ("wait", "reuse", "proxy", "sync", "drain", "bytes", "fence")}

    def kernel(A: T.Buffer((256,), "float32", align=16), B: T.Buffer((256,), "float32", align=16), *, fixed: T.constexpr):
        T.device_entry()
        tx = T.thread_id([128])
        tile, bar = T.alloc_shared((256,), "float32", align=128), T.alloc_shared((1,), "uint64")

        def has(step):
            return fixed or kept[step]

        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)         # INIT
            if has("fence"):
                T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cta_sync()
        with T.If(tx == 0):
            T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), 1024 if has("bytes") else 1040)
            T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](tile.ptr_to([0]), A.ptr_to([0]), 1024, bar.ptr_to([0]))  # LOAD
        if has("wait"):
            T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)                    # WAIT
        low, high = tile[tx] * 2.0, tile[tx + 128] * 2.0                # READ
        if has("reuse"):
            T.cuda.cta_sync()
        for at, value in ((255 - tx, low), (127 - tx, high)):
            tile[at] = value                                            # WRITE
        if has("proxy"):
            T.ptx.fence.proxy.async_.shared__cta()
        if has("sync"):
            T.cuda.cta_sync()
        with T.If(tx == 0):
            T.ptx["cp.async.bulk.global.shared::cta.bulk_group"](B.ptr_to([0]), tile.ptr_to([0]), 1024)     # STORE
            T.ptx.cp.async_.bulk.commit_group()
            if has("drain"):
                T.ptx.cp.async_.bulk.wait_group.read(0)
        if not has("wait"):
            T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
    kernel.__name__ = kernel.__qualname__ = name
    marks = {"wait": ("LOAD", "READ"), "reuse": ("READ", "WRITE"), "proxy": ("STORE",), "sync": ("STORE",), "drain": ("STORE",), "bytes": ("WAIT",),
             "fence": ("INIT", "LOAD")}
    planted(number, error, buffer, f32(256), zeros(256), marks=tuple(f"# {m}" for step in missing for m in marks[step]))(kernel)


_bulk(24, "bulk_copy_read_before_its_wait", DataRaceError, "tile", wait=False)
_bulk(24, "tile_of_a_bulk_copy_rewritten_while_others_read", DataRaceError, "tile", reuse=False)
_bulk(24, "bulk_store_before_all_have_written", DataRaceError, "tile", sync=False)
_bulk(24, "bulk_store_that_is_not_drained", AsyncError, "cp.async.bulk", drain=False)
_bulk(24, "more_bytes_expected_than_copied", DeadlockError, "deadlock", bytes=False)
_bulk(24, "barrier_of_a_copy_without_a_fence_behind_its_init", MBarrierError, "bar", fence=False)
_bulk(25, "bulk_store_without_a_proxy_fence", DataRaceError, "tile", proxy=False)


@planted(24, DataRaceError, "tile", f32(128), zeros(128))
def source_of_a_bulk_store_overwritten(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32", align=16), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    tile = T.alloc_shared((128,), "float32", align=128)
    for k in range(4):
        tile[tx + 32 * k] = A[tx + 32 * k]
    T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    with T.If(tx == 0):
        T.ptx["cp.async.bulk.global.shared::cta.bulk_group"](B.ptr_to([0]), tile.ptr_to([0]), 512)      # BUG
        T.ptx.cp.async_.bulk.commit_group()
        if fixed:
            T.ptx.cp.async_.bulk.wait_group.read(0)
    T.cuda.cta_sync()
    tile[tx] = 0.0                  # BUG
    with T.If(tx == 0):
        T.ptx.cp.async_.bulk.wait_group(0)


# ---- 30: clusters ------------------------------------------------------------------------------------------------------

def _cluster(name: str, error: type[Exception] | tuple[type[Exception], ...], buffer: str, mark: tuple[str, ...], **missing: bool) -> None:
    """Each block reads what the other one of its cluster stored."""
    def kernel(A: T.Buffer((256,), "float32"), B: T.Buffer((4, 64), "float32"), *, fixed: T.constexpr):
        T.device_entry()
        pair, rank = T.cluster_id([2]), T.cta_id_in_cluster([2])
        tx = T.thread_id([64])
        part = T.alloc_shared((64,), "float32")
        address, found = T.alloc_local((1,), "uint64"), T.alloc_local((1,), "uint32")
        part[tx] = A[(pair * 2 + rank) * 64 + tx]       # STORE
        if fixed or "before" not in missing:
            T.cuda.cluster_sync()
        T.ptx.mapa.u64(address[0], part.ptr_to([63 - tx]), (1 - rank).astype("uint32"))
        T.ptx.ld.b32(found[0], address[0])              # LOAD
        if fixed or "behind" not in missing:
            T.cuda.cluster_sync()
        B[pair * 2 + rank, tx] = T.reinterpret("float32", +found[0])
    kernel.__name__ = kernel.__qualname__ = name
    planted(30, error, buffer, f32(256), zeros(4, 64), marks=mark)(kernel)


_cluster("shared_memory_of_a_peer_before_it_is_written", (DataRaceError, ClusterError), "", ("# LOAD",), before=False)
_cluster("shared_memory_of_a_peer_that_has_ended", ClusterError, "block", ("# LOAD",), behind=False)


@planted(30, ClusterError, "cluster", f32(256), zeros(256))
def cluster_wait_without_an_arrival(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    pair, rank = T.cluster_id([2]), T.cta_id_in_cluster([2])
    tx = T.thread_id([64])
    if fixed:
        T.ptx.barrier.cluster.arrive()
    T.ptx.barrier.cluster.wait()        # BUG
    B[(pair * 2 + rank) * 64 + tx] = A[(pair * 2 + rank) * 64 + tx]


@planted(30, ClusterError, "cluster", f32(256), zeros(256))
def two_arrivals_at_the_cluster(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    pair, rank = T.cluster_id([2]), T.cta_id_in_cluster([2])
    tx = T.thread_id([64])
    T.ptx.barrier.cluster.arrive()
    if not fixed:
        T.ptx.barrier.cluster.arrive()      # BUG
    T.ptx.barrier.cluster.wait()
    B[(pair * 2 + rank) * 64 + tx] = A[(pair * 2 + rank) * 64 + tx]


@planted(30, ClusterError, "cluster", f32(256), zeros(256))
def arrival_at_the_cluster_without_a_wait(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    pair, rank = T.cluster_id([2]), T.cta_id_in_cluster([2])
    tx = T.thread_id([64])
    T.ptx.barrier.cluster.arrive()          # BUG
    B[(pair * 2 + rank) * 64 + tx] = A[(pair * 2 + rank) * 64 + tx]
    if fixed:
        T.ptx.barrier.cluster.wait()


@planted(21, MBarrierError, "bar", f32(32), zeros(32))
def state_two_phases_behind(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([32])
    bar, state, done = T.alloc_shared((1,), "uint64"), T.alloc_local((2,), "uint64"), T.alloc_local((1,), "uint32")
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        for k in range(2):
            T.ptx.mbarrier.arrive.shared.b64(state[k], bar.ptr_to([0]))
            T.cuda.mbarrier_wait(bar.ptr_to([0]), k)
        T.ptx.mbarrier.test_wait.shared.b64(done[0], bar.ptr_to([0]), state[1 if fixed else 0])      # BUG
    B[tx] = A[tx]


# ---- tensor copies -----------------------------------------------------------------------------------------------------

def _ring(name: str, error: type[Exception] | tuple[type[Exception], ...], buffer: str, marks: tuple[str, ...], bug: str) -> None:
    """Boxes of A through a ring of two tiles, doubled, and back to B by tensor stores."""
    def kernel(A: T.Buffer((128, 32), "float32"), B: T.Buffer((128, 32), "float32"), *, fixed: T.constexpr):
        a_map, b_map = T.tensor_map(A, (16, 32)), T.tensor_map(B, (16, 32))
        T.device_entry()
        tx = T.thread_id([160])
        wrong = "" if fixed else bug
        pool = T.SMEMPool()
        tiles = pool.alloc((2, 16, 32), "float32", align=128)
        out = pool.alloc((16, 32), "float32", align=128)
        full, empty = pool.alloc((2,), "uint64"), pool.alloc((2,), "uint64")
        pool.commit()
        with T.If(tx == 0):
            for s in range(2):
                T.ptx.mbarrier.init.shared.b64(full.ptr_to([s]), 1)
                T.ptx.mbarrier.init.shared.b64(empty.ptr_to([s]), 64 if wrong == "count" else 128)      # INIT
            T.ptx.fence.mbarrier_init.release.cluster()
        T.cuda.cta_sync()
        with T.If(tx >= 128):
            with T.If(tx == 128):
                for k in T.serial(8):
                    if wrong != "refill":
                        T.cuda.mbarrier_wait(empty.ptr_to([k % 2]), (k // 2 + 1) % 2)
                    if wrong != "expect":
                        T.ptx.mbarrier.arrive.expect_tx.shared.b64(full.ptr_to([k % 2]), a_map.box_bytes)       # EXPECT
                    else:
                        T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([k % 2]))
                    T.tma.load(tiles[k % 2, 0:16, 0:32], a_map, (k * 16, 0), full.ptr_to([k % 2]))      # LOAD
        with T.Else():
            for k in T.serial(8):
                if wrong != "early":
                    T.cuda.mbarrier_wait(full.ptr_to([k % 2]), k // 2 % 2)
                for j in T.serial(4):
                    out[j * 4 + tx // 32, tx % 32] = tiles[k % 2, j * 4 + tx // 32, tx % 32] * 2.0      # READ
                T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([k % 2]))         # ARRIVE
                if wrong != "proxy":
                    T.ptx.fence.proxy.async_.shared__cta()
                T.ptx.bar.sync(1, 128)
                with T.If(tx == 0):
                    T.tma.store(b_map, (k * 16, 0), out[0:16, 0:32])            # STORE
                    if wrong != "commit":
                        T.tma.commit()
                    if wrong != "reuse":
                        T.tma.wait(0, read=True)
                T.ptx.bar.sync(1, 128)
            if wrong == "reuse":
                with T.If(tx == 0):
                    T.tma.wait(0)
    kernel.__name__ = kernel.__qualname__ = name
    planted(24, error, buffer, f32(128, 32), zeros(128, 32), marks=marks)(kernel)


_ring("box_that_comes_before_its_tile_is_free", (DataRaceError, MBarrierError), "", ("# EXPECT",), "refill")
_ring("box_read_before_it_came", (DataRaceError, UninitializedReadError), "tiles", ("# READ",), "early")
_ring("bytes_of_a_box_not_expected", (MBarrierError, DataRaceError, DeadlockError), "", (), "expect")
_ring("too_few_arrivals_free_a_tile", MBarrierError, "empty", ("# INIT", "# ARRIVE"), "count")
_ring("tile_of_a_tensor_store_rewritten_too_early", DataRaceError, "out", ("# STORE", "# READ"), "reuse")
_ring("tensor_store_without_a_proxy_fence", DataRaceError, "out", ("# STORE", "# READ"), "proxy")
_ring("tensor_store_without_a_commit", (AsyncError, DataRaceError), "", ("# STORE",), "commit")
