"""What is done to a program once its trace has ended: values that nothing uses go."""

from __future__ import annotations

from tracer import operations as ops
from tracer.ir import Function, Node, Region
from tracer.operations import Effect


def remove_unused(function: Function) -> None:
    """Drop every pure node, every load and every guarded load that nothing uses, directly or through another such node."""
    while True:
        used = {node for node, _ in function.assumptions}
        # Backwards, so that the users of a node are met before it.
        _sweep(function.device, used)
        _sweep(function.host, used)
        if not _drop_unread_cells(function):      # what only such a cell needed goes in the next round
            break
    function.assumed_exact = [node for node in function.assumed_exact if node in used]


def _drop_unread_cells(function: Function) -> bool:
    """A thread's own mutable scalar that nothing reads goes, with what is stored into it. True where there was one."""
    nodes = [node for node in function.device.walk() if "buffer" in node.attrs]
    read = {node.attrs["buffer"].storage for node in nodes if node.op not in (ops.ALLOC, ops.STORE)}
    unread = [node for node in nodes if node.attrs["buffer"].cell and node.attrs["buffer"].scope == "local"
              and node.attrs["buffer"].storage not in read]
    for node in unread:
        assert node.parent is not None
        node.parent.nodes.remove(node)
    return bool(unread)


def _sweep(region: Region, used: set[Node]) -> None:
    if region.result is not None:
        used.add(region.result)
    kept = []
    for node in reversed(region.nodes):
        if node not in used and (node.op.effect in (Effect.PURE, Effect.READ) or node.op is ops.IF_THEN_ELSE):
            continue
        kept.append(node)
        used.update(node.operands)
        for inner in reversed(node.regions):
            _sweep(inner, used)
    region.nodes[:] = kept[::-1]
