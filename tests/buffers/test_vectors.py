"""Vector accesses: one wide move where the lanes are proved to be one aligned run, a move for each lane where not."""

import re

import numpy as np
import pytest

from symbolic import integers as si
from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from tests.buffers.cuda import body
from tests.buffers.golden import kernel_of
from tests.buffers.kernels import CASES, LAYOUTS
from tracer import T, trace
from tracer.errors import DTypeError, OutOfBoundsError, TraceError

# The number of lanes that move at once in each layout of `LAYOUTS`: 4 where every row begins with an aligned run of four.
WHOLE = {"row_major": 4, "column_major": 0, "padded": 4, "shifted": 4, "tiled_4": 4, "tiled_2": 0, "swizzled_4": 4, "swizzled_2": 2,
         "swizzled_1": 0}


def case(name):
    found, = (c for c in CASES if c.name == name)
    return found


@pytest.mark.parametrize("name", LAYOUTS)
def test_wide_moves_of_shared_memory(name):
    """Counts `*(float4*)` on the tile: four accesses, of which those to columns 4 to 7 of `swizzled_2` cross a swizzled pair."""
    source = case(f"lanes_{name}").kernel().cuda_source()
    assert len(re.findall(r"float4\*\)\(?tile", source)) == WHOLE[name]
    aligned = "__align__(16) float tile" in source
    assert aligned == (WHOLE[name] > 0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_lane_has_its_own_index(name):
    """The lanes' indices, evaluated, against the layout itself."""
    kernel = case(f"lanes_{name}").kernel()
    layout = LAYOUTS[name] or TileLayout(S[(16, 8):(8, 1)])
    for access in kernel.half.lowered.accesses.values():
        if access.buffer.name != "tile":
            continue
        for tx in range(16):
            for lane in range(4):
                row, column = (value(x, kernel, tx) for x in access.coords)
                assert value(access.lane(lane), kernel, tx) == layout.apply(row, column + lane, shape=(16, 8))["m"]


def value(expression, kernel, tx):
    return si.substitute(expression, dict.fromkeys(si.free_symbols(expression), tx)).value


def test_a_column_moves_lane_by_lane():
    def kernel(A: T.Buffer((16, 8), "float32", layout=TileLayout(S[(16, 8):(1, 16)])), B: T.Buffer((16, 8), "float32")):
        T.device_entry()
        tx = T.thread_id([16])
        B.vstore([tx, 4], A.vload([tx, 0], "float32x4"))

    assert body(trace(kernel))[1:] == [
        "*(float4*)(B_ptr + tx * 8 + 4) = make_float4(A_ptr[tx], A_ptr[tx + 16], A_ptr[tx + 32], A_ptr[tx + 48]);"]


@pytest.mark.parametrize("name", ["vload_misaligned", "vload_x2_odd", "vload_colmajor"])
def test_what_is_not_aligned_is_never_one_move(name):
    """W5: the reference stores 16 bytes at an address that is no multiple of 16."""
    source = kernel_of(name).cuda_source()
    stores = re.findall(r"^.*B_ptr.*=", source, re.M)
    if name == "vload_colmajor":
        assert "*(float4*)(B_ptr" in source and "(const float4*)" not in source
    else:
        assert "float4*" not in source and "float2*" not in source
        assert len(stores) == (2 if name.endswith("odd") else 4)


def test_an_index_that_only_the_run_knows_moves_lane_by_lane():
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((32,), "float32"), start: T.int32):
        T.device_entry()
        tx = T.thread_id([8])
        B.vstore([tx * 4], A.vload([start + tx * 4], "float32x4"))

    assert body(trace(kernel))[1:] == ["*(float4*)(B_ptr + tx * 4) = make_float4(", "A_ptr[start + tx * 4],", "A_ptr[start + tx * 4 + 1],",
                                       "A_ptr[start + tx * 4 + 2],", "A_ptr[start + tx * 4 + 3]);"]


def test_an_assumption_makes_it_one_move():
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((32,), "float32"), start: T.int32):
        T.assume(start % 4 == 0)
        T.device_entry()
        tx = T.thread_id([8])
        B.vstore([tx * 4], A.vload([start + tx * 4], "float32x4"))

    assert body(trace(kernel))[-1] == "*(float4*)(B_ptr + tx * 4) = *(const float4*)(A_ptr + start + tx * 4);"


def test_an_index_that_is_loaded_is_read_once():
    """Lane by lane, the loaded start would be read anew for each lane, also behind stores that may have changed it."""
    def kernel(I: T.Buffer((8,), "int32"), B: T.Buffer((64,), "int32")):
        T.device_entry()
        tx = T.thread_id([8])
        B.vstore([I[tx] * 2], B.vload([tx * 4], "int32x4"))

    assert body(trace(kernel))[1:] == [
        "const int v0 = I_ptr[tx] * 2;", "const int4 v1 = *(const int4*)(B_ptr + tx * 4);",
        "B_ptr[v0] = v1.x;", "B_ptr[v0 + 1] = v1.y;", "B_ptr[v0 + 2] = v1.z;", "B_ptr[v0 + 3] = v1.w;"]


def test_an_index_into_a_column_that_is_loaded_is_read_once():
    def kernel(I: T.Buffer((8,), "int32"), B: T.Buffer((8, 8), "int32", layout=TileLayout(S[(8, 8):(1, 8)]))):
        T.device_entry()
        tx = T.thread_id([8])
        B.vstore([I[tx], 4], B.vload([tx, 0], "int32x4"))

    assert body(trace(kernel))[1:] == [
        "const int v0 = I_ptr[tx];", "const int4 v1 = make_int4(B_ptr[tx], B_ptr[tx + 8], B_ptr[tx + 16], B_ptr[tx + 24]);",
        "B_ptr[v0 + 32] = v1.x;", "B_ptr[v0 + 40] = v1.y;", "B_ptr[v0 + 48] = v1.z;", "B_ptr[v0 + 56] = v1.w;"]


def test_a_vector_across_a_window_that_cuts_the_last_axis():
    def kernel(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16, 4), "float32")):
        T.device_entry()
        tx = T.thread_id([4])
        column = A[0:16, 3]
        B.vstore([tx, 0], column.vload([tx * 4], "float32x4"))

    traced = trace(kernel)
    assert "A_ptr[tx * 32 + 3]" in traced.cuda_source() and "A_ptr[tx * 32 + 27]" in traced.cuda_source()
    a, b = np.arange(128, dtype="float32").reshape(16, 8), np.zeros((16, 4), "float32")
    traced(a, b)
    assert np.array_equal(b[:4].reshape(-1), a[:, 3])


def test_lanes_are_checked_against_the_shape_in_any_layout():
    def kernel(A: T.Buffer((16, 8), "float32", layout=TileLayout(S[(16, 8):(1, 16)])), B: T.Buffer((16,), "float32"), column: T.int32):
        T.device_entry()
        tx = T.thread_id([16])
        B[tx] = A.vload([tx, column], "float32x4")[3]

    a, b = np.arange(128, dtype="float32").reshape(16, 8), np.zeros(16, "float32")
    traced = trace(kernel)
    traced(a, b, 4)
    assert np.array_equal(b, a.reshape(8, 16)[7])
    with pytest.raises(OutOfBoundsError, match=r"load of A\[0, 5\] is outside A's shape \(16, 8\): index 1 runs from 5 to 8, not in \[0, 8\)"):
        traced(a, b, 5)


def test_what_is_wrong_with_a_vector_is_said_when_tracing():
    def other_dtype(A: T.Buffer((64,), "float32")):
        T.device_entry()
        T.thread_id([1])
        A.vload([0], "int32x4")

    def past_the_end(A: T.Buffer((64,), "float32")):
        T.device_entry()
        tx = T.thread_id([16])
        A.vload([tx * 4 + 61], "float32x4")

    with pytest.raises(DTypeError, match="a int32x4 vector of 'A', whose elements are float32"):
        trace(other_dtype)
    with pytest.raises(TraceError, match="index 0 of 'A' is tx\\*4 \\+ 64, which is out of bounds for every thread"):
        trace(past_the_end)
