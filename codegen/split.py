"""The two halves of a function: what the host does before the launch, and the kernel with its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codegen.addresses import lower, public_int
from codegen.lowered import DeviceHalf, KernelArgument, Lowered
from codegen.verify import verify
from symbolic import integers as si
from symbolic.integers import Int
from tracer import instructions
from tracer import operations as ops
from tracer.ir import Buffer, Extents, Function, Launch, Node, Region
from tracer.launch import parameter_names
from tracer.operations import Effect
from tracer.script import Printer
from tracer.spelling import quoted


def device_half(function: Function) -> DeviceHalf:
    """Verify and lower `function`, and give its kernel the arguments that it needs."""
    verify(function)
    lowered = lower(function)
    body = Region([*_host_values(function), *function.device.nodes])
    lowered.facts[body] = lowered.facts[function.device]
    return DeviceHalf(f"{function.name}_kernel", lowered, body, tuple(_arguments(lowered, body)))


def _host_values(function: Function) -> list[Node]:
    """Host nodes that the device uses, directly or not: they are computed anew at the start of the kernel. Tensor maps are arguments."""
    host = dict.fromkeys(node for node in function.host.nodes if node.op is not ops.TENSOR_MAP)
    needed: set[Node] = set()
    pending = [o for node in function.device.walk() for o in (*node.operands, *(r.result for r in node.regions if r.result is not None))]
    while pending:
        node = pending.pop()
        if node in host and node not in needed:
            needed.add(node)
            pending.extend(node.operands)
    return [node for node in host if node in needed]


def _arguments(lowered: Lowered, body: Region) -> Iterator[KernelArgument]:
    """Pointers in parameter order, tensor maps as declared, then scalars and extents in order of first appearance in the kernel."""
    function = lowered.function
    used, written = _touched(body)
    for parameter in function.parameters:
        buffer = parameter.buffer
        if buffer is not None and buffer.storage in used:
            yield KernelArgument(f"{buffer.name}_ptr", None, buffer, buffer.storage not in written, parameter.location)
    yield from _maps(function, body)
    seen: dict[Node, None] = {}
    for node in body.walk():
        for value in _values_of(node, lowered):
            if value.op in (ops.SCALAR, ops.EXTENT):
                seen.setdefault(value)
    for node in seen:
        yield KernelArgument(node.name or node.op.name, node, None, True, node.location)


def _maps(function: Function, body: Region) -> Iterator[KernelArgument]:
    """The tensor maps that the kernel uses, as they were declared."""
    used, written = set(), set()
    for node in body.walk():
        maps = [o for o in node.operands if o.op is ops.TENSOR_MAP]
        used.update(maps)
        if node.op in _WRITES_THROUGH_A_MAP:
            written.update(maps)
    for node in function.host.nodes:
        if node in used:
            name = node.name or f"{node.attrs['map'].buffer.name}_map"
            yield KernelArgument(name, node, None, node not in written, node.location)


_WRITES_THROUGH_A_MAP = frozenset({instructions.TENSOR_STORE, instructions.TENSOR_REDUCE})


def _touched(body: Region) -> tuple[set[Any], set[Any]]:
    """The storages that the kernel mentions, and those that it may write."""
    used, written = set(), set()
    read_only = {pointer for pointer, may_write in _pointers(body).items() if not may_write}
    for node in body.walk():
        buffer: Buffer | None = node.attrs.get("buffer")
        if buffer is None:
            continue
        used.add(buffer.storage)
        # A pointer that goes into a call may be written through; an instruction says what it does.
        if node.op.effect & Effect.WRITE or (node.op is ops.ADDRESS_OF and node not in read_only):
            written.add(buffer.storage)
    return used, written


def _pointers(body: Region) -> dict[Node, bool]:
    """The pointers that something uses, and whether it may write there."""
    found: dict[Node, bool] = {}
    for node in body.walk():
        if instructions.is_instruction(node.op):
            uses = [(operand, role in instructions.WRITTEN_ROLES or role == "address") for role, operand in instructions.roles(node)]
        else:
            uses = [(operand, True) for operand in node.operands]
        for operand, writes in uses:
            if operand.op is ops.ADDRESS_OF:
                found[operand] = found.get(operand, False) or writes
    return found


def _values_of(node: Node, lowered: Lowered) -> Iterator[Node]:
    """The leaves that computing `node` reads: through its emitted index and integer form, or else its operands."""
    expressions: list[Int] = []
    if node in lowered.accesses:
        expressions += lowered.accesses[node].written
    if node in lowered.integers:
        expressions.append(lowered.integers[node])
    for expression in expressions:
        for symbol in si.free_symbols(expression):
            yield lowered.atoms[symbol]
    yield from node.operands
    for operand in node.operands:
        if operand in lowered.integers:
            yield from (lowered.atoms[s] for s in si.free_symbols(lowered.integers[operand]))


# ---------------------------------------------------------------------- what users see

@dataclass(frozen=True)
class PublicLaunch:
    """The launch with ints or SymPy expressions. `cluster` and `preferred_cluster` are None where not asked for."""

    grid: Extents
    block: Extents
    cluster: Extents | None
    preferred_cluster: Extents | None
    dynamic_shared_bytes: Any


def public_launch(function: Function) -> PublicLaunch:
    """`kernel.launch`."""
    launch: Launch = function.launch
    names = {symbol: node.name or symbol.name for symbol, node in function.atoms.items()}

    def shown(sizes: Any) -> Extents | None:
        return None if sizes is None else Extents(public_int(size, names) for size in sizes)

    grid, block = shown(launch.grid), shown(launch.block)
    assert grid is not None and block is not None
    dynamic = launch.dynamic_shared_bytes
    return PublicLaunch(grid, block, shown(launch.cluster), shown(launch.preferred_cluster),
                        0 if dynamic is None else public_int(dynamic, names))


@dataclass(frozen=True)
class Half:
    """One half as text, with its attributes."""

    name: str
    text: str
    attrs: dict[str, Any]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Split:
    """Host and device apart; each prints."""

    host: Half
    device: Half

    def __str__(self) -> str:
        return f"{self.host}\n{self.device}"


def split(function: Function, half: DeviceHalf) -> Split:
    """The recorded halves as Python: the kernel, and the host function that binds arguments and launches it."""
    return Split(Half(function.name, _host_text(function, half), {}), Half(half.name, _device_text(function, half), {
        **function.attrs, "tirx.kernel_launch_params": parameter_names(function)}))


def _host_text(function: Function, half: DeviceHalf) -> str:
    printer = Printer(function)
    printer.write(f"def {function.name}({', '.join(map(printer.parameter, function.parameters))}):")
    printer.depth = 1
    printer.host()
    passed = [f"{printer.buffer(a.buffer)}.data" for a in half.arguments if a.buffer is not None]
    passed += [printer.name(a.node) for a in half.arguments if a.node is not None]
    launch = function.launch
    groups = [launch.cluster, launch.preferred_cluster, launch.grid if launch.grid_asked else None, launch.block]
    sizes = [printer.integer(size) for group in groups if group for size in group]
    if launch.dynamic_shared_bytes is not None:
        sizes.append(printer.integer(launch.dynamic_shared_bytes))
    printer.write(f"T.call_packed({', '.join([quoted(half.name), *passed, *sizes])})")
    return "\n".join(printer.lines) + "\n"


def _device_text(function: Function, half: DeviceHalf) -> str:
    printer = Printer(function)
    parameters = []
    for argument in half.arguments:
        if argument.buffer is not None:
            parameters.append(f"{printer.buffer(argument.buffer)}_ptr: T.handle({quoted(argument.buffer.dtype)})")
        elif argument.node is not None:
            parameters.append(f"{printer.name(argument.node)}: T.{argument.node.dtype}")
    printer.write(f"def {half.name}({', '.join(parameters)}):")
    printer.depth = 1
    printer.device_head()
    printer.region(half.body)
    return "\n".join(printer.lines) + "\n"
