"""What the intrinsics ask of their operands: lane masks, exact dtypes, pointers to an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer import ir
from tracer import operations as ops
from tracer.buffers import Buffer
from tracer.dtypes import DType, can_store, dtype
from tracer.errors import DTypeError
from tracer.ir import Node
from tracer.recorder import Recorder
from tracer.values import Value, as_node, cast

UINT32 = dtype("uint32")
FULL_MASK = 0xFFFFFFFF


def lane_mask(mask: Any, recorder: Recorder) -> Node:
    """A mask of the warp's lanes as a uint32 node."""
    return cast(as_node(mask, UINT32, recorder), UINT32)


def one_of(value: Any, names: Sequence[str], what: str, recorder: Recorder) -> Node:
    """`value` as a node whose dtype is one of `names`; a Python literal takes the first that can hold it by Python's rules."""
    node = as_node(value, None, recorder)
    if node.dtype is None or node.dtype.name not in names:
        recorder.fail(f"`{what}` takes {', '.join(names)}; not {node.dtype}. Write .astype({names[0]!r}) if the conversion is meant", node,
                      kind=DTypeError)
    return node


def exactly(value: Any, wanted: DType, what: str, recorder: Recorder) -> Node:
    """`value` as a node of dtype `wanted`, to which it must promote."""
    node = as_node(value, wanted, recorder)
    if node.dtype is None or not can_store(node.dtype, wanted):
        recorder.fail(f"`{what}` takes {wanted}; not {node.dtype}. Write .astype({wanted.name!r}) if the conversion is meant", node,
                      kind=DTypeError)
    return cast(node, wanted)


def element(pointer: Any, what: str, recorder: Recorder, writes: bool = True) -> tuple[ir.Buffer, tuple[Node, ...]]:
    """The buffer and coordinates that a pointer `A.ptr_to([i, j])` was made from."""
    node = pointer.read() if isinstance(pointer, Value) else None
    if node is None or node.op is not ops.ADDRESS_OF or node.attrs.get("data"):
        shown = "a buffer; write A.ptr_to([i])" if isinstance(pointer, Buffer) else \
            "a buffer's whole memory; write A.ptr_to([0])" if node is not None and node.attrs.get("data") else repr(pointer)
        recorder.fail(f"`{what}` takes a pointer to one element, A.ptr_to([i, j]) or T.address_of(x), not {shown}")
    if writes:
        check_writable(node, what, recorder)
    return node.attrs["buffer"], node.operands


def check_writable(pointer: Node, what: str, recorder: Recorder) -> None:
    """Refuse to write through a pointer that was asked for to read."""
    read = pointer.attrs.get("reads")
    if read is not None:
        recorder.fail(f"`{what}` writes through {read.name}.access_ptr(\"r\"), a pointer for reading; write access_ptr(\"rw\")")
