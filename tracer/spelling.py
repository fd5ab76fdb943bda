"""One node as the Python expression that records it: what `script()` prints and what error messages quote."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracer import operations as ops
from tracer.dtypes import literal_dtype
from tracer.ir import Buffer, Node

# Python's binding strength of the operators that rows spell; a call or a name binds tightest.
_PRECEDENCE = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6, "~": 7, "u-": 7}
_COMPARISON = 0
_ATOM = 8

Spell = Callable[[Node], tuple[str, int]]       # an operand's text and binding strength
Call = Callable[[Buffer], str]                  # a buffer's name


def _own_name(buffer: Buffer) -> str:
    return buffer.name


def spell(node: Node, operand: Spell, buffer: Call = _own_name) -> tuple[str, int]:
    """(text, binding strength) of `node`; `operand(child)` gives the same of each operand, `buffer(b)` the name of a buffer."""
    if node.op.accesses:
        return _ACCESSES.get(node.op, _atomic)(node, operand, buffer), _ATOM
    if "form" in node.attrs:
        return _instruction(node, operand), _ATOM
    special = _SPECIAL.get(node.op)
    if special is not None:
        return special(node, operand)
    if "{" not in node.op.spelling:
        return _call(node.op.spelling, node, operand), _ATOM
    return _operator(node, operand)


def _is_cell(node: Node) -> bool:
    return node.op is ops.LOAD and bool(node.attrs["buffer"].cell)


def parenthesised(pair: tuple[str, int], minimum: int) -> str:
    """The text, in parentheses where it binds more weakly than its place needs."""
    text, strength = pair
    return text if strength >= minimum else f"({text})"


def _operator(node: Node, operand: Spell) -> tuple[str, int]:
    template = node.op.spelling
    all_constant = all(o.op is ops.CONST for o in node.operands)

    def place(child: Node, minimum: int, bare: bool) -> str:
        """A literal stands bare only where Python leaves it to the other operand; elsewhere it says its type."""
        if child.op is ops.CONST and (all_constant or not bare):
            return typed_literal(child)
        return parenthesised(operand(child), minimum)

    def compared(child: Node, minimum: int, bare: bool) -> str:
        """With a mutable scalar on its right a comparison would be turned round by Python, so there both are read: `+x`."""
        text = place(child, minimum, bare)
        read_here = _is_cell(child) and operand(child)[1] == _ATOM      # a variable binds tighter still
        return f"+{text}" if read_here and _is_cell(node.operands[1]) else text

    if len(node.operands) == 1 and template[0] in "-~":
        strength = _PRECEDENCE["~"]
        return template.format(place(node.operands[0], strength, False)), strength
    if len(node.operands) == 2:
        sign = template[3:-3].strip()
        strength = _PRECEDENCE.get(sign, _COMPARISON)
        # Left-associative: the right operand must bind tighter; a comparison's operands too, on both sides.
        # A comparison with a literal on the left would be turned round by Python, so there the literal says its type.
        comparison = strength == _COMPARISON
        write = compared if comparison else place
        left = write(node.operands[0], strength + comparison, not comparison)
        right = write(node.operands[1], strength + 1, True)
        return f"{left} {sign} {right}", strength
    # Postfix and call forms: {0}.astype({dtype!r}), {0}[{index}], T.reinterpret({dtype!r}, {0})
    minimum = _ATOM if template.startswith("{0}") else 0
    words = {**node.attrs, "dtype": quoted(node.dtype)}
    return template.format(*(place(o, minimum, False) for o in node.operands), **words), _ATOM


def _call(name: str, node: Node, operand: Spell, extra: tuple[str, ...] = ()) -> str:
    return f"{name}({', '.join([*(operand(o)[0] for o in node.operands), *extra])})"


def quoted(name: object) -> str:
    """A name as a Python string, in double quotes as authors write it."""
    return f'"{name}"'


def literal(value: Any) -> str:
    """A Python literal that evaluates to `value`."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _const(node: Node, _: Spell) -> tuple[str, int]:
    value = node.attrs["value"]
    text = literal(value)
    if node.dtype is literal_dtype(value):
        return text, _ATOM if not text.startswith("-") else _PRECEDENCE["u-"]
    return typed_literal(node), _ATOM


def typed_literal(node: Node) -> str:
    """`T.float32(2.0)`: a constant that says its type."""
    return f"T.{node.dtype}({literal(node.attrs['value'])})"


def _subscript(coords: list[str]) -> str:
    return ", ".join(coords) if coords else "()"


def _load(node: Node, operand: Spell, name: Call) -> str:
    buffer = node.attrs["buffer"]
    if "cache" in node.attrs:
        return f"{CACHED_LOADS[node.attrs['cache']]}({pointer(node, operand, name)}, {quoted(node.dtype)})"
    if buffer.cell:
        return name(buffer)
    coords = [operand(o)[0] for o in node.operands]
    if node.dtype is buffer.dtype:
        return f"{name(buffer)}[{_subscript(coords)}]"
    return f"{name(buffer)}.vload([{', '.join(coords)}], dtype={quoted(node.dtype)})"


def pointer(node: Node, operand: Spell, name: Call) -> str:
    """The pointer to the element that an access names."""
    buffer = node.attrs["buffer"]
    if buffer.cell:
        return name(buffer) if node.attrs.get("register") else f"T.address_of({name(buffer)})"
    if node.attrs.get("data"):
        return f"{name(buffer)}.data"
    if node.attrs.get("register"):
        return f"{name(buffer)}[{_subscript([operand(o)[0] for o in node.operands])}]"
    return f"{name(buffer)}.ptr_to([{', '.join(operand(o)[0] for o in node.op.split(node.operands)[0])}])"


def _store(node: Node, operand: Spell, name: Call) -> str:
    """A store as a call; `script` writes the plain ones as assignments."""
    return f"{CACHED_STORES[node.attrs['cache']]}({pointer(node, operand, name)}, {operand(node.operands[-1])[0]})"


def _atomic(node: Node, operand: Spell, name: Call) -> str:
    values = [operand(o)[0] for o in node.op.split(node.operands)[1]]
    scope = node.attrs["scope"]
    extra = [] if scope == "device" else [f"scope={quoted(scope)}"]
    return f"{node.op.spelling}({', '.join([pointer(node, operand, name), *values, *extra])})"


def _instruction(node: Node, operand: Spell) -> str:
    """A call of `T.ptx` or `T.cuda`; a literal among the operands says its type where it would take another."""
    from tracer.intrinsics.ptx.chain import spelled
    return spelled(node, lambda o, taken: typed_literal(o) if o.op is ops.CONST and o.dtype is not taken else
                   literal(o.attrs["value"]) if o.op is ops.CONST else operand(o)[0])


def _shuffle(node: Node, operand: Spell) -> tuple[str, int]:
    width = node.attrs["width"]
    return _call(node.op.spelling, node, operand, () if width == 32 else (f"width={width}",)), _ATOM


def _func_call(node: Node, operand: Spell) -> tuple[str, int]:
    attrs = node.attrs
    arguments = [quoted(attrs["name"]), *(operand(o)[0] for o in node.operands), f"source_code={attrs['source_code']!r}"]
    if node.dtype is not None:
        arguments.append(f"return_type={quoted(node.dtype)}")
    return f"T.cuda.func_call({', '.join(arguments)})", _ATOM


def _leaf(node: Node, operand: Spell) -> tuple[str, int]:
    if node.op is ops.SCOPE_ID:
        return f"T.{node.attrs['kind']}", _ATOM
    if "axis" in node.attrs:
        return f"{node.op.source.split()[-1].lstrip('%')}.{'xyz'[node.attrs['axis']]}", _ATOM
    return node.name or node.op.name, _ATOM


def _let(node: Node, operand: Spell) -> tuple[str, int]:
    return f"T.let({operand(node.operands[0])[0]})", _ATOM


def _tensor_map(node: Node, operand: Spell) -> tuple[str, int]:
    """For messages; `script` writes a map in full."""
    return f"T.tensor_map({node.attrs['map'].buffer.name}, ...)", _ATOM


_LEAVES = (ops.SCALAR, ops.EXTENT, ops.THREAD_INDEX, ops.BLOCK_INDEX, ops.CLUSTER_INDEX, ops.CTA_IN_CLUSTER, ops.SCOPE_ID, ops.LOOP_VAR)

# How loads and stores with `attrs["cache"]` are called.
CACHED_LOADS = {hint: f"T.cuda.{'ldg' if hint == 'nc' else 'ld' + hint}" for hint in ("nc", "ca", "cg", "cs", "lu", "cv")}
CACHED_STORES = {hint: f"T.cuda.st{hint}" for hint in ("wb", "cg", "cs", "wt")}

_ACCESSES = {ops.LOAD: _load, ops.ADDRESS_OF: pointer, ops.STORE: _store}

_SPECIAL = {
    **dict.fromkeys(_LEAVES, _leaf),
    ops.CONST: _const, ops.FUNC_CALL: _func_call, ops.LET: _let, ops.TENSOR_MAP: _tensor_map,
    ops.SHFL: _shuffle, ops.SHFL_UP: _shuffle, ops.SHFL_DOWN: _shuffle, ops.SHFL_XOR: _shuffle,
}


def describe(node: Node, depth: int = 3) -> str:
    """A short expression for messages: names where the author gave them, `...` below `depth` levels."""

    def operand(child: Node, left: int) -> tuple[str, int]:
        if child.name is not None:
            return child.name, _ATOM
        if child.op is ops.CONST:
            return _const(child, lambda c: ("", _ATOM))
        if left == 0:
            return "...", _ATOM
        return spell(child, lambda c: operand(c, left - 1))

    if node.op in _LEAVES and node.name is not None:
        return node.name
    text = spell(node, lambda c: operand(c, depth))[0]
    return text if node.name is None else f"{node.name} = {text}"
