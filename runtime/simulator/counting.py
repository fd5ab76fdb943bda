"""From the counters of a run, and what a profile saw, to its report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from codegen.lowered import DeviceHalf
from runtime.simulator.kinds import arithmetic, kind_of
from runtime.simulator.profile import Cost, Profile, Side
from runtime.simulator.program import Counter
from runtime.simulator.report import AccessCount, BarrierCount, OperationCount, Report
from tracer.ir import Buffer, Extents, Node


def report_of(half: DeviceHalf, grid: tuple[int, ...], block: tuple[int, ...], counters: Sequence[Counter], counts: Sequence[int],
              notes: list[str], profile: Profile | None = None, sample: tuple[int, int] | None = None) -> Report:
    """The report of a run; without a `profile` it has counts alone. `sample`: (blocks that ran, blocks of the grid) if these differ."""
    report = Report(half.name, Extents(grid), Extents(block), notes=notes, sample=sample, profiled=profile is not None)
    costs: dict[Node, list[tuple[Side, Cost]]] = defaultdict(list)
    for side, cost in profile.costs.items() if profile is not None else ():
        costs[side.node].append((side, cost))
    for (node, kind), count in reversed(list(zip(counters, counts))):       # in program order: users are compiled first
        report.instructions[node.op.name] = report.instructions.get(node.op.name, 0) + count
        report.operations.append(OperationCount(node.op.name, kind_of(node), node.location, count))
        pipe, each = arithmetic(node)
        if each and count:
            report.arithmetic[pipe] = report.arithmetic.get(pipe, 0) + count * each
        report.accesses += [_access(node, kind, count, costs.pop(node, []))] if kind is not None else \
            [_side(side, count, cost) for side, cost in costs.pop(node, [])]
    if profile is not None:
        report.barriers = [BarrierCount(node.op.name, node.location, wait.times, wait.warps) for node, wait in profile.waits.items()]
        report.bytes_read, report.bytes_written = profile.bytes_read, profile.bytes_written
    return report


def _access(node: Node, kind: str, count: int, costs: list[tuple[Side, Cost]]) -> AccessCount:
    """A load, store or atomic of one buffer."""
    buffer: Buffer = node.attrs["buffer"]
    value = node.dtype or node.operands[-1].dtype
    assert value is not None
    return _counted(buffer.name, buffer.scope, kind, node, value.bytes, count, costs[0][1] if costs else Cost())


def _side(side: Side, count: int, cost: Cost) -> AccessCount:
    """One side of an instruction that is told its places by pointers or descriptors."""
    buffer = side.buffer
    while buffer is not None and buffer.window is not None:
        buffer = buffer.window.base         # a part that was cut out for this statement has no name of its own
    name, scope = (buffer.name, buffer.scope) if buffer is not None else (side.node.op.name, side.scope)
    return _counted(name, scope, side.kind, side.node, cost.asked // count if count else 0, count, cost)


def _counted(name: str, scope: str, kind: str, node: Node, each: int, count: int, cost: Cost) -> AccessCount:
    return AccessCount(name, scope, kind, node.location, each, count, cost.requests, cost.sectors, cost.least_sectors, cost.passes,
                       cost.least_passes, cost.ways, cost.engine)
