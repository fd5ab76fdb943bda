"""The extents of a call: solved from the arrays' shapes, strides and offsets, and compared with every other one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codegen.host.call import Call
from codegen.host.names import escaped
from symbolic import integers as si
from symbolic.integers import Int
from symbolic.solve import solve
from tracer.errors import TraceError
from tracer.ir import Buffer, Node, Parameter

LONGEST = 2**63 - 1     # no array has a longer axis


def extents(call: Call) -> Iterator[str]:
    for parameter, buffer in call.arrays:
        a = call.local[buffer]
        for axis in _solved_strides(call, buffer):
            yield from call.refuse(f"not isinstance({a}.strides[{axis}], int)", "ArgumentValueError", parameter,
                                   f"{buffer.name}.strides[{axis}]: expected whole elements, got {{{a}.strides[{axis}]}}")
        if not si.is_const(call.forms[buffer].offset):
            yield from call.refuse(f"not isinstance({a}.offset, int)", "ArgumentValueError", parameter, f"{buffer.name}.elem_offset: "
                                   f"expected an array that tells where its storage starts, got one at {{{a}.offset}}")
    known = _equations(call)
    solution = solve([n.sym for n in call.function.extents if n.sym is not None], [(e, leaf) for e, leaf, _ in known])
    if solution.unsolved:
        unsolved = ", ".join(call.show(s) for s in solution.unsolved)
        raise TraceError(f"{call.function.name}: no argument determines the extent {unsolved}")
    places = {leaf: parameter for _, leaf, parameter in known}
    defining = {leaf for value in solution.values.values() for leaf in si.free_symbols(value)}
    for node in call.function.extents:
        assert node.sym is not None
        value = solution.values[node.sym]
        for divisor in _divisors(value):
            yield from call.refuse(f"{call.code(divisor)} == 0", "ArgumentValueError", _whose(divisor, places),
                                   f"{call.shown[node.sym]}: cannot be told from {_leaves_shown(call, value, places)}, because "
                                   f"{_leaves_shown(call, divisor, places)} gives a product with 0")
        yield f"{call.names[node.sym]} = {call.code(value)}"
        if value in places:
            call.origin[node.sym] = f" ({_leaf_shown(call, value, places[value])})"
    for entry, leaf, parameter in known:
        if si.substitute(entry, solution.values) is leaf or ".strides[" in leaf.name:
            continue     # true by the way in which the extents were found; strides are checked in a section of their own
        symbols = ", ".join(call.shown[s] for s in si.free_symbols(entry))
        expected = f"{escaped(call.show(entry))} for a whole {symbols}" if leaf in defining else call.computed(entry)
        yield from call.refuse(f"{leaf.name} != {call.code(entry)}", "ArgumentValueError", parameter,
                               f"{_leaf_shown(call, leaf, parameter)}: expected {expected}, got {{{leaf.name}}}")
    for node in call.function.extents:
        assert node.sym is not None
        yield from _extent_range(call, node, solution.values[node.sym], places)


def _equations(call: Call) -> list[tuple[Int, Int, Parameter]]:
    """What the arguments tell: an expression over the extents, the value that comes for it, and whose it is."""
    known = []
    for parameter, buffer in call.arrays:
        a, form = call.local[buffer], call.forms[buffer]
        known += [(entry, si.named(f"{a}.shape[{axis}]"), parameter) for axis, entry in enumerate(form.shape)]
        if not si.is_const(form.offset):
            known.append((form.offset, si.named(f"{a}.offset"), parameter))
    for parameter, buffer in call.arrays:
        for axis, step in _solved_strides(call, buffer).items():
            known.append((step, si.named(f"{call.local[buffer]}.strides[{axis}]"), parameter))
    return known


def _solved_strides(call: Call, buffer: Buffer) -> dict[int, Int]:
    """By axis, the strides from which extents can be told: those that a layout gives in terms of one."""
    if buffer.layout is None:
        return {}
    return {axis: step for axis, step in enumerate(call.forms[buffer].strides or ()) if not si.is_const(step)}


def _leaf_shown(call: Call, leaf: Int, parameter: Parameter) -> str:
    """`A.shape[0]` with the author's name for A."""
    return call.title(parameter) + leaf.name[leaf.name.index("."):]


def _leaves_shown(call: Call, value: Int, places: Mapping[Int, Parameter]) -> str:
    return " and ".join(_leaf_shown(call, leaf, places[leaf]) for leaf in si.free_symbols(value) if leaf in places)


def _extent_range(call: Call, node: Node, value: Int, places: Mapping[Int, Parameter]) -> Iterator[str]:
    """An extent is not negative, as lengths are not; one of more than its dtype holds takes 64-bit indices, if it is an int32."""
    assert node.sym is not None and node.dtype is not None
    n, parameter, most = call.names[node.sym], _whose(value, places), node.dtype.limits[1]
    from_shape = value in places and ".shape[" in value.name
    unlimited = node.dtype.name == "int32" or most >= LONGEST
    if from_shape and unlimited:
        return
    condition = f"{n} < 0" if unlimited else f"{n} > {most}" if from_shape else f"not 0 <= {n} <= {most}"
    expected = "of 0 or more" if unlimited else f"from 0 to {most} ({node.dtype})"
    yield from call.refuse(condition, "ArgumentValueError", parameter,
                           f"{call.shown[node.sym]}: expected an extent {expected}, got {{{n}}} from {_leaves_shown(call, value, places)}")


def _whose(value: Int, places: Mapping[Int, Parameter]) -> Parameter:
    """The parameter from which `value` is told first."""
    return next(places[leaf] for leaf in si.free_symbols(value) if leaf in places)


def _divisors(value: Int) -> Iterator[Int]:
    """What `value` divides by, apart from constants."""
    if value.op in (si.FLOORDIV, si.FLOORMOD, si.TRUNCDIV, si.TRUNCMOD) and not si.is_const(value.args[1]):
        yield value.args[1]
    for argument in value.args:
        yield from _divisors(argument)
