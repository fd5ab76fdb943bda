"""Barriers that all threads of the block must reach: whether what decides about reaching them is the same for all."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.check.findings import OPEN, SAFE, Finding
from codegen.check.threads import Threads
from codegen.lowered import Lowered
from symbolic import integers as si
from symbolic.integers import Int
from symbolic.text import text
from tracer import operations as ops
from tracer.ir import Node, Region


def barriers(lowered: Lowered, names: dict[Int, str]) -> Iterator[Finding]:
    threads = Threads(lowered)
    for node, around in _barriers(lowered.function.device, ()):
        reasons = [told for condition in around if (told := _divides(condition, threads, names))]
        if reasons:
            yield Finding("barrier", OPEN, node.op.name, f"reached by all threads of the block only if they agree on {reasons[0]}", node.location)
        else:
            what = "every thread of the block comes here" if not around else "what is around it is the same for all threads of the block"
            yield Finding("barrier", SAFE, node.op.name, what, node.location)


def _barriers(region: Region, around: tuple[Node, ...]) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Each barrier of the block with the statements that decide whether it is reached."""
    for node in region.nodes:
        if node.op is ops.CTA_SYNC:
            yield node, around
        for inner in node.regions:
            yield from _barriers(inner, (*around, node))
        if any(_leaves(inner) for inner in node.regions):
            around = (*around, node)        # who left does not come to what follows


def _leaves(region: Region) -> bool:
    return any(node.op in ops.LEAVING or any(map(_leaves, node.regions)) for node in region.nodes)


def _divides(statement: Node, threads: Threads, names: dict[Int, str]) -> str:
    """What of `statement` may differ between the threads of a block; "" where nothing does."""
    deciders = [statement.regions[0].result] if statement.op is ops.WHILE else list(statement.operands)
    for decider in deciders:
        if decider is None or decider.sym is None:
            return f"a value of {decider.op.name}" if decider is not None else "nothing"
        if decider.op is not ops.CONST and not all(map(threads.is_uniform, si.free_symbols(decider.sym))):
            return f"`{text(decider.sym, names)}`"
    return ""
