"""Tensor memory: buffers in it, which only tcgen05 instructions reach. `tensor_pool` allocates them.

Tensor memory has 128 lanes of 512 columns of 32 bits; an address is lane << 16 | column (PTX ISA 9.7.16.1). A layout maps an element to
`TLane` and `TCol`, which counts elements: two of 16 bits share a column. What a buffer knows serves to compute addresses while tracing; the
program has only those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from symbolic import integers as si
from symbolic.integers import Int
from symbolic.layout.axes import TCol, TLane
from symbolic.layout.fragments import TMEM_SHAPES
from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from symbolic.simplify import simplify
from tracer import ir
from tracer.addressing import product
from tracer.buffers import Buffer, resolve_layout, shape_text
from tracer.dtypes import DType, dtype
from tracer.extents import extent, extents, symbolic_text, value_of
from tracer.intrinsics.ptx.chain import record
from tracer.intrinsics.ptx.descriptors import get_tmem_addr
from tracer.launch import present_warp
from tracer.recorder import Recorder
from tracer.values import Value

if TYPE_CHECKING:
    from tracer.tensor_pool import TMEMPool

LANES, COLUMNS = 128, 512
COLUMN_BITS = 32
UINT32 = dtype("uint32")


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
    slot = slot_of(allocated_addr, "allocated_addr", recorder) if isinstance(allocated_addr, Buffer) else None
    column = si.const(0) if slot is not None else extent(allocated_addr, recorder, "allocated_addr")
    wanted = recorder.dtype(element)
    decl, columns = tensor(shape, wanted, resolve_layout(layout, recorder), recorder)
    if recorder.known.prove(si.le(column + columns, si.const(COLUMNS))) is False or recorder.known.prove(si.ge(column, si.const(0))) is False:
        recorder.fail(f"columns {symbolic_text(column, recorder)} to {symbolic_text(column + (columns - 1), recorder)} of tensor memory; it has "
                      f"{COLUMNS}")
    return TensorBuffer(decl, recorder, column, slot)


def slot_of(buffer: Buffer | None, what: str, recorder: Recorder) -> Buffer:
    if buffer is None:
        recorder.fail(f"{what}= is missing: the shared slot that tcgen05.alloc writes an address into")
    decl = buffer.decl
    if decl.dtype is not UINT32 or decl.storage.scope not in ("shared", "shared.dyn") or [si.is_const(s) and s.value for s in decl.shape] != [1]:
        recorder.fail(f"{what}= is the shared slot that tcgen05.alloc writes an address into: one uint32 in shared memory, not {buffer!r}")
    return buffer


def tensor(shape: Any, element: DType, layout: Any, recorder: Recorder) -> tuple[ir.Buffer, int]:
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
