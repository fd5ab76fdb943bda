"""What cannot be described to the copy engine, or copied: refused while tracing or at the call."""

import numpy as np
import pytest

from symbolic.layout import S, TileLayout
from symbolic.layout.shared import mma_shared_layout
from tracer import T, trace
from tracer.errors import ArgumentValueError, NotSupportedError, TraceError


def described(body, shape=(64, 64), dtype="float32", **options):
    def kernel(A: T.Buffer(shape, dtype, **options)):
        body(A)
        T.device_entry()
        T.thread_id([32])
    return kernel


def map_of(*args, **options):
    return lambda A: T.tensor_map(A, *args, **options)


SWIZZLED = TileLayout(S[(8, 8, 64):(64, 512, 1)])


@pytest.mark.parametrize(("body", "buffer", "message"), [
    (map_of((8, 33)), {}, "a row of the box is 33 float32, 132 bytes; it must be a multiple of 16"),
    (map_of((8, 64), swizzle="128B"), {}, "a row of the box is 64 float32, 256 bytes; swizzle=\"128B\" permutes within 128: make the last "
     "extent of the box 32 or less, and copy several boxes"),
    (map_of((8, 16), swizzle="32B"), {}, "64 bytes; swizzle=\"32B\" permutes within 32: make the last extent of the box 8 or less"),
    (map_of((257, 4)), {}, r"box\[0\] is 257, not 1 to 256"),
    (map_of((0, 4)), {}, r"box\[0\] is 0, not 1 to 256"),
    (map_of((256, 256)), {}, "a box of 262144 bytes; a block has at most 232448 of shared memory"),
    (map_of((8,)), {}, r"box=\(8,\) for the 2 axes of 'A'; write one number for each"),
    (map_of((8, 32), swizzle="256B"), {}, "swizzle='256B'; write one of 'none', '32B', '64B', '128B'"),
    (map_of((8, 32), l2_promotion="1KB"), {}, "l2_promotion='1KB'; write one of 'none', '64B', '128B', '256B'"),
    (map_of((8, 32), oob_fill="ones"), {}, "oob_fill='ones'; write one of 'zeros', 'nan'"),
    (map_of((8, 32), oob_fill="nan"), {"dtype": "int32"}, "oob_fill=\"nan\" for elements of int32; only floats have a NaN"),
    (map_of((8, 32), element_strides=(9, 1)), {}, r"element_strides\[0\] is 9, not 1 to 8"),
    (map_of((8, 32), element_strides=(1, 2)), {}, r"element_strides\[1\] is 2; along the last axis the copy engine takes every element"),
    (map_of((1,) * 6), {"shape": (2,) * 6}, "which has 6 axes; the copy engine knows 1 to 5"),
    (map_of((8, 4)), {"shape": (64, 6)}, "along axis 0 of 'A' elements lie 24 bytes apart; the copy engine needs a multiple of 16: pad the rows"),
    (map_of((8, 4)), {"layout": TileLayout(S[(64, 64):(1, 64)])}, "elements along the last axis of 'A' lie 64 apart; .* permute the axes"),
    (map_of((8, 4)), {"layout": SWIZZLED}, "the layout of 'A' has no single stride for each axis"),
    (map_of((8, 4)), {"shape": (0, 64)}, r"extent 0 of 'A' is 0, not 1 to 2\*\*32"),
    (map_of((8, 4)), {"dtype": "float32x4"}, "whose elements are float32x4; view it as float32"),
    (lambda A: T.tensor_map(A[0:8, :], (8, 4)), {}, "T.tensor_map of a slice of 'A'; describe the whole buffer"),
    (lambda A: T.tensor_map(3, (8, 4)), {}, "T.tensor_map describes a buffer, not 3"),
    (lambda A: T.tensor_map(A, (T.int32(), 4)), {}, r"box\[0\] is .*; it must be a constant"),
])
def test_maps(body, buffer, message):
    with pytest.raises(TraceError, match=message):
        trace(described(body, **buffer))


def test_what_is_not_built_is_named():
    with pytest.raises(NotSupportedError, match="interleave='32B' is not supported in this version"):
        trace(described(map_of((8, 32), interleave="32B")))
    with pytest.raises(NotSupportedError, match=r"float4_e2m1fn elements, several of which share a byte.*describe A.view\(\"uint8\"\)"):
        trace(described(map_of((8, 32)), dtype="float4_e2m1fn"))


def test_a_map_is_declared_on_the_host():
    def kernel(A: T.Buffer((64, 64), "float32")):
        T.device_entry()
        T.thread_id([32])
        T.tensor_map(A, (8, 4))

    with pytest.raises(TraceError, match=r"T.tensor_map stands above T.device_entry\(\)"):
        trace(kernel)


def using(body, box=(8, 32), dtype="float32"):
    def kernel(A: T.Buffer((64, 64), "float32")):
        boxes = T.tensor_map(A, box)
        T.device_entry()
        tx = T.thread_id([32])
        bar = T.alloc_shared((1,), "uint64")
        tile = T.alloc_shared(box, dtype, align=128)
        body(A, boxes, tile, bar, tx)
    return kernel


@pytest.mark.parametrize(("body", "message"), [
    (lambda A, m, t, b, tx: T.tma.load(t, A, (0, 0), b), "T.tma.load: .* is no tensor map; declare one above T.device_entry"),
    (lambda A, m, t, b, tx: T.tma.load(t, m, (0,), b), "T.tma.load: 1 coordinates for the 2 axes of 'A'; write where the box begins along each"),
    (lambda A, m, t, b, tx: T.tma.load(A, m, (0, 0), b), "'A' is in global memory; boxes are in shared memory"),
    (lambda A, m, t, b, tx: T.tma.load(t[0:4, :], m, (0, 0), b), r"has 128 elements, a box of the map of 'A' has 256: \(8, 32\)"),
    (lambda A, m, t, b, tx: T.tma.load(t.view("int32"), m, (0, 0), b), "has elements of int32, the map of them of float32; view one as the other"),
    (lambda A, m, t, b, tx: T.tma.reduce("sub", m, (0, 0), t), "T.tma.reduce: 'sub' is none of add, min, max"),
    (lambda A, m, t, b, tx: T.tma.reduce("min", m, (0, 0), t), "'min' of float32; the copy engine has it for uint32, int32, uint64, int64, float16"),
    (lambda A, m, t, b, tx: T.tma.prefetch(t), "T.tma.prefetch: .* is no tensor map"),
    (lambda A, m, t, b, tx: T.tma.load(t, m, (0, 6), b),
     r"the box begins at 6 along the last axis of 'A', which is no multiple of 16 bytes \(4 float32\)"),
    (lambda A, m, t, b, tx: T.tma.store(m, (0, tx * 4 + 1), t), r"the box begins at tx\*4 \+ 1 along the last axis"),
    (lambda A, m, t, b, tx: T.tma.store(m, (-8, 0), t), "the box begins at -8 along axis 0 of 'A'; one that is written begins in the array"),
    (lambda A, m, t, b, tx: T.tma.reduce("add", m, (0, -4 - 4 * tx), t), "the box begins at .* along axis 1 of 'A'; one that is written begins"),
])
def test_copies(body, message):
    with pytest.raises(TraceError, match=message):
        trace(using(body))


@pytest.mark.parametrize("op", ["add", "and", "or", "xor"])
def test_reductions_of_int64(op):
    def kernel(A: T.Buffer((64, 64), "int64")):
        boxes = T.tensor_map(A, (8, 32))
        T.device_entry()
        T.thread_id([1])
        T.tma.reduce(op, boxes, (0, 0), T.alloc_shared((8, 32), "int64"))

    with pytest.raises(TraceError, match=rf"'{op}' of int64; the copy engine has it for .*uint64.*; it is the same for the bits of uint64: "
                       r"describe A.view\(\"uint64\"\)"):
        trace(kernel)


@pytest.mark.parametrize(("layout", "swizzle", "laid"), [
    (None, "128B", "swizzle=\"none\""), ("128B", "none", "swizzle=\"128B\""), ("64B", "128B", "swizzle=\"64B\""),
    (TileLayout(S[(8, 64):(72, 1)]), "none", "a layout of its own"), (TileLayout(S[(8, 64):(1, 8)]), "128B", "a layout of its own")])
def test_a_tile_that_is_laid_out_otherwise(layout, swizzle, laid):
    def kernel(A: T.Buffer((64, 64), "float16")):
        boxes = T.tensor_map(A, (8, 64), swizzle=swizzle)
        T.device_entry()
        T.thread_id([32])
        made = mma_shared_layout("float16", layout, (8, 64)) if isinstance(layout, str) else layout
        tile = T.alloc_shared((8, 64), "float16", layout=made, align=1024)
        T.tma.store(boxes, (0, 0), tile)

    with pytest.raises(TraceError, match=f"T.tma.store: 'tile' is laid out with {laid}, the map of 'A' with swizzle=\"{swizzle}\""):
        trace(kernel)


@pytest.mark.parametrize(("coords", "message"), [
    ((0,), r"1d.*: operand 'map' has 2 axes; write .2d and one coordinate for each, innermost first"),
    ((2, 0), r"2d.*: the box begins at 2 along the last axis of 'A', which is no multiple of 16 bytes \(4 float32\)"),
    ((0, 0, 0), r"3d.*: operand 'map' has 2 axes; write .2d"),
])
def test_instructions_by_their_words(coords, message):
    def body(A, boxes, tile, bar, tx):
        T.ptx[f"cp.async.bulk.tensor.{len(coords)}d.global.shared::cta.bulk_group"](boxes, *coords, tile.ptr_to([0, 0]))

    with pytest.raises(TraceError, match=message):
        trace(using(body))


def test_a_tile_begins_where_the_swizzles_pattern_does():
    def kernel(start):
        def kernel(A: T.Buffer((64, 64), "float16")):
            boxes = T.tensor_map(A, (8, 64), swizzle="128B")
            T.device_entry()
            T.thread_id([32])
            rows = T.alloc_shared((32, 64), "float16", layout=mma_shared_layout("float16", "128B", (32, 64)))
            T.tma.store(boxes, (0, 0), rows[start:start + 8, :])
        return kernel

    with pytest.raises(TraceError, match="begins 576 bytes into its memory; swizzle=\"128B\" repeats every 1024 bytes"):
        trace(kernel(4))
    assert "__shared__ __align__(1024) half rows[2048];" in trace(kernel(8)).cuda_source()      # whatever was asked for

    def shifted(A: T.Buffer((64, 64), "float16")):
        boxes = T.tensor_map(A, (8, 64), swizzle="128B")
        T.device_entry()
        T.thread_id([32])
        arena = T.alloc_buffer((4096,), "uint8", scope="shared.dyn")
        tile = T.decl_buffer((8, 64), "float16", data=arena.data, byte_offset=128, layout=mma_shared_layout("float16", "128B", (8, 64)))
        T.tma.store(boxes, (0, 0), tile)

    with pytest.raises(TraceError, match="'tile' begins 128 bytes into its memory; swizzle=\"128B\" repeats every 1024 bytes"):
        trace(shifted)


def test_rows_shorter_than_the_swizzle_permutes_within():
    def kernel(A: T.Buffer((64, 64), "float16")):
        boxes = T.tensor_map(A, (8, 16), swizzle="128B")
        assert (boxes.box_bytes, boxes.shared_bytes, boxes.box_shape) == (256, 1024, (8, 16))
        T.device_entry()
        T.thread_id([32])
        T.tma.store(boxes, (0, 0), T.alloc_shared((8, 16), "float16", align=1024))

    with pytest.raises(TraceError, match="rows of the box are 16 float16, and in shared memory each begins a span of 128 bytes, which "
                                         "swizzle=\"128B\" permutes within; .* or pass a pointer to 1024 bytes"):
        trace(kernel)


# ---- at the call

def strided(A: T.Buffer(("n", "m"), "float16")):
    boxes = T.tensor_map(A, (8, 64))
    T.device_entry()
    with T.If(T.thread_id([32]) == 0):
        T.tma.prefetch(boxes, (0, 0))


def test_what_only_the_array_tells():
    kernel = trace(strided)
    assert kernel.launch is not None
    with pytest.raises(ArgumentValueError, match=r"A.strides\[0\]: expected a multiple of 16 bytes for a tensor map, got 20 \(argument 0"):
        kernel.simulate(np.zeros((4, 10), np.float16))
    with pytest.raises(ArgumentValueError, match=r"A.shape\[0\]: expected 1 to 2\*\*32 for a tensor map, got 0"):
        kernel.simulate(np.zeros((0, 16), np.float16))
    raw = np.zeros(4 * 16 + 16, np.float16)
    start = next(k for k in range(8) if (raw.ctypes.data + 2 * k) % 16 == 2)
    with pytest.raises(ArgumentValueError, match=r"A.data: expected an address that is a multiple of 16 \(a tensor map\)"):
        kernel.simulate(raw[start:start + 64].reshape(4, 16))
    kernel.simulate(np.zeros((4, 16), np.float16))


def test_what_is_written_through_a_map_is_checked_as_written():
    def copy(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32")):
        source, target = T.tensor_map(A, (8, 32)), T.tensor_map(B, (8, 32))
        T.device_entry()
        tile = T.alloc_shared((8, 32), "float32", align=128)
        tx = T.thread_id([32])
        for k in T.serial(8):
            tile[k, tx] = 0.0
        with T.If(tx == 0):
            T.tma.prefetch(source, (0, 0))
            T.tma.store(target, (0, 0), tile)

    kernel = trace(copy)
    assert [(a.name, a.read_only) for a in kernel.half.arguments] == [("source", True), ("target", False)]
    assert "copy_kernel(const __grid_constant__ CUtensorMap source, const __grid_constant__ CUtensorMap target)" in kernel.cuda_source()
    a, b = np.zeros((8, 32), np.float32), np.zeros((8, 32), np.float32)
    b.flags.writeable = False
    with pytest.raises(ArgumentValueError, match="B: expected a writable array, which the kernel writes, got a read-only one"):
        kernel.simulate(a, b)
    with pytest.raises(ArgumentValueError, match="B: expected memory of its own, because the kernel writes B, got an array that overlaps A"):
        kernel.simulate(a, a)


def test_empty_arrays():
    """A map cannot describe one, which is no matter where no block runs."""
    def kernel(blocks):
        def rows(A: T.Buffer(("n", 64), "float32"), B: T.Buffer(("n", 64), "float32")):
            boxes = T.tensor_map(A, (8, 32))
            T.device_entry()
            T.cta_id([blocks(A.shape[0])])
            with T.If(T.thread_id([32]) == 0):
                T.tma.prefetch(boxes, (0, 0))
                B[0, 0] = A[0, 0]
        return trace(rows)

    empty = np.zeros((0, 64), np.float32)
    kernel(lambda n: T.ceildiv(n, 8)).simulate(empty, empty.copy())
    with pytest.raises(ArgumentValueError, match=r"A.shape\[0\]: expected 1 to 2\*\*32 for a tensor map, got 0"):
        kernel(lambda n: T.ceildiv(n + 1, 8)).simulate(empty, empty.copy())
