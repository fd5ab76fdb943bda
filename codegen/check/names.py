"""How the checks speak of values: the author's names, and ranges in words."""

from __future__ import annotations

from codegen.addresses import atom_names
from codegen.lowered import FlatAccess, Lowered
from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.text import text
from tracer import operations as ops
from tracer.ir import Node

_KINDS = {ops.LOAD: "load", ops.STORE: "store", ops.ADDRESS_OF: "address"}


def names_of(lowered: Lowered) -> dict[Int, str]:
    """Every atom's name, hardware indices by what the author calls them."""
    return {**{symbol: node.name for symbol, node in lowered.function.atoms.items() if node.name}, **atom_names(lowered)}


def access_text(access: FlatAccess, names: dict[Int, str]) -> str:
    """ "store of B[i, j]". """
    kind = _KINDS.get(access.node.op, "atomic")
    coords = ", ".join(text(c, names) for c in access.coords)
    return f"{kind} of {access.buffer.name}" + (f"[{coords}]" if coords else "")


def span_text(e: Int, facts: Facts) -> str:
    """ "8 to 71", as much as is known. """
    low, high = facts.bounds(e)
    if low is None and high is None:
        return "anything"
    return f"{low} or more" if high is None else f"{high} or less" if low is None else f"{low} to {high}" if low != high else str(low)


def range_text(e: Int, facts: Facts, names: dict[Int, str]) -> str:
    """ "i + 8, which is 8 to 71". """
    shown, span = text(e, names), span_text(e, facts)
    return shown if shown == span else f"{shown}, which is {span}"


def line_of(node: Node) -> str:
    """The number of the line that made `node`."""
    return str(node.location.line) if node.location else "?"
