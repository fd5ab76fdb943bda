"""Integer arithmetic: indices that may leave their dtype, divisors that may be 0, shifts by too much."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.check.findings import OPEN, SAFE, WRONG, Finding
from codegen.check.names import range_text, span_text
from codegen.lowered import Lowered
from symbolic import integers as si
from symbolic.integers import Int
from symbolic.text import text
from tracer import operations as ops
from tracer.ir import Node

_DIVISIONS = frozenset({ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV, ops.TRUNCMOD})
_SHIFTS = frozenset({ops.SHL, ops.SHR})


def overflow(lowered: Lowered, names: dict[Int, str]) -> Iterator[Finding]:
    """Index arithmetic that was taken to fit its dtype: what is not proved is checked at each call with the extents it comes with."""
    for node in lowered.function.assumed_exact:
        facts = lowered.known.get(node)
        if facts is None or node.sym is None or node.dtype is None:
            continue
        least, greatest = node.dtype.limits
        relation = si.land(si.ge(node.sym, least), si.le(node.sym, greatest))
        beyond = f"{span_text(node.sym, facts)}, beyond {node.dtype} for some extents; every call checks its own"
        reasons = {SAFE: f"it is an {node.dtype} for all extents", OPEN: beyond, WRONG: f"{span_text(node.sym, facts)}, never an {node.dtype}"}
        yield Finding.of("overflow", text(node.sym, names), relation, facts, reasons, node.location, names)
    for node, (low, high) in lowered.function.overflowing.items():
        yield Finding("overflow", OPEN, node.name or node.op.name, f"it needs {low} to {high} at every launch: it wraps, as in memory, and may be "
                      "part of no index", node.location)


def divisors(lowered: Lowered, names: dict[Int, str]) -> Iterator[Finding]:
    for node in _integer_nodes(lowered, _DIVISIONS):
        divisor = node.operands[1].sym
        if divisor is None or si.is_const(divisor) and divisor.value:
            continue
        facts = lowered.known[node]
        relation = si.ne(divisor, 0)
        reasons = {SAFE: "it is never 0", WRONG: "it is 0", OPEN: "it is not known to differ from 0"}
        yield Finding.of("divisor", range_text(divisor, facts, names), relation, facts, reasons, node.location, names)


def shifts(lowered: Lowered, names: dict[Int, str]) -> Iterator[Finding]:
    for node in _integer_nodes(lowered, _SHIFTS):
        amount = node.operands[1].sym
        if amount is None or node.dtype is None or si.is_const(amount) and 0 <= amount.value < node.dtype.bits:
            continue
        facts = lowered.known[node]
        relation = si.land(si.ge(amount, 0), si.lt(amount, node.dtype.bits))
        span = f" 0 to {node.dtype.bits - 1}"
        reasons = {SAFE: "within" + span, WRONG: "outside" + span, OPEN: "not known to be within" + span}
        yield Finding.of("shift", range_text(amount, facts, names), relation, facts, reasons, node.location, names)


def _integer_nodes(lowered: Lowered, rows: frozenset[ops.Operation]) -> Iterator[Node]:
    for region in (lowered.function.host, lowered.function.device):
        for node in region.walk():
            if node.op in rows and node.dtype is not None and node.dtype.is_integer and node in lowered.known:
                yield node
