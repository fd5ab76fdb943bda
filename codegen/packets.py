"""Which vector accesses are one wide access: those whose lanes are proved to be one run that lies on the vector's alignment."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.lowered import DeviceHalf, Lowered
from codegen.words import facts_at
from symbolic import integers as si
from tracer import operations as ops
from tracer.dtypes import DType
from tracer.intrinsics.ptx.alignment import pointers
from tracer.ir import Node, Storage


def moved(access: Node) -> DType:
    """The type of the value that a load or store moves."""
    dtype = access.operands[-1].dtype if access.op is ops.STORE else access.dtype
    assert dtype is not None
    return dtype


def is_packet(access: Node) -> bool:
    """True where several elements move at once."""
    return moved(access).lanes > int(access.attrs["buffer"].dtype.lanes)


def is_half_bytes(access: Node) -> bool:
    """True for an array whose elements share bytes: an index counts halves of them."""
    buffer = access.attrs["buffer"]
    return bool(buffer.dtype.packed) and buffer.dtype.lanes == 1 and not buffer.cell


def moves_whole(access: Node, lowered: Lowered) -> bool:
    """Whether one wide access may be written for the load or store `access`; else its lanes move one by one."""
    dtype, place = moved(access), lowered.accesses[access]
    step = 8 * dtype.alignment // dtype.width
    return not place.lanes and (step == 1 or facts_at(access, lowered).prove(si.eq(place.index % step, 0)) is True)


def instructed(half: DeviceHalf) -> Iterator[tuple[Storage, int, str]]:
    """(storage, bytes, what asks for it) for every storage that must be aligned because an instruction moves wide pieces of it."""
    for node in half.body.walk():
        if "form" not in node.attrs:
            continue
        for _, pointer, needed in pointers(node):
            place, buffer = half.lowered.accesses[pointer], pointer.attrs["buffer"]
            step = needed // buffer.dtype.bytes
            if step > 1 and facts_at(node, half.lowered).prove(si.eq(place.index % step, 0)) is True:
                yield buffer.storage, needed, f"`{node.attrs['instruction']}`{f' at {node.location.short}' if node.location else ''}"
