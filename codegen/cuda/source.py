"""The CUDA source of a kernel: headers, helpers, the author's device functions, the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from codegen.cuda import types
from codegen.cuda.helpers import Needs
from codegen.cuda.names import Scopes, escape
from codegen.cuda.statements import Statements
from codegen.lowered import DeviceHalf, KernelArgument
from codegen.schedule import schedule
from symbolic import integers as si
from tracer import instructions
from tracer import operations as ops
from tracer.ir import Location

_MIN_BLOCKS = "tirx.launch_bounds_min_blocks_per_sm"
_LINE_LENGTH = 110


@dataclass(frozen=True, slots=True)
class CudaSource:
    """`text`, whose line `k` (counted from 1) comes from the Python line `lines[k]`; `entry` names the kernel in it.

    `alignment` says for each argument by name to how many bytes its pointer must be aligned, where that is more than its element.
    """

    text: str
    lines: dict[int, Location]
    entry: str
    alignment: dict[str, int]


def emit(half: DeviceHalf, *, locations: bool = True) -> CudaSource:
    """`half` as CUDA C++ for nvcc and NVRTC, the same bytes every time. `locations` adds the Python lines as comments.

    Raises NotSupportedError for what the language has and this version cannot write, by name.
    """
    plan = schedule(half)
    needs = Needs()
    called = [n.attrs["name"] for n in half.body.walk() if n.op is ops.FUNC_CALL]
    entry = escape(half.name)
    scopes = Scopes([entry, *called])
    body = Statements(half, plan, needs, scopes, locations=locations)
    signature = _signature(half, entry, body)
    body.kernel()
    before = needs.preamble()
    for source in body.values.sources:
        before += ["", *source.strip("\n").split("\n")]
    if before:
        before = [*before, ""] if before[0] else [*before[1:], ""]
    head = [*before, *signature]
    lines = [*head, *(text for text, _ in body.lines), "}"]
    found = {len(head) + k: where for k, (_, where) in enumerate(body.lines, 1) if where is not None}
    if half.lowered.function.location is not None:
        found.update(dict.fromkeys(range(len(before) + 1, len(head) + 1), half.lowered.function.location))
    aligned = {a.name: n for a in half.arguments if a.buffer is not None
               if (n := body.alignment.get(a.buffer.storage, 0)) > a.buffer.dtype.alignment}
    return CudaSource("\n".join(lines) + "\n", dict(sorted(found.items())), entry, aligned)


def _signature(half: DeviceHalf, entry: str, body: Statements) -> list[str]:
    arguments = [_argument(a, body) for a in half.arguments]
    first = f"extern \"C\" __global__ void{_launch_bounds(half)}"
    line = f"{entry}({', '.join(arguments)}) {{"
    if len(line) <= _LINE_LENGTH:
        return [first, line]
    return [first, f"{entry}(", *(f"    {a}," for a in arguments[:-1]), f"    {arguments[-1]}) {{"]


def _argument(argument: KernelArgument, body: Statements) -> str:
    name = body.scopes.declare(argument.name)
    if argument.tensor_map is not None:
        assert argument.node is not None
        body.needs.helper("CUtensorMap")
        body.values.variables[argument.node] = f"&{name}"      # instructions take its address
        return f"const __grid_constant__ CUtensorMap {name}"
    if argument.buffer is None:
        assert argument.node is not None and argument.node.dtype is not None
        body.values.variables[argument.node] = name
        return f"{types.c_type(argument.node.dtype, body.needs)} {name}"
    storage = argument.buffer.storage
    body.values.memory[storage] = name
    const = "const " if argument.read_only else ""
    return f"{const}{types.memory_type(storage.dtype, body.needs)}* __restrict__ {name}"


def _launch_bounds(half: DeviceHalf) -> str:
    block = half.lowered.function.launch.block
    if not all(si.is_const(extent) for extent in block):
        return ""
    threads = str(prod(extent.value for extent in block))
    blocks = half.lowered.function.attrs.get(_MIN_BLOCKS)
    if not blocks and any(node.op is instructions.SETMAXNREG for node in half.body.walk()):
        blocks = 1          # ptxas ignores setmaxnreg where it does not know how many registers a thread starts with
    return f" __launch_bounds__({threads}{f', {blocks}' if blocks else ''})"
