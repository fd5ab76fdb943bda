"""The short way: one more call on PyTorch tensors of a form that has passed every check.

A *form* is all that the checks of a call depend on, apart from addresses and data: shapes, strides, dtypes, devices, and the scalars
that decide the launch. `runtime.forms` keeps those that passed, each with its launch made ready. What is left to do is to see that
the form is the same, that addresses are aligned and memory is not shared, and that numbers fit. The short way refuses nothing:
what it does not take goes the long way, which says why. It costs about one microsecond beside the driver's launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codegen.host.call import Call, known_nodes, written_tuple
from codegen.host.memory import aligned_to
from codegen.lowered import DeviceHalf
from symbolic import integers as si
from tracer.ir import Buffer, Parameter

# By kind, the Python types whose numbers go into the parameter buffer as they are; Python's struct module refuses those out of range.
_CLASSES = {"bool": ("bool",), "int": ("int",), "uint": ("int",), "float": ("float", "int")}
_UNPACKED = ("bfloat16",)       # what struct does not know


@dataclass(frozen=True, slots=True)
class Ready:
    """What a form keeps for the source.

    Its `numbers` are the known values at the places `known`; then, for each of `pairs` of arrays (by their places among the arrays)
    that may not share memory, how far the first may begin before the second (negative), and behind it, in bytes. `fixed` are the
    places of the known values that the launch depends on, `tensors` those of the arrays in the call.
    """

    known: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    fixed: tuple[int, ...]
    tensors: tuple[int, ...]


def ready(half: DeviceHalf) -> Ready | None:
    """What forms of this kernel keep; None for a kernel without the short way.

    Those are kernels with tensor maps, with elements narrower than a byte, with arrays that must lie at an offset read from them,
    with an argument that nothing uses, with a bfloat16 scalar, or with assumptions on floats.
    """
    call = Call(half)
    return _ready(call) if _is_simple(call) else None


@dataclass(frozen=True, slots=True)
class ShortForm:
    """The short way as data, for `runtime/short.c`; kernels with tensor maps have it too.

    `count` arguments. `arrays`: (place in the call, alignment in bytes, 0); `pointers`: (array, place among the kernel's arguments, 0),
    `maps` likewise without the last; `scalars`: (place in the call, place among the kernel's arguments or -1, place in `fixed` or -1,
    dtype); `pairs` of arrays that may not share memory; `fixed`: places of the known values that the launch depends on.
    """

    count: int
    arrays: tuple[tuple[int, int, int], ...]
    pointers: tuple[tuple[int, int, int], ...]
    maps: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, int, int, str], ...]
    pairs: tuple[tuple[int, int], ...]
    fixed: tuple[int, ...]


def short_form(half: DeviceHalf) -> ShortForm | None:
    """The short way of a kernel as data; None for a kernel that has none, or whose arrays begin at an offset into their memory."""
    call = Call(half)
    if not _is_simple(call, maps=True) or any(form.offset.value for form in call.forms.values()):
        return None
    needs, known = _ready(call), known_nodes(half)
    place = {buffer: i for i, (_, buffer) in enumerate(call.arrays)}
    passed = {a.node: k for k, a in enumerate(half.arguments) if a.node is not None}
    scalars = [(call.parameters.index(p), passed.get(node, -1), needs.fixed.index(known.index(node)) if known.index(node) in needs.fixed else -1,
                p.dtype.name) for p, node in call.scalars]
    return ShortForm(
        len(call.parameters),
        tuple((call.parameters.index(p), aligned_to(call, buffer)[0], 0) for p, buffer in call.arrays),
        tuple((place[a.buffer], k, 0) for k, a in enumerate(half.arguments) if a.buffer is not None),
        tuple((place[buffer], k) for k, a in enumerate(half.arguments) if a.tensor_map is not None
              and (buffer := call.maps[a.tensor_map].buffer) is not None),
        tuple(scalars), needs.pairs, needs.fixed)


def _is_simple(call: Call, *, maps: bool = False) -> bool:
    return (bool(call.arrays) and (maps or not call.maps)
            and all(form.dtype.bits >= 8 for form in call.forms.values())
            and all(p.buffer is not None or p.node is not None for p in call.parameters)
            and all(p.dtype.name not in _UNPACKED for p, _ in call.scalars)
            and all(si.is_const(form.offset) for form in call.forms.values())
            and all(node.sym is not None and call.knows(node.sym) for node, _ in call.function.assumptions))


def _ready(call: Call) -> Ready:
    known = known_nodes(call.half)
    passed = {argument.node for argument in call.half.arguments}
    extents = tuple(i for i, node in enumerate(known) if node in passed and node in call.function.extents)
    place = {buffer: i for i, (_, buffer) in enumerate(call.arrays)}
    pairs = tuple((place[a], place[b]) for a, b in _pairs(call))
    deciding = {known.index(node) for p, node in call.scalars if node.sym is not None and _decides(call, p)}
    return Ready(extents, pairs, tuple(sorted(deciding)), tuple(call.parameters.index(p) for p, _ in call.arrays))


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
    if _is_simple(call):
        needs = _ready(call)
        pointers = {buffer: call.python.unique(f"{call.local[buffer]}_at") for _, buffer in call.arrays}
        yield from ("", "", f"def {name}(*arguments, stream=None):")
        for title, lines in (("the call", _of_the_call(call)), ("its form", _of_the_form(call, needs)),
                             ("addresses", _of_the_addresses(call, needs, pointers)), ("run", _run(call, pointers))):
            yield f"    # {title}"
            yield from (f"    {line}" for line in lines)
            yield ""


_BACK = ("    forms.append(form)", "    return False")


def _of_the_call(call: Call) -> Iterator[str]:
    yield f"if len(arguments) != {len(call.parameters)} or stream is not None:"
    yield "    return False"
    yield f"{', '.join(call.local[p] for p in call.parameters)}{',' * (len(call.parameters) == 1)} = arguments"
    for parameter, _ in call.scalars:
        yield f"if not ({_scalar(call, parameter)}):"
        yield "    return False"


def _of_the_form(call: Call, needs: Ready) -> Iterator[str]:
    """Take the form that was used last, or another one that these tensors have."""
    tensors = [call.local[call.parameters[i]] for i in needs.tensors]
    known = known_nodes(call.half)
    fixed = written_tuple([call.scalar_code(known[i]) for i in needs.fixed])
    yield from ("try:", "    form = forms.pop()", "except IndexError:", "    return False", "stream = current_stream(form.device)")
    same = f"form.stream == stream and form.same({', '.join(tensors)})" + f" and form.fixed == {fixed}" * bool(needs.fixed)
    yield f"if not ({same}):"
    yield f"    form = another(form, {written_tuple(tensors)}, {fixed}, stream)"
    yield from ("    if form is None:", "        return False")


def _of_the_addresses(call: Call, needs: Ready, pointers: Mapping[Buffer, str]) -> Iterator[str]:
    """Memory is there, where and as aligned as it must be, and not shared."""
    pairs, known = _pairs(call), known_nodes(call.half)
    room = [(call.python.unique(f"before_{call.local[b]}"), call.python.unique(f"behind_{call.local[b]}")) for _, b in pairs]
    numbers = [call.scalar_code(known[i]) for i in needs.known] + [name for names in room for name in names]
    if numbers:
        yield f"{', '.join(numbers)}{',' * (len(numbers) == 1)} = form.numbers"
    for parameter, buffer in call.arrays:
        yield f"{pointers[buffer]} = {call.local[parameter]}.data_ptr()"
    there = " and ".join(pointers.values())
    wrong = [f"not ({there})" if len(pointers) > 1 else f"not {there}", *_misplaced(call, pointers)]
    wrong += [f"{before} < {pointers[a]} - {pointers[b]} < {behind}" for (a, b), (before, behind) in zip(pairs, room)]
    yield f"if {' or '.join(wrong)}:"
    yield from _BACK


def _run(call: Call, pointers: Mapping[Buffer, str]) -> Iterator[str]:
    values = []
    for argument in call.half.arguments:
        if argument.buffer is not None:
            values.append(call.address(argument.buffer, pointers[argument.buffer]))
        else:
            assert argument.node is not None
            values.append(call.scalar_code(argument.node))
    pack = f"form.pack({', '.join(['form.memory', '0', *values])})"
    if call.scalars:
        yield from ("try:", f"    {pack}", "except (PackError, OverflowError):", *_BACK)
    else:
        yield pack
    yield from ("status = enqueue(form.config, form.function, form.pointers, 0)[0]", "forms.append(form)", "return status is SUCCESS")


def _scalar(call: Call, parameter: Parameter) -> str:
    """The condition under which a scalar may go into the parameter buffer as it came."""
    s = call.local[parameter]
    return " or ".join(f"type({s}) is {cls}" for cls in _CLASSES[parameter.dtype.kind])


def _misplaced(call: Call, pointers: Mapping[Buffer, str]) -> Iterator[str]:
    """Conditions under which an array lies where it may not: at another offset than asked, or not aligned."""
    together: dict[int, list[str]] = {}
    for p, buffer in call.arrays:
        bytes_, _ = aligned_to(call, buffer)
        if bytes_ > 1:
            together.setdefault(bytes_, []).append(call.address(buffer, pointers[buffer]))
        offset = call.forms[buffer].offset
        if offset.value:
            yield f"{call.local[p]}.storage_offset() != {offset.value}"
    for bytes_, addresses in together.items():
        told = " | ".join(a if a.isidentifier() else f"({a})" for a in addresses)
        yield f"({told}) % {bytes_}" if len(addresses) > 1 or not told.isidentifier() else f"{told} % {bytes_}"
