"""Where the elements of a call's arrays lie: strides, storage, tensor maps, alignment, and memory that is shared."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.arrays import ArrayForm
from codegen.host.call import Call
from codegen.host.names import escaped
from codegen.packets import instructed, is_packet, moved, moves_whole
from codegen.tensor_maps import requirements
from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.ir import Buffer
from tracer.tensor_maps import UNIT


def strides(call: Call) -> Iterator[str]:
    for parameter, buffer in call.arrays:
        form = call.forms[buffer]
        if form.shape:
            told = _dense_strides if form.is_dense else _placed_strides
            condition, problem = told(call, form, call.local[buffer])
            yield from call.refuse(condition, "ArgumentValueError", parameter, f"{buffer.name}.strides: expected {problem}")


def _dense_strides(call: Call, form: ArrayForm, a: str) -> tuple[str, str]:
    return (f"{_differ(call, form.compact, a)}", f"{_told(call, form.compact)} elements (compact, row-major), got {{{a}.strides}}; "
            "pass a contiguous copy")


def _placed_strides(call: Call, form: ArrayForm, a: str) -> tuple[str, str]:
    """An array that lies as the layout says, or a compact one that holds all it reaches."""
    needs = f"the layout needs {call.amount(form.reach)} elements, there are {{{a}.span}}"
    compact = _differ(call, form.compact, a)
    if form.fits is not True:
        compact = f"({compact} or {call.code(form.reach)} > {call.code(form.count)})"
    if form.strides is None:
        return (f"not {a}.empty and {compact}", f"{_told(call, form.compact)} elements (compact, row-major), whose memory "
                f"{escaped(repr(form.layout))} divides up, got {{{a}.strides}}; {needs}")
    condition = _differ(call, form.strides, a)
    if form.fits is False:
        return condition, f"{_told(call, form.strides)} elements, got {{{a}.strides}}; {needs}"
    return (f"{condition} and {compact}", f"{_told(call, form.strides)} elements, or {_told(call, form.compact)} for a compact array whose "
            f"memory the layout divides up, got {{{a}.strides}}; {needs}")


def _differ(call: Call, strides: tuple[Int, ...], a: str) -> str:
    wanted = call.tuple_of(strides)
    return f"{a}.strides != {wanted} and strides_differ({a}, {wanted})"


def _told(call: Call, strides: tuple[Int, ...]) -> str:
    """For a message: the numbers."""
    wanted = call.tuple_of(strides)
    return wanted if all(map(si.is_const, strides)) else f"{{{wanted}}}"


def storage(call: Call) -> Iterator[str]:
    for parameter, buffer in call.arrays:
        a = call.local[buffer]
        yield from call.refuse(f"{a}.pointer == 0 and not {a}.empty", "ArgumentValueError", parameter,
                               f"{buffer.name}.data: expected memory, got a null pointer")
        form = call.forms[buffer]
        if si.is_const(form.offset) and form.offset.value:     # a symbolic one is among the extents
            offset = form.offset.value
            yield from call.refuse(f"{a}.offset != {offset} and not {a}.empty", "ArgumentValueError", parameter,
                                   f"{buffer.name}.elem_offset: expected an array whose first element lies {offset} elements "
                                   f"into its storage, got one at {{{a}.offset}}")


def tensor_maps(call: Call) -> Iterator[str]:
    """What the driver asks of an array that a map describes, as far as the trace could not tell."""
    yield from _required(call, of_launch=False)


def described(call: Call) -> Iterator[str]:
    """What it asks, furthermore, where there are blocks."""
    yield from _required(call, of_launch=True)


def _required(call: Call, of_launch: bool) -> Iterator[str]:
    facts = call.half.lowered.facts[call.function.host]
    told = set()
    for tensor_map, parameter in call.maps.items():
        for needed in requirements(tensor_map, facts):
            if needed.of_launch == of_launch and (needed.told, needed.wanted) not in told:
                told.add((needed.told, needed.wanted))
                yield from call.refuse(f"not ({call.code(needed.relation)})", "ArgumentValueError", parameter,
                                       f"{escaped(needed.told)}: expected {needed.wanted}, got {{{call.code(needed.value)}}}")


def alignment(call: Call) -> Iterator[str]:
    for parameter, buffer in call.arrays:
        bytes_, why = aligned_to(call, buffer)
        address = call.address(buffer, f"{call.local[buffer]}.pointer")
        address = address if address.endswith(".pointer") else f"({address})"
        if bytes_ > 1:
            yield from call.refuse(f"{address} % {bytes_}", "ArgumentValueError", parameter,
                                   f"{buffer.name}.data: expected an address that is a multiple of {bytes_} ({escaped(why)}), "
                                   f"got {{{address}:#x}}, {{{address} % {bytes_}}} past one")


def aligned_to(call: Call, buffer: Buffer) -> tuple[int, str]:
    """How many bytes the address of a parameter's storage must be a multiple of, and what asks for it."""
    wanted = [(buffer.dtype.alignment, str(buffer.dtype)), (buffer.storage.align, f"align={buffer.storage.align}")]
    for node, access in call.half.lowered.accesses.items():
        if access.buffer.storage is not buffer.storage:
            continue
        where = f" at {node.location.short}" if node.location else ""
        wanted.append((access.buffer.dtype.alignment, f"{access.buffer.dtype} elements{where}"))
        if node.op is not ops.ADDRESS_OF and is_packet(node) and moves_whole(node, call.half.lowered):
            wanted.append((moved(node).alignment, f"the {moved(node)} {node.op.name}{where}"))
    wanted += [(bytes_, why) for storage, bytes_, why in instructed(call.half) if storage is buffer.storage]
    wanted += [(UNIT, "a tensor map") for tensor_map in call.maps if tensor_map.buffer.storage is buffer.storage]
    return max(wanted, key=lambda pair: pair[0])


def overlaps(call: Call) -> Iterator[str]:
    written = call.written
    used = [(p, b) for p, b in call.arrays if b in call.passed]
    for parameter, buffer in used:
        if buffer in written:
            yield from call.refuse(f"{call.local[buffer]}.read_only", "ArgumentValueError", parameter,
                                   f"{buffer.name}: expected a writable array, which the kernel writes, got a read-only one")
    for position, (_, first) in enumerate(used):
        for parameter, second in used[position + 1:]:
            if first in written or second in written:
                whose = first.name if first in written else second.name
                yield from call.refuse(f"overlap({call.local[first]}, {call.local[second]})", "ArgumentValueError", parameter,
                                       f"{second.name}: expected memory of its own, because the kernel writes {whose}, "
                                       f"got an array that overlaps {first.name}")
