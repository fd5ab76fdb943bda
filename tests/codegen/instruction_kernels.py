"""Kernels that run every instruction but the matrix ones and tensor copies, with one right result each: on the simulator and on an sm_90."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tests.simulator.running import random
from tracer import T, trace

THREADS = 128
BULK_IN = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
BULK_OUT = "cp.async.bulk.global.shared::cta.bulk_group"


def ready(done: Any, wait: Any) -> None:
    """Try until `wait` has set `done`."""
    done.assign(T.uint32(0))
    with T.While(lambda: done == 0):
        wait(done)


def one_thread(tx: Any) -> Any:
    return T.If(tx == 0)


# ---- mbarriers

@trace
def states(A: T.Buffer((2, THREADS), "uint32")) -> None:
    """Arrivals that give their phase back, waits for it, and a barrier that loses half of its arrivals."""
    T.device_entry()
    tx = T.thread_id([THREADS])
    bars = T.MBarriers(2, THREADS)
    own = T.alloc_shared((1,), "uint64")
    state, done, count = T.local_scalar("uint64"), T.local_scalar("uint32"), T.local_scalar("uint32")
    tile = T.alloc_shared((THREADS,), "uint32")
    bars.init()
    tile[tx] = tx.astype("uint32") * 3
    T.ptx.mbarrier.arrive.shared.b64(state, bars.ptr(0))
    ready(done, lambda done: T.ptx.mbarrier.test_wait.shared.b64(done, bars.ptr(0), state))
    A[0, tx] = tile[THREADS - 1 - tx]
    with T.If(tx < 64):
        T.ptx.mbarrier.arrive_drop.shared.b64(bars.ptr(1))
    with T.Else():
        T.ptx.mbarrier.arrive.release.cta.shared__cta.b64(state, bars.ptr(1))
        ready(done, lambda done: T.ptx.mbarrier.try_wait.acquire.cta.shared__cta.b64(done, bars.ptr(1), state, 1000))
        T.ptx.mbarrier.arrive.shared.b64(state, bars.ptr(1))          # 64 are enough now
        ready(done, lambda done: T.ptx.mbarrier.test_wait.parity.shared.b64(done, bars.ptr(1), 1))
    count.assign(T.uint32(0))
    with one_thread(tx):
        T.ptx.mbarrier.init.shared.b64(own.ptr_to([0]), 3)
        T.ptx.mbarrier.arrive.noComplete.release.cta.shared.b64(state, own.ptr_to([0]), 2)
        T.ptx.mbarrier.pending_count.b64(count, state)
        T.ptx.mbarrier.inval.shared.b64(own.ptr_to([0]))
    A[1, tx] = count


@trace
def transactions(A: T.Buffer((THREADS,), "uint32")) -> None:
    """A phase that ends when all bytes have come."""
    T.device_entry()
    tx = T.thread_id([THREADS])
    bars = T.MBarriers(1, 1)
    total = T.alloc_shared((1,), "uint32")
    bars.init()
    with one_thread(tx):
        total[0] = T.uint32(7)
        T.ptx.mbarrier.expect_tx.relaxed.cta.shared__cta.b64(bars.ptr(0), 4 * THREADS - 4)
        T.ptx["mbarrier.arrive.expect_tx.release.cta.shared::cta.b64"](bars.ptr(0), 4)
    T.ptx.mbarrier.complete_tx.relaxed.cta.shared__cta.b64(bars.ptr(0), 4)
    done = T.local_scalar("bool", False)
    with T.While(lambda: ~(+done)):
        T.ptx["mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"](done, bars.ptr(0), 0)
    A[tx] = total[0] + tx.astype("uint32")


# ---- barriers of the block

@trace
def named_barriers(A: T.Buffer((5, THREADS), "uint32"), B: T.Buffer((THREADS,), "uint32")) -> None:
    """Two warps hand over to two; all vote; a warpgroup meets."""
    T.device_entry()
    tx = T.thread_id([THREADS])
    tile = T.alloc_shared((64,), "uint32")
    votes, flag, either = T.local_scalar("uint32"), T.local_scalar("uint32"), T.local_scalar("bool")
    with T.If(tx < 64):
        tile[tx] = B[tx]
        T.ptx.bar.arrive(1, THREADS)
        A[0, tx] = T.uint32(0)
    with T.Else():
        T.ptx.bar.sync(1, THREADS)
        A[0, tx] = tile[tx - 64]
    T.ptx.bar.red.popc.u32(votes, 2, THREADS, B[tx] > 5)
    T.ptx.bar.red["and"].pred(flag, 3, B[tx] != 1)
    T.ptx.barrier.red["or"].aligned.pred(either, 4, B[tx] == 77)
    A[1, tx], A[2, tx], A[3, tx] = votes, flag, T.select(either, T.uint32(1), T.uint32(0))
    T.cuda.warpgroup_sync(5)
    T.ptx.barrier.sync(6)
    T.ptx.barrier.cta.sync.aligned(7, THREADS)
    A[4, tx] = tx.astype("uint32")


# ---- clusters

@trace
def cluster_memory(A: T.Buffer((2, 6, THREADS), "uint32"), B: T.Buffer((2, THREADS), "uint32")) -> None:
    """Two blocks that read, write and add in each other's shared memory."""
    T.device_entry()
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    tx = T.thread_id([THREADS])
    mine, sent = T.alloc_shared((THREADS,), "uint32"), T.alloc_shared((THREADS, 4), "uint32", align=16)
    sums = T.alloc_shared((1,), "uint32")
    bars = T.MBarriers(2, 1)
    near, far, r = T.local_scalar("uint32"), T.local_scalar("uint64"), T.alloc_local((4,), "uint32")
    bars.init()
    mine[tx] = B[rank, tx]
    with one_thread(tx):
        sums[0] = T.uint32(100)
        bars.arrive(0, tx=16 * THREADS)
        bars.arrive(1, tx=4 * THREADS)
    T.ptx.fence.proxy.async_()
    T.ptx.barrier.cluster.arrive.release.aligned()
    T.ptx.barrier.cluster.wait.acquire.aligned()
    T.ptx["mapa.shared::cluster.u32"](near, mine.ptr_to([THREADS - 1 - tx]), 1 - rank)
    T.ptx["ld.shared::cluster.u32"](r[0], +near)
    T.ptx.mapa.u64(far, mine.ptr_to([tx]), 1 - rank)
    T.ptx.ld.u32(r[1], +far)
    T.ptx["getctarank.shared::cluster.u32"](r[2], +near)
    T.ptx.getctarank.u64(r[3], +far)
    for k in range(4):
        A[rank, k, tx] = r[k]
    T.ptx["mapa.shared::cluster.u32"](near, sent.ptr_to([tx, 0]), 1 - rank)
    bar, total = T.local_scalar("uint32"), T.local_scalar("uint32")
    T.ptx["mapa.shared::cluster.u32"](bar, bars.ptr(0), 1 - rank)
    T.ptx["st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32"](+near, [r[0], r[1], r[2], r[3]], +bar)
    T.ptx["mapa.shared::cluster.u32"](bar, bars.ptr(1), 1 - rank)
    T.ptx["mapa.shared::cluster.u32"](total, sums.ptr_to([0]), 1 - rank)
    T.ptx["red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"](+total, r[1], +bar)
    bars.wait(0, 0, cluster=True)
    bars.wait(1, 0, cluster=True)
    A[rank, 4, tx] = sent[tx, 0] + sent[tx, 1] + sent[tx, 3]
    A[rank, 5, tx] = sums[0]
    T.cuda.cluster_sync()


# ---- copies

@trace
def copied(A: T.Buffer((4 * THREADS,), "uint32", align=16), B: T.Buffer((7, THREADS), "uint32")) -> None:
    """`cp.async` of every size, of a part of the source, and of nothing; groups; and its arrivals at mbarriers."""
    T.device_entry()
    tx = T.thread_id([THREADS])
    tiles = [T.alloc_shared((4 * THREADS,), "uint32") for _ in range(7)]
    bars = T.MBarriers(2, THREADS)
    bars.init()
    copy = T.ptx.cp.async_
    copy.ca.shared.global_(tiles[0].ptr_to([tx]), A.ptr_to([tx]), 4)
    copy.commit_group()
    copy.ca.shared.global_(tiles[1].ptr_to([2 * tx]), A.ptr_to([2 * tx]), 8)
    T.ptx["cp.async.cg.shared::cta.global.L2::128B"](tiles[2].ptr_to([4 * tx]), A.ptr_to([4 * tx]), 16)
    copy.commit_group()
    copy.wait_group(1)
    B[0, tx] = tiles[0][tx]
    copy.ca.shared.global_(tiles[3].ptr_to([4 * tx]), A.ptr_to([4 * tx]), 16, (tx % 5 * 4).astype("uint32") % 17)
    copy.ca.shared.global_(tiles[4].ptr_to([tx]), A.ptr_to([tx]), 4, tx % 2 == 0)
    copy.wait_all()
    B[1, tx] = tiles[1][2 * tx] + tiles[1][2 * tx + 1]
    B[2, tx] = tiles[2][4 * tx] ^ tiles[2][4 * tx + 3]
    B[3, tx] = tiles[3][4 * tx] + tiles[3][4 * tx + 3]
    B[4, tx] = tiles[4][tx]
    copy.ca.shared.global_(tiles[5].ptr_to([tx]), A.ptr_to([tx]), 4)
    bars.arrive_after_copies(0)
    bars.wait(0, 0)
    B[5, tx] = tiles[5][THREADS - 1 - tx]
    copy.ca.shared.global_(tiles[6].ptr_to([tx]), A.ptr_to([tx]), 4)
    T.ptx["cp.async.mbarrier.arrive.shared::cta.b64"](bars.ptr(1))          # counts up before it counts down
    T.ptx["mbarrier.arrive.shared::cta.b64"](bars.ptr(1))
    bars.wait(1, 0)
    B[6, tx] = tiles[6][THREADS - 1 - tx]


@trace
def bulk(A: T.Buffer((4, THREADS), "int32", align=16), B: T.Buffer((4, THREADS), "int32", align=16),
         C: T.Buffer((2, THREADS), "float32", align=16)) -> None:
    """Bulk copies in and out, reductions on their way out, the source used again as soon as it was read."""
    T.device_entry()
    tx = T.thread_id([THREADS])
    tile, floats = T.alloc_shared((THREADS,), "int32", align=16), T.alloc_shared((THREADS,), "float32", align=16)
    bars = T.MBarriers(1, 1)
    bars.init()
    with one_thread(tx):
        T.ptx["cp.async.bulk.prefetch.L2.global"](A.ptr_to([0, 0]), 4 * THREADS)
        bars.arrive(0, tx=4 * THREADS)
        T.ptx[BULK_IN](tile.ptr_to([0]), A.ptr_to([0, 0]), 4 * THREADS, bars.ptr(0))
    bars.wait(0, 0)
    tile[tx] = tile[tx] + 1
    floats[tx] = tx.astype("float32") * 0.5
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    with one_thread(tx):
        T.ptx[BULK_OUT](B.ptr_to([0, 0]), tile.ptr_to([0]), 4 * THREADS)
        T.ptx["cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32"](B.ptr_to([1, 0]), tile.ptr_to([0]), 4 * THREADS)
        T.ptx["cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32"](B.ptr_to([2, 0]), tile.ptr_to([0]), 4 * THREADS)
        T.ptx["cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"](C.ptr_to([0, 0]), floats.ptr_to([0]), 4 * THREADS)
        T.ptx.cp.async_.bulk.commit_group()
        T.ptx.cp.async_.bulk.wait_group.read(0)
    T.cuda.cta_sync()
    tile[tx] = tx - 5
    T.ptx["fence.proxy.async.shared::cta"]()
    T.cuda.cta_sync()
    with one_thread(tx):
        T.ptx["cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32"](B.ptr_to([3, 0]), tile.ptr_to([0]), 4 * THREADS)
        T.ptx.cp.async_.bulk.commit_group()
        T.ptx.cp.async_.bulk.wait_group(0)


@trace
def bulk_in_a_cluster(A: T.Buffer((2, 2, THREADS), "uint32", align=16), B: T.Buffer((2, THREADS), "uint32", align=16)) -> None:
    """Bulk copies and sums from one block's shared memory to the other's, and one box to both."""
    T.device_entry()
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    tx = T.thread_id([THREADS])
    mine, theirs = T.alloc_shared((THREADS,), "uint32", align=16), T.alloc_shared((THREADS,), "uint32", align=16)
    sums = T.alloc_shared((THREADS,), "uint32", align=16)
    bars = T.MBarriers(2, 1)
    near, bar = T.local_scalar("uint32"), T.local_scalar("uint32")
    bars.init()
    mine[tx] = B[rank, tx]
    sums[tx] = tx.astype("uint32")
    T.ptx["fence.proxy.async.shared::cta"]()
    with one_thread(tx):
        bars.arrive(0, tx=4 * THREADS)
        bars.arrive(1, tx=4 * THREADS)
    T.cuda.cluster_sync()
    with one_thread(tx):
        for k, (place, copy) in enumerate(((theirs, "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"),
                                           (sums, "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"))):
            T.ptx["mapa.shared::cluster.u32"](near, place.ptr_to([0]), 1 - rank)
            T.ptx["mapa.shared::cluster.u32"](bar, bars.ptr(k), 1 - rank)
            T.ptx[copy](+near, mine.ptr_to([0]), 4 * THREADS, +bar)
    bars.wait(0, 0)
    bars.wait(1, 0)
    A[rank, 0, tx], A[rank, 1, tx] = theirs[tx], sums[tx]
    T.cuda.cluster_sync()


@trace
def multicast(A: T.Buffer((2, THREADS), "uint32"), B: T.Buffer((THREADS,), "uint32", align=16)) -> None:
    """One block's copy that both blocks get."""
    T.device_entry()
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    tx = T.thread_id([THREADS])
    tile = T.alloc_shared((THREADS,), "uint32", align=16)
    bars = T.MBarriers(1, 1)
    bars.init()
    with one_thread(tx):
        bars.arrive(0, tx=4 * THREADS)
    T.cuda.cluster_sync()
    with T.If((tx == 0) & (rank == 0)):
        T.ptx[f"{BULK_IN}.multicast::cluster"](tile.ptr_to([0]), B.ptr_to([0]), 4 * THREADS, bars.ptr(0), T.uint16(3))
    bars.wait(0, 0)
    A[rank, tx] = tile[tx] + 1
    T.cuda.cluster_sync()


# ---- loads, stores, atomics

@trace
def message(A: T.Buffer((4,), "uint32"), flag: T.Buffer((1,), "uint32"), data: T.Buffer((2,), "uint32")) -> None:
    """One block writes and raises a flag, the other waits for it: by an order of the store, and by a fence."""
    T.device_entry()
    bx = T.cta_id([2])
    tx = T.thread_id([32])
    seen, r = T.local_scalar("uint32", 0), T.alloc_local((2,), "uint32")
    with one_thread(tx):
        with T.If(bx == 0):
            data[0] = T.uint32(41)
            T.ptx.st.release.gpu.global_.u32(flag.ptr_to([0]), T.uint32(1))
            data[1] = T.uint32(17)
            T.ptx.fence.acq_rel.gpu()
            T.ptx.red.relaxed.gpu.global_.add.u32(flag.ptr_to([0]), T.uint32(1))
        with T.Else():
            with T.While(lambda: seen < 1):
                T.ptx.ld.acquire.gpu.global_.u32(seen, flag.ptr_to([0]))
            A[0] = data[0] + 1
            with T.While(lambda: seen < 2):
                T.ptx.ld.relaxed.gpu.global_.u32(seen, flag.ptr_to([0]))
            T.ptx.fence.sc.gpu()
            A[1] = data[1] + 1
            T.ptx.ld.volatile.global_.u32(r[0], data.ptr_to([0]))
            A[2] = r[0]


def _moves(element: str, dtype: str) -> Any:
    """Loads and stores of one type: one, two and four at once, with hints, through shared and generic addresses."""
    lanes = max(n for n in (1, 2, 4) if n * np.dtype(dtype).itemsize <= 16)

    def moves(A: T.Buffer((4 * 32,), dtype, align=16), B: T.Buffer((6, 4 * 32), dtype, align=16)) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((4 * 32,), dtype, align=16)
        r, policy = T.alloc_local((4,), dtype), T.local_scalar("uint64")
        T.ptx["createpolicy.fractional.L2::evict_last.b64"](policy, 1.0)
        for k in range(4):
            T.ptx[f"ld.global.{element}"](r[k], A.ptr_to([4 * tx + k]))
            T.ptx[f"st.shared.{element}"](tile.ptr_to([4 * tx + k]), r[k])
            T.ptx[f"ld.global.nc.L1::no_allocate.L2::cache_hint.{element}"](r[k], A.ptr_to([4 * tx + k]), +policy)
            T.ptx[f"st.global.L1::no_allocate.L2::cache_hint.{element}"](B.ptr_to([0, 4 * tx + k]), r[k], +policy)
            T.ptx[f"ld.volatile.{element}"](r[k], tile.ptr_to([4 * tx + k]))
            T.ptx[f"st.wt.{element}"](B.ptr_to([1, 4 * tx + k]), r[k])
            T.ptx[f"ld.relaxed.sys.global.{element}"](r[k], A.ptr_to([4 * tx + k]))
            T.ptx[f"st.relaxed.cta.shared.{element}"](tile.ptr_to([4 * tx + k]), r[k])
        T.ptx.prefetch.global_.L2(A.ptr_to([4 * tx]))
        T.ptx["prefetch.global.L2::evict_normal"](A.ptr_to([4 * tx]))
        for row, vec in ((2, 2), (3, lanes)):
            if vec > 1:
                for k in range(0, 4, vec):
                    T.ptx[f"ld.shared.v{vec}.{element}"]([r[k + i] for i in range(vec)], tile.ptr_to([4 * tx + k]))
                    T.ptx[f"st.global.v{vec}.{element}"](B.ptr_to([row, 4 * tx + k]), [r[k + i] for i in range(vec)])

    moves.__name__ = f"moves_{element}"
    return trace(moves)


MOVES = {"b8": "uint8", "s8": "int8", "b16": "float16", "u16": "uint16", "b32": "float32", "s32": "int32", "u32": "uint32", "f32": "float32",
         "b64": "uint64", "s64": "int64", "f64": "float64"}
_BITS = {"and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"), "exch": ("b32", "b64")}
_NUMBERS = {"add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"), "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64"),
            "inc": ("u32",), "dec": ("u32",)}
ELEMENTS = {"u32": "uint32", "s32": "int32", "u64": "uint64", "s64": "int64", "f32": "float32", "f64": "float64", "f16": "float16",
            "bf16": "bfloat16", "b32": "uint32", "b64": "uint64", "b16": "uint16"}


def _atomics(op: str, element: str) -> Any:
    """`atom` and `red` in every order and scope, each thread at an element of its own."""
    dtype = ELEMENTS[element]
    noftz = ".noftz" if element in ("f16", "bf16") else ""

    def atomics(A: T.Buffer((5, 32), dtype), B: T.Buffer((32,), dtype), C: T.Buffer((32,), dtype)) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        tile, r = T.alloc_shared((32,), dtype), T.alloc_local((4,), dtype)
        tile[tx] = C[tx]
        operands = [T.select(tx % 2 == 0, A[0, tx], B[tx]), B[tx]] if op == "cas" else [B[tx]]
        for row, head in enumerate(("atom.global", "atom.acquire.cta.global", "atom.acq_rel.gpu")):
            T.ptx[f"{head}.{op}{noftz}.{element}"](r[row], A.ptr_to([row, tx]), *operands)
        T.ptx[f"atom.relaxed.cta.shared.{op}{noftz}.{element}"](r[3], tile.ptr_to([tx]), *operands)
        if op not in ("exch", "cas"):
            T.ptx[f"red.release.gpu.global.{op}{noftz}.{element}"](A.ptr_to([3, tx]), *operands)
        A[4, tx] = tile[tx]
        for k in range(4):
            with T.If(tx % 4 == k):
                C[tx] = r[k]

    atomics.__name__ = f"atomics_{op}_{element}"
    return trace(atomics)


@trace
def vector_atomics(A: T.Buffer((3, 4 * 32), "float32", align=16), B: T.Buffer((4 * 32,), "float32"),
                   H: T.Buffer((8 * 32,), "float16", align=16)) -> None:
    """Several floats added at once."""
    T.device_entry()
    tx = T.thread_id([32])
    r, h = T.alloc_local((4,), "float32"), T.alloc_local((8,), "float16")
    given = [B[4 * tx + k] for k in range(4)]
    T.ptx["atom.global.add.v4.f32"]([r[k] for k in range(4)], A.ptr_to([0, 4 * tx]), given)
    T.ptx["red.relaxed.gpu.global.add.v4.f32"](A.ptr_to([1, 4 * tx]), given)
    T.ptx["red.global.add.v2.f32"](A.ptr_to([1, 4 * tx]), given[:2])
    T.ptx["atom.global.max.noftz.v8.f16"]([h[k] for k in range(8)], H.ptr_to([8 * tx]), [g.astype("float16") for g in given + given])
    for k in range(4):
        A[2, 4 * tx + k] = r[k] + h[2 * k].astype("float32")


# ---- the thread itself

@trace
def addresses(A: T.Buffer((2, 64), "uint32"), B: T.Buffer((64,), "uint32")) -> None:
    """Arithmetic on addresses in shared memory; one lane elected, the same one each time."""
    T.device_entry()
    tx = T.thread_id([64])
    tile = T.alloc_shared((64,), "uint32")
    r = T.alloc_local((3,), "uint32")
    tile[tx] = B[tx]
    T.cuda.cta_sync()
    base = T.cuda.cvta_generic_to_shared(tile.ptr_to([0]))
    T.ptx.ld.shared.u32(r[0], base + tx.astype("uint32") * 4 // 8 * 8)
    A[0, tx] = r[0]
    T.ptx.elect.sync(r[0], r[1], 0xFFFFFFFF)
    T.ptx.elect.sync(r[1], r[2], 0xFFFFFFFF)
    A[1, tx] = T.cuda.popc(T.cuda.ballot_sync(0xFFFFFFFF, r[2] != 0)).astype("uint32") + (r[0] - r[1])


@trace
def registers(A: T.Buffer((384,), "float32"), B: T.Buffer((384,), "float32")) -> None:
    """A warpgroup that gives registers up and one that takes them; a kernel that waits for none before it and starts none behind it."""
    T.device_entry()
    tx = T.thread_id([384])
    T.ptx.griddepcontrol.wait()
    with T.If(tx < 128):
        T.ptx.setmaxnreg.dec(40)
        B[tx] = A[tx] + 1.0
    with T.Else():
        T.ptx.setmaxnreg.inc(232)
        B[tx] = A[tx] * 3.0
    T.ptx.griddepcontrol.launch_dependents()
    T.ptx.fence.proxy.alias()
    T.ptx.fence.proxy.async_()
    T.ptx["fence.acquire.sync_restrict::shared::cluster.cluster"]()


@trace
def descriptors(A: T.Buffer((2, 32), "uint64"), F: T.Buffer((32, 4), "float32"), B: T.Buffer((32, 2), "uint32")) -> None:
    """Fields of matrix descriptors, but for the address; floats packed in pairs; registers that the compiler may not touch."""
    tensor = T.tensor_map(F, (8, 4))
    T.device_entry()
    tx = T.thread_id([32])
    tile = T.alloc_shared((8, 64), "float16", align=1024)
    words, floats, pair = T.alloc_local((2,), "uint64"), T.alloc_local((2,), "float32"), T.alloc_local((2,), "uint32")
    T.ptx.prefetch.tensormap(tensor)
    T.ptx["fence.proxy.tensormap::generic.release.gpu"]()
    T.ptx["fence.proxy.tensormap::generic.acquire.gpu"](tensor, 128)
    T.ptx["cp.async.bulk.prefetch.tensor.2d.L2.global.tile"](tensor, 0, 8)
    T.cuda.wgmma.encode_matrix_descriptor(words.ptr_to([0]), tile.ptr_to([0, 0]), ldo=1, sdo=64, swizzle=3)
    T.cuda.tcgen05.encode_matrix_descriptor(words.ptr_to([1]), tile.ptr_to([0, 0]), ldo=2, sdo=32, swizzle=2)
    for k in range(2):
        A[k, tx] = words[k] >> 14
        floats[k] = F[tx, 2 * k]
    T.cuda.wgmma.noop_barrier(floats[0], floats[1])
    T.ptx.cvt.rn.bf16x2.f32(pair[0], floats[1], floats[0])
    T.ptx.cvt.rn.f16x2.f32(pair[1], floats[1], floats[0])
    B[tx, 0], B[tx, 1] = pair[0], pair[1]


@cache
def kernels() -> dict[str, Any]:
    """Traced kernels by name."""
    found = [states, transactions, named_barriers, cluster_memory, copied, bulk, bulk_in_a_cluster, multicast, message, vector_atomics, addresses,
             registers, descriptors]
    found += [_moves(element, dtype) for element, dtype in MOVES.items()]
    found += [_atomics(op, element) for table in (_BITS, _NUMBERS) for op, elements in table.items() for element in elements]
    found += [_atomics("cas", element) for element in ("b16", "b32", "b64")]
    return {kernel.__name__: kernel for kernel in found}


def arguments(kernel: Any) -> list[Any]:
    """Arrays for a call: numbers of every kind where they are moved and combined, else small ones; flags are 0."""
    found = []
    for seed, parameter in enumerate(kernel.function.parameters):
        shape, storage = tuple(extent.value for extent in parameter.buffer.shape), parameter.buffer.dtype.storage
        size = int(np.prod(shape))
        if kernel.__name__.startswith(("atomics", "moves")):
            made = random(storage, size, seed=seed)
        else:
            made = (np.arange(size) * 7 % 23).astype(storage) * (parameter.name != "flag")
        found.append(made.reshape(shape).astype(storage))
    return found
