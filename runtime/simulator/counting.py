"""From the counters of a run, and what a profile saw, to its report."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.lowered import DeviceHalf
from runtime.simulator.kinds import arithmetic, kind_of
from runtime.simulator.profile import Cost, Profile
from runtime.simulator.program import Counter
from runtime.simulator.report import AccessCount, BarrierCount, OperationCount, Report
from tracer import instructions as ins
from tracer.ir import Buffer, Extents, Node

_ROLES = {"out": "load", "inout": "store", "read": "load", "write": "store", "update": "atomic"}


def report_of(half: DeviceHalf, grid: tuple[int, ...], block: tuple[int, ...], counters: Sequence[Counter], counts: Sequence[int],
              notes: list[str], profile: Profile | None = None, sample: tuple[int, int] | None = None) -> Report:
    """The report of a run; without a `profile` it has counts alone. `sample`: (blocks that ran, blocks of the grid) if these differ."""
    report = Report(half.name, Extents(grid), Extents(block), notes=notes, sample=sample, profiled=profile is not None)
    costs = dict(profile.costs) if profile is not None else {}
    for (node, kind), count in reversed(list(zip(counters, counts))):       # in program order: users are compiled first
        report.instructions[node.op.name] = report.instructions.get(node.op.name, 0) + count
        report.operations.append(OperationCount(node.op.name, kind_of(node), node.location, count))
        pipe, each = arithmetic(node)
        if each and count:
            report.arithmetic[pipe] = report.arithmetic.get(pipe, 0) + count * each
        if kind is not None:
            report.accesses.append(_access(node, kind, count, costs.get(node)))
        elif node in costs:
            report.accesses.append(_by_pointer(node, count, costs[node]))
    if profile is not None:
        report.barriers = [BarrierCount(node.op.name, node.location, wait.times, wait.warps) for node, wait in profile.waits.items()]
        report.bytes_read, report.bytes_written = profile.bytes_read, profile.bytes_written
    return report


def _access(node: Node, kind: str, count: int, cost: Cost | None) -> AccessCount:
    buffer: Buffer = node.attrs["buffer"]
    value = node.dtype or node.operands[-1].dtype
    assert value is not None
    return _counted(buffer.name, buffer.scope, kind, node, value.bytes, count, cost)


def _by_pointer(node: Node, count: int, cost: Cost) -> AccessCount:
    """An instruction that is told its places by pointers: named by the first one into memory."""
    pointers = [(role, operand) for role, operand in ins.roles(node) if "buffer" in operand.attrs and role in _ROLES] \
        if ins.is_instruction(node.op) else []
    shown = [(role, operand.attrs["buffer"]) for role, operand in pointers if operand.attrs["buffer"].scope != "local"]
    role, buffer = shown[0] if shown else ("read", None)
    name, scope = (buffer.name, buffer.scope) if buffer is not None else (node.op.name, "global" if cost.sectors else "shared")
    return _counted(name, scope, _ROLES[role], node, 0, count, cost)


def _counted(name: str, scope: str, kind: str, node: Node, each: int, count: int, cost: Cost | None) -> AccessCount:
    if cost is None:
        return AccessCount(name, scope, kind, node.location, each, count)
    return AccessCount(name, scope, kind, node.location, each, count, cost.requests, cost.sectors, cost.least_sectors, cost.passes,
                       cost.least_passes, cost.ways, cost.bytes)
