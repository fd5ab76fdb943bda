"""Tensor maps: what the copy engine is told of an array in global memory, so that one thread can ask it for a whole box.

A map is declared on the host, above `T.device_entry()`; the launcher encodes it at every call and hands it to the kernel. The limits are
those of the CUDA driver API, `cuTensorMapEncodeTiled`, and of PTX ISA 5.5 ("Tensors"). What an array's shape decides only at the call
is checked there: see `codegen.tensor_maps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from symbolic import integers as si
from symbolic.integers import Int
from tracer import instructions, ir
from tracer import operations as ops
from tracer.addressing import axis_strides
from tracer.buffers import DYNAMIC_SHARED_LIMIT, HANDLE, Buffer
from tracer.errors import NotSupportedError
from tracer.extents import extent, symbolic_text
from tracer.recorder import Recorder, current
from tracer.values import Value

MOST_AXES = 5
MOST_BOX = 256                  # elements along an axis
MOST_STEP = 8                   # of element_strides
MOST_EXTENT = 1 << 32
STRIDE_LIMIT = 1 << 40          # bytes
UNIT = 16                       # bytes: what strides, addresses and rows of a box are multiples of
# How many bytes the pattern permutes within, 0 for none: a row of the box may be no longer.
SWIZZLES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zeros", "nan")
# PTX ISA 9.7.9.27.1.3 and 9.7.9.25.4.3: the element types that the copy engine reduces. An H200 takes bits of int64 for an illegal instruction.
REDUCTIONS = {
    "add": "uint32 int32 uint64 float16 bfloat16 float32 float64", "min": "uint32 int32 uint64 int64 float16 bfloat16",
    "max": "uint32 int32 uint64 int64 float16 bfloat16", "inc": "uint32", "dec": "uint32",
    "and": "int32 uint32 uint64", "or": "int32 uint32 uint64", "xor": "int32 uint32 uint64",
}
WRITES = (instructions.TENSOR_STORE, instructions.TENSOR_REDUCE)


class TensorMap(Value):
    """What `T.tensor_map` returns: the operand of tensor copies, a pointer to the encoded map.

    `buffer` is the name of the array's buffer; `box` and `box_bytes` say what one copy moves.
    """

    __slots__ = ("map",)
    __hash__ = Value.__hash__

    def __init__(self, node: ir.Node, recorder: Recorder) -> None:
        super().__init__(node, recorder)
        self.map: ir.TensorMap = node.attrs["map"]

    def __repr__(self) -> str:
        return f"<tensor map of {self.map.buffer.name}: boxes of {self.map.box} {self.map.buffer.dtype}>"

    @property
    def buffer(self) -> str:
        """The name of the buffer that the map describes."""
        return self.map.buffer.name

    @property
    def box(self) -> tuple[int, ...]:
        """Elements along each axis of the buffer, from the first to the last that one copy reaches."""
        return self.map.box

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Elements along each axis that one copy moves: those of the box, or every so many of them (`element_strides`)."""
        return self.map.moved

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy moves, and adds to its barrier: those of the whole box, whatever part of it the array has."""
        return prod(self.map.moved) * self.map.buffer.dtype.bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a box takes: more than `box_bytes` where its rows are shorter than what the swizzle permutes within, for
        each row then begins a span of its own."""
        return prod(self.map.moved[:-1]) * row_pitch(self.map)


def row_pitch(tensor_map: ir.TensorMap) -> int:
    """Bytes from one row of a box to the next in shared memory. With a swizzle it is the swizzle's span (seen on an H200)."""
    return SWIZZLES[tensor_map.swizzle] or tensor_map.box[-1] * tensor_map.buffer.dtype.bytes


def tensor_map(buffer: Any, box: Any, *, swizzle: str = "none", interleave: str = "none", l2_promotion: str = "none", oob_fill: str = "zeros",
               element_strides: Any = None) -> TensorMap:
    """Describe the array of `buffer` to the copy engine, which will move boxes of `box` elements, given in the order of its axes.

    * `swizzle`: how 16-byte pieces of the box are permuted in shared memory: "none", "32B", "64B" or "128B".
    * `l2_promotion`: what a miss in L2 fetches at least: "none", "64B", "128B" or "256B".
    * `oob_fill`: what loads find outside the array: "zeros", or "nan" for floats.
    * `element_strides`: of the box only every so many elements are moved, one number (1 to 8) for each axis.

    Written above `T.device_entry()`. Raises `TraceError` for what no call can make right. An array has 1 to 5 axes, neighbours along the
    last one, and strides that are multiples of 16 bytes; a box has at most 256 elements along an axis, and its rows are multiples of 16
    bytes and no longer than what the swizzle permutes within.
    """
    recorder = current()
    recorder.observe()
    if not recorder.on_host:
        recorder.fail("T.tensor_map stands above T.device_entry(): the host encodes the map before it launches the kernel")
    if not isinstance(buffer, Buffer):
        recorder.fail(f"T.tensor_map describes a buffer, not {buffer!r}")
    decl = buffer.decl
    _check_buffer(decl, recorder)
    sizes = _numbers(box, "box", decl, recorder)
    steps = _numbers([1] * len(sizes) if element_strides is None else element_strides, "element_strides", decl, recorder)
    for what, given, known in (("swizzle", swizzle, tuple(SWIZZLES)), ("l2_promotion", l2_promotion, L2_PROMOTIONS), ("oob_fill", oob_fill, FILLS)):
        if given not in known:
            recorder.fail(f"T.tensor_map: {what}={given!r}; write one of {', '.join(map(repr, known))}")
    if interleave != "none":
        raise NotSupportedError(f"{recorder.location()}: T.tensor_map with interleave={interleave!r} is not supported in this version; permute the "
                                "array so that its last axis has what the interleaved layout keeps together")
    if oob_fill == "nan" and not decl.dtype.is_float:
        recorder.fail(f"T.tensor_map: oob_fill=\"nan\" for elements of {decl.dtype}; only floats have a NaN")
    made = ir.TensorMap(decl, sizes, steps, swizzle, l2_promotion, oob_fill)
    _check_box(made, recorder)
    _check_shape(decl, recorder)
    return TensorMap(recorder.record(ops.TENSOR_MAP, (), HANDLE, {"map": made}), recorder)


def _check_buffer(decl: ir.Buffer, recorder: Recorder) -> None:
    if decl.storage.parameter is None:
        recorder.fail(f"T.tensor_map of {decl.name!r}: only an argument's array in global memory can be described")
    if decl.window is not None:
        recorder.fail(f"T.tensor_map of a slice of {decl.window.base.name!r}; describe the whole buffer, and add where the slice starts to the "
                      "coordinates")
    if decl.dtype.lanes > 1:
        recorder.fail(f"T.tensor_map of {decl.name!r}, whose elements are {decl.dtype}; view it as {decl.dtype.scalar}")
    if decl.dtype.bits < 8:
        raise NotSupportedError(f"{recorder.location()}: T.tensor_map of {decl.dtype} elements, several of which share a byte, is not supported in "
                                f"this version; describe {decl.name}.view(\"uint8\"), which moves the same bytes")
    if not 1 <= len(decl.shape) <= MOST_AXES:
        recorder.fail(f"T.tensor_map of {decl.name!r}, which has {len(decl.shape)} axes; the copy engine knows 1 to {MOST_AXES}: take a view that "
                      "joins some of them")


def _numbers(given: Any, what: str, decl: ir.Buffer, recorder: Recorder) -> tuple[int, ...]:
    entries = given if isinstance(given, Sequence) else (given,)
    found = [extent(entry, recorder, f"{what}[{axis}]") for axis, entry in enumerate(entries)]
    if len(found) != len(decl.shape):
        recorder.fail(f"T.tensor_map: {what}={tuple(entries)!r} for the {len(decl.shape)} axes of {decl.name!r}; write one number for each")
    for axis, value in enumerate(found):
        most = MOST_BOX if what == "box" else MOST_STEP
        if not si.is_const(value):
            recorder.fail(f"T.tensor_map: {what}[{axis}] is {symbolic_text(value, recorder)}; it must be a constant")
        if not 1 <= value.value <= most:
            recorder.fail(f"T.tensor_map: {what}[{axis}] is {value.value}, not 1 to {most}")
    return tuple(value.value for value in found)


def _check_box(made: ir.TensorMap, recorder: Recorder) -> None:
    """What one copy moves, and how its rows fit the swizzle."""
    size, span = made.buffer.dtype.bytes, SWIZZLES[made.swizzle]
    if made.element_strides[-1] != 1:
        recorder.fail(f"T.tensor_map: element_strides[{len(made.box) - 1}] is {made.element_strides[-1]}; along the last axis the copy engine takes "
                      "every element")
    row, total = made.box[-1] * size, prod(made.moved[:-1]) * row_pitch(made)
    row_text = f"{made.box[-1]} {made.buffer.dtype}, {row} bytes"
    if row % UNIT:
        recorder.fail(f"T.tensor_map: a row of the box is {row_text}; it must be a multiple of {UNIT}")
    if span and row > span:
        recorder.fail(f"T.tensor_map: a row of the box is {row_text}; swizzle=\"{made.swizzle}\" permutes within {span}: make the last extent of "
                      f"the box {span // size} or less, and copy several boxes")
    if total > DYNAMIC_SHARED_LIMIT:
        recorder.fail(f"T.tensor_map: a box of {total} bytes; a block has at most {DYNAMIC_SHARED_LIMIT} of shared memory")


def _check_shape(decl: ir.Buffer, recorder: Recorder) -> None:
    """What the extents and strides already tell; the rest is asked at the call."""
    for axis, size in enumerate(decl.shape):
        if recorder.known.prove(si.le(size, si.const(0))) is True or recorder.known.prove(si.gt(size, si.const(MOST_EXTENT))) is True:
            recorder.fail(f"T.tensor_map: extent {axis} of {decl.name!r} is {symbolic_text(size, recorder)}, not 1 to 2**32")
    strides = axis_strides(decl.shape, decl.layout)
    if strides is None:
        recorder.fail(f"T.tensor_map: the layout of {decl.name!r} has no single stride for each axis: {decl.layout!r}")
    if recorder.known.prove(si.eq(strides[-1], si.const(1))) is not True:
        recorder.fail(f"T.tensor_map: elements along the last axis of {decl.name!r} lie {symbolic_text(strides[-1], recorder)} apart; the copy "
                      "engine moves runs of neighbours: permute the axes so that the last one has stride 1")
    for axis, step in enumerate(strides[:-1]):
        _check_stride(decl, axis, step * decl.dtype.bytes, recorder)


def _check_stride(decl: ir.Buffer, axis: int, step: Int, recorder: Recorder) -> None:
    apart = f"T.tensor_map: along axis {axis} of {decl.name!r} elements lie {symbolic_text(step, recorder)} bytes apart"
    if recorder.known.prove(si.eq(si.floormod(step, si.const(UNIT)), si.const(0))) is False:
        recorder.fail(f"{apart}; the copy engine needs a multiple of {UNIT}: pad the rows")
    if recorder.known.prove(si.lt(step, si.const(STRIDE_LIMIT))) is False:
        recorder.fail(f"{apart}; the most is 2**40 - 1")


def check_use(node: ir.Node, recorder: Recorder) -> None:
    """An instruction that was just recorded agrees with the map that it is given: where the box begins (PTX ISA 5.5.3.1: at a multiple of
    16 bytes, which strides are, so that the last axis decides), and what can be reduced. A box that is written does not begin before the array (CUDA
    C++ Programming Guide, "Using TMA to transfer multi-dimensional arrays")."""
    given = instructions.arguments(node)
    operand = given["map"][0] if given.get("map") and "at" in given else None
    if operand is None or operand.op is not ops.TENSOR_MAP:
        return
    made: ir.TensorMap = operand.attrs["map"]
    name, element, at = made.buffer.name, made.buffer.dtype, given["at"]
    what = f"`{node.attrs['instruction']}`"
    start = at[0].sym
    if start is not None and recorder.known.prove(si.eq(si.floormod(start * element.bytes, si.const(UNIT)), si.const(0))) is False:
        recorder.fail(f"{what}: the box begins at {symbolic_text(start, recorder)} along the last axis of {name!r}, which is no multiple of "
                      f"{UNIT} bytes ({UNIT // element.bytes} {element}); a GPU takes that for an illegal instruction")
    for k, coordinate in enumerate(at if node.op in WRITES else ()):
        if (start := coordinate.sym) is not None and recorder.known.prove(si.lt(start, si.const(0))) is True:
            recorder.fail(f"{what}: the box begins at {symbolic_text(start, recorder)} along axis {len(at) - 1 - k} of {name!r}; one that is written "
                          "begins in the array, only loads may begin before it")
    if node.op is instructions.TENSOR_REDUCE and element.name not in (known := REDUCTIONS[node.attrs["op"]].split()):
        same = f"; it is the same for the bits of uint64: describe {name}.view(\"uint64\")" * (element.name == "int64" and "int64" not in known
                                                                                             and "uint64" in known)
        recorder.fail(f"{what}: {node.attrs['op']!r} of {element}; the copy engine has it for {', '.join(known)}{same}")
