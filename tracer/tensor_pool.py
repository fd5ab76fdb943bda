"""The pool of tensor memory: tensors column by column, one allocation a block (PTX ISA 9.7.16.7)."""

from __future__ import annotations

from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from symbolic import integers as si
from symbolic.layout.axes import TCol
from symbolic.layout.errors import LayoutError
from symbolic.layout.tmem import tmem_datapath_layout
from tracer import ir
from tracer.buffers import Buffer, resolve_layout
from tracer.control import If
from tracer.errors import NotSupportedError
from tracer.extents import extents, symbolic_text
from tracer.intrinsics.cuda import cta_sync
from tracer.intrinsics.ptx.chain import record
from tracer.launch import present_warp
from tracer.pools import SMEMPool
from tracer.recorder import Recorder, current
from tracer.tensor_memory import COLUMN_BITS, COLUMNS, TensorBuffer, slot_of, tensor

LEAST_ALLOCATION = 32       # columns; an allocation is a power of two of them (PTX ISA 9.7.16.7.1)
# The data path of an accumulator (PTX ISA 9.7.16.10.5) by M of the instruction, cta_group, and whether it is `.ws`.
DATAPATHS = {(128, 1, False): "D", (64, 1, False): "F", (256, 2, False): "A", (128, 2, False): "B", (64, 1, True): "E", (32, 1, True): "G"}
# Where a pool of a trace was committed. It gives up the permit to allocate, so that there is no second one.
_committed: WeakKeyDictionary[Recorder, ir.Location | None] = WeakKeyDictionary()


class TMEMPool:
    """Tensor memory handed out column by column: `alloc` the tensors, `commit` to allocate, `dealloc` when all is read.

    `total_cols` is what the block allocates: a power of two from 32 to 512. One warp, `alloc_warp`, performs the allocation and writes its address
    into a slot in shared memory (`tmem_addr`, or 4 bytes of `pool`); `dealloc_warp`, by default the same, frees it. Raises `TraceError` for
    tensors beyond `total_cols`, for use out of order, and for a pool that is never committed or never freed.
    """

    def __init__(self, pool: SMEMPool | None, total_cols: int = COLUMNS, *, cta_group: int = 1, alloc_warp: int = 0,
                 dealloc_warp: int | None = None, tmem_addr: Buffer | None = None, sync_after_alloc: bool = True) -> None:
        recorder = current()
        recorder.observe()
        if not isinstance(total_cols, int) or total_cols & (total_cols - 1) or not LEAST_ALLOCATION <= total_cols <= COLUMNS:
            recorder.fail(f"T.TMEMPool(total_cols={total_cols!r}): a block allocates a power of two of columns, {LEAST_ALLOCATION} to {COLUMNS}")
        if cta_group == 2:
            raise NotSupportedError(f"{recorder.location()}: T.TMEMPool(cta_group=2), for pairs of blocks, is not supported in this version")
        if cta_group != 1:
            recorder.fail(f"T.TMEMPool(cta_group={cta_group!r}): write 1")
        if tmem_addr is None and not isinstance(pool, SMEMPool):
            recorder.fail("T.TMEMPool needs 4 bytes of shared memory for the address: give it a T.SMEMPool, or "
                          "tmem_addr=T.alloc_shared((1,), \"uint32\")")
        self.slot = slot_of(tmem_addr, "tmem_addr", recorder) if pool is None or tmem_addr is not None else pool.alloc((1,), "uint32")
        self.total, self.cta_group, self.sync_after_alloc = total_cols, cta_group, sync_after_alloc
        self.alloc_warp = alloc_warp
        self.dealloc_warp = alloc_warp if dealloc_warp is None else dealloc_warp
        self._recorder = recorder
        self._cursor = self._high = 0
        self._committed: ir.Location | None = None
        self._freed: ir.Location | None = None
        self._made = recorder.location()
        recorder.unfinished[self] = self._not_committed

    def __repr__(self) -> str:
        return f"<tensor memory pool: column {self._cursor} of {self.total}>"

    @property
    def offset(self) -> int:
        """The column at which the next tensor begins."""
        return self._cursor

    def alloc(self, shape: Any, dtype: Any = "float32", *, layout: Any = None, cols: int | None = None) -> TensorBuffer:
        """The next tensor. It takes the columns that its layout reaches, or `cols`, which are no fewer."""
        recorder = self._open("alloc")
        wanted = recorder.dtype(dtype)
        decl, needed = tensor(shape, wanted, resolve_layout(layout, recorder), recorder)
        row = int(decl.layout.span(TCol)) * wanted.width * wanted.lanes
        if cols is None and row % COLUMN_BITS:
            recorder.fail(f"rows of {row} bits do not fill whole columns of {COLUMN_BITS}; say with cols= how many columns the tensor takes")
        if cols is not None and (not isinstance(cols, int) or cols < needed):
            recorder.fail(f"cols={cols!r} for a tensor that reaches {needed} columns")
        start, self._cursor = self._cursor, self._cursor + (needed if cols is None else cols)
        self._check_room(recorder)
        return TensorBuffer(decl, recorder, si.const(start), self.slot, self)

    def alloc_tcgen05_mma_D(self, shape: Any, dtype: Any = "float32", *, M: int, cta_group: int = 1, ws: bool = False,  # noqa: N802, N803
                            sparse: bool = False) -> TensorBuffer:
        """An accumulator of tcgen05.mma with that M: this block's rows x N, in the lanes where the data path puts them."""
        recorder = self._open("alloc_tcgen05_mma_D")
        path = DATAPATHS.get((M, cta_group, ws))
        if sparse:
            raise NotSupportedError(f"{recorder.location()}: alloc_tcgen05_mma_D of a sparse tcgen05.mma is not supported in this version")
        if path is None:
            known = ", ".join(f"M={m} cta_group={group}{' ws=True' * weights}" for m, group, weights in DATAPATHS)
            recorder.fail(f"alloc_tcgen05_mma_D: no data path for M={M!r}, cta_group={cta_group!r}, ws={ws!r}; there are {known}")
        sizes = [size.value if si.is_const(size) else -1 for size in extents(shape, recorder, "the accumulator")]
        if len(sizes) != 2:
            recorder.fail(f"alloc_tcgen05_mma_D of {len(sizes)} axes; an accumulator has rows and columns (other views: alloc with layout=)")
        try:
            layout = tmem_datapath_layout(path, *sizes)
        except LayoutError as error:
            recorder.fail(f"alloc_tcgen05_mma_D: {error}")
        return self.alloc(shape, dtype, layout=layout)

    def alloc_tcgen05_mma_A(self, shape: Any, dtype: Any = "bfloat16", *, M: int, cta_group: int = 1) -> TensorBuffer:  # noqa: N802, N803
        """The A operand of tcgen05.mma with that M, in tensor memory: this block's rows x K, a row a lane."""
        recorder = self._open("alloc_tcgen05_mma_A")
        sizes = extents(shape, recorder, "the operand")
        if (M, cta_group, False) not in DATAPATHS:
            recorder.fail(f"alloc_tcgen05_mma_A: no data path for M={M!r}, cta_group={cta_group!r}")
        if len(sizes) != 2 or sizes[0] is not si.const(M // cta_group):
            recorder.fail(f"alloc_tcgen05_mma_A: with M={M!r} and cta_group={cta_group!r} a block has {M // cta_group} rows; the shape is "
                          f"({', '.join(symbolic_text(size, recorder) for size in sizes)})")
        return self.alloc(shape, dtype)

    def alloc_sf(self, *_: Any, **__: Any) -> NoReturn:
        """Scale factors of block-scaled products."""
        where = self._open("alloc_sf").location()
        raise NotSupportedError(f"{where}: scale factors in tensor memory, for block-scaled tcgen05.mma, are not supported in this version")

    def move_base_to(self, column: int) -> None:
        """The next tensor begins at `column`; earlier ones from there on may be overwritten."""
        recorder = self._open("move_base_to")
        if not isinstance(column, int) or isinstance(column, bool) or not 0 <= column <= self.total:
            recorder.fail(f"move_base_to({column!r}): the column is 0 to {self.total}")
        self._cursor = column

    def commit(self) -> None:
        """Allocate: `alloc_warp` does, gives up the permit to allocate, and the block waits for the address. All warps must be there."""
        recorder = self._open("commit")
        if recorder in _committed:
            recorder.fail(f"a tensor memory pool was committed at {_committed[recorder]}, which gave up the block's permit to allocate more (PTX "
                          "tcgen05.relinquish_alloc_permit); take all tensors from one pool, and reuse its columns with move_base_to()")
        _committed[recorder] = recorder.location()
        with If(present_warp() == self.alloc_warp):
            self._record("alloc", "shared::cta.b32", self.slot.ptr_to([0]), self.total)
            self._record("relinquish_alloc_permit", "")
        if self.sync_after_alloc:
            cta_sync()
        self._committed = _committed[recorder]
        recorder.unfinished[self] = self._not_freed

    def dealloc(self) -> None:
        """Wait until the block has read what it needs, and free all columns: `dealloc_warp` does. All warps must be there."""
        recorder = self._usable()
        if self._committed is None:
            recorder.fail("the tensor memory pool is freed before commit()")
        if self._freed is not None:
            recorder.fail(f"the tensor memory pool was freed at {self._freed}")
        record(("tcgen05", "fence::before_thread_sync"), (), {})
        cta_sync()
        with If(present_warp() == self.dealloc_warp):
            record(("tcgen05", "fence::after_thread_sync"), (), {})
            self._record("dealloc", "b32", self.slot[0], self.total)
        self._freed = recorder.location()
        del recorder.unfinished[self]

    def _record(self, word: str, ending: str, *operands: Any) -> None:
        record(("tcgen05", word, f"cta_group::{self.cta_group}", "sync", "aligned", *filter(None, ending.split("."))), operands, {})

    def check_allocated(self, name: str, recorder: Recorder) -> None:
        """`name`, one of the pool's tensors, may be used now."""
        if self._committed is None:
            recorder.fail(f"{name!r} is used before the pool's commit(), which allocates its columns")
        if self._freed is not None:
            recorder.fail(f"{name!r} is used behind the pool's dealloc() at {self._freed}")

    def _check_room(self, recorder: Recorder) -> None:
        self._high = max(self._high, self._cursor)
        if self._high > self.total:
            recorder.fail(f"{self._high} columns of tensor memory; the pool has total_cols={self.total}")

    def _open(self, what: str) -> Recorder:
        recorder = self._usable()
        if self._committed is not None:
            recorder.fail(f"{what}: the tensor memory pool was committed at {self._committed}; take everything before commit()")
        return recorder

    def _usable(self) -> Recorder:
        recorder = current()
        recorder.observe()
        if recorder is not self._recorder:
            recorder.fail("a tensor memory pool of another trace is used here; each trace makes its own")
        return recorder

    def _not_committed(self) -> None:
        self._recorder.fail("the tensor memory pool is never committed; call commit() behind the last alloc", at=self._made)

    def _not_freed(self) -> None:
        self._recorder.fail("the tensor memory pool is never freed; call dealloc() at the end of the kernel: a block that ends with tensor memory "
                            "allocated keeps it from all that follow", at=self._committed)
