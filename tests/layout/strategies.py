"""Random layouts, and the definition that they are held against."""

from __future__ import annotations

from itertools import product as cartesian
from math import prod
from typing import Any

from hypothesis import strategies as st

from symbolic.layout import AXES, Iter, TileLayout

NAMES = ("m", "laneid", "warpid", "TCol")


def iters(least: int = 1, most: int = 6, strides: Any = None) -> Any:
    of_stride = st.integers(-9, 24) if strides is None else strides
    return st.builds(lambda e, s, a: Iter(e, s, AXES[a]), st.integers(least, most), of_stride, st.sampled_from(NAMES))


@st.composite
def layouts(draw: Any, replicas: bool = True, offsets: bool = True, **of_iters: Any) -> TileLayout:
    """Any extents, strides of any sign, on any axes; at most some 1300 elements."""
    shard = draw(st.lists(iters(**of_iters), min_size=1, max_size=4))
    replica = draw(st.lists(iters(2, 3), max_size=2)) if replicas else []
    offset = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(-20, 20), max_size=2)) if offsets else {}
    return TileLayout.from_iters(shard, replica, offset)


@st.composite
def shapes_of(draw: Any, size: int, rank: int = 4) -> tuple[int, ...]:
    """A shape of this size: divisors in any order."""
    shape = []
    for _ in range(draw(st.integers(0, rank - 1))):
        e = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        shape.append(e)
        size //= e
    return (*shape, size)


@st.composite
def layouts_and_shapes(draw: Any, **of_layouts: Any) -> tuple[TileLayout, tuple[int, ...]]:
    layout = draw(layouts(**of_layouts))
    return layout, draw(shapes_of(layout.size()))


@st.composite
def bijections(draw: Any, axes: tuple[str, ...] = NAMES, factors: tuple[int, ...] = (2, 3, 4, 5), most: int = 4) -> TileLayout:
    """A layout whose places are a box from 0 on: the digits of each axis in any order of the shard."""
    made = []
    reach = dict.fromkeys(axes, 1)
    for _ in range(draw(st.integers(1, most))):
        extent, axis = draw(st.sampled_from(factors)), draw(st.sampled_from(axes))
        made.append(Iter(extent, reach[axis], AXES[axis]))
        reach[axis] *= extent
    return TileLayout.from_iters(draw(st.permutations(made)))


def coordinates(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(cartesian(*map(range, shape)))


def defined(layout: TileLayout, coordinate: tuple[int, ...], shape: tuple[int, ...]) -> dict[str, int]:
    """The definition in four steps: flatten, split, accumulate, offset."""
    flat = 0
    for x, e in zip(coordinate, shape):
        flat = flat * e + x
    digits = []
    for it in reversed(layout.shard):
        digits.insert(0, flat % it.extent)
        flat //= it.extent
    assert flat == 0
    place = {a.name: 0 for a in layout.axes}
    for it, digit in zip(layout.shard, digits):
        place[it.axis.name] += digit * it.stride
    for axis, offset in layout.offset.items():
        place[axis] += offset
    return place


def table(layout: Any, shape: tuple[int, ...]) -> list[dict[str, int]]:
    """The places of all elements, axes along which nothing moves left out."""
    return [{a: v for a, v in layout.apply(*c, shape=shape).items() if v} for c in coordinates(shape)]


def size_of(shape: tuple[int, ...]) -> int:
    return prod(shape)
