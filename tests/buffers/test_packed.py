"""4-bit floats, two a byte: loads, whole-byte stores, views, local arrays, pools; 6-bit floats, a byte each. What would clobber is refused (W10:
the reference writes a whole byte for one element, over its neighbour's)."""

import ml_dtypes
import numpy as np
import pytest

from runtime.narrow import pack_float4, unpack_float4
from tests.nvcc import ARCHITECTURES, cubin, needs_nvcc, one_unit
from tests.simulator.running import run
from tracer import T, trace
from tracer.errors import ArgumentTypeError, ArgumentValueError, DTypeError, OutOfBoundsError, TraceError

FP4 = ml_dtypes.float4_e2m1fn
VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)       # by code
rng = np.random.default_rng(4)


def random(count):
    """Bytes of `count` elements, and their values."""
    codes = rng.integers(0, 16, count, dtype=np.uint8)
    return codes[::2] | codes[1::2] << 4, VALUES[codes]


def test_pack_and_unpack():
    packed, values = random(64)
    assert np.array_equal(unpack_float4(packed).astype(np.float32), values)
    assert np.array_equal(pack_float4(values), packed)
    assert pack_float4(np.float32([1.0, -6.0])).tolist() == [0xF2]
    assert unpack_float4(np.uint8([[0x21, 0x43]])).astype(np.float32).tolist() == [[0.5, 1.0, 1.5, 2.0]]
    with pytest.raises(ValueError, match="the last extent must be even, the shape is"):
        pack_float4(np.zeros(3, FP4))


def decode(A: T.Buffer((64,), "float4_e2m1fn"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    B[tx] = A[tx].astype("float32")


def encode(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float4_e2m1fn")):
    """Two elements a thread: whole bytes."""
    T.device_entry()
    tx = T.thread_id([32])
    B.vstore([2 * tx], A.vload([2 * tx], "float32x2").astype("float4_e2m1fnx2"))


def vectors(A: T.Buffer((64,), "float4_e2m1fn"), B: T.Buffer((64,), "float4_e2m1fn")):
    """Through shared memory, in vectors of every width."""
    T.device_entry()
    tx = T.thread_id([4])
    tile = T.alloc_shared((64,), "float4_e2m1fn")
    tile.vstore([tx * 16], A.vload([tx * 16], "float4_e2m1fnx16"))
    T.cuda.cta_sync()
    last = 48 - tx * 16
    B.vstore([tx * 16], tile.vload([last], "float4_e2m1fnx8"))
    B.vstore([tx * 16 + 8], tile.vload([last + 8], "float4_e2m1fnx4"))
    B.vstore([tx * 16 + 12], tile.vload([last + 12], "float4_e2m1fnx2"))
    B.vstore([tx * 16 + 14], tile.vload([last + 14], "float4_e2m1fnx2"))


def gather(A: T.Buffer((64,), "float4_e2m1fn"), I: T.Buffer((32,), "int32"), B: T.Buffer((64,), "float4_e2m1fn")):  # noqa: E741
    """Elements that start anywhere, by way of each thread's own memory."""
    T.device_entry()
    tx = T.thread_id([32])
    mine = T.alloc_local((5,), "float4_e2m1fn")
    cell = T.local_scalar("float4_e2m1fn", A[I[tx]])
    for k in T.serial(4):
        mine[k + 1] = A[(I[tx] + k) % 64]
    mine[0] = cell
    mine[3] = mine[2]
    B.vstore([2 * tx], mine.vload([2], "float4_e2m1fnx2"))


def views(A: T.Buffer((4, 16), "float4_e2m1fn"), B: T.Buffer((32,), "uint8"), C: T.Buffer((4, 8), "float4_e2m1fnx2")):
    """The same bytes as uint8, as pairs, and as columns."""
    T.device_entry()
    tx = T.thread_id([32])
    B[tx] = A.view("uint8")[tx // 8, tx % 8]
    pairs = A.view("float4_e2m1fnx2")
    C[tx // 8, tx % 8] = pairs[3 - tx // 8, tx % 8]
    T.cuda.cta_sync()
    with T.If(tx < 16):
        B.view("float4_e2m1fn").vstore([4 * tx], A.permute(1, 0).vload([tx, 0], "float4_e2m1fnx4"))


def arithmetic(A: T.Buffer((64,), "float4_e2m1fn"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "uint8")):
    T.device_entry()
    tx = T.thread_id([32])
    both = A.vload([2 * tx], "float4_e2m1fnx2")
    B[tx] = T.select(both[0].astype("bool"), both[0].astype("float32") * both[1].astype("float32"), -1.0)
    C[tx] = T.reinterpret("uint8", both)
    again = T.reinterpret("float4_e2m1fnx2", C[tx])
    B[tx + 32] = again[1].astype("float16").astype("float32") + T.float4_e2m1fn(1.4).astype("float32")
    C[tx + 32] = T.max(both[0].astype("float32"), 0.0).astype("uint8")


def pooled(A: T.Buffer((64,), "float4_e2m1fn"), B: T.Buffer((64,), "float4_e2m1fn")):
    T.device_entry()
    tx = T.thread_id([32])
    pool = T.SMEMPool()
    pool.alloc((3,), "float4_e2m1fn")
    tile = pool.alloc((4, 16), "float4_e2m1fn", align=16)
    pool.commit()
    tile.vstore([tx // 8, tx % 8 * 2], A.vload([2 * tx], "float4_e2m1fnx2"))
    T.cuda.cta_sync()
    B.vstore([2 * tx], tile.vload([3 - tx // 8, tx % 8 * 2], "float4_e2m1fnx2"))


def six(A: T.Buffer((64,), "float6_e2m3fn"), B: T.Buffer((64,), "float6_e3m2fn")):
    """A byte each: any thread stores any element."""
    T.device_entry()
    tx = T.thread_id([64])
    tile = T.alloc_shared((64,), "float6_e2m3fn")
    tile[tx] = A[tx]
    T.cuda.cta_sync()
    B[tx] = (tile[63 - tx].astype("float32") * 2.0).astype("float6_e3m2fn")


KERNELS = {k.__name__: trace(k) for k in (decode, encode, vectors, gather, views, arithmetic, pooled, six)}


def test_loads_and_conversions():
    packed, values = random(64)
    b = np.zeros(64, np.float32)
    run(KERNELS["decode"], packed, b)
    assert np.array_equal(b, values) and np.array_equal(np.signbit(b), np.signbit(values))


def test_stores_round_to_nearest_even_and_saturate():
    a = np.float32([0.25, 0.75, 1.25, 1.75, 2.5, 5.0, 7.0, -100.0, np.inf, np.nan, 0.2500001, -0.25, *rng.standard_normal(52) * 3])
    out = np.zeros(32, np.uint8)
    run(KERNELS["encode"], a, out)
    got = unpack_float4(out).astype(np.float32)
    assert got[:12].tolist() == [0, 1, 1, 2, 2, 4, 6, -6, 6, 6, 0.5, 0]
    finite = np.clip(a[12:], -6, 6)
    assert np.array_equal(got[12:], finite.astype(FP4).astype(np.float32))


@pytest.mark.parametrize("name", ["vectors", "pooled"])
def test_through_shared_memory(name):
    packed, values = random(64)
    out = np.zeros(32, np.uint8)
    run(KERNELS[name], packed, out)
    assert np.array_equal(unpack_float4(out).astype(np.float32), values.reshape(4, 16)[::-1].reshape(-1))


def test_a_threads_own_memory():
    packed, values = random(64)
    where = rng.integers(0, 64, 32).astype(np.int32)
    out = np.zeros(32, np.uint8)
    run(KERNELS["gather"], packed, where, out)
    second = values[(where + 1) % 64]
    assert np.array_equal(unpack_float4(out).astype(np.float32).reshape(32, 2), np.stack([second, second], 1))


def test_views():
    packed, values = random(64)
    b, c = np.zeros(32, np.uint8), np.zeros((4, 8), np.uint8)
    kernel = KERNELS["views"]
    run(kernel, packed.reshape(4, 8), b, c)
    assert np.array_equal(c, packed.reshape(4, 8)[::-1])
    assert np.array_equal(unpack_float4(b).astype(np.float32).reshape(16, 4), values.reshape(4, 16).T)


def test_values():
    packed, values = random(64)
    b, c = np.zeros(64, np.float32), np.zeros(64, np.uint8)
    run(KERNELS["arithmetic"], packed, b, c)
    low, high = values[::2], values[1::2]
    assert np.array_equal(b[:32], np.where(low != 0, low * high, -1)) and np.array_equal(b[32:], high + 1.5)
    assert np.array_equal(c[:32], packed) and np.array_equal(c[32:], np.maximum(low, 0).astype(np.uint8))


def test_six_bits_have_a_byte_each():
    codes = rng.integers(0, 64, 64, dtype=np.uint8)
    out = np.zeros(64, ml_dtypes.float6_e3m2fn)
    run(KERNELS["six"], codes.view(ml_dtypes.float6_e2m3fn), out)
    wide = codes.view(ml_dtypes.float6_e2m3fn).astype(np.float32)
    assert np.array_equal(out.astype(np.float32), (wide[::-1] * 2).astype(ml_dtypes.float6_e3m2fn).astype(np.float32))


def test_the_shape_of_the_source():
    lines = KERNELS["vectors"].cuda_source(locations=False)
    assert "k(const unsigned char* __restrict__ A_ptr, unsigned char* __restrict__ B_ptr) {" in lines.replace("vectors_kernel", "k")
    assert "__shared__ __align__(8) unsigned char tile[32];" in lines
    assert "*(float4_e2m1fnx16*)(tile + tx * 8) = *(const float4_e2m1fnx16*)(A_ptr + tx * 8);" in lines
    assert "mine[5]" not in (gathered := KERNELS["gather"].cuda_source()) and "unsigned char mine[3];" in gathered
    assert KERNELS["pooled"].launch.dynamic_shared_bytes == 16 + 32


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_they_compile(architecture, tmp_path):
    sources = [kernel.cuda_source(locations=False) for kernel in KERNELS.values()]
    assert cubin(one_unit(sources), tmp_path, [architecture])[architecture].stat().st_size > 0


@pytest.mark.parametrize("name", KERNELS)
def test_scripts_trace_back(name):
    namespace = {}
    exec(KERNELS[name].script(), namespace)
    assert trace(namespace[name]).script() == KERNELS[name].script()


# ---- what is refused

def traced(body, shape=(64,), dtype="float4_e2m1fn"):
    def kernel(A: T.Buffer(shape, dtype), B: T.Buffer((64,), "float32")):
        T.device_entry()
        body(A, B, T.thread_id([64]))
    return trace(kernel)


def one(A, B, tx):
    A[tx] = T.float4_e2m1fn(1.0)


def one_shared(A, B, tx):
    tile = T.alloc_shared((64,), "float4_e2m1fn")
    tile[tx] = A[tx]


def odd(A, B, tx):
    A.vstore([tx], A.vload([0], "float4_e2m1fnx2"))


def apart(A, B, tx):
    A.view(32, 2).permute(1, 0).vstore([0, 2 * (tx % 8)], A.vload([0], "float4_e2m1fnx2"))


def odd_pointer(A, B, tx):
    B[tx] = T.cuda.func_call("f", A.ptr_to([tx]), source_code="__device__ float f(void*) { return 0; }", return_type="float32")


def three(A, B, tx):
    A.vload([0], "float4_e2m1fnx3")


def odd_view(A, B, tx):
    T.decl_buffer((8,), "float4_e2m1fn", data=A.data, elem_offset=3)


@pytest.mark.parametrize(("body", "error", "message"), [
    (one, TraceError, r"one element is stored into 'A' of float4_e2m1fn, two of which share a byte in global memory: the store would overwrite its "
     r"neighbour, which another thread may be storing. Store whole bytes: A.vstore\(index, values\) with a float4_e2m1fnx2, x4, x8 or x16 at an "
     r"even index, or elements of A.view\(\"float4_e2m1fnx2\"\)"),
    (one_shared, TraceError, "one element is stored into 'tile' of float4_e2m1fn, two of which share a byte in shared memory"),
    (odd, TraceError, "a vector store of 'A' begins at element .*, which is not proved to be even: two float4_e2m1fn share a byte"),
    (apart, TraceError, "its lanes are not proved to be neighbours in memory, and two float4_e2m1fn share a byte"),
    (odd_pointer, TraceError, "a pointer into an array of 'A' begins at element .*, which is not proved to be even"),
    (three, DTypeError, "float4_e2m1fnx3: a vector of float4_e2m1fn has an even number of lanes, as two share a byte"),
    (odd_view, TraceError, "the buffer starts 3/2 bytes into 'A', which is no multiple of 1"),
])
def test_refusals(body, error, message):
    with pytest.raises(error, match=message):
        traced(body)


def test_arguments_fill_whole_bytes():
    with pytest.raises(TraceError, match=r"an argument of float4_e2m1fn comes as bytes of two elements each, .* even; .* \(4, 5\)"):
        traced(lambda A, B, tx: None, (4, 5))


def test_an_extent_that_is_assumed_even():
    def kernel(A: T.Buffer(("m", "n"), "float4_e2m1fn")):
        n = A.shape[1]
        T.assume(n % 2 == 0)
        T.device_entry()
        row = T.thread_id([4])
        A.vstore([row, 0], A.vload([3 - row, 0], "float4_e2m1fnx2"))

    assert "*(float4_e2m1fnx2*)(A_ptr + row * (n / 2)) = " in trace(kernel).cuda_source()


def test_bounds_count_elements():
    def kernel(A: T.Buffer((64,), "float4_e2m1fn"), I: T.Buffer((1,), "int32"), B: T.Buffer((1,), "float32")):  # noqa: E741
        T.device_entry()
        T.thread_id([1])
        B[0] = A[I[0]].astype("float32")

    packed, values = random(64)
    b = np.zeros(1, np.float32)
    run(trace(kernel), packed, np.int32([63]), b)
    assert b[0] == values[63]
    with pytest.raises(OutOfBoundsError, match=r"load of A\[64\] is outside A's shape \(64,\): index 0 is 64"):
        run(trace(kernel), packed, np.int32([64]), b)
    with pytest.raises(OutOfBoundsError, match=r"touches element 64 of A, which has 64"):
        run(trace(kernel), packed, np.int32([64]), b, checks=False)


# ---- arguments of a call

def test_calls_take_bytes_of_two_elements():
    packed, values = random(64)
    b = np.zeros(64, np.float32)
    KERNELS["decode"](packed, b)
    assert np.array_equal(b, values)
    out = np.zeros(32, np.uint8)
    KERNELS["encode"](b, out)
    assert np.array_equal(unpack_float4(out).astype(np.float32), values)


def test_calls_with_extents_and_rows():
    def kernel(A: T.Buffer(("m", "n"), "float4_e2m1fn"), B: T.Buffer(("m", "n"), "float32")):
        m, n = A.shape
        T.device_entry()
        i, j = T.cta_id([m]), T.thread_id([1])
        for k in T.serial(j, n):
            B[i, k] = A[i, k].astype("float32")

    packed, values = random(60)
    b = np.zeros((3, 20), np.float32)
    trace(kernel)(packed.reshape(3, 10), b)
    assert np.array_equal(b, values.reshape(3, 20))
    with pytest.raises(ArgumentValueError, match=r"expected n = 20 \(A.shape\[1\]\), got 19"):
        trace(kernel)(packed.reshape(3, 10), np.zeros((3, 19), np.float32))
    with pytest.raises(ArgumentValueError, match=r"A.strides: expected \(10, 1\) elements .* got \(20, 1\)"):
        trace(kernel)(packed.reshape(3, 10)[:, :5], np.zeros((3, 10), np.float32))


def test_calls_with_strides_and_offsets():
    def kernel(A: T.Buffer((4, 16), "float4_e2m1fn", strides=(64, 1)), B: T.Buffer((4, 16), "float32"),
               C: T.Buffer((32,), "float4_e2m1fn", elem_offset=64)):
        T.device_entry()
        i, j = T.thread_id([4, 16])
        B[i, j] = A[i, j].astype("float32") + C[2 * j + 1].astype("float32")

    kernel = trace(kernel)
    (wide, values), (line, others), b = random(4 * 64), random(128), np.zeros((4, 16), np.float32)
    kernel(wide.reshape(4, 32)[:, :8], b, line[32:48])
    assert np.array_equal(b, values.reshape(4, 64)[:, :16] + others[65:96:2])
    with pytest.raises(ArgumentValueError, match=r"A.strides: expected \(64, 1\) elements, got \(16, 1\); the layout needs 208 elements, .* 64"):
        kernel(wide[:32].reshape(4, 8), b, line[32:48])
    with pytest.raises(ArgumentValueError, match="C.elem_offset: .* first element lies 64 elements into its storage, got one at 62"):
        kernel(wide.reshape(4, 32)[:, :8], b, line[31:47])


def test_six_bit_floats_come_as_they_are_or_as_bytes():
    codes = rng.integers(0, 64, 64, dtype=np.uint8)
    first, second = np.zeros(64, ml_dtypes.float6_e3m2fn), np.zeros(64, np.uint8)
    KERNELS["six"](codes.view(ml_dtypes.float6_e2m3fn), first)
    KERNELS["six"](codes, second)
    assert np.array_equal(first.view(np.uint8), second) and second.any()


@pytest.mark.parametrize(("array", "error", "message"), [
    (np.zeros(64, FP4), ArgumentTypeError, r"an array of float4_e2m1fn with one element a byte; pack two in each: runtime.pack_float4\(array\)"),
    (np.zeros(32, np.int8), ArgumentTypeError, "A.dtype: expected float4_e2m1fn, got int8"),
    (np.zeros(64, np.uint8), ArgumentValueError, r"A.shape\[0\]: expected 64, got 128"),
    (np.zeros(64, np.uint8)[::2], ArgumentTypeError, "bytes of two float4_e2m1fn that do not follow each other along the last axis"),
])
def test_calls_refuse_other_arrays(array, error, message):
    with pytest.raises(error, match=message):
        KERNELS["decode"](array, np.zeros(64, np.float32))
