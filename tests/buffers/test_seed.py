"""The examples of the chapter on buffers and memory (all but tensor memory and pools): result, index texts, the CUDA source."""

import numpy as np
import pytest

from symbolic.layout.axes import laneid
from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from tests.buffers.cuda import body
from tracer import T, trace

A48 = np.arange(32, dtype="float32").reshape(4, 8)


def indices(kernel):
    """Index texts by buffer and kind of access."""
    return [f"{a.buffer} {a.text.split('] ')[1]}" for a in kernel.accesses()]


def shifted():
    return np.zeros(128, "float32")[64:96].reshape(4, 8)


def padded():
    return np.zeros((4, 16), "float32")[:, :8]


# What B is declared with: its index, the array that it takes, and how B[i, j] lies in that.
DECLARED = [
    ({}, "i*8 + j", lambda: np.zeros((4, 8), "float32"), lambda b: b),
    ({"layout": TileLayout(S[(4, 8):(1, 4)])}, "j*4 + i", lambda: np.zeros((4, 8), "float32"), lambda b: b.reshape(8, 4).T),
    ({"elem_offset": 64}, "i*8 + j + 64", shifted, lambda b: b),
    ({"layout": TileLayout(S[(4, 8):(16, 1)])}, "i*16 + j", padded, lambda b: b),
]


@pytest.mark.parametrize("options, index, array, elements", DECLARED, ids=[row[1] for row in DECLARED])
def test_one_access_four_declarations(options, index, array, elements):
    def kernel(a: T.handle, p: T.handle):
        A = T.match_buffer(a, (4, 8), "float32")
        B = T.match_buffer(p, (4, 8), "float32", **options)
        T.device_entry()
        i, j = T.thread_id([4, 8])
        B[i, j] = A[i, j] + 1.0

    traced = trace(kernel)
    assert indices(traced) == ["A load  i*8 + j", f"B store  {index}"]
    c = index.replace("j*4", "j * 4").replace("i*", "i * ")
    assert body(traced) == ["const int i = threadIdx.x;", "const int j = threadIdx.y;", f"B_ptr[{c}] = A_ptr[i * 8 + j] + 1.0f;"]
    b = array()
    traced(A48, b)
    assert np.array_equal(elements(b), A48 + 1)


def test_static_shared():
    def smem_demo(A_ptr: T.handle, B_ptr: T.handle):
        A = T.match_buffer(A_ptr, (128,), "float32")
        B = T.match_buffer(B_ptr, (128,), "float32")
        T.device_entry()
        T.cta_id([1])
        tx = T.thread_id([128])
        sm = T.alloc_shared((128,), "float32")
        sm[tx] = A[tx]
        T.cuda.cta_sync()
        B[tx] = sm[tx] * T.float32(2.0)

    kernel = trace(smem_demo)
    assert kernel.cuda_source(locations=False) == """\
extern "C" __global__ void __launch_bounds__(128)
smem_demo_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  __shared__ float sm[128];
  sm[tx] = A_ptr[tx];
  __syncthreads();
  B_ptr[tx] = sm[tx] * 2.0f;
}
"""
    a, b = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    kernel(a, b)
    assert np.array_equal(b, a * 2)


def dyn(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([64])
    smem = T.alloc_buffer((128,), "float32", scope="shared.dyn", align=64)
    As = T.decl_buffer((64,), "float32", data=smem.data, scope="shared.dyn")
    Bs = T.decl_buffer((64,), "float32", data=smem.data, elem_offset=64, scope="shared.dyn")
    As[tx] = A[tx]
    Bs[tx] = B[tx]
    T.cuda.cta_sync()
    C[tx] = As[tx] + Bs[tx]


def test_dynamic_shared():
    kernel = trace(dyn)
    assert body(kernel) == [
        "const int tx = threadIdx.x;",
        "extern __shared__ __align__(64) float smem[];",
        "smem[tx] = A_ptr[tx];",
        "smem[tx + 64] = B_ptr[tx];",
        "__syncthreads();",
        "C_ptr[tx] = smem[tx] + smem[tx + 64];",
    ]
    assert kernel.launch.dynamic_shared_bytes == 512
    assert kernel.split().device.attrs["tirx.kernel_launch_params"] == ["blockIdx.x", "threadIdx.x", "tirx.use_dyn_shared_memory"]
    assert 'T.call_packed("dyn_kernel", A.data, B.data, C.data, 1, 64, 512)' in str(kernel.split().host)
    assert "shared = 512" in kernel.host_source()
    a, b, c = np.arange(64, dtype="float32"), np.ones(64, "float32"), np.zeros(64, "float32")
    kernel(a, b, c)
    assert np.array_equal(c, a + 1)


def test_registers():
    def fill(A: T.Buffer((64, 4), "float32"), B: T.Buffer((64, 4), "float32")):
        T.device_entry()
        tx = T.thread_id([64])
        r = T.alloc_local((4,), "float32")
        for k in T.unroll(4):
            r[k] = A[tx, k]
        for k in range(4):
            B[tx, k] = r[3 - k]

    kernel = trace(fill)
    lines = body(kernel)
    assert lines[1] == "float r[4];"           # of its natural alignment
    assert lines[-4:] == ["B_ptr[tx * 4] = r[3];", "B_ptr[tx * 4 + 1] = r[2];", "B_ptr[tx * 4 + 2] = r[1];", "B_ptr[tx * 4 + 3] = r[0];"]
    a, b = np.arange(256, dtype="float32").reshape(64, 4), np.zeros((64, 4), "float32")
    kernel(a, b)
    assert np.array_equal(b, a[:, ::-1])


def test_a_scalar_is_an_array_of_one_element():
    def array(A: T.Buffer((64, 4), "float32"), B: T.Buffer((64,), "float32")):
        T.device_entry()
        tx = T.thread_id([64])
        acc = T.local_scalar("float32", 0.0)
        phase = T.alloc_local((1,), "int32")
        phase[0] = 0
        with T.While(lambda: phase[0] < 4):
            acc += A[tx, phase[0]]
            phase[0] += 1
        B[tx] = acc

    def scalar(A: T.Buffer((64, 4), "float32"), B: T.Buffer((64,), "float32")):
        T.device_entry()
        tx = T.thread_id([64])
        acc = T.local_scalar("float32", 0.0)
        phase = T.local_scalar("int32", 0)
        with T.While(lambda: phase < 4):
            acc += A[tx, phase]
            phase += 1
        B[tx] = acc

    a = np.arange(256, dtype="float32").reshape(64, 4)
    for fn in (array, scalar):
        b = np.zeros(64, "float32")
        trace(fn)(a, b)
        assert np.array_equal(b, a.sum(axis=1))
    assert body(trace(array))[2:4] == ["int phase[1];", "phase[0] = 0;"]
    lines = body(trace(scalar))       # a variable: how it is added to is no matter of memory
    assert lines[2:5] == ["int phase = 0;", "while (phase < 4) {", "acc += A_ptr[tx * 4 + phase];"] and lines[-1] == "B_ptr[tx] = acc;"


def test_let_carries_facts_to_its_uses():
    def kernel(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
        n = A.shape[0]
        T.assume(n % 64 == 0)
        T.assume(n > 0)
        T.device_entry()
        tx = T.thread_id([32])
        half = T.let(n // 2)
        quarter = T.let(half // 2)
        B.vstore([half - 4], A.vload([quarter * 4 - 4], "float32x4"))
        B[tx] = A[half + tx]

    traced = trace(kernel)
    assert body(traced)[1:4] == [
        "const int half_ = n / 2;",
        "*(float4*)(B_ptr + half_ - 4) = *(const float4*)(A_ptr + n - 4);",
        "B_ptr[tx] = A_ptr[half_ + tx];"]
    assert all(access.in_bounds for access in traced.accesses())


def test_pointers():
    source = "__device__ __forceinline__ float ld(const float* p) { return *p; }"

    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.device_entry()
        tx = T.thread_id([64])
        B[tx] = T.cuda.func_call("ld", A.ptr_to([tx]), source_code=source, return_type="float32")
        B[tx] = T.cuda.func_call("ld", A.data, source_code=source, return_type="float32")
        T.cuda.func_call("st", B.ptr_to([tx]), source_code="__device__ void st(float* p) { *p = 1.0f; }")

    assert body(trace(kernel))[1:] == ["B_ptr[tx] = ld(&A_ptr[tx]);", "B_ptr[tx] = ld(A_ptr);", "st(&B_ptr[tx]);"]


def test_vectors():
    def kernel(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        T.device_entry()
        tx = T.thread_id([64])
        B.vstore([tx * 4], A.vload([tx * 4], dtype="float32x4"))

    traced = trace(kernel)
    assert body(traced)[1:] == ["*(float4*)(B_ptr + tx * 4) = *(const float4*)(A_ptr + tx * 4);"]
    a, b = np.arange(256, dtype="float32"), np.zeros(256, "float32")
    traced(a, b)
    assert np.array_equal(a, b)


def test_view_and_permute():
    def kernel(A: T.Buffer((256,), "float32"), B: T.Buffer((4, 64), "float32")):
        T.device_entry()
        j, i = T.thread_id([4, 64])
        A2 = A.view(64, 4)
        At = A2.permute(1, 0)
        y = A2[i, 0] + A2[i, 3]
        B[j, i] = At[j, i] + y

    traced = trace(kernel)
    assert indices(traced) == ["A2 load  i*4", "A2 load  i*4 + 3", "At load  i*4 + j", "B store  j*64 + i"]
    assert body(traced)[2:] == ["const float y = A_ptr[i * 4] + A_ptr[i * 4 + 3];", "B_ptr[j * 64 + i] = A_ptr[i * 4 + j] + y;"]
    a, b = np.arange(256, dtype="float32"), np.zeros((4, 64), "float32")
    traced(a, b)
    assert np.array_equal(b, a.reshape(64, 4).T + a[0::4] + a[3::4])


def test_the_registers_behind_a_fragment():
    def kernel(A: T.Buffer((32, 8), "float32"), B: T.Buffer((32, 8), "float32")):
        T.device_entry()
        lane = T.thread_id([32])
        R = T.alloc_buffer((32, 8), "float32", scope="local", layout=TileLayout(S[(32, 8):(1 @ laneid, 1)]))
        R_flat = R.local()
        R_2d = R.local(2, 4)
        for k in range(8):
            R_flat[k] = A[lane, k]
        B[lane, 5] = R_2d[1, 1]

    traced = trace(kernel)
    lines = body(traced)
    assert lines[1] == "float R[8];" and lines[-1] == "B_ptr[lane * 8 + 5] = R[5];"
    a, b = np.arange(256, dtype="float32").reshape(32, 8), np.zeros((32, 8), "float32")
    traced(a, b)
    assert np.array_equal(b[:, 5], a[:, 5]) and not b[:, 6:].any()


def test_a_region_is_indexed_from_its_own_corner():
    def kernel(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
        T.device_entry()
        bx = T.cta_id([4])
        i, j = T.thread_id([16, 32])
        m0 = bx * 16
        part = A[m0:m0 + 16, 0:32]
        B[m0 + i, j] = part[i, j]

    traced = trace(kernel)
    assert indices(traced) == ["part load  bx*1024 + i*64 + j", "B store  bx*1024 + i*64 + j"]
    a, b = np.arange(4096, dtype="float32").reshape(64, 64), np.zeros((64, 64), "float32")
    traced(a, b)
    assert np.array_equal(b[:, :32], a[:, :32]) and not b[:, 32:].any()
