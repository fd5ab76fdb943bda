"""Which integer sums must be written so that they wrap.

Signed overflow is undefined in C++, and compilers use that where the result is compared, divided, shifted right, widened or
converted: `x + 1 > x` becomes true. There the sum goes through unsigned arithmetic. Where it only feeds further sums and
products, a store or an index, the low bits are all that counts and every compiler gives them; a helper would only hide the sum.
"""

from __future__ import annotations

from codegen.lowered import Lowered
from codegen.schedule import Schedule
from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.ir import Node

_RING = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG})
# Their low bits depend on the operands' low bits alone: they ask of an operand what is asked of them.
_PASS_ON = frozenset({*_RING, ops.AND, ops.OR, ops.XOR, ops.NOT, ops.LET})
_LOOK = frozenset({
    ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV, ops.TRUNCMOD, ops.MIN, ops.MAX, ops.ABS, ops.SHR, ops.SHL, ops.FOR,
    ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE, ops.POPC, ops.CLZ, ops.FFS, ops.BREV, ops.MATCH_ANY, ops.MATCH_ALL, *ops.REDUCE,
})
_ALGEBRA = frozenset({si.SUM, si.PRODUCT, si.SYMBOL, si.CONST})


def wrapping(lowered: Lowered, plan: Schedule) -> set[Node]:
    """The live nodes of type int32 and int64 to be computed with wrapping arithmetic, as others look at more than low bits."""
    looked_at: set[Node] = set()
    for node in plan.live:
        if node in plan.integers:
            expression = plan.integers[node]
            for symbol in si.free_symbols(expression):
                used = lowered.atoms[symbol]
                if _looks(expression) or _converts(node, used):
                    looked_at.add(used)
        elif node in lowered.accesses:
            for index in filter(_looks, lowered.accesses[node].written):
                looked_at.update(lowered.atoms[s] for s in si.free_symbols(index))
            if node.op in ops.ATOMICS:
                looked_at.update(node.op.split(node.operands)[1])
        else:
            for position, operand in enumerate(node.operands):
                if node.op in _LOOK or (node.op is ops.SELECT and position == 0) or (node.op is ops.CAST and _converts(node, operand)):
                    looked_at.add(operand)
    pending = list(looked_at)
    while pending:
        for operand in _passed_on(pending.pop(), lowered, plan):
            if operand not in looked_at:
                looked_at.add(operand)
                pending.append(operand)
    return {n for n in looked_at & plan.live if _may_overflow(n, plan)}


def _passed_on(node: Node, lowered: Lowered, plan: Schedule) -> list[Node]:
    if node in plan.integers:
        return [lowered.atoms[s] for s in si.free_symbols(plan.integers[node])]
    if node.op in _PASS_ON:
        return list(node.operands)
    return list(node.operands[1:]) if node.op is ops.SELECT else []


def _looks(e: Int) -> bool:
    """True where `e` has an operator that reads more than low bits."""
    return e.op not in _ALGEBRA or any(map(_looks, e.args))


def _converts(node: Node, operand: Node) -> bool:
    """True where `node` holds the value of `operand` in a wider integer or in a float."""
    if node.dtype is None or operand.dtype is None:
        return False
    return not node.dtype.is_integer or node.dtype.bits > operand.dtype.bits


def _may_overflow(node: Node, plan: Schedule) -> bool:
    if node in plan.integers or node.op not in _RING or node.dtype is None:
        return False
    return node.dtype.kind == "int" and node.dtype.bits >= 32
