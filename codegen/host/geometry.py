"""What a call launches: its grid, blocks and clusters, whether 32-bit indices do, the limits, and the launch itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.host.call import Call, index_symbols, known_nodes, written_tuple
from codegen.host.names import escaped
from codegen.tensor_maps import tensor_form
from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.addressing import in_bytes, span
from tracer.buffers import DYNAMIC_SHARED_LIMIT
from tracer.ir import Buffer
from tracer.launch import MAX_BLOCK, MAX_CLUSTER, MAX_GRID, MAX_THREADS

INDEX_LIMIT = 2**31 - 1     # the greatest int32: an element's offset beyond it takes 64-bit indices


def geometry(call: Call) -> Iterator[str]:
    """The numbers of the launch."""
    launch = call.function.launch
    yield f"grid = {_three(call, launch.grid)}"
    yield f"block = {_three(call, launch.block)}"
    yield f"shared = {call.code(launch.dynamic_shared_bytes) if launch.dynamic_shared_bytes is not None else 0}"
    if launch.cluster is not None:
        yield f"cluster = {_three(call, launch.cluster)}"
    if launch.preferred_cluster is not None:
        yield f"preferred = {_three(call, launch.preferred_cluster)}"


def _three(call: Call, sizes: Sequence[Int]) -> str:
    return call.tuple_of([*sizes, *[si.const(1)] * (3 - len(sizes))])


def index_ranges(call: Call) -> Iterator[str]:
    """Whether the kernel needs 64-bit indices, and if so, whether those do."""
    conditions = _needs_64_bits(call)
    if conditions:
        yield f"wide = {' or '.join(conditions)}"
        yield "if wide:"
        yield f"    check_wide_indices({call.tuple_of(index_symbols(call.half))}, grid, block, SIGNATURE)"


def _needs_64_bits(call: Call) -> list[str]:
    conditions = [f"{call.names[node.sym]} > {INDEX_LIMIT}" for node in call.function.extents
                  if node.sym is not None and node.dtype is not None and node.dtype.name == "int32"]
    sizes = [call.forms[buffer].size for _, buffer in call.arrays if buffer in call.pointed]
    conditions += [f"{call.code(size)} > {INDEX_LIMIT}" for size in dict.fromkeys(sizes) if not si.is_const(size) and size not in call.names]
    if call.function.assumed_exact:
        conditions.append(f"not indices_fit({call.tuple_of(index_symbols(call.half))}, grid, block)")
    return conditions


def views(call: Call) -> Iterator[str]:
    """Whether a view ends within its memory, where the trace could not tell. Views made under a condition are not asked here."""
    facts = call.half.lowered.facts[call.function.device]
    for node in call.function.device.nodes:
        if node.op is not ops.DECL or node.attrs["buffer"].window is not None:
            continue
        view, storage = node.attrs["buffer"], node.attrs["buffer"].storage
        end = in_bytes(view.elem_offset + span(view.shape, view.layout), view.dtype)
        room = in_bytes(storage.size, storage.dtype)
        if call.knows(end) and call.knows(room) and facts.prove(si.le(end, room)) is not True:
            where = f" at {node.location.short}" if node.location else ""
            yield from call.refuse_call(f"{call.code(end)} > {call.code(room)}", "LaunchError",
                                        f"{view.name}{escaped(where)}: ends {{{call.code(end)}}} bytes into {storage.name}, which has "
                                        f"{{{call.code(room)}}}, with {call.values(end, room)}")


def limits(call: Call) -> Iterator[str]:
    """What no device goes beyond, as far as the trace could not tell."""
    launch = call.function.launch
    for name, sizes, most, least in (("grid", launch.grid, MAX_GRID, 0), ("block", launch.block, MAX_BLOCK, 1)):
        checks = [f"not {least} <= {name}[{axis}] <= {most[axis]}" for axis, size in enumerate(sizes) if not si.is_const(size)]
        if checks and name == "block":
            checks.append(f"block[0]*block[1]*block[2] > {MAX_THREADS}")
        if checks:
            told = f"{most}" if name == "grid" else f"{most} and {MAX_THREADS} threads"
            yield from call.refuse_call(" or ".join(checks), "LaunchError",
                                        f"{name}: expected from {least} to {told}, got {{{name}}} with {call.values(*sizes)}")
    yield from _clusters(call)
    dynamic = launch.dynamic_shared_bytes
    if dynamic is not None and not si.is_const(dynamic):
        yield from call.refuse_call(f"not 0 <= shared <= {DYNAMIC_SHARED_LIMIT}", "LaunchError",
                                    f"dynamic shared memory: expected from 0 to {DYNAMIC_SHARED_LIMIT} bytes, got {{shared}} "
                                    f"with {call.values(dynamic)}")
    if any(not si.is_const(size) or size.value == 0 for size in launch.grid):
        yield "if 0 in grid:"
        yield "    return None     # no block, nothing to run"


def _clusters(call: Call) -> Iterator[str]:
    """A grid is made of whole clusters, those preferred are made of whole smaller ones (CUlaunchAttributeID in cuda.h)."""
    launch = call.function.launch
    for name, sizes in (("cluster", launch.cluster), ("preferred", launch.preferred_cluster)):
        if sizes is not None and not all(map(si.is_const, sizes)):
            yield from call.refuse_call(f"min({name}) < 1 or {name}[0]*{name}[1]*{name}[2] > {MAX_CLUSTER}", "LaunchError",
                                        f"{_WORDS[name]}: expected 1 to {MAX_CLUSTER} blocks, got {{{name}}} with {call.values(*sizes)}")
    pairs = [("grid", launch.grid, "cluster", launch.cluster), ("grid", launch.grid, "preferred", launch.preferred_cluster),
             ("preferred", launch.preferred_cluster, "cluster", launch.cluster)]
    for whole, sizes, part, parts in pairs:
        if sizes is None or parts is None:
            continue
        checks = [f"{whole}[{axis}] % {part}[{axis}]" for axis in range(3) if not _divides(_axis(parts, axis), _axis(sizes, axis))]
        if checks:
            given = call.values(*sizes, *parts)
            yield from call.refuse_call(" or ".join(checks), "LaunchError",
                                        f"{_WORDS[whole]}: expected whole multiples of the {_WORDS[part]} {{{part}}}, got {{{whole}}}"
                                        + f" with {given}" * bool(given))


_WORDS = {"grid": "grid", "cluster": "cluster", "preferred": "preferred cluster"}


def _axis(sizes: Sequence[Int], axis: int) -> Int:
    return sizes[axis] if axis < len(sizes) else si.const(1)


def _divides(part: Int, whole: Int) -> bool:
    return si.floormod(whole, part) is si.const(0)


def run(call: Call) -> Iterator[str]:
    """The launch."""
    launch = call.function.launch
    named = [("cluster", launch.cluster is not None), ("preferred", launch.preferred_cluster is not None), ("wide", bool(_needs_64_bits(call)))]
    shape = ", ".join(["grid, block, shared", *(f"{name}={name}" for name, there in named if there)])
    yield f"return launch(device, LaunchShape({shape}), ("
    for argument in call.half.arguments:
        if argument.buffer is not None:
            yield f"    {_stored(call, argument.buffer)},"
        elif argument.tensor_map is not None:
            buffer, form = call.maps[argument.tensor_map].buffer, tensor_form(argument.tensor_map)
            assert buffer is not None
            yield f"    ({_stored(call, buffer)}, {call.code(form.first)}, {call.tuple_of(form.dims)}, {call.tuple_of(form.strides)}),"
        else:
            assert argument.node is not None
            yield f"    {call.scalar_code(argument.node)},"
    yield f"), {written_tuple([call.scalar_code(node) for node in known_nodes(call.half)])})"


def _stored(call: Call, buffer: Buffer) -> str:
    """An array of a parameter and its storage."""
    form = call.forms[buffer]
    size = call.code(form.size) if form.is_dense or si.is_const(form.size) else f"max({call.code(form.size)}, 0)"
    return f"({call.local[buffer]}, {call.address(buffer, f'{call.local[buffer]}.pointer')}, {call.code(form.offset)}, {size})"
