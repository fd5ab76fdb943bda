"""The algebra of tile layouts: tiles of tiles, sums, factors, slices, packing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from symbolic.facts import Facts
from symbolic.layout import digits
from symbolic.layout.axes import Axis, m
from symbolic.layout.digits import Shape
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter, Spec
from symbolic.layout.tile import TileLayout
from symbolic.layout.values import NOTHING_KNOWN, Value, divides, holds, lower, product, quotient, read, same, show, simple

Groups = list[list[Iter]]


def dimensions(shape: Sequence[Any]) -> Shape:
    return tuple(read(e, "an extent of shape") for e in shape)


def groups_of(layout: TileLayout, shape: Shape) -> Groups:
    """The iters of the canonical layout by dimension of `shape`."""
    grouped, seps = layout.canonicalize().group(shape)
    return [list(grouped.shard[lo:hi]) for lo, hi in zip(seps, seps[1:])]


def check_ranks(**shapes: Shape) -> None:
    """Raises LayoutError unless all shapes have one rank."""
    if len({len(s) for s in shapes.values()}) > 1:
        raise LayoutError(" and ".join(f"{name} {show(s)}" for name, s in shapes.items()) + " differ in rank")


def ratio(whole: Shape, part: Shape) -> Shape:
    """whole / part, dimension by dimension. Raises LayoutError where it is not a whole number."""
    check_ranks(whole=whole, part=part)
    for w, p in zip(whole, part):
        if not divides(p, w) or (holds(w < p) is True):
            raise LayoutError(f"{show(whole)} is no multiple of {show(part)}: {p} does not divide {w}")
    return tuple(quotient(w, p) for w, p in zip(whole, part))


def interleaved(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return list(chain.from_iterable(zip(a, b)))


def joined(left: Groups, right: Groups, like: TileLayout, replica: Sequence[Iter], offset: dict[Axis, Value], symbols: Any) -> TileLayout:
    """Groups interleaved by dimension, as one canonical layout."""
    shard = tuple(i for pair in zip(left, right) for g in pair for i in g)
    return TileLayout(Spec(shard, tuple(replica), tuple(offset.items()), symbols)).canonicalize()


def added(a: TileLayout, b: TileLayout) -> dict[Axis, Value]:
    total = a.offsets
    for where, v in b.offsets.items():
        total[where] = total.get(where, 0) + v
    return total


def scale_of(inner: TileLayout, where: Axis) -> Value:
    """What outer strides grow by along an axis: the inner span, where the inner layout moves along it at all."""
    core = inner.canonicalize()
    return core._span([where]) if any(i.axis is where for i in core.shard) else 1


# ---- tiles -------------------------------------------------------------------------------------------------------------

def tile(inner: TileLayout, outer: TileLayout, outer_shape: Sequence[Any], inner_shape: Sequence[Any]) -> TileLayout:
    """See `TileLayout.tile`."""
    outside, inside = dimensions(outer_shape), dimensions(inner_shape)
    check_ranks(outer_shape=outside, inner_shape=inside)
    scaled = [[Iter(i.extent, lower(i.stride * scale_of(inner, i.axis)), i.axis) for i in g] for g in groups_of(outer, outside)]
    return joined(scaled, groups_of(inner, inside), inner, (*inner.replica, *outer.replica), added(inner, outer),
                  {**inner._symbols, **outer._symbols})


def row_major(shape: Shape) -> TileLayout:
    return TileLayout(Spec(tuple(Iter(e, product(shape[k + 1:])) for k, e in enumerate(shape))))


def tile_to(inner: TileLayout, to_shape: Sequence[Any], current_shape: Sequence[Any]) -> TileLayout:
    """See `TileLayout.tile_to`."""
    counts = ratio(dimensions(to_shape), dimensions(current_shape))
    return tile(inner, row_major(counts), counts, current_shape)


def outer_of(inner: TileLayout, tiled: TileLayout, tiled_shape: Sequence[Any], inner_shape: Sequence[Any]) -> TileLayout:
    """See `TileLayout.is_tile_inner`."""
    whole, inside = dimensions(tiled_shape), dimensions(inner_shape)
    outside = ratio(whole, inside)
    parts = groups_of(tiled, tuple(interleaved(outside, inside)))
    replica, offset = remainder(tiled, inner)
    check_part(parts[1::2], groups_of(inner, inside), tiled, inner)
    descaled = []
    for g in parts[0::2]:
        for i in g:
            factor = scale_of(inner, i.axis)
            if not same(i.extent, 1) and not divides(factor, i.stride):
                raise LayoutError(f"{inner.notation()} is no inner tile of {tiled.notation()}: it spans {factor} along {i.axis}, "
                                  f"which does not divide stride {i.stride}")
        descaled.append([i if same(i.extent, 1) else Iter(i.extent, quotient(i.stride, scale_of(inner, i.axis)), i.axis) for i in g])
    return tiled.rebuilt(chain.from_iterable(descaled), replica, offset)


def inner_of(outer: TileLayout, tiled: TileLayout, tiled_shape: Sequence[Any], outer_shape: Sequence[Any]) -> TileLayout:
    """See `TileLayout.is_tile_outer`."""
    whole, outside = dimensions(tiled_shape), dimensions(outer_shape)
    inside = ratio(whole, outside)
    parts = groups_of(tiled, tuple(interleaved(outside, inside)))
    replica, offset = remainder(tiled, outer)
    inner = tiled.rebuilt(chain.from_iterable(parts[1::2]), replica, offset)
    scaled = [[Iter(i.extent, lower(i.stride * scale_of(inner, i.axis)), i.axis) for i in g] for g in groups_of(outer, outside)]
    check_part(parts[0::2], scaled, tiled, outer)
    return inner


def check_part(have: Groups, want: Groups, tiled: TileLayout, part: TileLayout) -> None:
    """Raises LayoutError unless both groups are the same maps, dimension by dimension."""
    for d, (a, b) in enumerate(zip(have, want)):
        if not _same_iters(a, b):
            raise LayoutError(f"{part.notation()} is no factor of {tiled.notation()}: dimension {d} has {a}, and needs {b}")


def _same_iters(a: list[Iter], b: list[Iter]) -> bool:
    x, y = (TileLayout(Spec(tuple(i for i in iters if not same(i.extent, 1)))).canonicalize().shard for iters in (a, b))
    return len(x) == len(y) and all(i.axis is j.axis and same(i.extent, j.extent) and same(i.stride, j.stride) for i, j in zip(x, y))


def remainder(total: TileLayout, part: TileLayout) -> tuple[list[Iter], dict[Axis, Value]]:
    """Replicas and offset of `total` that are not of `part`. Raises LayoutError when part has a replica that total has not."""
    replica = list(total.replica)
    for i in part.replica:
        if i not in replica:
            raise LayoutError(f"{part.notation()} is no part of {total.notation()}: replica {i} is missing there")
        replica.remove(i)
    offset = total.offsets
    for where, v in part.offsets.items():
        offset[where] = lower(offset.get(where, 0) - v)
    return replica, offset


# ---- sums --------------------------------------------------------------------------------------------------------------

def direct_sum(right: TileLayout, left: TileLayout, left_shape: Sequence[Any], right_shape: Sequence[Any]) -> TileLayout:
    """See `TileLayout.direct_sum`."""
    ls, rs = dimensions(left_shape), dimensions(right_shape)
    check_ranks(left_shape=ls, right_shape=rs)
    return joined(groups_of(left, ls), groups_of(right, rs), right, (*right.replica, *left.replica), added(right, left),
                  {**right._symbols, **left._symbols})


def other_summand(part: TileLayout, total: TileLayout, interleaved_shape: Sequence[Any], part_shape: Sequence[Any], own: int) -> TileLayout:
    """The other summand of `total`, where `part` is the left (own = 0) or the right one (own = 1)."""
    whole, shape = dimensions(interleaved_shape), dimensions(part_shape)
    if len(whole) != 2 * len(shape) or not all(same(a, b) for a, b in zip(whole[own::2], shape)):
        raise LayoutError(f"interleaved_shape {show(whole)} has not {show(shape)} at every second place from {own} on")
    parts = groups_of(total, whole)
    replica, offset = remainder(total, part)
    check_part(parts[own::2], groups_of(part, shape), total, part)
    return total.rebuilt(chain.from_iterable(parts[1 - own::2]), replica, offset)


def group_many(layout: TileLayout, shapes: Sequence[Sequence[Any]], facts: Facts | None) -> tuple[TileLayout, list[list[int]]]:
    """See `TileLayout.group_many`."""
    known = facts or NOTHING_KNOWN
    ends = [[product(dims[:k + 1]) for k in range(len(dims))] for dims in map(dimensions, shapes)]
    fine: list[Value] = []                     # ends of the common refinement; an end twice is a unit dimension
    places: list[list[int]] = [[] for _ in ends]
    at = [0] * len(ends)
    while any(k < len(e) for k, e in zip(at, ends)):
        heads = [e[k] for k, e in zip(at, ends) if k < len(e)]
        least = next((h for h in heads if all(divides(h, o, known) for o in heads)), None)
        if least is None or fine and not divides(fine[-1], least, known):
            raise LayoutError(f"{[show(dimensions(s)) for s in shapes]} have no common refinement: of {heads} none divides all")
        for n, e in enumerate(ends):
            if at[n] < len(e) and same(e[at[n]], least, known):
                places[n].append(len(fine))
                at[n] += 1
        fine.append(least)
    refined = tuple(quotient(b, a, known) for a, b in zip([1, *fine], fine))
    grouped, seps = layout.group(refined, facts)
    return grouped, [[0, *(seps[k + 1] for k in own)] for own in places]


# ---- parts -------------------------------------------------------------------------------------------------------------

def slice_layout(layout: TileLayout, shape: Sequence[Any], region: Sequence[tuple[Any, Any]], facts: Facts | None) -> TileLayout:
    """See `TileLayout.slice`."""
    dims = dimensions(shape)
    bounds = [(read(b, "a begin"), read(e, "an end")) for b, e in region]
    if len(bounds) != len(dims):
        raise LayoutError(f"region {region} has {len(bounds)} dimensions, shape {show(dims)} has {len(dims)}")
    known = facts or NOTHING_KNOWN
    digits.check_size(product(i.extent for i in layout.shard), dims, layout.notation(), known)
    shard: list[Iter] = []
    offset = layout.offsets
    for d, (g, (begin, end), extent) in enumerate(zip(groups_of(layout, dims), bounds, dims)):
        if holds(begin < 0, known) is True or holds(end > extent, known) is True or holds(end < begin, known) is True:
            raise LayoutError(f"[{begin}, {end}) is outside of dimension {d} of {show(dims)}")
        try:
            shard += _slice_iters(g, begin, simple(end - begin, known), known)
        except LayoutError as error:
            raise LayoutError(f"[{begin}, {end}) of dimension {d} of {layout.notation()} is no layout: {error}") from None
        for it, digit in digits.split(g, begin):
            offset[it.axis] = simple(offset.get(it.axis, 0) + digit * it.stride, known)
    return layout.rebuilt(shard, offset=offset)


def _slice_iters(iters: list[Iter], begin: Value, count: Value, facts: Facts) -> list[Iter]:
    """Iters for x -> iters(begin + x) - iters(begin) with 0 <= x < count."""
    *outer, last = iters
    if not outer:
        return [Iter(count, last.stride, last.axis)]
    if divides(last.extent, begin, facts) and divides(last.extent, count, facts):
        return [*_slice_iters(outer, quotient(begin, last.extent, facts), quotient(count, last.extent, facts), facts), last]
    start = simple(begin % last.extent, facts)
    first = simple(last.extent - start, facts)          # elements up to the next step of the outer iters
    if holds(count <= first, facts) is True:
        return [Iter(count, last.stride, last.axis)]
    row = quotient(begin, last.extent, facts)
    if same(count, 2 * first, facts) and holds(first <= last.extent, facts) is True:
        return [_step(outer, row, last, start), Iter(first, last.stride, last.axis)]
    if same(2 * start, last.extent, facts) and divides(last.extent, count, facts):
        # Half a row, whole rows, half a row: pairs of halves, each pair one step of the outer iter further.
        pairs = quotient(count, last.extent, facts)
        if len(outer) == 1 or holds(row % outer[-1].extent + pairs < outer[-1].extent, facts) is True:
            return [*_slice_iters(outer, row, pairs, facts), _step(outer, row, last, start), Iter(start, last.stride, last.axis)]
    raise LayoutError(f"it wraps around the iter {last} unevenly")


def _step(outer: list[Iter], row: Value, last: Iter, start: Value) -> Iter:
    """Two halves: from the digits (row, start) to (row + 1, 0), a step along one axis."""
    moved: dict[Axis, Value] = {}
    for (it, before), (_, after) in zip(digits.split(outer, row), digits.split(outer, row + 1)):
        moved[it.axis] = lower(moved.get(it.axis, 0) + (after - before) * it.stride)
    moved[last.axis] = lower(moved.get(last.axis, 0) - start * last.stride)
    steps = [(a, v) for a, v in moved.items() if not same(v, 0)]
    if len(steps) > 1:
        raise LayoutError(f"its halves differ along {len(steps)} axes")
    where, step = steps[0] if steps else (last.axis, 0)
    return Iter(2, step, where)


# ---- element size ------------------------------------------------------------------------------------------------------

def pack(layout: TileLayout, count: int) -> TileLayout:
    """See `TileLayout.pack`."""
    def refuse(why: str) -> LayoutError:
        return LayoutError(f"{layout.notation()} is not packed by {count}: {why}")

    if not layout.shard:
        raise refuse("it has no iters")
    *rest, last = layout.shard
    if not last.axis.is_memory or not same(last.stride, 1):
        raise refuse(f"its innermost iter {last} is not dense memory")
    if not divides(count, last.extent):
        raise refuse(f"{count} does not divide the innermost extent {last.extent}")

    def less(i: Iter) -> Iter:
        if i.axis is not last.axis:
            return i
        if not divides(count, i.stride):
            raise refuse(f"{count} does not divide the stride of {i}")
        return Iter(i.extent, quotient(i.stride, count), i.axis)

    offset = layout.offsets
    if last.axis in offset:
        if not divides(count, offset[last.axis]):
            raise refuse(f"{count} does not divide the offset {offset[last.axis]}")
        offset[last.axis] = quotient(offset[last.axis], count)
    return layout.rebuilt([*map(less, rest), Iter(quotient(last.extent, count), 1, last.axis)], map(less, layout.replica), offset)


def unpack(layout: TileLayout, count: int) -> TileLayout:
    """See `TileLayout.unpack`. The elements of a layout without `m` lie along its last memory axis."""
    where = m if m in layout.axes else next((a for a in reversed(layout.axes) if a.is_memory), m)

    def more(i: Iter) -> Iter:
        return i if i.axis is not where else Iter(i.extent, i.stride * count, where)

    offset = layout.offsets
    if where in offset:
        offset[where] = offset[where] * count
    return layout.rebuilt([*map(more, layout.shard), Iter(count, 1, where)], map(more, layout.replica), offset)

