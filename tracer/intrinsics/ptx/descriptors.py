"""`T.cuda.wgmma` and `T.cuda.tcgen05`: the numbers that tell the tensor core what to multiply, made from a buffer or by hand.

PTX ISA 9.7.15.5.1.2.2 and 9.7.16.4.1 (matrix descriptors), 9.7.16.4.2 (instruction descriptor), 9.7.16.1 (addresses in tensor memory).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symbolic import integers as si
from symbolic.integers import Int, is_const
from symbolic.layout.descriptors import MAJORS, MatrixDescriptor, fitted
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from tracer import instructions as ins
from tracer import ir
from tracer import operations as ops
from tracer.dtypes import dtype
from tracer.intrinsics.operands import element
from tracer.intrinsics.ptx.calls import call
from tracer.intrinsics.ptx.chain import flattened
from tracer.matrix import TCGEN05_KINDS, InstructionDescriptor
from tracer.recorder import Recorder, current
from tracer.values import Value, as_node, wrap

UINT32, UINT64 = dtype("uint32"), dtype("uint64")
OPERAND_BYTES = 32      # of k that one instruction reads

_BY_HAND = "desc:u64, ptr@shared, ldo:u32, sdo:u32, swizzle#"
_BY_HAND_DOC = ("Write a matrix descriptor into the register `desc`: `ptr` is where the operand starts, `ldo` and `sdo` are its leading and stride "
                "offsets in units of 16 bytes, `swizzle` is 0 for none, 1 for 32, 2 for 64, 3 for 128 bytes")
encode_wgmma = call(ins.WGMMA_DESCRIPTOR, _BY_HAND, _BY_HAND_DOC, limits={"swizzle": range(4)})
encode_tcgen05 = call(ins.TCGEN05_DESCRIPTOR, _BY_HAND, _BY_HAND_DOC, limits={"swizzle": range(4)})
matrix_descriptor = call(ins.MATRIX_DESCRIPTOR, "ptr@shared, fields#", "The matrix descriptor, a uint64, that starts at `ptr` and has the bits "
                         "`fields` beside the address", result=UINT64)
get_tmem_addr = call(ins.TMEM_ADDRESS, "addr:u32, row:u32, col:u32", "The address `row` lanes and `col` columns beyond `addr` in tensor memory",
                     result=UINT32)


def noop_barrier(*registers: Any) -> None:
    """Nothing, but the compiler moves no access to these registers (elements of local buffers, or whole ones) across it."""
    given = list(flattened(registers))
    call(ins.WGMMA_NOOP_BARRIER, f"{{reg:b32*{len(given)}}}", "")(*given)


def _descriptor(generation: str) -> Callable[..., Value]:
    def descriptor(pointer: Any, major: str = "K", mn: int | None = None) -> Value:
        recorder = current()
        recorder.observe()
        what = f"T.cuda.{generation}.descriptor"
        buffer, coords = element(pointer, what, recorder)
        if buffer.scope not in ("shared", "shared.dyn"):
            recorder.fail(f"{what}: {buffer.name!r} is in {buffer.scope} memory; operands lie in shared memory")
        if major not in MAJORS:
            recorder.fail(f"{what}: major={major!r}; it is \"K\" (rows are m or n, columns k) or \"MN\" (rows are k)")
        made = _fitted(buffer, major, mn, what, recorder)
        _check_start(buffer, coords, made, what, recorder)
        fields = MatrixDescriptor(0, made.leading, made.stride, made.mode).encode(generation)
        found: Value = matrix_descriptor(pointer, fields)
        return found

    descriptor.__qualname__ = f"{generation}.descriptor"
    descriptor.__doc__ = f"""The matrix descriptor of {generation} for the operand that starts at an element of a shared buffer: a uint64.

    `pointer` is `A.ptr_to([.., row, column])`. The buffer's last two axes are (m or n, k) for a K-major operand, (k, m or n) for an
    MN-major one; strides and swizzle are read off its layout. `mn`: how far the operand runs along m or n, the whole axis by default.
    Moving on by b bytes that no swizzle reaches (along k within a row of the pattern, or by whole patterns) is adding b // 16.

    Raises `TraceError` where no descriptor means what the layout says, for every element of the operand.
    """
    return descriptor


def _whole(buffer: ir.Buffer) -> ir.Buffer:
    """The buffer that a window looks at."""
    while buffer.window is not None:
        buffer = buffer.window.base
    return buffer


def _fitted(buffer: ir.Buffer, major: str, mn: int | None, what: str, recorder: Recorder) -> MatrixDescriptor:
    whole = _whole(buffer)
    if len(buffer.shape) < 2 or not all(map(is_const, (*whole.shape, *buffer.shape[-2:]))):
        recorder.fail(f"{what}: {buffer.name!r} has {len(buffer.shape)} axes; an operand is the last two of at least two, of constant extents")
    shape = tuple(n.value for n in whole.shape)
    extent = buffer.shape[-2 if major == "K" else -1].value if mn is None else mn
    layout = TileLayout(S[shape]) if whole.layout is None else whole.layout
    try:
        return fitted(layout, shape, whole.dtype.name, major, extent, OPERAND_BYTES // whole.dtype.bytes)
    except LayoutError as error:
        recorder.fail(f"{what}: {buffer.name!r}: {error}")


def _check_start(buffer: ir.Buffer, coords: tuple[ir.Node, ...], made: MatrixDescriptor, what: str, recorder: Recorder) -> None:
    """An operand starts at a row of the buffer where the swizzle pattern does."""
    row: Int | None = coords[-2].sym
    if made.mode != "none" and row is not None and buffer.window is None:
        off = si.floormod(row, si.const(8))
        if recorder.known.prove(si.eq(off, si.const(0))) is False:
            recorder.fail(f"{what}: the operand starts in the middle of the {made.mode} pattern of {buffer.name!r}; its row must be a multiple of 8")


wgmma_descriptor = _descriptor("wgmma")
tcgen05_descriptor = _descriptor("tcgen05")

_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}


def instruction_descriptor(d: str, a: str, b: str, m: int, n: int, *, negate_a: bool = False, negate_b: bool = False, transpose_a: bool = False,
                           transpose_b: bool = False) -> Value:
    """The instruction descriptor of tcgen05.mma as a uint32 constant: D of dtype `d` (m by n), A of `a` and B of `b`.

    Types are PTX's (f16, bf16, tf32, f32) or dtypes' names. `transpose_*`: the operand lies MN-major. Raises `TraceError` for what
    cta_group::1 has not.
    """
    recorder = current()
    d, a, b = (_TYPES.get(str(t), str(t)) for t in (d, a, b))
    kind = "tf32" if a == "tf32" else "f16"
    made = InstructionDescriptor(kind, d, a, b, m, n, negate_a, negate_b, transpose_a, transpose_b)
    problem = made.problem() if a in TCGEN05_KINDS[kind].inputs else f"operands are f16, bf16 or tf32, not {a}"
    if problem:
        recorder.fail(f"T.cuda.tcgen05.instruction_descriptor: {problem}")
    return wrap(as_node(made.encode(), UINT32, recorder), recorder)


def encode_instr_descriptor(pointer: Any, d_dtype: str, a_dtype: str, b_dtype: str, M: int, N: int, *, trans_a: bool = False,  # noqa: N803
                            trans_b: bool = False, neg_a: bool = False, neg_b: bool = False) -> None:
    """Store `instruction_descriptor(...)` where `pointer`, to a uint32 of a local buffer, points."""
    recorder = current()
    recorder.observe()
    buffer, coords = element(pointer, "T.cuda.tcgen05.encode_instr_descriptor", recorder)
    if buffer.dtype is not UINT32:
        recorder.fail(f"T.cuda.tcgen05.encode_instr_descriptor writes a uint32; {buffer.name!r} holds {buffer.dtype}")
    made = instruction_descriptor(d_dtype, a_dtype, b_dtype, M, N, negate_a=neg_a, negate_b=neg_b, transpose_a=trans_a, transpose_b=trans_b)
    recorder.record(ops.STORE, [*coords, as_node(made, UINT32, recorder)], None, {"buffer": buffer})
