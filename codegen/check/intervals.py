"""The stretches between barriers of the block: which accesses no barrier orders.

A loop with a barrier in it is walked twice, the second time one turn later, so that what stands behind its last barrier meets what stands
before its first. Its variable is the same for all threads then, another one each time that the loop is come to; that of a loop without a
barrier is each thread's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from codegen.check.threads import Threads, turns_of
from codegen.lowered import FlatAccess, Lowered
from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.ir import Node, Region


@dataclass(frozen=True, eq=False)
class Step:
    """One access where it stands: the conditions around it, the loops that each thread runs by itself, and what the variables of loops that
    all run together are here (`common`)."""

    access: FlatAccess
    guards: tuple[Int, ...]
    loops: Mapping[Int, range]
    common: Mapping[Int, Int]


@dataclass(eq=False)
class Interval:
    """Accesses with no barrier between them. `certain`: these barriers, and no others, stand at its ends whatever happens."""

    steps: list[Step] = field(default_factory=list)
    certain: bool = True


def intervals(lowered: Lowered, threads: Threads) -> Iterator[Interval]:
    """Every stretch of the kernel."""
    walk = _Walk(lowered, threads)
    walk.region(lowered.function.device, (), {}, {})
    yield from (*walk.done, walk.present)


class _Walk:
    def __init__(self, lowered: Lowered, threads: Threads) -> None:
        self.lowered, self.threads = lowered, threads
        self.done: list[Interval] = []
        self.certain = not _has_other_orders(lowered.function.device)
        self.present = Interval(certain=self.certain)

    def barrier(self, sure: bool) -> None:
        """Accesses behind it are apart from those before it; where it may be missed, they are not."""
        if sure:
            self.done.append(self.present)
            self.present = Interval(certain=self.certain)
        else:
            self.present.certain = False

    def region(self, region: Region, guards: tuple[Int, ...], loops: dict[Int, range], common: dict[Int, Int], sure: bool = True) -> None:
        for node in region.nodes:
            access = self.lowered.accesses.get(node)
            if access is not None and node.op is not ops.ADDRESS_OF:
                self.present.steps.append(Step(access, guards, loops, common))
            elif node.op is ops.CTA_SYNC:
                self.barrier(sure)
            elif node.op is ops.FOR:
                self._loop(node, guards, loops, common, sure)
            elif node.op is ops.WHILE:
                for _ in range(2 if _has_barrier(node) else 1):
                    for inner in node.regions:
                        self.region(inner, (*guards, _UNKNOWN), loops, common, False)
            elif node.op in (ops.IF, ops.IF_THEN_ELSE):
                condition = node.operands[0].sym
                for inner, holds in zip(node.regions, (True, False)):
                    guard = _UNKNOWN if condition is None else condition if holds else si.lnot(condition)
                    self.region(inner, (*guards, guard), loops, common, False)

    def _loop(self, node: Node, guards: tuple[Int, ...], loops: dict[Int, range], common: dict[Int, Int], sure: bool) -> None:
        body = node.regions[0]
        variable = body.arguments[0].sym
        assert variable is not None
        found = turns_of(node, self.lowered.known[node])
        if not _has_barrier(node):
            inner = {**loops, variable: found} if found is not None else loops
            if found is None or len(found):
                self.region(body, guards, inner, common, sure)
            return
        step = node.operands[2].sym
        runs = found is not None and len(found) > 0
        further = step.value if step is not None and si.is_const(step) else 0
        now = si.Symbol(variable.name)
        for turn in range(2 if found is None or len(found) > 1 else 1):
            inside = {**common, variable: now + turn * further} if self.threads.is_uniform(variable) else common
            self.region(body, guards if runs else (*guards, _UNKNOWN), loops, inside, sure and runs)


def _has_other_orders(body: Region) -> bool:
    """Whether more than barriers may order threads: they leave, are ordered within a warp, by code of the author's, or wait for a flag."""
    found = {node.op for node in body.walk()}
    return bool(found & {*ops.LEAVING, ops.WARP_SYNC, ops.FUNC_CALL, *ops.FENCES}) or ops.WHILE in found and bool(found & {*ops.ATOMICS})


def _has_barrier(node: Node) -> bool:
    return any(inner.op is ops.CTA_SYNC for region in node.regions for inner in region.walk())


_UNKNOWN = si.ne(si.named("what is not known"), 0)      # a condition that no algebra sees
