"""Tensor memory: buffers in it, which only tcgen05 instructions reach, and the pool that allocates them.

Tensor memory has 128 lanes of 512 columns of 32 bits; an address is lane << 16 | column (PTX ISA 9.7.16.1). A layout maps an element to
`TLane` and `TCol`, which counts elements: two of 16 bits share a column. What a buffer knows serves to compute addresses while tracing; the
program has only those.
"""

from __future__ import annotations

from typing import Any, NoReturn

from symbolic import integers as si
from symbolic.integers import Int
from symbolic.layout.axes import TCol, TLane
from symbolic.layout.errors import LayoutError
from symbolic.layout.fragments import TMEM_SHAPES
from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from symbolic.layout.tmem import tmem_datapath_layout
from symbolic.simplify import simplify
from tracer import ir
from tracer.addressing import product
from tracer.buffers import Buffer, resolve_layout, shape_text
from tracer.control import If
from tracer.dtypes import DType, dtype
from tracer.errors import NotSupportedError
from tracer.extents import extent, extents, symbolic_text, value_of
from tracer.intrinsics.cuda import cta_sync
from tracer.intrinsics.ptx.chain import record
from tracer.intrinsics.ptx.descriptors import get_tmem_addr
from tracer.launch import present_warp
from tracer.pools import SMEMPool
from tracer.recorder import Recorder, current
from tracer.values import Value

LANES, COLUMNS = 128, 512
COLUMN_BITS = 32
LEAST_ALLOCATION = 32       # columns; an allocation is a power of two of them (PTX ISA 9.7.16.7.1)
UINT32 = dtype("uint32")
# The data path of an accumulator (PTX ISA 9.7.16.10.5) by M of the instruction, cta_group, and whether it is `.ws`.
DATAPATHS = {(128, 1, False): "D", (64, 1, False): "F", (256, 2, False): "A", (128, 2, False): "B", (64, 1, True): "E", (32, 1, True): "G"}


class TensorBuffer(Buffer):
    """A tensor in tensor memory, from column `allocated_addr` of an allocation on. `tmem_address` gives what instructions take."""

    __slots__ = ("column", "pool", "slot")

    def __init__(self, decl: ir.Buffer, recorder: Recorder, column: Int, slot: Buffer | None = None, pool: TMEMPool | None = None) -> None:
        super().__init__(decl, recorder, recorder.region)
        self.column, self.slot, self.pool = column, slot, pool

    def __repr__(self) -> str:
        return f"<tensor memory {self.decl.name}: {shape_text(self.decl, self.recorder)} {self.decl.dtype}>"

    @property
    def allocated_addr(self) -> Value | int:
        """The first column, counted from that of the allocation."""
        return value_of(self.column, self.recorder)

    def tmem_address(self, row: Any = 0, col: Any = 0) -> Value:
        """The address of the element at (row, col), a uint32: what `T.ptx.tcgen05.ld`, `st`, `cp` and `mma` take.

        Lanes and columns are those of the layout. Raises `TraceError` for an element in the middle of a column, for one outside the
        shape, and before the pool's `commit` or behind its `dealloc`.
        """
        recorder = self._usable()
        recorder.observe()
        if self.pool is not None:
            self.pool.check_allocated(self.decl.name, recorder)
        if len(self.decl.shape) != 2:
            recorder.fail(f"{self.decl.name}.tmem_address(row, col) of {len(self.decl.shape)} axes; declare a view of two")
        nodes = [self._coordinate(entry, axis) for axis, entry in enumerate((row, col))]
        for axis, node in enumerate(nodes):
            self.check_bounds(node, axis, 1)
        place = self.decl.layout.apply(*(node.sym for node in nodes), shape=self.decl.shape, facts=recorder.known)
        bits = si.to_int(place.get("TCol", 0)) * self.decl.dtype.width * self.decl.dtype.lanes
        if recorder.known.prove(si.eq(si.floormod(bits, si.const(COLUMN_BITS)), si.const(0))) is not True:
            recorder.fail(f"{self.decl.name}.tmem_address: the element {symbolic_text(bits, recorder)} bits into its lane is not proved to begin a "
                          f"column of {COLUMN_BITS}")
        column = simplify(self.column + si.floordiv(bits, si.const(COLUMN_BITS)), recorder.known)
        base = 0 if self.slot is None else self.slot[0]
        address: Value = get_tmem_addr(base, value_of(si.to_int(place.get("TLane", 0)), recorder), value_of(column, recorder))
        return address

    def load(self, registers: Buffer, col: Any = 0, *, shape: str = "32x32b") -> None:
        """Begin to copy what this warp reaches, from column `col` on, into `registers`: all elements of a local buffer of 32-bit values.

        Warp w of a warpgroup reaches lanes 32 w to 32 w + 31. With "32x32b" thread l gets lane l, a column a register; the other shapes are
        those of tcgen05.ld (`symbolic.layout.tmem_registers`). The registers are there after `T.ptx.tcgen05.wait__ld.sync.aligned()`. The whole
        warp must be there.
        """
        record(("tcgen05", "ld", "sync", "aligned", shape, self._repeats(registers, shape), "b32"), (registers, self._of_this_warp(col)), {})

    def store(self, registers: Buffer, col: Any = 0, *, shape: str = "32x32b") -> None:
        """As `load`, the other way; done after `T.ptx.tcgen05.wait__st.sync.aligned()`."""
        record(("tcgen05", "st", "sync", "aligned", shape, self._repeats(registers, shape), "b32"), (self._of_this_warp(col), registers), {})

    def _repeats(self, registers: Buffer, shape: str) -> str:
        """`x8`: how often the instruction repeats its shape to fill the registers."""
        recorder = self._usable()
        if not isinstance(registers, Buffer) or registers.decl.storage.scope != "local":
            recorder.fail(f"{self.decl.name}: {registers!r} is no local buffer; the registers are one, such as T.alloc_local((8,), \"float32\")")
        if shape not in TMEM_SHAPES:
            recorder.fail(f"{self.decl.name}: shape={shape!r}; write one of {', '.join(map(repr, TMEM_SHAPES))}")
        count, each = product(registers.decl.shape), TMEM_SHAPES[shape].rows * TMEM_SHAPES[shape].columns // 32
        if not si.is_const(count) or count.value % each:
            recorder.fail(f"{self.decl.name}: {symbolic_text(count, recorder)} registers; {shape} fills {each} at a time")
        return f"x{count.value // each}"

    def _of_this_warp(self, col: Any) -> Value:
        address: Value = get_tmem_addr(self.tmem_address(0, col), present_warp() % 4 * 32, 0)
        return address

    # -- what only instructions can do

    def _unreachable(self, *_: Any, **__: Any) -> NoReturn:
        name = self.decl.name
        self.recorder.fail(f"{name!r} is in tensor memory, which threads cannot address: move it with tcgen05 instructions, such as "
                           f"T.ptx[\"tcgen05.ld.sync.aligned.32x32b.x1.b32\"](r[0], {name}.tmem_address(row, col)) into registers, and "
                           "tcgen05.st back")

    __getitem__ = __setitem__ = vload = vstore = ptr_to = access_ptr = _unreachable
    data = property(_unreachable)

    def _no_view(self, *_: Any, **__: Any) -> NoReturn:
        self.recorder.fail(f"a view of {self.decl.name!r}, which is in tensor memory: declare one with T.decl_buffer(shape, dtype, scope=\"tmem\", "
                           "allocated_addr=..., layout=...)")

    view = permute = local = _no_view


def declare(shape: Any, element: Any, allocated_addr: Any, layout: Any, recorder: Recorder, **others: Any) -> TensorBuffer:
    """`T.decl_buffer(..., scope="tmem", allocated_addr=column)`: a tensor from that column of tensor memory on.

    `allocated_addr` is a column (of an allocation of everything, which begins at column 0), or the one-element uint32 buffer into which
    tcgen05.alloc wrote an address. The layout maps to TLane and TCol; by default rows are lanes and columns columns.
    """
    if any(value is not None for value in others.values()):
        recorder.fail(f"{', '.join(k for k, v in others.items() if v is not None)} of a buffer in tensor memory: allocated_addr= says where it is")
    if allocated_addr is None:
        recorder.fail("a buffer in tensor memory needs allocated_addr=: the column at which it begins, or the shared slot of tcgen05.alloc. Tensor "
                      "memory is allocated with T.TMEMPool, or with T.ptx.tcgen05.alloc")
    slot = _slot(allocated_addr, "allocated_addr", recorder) if isinstance(allocated_addr, Buffer) else None
    column = si.const(0) if slot is not None else extent(allocated_addr, recorder, "allocated_addr")
    wanted = recorder.dtype(element)
    decl, columns = _tensor(shape, wanted, resolve_layout(layout, recorder), recorder)
    if recorder.known.prove(si.le(column + columns, si.const(COLUMNS))) is False or recorder.known.prove(si.ge(column, si.const(0))) is False:
        recorder.fail(f"columns {symbolic_text(column, recorder)} to {symbolic_text(column + (columns - 1), recorder)} of tensor memory; it has "
                      f"{COLUMNS}")
    return TensorBuffer(decl, recorder, column, slot)


def _slot(buffer: Buffer | None, what: str, recorder: Recorder) -> Buffer:
    if buffer is None:
        recorder.fail(f"{what}= is missing: the shared slot that tcgen05.alloc writes an address into")
    decl = buffer.decl
    if decl.dtype is not UINT32 or decl.storage.scope not in ("shared", "shared.dyn") or [si.is_const(s) and s.value for s in decl.shape] != [1]:
        recorder.fail(f"{what}= is the shared slot that tcgen05.alloc writes an address into: one uint32 in shared memory, not {buffer!r}")
    return buffer


def _tensor(shape: Any, element: DType, layout: Any, recorder: Recorder) -> tuple[ir.Buffer, int]:
    """The declaration, and how many columns of 32 bits it takes."""
    sizes = extents(shape, recorder, "the tensor")
    if not all(map(si.is_const, sizes)):
        recorder.fail("the extents of a tensor in tensor memory must be constant")
    numbers = [size.value for size in sizes]
    if layout is None:
        if len(numbers) != 2:
            recorder.fail(f"a tensor of {len(numbers)} axes in tensor memory needs layout=, which maps them to TLane and TCol")
        layout = TileLayout(S[tuple(numbers):(1@TLane, 1@TCol)])
    if stray := [axis.name for axis in layout.axes if axis not in (TLane, TCol)]:
        recorder.fail(f"the layout of a tensor in tensor memory maps to TLane and TCol, not to {', '.join(stray)}: {layout!r}")
    lanes, bits = int(layout.span(TLane)), int(layout.span(TCol)) * element.width * element.lanes
    if lanes > LANES:
        recorder.fail(f"a tensor of {lanes} lanes; tensor memory has {LANES}")
    size = si.const(1)
    for number in sizes:
        size = size * number
    storage = ir.Storage("", element, "tmem", size, 4)
    return ir.Buffer("", sizes, element, "tmem", layout, si.const(0), storage, location=recorder.location()), -(-bits // COLUMN_BITS)


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
        self.slot = _slot(tmem_addr, "tmem_addr", recorder) if pool is None or tmem_addr is not None else pool.alloc((1,), "uint32")
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
        decl, needed = _tensor(shape, wanted, resolve_layout(layout, recorder), recorder)
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
        """Allocate: `alloc_warp` does, and the block waits for the address. All warps must be there."""
        recorder = self._open("commit")
        with If(present_warp() == self.alloc_warp):
            self._record("alloc", "shared::cta.b32", self.slot.ptr_to([0]), self.total)
            self._record("relinquish_alloc_permit", "")
        if self.sync_after_alloc:
            cta_sync()
        self._committed = recorder.location()
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
