"""The short way: one more call on PyTorch tensors of a form that has passed every check.

A *form* is all that the checks of a call depend on, apart from addresses and data: shapes, strides, dtypes, devices, and the scalars
that decide the launch. `runtime.forms` keeps those that passed, each with its launch made ready. What is left to do is to see that
the form is the same, that addresses are aligned and memory is not shared, and that numbers fit. The short way refuses nothing:
what it does not take goes the long way, which says why. It costs about one microsecond beside the driver's launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.host.call import Call, known_nodes, written_tuple
from codegen.host.memory import aligned_to
from codegen.lowered import DeviceHalf
from symbolic import integers as si
from tracer.ir import Buffer, Parameter

# The scalars that Python's struct module packs, each with the Python types that it takes as they are.
_CLASSES = {"bool": ("bool",), "int": ("int",), "uint": ("int",), "float": ("float", "int")}
_UNPACKED = ("bfloat16",)
_GREATEST = {"float16": 65504.0, "float32": float.fromhex("0x1.fffffep+127"), "float64": float.fromhex("0x1.fffffffffffffp+1023")}


@dataclass(frozen=True, slots=True)
class Ready:
    """What a form keeps for the source: `numbers`, the known values at these places and then the bytes of these arrays (counted among
    the parameters that are arrays); `fixed`, the known values that the launch depends on; `tensors`, where the arrays stand in the call.
    """

    known: tuple[int, ...]
    arrays: tuple[int, ...]
    fixed: tuple[int, ...]
    tensors: tuple[int, ...]


def ready(half: DeviceHalf) -> Ready | None:
    """What forms of this kernel keep; None for a kernel without the short way.

    Those are kernels with tensor maps, with elements narrower than a byte, with arrays that must lie at an offset read from them,
    with an argument that nothing uses, with a bfloat16 scalar, or with assumptions on floats.
    """
    call = Call(half)
    return _ready(call) if _is_simple(call) else None


def _is_simple(call: Call) -> bool:
    return (bool(call.arrays) and not call.maps
            and all(form.dtype.bits >= 8 for form in call.forms.values())
            and all(p.buffer is not None or p.node is not None for p in call.parameters)
            and all(p.dtype.name not in _UNPACKED for p, _ in call.scalars)
            and all(si.is_const(form.offset) for form in call.forms.values())
            and all(node.sym is not None and call.knows(node.sym) for node, _ in call.function.assumptions))


def _ready(call: Call) -> Ready:
    known = known_nodes(call.half)
    passed = {argument.node for argument in call.half.arguments}
    extents = tuple(i for i, node in enumerate(known) if node in passed and node in call.function.extents)
    shared = {buffer for pair in _pairs(call) for buffer in pair}
    arrays = tuple(i for i, (_, buffer) in enumerate(call.arrays) if buffer in shared)
    deciding = {known.index(node) for p, node in call.scalars if node.sym is not None and _decides(call, p)}
    return Ready(extents, arrays, tuple(sorted(deciding)), tuple(call.parameters.index(p) for p, _ in call.arrays))


def _decides(call: Call, parameter: Parameter) -> bool:
    """Whether more than the kernel itself depends on a scalar. Index arithmetic is taken to depend on all of them."""
    assert parameter.node is not None and parameter.node.sym is not None
    launch = call.function.launch
    sizes = [*launch.grid, *launch.block, *(launch.cluster or ()), *(launch.preferred_cluster or ())]
    sizes += [launch.dynamic_shared_bytes] if launch.dynamic_shared_bytes is not None else []
    sizes += [node.sym for node, _ in call.function.assumptions if node.sym is not None]
    for form in call.forms.values():
        sizes += [*form.shape, *(form.strides or ()), *form.compact, form.reach]
    views = any(node.op.name == "decl" for node in call.function.device.nodes)
    return bool(call.function.assumed_exact) or views or any(parameter.node.sym in si.free_symbols(size) for size in sizes)


def _pairs(call: Call) -> list[tuple[Buffer, Buffer]]:
    """The buffers that may not share memory, as `memory.overlaps` asks."""
    used = [b for _, b in call.arrays if b in call.passed]
    return [(a, b) for i, a in enumerate(used) for b in used[i + 1:] if a in call.written or b in call.written]


def function(call: Call, name: str) -> Iterator[str]:
    """The lines of the second function; none for a kernel without the short way."""
    if not _is_simple(call):
        return
    needs = _ready(call)
    tensors = [call.local[call.parameters[i]] for i in needs.tensors]
    pointers = {buffer: call.python.unique(f"{call.local[buffer]}_at") for _, buffer in call.arrays}
    spans = {call.arrays[i][1]: call.python.unique(f"{call.local[call.arrays[i][1]]}_bytes") for i in needs.arrays}
    known = known_nodes(call.half)
    numbers = [call.scalar_code(known[i]) for i in needs.known] + list(spans.values())
    fixed = written_tuple([call.scalar_code(known[i]) for i in needs.fixed])
    yield from ("", "", f"def {name}(*arguments):")
    yield "    # the call"
    yield f"    if len(arguments) != {len(call.parameters)}:"
    yield "        return False"
    yield f"    {', '.join(call.local[p] for p in call.parameters)}{',' * (len(call.parameters) == 1)} = arguments"
    for p, _ in call.scalars:
        yield f"    if not ({' and '.join(_scalar(call, p))}):"
        yield "        return False"
    yield from ("", "    # its form", "    try:", "        form = forms.pop()", "    except IndexError:", "        return False")
    same = f"form.same({', '.join(tensors)})"
    yield f"    if not {f'({same} and form.fixed == {fixed})' if needs.fixed else same}:"
    yield f"        form = another(form, {written_tuple(tensors)}, {fixed})"
    yield "        if form is None:"
    yield "            return False"
    if numbers:
        yield f"    {', '.join(numbers)}{',' * (len(numbers) == 1)} = form.numbers"
    yield from ("", "    # addresses")
    for p, buffer in call.arrays:
        yield f"    {pointers[buffer]} = {call.local[p]}.data_ptr()"
    yield f"    if not {_in_order(call, pointers, spans)}:"
    yield from ("        forms.append(form)", "        return False")
    yield from ("", "    # run", "    stream = current_stream(form.device)", "    if stream != form.stream:", "        form.turn_to(stream)")
    values = []
    for argument in call.half.arguments:
        if argument.buffer is not None:
            values.append(call.address(argument.buffer, pointers[argument.buffer]))
        else:
            assert argument.node is not None
            values.append(call.scalar_code(argument.node))
    yield f"    form.pack(form.memory, 0{''.join(f', {value}' for value in values)})"
    yield from ("    status = enqueue(form.config, form.function, form.pointers, 0)[0]", "    forms.append(form)", "    return status is SUCCESS", "")


def _scalar(call: Call, parameter: Parameter) -> Iterator[str]:
    """Conditions under which a scalar goes into the parameter buffer as it came."""
    s, kind = call.local[parameter], parameter.dtype
    classes = [f"{s}.__class__ is {cls}" for cls in _CLASSES[kind.kind]]
    yield classes[0] if len(classes) == 1 else f"({' or '.join(classes)})"
    if kind.kind == "float":
        yield f"{-_GREATEST[kind.name]!r} <= {s} <= {_GREATEST[kind.name]!r}"
    elif kind.kind != "bool":
        yield f"{kind.limits[0]} <= {s} <= {kind.limits[1]}"


def _in_order(call: Call, pointers: dict[Buffer, str], spans: dict[Buffer, str]) -> str:
    """That memory is there, aligned, at the asked offset, and not shared."""
    there = [pointers[buffer] for _, buffer in call.arrays]
    wrong = []
    for p, buffer in call.arrays:
        bytes_, _ = aligned_to(call, buffer)
        address = call.address(buffer, pointers[buffer])
        if bytes_ > 1:
            wrong.append(f"{address} % {bytes_}" if address == pointers[buffer] else f"({address}) % {bytes_}")
        offset = call.forms[buffer].offset
        if offset.value:
            wrong.append(f"{call.local[p]}.storage_offset() != {offset.value}")
    wrong += [f"-{spans[a]} < {pointers[a]} - {pointers[b]} < {spans[b]}" for a, b in _pairs(call)]
    return f"({' and '.join(there)})" if not wrong else f"({' and '.join(there)} and not ({' or '.join(wrong)}))"
