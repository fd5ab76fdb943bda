"""Linear layouts: the map from places to coordinates as a matrix over F2.

After "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2" (Zhou et al., 2025), the form that Triton
uses: for each bit of each place axis, the coordinate that it alone stands for; the coordinate of any place is the XOR of those
of its bits. It describes every tile layout of powers of two, swizzled or not; copies are bits that stand for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symbolic.layout.axes import axis, m
from symbolic.layout.digits import check_size
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter, Spec
from symbolic.layout.swizzle import ComposeLayout, Swizzle
from symbolic.layout.tile import TileLayout
from symbolic.layout.values import NOTHING_KNOWN, number, product

if TYPE_CHECKING:
    from symbolic.layout.swizzle import Layout

Vector = tuple[int, ...]


@dataclass(frozen=True)
class LinearLayout:
    """`bases[axis][bit]` is the coordinate in `shape` that this bit of the axis stands for.

    Raises LayoutError unless every extent of `shape` is a power of two and every basis lies in it.
    """

    bases: Mapping[str, tuple[Vector, ...]]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(_log2(e) is None for e in self.shape):
            raise LayoutError(f"shape {self.shape} is no power of two in every dimension")
        for name, vectors in self.bases.items():
            for v in vectors:
                if len(v) != len(self.shape) or not all(0 <= x < e for x, e in zip(v, self.shape)):
                    raise LayoutError(f"basis {v} of {name} is no coordinate in {self.shape}")

    def apply(self, **place: int) -> Vector:
        """The coordinate of the element at a place: `linear.apply(laneid=5, m=1)`."""
        total = [0] * len(self.shape)
        for name, vectors in self.bases.items():
            for bit, vector in enumerate(vectors):
                if place[name] >> bit & 1:
                    total = [x ^ y for x, y in zip(total, vector)]
        return tuple(total)

    def columns(self) -> list[int]:
        """Each basis as the linear index it stands for, all axes in order, low bits first."""
        return [_flat(v, self.shape) for vectors in self.bases.values() for v in vectors]

    def matrix(self) -> Any:
        """The matrix over F2 as a NumPy array of 0 and 1: a row for each bit of the linear index, high bit last."""
        import numpy as np
        rows = sum(_log2(e) or 0 for e in self.shape)
        return np.array([[c >> r & 1 for c in self.columns()] for r in range(rows)], dtype=np.uint8).reshape(rows, -1)

    def rank(self) -> int:
        """The rank over F2: the linear layout is injective when it is the number of columns, surjective when that of rows."""
        pivots: dict[int, int] = {}
        for c in self.columns():
            while c and c.bit_length() in pivots:
                c ^= pivots[c.bit_length()]
            if c:
                pivots[c.bit_length()] = c
        return len(pivots)


def _log2(x: int) -> int | None:
    return x.bit_length() - 1 if x > 0 and x & (x - 1) == 0 else None


def _flat(coordinate: Vector, shape: Sequence[int]) -> int:
    index = 0
    for x, e in zip(coordinate, shape):
        index = index * e + x
    return index


def _unflat(index: int, shape: Sequence[int]) -> Vector:
    made: list[int] = []
    for e in reversed(shape):
        made.insert(0, index % e)
        index //= e
    return tuple(made)


def to_linear(layout: Layout, shape: Sequence[int]) -> LinearLayout:
    """See `TileLayout.to_linear`. Raises LayoutError for what is no linear bijection of bits: extents or strides that are no
    powers of two, an offset, steps that carry into each other."""
    tile, swizzle = (layout.tile_layout, layout.swizzle) if isinstance(layout, ComposeLayout) else (layout, None)

    def refuse(why: str) -> LayoutError:
        return LayoutError(f"{layout.notation()} is no linear layout: {why}")

    if tile.is_symbolic:
        raise refuse("it has symbols")
    check_size(tile.size(), tuple(shape), layout.notation(), NOTHING_KNOWN)
    if tile.offset:
        raise refuse("it has an offset")
    # For each axis, the linear index that its bit stands for: 0 for a bit of copies.
    stands_for: dict[str, dict[int, int]] = {a.name: {} for a in tile.axes}
    weights = [product(i.extent for i in tile.shard[k + 1:]) for k in range(len(tile.shard))]
    for it, weight in [*zip(tile.shard, weights), *((i, 0) for i in tile.replica)]:
        extent, stride = _log2(number(it.extent)), _log2(number(it.stride))
        if extent == 0:
            continue
        if extent is None or stride is None:
            raise refuse(f"{it} is not of powers of two")
        own = stands_for[it.axis.name]
        for bit in range(extent):
            if stride + bit in own:
                raise refuse(f"two iters step along bit {stride + bit} of {it.axis}")
            own[stride + bit] = number(weight) << bit
    bases = {}
    for name, own in stands_for.items():
        if sorted(own) != list(range(len(own))):
            raise refuse(f"bits {sorted(own)} of {name} are in use, with gaps")
        vectors = [own[bit] for bit in range(len(own))]
        if swizzle is not None and swizzle.swizzle_len:
            if any(swizzle(1 << bit) >> len(own) for bit in range(len(own))):
                raise refuse(f"its swizzle reaches beyond {1 << len(own)} addresses")
            # The swizzle is its own inverse: the address bit stands for what the bits of its image stand for.
            vectors = [_xor(v for k, v in enumerate(vectors) if swizzle(1 << bit) >> k & 1) for bit in range(len(own))]
        bases[name] = tuple(_unflat(v, shape) for v in vectors)
    return LinearLayout(bases, tuple(shape))


def _xor(items: Any) -> int:
    total = 0
    for x in items:
        total ^= x
    return int(total)


def from_linear(linear: LinearLayout) -> Layout:
    """The layout of which this is the linear form: a `TileLayout`, or a `ComposeLayout` when `m` is swizzled.

    Raises LayoutError when an element has no place, or its place is no tile, swizzled or not.
    """
    names = list(linear.bases)
    columns = {name: [_flat(v, linear.shape) for v in linear.bases[name]] for name in names}
    if linear.rank() != sum(_log2(e) or 0 for e in linear.shape):
        raise LayoutError(f"{linear} reaches {1 << linear.rank()} of {product(linear.shape)} elements: the others have no place")
    for swizzle in _candidates(len(columns.get(m.name, [])) if names == [m.name] else 0):
        plain = {name: [_xor(v for k, v in enumerate(vs) if swizzle is not None and swizzle(1 << bit) >> k & 1) if swizzle else vs[bit]
                        for bit in range(len(vs))] for name, vs in columns.items()}
        tile = _tile_of(plain, linear.shape)
        if tile is not None:
            return tile if swizzle is None else ComposeLayout(swizzle.per_element, swizzle.swizzle_len, swizzle.atom_len, tile,
                                                              swizzle.swizzle_inner)
    raise LayoutError(f"{linear} mixes bits in a way that is no tile layout, nor one with a swizzle of m")


def _candidates(bits: int) -> list[Swizzle | None]:
    """No swizzle, then every swizzle of an address of so many bits."""
    return [None, *(Swizzle(p, b, a, inner) for b in range(1, bits) for a in range(b, bits) for p in range(bits - a - b + 1)
                    for inner in (True, False))]


def _tile_of(columns: Mapping[str, list[int]], shape: tuple[int, ...]) -> TileLayout | None:
    """The tile layout in which each bit of the linear index is one bit of one axis, or None."""
    total = (product(shape)).bit_length() - 1
    owner: dict[int, tuple[str, int]] = {}
    replica = []
    for name, vectors in columns.items():
        for bit, v in enumerate(vectors):
            if v == 0:
                replica.append(Iter(2, 1 << bit, axis(name)))
            elif _log2(v) is None or v in owner:
                return None
            else:
                owner[v] = (name, bit)
    shard = [Iter(2, 1 << bit, axis(name)) for name, bit in (owner[1 << k] for k in reversed(range(total)))]
    return TileLayout(Spec(tuple(shard) or (Iter(1, 1),), tuple(replica))).canonicalize()
