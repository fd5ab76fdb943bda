"""The scalars of a call: whether their dtypes hold them, and what the kernel assumes of them and of the extents."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from codegen.host.call import Call
from codegen.host.names import escaped
from tracer import operations as ops
from tracer.errors import NotSupportedError
from tracer.ir import Node
from tracer.spelling import literal

# How the bitwise operators are written where they mean logic: `~True` is -2 to Python.
_LOGIC = {ops.AND: "{0} and {1}", ops.OR: "{0} or {1}", ops.XOR: "{0} != {1}", ops.NOT: "not {0}"}


def scalar_ranges(call: Call) -> Iterator[str]:
    for parameter, _ in call.scalars:
        s, kind = call.local[parameter], parameter.dtype
        if kind.kind == "float":
            yield f'rounded = held("{kind}", {s})'
            yield from call.refuse("rounded is None", "ArgumentValueError", parameter,
                                   f"{parameter.name}: expected a number that {kind} can hold, got {{{s}}}, which overflows")
            yield f"{s} = rounded"
        else:
            low, high = kind.limits
            yield from call.refuse(f"not {low} <= {s} <= {high}", "ArgumentValueError", parameter,
                                   f"{parameter.name}: expected {low} to {high} ({kind}), got {{{s}}}")


def assumptions(call: Call) -> Iterator[str]:
    for node, location in call.function.assumptions:
        assert node.sym is not None
        if call.knows(node.sym):
            code, shown, values = call.code(node.sym), call.show(node.sym), call.values(node.sym)
        else:      # it compares floats, through which the algebra does not see
            code, shown = _spelled(call, node, call.scalar_code), _spelled(call, node, call.scalar_shown)
            leaves = dict.fromkeys(_leaves(node))
            values = ", ".join(f"{call.scalar_shown(leaf)} = {{{call.scalar_code(leaf)}}}" for leaf in leaves)
        where = f" at {location.short}" if location else ""
        yield from call.refuse_call(f"not ({code})", "ArgumentValueError",
                                    f"the assumption `{escaped(shown)}`{where} does not hold: {values}")


def _spelled(call: Call, node: Node, leaf: Callable[[Node], str]) -> str:
    """An expression over the parameters and extents as Python, every operand that is no leaf in parentheses."""
    if node.op is ops.LET:
        return _spelled(call, node.operands[0], leaf)
    if node.op is ops.CONST:
        return literal(node.attrs["value"])
    if not node.op.operands:
        return leaf(node)
    template = _LOGIC.get(node.op, node.op.spelling) if node.dtype == "bool" else node.op.spelling
    if "." in template:
        raise NotSupportedError(f"{call.function.name}: T.assume with `{node.op.name}` cannot be checked on the host by this "
                                "version; assume a comparison of parameters and constants")
    told = [_spelled(call, operand, leaf) for operand in node.operands]
    return template.format(*(t if not _inner(o).op.operands else f"({t})" for t, o in zip(told, node.operands)))


def _inner(node: Node) -> Node:
    """What a named value stands for."""
    return _inner(node.operands[0]) if node.op is ops.LET else node


def _leaves(node: Node) -> Iterator[Node]:
    """The parameters and extents in an expression."""
    if not node.op.operands and node.op is not ops.CONST:
        yield node
    for operand in node.operands:
        yield from _leaves(operand)
