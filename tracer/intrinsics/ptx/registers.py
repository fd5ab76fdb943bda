"""A check at the end of a trace: what was read of a register before an instruction wrote it is not taken for what it wrote."""

from __future__ import annotations

from tracer import operations as ops
from tracer.errors import TraceError
from tracer.ir import Function, Node, Region
from tracer.recorder import Recorder
from tracer.spelling import describe

_LOOPS = (ops.FOR, ops.WHILE)


def check_registers(function: Function, recorder: Recorder) -> None:
    """Raise `TraceError` where a Python value `x = r[0]`, passed to an instruction that writes r[0], is used as a value behind it.

    It would still be what r[0] was when it was read. The same holds in a loop around the instruction that the reading is not part of.
    """
    if not recorder.named_registers:
        return
    order: dict[Node, int] = {}
    loops: dict[Node, tuple[Node, ...]] = {}
    _walk(function.device, (), order, loops)
    users: dict[Node, list[Node]] = {}
    for node in order:
        for operand in node.operands:
            users.setdefault(operand, []).append(node)
    for load, pointer in recorder.named_registers:
        for writer in users.get(pointer, ()):
            for user in users.get(load, ()):
                repeated = any(loop not in loops[load] for loop in loops[writer])
                if load in order and (order[user] > order[writer] or repeated):
                    raise TraceError(
                        f"{user.location}: `{describe(load)}` was read at {load.location}, before `{writer.attrs['instruction']}` wrote it at "
                        f"{writer.location}, and a value stays what it was when it was read. Write the element again where its new value is meant")


def _walk(region: Region, around: tuple[Node, ...], order: dict[Node, int], loops: dict[Node, tuple[Node, ...]]) -> None:
    for node in region.nodes:
        order[node], loops[node] = len(order), around
        inside = (*around, node) if node.op in _LOOPS else around
        for inner in node.regions:
            _walk(inner, inside, order, loops)
