"""The shapes of arrays that a call is to make, as a function of those that it is given."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.host.call import Call, written_tuple
from codegen.host.names import Names
from codegen.lowered import DeviceHalf
from symbolic import integers as si
from symbolic.solve import solve
from tracer.errors import ArgumentValueError


def shapes_source(half: DeviceHalf, outputs: Sequence[str]) -> str:
    """`def scale_shapes(A, s)`: from every argument but `outputs`, in their order, the shapes of those, as tuples.

    It reads `A.shape` alone, so lengths may be symbols of their own, as PyTorch's are. Raises `ArgumentValueError` for an output
    that is no array of the kernel, and for a shape that the other arguments do not determine.
    """
    call = Call(half)
    made = {p.name: b for p, b in call.arrays if p.name in outputs or b.name in outputs}
    by_name = {name: b for b in made.values() for name in (b.name, *(p.name for p, q in call.arrays if q is b))}
    for name in outputs:
        if name not in by_name:
            raise ArgumentValueError(f"{call.function.name}: {name!r} is no array of `{call.signature()}`")
    given = [p for p in call.parameters if p.buffer is None or p.buffer not in made.values()]
    equations = [(entry, si.named(f"{call.local[p]}.shape[{axis}]")) for p in given if p.buffer is not None
                 for axis, entry in enumerate(call.forms[p.buffer].shape)]
    needed = {symbol for name in outputs for size in call.forms[by_name[name]].shape for symbol in si.free_symbols(size)}
    extents = [node.sym for node in call.function.extents if node.sym is not None and node.sym in needed]
    solution = solve(extents, equations)
    if solution.unsolved:
        missing = ", ".join(call.show(symbol) for symbol in solution.unsolved)
        raise ArgumentValueError(f"{call.function.name}: the shape of {' and '.join(outputs)} depends on {missing}, which no other argument "
                                 "determines; pass it as an argument and name another output")
    lines = [f"def {shapes_name(half)}({', '.join(call.local[p] for p in given)}):"]
    lines += [f"    {call.names[symbol]} = {call.code(solution.values[symbol])}" for symbol in extents]
    lines.append(f"    return {written_tuple([call.tuple_of(call.forms[by_name[name]].shape) for name in outputs])}")
    return "\n".join(lines) + "\n"


def shapes_name(half: DeviceHalf) -> str:
    """The name of the function that `shapes_source` defines."""
    return f"{Names().unique(half.lowered.function.name)}_shapes"
