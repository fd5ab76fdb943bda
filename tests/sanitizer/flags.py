"""Planted bugs of flags between blocks: fences that are missing or too narrow, and data that comes after its flag (row 14)."""

# ruff: noqa: F821
from __future__ import annotations

from tests.sanitizer.corpus import f32, planted, zeros
from tracer import T
from tracer.errors import DataRaceError

BLOCKS, THREADS = 4, 64


@planted(14, DataRaceError, "partial", f32(BLOCKS, THREADS), zeros(BLOCKS), zeros(1, dtype="uint32"), zeros(1))
def last_block_without_a_fence(A: T.Buffer((BLOCKS, THREADS), "float32"), partial: T.Buffer((BLOCKS,), "float32"),
                               ticket: T.Buffer((1,), "uint32"), B: T.Buffer((1,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([BLOCKS]), T.thread_id([THREADS])
    scratch = T.alloc_shared((2,), "float32")
    drawn = T.shared_scalar("uint32")
    total = T.cuda.cta_sum(A[bx, tx], 2, scratch.ptr_to([0]))
    with T.If(tx == 0):
        partial[bx] = total                             # BUG
        if fixed:
            T.cuda.thread_fence()
        drawn.assign(T.cuda.atomic_inc(ticket.ptr_to([0]), BLOCKS - 1))
        T.cuda.thread_fence()
    T.cuda.cta_sync()
    with T.If((drawn == BLOCKS - 1) & (tx == 0)):
        whole = T.local_scalar("float32", 0.0)
        for block in T.serial(BLOCKS):
            whole += partial[block]                     # BUG
        B[0] = whole


@planted(14, DataRaceError, "partial", f32(BLOCKS, THREADS), zeros(BLOCKS), zeros(1, dtype="uint32"), zeros(1))
def last_block_without_a_fence_behind_its_ticket(A: T.Buffer((BLOCKS, THREADS), "float32"), partial: T.Buffer((BLOCKS,), "float32"),
                                                 ticket: T.Buffer((1,), "uint32"), B: T.Buffer((1,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([BLOCKS]), T.thread_id([THREADS])
    scratch = T.alloc_shared((2,), "float32")
    drawn = T.shared_scalar("uint32")
    total = T.cuda.cta_sum(A[bx, tx], 2, scratch.ptr_to([0]))
    with T.If(tx == 0):
        partial[bx] = total                             # BUG
        T.cuda.thread_fence()
        drawn.assign(T.cuda.atomic_inc(ticket.ptr_to([0]), BLOCKS - 1))
        if fixed:
            T.cuda.thread_fence()
    T.cuda.cta_sync()
    with T.If((drawn == BLOCKS - 1) & (tx == 0)):
        whole = T.local_scalar("float32", 0.0)
        for block in T.serial(BLOCKS):
            whole += partial[block]                     # BUG
        B[0] = whole


@planted(14, DataRaceError, "partial", f32(BLOCKS, THREADS), zeros(BLOCKS), zeros(1, dtype="uint32"), zeros(1))
def last_block_with_a_fence_of_its_block(A: T.Buffer((BLOCKS, THREADS), "float32"), partial: T.Buffer((BLOCKS,), "float32"),
                                         ticket: T.Buffer((1,), "uint32"), B: T.Buffer((1,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([BLOCKS]), T.thread_id([THREADS])
    scratch = T.alloc_shared((2,), "float32")
    drawn = T.shared_scalar("uint32")
    total = T.cuda.cta_sum(A[bx, tx], 2, scratch.ptr_to([0]))
    with T.If(tx == 0):
        partial[bx] = total                             # BUG
        (T.cuda.thread_fence if fixed else T.cuda.thread_fence_block)()
        drawn.assign(T.cuda.atomic_inc(ticket.ptr_to([0]), BLOCKS - 1))
        T.cuda.thread_fence()
    T.cuda.cta_sync()
    with T.If((drawn == BLOCKS - 1) & (tx == 0)):
        whole = T.local_scalar("float32", 0.0)
        for block in T.serial(BLOCKS):
            whole += partial[block]                     # BUG
        B[0] = whole


@planted(14, DataRaceError, "partial", f32(BLOCKS, THREADS), zeros(BLOCKS, THREADS), zeros(1, dtype="uint32"), zeros(THREADS))
def fence_before_the_barrier_by_one_thread_only(A: T.Buffer((BLOCKS, THREADS), "float32"), partial: T.Buffer((BLOCKS, THREADS), "float32"),
                                                ticket: T.Buffer((1,), "uint32"), B: T.Buffer((THREADS,), "float32"), *, fixed: T.constexpr):
    """All threads store; the fence of the one that draws the ticket must stand behind the barrier, or every thread has its own."""
    T.device_entry()
    bx, tx = T.cta_id([BLOCKS]), T.thread_id([THREADS])
    drawn = T.shared_scalar("uint32")
    partial[bx, tx] = A[bx, tx] * 2.0                   # BUG
    if not fixed:
        with T.If(tx == 0):
            T.cuda.thread_fence()
    T.cuda.cta_sync()
    with T.If(tx == 0):
        if fixed:
            T.cuda.thread_fence()
        drawn.assign(T.cuda.atomic_inc(ticket.ptr_to([0]), BLOCKS - 1))
        T.cuda.thread_fence()
    T.cuda.cta_sync()
    with T.If(drawn == BLOCKS - 1):
        whole = T.local_scalar("float32", 0.0)
        for block in T.serial(BLOCKS):
            whole += partial[block, tx]                 # BUG
        B[tx] = whole


@planted(14, DataRaceError, "partial", f32(BLOCKS, THREADS), zeros(BLOCKS, THREADS), zeros(1, dtype="uint32"), zeros(THREADS))
def ticket_drawn_before_all_threads_stored(A: T.Buffer((BLOCKS, THREADS), "float32"), partial: T.Buffer((BLOCKS, THREADS), "float32"),
                                           ticket: T.Buffer((1,), "uint32"), B: T.Buffer((THREADS,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([BLOCKS]), T.thread_id([THREADS])
    drawn = T.shared_scalar("uint32")
    partial[bx, tx] = A[bx, tx] * 2.0                   # BUG
    T.cuda.thread_fence()
    if fixed:
        T.cuda.cta_sync()
    with T.If(tx == 0):
        drawn.assign(T.cuda.atomic_inc(ticket.ptr_to([0]), BLOCKS - 1))
        T.cuda.thread_fence()
    T.cuda.cta_sync()
    with T.If(drawn == BLOCKS - 1):
        whole = T.local_scalar("float32", 0.0)
        for block in T.serial(BLOCKS):
            whole += partial[block, tx]                 # BUG
        B[tx] = whole


# ---- a flag that another block polls -----------------------------------------------------------------------------------

def _flag_kernel(store_fence: str, read_fence: str, name: str):
    fences = {"device": lambda: T.cuda.thread_fence(), "block": lambda: T.cuda.thread_fence_block(), "": lambda: None}

    def kernel(A: T.Buffer((THREADS,), "float32"), flag: T.Buffer((1,), "int32"), B: T.Buffer((THREADS,), "float32"), *, fixed: T.constexpr):
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([THREADS])
        with T.If(bx == 0):
            A[tx] = tx.astype("float32")       # BUG
            T.cuda.cta_sync()
            with T.If(tx == 0):
                fences["device" if fixed else store_fence]()
                T.cuda.atomic_exch(flag.ptr_to([0]), 1)
        with T.Else():
            with T.If(tx == 0):
                with T.While(lambda: T.cuda.atomic_or(flag.ptr_to([0]), 0) == 0):
                    pass
                fences["device" if fixed else read_fence]()
            T.cuda.cta_sync()
            B[tx] = A[THREADS - 1 - tx]                 # BUG
    kernel.__name__ = kernel.__qualname__ = name
    return kernel


for _store, _read, _name in [("", "device", "flag_without_a_fence_before"), ("device", "", "flag_without_a_fence_behind"),
                             ("block", "device", "flag_behind_a_fence_of_the_block"), ("device", "block", "flag_before_a_fence_of_the_block")]:
    planted(14, DataRaceError, "A", zeros(THREADS), zeros(1, dtype="int32"), zeros(THREADS))(_flag_kernel(_store, _read, _name))


@planted(14, DataRaceError, "A", zeros(THREADS), zeros(1, dtype="int32"), zeros(THREADS))
def flag_set_before_the_data(A: T.Buffer((THREADS,), "float32"), flag: T.Buffer((1,), "int32"), B: T.Buffer((THREADS,), "float32"), *,
                             fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([2]), T.thread_id([THREADS])

    def set_flag():
        T.cuda.cta_sync()
        with T.If(tx == 0):
            T.cuda.thread_fence()
            T.cuda.atomic_exch(flag.ptr_to([0]), 1)

    with T.If(bx == 0):
        if not fixed:
            set_flag()
        A[tx] = tx.astype("float32")                    # BUG
        if fixed:
            set_flag()
    with T.Else():
        with T.If(tx == 0):
            with T.While(lambda: T.cuda.atomic_or(flag.ptr_to([0]), 0) == 0):
                pass
            T.cuda.thread_fence()
        T.cuda.cta_sync()
        B[tx] = A[THREADS - 1 - tx]                     # BUG


@planted(14, DataRaceError, "flag", zeros(THREADS), zeros(1, dtype="int32"), zeros(THREADS))
def flag_that_is_a_plain_store(A: T.Buffer((THREADS,), "float32"), flag: T.Buffer((1,), "int32"), B: T.Buffer((THREADS,), "float32"), *,
                               fixed: T.constexpr):
    T.device_entry()
    bx, tx = T.cta_id([2]), T.thread_id([THREADS])
    with T.If(bx == 0):
        A[tx] = tx.astype("float32")
        T.cuda.cta_sync()
        with T.If(tx == 0):
            T.cuda.thread_fence()
            if fixed:
                T.cuda.atomic_exch(flag.ptr_to([0]), 1)
            else:
                flag[0] = 1                             # BUG
    with T.Else():
        with T.If(tx == 0):
            if fixed:
                with T.While(lambda: T.cuda.atomic_or(flag.ptr_to([0]), 0) == 0):
                    pass
            else:
                with T.While(lambda: flag[0] == 0):     # BUG
                    T.cuda.nano_sleep(20)
            T.cuda.thread_fence()
        T.cuda.cta_sync()
        B[tx] = A[THREADS - 1 - tx]


@planted(14, DataRaceError, "X", f32(64), zeros(8, 64), zeros(1, dtype="uint32"))
def one_reader_of_eight_without_a_fence(X: T.Buffer((64,), "float32"), B: T.Buffer((8, 64), "float32"), ticket: T.Buffer((1,), "uint32"), *,
                                        fixed: T.constexpr):
    """The last block overwrites what all have read; of one of them nothing says that it has."""
    T.device_entry()
    bx, tx = T.cta_id([8]), T.thread_id([64])
    drawn = T.shared_scalar("uint32")
    B[bx, tx] = X[63 - tx]                              # BUG
    T.cuda.cta_sync()
    with T.If(tx == 0):
        with T.If((bx != 2) | fixed):
            T.cuda.thread_fence()
        drawn.assign(T.cuda.atomic_add(ticket.ptr_to([0]), 1))
        T.cuda.thread_fence()
    T.cuda.cta_sync()
    with T.If(drawn == 7):
        X[tx] = 1.0                                     # BUG
