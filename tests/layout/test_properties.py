"""Laws, on random layouts: any extents, strides of any sign, copies, symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from symbolic import Facts, FloorDiv, Symbol, const, from_sympy, named, substitute, text, to_int
from symbolic.layout import AXES, ComposeLayout, Iter, LayoutError, R, S, TileLayout, laneid, warpid
from symbolic.layout.values import product
from tests.layout.strategies import bijections, coordinates, defined, layouts, layouts_and_shapes, shapes_of, table


def moved(place: dict[str, int]) -> dict[str, int]:
    """A place without the axes along which nothing moves."""
    return {a: v for a, v in place.items() if v}


few = settings(max_examples=80, deadline=None, derandomize=True)


# ---- apply -------------------------------------------------------------------------------------------------------------

@few
@given(layouts_and_shapes())
def test_apply_is_the_definition(case: Any) -> None:
    layout, shape = case
    for c in coordinates(shape)[:200]:
        assert layout.apply(*c, shape=shape) == defined(layout, c, shape)


@few
@given(layouts_and_shapes())
def test_arrays_are_applied_at_once(case: Any) -> None:
    layout, shape = case
    arrays = [np.array(column) for column in zip(*coordinates(shape))]
    places = layout.apply(*arrays, shape=shape)
    for k, c in enumerate(coordinates(shape)[:50]):
        assert {a: int(np.broadcast_to(v, layout.size())[k]) for a, v in places.items()} == defined(layout, c, shape)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(layouts_and_shapes())
def test_symbolic_coordinates_substituted_afterwards(case: Any) -> None:
    layout, shape = case
    symbols = [Symbol(n) for n in "ijkl"[:len(shape)]]
    place = layout.apply(*symbols, shape=shape)
    for c in coordinates(shape)[::7][:20]:
        values = dict(zip(symbols, c))
        assert {a: substitute(to_int(e), values).value for a, e in place.items()} == defined(layout, c, shape)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_symbolic_extents_and_strides_substituted_afterwards(data: Any) -> None:
    """Extents n0, n1, .. and strides that are symbols, grouped by any boundary of the shape; then numbers for all of them."""
    rank = data.draw(st.integers(1, 4))
    extents = [data.draw(st.one_of(st.integers(1, 5), st.just(named(f"n{k}")))) for k in range(rank)]
    strides = [data.draw(st.one_of(st.integers(-4, 9), st.just(named(f"s{k}")))) for k in range(rank)]
    axes = [AXES[data.draw(st.sampled_from(("m", "laneid")))] for _ in range(rank)]
    layout = TileLayout.from_iters([Iter(e, s, a) for e, s, a in zip(extents, strides, axes)])
    cuts = data.draw(st.lists(st.booleans(), min_size=rank - 1, max_size=rank - 1))
    shape: list[Any] = [extents[0]]
    for cut, e in zip(cuts, extents[1:]):
        if cut: shape.append(e)
        else: shape[-1] = shape[-1] * e
    coords = [Symbol(f"c{d}") for d in range(len(shape))]
    place = layout.apply(*coords, shape=shape)

    numbers = {named(f"n{k}"): data.draw(st.integers(1, 5)) for k in range(rank)}
    numbers |= {named(f"s{k}"): data.draw(st.integers(-3, 9)) for k in range(rank)}

    def number(x: Any) -> int:
        return int(substitute(to_int(x), numbers).value)

    dims = tuple(map(number, shape))
    plain = TileLayout.from_iters([(number(i.extent), number(i.stride), i.axis) for i in layout.shard])
    for c in coordinates(dims)[:40]:
        values = {**numbers, **dict(zip(coords, c))}
        assert {a: substitute(to_int(e), values).value for a, e in place.items()} == defined(plain, c, dims)


@few
@given(layouts_and_shapes(), st.data())
def test_replicas_are_the_sums_over_copies(case: Any, data: Any) -> None:
    layout, shape = case
    c = data.draw(st.sampled_from(coordinates(shape)))
    places = layout.replicas(*c, shape=shape)
    assert places[0] == layout.apply(*c, shape=shape)
    assert len(places) == product(i.extent for i in layout.replica)
    expected = [defined(layout, c, shape)]
    for it in layout.replica:
        expected = [{**p, it.axis.name: p[it.axis.name] + k * it.stride} for p in expected for k in range(it.extent)]
    assert sorted(map(str, places)) == sorted(map(str, expected))


# ---- the same map, written otherwise --------------------------------------------------------------------------------------

@few
@given(layouts_and_shapes())
def test_canonicalize_keeps_the_map(case: Any) -> None:
    layout, shape = case
    canonical = layout.canonicalize()
    assert table(canonical, shape) == table(layout, shape)
    assert canonical.canonicalize() == canonical
    assert len(canonical.shard) <= len(layout.shard)
    def displacements(x: TileLayout) -> list[str]:
        return sorted(str({a: v for a, v in r.items() if v}) for r in x.replicas())
    assert displacements(canonical) == displacements(layout)


@few
@given(layouts_and_shapes())
def test_group_keeps_the_map_and_owns_the_dimensions(case: Any) -> None:
    layout, shape = case
    try:
        grouped, seps = layout.group(shape)
    except LayoutError:
        # Refused rightly: some boundary of the shape divides no iter of the canonical layout.
        canonical = layout.canonicalize().shard
        ends = {product(i.extent for i in canonical[:n]) for n in range(len(canonical) + 1)}
        assert not all(product(shape[:d]) in ends for d in range(1, len(shape)))
        return
    assert seps[0] == 0 and seps[-1] == len(grouped.shard)
    assert [product(i.extent for i in grouped.shard[a:b]) for a, b in zip(seps, seps[1:])] == list(shape)
    assert table(grouped, shape) == table(layout, shape)


@few
@given(layouts())
def test_repr_rebuilds(layout: TileLayout) -> None:
    again = eval(repr(layout), {"TileLayout": TileLayout, "S": S, "R": R, **AXES})
    assert again == layout and hash(again) == hash(layout)


@few
@given(layouts(replicas=False))
def test_span_is_one_more_than_the_greatest(layout: TileLayout) -> None:
    places = list(layout.elements())
    for axis in layout.axes:
        assert layout.span(axis) == max(p[axis.name] for p in places) + 1


# ---- algebra ---------------------------------------------------------------------------------------------------------------

@st.composite
def tilings(draw: Any) -> Any:
    """(inner, inner_shape, outer, outer_shape), each grouped by its shape."""
    rank = draw(st.integers(1, 3))
    made: list[Any] = []
    for _ in range(2):
        one = st.builds(lambda e, s, a: Iter(e, s, AXES[a]), st.integers(1, 4), st.integers(0, 9), st.sampled_from(("m", "laneid")))
        groups = [draw(st.lists(one, min_size=1, max_size=2)) for _ in range(rank)]
        layout = TileLayout.from_iters([i for g in groups for i in g], offset=draw(st.dictionaries(st.just("m"), st.integers(1, 5))))
        made += [layout, tuple(product(i.extent for i in g) for g in groups)]
    return made


@few
@given(tilings())
def test_tile_is_inner_plus_scaled_outer(case: Any) -> None:
    inner, inside, outer, outside = case
    tiled = inner.tile(outer, outside, inside)
    core = inner.canonicalize()
    factor = {a.name: inner.span(a) if any(i.axis is a for i in core.shard) else 1 for a in (*inner.axes, *outer.axes)}
    whole = tuple(a * b for a, b in zip(outside, inside))
    for c in coordinates(whole)[::3][:60]:
        low = inner.apply(*[x % e for x, e in zip(c, inside)], shape=inside)
        high = outer.apply(*[x // e for x, e in zip(c, inside)], shape=outside)
        place = tiled.apply(*c, shape=whole)
        for axis in {*low, *high, *place}:
            start = outer.offset.get(axis, 0)
            assert place.get(axis, 0) == low.get(axis, 0) + (high.get(axis, 0) - start) * factor[axis] + start


@few
@given(tilings())
def test_factors_give_the_tile_back(case: Any) -> None:
    inner, inside, outer, outside = case
    tiled = inner.tile(outer, outside, inside)
    whole = tuple(a * b for a, b in zip(outside, inside))
    assert inner.tile(inner.is_tile_inner(tiled, whole, inside), outside, inside) == tiled
    assert outer.is_tile_outer(tiled, whole, outside).tile(outer, outside, inside) == tiled


@few
@given(tilings())
def test_direct_sum_adds_and_is_taken_apart(case: Any) -> None:
    right, rs, left, ls = case
    total = right.direct_sum(left, ls, rs)
    whole = tuple(a * b for a, b in zip(ls, rs))
    for c in coordinates(whole)[::3][:60]:
        low = right.apply(*[x % e for x, e in zip(c, rs)], shape=rs)
        high = left.apply(*[x // e for x, e in zip(c, rs)], shape=ls)
        place = total.apply(*c, shape=whole)
        assert all(place.get(a, 0) == low.get(a, 0) + high.get(a, 0) for a in {*low, *high, *place})
    both = [e for pair in zip(ls, rs) for e in pair]
    assert right.direct_sum(right.is_direct_sum_right(total, both, rs), ls, rs) == total
    assert left.is_direct_sum_left(total, both, ls).direct_sum(left, ls, rs) == total


@settings(max_examples=150, deadline=None, derandomize=True)
@given(layouts_and_shapes(), st.data())
def test_slice_is_the_part(case: Any, data: Any) -> None:
    layout, shape = case
    region = [data.draw(st.integers(0, e - 1).flatmap(lambda b, e=e: st.tuples(st.just(b), st.integers(b + 1, e)))) for e in shape]
    try:
        part = layout.slice(shape, region)
    except LayoutError:
        return
    inside = tuple(e - b for b, e in region)
    assert part.size() == product(inside)
    for c in coordinates(inside)[:80]:
        assert moved(part.apply(*c, shape=inside)) == moved(layout.apply(*[b + x for (b, _), x in zip(region, c)], shape=shape))


def is_a_layout(places: list[tuple[int, ...]]) -> bool:
    """Whether iters can make the sequence: steps of some length d, alike in each block of d, and a layout of the blocks' starts."""
    if len(places) == 1:
        return True
    def less(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(x - y for x, y in zip(a, b))
    step = less(places[1], places[0])
    if sum(x != 0 for x in step) > 1:           # an iter moves along one axis
        return False
    for d in range(2, len(places) + 1):
        if len(places) % d == 0 and all(less(places[k], places[k - 1]) == step for k in range(1, len(places)) if k % d) \
                and is_a_layout(places[::d]):
            return True
    return False


def test_a_slice_that_is_refused_is_no_layout() -> None:
    """Every slice of every two-iter dimension of a small set: given when some layout is it, refused when none is."""
    given_, refused = 0, 0
    for a, b, s, t, axes in [(a, b, s, t, axes) for a in (2, 3, 4) for b in (2, 3, 4, 6) for s in (1, 5, 12, -7) for t in (1, 2, -3)
                             for axes in ("mm", "ml")]:
        layout = TileLayout.from_iters([(a, s, "m"), (b, t, "m" if axes[1] == "m" else "laneid")])
        places = [(p.get("m", 0), p.get("laneid", 0)) for p in layout.elements()]
        for begin in range(a * b):
            for end in range(begin + 1, a * b + 1):
                try:
                    part = layout.slice((a * b,), [(begin, end)])
                except LayoutError:
                    assert not is_a_layout(places[begin:end]), (layout, begin, end)
                    refused += 1
                else:
                    assert [(p.get("m", 0), p.get("laneid", 0)) for p in part.elements()] == places[begin:end]
                    given_ += 1
    assert (given_, refused) == (10852, 13388)


@few
@given(layouts_and_shapes(), st.data())
def test_permute_is_the_transposed_view(case: Any, data: Any) -> None:
    layout, shape = case
    order = data.draw(st.permutations(range(len(shape))))
    try:
        turned = layout.permute(shape, order)
    except LayoutError:
        return
    dims = tuple(shape[d] for d in order)
    for c in coordinates(dims)[:60]:
        back = [0] * len(shape)
        for d, x in zip(order, c):
            back[d] = x
        assert moved(turned.apply(*c, shape=dims)) == moved(layout.apply(*back, shape=shape))


@few
@given(layouts(), st.sampled_from((2, 3, 4)))
def test_unpack_then_pack(layout: TileLayout, count: int) -> None:
    wide = layout.unpack(count)
    axis = wide.shard[-1].axis.name
    for x in range(min(layout.size(), 40)):
        place = layout.apply(x)
        for k in range(count):
            assert wide.apply(x * count + k) == {**place, axis: place.get(axis, 0) * count + k}
    assert wide.pack(count).canonicalize() == layout.canonicalize() or layout.canonicalize().size() == 1


@few
@given(layouts(), st.integers(1, 4), st.data())
def test_broadcast_repeats(layout: TileLayout, count: int, data: Any) -> None:
    at = data.draw(st.integers(-len(layout.shard) - 1, len(layout.shard)))
    wide = layout.broadcast(count, at)
    k = at + len(layout.shard) + 1 if at < 0 else at
    outer = product(i.extent for i in layout.shard[:k])
    inner = product(i.extent for i in layout.shard[k:])
    for c in coordinates((outer, count, inner))[:60]:
        assert moved(wide.apply(*c, shape=(outer, count, inner))) == moved(layout.apply(c[0], c[2], shape=(outer, inner)))


# ---- inverse, composition, complement ---------------------------------------------------------------------------------------

@settings(max_examples=150, deadline=None, derandomize=True)
@given(layouts())
def test_injective_and_surjective_by_counting(layout: TileLayout) -> None:
    displacements = layout.replicas()
    seen: dict[Any, int] = {}
    injective = True
    for number, place in enumerate(layout.elements()):
        for d in displacements:
            key = tuple(place[a] + d[a] for a in place)
            injective &= seen.setdefault(key, number) == number
    assert layout.is_injective() == injective
    sides = [{key[k] for key in seen} for k in range(len(layout.axes))]
    box = product(max(s) - min(s) + 1 for s in sides)
    assert layout.is_surjective() == (len(seen) == box)


@few
@given(layouts(replicas=False, most=4, strides=st.integers(-40, 40)), st.data())
def test_inverse_undoes_apply(layout: TileLayout, data: Any) -> None:
    try:
        inverse = layout.inverse()
    except LayoutError:
        return
    assert layout.is_injective()
    shape = data.draw(shapes_of(layout.size()))
    for number, place in enumerate(layout.elements()):
        assert inverse.index(**place) == number
        assert layout.apply(*inverse.coordinate(shape, **place), shape=shape) == place
    arrays = {a: np.array([p[a] for p in layout.elements()]) for a in (x.name for x in layout.axes)}
    assert np.broadcast_to(inverse.index(**arrays), layout.size()).tolist() == list(range(layout.size()))


@few
@given(bijections())
def test_the_inverse_of_a_bijection_is_a_layout(layout: TileLayout) -> None:
    back = layout.inverse().layout()
    axes = list(layout.axes)
    box = tuple(layout.span(a) for a in axes)
    assert layout.is_injective() and layout.is_surjective()
    for number, place in enumerate(layout.elements()):
        assert back.apply(*[place[a.name] for a in axes], shape=box) == {"m": number}
    symbols = {a.name: Symbol(a.name) for a in axes}
    index = layout.inverse().index(**symbols)
    for number, place in enumerate(layout.elements()):
        assert substitute(to_int(index), {symbols[a]: v for a, v in place.items()}).value == number


@few
@given(bijections(axes=("m",), most=4), layouts(replicas=False, offsets=False), st.data())
def test_compose_is_one_after_the_other(inner: TileLayout, outer: TileLayout, data: Any) -> None:
    extra = data.draw(st.integers(1, 3))
    outer = outer.tile(TileLayout(S[inner.size() * extra:1@laneid]), (inner.size() * extra,), (outer.size(),))
    try:
        both = outer.compose(inner)
    except LayoutError:
        return
    for x in range(inner.size()):
        assert moved(both.apply(x)) == moved(outer.apply(inner.apply(x)["m"]))


def test_compose_is_tried_often_enough() -> None:
    """CuTe's worked example, and the cases that the law above skips: offsets, broadcasts, what is refused."""
    outer = TileLayout(S[(20, 2):(16, 4)])
    assert repr(outer.compose(TileLayout(S[(4, 5):(1, 4)]))) == "TileLayout(S[(2, 2, 5):(16, 4, 32)])"
    assert repr(TileLayout(S[(4, 8):(1, 4)]).compose(TileLayout(S[(2, 2, 8):(16, 1, 2)]))) == "TileLayout(S[(2, 2, 2, 4):(2, 4, 1, 8)])"
    assert repr(TileLayout(S[32:1@laneid]).compose(TileLayout(S[(4, 8):(8, 0)] + 1))) == "TileLayout(S[(4, 8):(8@laneid, 0@laneid)] + 1@laneid)"
    for inner, why in ((S[(2, 2):(3, 2)], "do not fit between"), (S[4:-1] + 3, "negative stride"), (S[4:2@laneid], "along m alone"),
                       (S[(2, 2):(4, 1)] + 1, "carries into its own steps")):
        with pytest.raises(LayoutError, match=why):
            TileLayout(S[8:1]).compose(TileLayout(inner))


@few
@given(bijections(axes=("m",)), st.data())
def test_complement_fills_the_gaps(full: TileLayout, data: Any) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(full.shard), max_size=len(full.shard)))
    kept = [i for i, k in zip(full.shard, keep) if k]
    if not kept:
        return
    layout = TileLayout.from_iters(kept)
    gaps = layout.complement(full.size())
    total = sorted(a["m"] + b["m"] for a in layout.elements() for b in gaps.elements())
    assert total == list(range(full.size()))


# ---- swizzles --------------------------------------------------------------------------------------------------------------

@few
@given(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2), st.booleans())
def test_a_swizzle_is_its_own_inverse(p: int, b: int, more: int, inner: bool) -> None:
    layout = ComposeLayout(p, b, b + more, swizzle_inner=inner)
    addresses = np.arange(4 * layout.swizzle.period)
    once = layout.swizzle(addresses)
    assert np.array_equal(layout.swizzle(once), addresses) and np.array_equal(np.sort(once), addresses)
    assert layout.is_injective() and layout.is_surjective()
    a = Symbol("a")
    facts = Facts()
    facts.bound(a, 0, layout.size())
    address = layout.apply(a, facts=facts)["m"]
    back = layout.inverse().index(facts, m=a)
    for x in range(0, layout.size(), 5):
        assert substitute(to_int(address), {a: x}).value == once[x]
        assert substitute(to_int(back), {a: const(once[x])}).value == x


# ---- SymPy -----------------------------------------------------------------------------------------------------------------

@settings(max_examples=25, deadline=None, derandomize=True)
@given(layouts_and_shapes())
def test_sympy_in_sympy_out(case: Any) -> None:
    layout, shape = case
    symbols = sympy.symbols("i j k l", integer=True, nonnegative=True)[:len(shape)]
    place = layout.apply(*symbols, shape=shape)
    for c in coordinates(shape)[::11][:10]:
        values = dict(zip(symbols, c))
        assert {a: int(sympy.sympify(e).subs(values)) for a, e in place.items()} == defined(layout, c, shape)
        assert {s for e in place.values() for s in sympy.sympify(e).free_symbols} <= set(symbols)


def test_the_first_example_of_the_specification() -> None:
    i, j = sympy.symbols("i j", integer=True, nonnegative=True)
    pair = TileLayout(S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid)
    place = {axis: text(from_sympy(e)) for axis, e in pair.apply(i, j, shape=(8, 16)).items()}
    assert place == {"laneid": "i*4 + j//2 % 4", "warpid": "j//8 + 5", "m": "j % 2"}
    assert text(TileLayout(S[(4, 8):(16, 1)]).apply(i, j, shape=(4, 8))["m"]) == "i*16 + j"


def test_kinds_in_kinds_out() -> None:
    layout = TileLayout(S[(4, 8):(16, 1)] + 5@warpid)
    assert layout.apply(2, 3, shape=(4, 8)) == {"m": 35, "warpid": 5}
    i = named("i")
    assert repr(layout.apply(i, 3, shape=(4, 8))) == "{'m': i*16 + 3, 'warpid': 5}"
    assert {type(e) for e in layout.apply(i, 3, shape=(4, 8)).values()} == {type(i)}
    assert {type(e) for e in layout.apply(2, 3, shape=(4, 8)).values()} == {int}
    x = sympy.Symbol("x", integer=True, nonnegative=True)
    assert all(isinstance(e, sympy.Basic) for e in layout.apply(2, x, shape=(4, 8)).values())
    assert isinstance(ComposeLayout(3, 3, 3).apply(const(9))["m"], type(i)) and ComposeLayout(3, 3, 3).apply(72) == {"m": 64 + 8 ^ 8}
    assert layout.inverse().coordinate((4, 8), m=x, warpid=5)[0].free_symbols == {x}
    n = sympy.Symbol("n", integer=True, positive=True)
    rows = TileLayout(S[(n, 8):(16, 1)])
    assert rows.size() == 8 * n and rows.span() == 16 * n - 8 and rows.extents == (n, 8)
    assert repr(TileLayout(S[(i, 8):(16, 1)]).size()) == "i*8"
    assert ComposeLayout(3, 3, 3, TileLayout(S[(n, 8, 64):(512, 64, 1)])).span() == 512 * n
    assert ComposeLayout(3, 3, 3, TileLayout(S[n:1])).span() == 64 * FloorDiv(n + 63, 64)
