"""Scopes: what the thread axes of a layout address together, by chaining "this unit within that scope"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symbolic.layout.axes import MEMORY, THREADS_IN, Axis, axis_between
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter

if TYPE_CHECKING:
    from symbolic.layout.tile import TileLayout


def get_scope(layout: TileLayout) -> tuple[str, str] | None:
    """(unit, scope) of the whole chain, None without thread or device axes. Raises LayoutError for a gap or a contradiction."""
    within: dict[str, str] = {}
    for a in layout.axes:
        if a.kind != MEMORY and within.setdefault(a.unit, a.scope) != a.scope:
            raise LayoutError(f"the axes of {layout.notation()} contradict: {a} counts each {a.unit} within a {a.scope}, "
                              f"another axis within a {within[a.unit]}")
    if not within:
        return None
    starts = [unit for unit in within if unit not in within.values()]
    if len(starts) != 1:
        raise LayoutError(f"the axes of {layout.notation()} leave a gap: "
                          + " and ".join(f"{unit} within {scope}" for unit, scope in within.items()) + " do not chain")
    end = starts[0]
    while end in within:
        end = within[end]
    return starts[0], end


def widen_threads(layout: TileLayout) -> TileLayout:
    """See `TileLayout.widen_threads`."""
    scope = get_scope(layout)
    threads = [a for a in layout.axes if a.kind != MEMORY]
    if scope is None or len(threads) == 1:
        return layout
    unit, whole = scope
    target = axis_between(unit, whole)
    if target is None or any(a.unit not in THREADS_IN for a in threads):
        raise LayoutError(f"no axis counts each {unit} within a {whole}, which {layout.notation()} does with "
                          + " and ".join(map(str, threads)))

    def factor(a: Axis) -> int:
        return THREADS_IN[a.unit] // THREADS_IN[unit]

    def renamed(i: Iter) -> Iter:
        return i if i.axis.is_memory else Iter(i.extent, i.stride * factor(i.axis), target)

    offset = layout.storage().offsets
    for a, v in layout.offsets.items():
        if not a.is_memory:
            offset[target] = offset.get(target, 0) + v * factor(a)
    return layout.rebuilt(map(renamed, layout.shard), map(renamed, layout.replica), offset)
