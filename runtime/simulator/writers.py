"""Which lines of a kernel write a storage: for messages about what nothing has written."""

from __future__ import annotations

from tracer import instructions as ins
from tracer import operations as op
from tracer.ir import Node, Region, Storage


def writers_text(body: Region, storage: Storage) -> str:
    """The last line of a message."""
    lines = dict.fromkeys(str(node.location) for node in body.walk() if node.location and _writes(node, storage))
    return f"\n  its stores: {', '.join(lines)}" if lines else "\n  nothing in the kernel stores to it"


def _writes(node: Node, storage: Storage) -> bool:
    if node.op is op.STORE or node.op in op.ATOMICS:
        return node.attrs["buffer"].storage is storage
    return ins.is_instruction(node.op) and any(
        role in ins.WRITTEN_ROLES and operand.op is op.ADDRESS_OF and operand.attrs["buffer"].storage is storage for role, operand in ins.roles(node))
