"""`TileLayout`: an ordered list of iters that sends each logical coordinate to a place along named axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product as cartesian
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.layout import digits
from symbolic.layout.axes import AXES, Axis, axis
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter, Spec, notation
from symbolic.layout.values import (
    NOTHING_KNOWN,
    Value,
    assume_sympy,
    holds,
    in_kind,
    lower,
    product,
    read,
    same,
    show,
    simple,
    sympy_symbols,
    write,
)

if TYPE_CHECKING:
    from symbolic.layout.banks import BankConflicts
    from symbolic.layout.cute import CuteLayout
    from symbolic.layout.inverse import Inverse
    from symbolic.layout.linear import LinearLayout


def _rank(a: Axis) -> int:
    return list(AXES).index(a.name)


class TileLayout:
    """`TileLayout(S[extents:strides] + R[extents:strides] + offset@axis)`.

    `shard` holds the iters that a logical coordinate is split over, outermost first; `replica` the iters along which every
    element is stored again; `offset` what is added, by axis name. Extents, strides and offsets are ints or expressions.
    Immutable; equal when all three are equal as written (compare `canonicalize()` for equal meaning). `repr` is Python that
    rebuilds it.
    """

    def __init__(self, spec: Spec) -> None:
        if not isinstance(spec, Spec):
            raise LayoutError(f"TileLayout takes S[extents:strides] (+ R[...] + offset@axis), not {spec!r}")
        total: dict[Axis, Value] = {}
        for where, value in spec.offset:
            total[where] = lower(total.get(where, 0) + value)
        self.shard = spec.shard
        self.replica = spec.replica
        self._offset = tuple((a, total[a]) for a in sorted(total, key=_rank) if not same(total[a], 0))
        self._symbols: Mapping[Int, Any] = spec.symbols

    @classmethod
    def from_iters(cls, shard: Iterable[Any], replica: Iterable[Any] = (), offset: Mapping[Any, Any] | None = None) -> TileLayout:
        """A layout of iters, each an `Iter` or (extent, stride, axis); `offset` by axis or its name."""
        made = [_as_iter(i) for i in shard], [_as_iter(i) for i in replica]
        terms = tuple((axis(a), read(v, "an offset")) for a, v in (offset or {}).items())
        symbols = sympy_symbols([*(offset or {}).values(), *(x for i in (*shard, *replica) if not isinstance(i, Iter) for x in i[:2])])
        return cls(Spec(tuple(made[0]), tuple(made[1]), terms, symbols))

    def rebuilt(self, shard: Iterable[Iter] | None = None, replica: Iterable[Iter] | None = None,
                offset: Mapping[Axis, Value] | None = None) -> TileLayout:
        """This layout with some parts replaced."""
        return TileLayout(Spec(self.shard if shard is None else tuple(shard), self.replica if replica is None else tuple(replica),
                               self._offset if offset is None else tuple(offset.items()), self._symbols))

    # ---- what it is -------------------------------------------------------------------------------------------------

    @property
    def offset(self) -> Mapping[str, Any]:
        """What is added along each axis, by name; axes with nothing to add are absent."""
        return MappingProxyType({a.name: write(v, self._symbols) for a, v in self._offset})

    @property
    def offsets(self) -> dict[Axis, Value]:
        """The same by axis, never SymPy."""
        return dict(self._offset)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Every axis that the layout names: those of shard, replica, offset, in that order."""
        return tuple(dict.fromkeys([*(i.axis for i in (*self.shard, *self.replica)), *(a for a, _ in self._offset)]))

    @property
    def extents(self) -> tuple[Any, ...]:
        """The extents of the shard iters."""
        return tuple(write(i.extent, self._symbols) for i in self.shard)

    def __repr__(self) -> str:
        return f"TileLayout({self.notation()})"

    def notation(self) -> str:
        """`S[...] + R[...] + offset`, without the class."""
        return notation(self.shard, self.replica, self._offset)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TileLayout) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.shard, self.replica, self._offset

    @property
    def is_symbolic(self) -> bool:
        """Some extent, stride or offset is not a number."""
        return any(x.__class__ is Int for i in (*self.shard, *self.replica) for x in (i.extent, i.stride)) \
            or any(v.__class__ is Int for _, v in self._offset)

    def size(self, along: Axis | str | None = None) -> Any:
        """The number of logical elements: the product of the shard extents, or of those on one axis."""
        where = None if along is None else axis(along)
        return write(product(i.extent for i in self.shard if where in (None, i.axis)), self._symbols)

    def span(self, along: Axis | str | None = None) -> Any:
        """One more than the greatest coordinate along an axis: what a storage must hold. Without an axis, one more than the
        sum over all memory axes.

        Replicas and the offset count; a negative stride reaches no further than its offset, and a stride whose sign is not
        known is taken as non-negative.
        """
        where = None if along is None else axis(along)
        wanted = [a for a in self.axes if (a.is_memory if where is None else a is where)]
        return write(self._span(wanted), self._symbols)

    def _span(self, wanted: Sequence[Axis]) -> Value:
        if any(same(i.extent, 0) for i in self.shard):
            return 0
        reach: Any = 1 + sum(v for a, v in self._offset if a in wanted)
        for i in (*self.shard, *self.replica):
            if i.axis in wanted and holds(i.stride < 0) is not True:
                reach = reach + (i.extent - 1) * i.stride
        return simple(reach)  # type: ignore[no-any-return]

    def is_trivial(self) -> bool:
        """Dense row-major memory from 0: the layout of a plain array."""
        c = self.canonicalize()
        return len(c.shard) == 1 and c.shard[0] == Iter(c.shard[0].extent, 1) and not c.replica and not c._offset

    # ---- where an element is ----------------------------------------------------------------------------------------

    def apply(self, *coord: Any, shape: Sequence[Any] | None = None, facts: Facts | None = None) -> dict[str, Any]:
        """The place of an element: its coordinate along every axis, by axis name.

        `coord` is a coordinate in `shape`; without a shape, one linear index, or one coordinate per shard iter. Flattened
        row-major, split over the extents, multiplied by the strides, summed by axis, and offset. Of the copies that replicas
        make, it is the first: see `replicas`. Ints give ints, NumPy arrays arrays, `Int`s `Int`s simplified within `facts`, SymPy
        expressions SymPy. Without `facts`, each coordinate is taken to lie within its extent.

        Raises LayoutError when `shape` has not the layout's size, or cannot be proved to.
        """
        symbols = {**self._symbols, **sympy_symbols((*coord, *(shape or ())))}
        coords, dims, known = self._question(coord, shape, facts, symbols)
        place: dict[Axis, Any] = {a: self.offsets.get(a, 0) for a in self.axes}
        for it, digit in digits.digits(self.canonicalize().shard, coords, dims, known):
            place[it.axis] = place[it.axis] + digit * it.stride
        return {a.name: in_kind(simple(v, known), symbols, coord) for a, v in place.items()}

    def digits(self, *coord: Any, shape: Sequence[Any], facts: Facts | None = None) -> tuple[Any, ...]:
        """The coordinate along each iter of `group(shape)`: what `apply` multiplies by the strides."""
        symbols = {**self._symbols, **sympy_symbols((*coord, *shape))}
        coords, dims, known = self._question(coord, shape, facts, symbols)
        grouped, seps = self.group(dims, known)
        pairs = [p for c, lo, hi in zip(coords, seps, seps[1:]) for p in digits.split(grouped.shard[lo:hi], c)]
        return tuple(in_kind(simple(x, known), symbols, coord) for _, x in pairs)

    def _question(self, coord: Sequence[Any], shape: Sequence[Any] | None, facts: Facts | None,
                  symbols: Mapping[Int, Any]) -> tuple[list[Any], tuple[Value, ...], Facts]:
        """Coordinates, the shape they are in, and what is known of them."""
        if shape is not None:
            dims = tuple(read(e, "an extent of shape") for e in shape)
            if len(coord) != len(dims):
                raise LayoutError(f"{len(coord)} coordinates are given for shape {show(dims)} of {len(dims)} dimensions")
        elif len(coord) == 1:
            dims = (product(i.extent for i in self.shard),)
        elif len(coord) == len(self.shard):
            dims = tuple(i.extent for i in self.shard)
        else:
            raise LayoutError(f"{len(coord)} coordinates are given to {self.notation()}, which has {len(self.shard)} iters: "
                              "give one linear index, one coordinate per iter, or shape=")
        coords = [c if is_array(c) else read(c, "a coordinate") for c in coord]
        if any(map(is_array, coord)) and self.is_symbolic:
            raise LayoutError(f"arrays of coordinates need a layout of numbers, and {self.notation()} has symbols")
        known = facts if facts is not None else _within(coords, dims)
        if symbols:
            known = known.scope()
            assume_sympy(symbols, known)
        digits.check_size(product(i.extent for i in self.shard), dims, self.notation(), known)
        return coords, dims, known

    def replicas(self, *coord: Any, shape: Sequence[Any] | None = None, facts: Facts | None = None) -> list[dict[str, Any]]:
        """All places of an element, the one that `apply` gives first; without a coordinate, the displacements from it.

        Raises LayoutError when a replica extent is not a number.
        """
        if any(i.extent.__class__ is Int for i in self.replica):
            raise LayoutError(f"the replicas of {self.notation()} are not listed: an extent is not a number")
        base = self.apply(*coord, shape=shape, facts=facts) if coord else {a.name: 0 for a in self.axes}
        made = []
        for steps in cartesian(*(range(i.extent) for i in self.replica)):  # type: ignore[arg-type]
            place = dict(base)
            for step, it in zip(steps, self.replica):
                place[it.axis.name] = place[it.axis.name] + step * it.stride
            made.append(place)
        return made

    def formulas(self, shape: Sequence[Any], names: Sequence[str] | None = None) -> dict[str, str]:
        """The place as text, by axis: `{'laneid': 'i*4 + j//2 % 4', ...}`.

        `names` are those of the coordinates, `i j k ...` unless given; replicas add a term `r*stride` for `r` below their extent.
        """
        from symbolic.integers import Symbol
        from symbolic.text import text
        coords = [Symbol(n) for n in names or coordinate_names(len(shape))]
        place = self.apply(*coords, shape=shape)
        for k, it in enumerate(self.replica):
            place[it.axis.name] = place[it.axis.name] + Symbol("r" if len(self.replica) == 1 else f"r{k}") * it.stride
        return {name: text(read(value)) for name, value in place.items()}

    # ---- the same map, written otherwise ----------------------------------------------------------------------------

    def canonicalize(self) -> TileLayout:
        """The shortest way to write the same map.

        Unit iters go (all of them: one `1:1` on the first axis stays), neighbours on one axis fuse where the inner extent times
        the inner stride is the outer stride, replicas are sorted.
        """
        return self._canonical

    @cached_property
    def _canonical(self) -> TileLayout:
        kept: list[Iter] = []
        for it in self.shard:
            if same(it.extent, 1):
                continue
            if kept and kept[-1].axis is it.axis and same(it.extent * it.stride, kept[-1].stride):
                kept[-1] = Iter(lower(kept[-1].extent * it.extent), it.stride, it.axis)
            else:
                kept.append(it)
        if self.shard and not kept:
            kept = [Iter(1, 1, self.shard[0].axis)]
        replica = sorted((i for i in self.replica if not same(i.extent, 1)), key=_replica_order)
        made = self.rebuilt(kept, replica)
        if made == self:
            return self
        made.__dict__["_canonical"] = made
        return made

    def group(self, shape: Sequence[Any], facts: Facts | None = None) -> tuple[TileLayout, list[int]]:
        """The same map with iters split so that each dimension of `shape` has its own: (layout, seps).

        Dimension d owns the iters seps[d] up to seps[d + 1]. Raises LayoutError where a boundary of `shape` falls inside an iter
        that it does not divide.
        """
        dims = tuple(read(e, "an extent of shape") for e in shape)
        known = _not_empty((*dims, *(i.extent for i in self.shard)), facts)
        try:
            iters, seps = digits.group(self.shard, dims, known)
        except LayoutError:
            # Iters that only fused have the boundary: (16, 4):(24, 6) by (8, 8).
            iters, seps = digits.group(self._canonical.shard, dims, known)
        return self.rebuilt(iters), seps

    def group_many(self, shapes: Sequence[Sequence[Any]], facts: Facts | None = None) -> tuple[TileLayout, list[list[int]]]:
        """Grouped by the common refinement of several shapes: (layout, seps of each). Raises LayoutError if there is none."""
        from symbolic.layout import algebra
        return algebra.group_many(self, shapes, facts)

    def widen_threads(self) -> TileLayout:
        """Thread axes renamed to the one axis that covers them all: `warpid`, `laneid` to `tx`, 32 threads a warp.

        A layout over a single thread axis stays as it is. Raises LayoutError where the scopes do not chain, or no axis covers them.
        """
        from symbolic.layout import scopes
        return scopes.widen_threads(self)

    # ---- scopes -----------------------------------------------------------------------------------------------------

    def get_scope(self) -> tuple[str, str] | None:
        """(unit, scope): which things the thread axes address, within what; None without thread axes.

        Raises LayoutError when they leave a gap (`wgid` with `laneid`) or contradict (`tx` with `laneid`).
        """
        from symbolic.layout import scopes
        return scopes.get_scope(self)

    def is_well_formed(self) -> bool:
        """Whether the thread axes chain: `get_scope` has an answer."""
        try:
            self.get_scope()
        except LayoutError:
            return False
        return True

    # ---- algebra ----------------------------------------------------------------------------------------------------

    def tile(self, outer: TileLayout, outer_shape: Sequence[Any], inner_shape: Sequence[Any]) -> TileLayout:
        """`outer` of copies of this: of shape outer_shape * inner_shape, this layout in each cell of `outer`.

        Outer strides grow by this layout's span along their axis, where it has one. Raises LayoutError on a rank or grouping
        mismatch.
        """
        from symbolic.layout import algebra
        return algebra.tile(self, outer, outer_shape, inner_shape)

    def tile_to(self, to_shape: Sequence[Any], current_shape: Sequence[Any]) -> TileLayout:
        """Row-major copies of this tile of `current_shape` until they fill `to_shape`. Raises LayoutError unless each extent of
        `to_shape` is a multiple."""
        from symbolic.layout import algebra
        return algebra.tile_to(self, to_shape, current_shape)

    def is_tile_inner(self, tiled: TileLayout, tiled_shape: Sequence[Any], inner_shape: Sequence[Any]) -> TileLayout:
        """The `outer` with `self.tile(outer, ...) == tiled`. Raises LayoutError, saying why, when there is none."""
        from symbolic.layout import algebra
        return algebra.outer_of(self, tiled, tiled_shape, inner_shape)

    def is_tile_outer(self, tiled: TileLayout, tiled_shape: Sequence[Any], outer_shape: Sequence[Any]) -> TileLayout:
        """The `inner` with `inner.tile(self, ...) == tiled`. Raises LayoutError, saying why, when there is none."""
        from symbolic.layout import algebra
        return algebra.inner_of(self, tiled, tiled_shape, outer_shape)

    def direct_sum(self, left: TileLayout, left_shape: Sequence[Any], right_shape: Sequence[Any]) -> TileLayout:
        """Both layouts side by side: of shape left_shape * right_shape, the places of `left` and of this one added."""
        from symbolic.layout import algebra
        return algebra.direct_sum(self, left, left_shape, right_shape)

    def is_direct_sum_right(self, total: TileLayout, interleaved_shape: Sequence[Any], right_shape: Sequence[Any]) -> TileLayout:
        """The `left` with `self.direct_sum(left, ...) == total`; interleaved_shape is (l0, r0, l1, r1, ...). Raises LayoutError."""
        from symbolic.layout import algebra
        return algebra.other_summand(self, total, interleaved_shape, right_shape, own=1)

    def is_direct_sum_left(self, total: TileLayout, interleaved_shape: Sequence[Any], left_shape: Sequence[Any]) -> TileLayout:
        """The `right` with `right.direct_sum(self, ...) == total`; interleaved_shape is (l0, r0, l1, r1, ...). Raises LayoutError."""
        from symbolic.layout import algebra
        return algebra.other_summand(self, total, interleaved_shape, left_shape, own=0)

    def slice(self, shape: Sequence[Any], region: Sequence[tuple[Any, Any]], facts: Facts | None = None) -> TileLayout:
        """The layout of the part `[begin, end)` of each dimension, which may be symbolic.

        Raises LayoutError where no layout is it, and for bounds that are provably outside; undecided ones are taken as meant.
        """
        from symbolic.layout import algebra
        return algebra.slice_layout(self, shape, region, facts)

    def view(self, old_shape: Sequence[Any], new_shape: Sequence[Any], facts: Facts | None = None) -> TileLayout:
        """The layout of the same elements, in the same row-major order, seen as `new_shape`: this one, once the sizes agree."""
        for shape in (old_shape, new_shape):
            digits.check_size(product(i.extent for i in self.shard), tuple(read(e) for e in shape), self.notation(), facts or NOTHING_KNOWN)
        return self

    def permute(self, shape: Sequence[Any], order: Sequence[int], facts: Facts | None = None) -> TileLayout:
        """The layout of the transposed view: dimension d of the result is dimension order[d] of `shape`."""
        grouped, seps = self.group(shape, facts)
        return grouped.permute_by_groups(seps, order)

    def permute_dims(self, order: Sequence[int]) -> TileLayout:
        """The shard iters in another order. Raises LayoutError unless `order` is a permutation of all of them."""
        return self.permute_by_groups(list(range(len(self.shard) + 1)), order)

    def permute_by_groups(self, seps: Sequence[int], order: Sequence[int]) -> TileLayout:
        """Groups of shard iters in another order; group d is the iters seps[d] up to seps[d + 1]."""
        if sorted(order) != list(range(len(seps) - 1)):
            raise LayoutError(f"{list(order)} is no permutation of the {len(seps) - 1} groups of {self.notation()}")
        return self.rebuilt([i for d in order for i in self.shard[seps[d]:seps[d + 1]]])

    def pack(self, count: int) -> TileLayout:
        """The layout when `count` neighbouring elements become one. Raises LayoutError unless the innermost iter is dense and
        every stride and the offset along its axis are multiples of `count`."""
        from symbolic.layout import algebra
        return algebra.pack(self, count)

    def unpack(self, count: int) -> TileLayout:
        """The layout when each element becomes `count` neighbouring ones: along `m`, strides and offset grow, `count:1` is added."""
        from symbolic.layout import algebra
        return algebra.unpack(self, count)

    def broadcast(self, count: Any, position: int = -1, along: Axis | str = "m") -> TileLayout:
        """A new shard iter of stride 0 at `position`: each element is seen `count` times. -1 is after the last iter."""
        at = position + len(self.shard) + 1 if position < 0 else position
        if not 0 <= at <= len(self.shard):
            raise LayoutError(f"position {position} is outside of {self.notation()}, which has {len(self.shard)} iters")
        return self.rebuilt([*self.shard[:at], Iter(read(count, "a count"), 0, axis(along)), *self.shard[at:]])

    def storage(self) -> TileLayout:
        """The part that one thread holds: memory axes only."""
        return self.rebuilt([i for i in self.shard if i.axis.is_memory], [i for i in self.replica if i.axis.is_memory],
                            {a: v for a, v in self._offset if a.is_memory})

    def compose(self, inner: TileLayout) -> TileLayout:
        """This after `inner`: its `m` is a linear index into this layout. Raises LayoutError where no layout is it."""
        from symbolic.layout import inverse
        return inverse.compose(self, inner)

    def complement(self, size: int | None = None) -> TileLayout:
        """The layout of the gaps: with it, this one reaches each place below `size` exactly once. By default that is the
        span, rounded up to whole blocks.

        One axis only. Raises LayoutError for overlaps, and where the gaps are no layout.
        """
        from symbolic.layout import inverse
        return inverse.complement(self, size)

    def inverse(self) -> Inverse:
        """From places back to elements. Raises LayoutError unless the layout is injective."""
        from symbolic.layout import inverse
        return inverse.inverse(self)

    def is_injective(self) -> bool | None:
        """Whether no two elements share a place, copies included: proved either way; None if symbols leave it open."""
        from symbolic.layout import inverse
        return inverse.is_injective(self)

    def is_surjective(self, **extents: int) -> bool | None:
        """Whether every place is hit: from 0 up to `extents[axis]`, or from the least to the greatest coordinate of the axis.

        Proved either way; None if symbols leave it open."""
        from symbolic.layout import inverse
        return inverse.is_surjective(self, extents)

    # ---- other notations, measures, pictures ------------------------------------------------------------------------

    def to_cute(self, shape: Sequence[int] | None = None) -> CuteLayout:
        """CuTe's `(shape):(stride)`, one mode per dimension of `shape` (else per shard iter), nested where a dimension has several."""
        from symbolic.layout import cute
        return cute.to_cute(self, shape)

    def to_linear(self, shape: Sequence[int]) -> LinearLayout:
        """The matrix over F2 from places to coordinates in `shape`. Raises LayoutError unless all is a power of two."""
        from symbolic.layout import linear
        return linear.to_linear(self, shape)

    def bank_conflicts(self, access: Any, dtype: str, shape: Sequence[int] | None = None, vector: int = 1) -> BankConflicts:
        """What a warp's access to shared memory costs; see `symbolic.layout.banks.bank_conflicts`."""
        from symbolic.layout import banks
        return banks.bank_conflicts(self, access, dtype, shape, vector)

    def svg(self, shape: Sequence[int] | None = None, color_by: str | None = None, dtype: str | None = None) -> str:
        """A picture: a grid of `shape` whose cells show owner and register, coloured by an axis or "bank"; see `picture.svg`."""
        from symbolic.layout import picture
        return picture.svg(self, shape, color_by, dtype)

    def _repr_svg_(self) -> str | None:
        from symbolic.layout import picture
        return picture.for_notebook(self)

    def elements(self) -> Iterator[dict[str, Any]]:
        """The place of every element, row-major. Raises LayoutError for a symbolic layout."""
        if self.is_symbolic:
            raise LayoutError(f"{self.notation()} has symbols: its elements are not listed")
        import numpy as np
        places = self.apply(np.arange(self.size()))
        columns = {name: np.broadcast_to(v, self.size()).tolist() for name, v in places.items()}
        return (dict(zip(columns, row)) for row in zip(*columns.values()))


def is_array(x: Any) -> bool:
    """A NumPy array of any rank, scalars excepted; asked without importing NumPy."""
    return type(x).__module__ == "numpy" and getattr(x, "shape", ()) != ()


def coordinate_names(rank: int) -> list[str]:
    """`i j k l ...`, or `i0 i1 ...` when there are many."""
    return list("ijklpquv"[:rank]) if rank <= 8 else [f"i{d}" for d in range(rank)]


def _as_iter(x: Any) -> Iter:
    if isinstance(x, Iter):
        return x
    if not isinstance(x, (tuple, list)) or len(x) != 3:
        raise LayoutError(f"an iter is (extent, stride, axis), not {x!r}")
    extent, stride, where = x
    return Iter(read(extent, "an extent"), read(stride, "a stride"), axis(where))


def _replica_order(i: Iter) -> tuple[Any, ...]:
    numbers = [(0, -x, ()) if isinstance(x, int) else (1, 0, x.key) for x in (i.stride, i.extent)]
    return _rank(i.axis), *numbers


def _not_empty(extents: Sequence[Value], facts: Facts | None) -> Facts:
    """`facts`, and that no extent is 0: a layout without elements is every map."""
    symbolic = [e for e in extents if e.__class__ is Int]
    known = (facts or NOTHING_KNOWN).scope() if symbolic else facts or NOTHING_KNOWN
    for e in symbolic:
        known.assume(e > 0)
    return known


def _within(coords: Sequence[Any], dims: Sequence[Value]) -> Facts:
    """Facts that each coordinate lies in its extent."""
    if not any(c.__class__ is Int for c in coords):
        return NOTHING_KNOWN
    facts = Facts()
    for c, extent in zip(coords, dims):
        if c.__class__ is Int:
            facts.bound(c, 0, extent)
    return facts

