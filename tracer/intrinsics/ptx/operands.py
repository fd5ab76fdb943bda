"""From what the author passes to an instruction to the nodes of its operands: registers, addresses, values, immediates."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracer import ir
from tracer import operations as ops
from tracer.buffers import HANDLE, Buffer
from tracer.dtypes import DType, dtype
from tracer.errors import DTypeError
from tracer.instructions import WRITTEN_ROLES
from tracer.intrinsics.operands import check_writable
from tracer.intrinsics.ptx.grammar import Argument
from tracer.intrinsics.ptx.matching import Match
from tracer.intrinsics.ptx.types import DTYPES
from tracer.ir import Node
from tracer.recorder import Recorder
from tracer.values import Cell, Value, as_node

SHARED_SPACES = ("shared", "shared::cta", "shared::cluster")
_SCOPES = {"global": ("global",), **dict.fromkeys(SHARED_SPACES, ("shared", "shared.dyn")), "": ("global", "shared", "shared.dyn")}


def fits(argument: Argument, value: Any, found: Match) -> bool:
    """Whether `value` can be this operand, by its kind alone; nothing is recorded."""
    if argument.immediate:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    node = value._node if isinstance(value, Value) and not isinstance(value, Cell) else None
    pointer = node is not None and node.op in (ops.ADDRESS_OF, ops.TENSOR_MAP)
    if argument.is_register:
        named = value.buffer if isinstance(value, Cell) else node.attrs["buffer"] if node is not None and _is_register(node) else None
        return named is not None and named.scope == "local" and named.dtype.name in DTYPES[argument.type_in(found.modifiers)]
    if argument.is_memory:
        number = isinstance(value, Value) and value.dtype.name in _address_dtypes(argument.space_in(found.modifiers))
        return pointer or number or isinstance(value, Cell)
    allowed = DTYPES[argument.type_in(found.modifiers)]
    if isinstance(value, Value):
        return not pointer and value.dtype.name in allowed
    return literal_in(value, argument.type_in(found.modifiers)) is not None


def literal_in(value: Any, wanted: str) -> DType | None:
    """The dtype that a Python or NumPy number takes in a register of type `wanted`; None where it can be none."""
    allowed = DTYPES[wanted]
    if isinstance(value, np.generic):
        return dtype(value.dtype) if dtype(value.dtype).name in allowed else None
    kinds = ("bool",) if isinstance(value, bool) else ("uint", "int") if isinstance(value, int) else ("float",) if isinstance(value, float) else ()
    found = [dtype(name) for name in allowed if dtype(name).kind in kinds and dtype(name).lanes == 1]
    if not found and isinstance(value, int):        # a whole number for a float
        found = [dtype(name) for name in allowed if dtype(name).is_float and dtype(name).lanes == 1]
    return found[0] if found else None


def _address_dtypes(space: str) -> tuple[str, ...]:
    return ("uint32", "int32") if space in SHARED_SPACES else ("uint64", "int64")


def convert(argument: Argument, value: Any, found: Match, recorder: Recorder) -> Node:
    """The node of one operand that is no immediate. Raises `TraceError` with what was expected and what to write."""
    what = f"`{found.instruction}`: operand {argument.name!r}"
    if argument.is_register:
        return _register(value, argument.type_in(found.modifiers), what, recorder)
    if argument.is_memory:
        return _address(argument, value, found, what, recorder)
    return _value(value, argument.type_in(found.modifiers), what, recorder)


def immediate(argument: Argument, value: Any, found: Match, recorder: Recorder) -> int:
    """An integer that becomes part of the instruction."""
    what = f"`{found.instruction}`: {argument.name!r} is part of the instruction"
    if isinstance(value, Value) and value._constant() is None or not isinstance(value, (int, np.integer, Value)) or isinstance(value, bool):
        recorder.fail(f"{what}: write a Python int, not {value!r}")
    number = operator.index(value)
    allowed = found.form.limits.get(argument.name)
    if allowed is not None and number not in allowed:
        recorder.fail(f"{what}: {number} is not {_listed(allowed)}")
    return number


def _listed(allowed: Any) -> str:
    if isinstance(allowed, range):
        return f"one of {allowed.start} to {allowed[-1]}{f' in steps of {allowed.step}' if allowed.step > 1 else ''}"
    return f"one of {', '.join(map(str, allowed))}"


# ---- registers

def _register(value: Any, wanted: str, what: str, recorder: Recorder) -> Node:
    if isinstance(value, Cell) and value.buffer.scope == "local":
        value._usable()
        node = recorder.record(ops.ADDRESS_OF, (), HANDLE, {"buffer": value.buffer, "register": True})
    else:
        named = value.read() if isinstance(value, Value) and not isinstance(value, Cell) else None
        if named is None or not _is_register(named):
            recorder.fail(f"{what} is a register that the instruction writes; pass an element of a local buffer, r[0] of r = T.alloc_local(...), or "
                          f"a local mutable scalar, not {_shown(value)}")
        node = _in_place_of(named, recorder) if named.op is ops.LOAD else named
    _check_dtype(node.attrs["buffer"].dtype, wanted, what, node.attrs["buffer"].name, recorder)
    return node


def _is_register(node: Node) -> bool:
    """True for an element of a thread's own memory, loaded or pointed to."""
    if node.op not in (ops.LOAD, ops.ADDRESS_OF) or node.attrs.get("data"):
        return False
    buffer: ir.Buffer = node.attrs["buffer"]
    return buffer.scope == "local" and (node.op is ops.ADDRESS_OF or node.dtype is buffer.dtype)


def _in_place_of(load: Node, recorder: Recorder) -> Node:
    """A pointer to the element that `load` reads, standing right before it; the load goes when the trace ends, if nothing uses it."""
    region = load.parent
    assert region is not None
    if not recorder.is_open(region):
        recorder.fail("a register is used after the If, loop or While in which it was named has closed; name it again", load)
    pointer = Node(ops.ADDRESS_OF, load.operands, HANDLE, {"buffer": load.attrs["buffer"], "register": True}, (), load.location, load.name,
                   parent=region)
    position = next(i for i in range(len(region.nodes) - 1, -1, -1) if region.nodes[i] is load)
    region.nodes.insert(position, pointer)
    recorder.named_registers.append((load, pointer))
    return pointer


def _check_dtype(found: DType, wanted: str, what: str, name: str, recorder: Recorder) -> None:
    if found.name not in DTYPES[wanted]:
        recorder.fail(f"{what} is of type {wanted}: {', '.join(DTYPES[wanted])}; {name!r} holds {found}", kind=DTypeError)


# ---- addresses

def _address(argument: Argument, value: Any, found: Match, what: str, recorder: Recorder) -> Node:
    space = argument.space_in(found.modifiers)
    where = f"{space} memory" if space else "global or shared memory"
    if isinstance(value, Cell) and value.buffer.scope in _SCOPES[space]:
        value._usable()
        node = recorder.record(ops.ADDRESS_OF, (), HANDLE, {"buffer": value.buffer})
    elif isinstance(value, Value):
        node = as_node(value, None, recorder)
    else:
        node = None
    if node is not None and node.op is ops.TENSOR_MAP and argument.role == "tensormap":
        axes = len(node.attrs["map"].box)
        if found.modifiers.get("dim", axes) != axes:
            recorder.fail(f"{what} has {axes} axes; write .{axes}d and one coordinate for each, innermost first")
        return node
    if node is not None and node.op is ops.ADDRESS_OF:
        _check_pointer(argument, node.attrs["buffer"], space, where, what, recorder)
        if argument.role in WRITTEN_ROLES:
            check_writable(node, found.instruction, recorder)
        return node
    dtypes = _address_dtypes(space)
    if argument.role == "tensormap":
        recorder.fail(f"{what} is a tensor map, made by T.tensor_map(...), not {_shown(value)}")
    if node is None or node.dtype is None or node.dtype.name not in dtypes:
        recorder.fail(f"{what} is an address in {where}: a pointer, A.ptr_to([i]) or T.address_of(x), or an integer of type {dtypes[0]}; "
                      f"not {_shown(value)}", kind=DTypeError)
    return node


def _check_pointer(argument: Argument, buffer: ir.Buffer, space: str, where: str, what: str, recorder: Recorder) -> None:
    if buffer.scope == "local":
        recorder.fail(f"{what} is an address in {where}; {buffer.name!r} is each thread's own registers, which have none")
    if buffer.scope not in _SCOPES[space]:
        recorder.fail(f"{what} is an address in {where}; {buffer.name!r} is in {buffer.scope} memory")
    if argument.role == "barrier" and not (buffer.dtype.is_integer and buffer.dtype.bits == 64 and buffer.dtype.lanes == 1):
        recorder.fail(f"{what} is an mbarrier, which is one uint64; {buffer.name!r} holds {buffer.dtype}", kind=DTypeError)


# ---- values

def _value(value: Any, wanted: str, what: str, recorder: Recorder) -> Node:
    allowed = DTYPES[wanted]
    if isinstance(value, (bool, int, float)):
        taken = literal_in(value, wanted)
        if taken is None:
            recorder.fail(f"{what} is of type {wanted}: {', '.join(allowed)}; not {value!r}", kind=DTypeError)
        return as_node(value, taken, recorder)
    if isinstance(value, Buffer):
        recorder.fail(f"{what} is of type {wanted}; index the buffer {value.decl.name!r}")
    node = as_node(value, dtype(allowed[0]), recorder)
    if node.dtype is None or node.dtype.name not in allowed:
        recorder.fail(f"{what} is of type {wanted}: {', '.join(allowed)}; not {node.dtype}. Write .astype({allowed[0]!r}) if the conversion is meant",
                      node, kind=DTypeError)
    return node


def _shown(value: Any) -> str:
    if isinstance(value, Buffer):
        return f"the buffer {value.decl.name!r}"
    return f"{value!r}"
