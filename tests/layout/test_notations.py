"""CuTe's notation and linear layouts: there and back."""

from __future__ import annotations

from itertools import product as cartesian
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from symbolic.layout import (
    FRAGMENTS,
    ComposeLayout,
    CuteLayout,
    LayoutError,
    LinearLayout,
    R,
    S,
    TileLayout,
    from_cute,
    from_linear,
    laneid,
    mma_shared_layout,
    warpid,
)
from tests.layout.strategies import bijections, coordinates, shapes_of

few = settings(max_examples=100, deadline=None, derandomize=True)


# ---- CuTe ------------------------------------------------------------------------------------------------------------------

def cute_index(shape: Any, stride: Any, coordinate: Any) -> int:
    """CuTe's own definition: an integer coordinate of a nested mode is split from the left."""
    if not isinstance(shape, tuple):
        return int(coordinate * stride)
    if isinstance(coordinate, int):
        split = []
        for e in shape:
            size = int(np.prod(flat(e)))
            split.append(coordinate % size)
            coordinate //= size
        coordinate = tuple(split)
    return sum(cute_index(e, s, c) for e, s, c in zip(shape, stride, coordinate))


def flat(x: Any) -> list[int]:
    return [y for part in x for y in flat(part)] if isinstance(x, tuple) else [x]


nested = st.recursive(st.integers(1, 4), lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=5)


@few
@given(nested.filter(lambda s: np.prod(flat(s)) <= 300), st.data())
def test_from_cute_maps_as_cute(shape: Any, data: Any) -> None:
    def like(x: Any) -> Any:
        return tuple(map(like, x)) if isinstance(x, tuple) else data.draw(st.integers(-3, 20))
    stride = like(shape)
    layout = from_cute(shape, stride)
    dims = tuple(int(np.prod(flat(e))) for e in shape) if isinstance(shape, tuple) else (shape,)
    for c in coordinates(dims)[:60]:
        assert layout.apply(*c, shape=dims).get("m", 0) == cute_index(shape, stride, c if isinstance(shape, tuple) else c[0])
    assert from_cute(str(CuteLayout(shape, stride))) == layout
    again = layout.to_cute(dims)
    assert from_cute(*again).canonicalize() == layout.canonicalize()


def test_cute_text() -> None:
    assert str(TileLayout(S[(2, 4, 8):(1, 16, 2)]).to_cute((8, 8))) == "((4,2),8):((16,1),2)"
    assert str(TileLayout(S[4, 8]).to_cute()) == "(4,8):(8,1)" and str(TileLayout(S[32]).to_cute()) == "32:1"
    assert repr(from_cute("((2,4),8):((1,16),2)")) == "TileLayout(S[(4, 2, 8):(16, 1, 2)])"
    assert repr(from_cute((4, 8))) == "TileLayout(S[(4, 8):(1, 4)])"             # compact, the left dense
    assert repr(from_cute((4, 8), (1, 4), "laneid")) == "TileLayout(S[(4, 8):(1@laneid, 4@laneid)])"
    n = sympy.Symbol("n")
    assert TileLayout(S[(n, 8):(8, 1)]).to_cute() == ((n, 8), (8, 1)) and from_cute((n, 8), (8, 1)) == TileLayout(S[n, 8])


# ---- linear layouts --------------------------------------------------------------------------------------------------------

powers = bijections(factors=(2, 4, 8), most=4)


@few
@given(powers, st.data())
def test_linear_is_the_inverse_map_and_comes_back(layout: TileLayout, data: Any) -> None:
    shape = data.draw(shapes_of(layout.size(), 3))
    linear = layout.to_linear(shape)
    for c in coordinates(shape)[:100]:
        assert linear.apply(**layout.apply(*c, shape=shape)) == c
    assert linear.rank() == len(linear.columns()) == layout.size().bit_length() - 1
    assert from_linear(linear).canonicalize() == layout.canonicalize()
    assert from_linear(linear).to_linear(shape) == linear


@pytest.mark.parametrize("mode", ("32B", "64B", "128B"))
@pytest.mark.parametrize("dtype", ("float32", "float16", "int8"))
def test_swizzles_are_linear(mode: str, dtype: str) -> None:
    for shape in ((8, 128), (64, 128), (2, 16, 128)):
        layout = mma_shared_layout(dtype, mode, shape)
        linear = layout.to_linear(shape)
        for c in coordinates(shape)[::37]:
            assert linear.apply(**layout.apply(*c, shape=shape)) == c
        back = from_linear(linear)
        assert back.to_linear(shape) == linear
        assert all(back.apply(*c, shape=shape) == layout.apply(*c, shape=shape) for c in coordinates(shape)[::37])


@pytest.mark.parametrize("inner", (True, False))
def test_every_small_swizzle_comes_back(inner: bool) -> None:
    for p, b, more in cartesian(range(3), range(1, 3), range(2)):
        layout = ComposeLayout(p, b, b + more, TileLayout(S[128]), inner)
        back = from_linear(layout.to_linear((128,)))
        assert [back.apply(x) for x in range(128)] == [layout.apply(x) for x in range(128)]


def test_fragments_are_linear() -> None:
    for row in FRAGMENTS.values():
        assert from_linear(row.layout.to_linear(row.shape)).canonicalize() == row.layout.canonicalize()


def test_tritons_form() -> None:
    """mma m16n8k16's accumulator, as Triton writes its bases: register, lane."""
    linear = TileLayout(S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)]).to_linear((16, 8))
    assert linear == LinearLayout({"m": ((0, 1), (8, 0)), "laneid": ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))}, (16, 8))
    assert linear.matrix().tolist() == [[1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0],
                                        [0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0]]


def test_copies_are_bits_that_stand_for_nothing() -> None:
    layout = TileLayout(S[(8, 4, 2):(4@laneid, 1@laneid, 1)] + R[2:1@warpid])
    linear = layout.to_linear((8, 8))
    assert linear.bases["warpid"] == ((0, 0),) and linear.rank() == 6
    assert linear.apply(laneid=5, m=1, warpid=1) == linear.apply(laneid=5, m=1, warpid=0) == (1, 3)
    assert from_linear(linear) == layout.canonicalize()


def test_a_swizzle_beyond_the_tile_is_refused() -> None:
    with pytest.raises(LayoutError, match="its swizzle reaches beyond 8 addresses"):
        ComposeLayout(0, 2, 3, TileLayout(S[8]), swizzle_inner=False).to_linear((8,))
