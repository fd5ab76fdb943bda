"""What the reference accepts and gets wrong, one test each; the numbers are those of its list of weaknesses.

W1 to W3 stand in `test_memory` and `tests/runtime/test_golden_calls`, W5 in `test_vectors`, W10 in `test_packed`, those of
pools in `tests/tracer/test_pools`, of tensor memory (W22) in `tests/tracer/test_tensor_memory`, misuse that a single record
shows (W11 to W13) in `test_golden`.
"""

import numpy as np
import pytest

from symbolic.layout.notation import S
from symbolic.layout.swizzle import ComposeLayout
from symbolic.layout.tile import TileLayout
from tests.buffers.golden import kernel_of
from tracer import T, trace
from tracer.errors import ArgumentValueError, LaunchError, TraceError


def failing(fn, match):
    with pytest.raises(TraceError, match=match) as caught:
        trace(fn)
    assert f"{__file__}:" in str(caught.value)      # file and line of the author's program


def entry(threads=64):
    T.device_entry()
    return T.thread_id([threads])


def test_w4_ordinary_arrays_have_offsets():
    """The reference takes only a tensor whose byte_offset says 256; NumPy's and PyTorch's say 0, always."""
    base = np.zeros(128, "float32")
    kernel_of("elem_offset64")(np.ones((4, 8), "float32"), base[64:96].reshape(4, 8))
    assert np.flatnonzero(base).tolist() == list(range(64, 96))


def test_w6_an_alias_starts_where_it_is_told_or_is_refused():
    def unaligned(A: T.Buffer((64,), "float32")):
        entry()
        arena = T.alloc_buffer((512,), "uint8", scope="shared.dyn")
        T.decl_buffer((64,), "float32", data=arena.data, byte_offset=6)

    def aligned(B: T.Buffer((4,), "uint8")):
        T.device_entry()
        tx = T.thread_id([4])
        arena = T.alloc_buffer((16,), "uint8", scope="shared.dyn")
        for k in T.serial(4):
            arena[tx * 4 + k] = (tx * 4 + k).astype("uint8")
        T.cuda.cta_sync()
        words = T.decl_buffer((2,), "uint32", data=arena.data, byte_offset=8)
        B[tx] = words.view("uint8")[tx]

    failing(unaligned, "byte_offset=6 is not a multiple of the 4 bytes of a float32 element")
    b = np.zeros(4, "uint8")
    trace(aligned)(b)
    assert b.tolist() == [8, 9, 10, 11]


def test_w7_vectors_have_their_own_size():
    """The reference counts a float32x4 as 4 bytes."""
    def kernel(A: T.Buffer((16,), "float32x4"), B: T.Buffer((16,), "float32x4")):
        tx = entry(16)
        arena = T.alloc_buffer((320,), "uint8", scope="shared.dyn")
        first = T.decl_buffer((16,), "float32", data=arena.data)
        second = T.decl_buffer((16,), "float32x4", data=arena.data, byte_offset=64)
        first[tx] = 7.0
        second[tx] = A[tx]
        B[tx] = second[tx] + first[tx]

    traced = trace(kernel)
    assert "((float4*)arena)[tx + 4] = A_ptr[tx];" in traced.cuda_source()
    assert "extern __shared__ __align__(16) unsigned char arena[];" in traced.cuda_source()
    a, b = np.arange(64, dtype="float32").reshape(16, 4), np.zeros((16, 4), "float32")
    traced(a, b)
    assert np.array_equal(b, a + 7)

    def too_long(A: T.Buffer((16,), "float32x4")):
        entry(16)
        arena = T.alloc_buffer((64,), "uint8", scope="shared.dyn")
        T.decl_buffer((16,), "float32x4", data=arena.data)

    failing(too_long, "the buffer ends 256 bytes into 'arena', which has 64")


def test_w8_more_than_a_block_can_have():
    def kernel(A: T.Buffer((64,), "float32")):
        entry()
        T.alloc_buffer((300000,), "uint8", scope="shared.dyn")

    failing(kernel, "300000 bytes of dynamic shared memory; a block has at most 232448")


def test_w9_the_arena_has_the_greatest_alignment_asked_for():
    def kernel(A: T.Buffer((64,), "float32")):
        tx = entry()
        arena = T.alloc_buffer((4096,), "uint8", scope="shared.dyn")
        T.decl_buffer((64,), "float32", data=arena.data, align=128)[tx] = A[tx]
        tile = T.decl_buffer((64,), "float32", data=arena.data, byte_offset=1024, align=1024)
        tile[tx] = A[tx]
        A[tx] = tile[tx]

    assert "extern __shared__ __align__(1024) unsigned char arena[];" in trace(kernel).cuda_source()


def test_w11_the_host_touches_no_device_memory():
    def store(A: T.Buffer((64,), "float32")):
        A[0] = 1.0
        T.device_entry()

    def allocation(A: T.Buffer((64,), "float32")):
        T.alloc_shared((64,), "float32")
        T.device_entry()

    failing(store, r"`store` before T.device_entry\(\)")
    failing(allocation, r"`alloc` before T.device_entry\(\)")


def _at(access):
    """A kernel that does one thing with a (4, 8) buffer."""
    def kernel(A: T.Buffer((4, 8), "float32")):
        entry()
        access(A)
    return kernel


@pytest.mark.parametrize("access, message", [
    (lambda A: A.view(4, 9), r"A.view\(4, 9\) has 36 elements; 'A' has 32"),
    (lambda A: A.view(5, -1), r"32 elements do not divide into 5"),
    (lambda A: A.view(4, 8, layout=TileLayout(S[(4, 8):(16, 1)])), "reaches 56 elements into its storage, which has 32"),
    (lambda A: A.view(4, 8, layout=TileLayout(S[(4, 4):(4, 1)])), r"maps 16 elements; the shape \(4, 8\) has 32"),
    (lambda A: A.view(4, 8, layout=TileLayout(S[(4, 8):(-8, 1)])), "reaches 24 elements below the buffer's first one"),
    (lambda A: A.permute(0, 0), "write each of the axes 0 to 1 once"),
    (lambda A: A[4, 0], "index 0 of 'A' is 4, which is out of bounds for every thread"),
    (lambda A: A[0:5, 0:8], "the slice 0:5 of axis 0 of 'A' is out of bounds"),
    (lambda A: A[2:1, 0:8], "out of bounds"),
    (lambda A: A[1.0, 0], "index 0 of 'A' is a float32 value"),
    (lambda A: A[0], r"A\[0\] has 1 index\(es\), but 'A' has 2 axis\(es\)"),
    (lambda A: T.alloc_local((-4,), "float32"), "extent 0 of the allocation is -4, which is negative"),
    (lambda A: T.alloc_buffer((4,), "float32", scope="sharedd"), "unknown scope 'sharedd'"),
    (lambda A: T.alloc_shared((4, 4), "float32", layout=TileLayout(S[(4, 4):(-4, 1)])), "reaches 12 elements below"),
    (lambda A: T.decl_buffer((4,), "float32", data=A.data, elem_offset=30), "ends 136 bytes into 'A', which has 128"),
    (lambda A: T.decl_buffer((4,), "float32", data=A.data, scope="shared"), "the memory of 'A' is in 'global'"),
    (lambda A: T.decl_buffer((3,), "float16", data=A.data, elem_offset=1, align=4), "starts 2 bytes into 'A', which is no multiple of 4"),
])
def test_w12_what_cannot_be_is_said_when_tracing(access, message):
    failing(_at(access), message)


def test_w13_a_float_is_no_index_and_no_int():
    def store(A: T.Buffer((64,), "int32")):
        tx = entry()
        A[tx] = T.float32(1.5)

    failing(store, "a float32 value is stored into 'A' of dtype int32, to which it does not promote")


def test_w14_alignment_is_checked_not_believed():
    def kernel(A: T.Buffer((64,), "float32", align=16), B: T.Buffer((64,), "float32")):
        tx = entry(16)
        B.vstore([tx * 4], A.vload([tx * 4], "float32x4"))

    traced, raw = trace(kernel), np.zeros(72, "float32")
    start = next(i for i in range(4) if (raw.ctypes.data + 4 * i) % 16 == 8)
    misaligned, good = raw[start:start + 64], np.zeros(64, "float32")
    for args, name in (((misaligned, good), "A"), ((good, misaligned), "B")):
        with pytest.raises(ArgumentValueError, match=rf"{name}.data: expected an address that is a multiple of 16 \(.*\), got .*, 8 past one"):
            traced(*args)
    with pytest.raises(TraceError, match="align=3: an alignment is a power of two"):
        kernel_of("match_align_odd")


def test_w18_no_layout_symbolic_strides_swizzled_vectors_and_affine_extents_work():
    a, b = np.arange(32, dtype="float32").reshape(4, 8), np.zeros((4, 8), "float32")
    kernel_of("layout_none")(a, b)
    assert np.array_equal(b, a + 1)
    base = np.zeros((4, 20), "float32")
    kernel_of("strides_symbolic")(a, base[:, 2:18:2])
    assert np.array_equal(base[:, 2:18:2], a + 1) and np.count_nonzero(base) == 32
    out = np.zeros(6, "float32")
    kernel_of("sym_expr_shape")(np.arange(10, dtype="float32"), out)
    assert out.tolist() == [0, 2, 4, 6, 8, 0]

    def swizzled(A: T.Buffer((8, 64), "float16"), B: T.Buffer((8, 64), "float16")):
        T.device_entry()
        i, j = T.thread_id([8, 8])
        s = T.alloc_shared((8, 64), "float16", layout=ComposeLayout(3, 3, 3, TileLayout(S[(8, 64):(64, 1)])))
        s.vstore([i, j * 8], A.vload([i, j * 8], "float16x8"))
        B.vstore([i, j * 8], s.vload([i, j * 8], "float16x8"))

    a16, b16 = np.arange(512, dtype="float16").reshape(8, 64), np.zeros((8, 64), "float16")
    trace(swizzled)(a16, b16)
    assert np.array_equal(a16, b16)


def test_w22_the_limits_of_a_launch():
    def threads(A: T.Buffer((64,), "float32")):
        entry(2048)

    def static(A: T.Buffer((64,), "float32")):
        entry()
        T.alloc_shared((15360,), "float32")

    def in_two(A: T.Buffer((64,), "float32")):
        entry()
        T.alloc_shared((8192,), "float32")
        T.alloc_shared((4097,), "float32")

    def together(A: T.Buffer((64,), "float32")):
        entry()
        T.alloc_shared((64,), "float32")
        T.alloc_buffer((232448,), "uint8", scope="shared.dyn")

    failing(together, "232448 bytes of dynamic shared memory beside 256 of static; a block has at most 232448")
    failing(threads, "2048")
    failing(static, "61440 bytes of static shared memory; a block has at most 49152")
    failing(in_two, "49156 bytes of static shared memory; a block has at most 49152")

    @trace
    def of_the_call(A: T.Buffer(("n",), "float32")):
        T.device_entry()
        T.thread_id([32])
        T.alloc_buffer((A.shape[0],), "float32", scope="shared.dyn")

    of_the_call(np.zeros(58112, "float32"))
    with pytest.raises(LaunchError, match="dynamic shared memory: expected from 0 to 232448 bytes, got 232452"):
        of_the_call(np.zeros(58113, "float32"))
