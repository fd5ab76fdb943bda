"""`T.tma`: boxes of an array between global and shared memory, by a tensor map, with what is known of both checked.

Each function is one instruction of `T.ptx`, with coordinates in the order of the buffer's axes. One thread calls it, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symbolic import integers as si
from symbolic.layout.swizzle import ComposeLayout
from tracer import ir
from tracer import operations as ops
from tracer.addressing import axis_strides, flat_index, product, row_major
from tracer.buffers import Buffer, address_of
from tracer.dtypes import DType
from tracer.extents import symbolic_text
from tracer.intrinsics.ptx.chain import record
from tracer.recorder import Recorder, current
from tracer.tensor_maps import REDUCTIONS, SWIZZLES, UNIT, TensorMap, row_pitch
from tracer.values import Value

PIECE = UNIT      # bytes that a swizzle keeps together


def load(dst: Any, tensor_map: TensorMap, coords: Any, barrier: Any, *, cta_mask: Any = None, policy: Any = None) -> None:
    """Begin to copy the box at `coords` into `dst`, shared memory of `tensor_map.box_shape` elements. Its `tensor_map.box_bytes` bytes are
    added to the mbarrier at `barrier`, which must expect them.

    `coords`, in elements, may lie outside the array, before it too; the last one is a multiple of 16 bytes. `cta_mask`: a multicast to the blocks
    of the cluster whose bit is set, to the same offsets there. `policy`: how L2 shall keep it, a uint64 of `T.ptx.createpolicy`. Raises
    `TraceError` where the sizes, layouts, dtypes or numbers of coordinates disagree.
    """
    recorder = current()
    target = _shared(dst, tensor_map, "load", recorder)
    words = [_DIMENSIONS[len(tensor_map.box)], "shared::cluster", "global", "tile", "mbarrier::complete_tx::bytes"]
    mask, hint = _given(cta_mask), _given(policy)
    record(("cp", "async", "bulk", "tensor", *words, *["multicast::cluster"] * len(mask), *[_HINT] * len(hint)),
           (target, tensor_map, *_innermost_first(coords, tensor_map, "load", recorder), _pointer(barrier), *mask, *hint), {})


def store(tensor_map: TensorMap, coords: Any, src: Any, *, policy: Any = None) -> None:
    """Begin to copy `src`, shared memory, to the box at `coords`; what lies outside the array is left out, but no coordinate is negative. Part of
    the thread's present bulk group: `commit`, then `wait`. `policy` as for `load`."""
    recorder = current()
    source = _shared(src, tensor_map, "store", recorder)
    words = [_DIMENSIONS[len(tensor_map.box)], "global", "shared::cta", "tile", "bulk_group"]
    hint = _given(policy)
    record(("cp", "async", "bulk", "tensor", *words, *[_HINT] * len(hint)),
           (tensor_map, *_innermost_first(coords, tensor_map, "store", recorder), source, *hint), {})


def reduce(op: str, tensor_map: TensorMap, coords: Any, src: Any) -> None:
    """As `store`, but each element becomes what `op` makes of it and of the one that comes: "add", "min", "max", "inc", "dec", "and", "or" or
    "xor"."""
    recorder = current()
    source = _shared(src, tensor_map, "reduce", recorder)
    if op not in REDUCTIONS:
        recorder.fail(f"T.tma.reduce: {op!r} is none of {', '.join(REDUCTIONS)}")
    words = [_DIMENSIONS[len(tensor_map.box)], "global", "shared::cta", op, "tile", "bulk_group"]
    record(("cp", "reduce", "async", "bulk", "tensor", *words), (tensor_map, *_innermost_first(coords, tensor_map, "reduce", recorder), source), {})


def prefetch(tensor_map: TensorMap, coords: Any = None) -> None:
    """Begin to fetch the box at `coords` into the L2 cache; without coordinates, the map itself."""
    recorder = current()
    if not isinstance(tensor_map, TensorMap):
        _refuse_map("prefetch", tensor_map, recorder)
    if coords is None:
        record(("prefetch", "tensormap"), (tensor_map,), {})
        return
    words = [_DIMENSIONS[len(tensor_map.box)], "L2", "global", "tile"]
    record(("cp", "async", "bulk", "prefetch", "tensor", *words), (tensor_map, *_innermost_first(coords, tensor_map, "prefetch", recorder)), {})


def commit() -> None:
    """End the thread's bulk group: the stores and reductions since the last one."""
    record(("cp", "async", "bulk", "commit_group"), (), {})


def wait(groups: int = 0, *, read: bool = False) -> None:
    """Wait until at most the latest `groups` of the thread's bulk groups are under way; with `read`, until the others have read their shared
    memory, which may then be written again."""
    record(("cp", "async", "bulk", "wait_group", *["read"] * read), (groups,), {})


_DIMENSIONS = ("", "1d", "2d", "3d", "4d", "5d")
_HINT = "L2::cache_hint"


def _given(operand: Any) -> list[Any]:
    return [] if operand is None else [operand]


def _refuse_map(what: str, given: Any, recorder: Recorder) -> None:
    recorder.fail(f"T.tma.{what}: {given!r} is no tensor map; declare one above T.device_entry(): T.tensor_map(A, box)")


def _innermost_first(coords: Any, tensor_map: TensorMap, what: str, recorder: Recorder) -> list[Any]:
    entries = list(coords) if isinstance(coords, Sequence) else [coords]
    if len(entries) != len(tensor_map.box):
        recorder.fail(f"T.tma.{what}: {len(entries)} coordinates for the {len(tensor_map.box)} axes of {tensor_map.buffer!r}; write where the box "
                      "begins along each")
    return entries[::-1]


def _shared(place: Any, tensor_map: Any, what: str, recorder: Recorder) -> Value:
    """A pointer to the shared memory that holds the box."""
    recorder.observe()
    if not isinstance(tensor_map, TensorMap):
        _refuse_map(what, tensor_map, recorder)
    if not isinstance(place, Buffer):
        return _pointer(place)
    decl, wanted = place.decl, tensor_map.map
    _check_elements(place, decl.dtype, wanted.buffer.dtype, what, recorder)
    if tensor_map.shared_bytes != tensor_map.box_bytes:
        recorder.fail(f"T.tma.{what}: rows of the box are {wanted.box[-1]} {decl.dtype}, and in shared memory each begins a span of "
                      f"{row_pitch(wanted)} bytes, which swizzle=\"{wanted.swizzle}\" permutes within; no buffer is laid out so: make the rows as "
                      f"long as the span, or pass a pointer to {tensor_map.shared_bytes} bytes that you index yourself")
    if decl.storage.scope not in ("shared", "shared.dyn"):
        recorder.fail(f"T.tma.{what}: {decl.name!r} is in {decl.storage.scope} memory; boxes are in shared memory")
    count = product(decl.shape)
    elements = tensor_map.box_bytes // wanted.buffer.dtype.bytes
    if recorder.known.prove(si.eq(count, si.const(elements))) is not True:
        recorder.fail(f"T.tma.{what}: {decl.name or 'the slice'!r} has {symbolic_text(count, recorder)} elements, a box of the map of "
                      f"{tensor_map.buffer!r} has {elements}: {tensor_map.box_shape}")
    laid = _swizzle_of(decl)
    if laid != wanted.swizzle:
        how = "a layout of its own" if laid is None else f"swizzle=\"{laid}\""
        recorder.fail(f"T.tma.{what}: {decl.name or 'the slice'!r} is laid out with {how}, the map of {tensor_map.buffer!r} with "
                      f"swizzle=\"{wanted.swizzle}\", so elements would not lie where they are looked for. Lay it out as the map does (none: dense; "
                      "else pool.alloc_tcgen05_mma_AB(..., swizzle_mode=...)), or pass a pointer to memory that you index yourself")
    if wanted.swizzle != "none":
        _align_to_pattern(decl, wanted.swizzle, what, recorder)
    return place.ptr_to([0] * len(decl.shape))


def _align_to_pattern(decl: ir.Buffer, swizzle: str, what: str, recorder: Recorder) -> None:
    """The copy engine permutes by addresses, a layout by offsets: these agree where the memory begins where the pattern does."""
    pattern = 8 * SWIZZLES[swizzle]
    root = decl
    while root.window is not None:
        root = root.window.base
    size = decl.dtype.bytes
    first = flat_index(decl, [si.const(0)] * len(decl.shape), recorder.known)
    for start, name in ((root.elem_offset, root.name), (first, decl.name or "the slice")):
        if recorder.known.prove(si.eq(si.floormod(start * size, si.const(pattern)), si.const(0))) is False:
            recorder.fail(f"T.tma.{what}: {name!r} begins {symbolic_text(start * size, recorder)} bytes into its memory; swizzle=\"{swizzle}\" "
                          f"repeats every {pattern} bytes, and elements lie where they are looked for only from a multiple of that on "
                          f"(align={pattern}; slices of whole groups of 8 rows)")
    root.storage.align = max(root.storage.align, pattern)


def _swizzle_of(decl: ir.Buffer) -> str | None:
    """How a buffer's rows are permuted, in the words of a tensor map; None for a layout that no box has."""
    while decl.window is not None:
        decl = decl.window.base
    layout = decl.layout
    if isinstance(layout, ComposeLayout):
        xor = layout.swizzle
        pieces = (1 << xor.per_element) * decl.dtype.bytes == PIECE and xor.atom_len == 3 and xor.swizzle_inner
        return {1: "32B", 2: "64B", 3: "128B"}.get(xor.swizzle_len) if pieces else None
    return "none" if layout is None or axis_strides(decl.shape, layout) == row_major(decl.shape) else None


def _check_elements(place: Buffer, given: DType, wanted: DType, what: str, recorder: Recorder) -> None:
    if given is not wanted:
        recorder.fail(f"T.tma.{what}: {place.decl.name!r} has elements of {given}, the map of them of {wanted}; view one as the other")


def _pointer(place: Any) -> Value:
    """A pointer, also to an element that was written as a load, or to a buffer's first one."""
    node = place.read() if isinstance(place, Value) else None
    if isinstance(place, Buffer) or node is not None and node.op is ops.LOAD:
        return address_of(place)
    pointer: Value = place
    return pointer
