"""Which arrays a buffer parameter takes: strides, offsets, vectors of elements, memory that a layout divides up."""

import numpy as np
import pytest

from symbolic.layout.notation import S
from symbolic.layout.swizzle import ComposeLayout
from symbolic.layout.tile import TileLayout
from tests.buffers.cuda import body
from tests.runtime.calls import recorded
from tracer import T, trace
from tracer.errors import ArgumentValueError

A = np.arange(1, 33, dtype="float32").reshape(4, 8)


def copy_into(**options):
    """Copies A into a (4, 8) buffer that is declared with `options`."""
    def copy(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32", **options)):
        T.device_entry()
        i, j = T.thread_id([4, 8])
        B[i, j] = A[i, j]
    return trace(copy)


def refused(kernel, *args):
    with pytest.raises(ArgumentValueError) as caught:
        kernel(*args)
    return str(caught.value).rsplit(" (argument", 1)[0]


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


# ---- strides -------------------------------------------------------------------------------------------------------------

def test_padded_rows():
    kernel = copy_into(layout=TileLayout(S[(4, 8):(16, 1)]))
    base = zeros(4, 16)
    kernel(A, base[:, :8])
    assert np.array_equal(base[:, :8], A) and not base[:, 8:].any()
    assert recorded(kernel, A, base[:, 8:]).values[1] == (base.ctypes.data + 32, 0, 56)
    assert refused(kernel, A, zeros(4, 8)) == "B.strides: expected (16, 1) elements, got (8, 1); the layout needs 56 elements, there are 32"
    assert refused(kernel, A, zeros(4, 24)[:, :8]) == "B.strides: expected (16, 1) elements, got (24, 1); the layout needs 56 elements, there are 80"


def test_an_axis_of_one_element_may_have_any_stride():
    def copy(B: T.Buffer((1, 8), "float32", layout=TileLayout(S[(1, 8):(16, 1)]))):
        T.device_entry()
        tx = T.thread_id([8])
        B[0, tx] = 1.0

    for array in (zeros(1, 8), zeros(4, 16)[2:3, 4:12]):
        trace(copy)(array)
        assert array.all()


@pytest.mark.parametrize("layout", [TileLayout(S[(4, 8):(1, 4)]), TileLayout(S[(2, 2, 8):(8, 16, 1)]), TileLayout(S[(4, 2, 4):(4, 16, 1)]),
                                    ComposeLayout(0, 2, 3, TileLayout(S[(4, 8):(8, 1)])), TileLayout(S[(4, 8):(-8, 1)] + 24)], ids=str)
def test_any_layout_divides_up_a_compact_array(layout):
    b = zeros(4, 8)
    copy_into(layout=layout)(A, b)
    for i in range(4):
        for j in range(8):
            assert b.reshape(-1)[layout.apply(i, j, shape=(4, 8))["m"]] == A[i, j]


def test_a_compact_array_must_hold_all_that_the_layout_reaches():
    kernel = copy_into(layout=TileLayout(S[(2, 2, 8):(20, 8, 1)]))
    assert refused(kernel, A, zeros(4, 8)) == (
        "B.strides: expected (8, 1) elements (compact, row-major), whose memory TileLayout(S[(2, 2, 8):(20, 8, 1)]) divides up, got (8, 1); the "
        "layout needs 36 elements, there are 32")
    assert "expected (8, 1) elements (compact, row-major), whose memory" in refused(
        copy_into(layout=TileLayout(S[(2, 2, 8):(8, 16, 1)])), A, zeros(4, 16)[:, :8])


def test_column_major_takes_either_form():
    kernel = copy_into(layout=TileLayout(S[(4, 8):(1, 4)]))
    columns = zeros(8, 4)
    kernel(A, columns.T)
    assert np.array_equal(columns.T, A)
    assert refused(kernel, A, zeros(4, 16)[:, :8]) == (
        "B.strides: expected (1, 4) elements, or (8, 1) for a compact array whose memory the layout divides up, got (16, 1); the layout needs 32 "
        "elements, there are 56")


@trace
def symbolic_strides(A: T.Buffer(("n", 8), "float32"), b: T.handle):
    n, s = A.shape[0], T.int32()
    B = T.match_buffer(b, (n, 8), "float32", strides=(s, 1))
    T.device_entry()
    i, j = T.thread_id([4, 8])
    with T.If(i < n):
        B[i, j] = A[i, j]


def test_symbolic_strides_are_read_from_the_argument():
    assert body(symbolic_strides)[2:] == ["if (i < n) {", "B_ptr[i * s + j] = A_ptr[i * 8 + j];", "}"]
    for width in (8, 11, 16):
        base = zeros(4, width)
        symbolic_strides(A, base[:, :8])
        assert np.array_equal(base[:, :8], A) and not base[:, 8:].any()
    assert refused(symbolic_strides, A, zeros(4, 16)[:, ::2]) == (
        "B.strides: expected (16, 1) elements, or (8, 1) for a compact array whose memory the layout divides up, got (16, 2); the layout needs 56 "
        "elements, there are 63")
    assert refused(symbolic_strides, A, zeros(4, 8)[::-1]) == "s: expected an extent of 0 or more, got -8 from B.strides[0]"
    records = np.zeros((4, 9), [("a", "float32"), ("b", "int16")])["a"][:, :8]
    assert refused(symbolic_strides, A, records) == "B.strides[0]: expected whole elements, got 13.5"


def test_a_stride_that_is_a_multiple_of_an_extent():
    @trace
    def every_other_row(A_ptr: T.handle, B: T.Buffer((4, 8), "float32")):
        m = T.int32()
        A = T.match_buffer(A_ptr, (4, 8), "float32", strides=(2 * m, 1))
        T.device_entry()
        i, j = T.thread_id([4, 8])
        B[i, j] = A[i, j] + m.astype("float32")

    base, b = np.arange(128, dtype="float32").reshape(8, 16), zeros(4, 8)
    every_other_row(base[::2, :8], b)
    assert np.array_equal(b, base[::2, :8] + 16)
    assert refused(every_other_row, zeros(4, 9)[:, :8], b) == (
        "A.strides: expected (8, 1) elements, or (8, 1) for a compact array whose memory the layout divides up, got (9, 1); the layout needs 32 "
        "elements, there are 35")       # 9 is no multiple of 2


# ---- offsets -------------------------------------------------------------------------------------------------------------

def test_an_offset_takes_the_array_that_begins_there():
    base = zeros(128)
    kernel = copy_into(elem_offset=64)
    kernel(A, base[64:96].reshape(4, 8))
    assert np.array_equal(base[64:96], A.reshape(-1)) and not base[:64].any() and not base[96:].any()
    assert refused(kernel, A, zeros(4, 8)) == (
        "B.elem_offset: expected an array whose first element lies 64 elements into its storage, got one at 0")


def test_the_offset_of_a_strided_layout_is_one_too():
    base = zeros(256)
    kernel = copy_into(elem_offset=100, layout=TileLayout(S[(4, 8):(16, 1)] + 5))
    kernel(A, base[105:169].reshape(4, 16)[:, :8])
    assert np.array_equal(base[105:169].reshape(4, 16)[:, :8], A) and np.count_nonzero(base) == 32
    assert "first element lies 105 elements into its storage, got one at 100" in refused(kernel, A, base[100:164].reshape(4, 16)[:, :8])


def test_a_symbolic_offset_is_read_from_the_argument():
    @trace
    def kernel(A: T.Buffer((4, 8), "float32"), b: T.handle):
        o = T.int32()
        B = T.match_buffer(b, (4, 8), "float32", elem_offset=o, strides=(16, 1))
        T.device_entry()
        i, j = T.thread_id([4, 8])
        B[i, j] = A[i, j] + o.astype("float32")

    assert body(kernel)[-1] == "B_ptr[o + i * 16 + j] = A_ptr[i * 8 + j] + (float)o;"
    base = zeros(4, 16)
    kernel(A, base[:, 8:])
    assert np.array_equal(base[:, 8:], A + 8) and not base[:, :8].any()


# ---- elements ------------------------------------------------------------------------------------------------------------

@trace
def doubled(A: T.Buffer(("n",), "float32x4"), B: T.Buffer(("n",), "float32x4")):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([32])
    with T.If(tx < n):
        B[tx] = A[tx] * 2.0


def test_vector_elements_are_the_last_axis_of_an_array_of_scalars():
    a, b = np.arange(40, dtype="float32").reshape(10, 4), zeros(10, 4)
    doubled(a, b)
    assert np.array_equal(b, a * 2)
    assert "const float4* __restrict__ A_ptr, float4* __restrict__ B_ptr" in doubled.cuda_source()
    assert recorded(doubled, a, b).values[:2] == ((a.ctypes.data, 0, 40), (b.ctypes.data, 0, 40))
    assert refused(doubled, a.reshape(-1), b) == "A.ndim: expected 2, the shape (n, 4), got 1, the shape (40,)"
    assert refused(doubled, a.reshape(5, 8), b) == "A.shape[1]: expected 4, got 8"
    assert refused(doubled, zeros(10, 8)[:, :4], b) == (
        "A.strides: expected (4, 1) elements (compact, row-major), got (8, 1); pass a contiguous copy")


def test_vector_elements_need_their_alignment():
    raw = zeros(64)
    start = next(i for i in range(4) if (raw.ctypes.data + 4 * i) % 16 == 4)
    misaligned = raw[start:start + 40].reshape(10, 4)
    assert refused(doubled, misaligned, zeros(10, 4)).startswith("A.data: expected an address that is a multiple of 16 (float32x4), got 0x")


def test_layouts_and_offsets_of_vectors_count_vectors():
    @trace
    def kernel(A: T.Buffer((4, 2), "float32x4", elem_offset=2, layout=TileLayout(S[(4, 2):(4, 1)])), B: T.Buffer((4, 2), "float32x4")):
        T.device_entry()
        i, j = T.thread_id([4, 2])
        B[i, j] = A[i, j]

    assert body(kernel)[-1] == "B_ptr[i * 2 + j] = A_ptr[i * 4 + j + 2];"
    base, b = np.arange(80, dtype="float32"), zeros(4, 2, 4)
    kernel(base[8:72].reshape(4, 4, 4)[:, :2], b)
    assert np.array_equal(b, base[8:72].reshape(4, 4, 4)[:, :2])


# ---- views of arguments ----------------------------------------------------------------------------------------------------

def test_a_view_of_wider_elements_asks_for_their_alignment():
    @trace
    def kernel(A: T.Buffer((64,), "float16"), B: T.Buffer((8,), "uint32x4")):
        T.device_entry()
        tx = T.thread_id([8])
        B[tx] = T.decl_buffer((8,), "uint32x4", data=A.data)[tx]

    raw = zeros(72, dtype="float16")
    start = next(i for i in range(8) if (raw.ctypes.data + 2 * i) % 16 == 2)
    assert refused(kernel, raw[start:start + 64], zeros(8, 4, dtype="uint32")).startswith("A.data: expected an address that is a multiple of 16 (")
    a, b = np.arange(64, dtype="float16"), zeros(8, 4, dtype="uint32")
    kernel(a, b)
    assert np.array_equal(b.view("float16").reshape(-1), a)
