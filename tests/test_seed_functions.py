"""The snippets of the document on defining a function, in this language: result, launch parameters, host and device text."""

import re

import numpy as np
import pytest

from tracer import T, trace
from tracer.errors import ArgumentError, ArgumentValueError


def random(*shape):
    return np.random.default_rng(6).standard_normal(shape, dtype=np.float32)


# ---- two equivalent ways to take a tensor

def by_handle(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (256,), "float32", align=16)
    B = T.match_buffer(B_ptr, (256,), "float32")
    T.device_entry()
    tx = T.thread_id([256])
    B[tx] = A[tx]


def by_annotation(A: T.Buffer((256,), "float32", align=16), B: T.Buffer((256,), "float32")):
    T.device_entry()
    tx = T.thread_id([256])
    B[tx] = A[tx]


def test_both_forms_are_the_same_kernel():
    sources = []
    for fn in (by_handle, by_annotation):
        a, b = random(256), np.empty(256, np.float32)
        kernel = trace(fn)
        kernel(a, b)
        assert np.array_equal(a, b)
        sources.append(kernel.cuda_source(locations=False).replace(fn.__name__, "k"))
    assert sources[0] == sources[1]


# ---- a scalar parameter

def scal(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
    A = T.match_buffer(A_ptr, (256,), "float32")
    B = T.match_buffer(B_ptr, (256,), "float32")
    T.device_entry()
    bx = T.cta_id([1])
    tx = T.thread_id([256])
    B[tx] = A[tx] * s


def test_scalar_parameter():
    a, b = random(256), np.empty(256, np.float32)
    kernel = trace(scal)
    kernel(a, b, 3.0)
    assert np.array_equal(b, a * np.float32(3))
    assert kernel.cuda_source(locations=False) == """\
extern "C" __global__ void __launch_bounds__(256)
scal_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr, float s) {
  const int tx = threadIdx.x;
  B_ptr[tx] = A_ptr[tx] * s;
}
"""


# ---- one symbolic kernel for any size

def scale_dyn(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    T.device_entry()
    bx = T.cta_id([1])
    tx = T.thread_id([1])
    for i in T.serial(n):
        B[i] = A[i] * T.float32(2.0)


def test_one_symbolic_kernel_takes_100_and_200_elements():
    kernel = trace(scale_dyn)
    for n in (100, 200):
        a, b = random(n), np.empty(n, np.float32)
        kernel(a, b)
        assert np.array_equal(b, a * 2)
    assert kernel.cuda_source(locations=False) == """\
extern "C" __global__ void __launch_bounds__(1)
scale_dyn_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr, int n) {
  for (int i = 0; i < n; ++i) {
    B_ptr[i] = A_ptr[i] * 2.0f;
  }
}
"""


def test_a_second_shape_that_disagrees_is_refused_by_name():
    a, b = random(100), np.full(99, 7, np.float32)
    with pytest.raises(ArgumentValueError, match=r"B\.shape\[0\]: expected n = 100 \(A\.shape\[0\]\), got 99 \(argument 1, b, of `scale_dyn\("):
        trace(scale_dyn)(a, b)
    assert np.all(b == 7)


def test_split_shows_host_and_device():
    halves = trace(scale_dyn).split()
    assert str(halves.host) == """\
def scale_dyn(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    T.call_packed("scale_dyn_kernel", A.data, B.data, n, 1, 1)
"""
    assert str(halves.device) == """\
def scale_dyn_kernel(A_ptr: T.handle("float32"), B_ptr: T.handle("float32"), n: T.int32):
    bx = T.cta_id([1])
    tx = T.thread_id([1])
    for i in T.serial(n):
        B[i] = A[i] * 2.0
"""
    host = trace(scale_dyn).host_source()
    assert "def scale_dyn(" in host and re.search(r"n = .*shape\[0\]", host)


# ---- compile-time parameters

def test_constexpr_and_specialise():
    N = None  # the annotations below mention the parameter, not this
    namespace = {"T": T}
    exec("from __future__ import annotations\n"
         "def add(A: T.Buffer((N,), 'float32'), B: T.Buffer((N,), 'float32'), C: T.Buffer((N,), 'float32'), *, N: T.constexpr):\n"
         "    T.device_entry(); bx = T.cta_id([1]); tx = T.thread_id([N])\n"
         "    C[tx] = A[tx] + B[tx]\n", namespace)
    add = trace(namespace["add"])
    kernel = add.specialize(N=256)
    assert kernel is add.specialize(N=256)
    a, b, c = random(256), random(256), np.empty(256, np.float32)
    kernel(a, b, c)
    assert np.array_equal(c, a + b)
    assert kernel.launch.block == (256,)
    assert "__launch_bounds__(256)" in kernel.cuda_source()


# ---- the thread hierarchy

def test_scope_ids():
    def kernel(A: T.Buffer((6, 128), "int32"), B: T.Buffer((6, 128), "int32")):
        T.device_entry()
        bx, by = T.cta_id([3, 2])
        warp_id = T.warp_id([4])
        lane_id = T.lane_id([32])
        tx = T.thread_id([128])
        B[by * 3 + bx, tx] = A[by * 3 + bx, tx] + warp_id * 100 + lane_id

    kernel = trace(kernel)
    assert kernel.device.attrs["tirx.kernel_launch_params"] == ["blockIdx.x", "blockIdx.y", "threadIdx.x"]
    assert kernel.launch.grid == (3, 2) and kernel.launch.block == (128,)
    a, b = np.zeros((6, 128), np.int32), np.empty((6, 128), np.int32)
    kernel(a, b)
    assert np.array_equal(b[0], np.arange(128) // 32 * 100 + np.arange(128) % 32)


def test_clusters_have_launch_extents():
    def kernel(A: T.Buffer((1024,), "float32")):
        T.device_entry()
        cid = T.cluster_id([8])
        rank = T.cta_id_in_cluster([2], preferred=[4])
        tx = T.thread_id([64])
        A[(cid * 2 + rank) * 64 + tx] = 0.0

    launch = trace(kernel).launch
    assert (launch.grid, launch.cluster, launch.preferred_cluster) == ((16,), (2,), (4,))


def test_minimum_blocks_per_multiprocessor():
    def kernel(A: T.Buffer((256,), "float32")):
        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 2})
        bx = T.cta_id([1])
        tx = T.thread_id([256])
        A[tx] = 1.0

    assert "__launch_bounds__(256, 2)" in trace(kernel).cuda_source()


def test_bad_calls_write_nothing():
    kernel = trace(scal)
    a, b = random(256), np.full(256, 7, np.float32)
    for arguments in [(a, b), (a, b, 3.0, 1), (a, b, "3"), (a.astype(np.float64), b, 3.0), (a[:255], b, 3.0), (a.reshape(16, 16), b, 3.0),
                      (np.repeat(a, 2)[::2], b, 3.0), (b, b, 3.0), (None, b, 3.0)]:
        with pytest.raises(ArgumentError):
            kernel(*arguments)
    assert np.all(b == 7)
