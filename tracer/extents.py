"""Extents as authors write them (ints, names, values, SymPy expressions) as exact integers over the function's symbols."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from symbolic import integers as si
from symbolic.integers import Int
from symbolic.layout.values import is_sympy
from symbolic.text import text
from tracer import operations as ops
from tracer.addressing import with_symbols
from tracer.errors import DTypeError
from tracer.recorder import Recorder
from tracer.values import Value, as_node, maximum, minimum, wrap


def extent(entry: Any, recorder: Recorder, what: str = "an extent") -> Int:
    """`entry` as an exact integer: an int, a name of a symbolic extent, an integer value, or a SymPy expression."""
    if isinstance(entry, str):
        if not entry.isidentifier():
            recorder.fail(f"{what} is the text {entry!r}; a string names one symbol, such as 'n' (write a SymPy expression or a T.int32() "
                          "value for a formula)")
        node = recorder.extent(entry)
    elif isinstance(entry, (bool, np.bool_, float)):
        recorder.fail(f"{what} is {entry!r}; it must be an integer")
    elif isinstance(entry, (int, np.integer)):
        return si.const(int(entry))
    elif is_sympy(entry):
        return over_extents(entry, recorder)
    elif isinstance(entry, Value):
        node = as_node(entry, None, recorder)
    else:
        recorder.fail(f"{what} is {entry!r} (a {type(entry).__name__}); write an int, a name such as 'n', a T.int32() value or a SymPy expression")
    if node.dtype is None or not node.dtype.is_integer or node.dtype.lanes != 1 or node.sym is None:
        recorder.fail(f"{what} is a {node.dtype} value; it must be an integer", node, kind=DTypeError)
    return node.sym


def extents(entries: Any, recorder: Recorder, what: str) -> tuple[Int, ...]:
    """A shape. A single extent may stand without its tuple; every one must be able to be 0 or more."""
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        entries = (entries,)
    shape = tuple(extent(entry, recorder, f"extent {axis} of {what}") for axis, entry in enumerate(entries))
    for axis, value in enumerate(shape):
        if recorder.known.prove(si.ge(value, si.const(0))) is False:
            recorder.fail(f"extent {axis} of {what} is {symbolic_text(value, recorder)}, which is negative")
    return shape


def symbolic_text(value: Int, recorder: Recorder) -> str:
    """`value` with the author's names."""
    function = recorder.function
    named = [*function.atoms.items(), *((node.sym, node) for node in function.scope_ids)]
    return text(value, {symbol: node.name for symbol, node in named if symbol is not None and node.name})


def over_extents(expression: Any, recorder: Recorder) -> Int:
    """A SymPy expression over symbols, whatever their assumptions, as an integer over extents; equal names are equal extents."""
    from symbolic.sympy_bridge import from_sympy  # which imports SymPy: half a second, for those who use it
    try:
        value = from_sympy(expression)
    except (TypeError, ValueError) as error:
        recorder.fail(f"the SymPy expression {expression} is not an integer expression: {error}")
    extents_of = {symbol: recorder.extent(symbol.name).sym for symbol in si.free_symbols(value)}
    return si.substitute(value, {symbol: known for symbol, known in extents_of.items() if known is not None})


def over_function(layout: Any, recorder: Recorder) -> Any:
    """A layout whose symbols, SymPy's or ours by name, are the function's extents."""
    def known(value: Int) -> Int:
        free = [symbol for symbol in si.free_symbols(value) if symbol not in recorder.function.atoms]
        found = {symbol: recorder.extent(symbol.name).sym for symbol in free}
        return si.substitute(value, {symbol: extent for symbol, extent in found.items() if extent is not None})

    return with_symbols(layout, known)


def value_of(entry: Int, recorder: Recorder) -> Value | int:
    """An integer over atoms as the author sees it: a Python int, or a value (recorded where it is a formula)."""
    if si.is_const(entry):
        return entry.value
    declared = [node for node in recorder.function.scope_ids if node.sym is entry]      # the author's name: a warp is a thread's number // 32
    if declared:
        return wrap(declared[0], recorder)
    if entry in recorder.function.atoms:
        node = recorder.function.atoms[entry]
        return wrap(node, recorder) if node.op is not ops.THREAD_INDEX else thread_of_lanes(recorder) or wrap(node, recorder)
    operands = [value_of(operand, recorder) for operand in entry.args]
    if entry.op == si.SUM:
        terms = [operand * factor if factor != 1 else operand for operand, factor in zip(operands, entry.coefs)]
        total = reduce(operator.add, terms)
        return total + entry.value if entry.value else total
    if entry.op not in _OPERATORS:
        recorder.fail(f"the expression {symbolic_text(entry, recorder)} cannot be used as a value; write it with T.* functions")
    return reduce(_OPERATORS[entry.op], operands)


# The number of a thread in its block, as the ids that may be declared make it up.
_THREADS = ({"warp_id": 32, "lane_id": 1}, {"warpgroup_id": 128, "thread_id_in_wg": 1}, {"warpgroup_id": 128, "warp_id_in_wg": 32, "lane_id": 1})


def thread_of_lanes(recorder: Recorder) -> Value | None:
    """The number of the present thread in its block, from its warp and lane; None where these are not declared."""
    ids = {node.attrs["kind"]: node for node in recorder.function.scope_ids}
    for factors in _THREADS:
        if factors.keys() <= ids.keys():
            number: Value = reduce(operator.add, [wrap(ids[kind], recorder) * factor if factor != 1 else wrap(ids[kind], recorder)
                                                  for kind, factor in factors.items()])
            return number
    return None


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    si.PRODUCT: operator.mul, si.FLOORDIV: operator.floordiv, si.FLOORMOD: operator.mod, si.MIN: minimum, si.MAX: maximum,
}
