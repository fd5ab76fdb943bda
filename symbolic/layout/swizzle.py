"""XOR swizzles, and `ComposeLayout`: a tile layout whose memory address is swizzled.

An address counts elements. Its low `per_element` bits pick within a chunk and never move; the chunk number x is permuted by
XORing `swizzle_len` of its bits, `atom_len` places up, into the low ones (the hardware's way, PTX ISA 9.1 section 5.5.7), or the
low ones into those (`swizzle_inner=False`). Both are their own inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.layout import digits
from symbolic.layout.axes import Axis, axis, m
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from symbolic.layout.values import in_kind, simple, sympy_symbols, write

if TYPE_CHECKING:
    from symbolic.layout.banks import BankConflicts
    from symbolic.layout.inverse import Inverse
    from symbolic.layout.linear import LinearLayout


@dataclass(frozen=True)
class Swizzle:
    """`Swizzle(per_element, swizzle_len, atom_len)`: of an address, as bits of it; CuTe's Swizzle<swizzle_len, per_element, atom_len>.

    Raises LayoutError for negative lengths and for atom_len < swizzle_len, where the bits would overlap.
    """

    per_element: int
    swizzle_len: int
    atom_len: int
    swizzle_inner: bool = True

    def __post_init__(self) -> None:
        if min(self.per_element, self.swizzle_len) < 0 or self.atom_len < self.swizzle_len:
            raise LayoutError(f"{self} needs per_element >= 0, swizzle_len >= 0 and atom_len >= swizzle_len")

    @property
    def period(self) -> int:
        """Addresses this far apart are permuted alike."""
        return 1 << (self.per_element + self.atom_len + self.swizzle_len)

    def __call__(self, address: Any) -> Any:
        """The permuted address: an int, an array, an `Int`."""
        chunk, values, high = 1 << self.per_element, 1 << self.swizzle_len, 1 << self.atom_len
        x = address // chunk
        return self._joined(address % chunk, x % values, x // values % (high // values), x // high % values, x // (high * values))

    def of_digits(self, terms: Sequence[Term]) -> Any:
        """The permuted address of a sum of digits, or None where it does not fall apart at the swizzle's bits.

        The same number; but what lies where is known, not to be found out again from a sum: a column's high part and its low one
        are `j//16*1024` and `j % 16`, whose sum hides that the latter is below 16.
        """
        fields = []
        rest: Sequence[Term] | None = terms
        for width in (self.per_element, self.swizzle_len, self.atom_len - self.swizzle_len, self.swizzle_len):
            if rest is None:
                return None
            parts = split_terms(rest, 1 << width)
            low, rest = parts if parts is not None else (None, None)
            fields.append(low)
        return None if rest is None else self._joined(*(sum((d * s for d, s, _ in f or ()), 0) for f in (*fields, rest)))

    def _joined(self, within: Any, low: Any, between: Any, up: Any, above: Any) -> Any:
        """The address of its bit fields, from the lowest, the swizzle applied."""
        values, high = 1 << self.swizzle_len, 1 << self.atom_len
        mixed = low ^ up
        low, up = (mixed, up) if self.swizzle_inner else (low, mixed)
        return (((above * values + up) * (high // values) + between) * values + low) * (1 << self.per_element) + within


# digit, stride, extent: digit * stride with 0 <= digit < extent
Term = tuple[Any, Any, Any]


def split_terms(terms: Sequence[Term], at: int) -> tuple[list[Term], list[Term]] | None:
    """(low, high) with sum(terms) == sum(low) + at * sum(high) and 0 <= sum(low) < at; None where that is not seen to hold."""
    low: list[Term] = []
    high: list[Term] = []
    reach = 0
    for digit, stride, extent in terms:
        if stride.__class__ is int and stride % at == 0:
            high.append((digit, stride // at, extent))
            continue
        if stride.__class__ is not int or extent.__class__ is not int or stride < 0 or extent < 1:
            return None
        if at % stride == 0 and extent > at // stride:
            inside = at // stride
            high.append((digit // inside, 1, -(-extent // inside)))
            digit, extent = digit % inside, inside
        low.append((digit, stride, extent))
        reach += (extent - 1) * stride
    return (low, high) if reach < at else None


class ComposeLayout:
    """`ComposeLayout(per_element, swizzle_len, atom_len, tile, swizzle_inner=True)`: `tile`, then the swizzle of its address `m`.

    Without a tile, the identity over one period of the swizzle. Raises LayoutError for lengths that are no swizzle, and for a
    tile with another axis than `m`, or copies.
    """

    def __init__(self, per_element: int, swizzle_len: int, atom_len: int, tile: TileLayout | None = None,
                 swizzle_inner: bool = True) -> None:
        self.swizzle = Swizzle(per_element, swizzle_len, atom_len, swizzle_inner)
        self.tile_layout = TileLayout(S[self.swizzle.period]) if tile is None else tile
        if any(a is not m for a in self.tile_layout.axes) or self.tile_layout.replica:
            raise LayoutError(f"a swizzle permutes addresses along m, and {self.tile_layout.notation()} has other axes or copies")

    def _like(self, tile: TileLayout, per_element: int | None = None) -> ComposeLayout:
        s = self.swizzle
        return ComposeLayout(s.per_element if per_element is None else per_element, s.swizzle_len, s.atom_len, tile, s.swizzle_inner)

    def __repr__(self) -> str:
        s = self.swizzle
        last = "" if s.swizzle_inner else ", swizzle_inner=False"
        return f"ComposeLayout({s.per_element}, {s.swizzle_len}, {s.atom_len}, {self.tile_layout!r}{last})"

    def notation(self) -> str:
        """The same as `repr`."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeLayout) and (self.swizzle, self.tile_layout) == (other.swizzle, other.tile_layout)

    def __hash__(self) -> int:
        return hash((self.swizzle, self.tile_layout))

    # ---- where an element is ----------------------------------------------------------------------------------------

    def apply(self, *coord: Any, shape: Sequence[Any] | None = None, facts: Facts | None = None) -> dict[str, Any]:
        """The swizzled address of an element, as {"m": address}; see `TileLayout.apply`."""
        symbols = {**self.tile_layout._symbols, **sympy_symbols((*coord, *(shape or ())))}
        coords, dims, known = self.tile_layout._question(coord, shape, facts, symbols)
        terms: list[Any] = [(digit, it.stride, it.extent) for it, digit in digits.digits(self.tile_layout.canonicalize().shard, coords, dims, known)]
        terms += [(v, 1, v + 1) for v in self.tile_layout.offsets.values()]
        address = self.swizzle.of_digits(terms) if any(d.__class__ is Int for d, _, _ in terms) else None
        if address is None:
            address = self.swizzle(simple(sum((d * stride for d, stride, _ in terms), 0), known))
        return {"m": in_kind(simple(address, known), symbols, coord)}

    def size(self, along: Axis | str | None = None) -> Any:
        """The number of logical elements."""
        return self.tile_layout.size(along)

    def span(self, along: Axis | str | None = None) -> Any:
        """What a storage must hold: the tile's span, rounded up to the block within which the swizzle moves addresses."""
        if along is not None and axis(along) is not m:
            return 1
        s = self.swizzle
        block = 1 << (s.per_element + s.swizzle_len + (0 if s.swizzle_inner else s.atom_len))
        span = self.tile_layout._span([m])
        return write(span if s.swizzle_len == 0 else simple((span + block - 1) // block * block), self.tile_layout._symbols)

    @property
    def shard(self) -> Any:
        """The shard iters of the tile."""
        return self.tile_layout.shard

    @property
    def offset(self) -> Any:
        """The offset of the tile: added before the swizzle."""
        return self.tile_layout.offset

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.tile_layout.axes

    @property
    def is_symbolic(self) -> bool:
        """Some extent, stride or offset is not a number."""
        return self.tile_layout.is_symbolic

    def is_trivial(self) -> bool:
        """Whether nothing is permuted, and the tile is trivial."""
        return self.swizzle.swizzle_len == 0 and self.tile_layout.is_trivial()

    def formulas(self, shape: Sequence[Any], names: Sequence[str] | None = None) -> dict[str, str]:
        """The address as text: {"m": "i*64 + (i ^ j//8)*8 + j % 8"}."""
        from symbolic.integers import Symbol
        from symbolic.layout.tile import coordinate_names
        from symbolic.text import text
        return {"m": text(self.apply(*[Symbol(n) for n in names or coordinate_names(len(shape))], shape=shape)["m"])}

    # ---- algebra: the tile's, the swizzle stays -----------------------------------------------------------------------

    def canonicalize(self) -> ComposeLayout:
        """With a canonical tile."""
        return self._like(self.tile_layout.canonicalize())

    def tile(self, outer: TileLayout, outer_shape: Sequence[Any], inner_shape: Sequence[Any]) -> ComposeLayout:
        """`outer` of copies of this; see `TileLayout.tile`. Raises LayoutError unless the copies keep the swizzle's period."""
        made = self.tile_layout.tile(outer, outer_shape, inner_shape)
        span = self.tile_layout.span()
        if span.__class__ is int and span % self.swizzle.period:
            raise LayoutError(f"copies of {self!r} would start at multiples of {span}, inside a swizzle period of {self.swizzle.period}")
        return self._like(made)

    def tile_to(self, to_shape: Sequence[Any], current_shape: Sequence[Any]) -> ComposeLayout:
        """Row-major copies until they fill `to_shape`; see `TileLayout.tile_to`."""
        from symbolic.layout import algebra
        counts = algebra.ratio(algebra.dimensions(to_shape), algebra.dimensions(current_shape))
        return self.tile(algebra.row_major(counts), counts, current_shape)

    def is_tile_inner(self, tiled: ComposeLayout, tiled_shape: Sequence[Any], inner_shape: Sequence[Any]) -> TileLayout:
        """The `outer` with `self.tile(outer, ...) == tiled`. Raises LayoutError, saying why, when there is none."""
        if not isinstance(tiled, ComposeLayout) or tiled.swizzle != self.swizzle:
            raise LayoutError(f"{self!r} is no inner tile of {tiled!r}: its swizzle is another")
        return self.tile_layout.is_tile_inner(tiled.tile_layout, tiled_shape, inner_shape)

    def direct_sum(self, left: TileLayout, left_shape: Sequence[Any], right_shape: Sequence[Any]) -> ComposeLayout:
        """The addresses of `left` added before the swizzle; see `TileLayout.direct_sum`."""
        return self._like(self.tile_layout.direct_sum(left, left_shape, right_shape))

    def slice(self, shape: Sequence[Any], region: Sequence[tuple[Any, Any]], facts: Facts | None = None) -> ComposeLayout:
        """The layout of a part, swizzled as in the whole; see `TileLayout.slice`."""
        return self._like(self.tile_layout.slice(shape, region, facts))

    def view(self, old_shape: Sequence[Any], new_shape: Sequence[Any], facts: Facts | None = None) -> ComposeLayout:
        """The layout of the same elements seen as `new_shape`: this one, once the sizes agree."""
        self.tile_layout.view(old_shape, new_shape, facts)
        return self

    def permute(self, shape: Sequence[Any], order: Sequence[int], facts: Facts | None = None) -> ComposeLayout:
        """The layout of the transposed view; see `TileLayout.permute`."""
        return self._like(self.tile_layout.permute(shape, order, facts))

    def permute_dims(self, order: Sequence[int]) -> ComposeLayout:
        """The shard iters of the tile in another order."""
        return self._like(self.tile_layout.permute_dims(order))

    def pack(self, count: int) -> ComposeLayout:
        """`count` neighbouring elements become one. Raises LayoutError unless `count` is a power of two within a chunk."""
        bits = self._bits(count)
        if bits > self.swizzle.per_element:
            raise LayoutError(f"{self!r} is not packed by {count}: its chunks hold {1 << self.swizzle.per_element} elements")
        return self._like(self.tile_layout.pack(count), self.swizzle.per_element - bits)

    def unpack(self, count: int) -> ComposeLayout:
        """Each element becomes `count` neighbouring ones. Raises LayoutError unless `count` is a power of two."""
        return self._like(self.tile_layout.unpack(count), self.swizzle.per_element + self._bits(count))

    def _bits(self, count: int) -> int:
        if count <= 0 or count & (count - 1):
            raise LayoutError(f"a swizzle works on powers of two, {count} is none")
        return count.bit_length() - 1

    def broadcast(self, count: Any, position: int = -1, along: Axis | str = "m") -> ComposeLayout:
        """A new shard iter of stride 0; see `TileLayout.broadcast`. Raises LayoutError for another axis than `m`."""
        return self._like(self.tile_layout.broadcast(count, position, along))

    def storage(self) -> ComposeLayout:
        """The part that one thread holds: all of it."""
        return self

    def compose(self, inner: TileLayout) -> ComposeLayout:
        """This after `inner`; see `TileLayout.compose`."""
        return self._like(self.tile_layout.compose(inner))

    def inverse(self) -> Inverse:
        """From addresses back to elements. Raises LayoutError unless the tile is injective."""
        from symbolic.layout import inverse
        return inverse.inverse(self.tile_layout, self.swizzle)

    def is_injective(self) -> bool | None:
        """A swizzle is a permutation: what the tile is."""
        return self.tile_layout.is_injective()

    def is_surjective(self, **extents: int) -> bool | None:
        """Whether every address is hit: from 0 up to `m`, or from the least to the greatest. None if symbols leave it open."""
        if self.is_symbolic:
            return None
        import numpy as np
        hit = np.unique(self.apply(np.arange(self.size()))["m"])
        if "m" in extents:
            return np.array_equal(hit[(hit >= 0) & (hit < extents["m"])], np.arange(extents["m"]))
        return len(hit) == int(hit[-1] - hit[0]) + 1

    # ---- other notations, measures, pictures ------------------------------------------------------------------------

    def to_linear(self, shape: Sequence[int]) -> LinearLayout:
        """The matrix over F2 from addresses to coordinates in `shape`; see `TileLayout.to_linear`."""
        from symbolic.layout import linear
        return linear.to_linear(self, shape)

    def bank_conflicts(self, access: Any, dtype: str, shape: Sequence[int] | None = None, vector: int = 1) -> BankConflicts:
        """What a warp's access to shared memory costs; see `symbolic.layout.banks.bank_conflicts`."""
        from symbolic.layout import banks
        return banks.bank_conflicts(self, access, dtype, shape, vector)

    def svg(self, shape: Sequence[int] | None = None, color_by: str | None = None, dtype: str | None = None) -> str:
        """A picture: lines of memory by banks, each chunk with the coordinate that it holds; see `picture.svg`."""
        from symbolic.layout import picture
        return picture.svg(self, shape, color_by, dtype)

    def _repr_svg_(self) -> str | None:
        from symbolic.layout import picture
        return picture.for_notebook(self)


Layout = TileLayout | ComposeLayout
