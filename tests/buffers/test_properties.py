"""Random layouts, offsets and vector widths: the simulator agrees with the layout element by element, wide moves are aligned runs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runtime
from codegen.packets import is_packet, moved, moves_whole
from symbolic import integers as si
from symbolic.layout.swizzle import ComposeLayout
from symbolic.layout.tile import TileLayout
from tests.runtime.calls import recorded
from tracer import T, trace
from tracer import operations as ops
from tracer.errors import ArgumentValueError


@st.composite
def tiles(draw, rows, columns):
    """A layout of (rows, columns) elements: each axis in one or two pieces, in any order in memory, with gaps."""
    iters = []
    for size in (rows, columns):
        inner = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        iters += [size // inner, inner]
    strides, step = [0] * 4, 1
    for axis in draw(st.permutations(range(4))):
        strides[axis] = step
        step = step * iters[axis] + draw(st.sampled_from([0, 0, 0, 1, 4]))
    return TileLayout.from_iters([(e, s, "m") for e, s in zip(iters, strides)], offset={"m": draw(st.sampled_from([0, 0, 3, 4]))})


@st.composite
def layouts(draw, rows, columns):
    tile = draw(tiles(rows, columns))
    if draw(st.booleans()):
        return tile
    length = draw(st.integers(0, 2))
    return ComposeLayout(draw(st.integers(0, 2)), length, draw(st.integers(length, 3)), tile)


@st.composite
def kernels(draw):
    """A kernel that moves rows of vectors through a shared tile, and the permutation of (row, chunk) that it does."""
    lanes, rows, chunks = draw(st.sampled_from([2, 4])), draw(st.sampled_from([4, 8])), draw(st.sampled_from([1, 2, 3]))
    columns = lanes * chunks
    layout = draw(layouts(rows, columns))
    shift = draw(st.integers(0, chunks - 1))

    def kernel(A: T.Buffer((rows, columns), "float32"), B: T.Buffer((rows, columns), "float32")):
        T.device_entry()
        row, chunk = T.thread_id([rows, chunks])
        tile = T.alloc_shared((rows, columns), "float32", layout=layout)
        tile.vstore([row, chunk * lanes], A.vload([row, chunk * lanes], f"float32x{lanes}"))
        T.cuda.cta_sync()
        last = (chunk + shift) % chunks
        B.vstore([row, chunk * lanes], tile.vload([rows - 1 - row, last * lanes], f"float32x{lanes}"))

    return kernel, (rows, chunks, lanes), shift, layout


def evaluated(expression, lowered, point):
    """The value at a thread; the author's named values are written out."""
    known = {}
    for symbol in si.free_symbols(expression):
        node = lowered.atoms[symbol]
        known[symbol] = point[node.attrs["axis"]] if node.op in (ops.SCOPE_ID, ops.THREAD_INDEX) else evaluated(node.sym, lowered, point)
    return si.substitute(expression, known).value


@settings(max_examples=60, deadline=None)
@given(kernels())
def test_vectors_through_a_tile_of_any_layout(made):
    fn, (rows, chunks, lanes), shift, layout = made
    kernel = trace(fn)
    a = np.arange(rows * chunks * lanes, dtype="float32").reshape(rows, chunks * lanes)
    b = np.zeros_like(a)
    half = kernel.half
    for node, access in half.lowered.accesses.items():
        assert node.op in (ops.LOAD, ops.STORE) and is_packet(node)
        for row in range(rows):
            for chunk in range(chunks):
                place = [evaluated(access.lane(k), half.lowered, (row, chunk)) for k in range(lanes)]
                if access.buffer.name == "tile":
                    at = [evaluated(c, half.lowered, (row, chunk)) for c in access.coords]
                    assert place == [layout.apply(at[0], at[1] + k, shape=(rows, chunks * lanes))["m"] for k in range(lanes)]
                if moves_whole(node, half.lowered):
                    assert place == list(range(place[0], place[0] + lanes)) and place[0] * 4 % moved(node).alignment == 0
    runtime.simulate(kernel, a, b, checks=False)
    expected = np.roll(a.reshape(rows, chunks, lanes)[::-1], -shift, axis=1).reshape(rows, chunks * lanes)
    np.testing.assert_array_equal(b, expected)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_an_argument_of_any_layout(data):
    """What the host half takes lies within the array; what the kernel writes lies where the layout says."""
    rows, columns = data.draw(st.sampled_from([(4, 6), (8, 8), (3, 5)]))
    layout = data.draw(layouts(rows, columns))

    def fill(A: T.Buffer((rows, columns), "float32", layout=layout)):
        T.device_entry()
        i, j = T.thread_id([rows, columns])
        A[i, j] = (i * columns + j + 1).astype("float32")

    span = layout.span("m")
    if span <= rows * columns:
        memory = np.zeros(rows * columns, "float32")
        trace(fill)(memory.reshape(rows, columns))
    else:
        with pytest.raises(ArgumentValueError, match="the layout needs|elements into its storage"):
            recorded(trace(fill), np.zeros((rows, columns), "float32"))
        return
    expected = np.zeros(math.prod((rows, columns)), "float32")
    for i in range(rows):
        for j in range(columns):
            expected[layout.apply(i, j, shape=(rows, columns))["m"]] = i * columns + j + 1
    np.testing.assert_array_equal(memory, expected)
