"""What is done to a program once its trace has ended: values that nothing uses go."""

from __future__ import annotations

from tracer import operations as ops
from tracer.ir import Function, Node, Region
from tracer.operations import Effect


def remove_unused(function: Function) -> None:
    """Drop every pure node, every load and every guarded load that nothing uses, directly or through another such node."""
    used = {node for node, _ in function.assumptions}
    # Backwards, so that the users of a node are met before it.
    _sweep(function.device, used)
    _sweep(function.host, used)
    function.assumed_exact = [node for node in function.assumed_exact if node in used]


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
