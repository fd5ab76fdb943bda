"""The other direction: from places back to elements; and the proofs that go with it.

Digits are independent, and each moves along one axis only: a layout is injective exactly when it is along each axis, and its
image is the product of the images along the axes. Along one axis the question is about sums of bounded multiples of strides,
which is decided by nesting where strides are nested, else by listing all sums: a proof either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.layout import digits
from symbolic.layout.axes import Axis, axis, m
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter, Spec
from symbolic.layout.swizzle import Swizzle
from symbolic.layout.tile import TileLayout, is_array
from symbolic.layout.values import (
    NOTHING_KNOWN,
    Value,
    divides,
    holds,
    in_kind,
    lower,
    number,
    product,
    quotient,
    read,
    same,
    simple,
    sympy_symbols,
)

LIST_AT_MOST = 1 << 24


# ---- one axis ----------------------------------------------------------------------------------------------------------

def along(iters: Sequence[Iter], where: Axis) -> list[Iter]:
    return [i for i in iters if i.axis is where and not same(i.extent, 1)]


def sorted_by_stride(iters: Sequence[Iter], which: Sequence[int]) -> list[int] | None:
    """The positions `which` by rising magnitude of stride, or None where that is not known."""
    def compare(a: int, b: int) -> int:
        x, y = magnitude(iters[a].stride), magnitude(iters[b].stride)
        if same(x, y): return 0
        known = _positive(x, y)
        if holds(x <= y, known): return -1
        if holds(y <= x, known): return 1
        raise _Unordered

    try:
        return sorted(which, key=cmp_to_key(compare))
    except _Unordered:
        return None


def rising(iters: Sequence[Iter]) -> list[Iter] | None:
    """The iters by rising magnitude of stride, or None where that is not known."""
    order = sorted_by_stride(iters, range(len(iters)))
    return None if order is None else [iters[k] for k in order]


class _Unordered(Exception):
    """Two strides whose order the symbols leave open."""


def magnitude(stride: Value) -> Value:
    return -stride if holds(stride < 0) is True else stride


def is_nested(iters: Sequence[Iter]) -> bool | None:
    """Whether each stride is greater than all that the smaller ones reach: then every sum has one set of digits.

    False proves nothing; None when symbols leave it open. A symbolic stride is taken as positive, as extents are.
    """
    ordered = rising(iters)
    if ordered is None:
        return None
    reach: Any = 0
    for i in ordered:
        facts = _positive(i.stride, i.extent, *(x for o in ordered for x in (o.extent, o.stride)))
        beyond = holds(magnitude(i.stride) > reach, facts)
        if not beyond:
            return beyond
        reach = simple(reach + (i.extent - 1) * magnitude(i.stride), facts)
    return True


def _positive(*values: Any) -> Facts:
    facts = Facts()
    for v in values:
        if v.__class__ is Int:
            from symbolic.integers import free_symbols
            for s in free_symbols(v):
                facts.bound(s, 1, None)
    return facts


def sums(iters: Sequence[Iter]) -> Any:
    """Every sum of digits times strides, in row-major order of the digits, as a NumPy array. Raises LayoutError beyond 2**24."""
    import numpy as np
    count = product(i.extent for i in iters)
    if count > LIST_AT_MOST:
        raise LayoutError(f"{count} places along one axis, whose strides are not nested, are more than are listed ({LIST_AT_MOST})")
    total = np.zeros(1, dtype=np.int64)
    for i in iters:
        total = (total[:, None] + np.arange(number(i.extent), dtype=np.int64) * number(i.stride)).ravel()
    return total


def _numeric(iters: Sequence[Iter]) -> bool:
    return not any(x.__class__ is Int for i in iters for x in (i.extent, i.stride))


def is_injective(layout: TileLayout) -> bool | None:
    """See `TileLayout.is_injective`."""
    if any(same(i.extent, 0) for i in layout.shard):
        return True
    answers = [_injective_along(along(layout.shard, a), along(layout.replica, a)) for a in layout.axes]
    return False if False in answers else None if None in answers else True


def _injective_along(shard: list[Iter], replica: list[Iter]) -> bool | None:
    if not shard:
        return True
    if is_nested([*shard, *replica]):
        return True
    if any(same(i.stride, 0) for i in shard):
        return False
    if not _numeric([*shard, *replica]):
        return None
    import numpy as np
    places = sums([*shard, *replica]).reshape(product(i.extent for i in shard), -1)
    # A place that two rows share, not one that a row has twice.
    own = np.sort(places, axis=1)
    first = np.ones(own.shape, dtype=bool)
    first[:, 1:] = own[:, 1:] != own[:, :-1]
    distinct = own[first]
    return len(np.unique(distinct)) == len(distinct)


def is_surjective(layout: TileLayout, extents: Mapping[str, int]) -> bool | None:
    """See `TileLayout.is_surjective`."""
    for name in extents:
        if axis(name) not in layout.axes:
            raise LayoutError(f"{layout.notation()} has no axis {name}")
    if any(same(i.extent, 0) for i in layout.shard):
        return not any(extents.values())
    answers = [_surjective_along(along((*layout.shard, *layout.replica), a), layout.offsets.get(a, 0), extents.get(a.name)) for a in layout.axes]
    return False if False in answers else None if None in answers else True


def _surjective_along(iters: list[Iter], offset: Value, extent: int | None) -> bool | None:
    if not _numeric(iters) or offset.__class__ is Int:
        ordered = rising(iters)
        unit: Value = 1
        for i in ordered or []:
            if not same(magnitude(i.stride), unit):
                return None
            unit = lower(unit * i.extent)
        return True if ordered is not None and extent is None else None
    import numpy as np
    hit = np.unique(sums(iters)) + offset
    if extent is None:
        return len(hit) == int(hit[-1] - hit[0]) + 1
    return int(np.count_nonzero((hit >= 0) & (hit < extent))) == extent


# ---- inverse -----------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Inverse:
    """From a place to the element there: `layout.inverse()`.

    Along each axis the iters come off a coordinate by falling stride, the quotient being the iter's digit. A swizzle is undone
    first.
    """

    tile: TileLayout
    swizzle: Swizzle | None = None

    def index(self, facts: Facts | None = None, **place: Any) -> Any:
        """The linear index of the element at `place`, one coordinate for each axis: `inverse.index(laneid=l, m=r)`.

        Right where an element is; elsewhere it says nothing. Without `facts`, coordinates are taken to be within the layout's
        box. Raises LayoutError for missing or unknown axes.
        """
        return self._elements((self.tile.size(),), facts, place)[0]

    def coordinate(self, shape: Sequence[Any], facts: Facts | None = None, **place: Any) -> tuple[Any, ...]:
        """The same as a coordinate in `shape`, row-major. Raises LayoutError when the sizes differ."""
        return self._elements(tuple(shape), facts, place)

    def _elements(self, shape: tuple[Any, ...], facts: Facts | None, place: Mapping[str, Any]) -> tuple[Any, ...]:
        names = [a.name for a in self.tile.axes]
        if sorted(place) != sorted(names):
            raise LayoutError(f"a place is given along {sorted(place)}, this layout has the axes {sorted(names)}")
        symbols = {**self.tile._symbols, **sympy_symbols((*place.values(), *shape))}
        dims = tuple(read(e, "an extent of shape") for e in shape)
        digits.check_size(product(i.extent for i in self.tile.shard), dims, self.tile.notation(), facts or NOTHING_KNOWN)
        given = {axis(n): x if is_array(x) else read(x, "a coordinate") for n, x in place.items()}
        known = facts if facts is not None else self._inside(given)
        digit = self._digits({a: x if self.swizzle is None else self.swizzle(x) for a, x in given.items()})
        try:
            grouped, seps = self.tile.group(dims, known)
        except LayoutError:                         # the linear index, and its digits in the shape
            total: Any = 0
            for it, x in zip(self.tile.shard, digit):
                total = total * it.extent + x
            made = [x for _, x in digits.split([Iter(e, 1) for e in dims], total)]
        else:
            digit = Inverse(grouped, self.swizzle)._digits({a: x if self.swizzle is None else self.swizzle(x) for a, x in given.items()})
            made = []
            for lo, hi in zip(seps, seps[1:]):
                total = 0
                for it, x in zip(grouped.shard[lo:hi], digit[lo:hi]):
                    total = total * it.extent + x
                made.append(total)
        return tuple(in_kind(simple(x, known), symbols, place.values()) for x in made)

    def _digits(self, place: Mapping[Axis, Any]) -> list[Any]:
        """The digit of each iter of the tile."""
        made: list[Any] = [0] * len(self.tile.shard)
        for a in self.tile.axes:
            left = place[a] - least(self.tile, a)
            own = [k for k, i in enumerate(self.tile.shard) if i.axis is a and not same(i.extent, 1)]
            for k in reversed(sorted_by_stride(self.tile.shard, own) or []):
                it = self.tile.shard[k]
                digit, left = left // magnitude(it.stride), left % magnitude(it.stride)
                made[k] = it.extent - 1 - digit if holds(it.stride < 0) is True else digit
        return made

    def _inside(self, place: Mapping[Axis, Any]) -> Facts:
        facts = Facts()
        for a, x in place.items():
            if x.__class__ is Int:
                low: Any = least(self.tile, a)
                reach: Any = sum((i.extent - 1) * magnitude(i.stride) for i in along(self.tile.shard, a))
                facts.bound(x, low, low + reach + 1)
        return facts

    def layout(self) -> TileLayout:
        """The inverse as a layout: places, flattened row-major over the tile's axes in order, to linear indices on `m`.

        Raises LayoutError when the places are no box from 0 on (padding, an offset), or swizzled.
        """
        if self.swizzle is not None and self.swizzle.swizzle_len:
            raise LayoutError("the inverse of a swizzled layout is no tile layout; use index() or coordinate()")
        iters: list[Iter] = []
        offset: Any = 0
        for a in self.tile.axes:
            if not same(least(self.tile, a), 0):
                raise LayoutError(f"the places along {a} begin at {least(self.tile, a)}: no layout lists them; use index() or coordinate()")
            own: list[Iter] = []
            step: Value = 1
            for k in sorted_by_stride(self.tile.shard, [k for k, i in enumerate(self.tile.shard) if i.axis is a]) or []:
                it = self.tile.shard[k]
                if same(it.extent, 1):
                    continue
                if not same(magnitude(it.stride), step):
                    raise LayoutError(f"the places along {a} have gaps: no layout lists them; use index() or coordinate()")
                step = lower(step * it.extent)
                weight = product(i.extent for i in self.tile.shard[k + 1:])
                down = holds(it.stride < 0) is True
                own.insert(0, Iter(it.extent, -weight if down else weight))
                offset = offset + ((it.extent - 1) * weight if down else 0)
            iters += own
        return TileLayout(Spec(tuple(iters) or (Iter(1, 1),), (), ((m, lower(offset)),)))


def least(layout: TileLayout, where: Axis) -> Value:
    """The least coordinate along an axis."""
    low: Any = layout.offsets.get(where, 0)
    for i in along(layout.shard, where):
        if holds(i.stride < 0) is True:
            low = low + (i.extent - 1) * i.stride
    return lower(low)  # type: ignore[no-any-return]


def inverse(layout: TileLayout, swizzle: Swizzle | None = None) -> Inverse:
    """See `TileLayout.inverse`."""
    for a in layout.axes:
        own = along(layout.shard, a)
        if along(layout.replica, a):
            raise LayoutError(f"{layout.notation()} has copies along {a}: an element has several places; invert it without its replicas")
        if not is_nested(own):
            raise LayoutError(f"{layout.notation()} is not inverted: " + (
                f"two elements share a place along {a}" if _injective_along(own, []) is False else
                f"the strides along {a} are not nested, each greater than all that the smaller ones reach"))
    return Inverse(layout, swizzle)


# ---- composition and complement ----------------------------------------------------------------------------------------

def compose(outer: TileLayout, inner: TileLayout) -> TileLayout:
    """See `TileLayout.compose`.

    The strides of `inner`, by size, cut the index space of `outer` into digits: [.., e1, s1/(s2*e2), e2, ..]. When `outer` can be
    grouped by them, no sum of inner steps carries from one digit into the next, and each inner iter becomes the iters of its
    digit. Symbolic strides are taken as positive, as extents are.
    """
    def refuse(why: str) -> LayoutError:
        return LayoutError(f"{outer.notation()} after {inner.notation()} is no layout: {why}")

    if any(a is not m for a in inner.axes):
        raise refuse("the inner layout must give an index along m alone")
    moving = [i for i in (*inner.shard, *inner.replica) if not same(i.extent, 1) and not same(i.stride, 0)]
    if any(holds(i.stride < 0) is True for i in moving):
        raise refuse("the inner layout has a negative stride")
    ordered = rising(moving)
    if ordered is None:
        raise refuse("the order of the inner strides is not known")
    size = product(i.extent for i in outer.shard)
    known = _positive(size, *(x for i in moving for x in (i.extent, i.stride)))
    shape: list[Value] = []
    where: dict[int, int] = {}
    step = size
    for i in reversed(ordered):
        above = lower(i.extent * i.stride)
        if not divides(above, step, known):
            raise refuse(f"the steps of {i} do not fit between those of the others, or into {size}")
        shape.append(quotient(step, above, known))
        where[id(i)] = len(shape)
        shape.append(i.extent)
        step = i.stride
    shape.append(step)
    start = inner.offsets.get(m, 0)
    grouped, seps = outer.canonicalize().group(tuple(shape), known)
    parts = [list(grouped.shard[lo:hi]) for lo, hi in zip(seps, seps[1:])]
    begin: list[Value] = []
    rest: Any = start
    for e in reversed(shape):
        begin.insert(0, simple(rest % e, known))
        rest = simple(rest // e, known)
    if not same(rest, 0) or not all(same(begin[d], 0) for d in where.values()):
        raise refuse(f"the inner offset {start} carries into its own steps")
    offset = outer.offsets
    for g, x in zip(parts, begin):
        for it, digit in digits.split(g, x):
            offset[it.axis] = simple(offset.get(it.axis, 0) + digit * it.stride)

    def mapped(i: Iter) -> list[Iter]:
        return parts[where[id(i)]] if id(i) in where else [Iter(i.extent, 0, outer.shard[0].axis if outer.shard else m)]

    return TileLayout(Spec(tuple(x for i in inner.shard for x in mapped(i)), (*outer.replica, *(x for i in inner.replica for x in mapped(i))),
                           tuple(offset.items()), {**outer._symbols, **inner._symbols}))


def complement(layout: TileLayout, size: Any = None) -> TileLayout:
    """See `TileLayout.complement`."""
    def refuse(why: str) -> LayoutError:
        return LayoutError(f"{layout.notation()} has no complement: {why}")

    if len(layout.axes) != 1 or layout.offset or layout.replica:
        raise refuse("it needs one axis, no offset and no copies")
    where = layout.axes[0]
    total = read(layout.span(where) if size is None else size, "a size")
    ordered = rising(along(layout.shard, where))
    if ordered is None:
        raise refuse("the order of its strides is not known")
    known = _positive(total, *(x for i in ordered for x in (i.extent, i.stride)))
    gaps: list[Iter] = []
    step: Value = 1
    for i in ordered:
        if not divides(step, i.stride, known) or holds(i.stride > 0) is False:
            raise refuse(f"the smaller iters reach {step}, which does not divide the stride of {i}")
        gaps.insert(0, Iter(quotient(i.stride, step, known), step, where))
        step = lower(i.extent * i.stride)
    if size is None:
        total = simple((total + step - 1) // step * step)
    elif not divides(step, total, known):
        raise refuse(f"it comes in blocks of {step}, which do not divide {total}")
    gaps.insert(0, Iter(quotient(total, step, known), step, where))
    return layout.rebuilt(gaps).canonicalize()

