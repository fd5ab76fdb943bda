"""Pools: bump allocation of dynamic shared memory, so that nobody computes offsets by hand."""

from __future__ import annotations

from typing import Any

from symbolic import integers as si
from symbolic.layout.errors import LayoutError
from tracer import views
from tracer.addressing import elements_in, in_bytes, span
from tracer.buffers import Buffer, alloc_buffer, check_align, resolve_layout, set_arena_size
from tracer.dtypes import DType
from tracer.extents import extents, symbolic_text
from tracer.ir import Location
from tracer.recorder import Recorder, current

MMA_ROWS = 8
MMA_ALIGN = 1024      # a 128-byte swizzle repeats every 1024 bytes (PTX ISA 9.7.16.10.5, "Shared memory descriptor")


class SMEMPool:
    """The kernel's one dynamic shared array, handed out piece by piece.

    `alloc` takes the next piece, aligned as it needs; `move_base_to` goes back to reuse what lies behind; `commit` fixes the size, which
    goes on the launch, and ends the pool. Raises `TraceError` for use after `commit`, a pool never committed, or more than a block can have.
    """

    def __init__(self) -> None:
        recorder = current()
        recorder.observe()
        self._recorder = recorder
        self._arena = alloc_buffer((0,), "uint8", "shared.dyn")
        self._arena.decl.name = self._arena.decl.storage.name = "smem"
        self._cursor = 0
        self._high = 0
        self._committed: Location | None = None
        self._made = recorder.location()
        recorder.unfinished[self] = self._not_committed

    def __repr__(self) -> str:
        return f"<shared memory pool: cursor {self._cursor}, {self._high} bytes>"

    @property
    def offset(self) -> int:
        """Where the next piece begins at the earliest, in bytes."""
        return self._cursor

    def alloc(self, shape: Any, dtype: Any = "float32", *, align: int | None = None, layout: Any = "default") -> Buffer:
        """The next piece, as a buffer. It starts on a multiple of `align` bytes, and of what the dtype needs."""
        recorder = self._usable()
        wanted = recorder.dtype(dtype)
        check_align(align, wanted, recorder)
        return self._take(shape, wanted, resolve_layout(layout, recorder), align, recorder)

    def alloc_tcgen05_mma_AB(self, shape: Any, dtype: Any = "float16", swizzle_mode: str = "auto", align: int = MMA_ALIGN) -> Buffer:  # noqa: N802
        """A tile for the A or B operand of wgmma and tcgen05.mma: rows x K, in the swizzled layout that they read.

        `swizzle_mode` is "none", "32B", "64B" or "128B"; "auto" is the 128-byte one.
        """
        from symbolic.layout.shared import mma_shared_layout
        recorder = self._usable()
        wanted = recorder.dtype(dtype)
        check_align(align, wanted, recorder)
        extents_ = extents(shape, recorder, "the tile")
        if not all(map(si.is_const, extents_)):
            recorder.fail("the extents of an MMA tile must be constant")
        sizes = [size.value for size in extents_]
        if swizzle_mode != "none" and (len(sizes) < 2 or sizes[-2] == 0 or sizes[-2] % MMA_ROWS):
            recorder.fail(f"alloc_tcgen05_mma_AB of shape {tuple(sizes)}: the rows (the last axis but one) must be a positive multiple of "
                          f"{MMA_ROWS}, which a swizzle atom holds; widen it, or use swizzle_mode=\"none\"")
        try:
            layout = mma_shared_layout(wanted.name, "128B" if swizzle_mode == "auto" else swizzle_mode, tuple(sizes))
        except LayoutError as error:
            recorder.fail(f"alloc_tcgen05_mma_AB: {error}")
        return self._take(shape, wanted, layout, align, recorder)

    def move_base_to(self, offset: int) -> None:
        """The next piece begins at `offset` bytes at the earliest; earlier pieces beyond it may be overwritten."""
        recorder = self._usable()
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            recorder.fail(f"move_base_to({offset!r}): the offset is a number of bytes, 0 or more")
        self._cursor = offset
        self._grow(offset, recorder)

    def commit(self) -> None:
        """Fix the size: it goes on the launch, and nothing more can be taken."""
        recorder = self._usable()
        self._committed = recorder.location()
        del recorder.unfinished[self]

    def _take(self, shape: Any, wanted: DType, layout: Any, align: int | None, recorder: Recorder) -> Buffer:
        sizes = extents(shape, recorder, "the allocation")
        count = span(sizes, layout)
        if not si.is_const(count):
            recorder.fail(f"a piece of {symbolic_text(count, recorder)} elements, which is only known at run time; extents in a pool are constant")
        step = max(align or 1, wanted.alignment)
        start = -(-self._cursor // step) * step
        self._cursor = start + in_bytes(count, wanted).value
        self._grow(self._cursor, recorder)
        offset = elements_in(si.const(start), wanted)
        return Buffer(views.alias(self._arena.decl, shape, wanted, layout, offset, align, recorder), recorder, recorder.region)

    def _grow(self, size: int, recorder: Recorder) -> None:
        self._high = max(self._high, size)
        self._arena.decl.shape = (si.const(self._high),)
        set_arena_size(self._arena.decl.storage, si.const(self._high), recorder)

    def _usable(self) -> Recorder:
        recorder = current()
        recorder.observe()
        if recorder is not self._recorder:
            recorder.fail("a pool of another trace is used here; each trace makes its own")
        if self._committed is not None:
            recorder.fail(f"the pool was committed at {self._committed}; take everything before commit()")
        return recorder

    def _not_committed(self) -> None:
        self._recorder.fail("the shared memory pool is never committed; call pool.commit() behind the last alloc", at=self._made)
