"""Which integer sums must be written so that they wrap.

Signed overflow is undefined in C++, and compilers use that where the result is compared, divided, shifted right, widened or
converted: `x + 1 > x` becomes true. There the sum goes through unsigned arithmetic, also where it gets there by way of memory.
Where it only feeds further sums and products, a mask or an index, the low bits are all that counts and every compiler gives
them; a helper would only hide the sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from codegen.cuda.counters import safe_steps
from codegen.lowered import Lowered
from codegen.schedule import Schedule
from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.ir import Node, Region, Storage

_RING = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.NEG})
# Their low bits depend on the operands' low bits alone, or they hand a value on: they ask of an operand what is asked of them.
_PASS_ON = frozenset({
    *_RING, ops.AND, ops.OR, ops.XOR, ops.NOT, ops.LET, ops.LANE, ops.CAST, ops.REINTERPRET, ops.SHFL, ops.SHFL_UP, ops.SHFL_DOWN, ops.SHFL_XOR,
})
_LOOK = frozenset({
    ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV, ops.TRUNCMOD, ops.MIN, ops.MAX, ops.ABS, ops.SHR, ops.SHL, ops.FOR,
    ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE, ops.POPC, ops.CLZ, ops.FFS, ops.BREV, ops.MATCH_ANY, ops.MATCH_ALL, *ops.REDUCE,
})
_LOW_BITS = frozenset({si.SUM, si.PRODUCT, si.AND, si.OR, si.XOR})
_MASK = 1 << 16      # `x % 64` reads six bits. A mask of nearly all bits may be left out by a compiler that knows the sign.


def fixed(body: Region) -> set[Node]:
    """The values that constants alone make up."""
    found: set[Node] = set()
    for node in body.walk():
        if node.op.pure and node.operands and all(o.op is ops.CONST or o in found for o in node.operands):
            found.add(node)
    return found


def wrapping(lowered: Lowered, plan: Schedule, known: set[Node]) -> set[Node]:
    """The live nodes of type int32 and int64 to be computed with wrapping arithmetic, as others look at more than low bits.

    So are those that are `known` to the compiler, which would warn.
    """
    looked_at: set[Node] = set()
    stored: dict[Storage, list[Node]] = defaultdict(list)
    for node in plan.live:
        if node in plan.integers:
            expression = plan.integers[node]
            looked_at.update(lowered.atoms[s] for s in _seen(expression, False))
            looked_at.update(used for s in _seen(expression, True) if _converts(node, used := lowered.atoms[s]))
        elif node in lowered.accesses:
            for index in lowered.accesses[node].written:
                looked_at.update(lowered.atoms[s] for s in _seen(index, False))
            if node.op in ops.ATOMICS:
                looked_at.update(node.op.split(node.operands)[1])
            elif node.op is ops.STORE:
                stored[node.attrs["buffer"].storage].append(node.operands[-1])
        else:
            for position, operand in enumerate(node.operands):
                if node.op in _LOOK or (node.op is ops.SELECT and position == 0) or (node.op is ops.CAST and _converts(node, operand)):
                    looked_at.add(operand)
    pending = list(looked_at)
    while pending:
        for operand in _passed_on(pending.pop(), lowered, plan, stored):
            if operand not in looked_at:
                looked_at.add(operand)
                pending.append(operand)
    safe = safe_steps(plan.live, lowered)
    return {n for n in (looked_at | known) & plan.live if _may_overflow(n, plan) and n not in safe}


def _passed_on(node: Node, lowered: Lowered, plan: Schedule, stored: dict[Storage, list[Node]]) -> list[Node]:
    """Whose values are looked at where that of `node` is."""
    if node in plan.integers:
        return [lowered.atoms[s] for s in _seen(plan.integers[node], True)]
    if node.op is ops.LOAD:
        return stored[node.attrs["buffer"].storage]
    if node.op is ops.IF_THEN_ELSE:
        return [r.result for r in node.regions if r.result is not None]
    if node.op in _PASS_ON:
        return list(node.operands)
    return list(node.operands[1:]) if node.op is ops.SELECT else []


def _seen(e: Int, looked: bool) -> Iterator[Int]:
    """The atoms of which `e` reads more than low bits, if more than low bits of `e` are read or else (`looked`)."""
    if e.op is si.SYMBOL:
        if looked:
            yield e
    elif e.op is si.SELECT:
        yield from _seen(e.args[0], True)
        for branch in e.args[1:]:
            yield from _seen(branch, looked)
    else:
        inside = False if _is_mask(e) else looked if e.op in _LOW_BITS else True
        for a in e.args:
            yield from _seen(a, inside)


def _is_mask(e: Int) -> bool:
    """True for `x % 2**k`, `x & m` with few bits: they read low bits alone."""
    if e.op is si.FLOORMOD:
        modulus = e.args[1]
        return si.is_const(modulus) and 0 < modulus.value <= _MASK and modulus.value & (modulus.value - 1) == 0
    return e.op is si.AND and any(si.is_const(a) and 0 <= a.value < _MASK for a in e.args)


def _converts(node: Node, operand: Node) -> bool:
    """True where `node` holds the value of `operand` in a wider integer or in a float."""
    if node.dtype is None or operand.dtype is None:
        return False
    return not node.dtype.is_integer or node.dtype.bits > operand.dtype.bits


def _may_overflow(node: Node, plan: Schedule) -> bool:
    if node in plan.integers or node.op not in _RING or node.dtype is None:
        return False
    return node.dtype.kind == "int" and node.dtype.bits >= 32
