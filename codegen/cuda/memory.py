"""How loads and addresses are written. Stores and allocations are statements: see `statements`."""

from __future__ import annotations

from codegen.cuda import fragments as fr
from codegen.cuda import types
from codegen.cuda.fragments import PRIMARY, Fragment
from codegen.cuda.templates import Site, template
from codegen.packets import is_half_bytes, moves_whole
from tracer import operations as ops

# CUDA C++ Programming Guide, "Load Functions Using Cache Hints" and "Store Functions Using Cache Hints".
CACHED_LOADS = {hint: f"__ld{'g' if hint == 'nc' else hint}" for hint in ("nc", "ca", "cg", "cs", "lu", "cv")}
CACHED_STORES = {hint: f"__st{hint}" for hint in ("wb", "cg", "cs", "wt")}


def _load(s: Site) -> Fragment:
    buffer = s.node.attrs["buffer"]
    if "cache" in s.node.attrs:
        return _cached(s, CACHED_LOADS[s.node.attrs["cache"]])
    if s.dtype is buffer.dtype:
        return _half(s) if is_half_bytes(s.node) else s.printer.element(s.node, buffer.dtype, const=True)
    if moves_whole(s.node, s.printer.lowered):
        return s.printer.packet(s.node, s.dtype, const=True)
    if is_half_bytes(s.node):
        return Fragment(types.build([_half(s, k) for k in range(s.dtype.lanes)], s.dtype, s.needs), PRIMARY)
    pointer = s.printer.pointer(s.node, buffer.dtype, const=True).within(PRIMARY)
    lanes = [Fragment(f"{pointer}[{s.printer.index(s.node, k).text}]", PRIMARY) for k in range(s.dtype.lanes)]
    return Fragment(types.build(lanes, s.dtype, s.needs), PRIMARY)


def _cached(s: Site, function: str) -> Fragment:
    """A load through `function`: of one element, of an aligned vector, or of a vector lane by lane."""
    buffer = s.node.attrs["buffer"]
    if s.dtype is buffer.dtype:
        return fr.call(function, fr.prefix("&", s.printer.element(s.node, buffer.dtype, const=True)))
    if moves_whole(s.node, s.printer.lowered):
        return fr.call(function, s.printer.packet_pointer(s.node, s.dtype, const=True))
    pointer = s.printer.pointer(s.node, buffer.dtype, const=True).within(PRIMARY)
    lanes = [fr.call(function, Fragment(f"&{pointer}[{s.printer.index(s.node, k).text}]", fr.UNARY)) for k in range(s.dtype.lanes)]
    return Fragment(types.build(lanes, s.dtype, s.needs), PRIMARY)


def _half(s: Site, lane: int = 0) -> Fragment:
    """One of two elements that share a byte."""
    types.c_type(s.dtype.scalar, s.needs)
    s.needs.helper("float4_load")
    return fr.call("float4_load", s.printer.pointer(s.node, s.node.attrs["buffer"].dtype, const=True), s.printer.index(s.node, lane))


def _address_of(s: Site) -> Fragment:
    buffer = s.node.attrs["buffer"]
    if is_half_bytes(s.node):
        pointer, index = s.printer.pointer(s.node, buffer.dtype), s.printer.byte_index(s.node)
        return pointer if index.text == "0" else fr.prefix("&", Fragment(f"{pointer.within(PRIMARY)}[{index.text}]", PRIMARY))
    if s.printer.index(s.node).text == "0":
        return s.printer.pointer(s.node, buffer.dtype)
    return fr.prefix("&", s.printer.element(s.node, buffer.dtype))


def _lane(s: Site) -> Fragment:
    return s.printer.write(s.node.operands[0], s.node.attrs["index"])


def _if_then_else(s: Site) -> Fragment:
    """Both branches folded into expressions: C evaluates, and so loads, only the one chosen."""
    then, otherwise = (r.result for r in s.node.regions)
    assert then is not None and otherwise is not None
    return fr.ternary(s.operand(0), *s.printer.write_pair(s.node.op, then, otherwise))


template(ops.LOAD, _load)
template(ops.ADDRESS_OF, _address_of)
template(ops.LANE, _lane)
template(ops.IF_THEN_ELSE, _if_then_else)
