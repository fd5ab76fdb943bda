"""Builds with 64-bit indices: the same results, compiled without a warning, right beyond 2**31 elements, and data that keeps its type."""

from random import Random

import numpy as np
import pytest

import runtime
from codegen.verify import verify
from tests.codegen import instruction_kernels
from tests.kernels import CASES
from tests.nvcc import cubin, needs_nvcc, one_unit
from tests.property.random_kernels import BUFFERS, Program, same
from tests.runtime.kernels import ALL
from tests.simulator.running import run
from tests.test_kernels import assert_close
from tracer import T, trace
from tracer.errors import LaunchError

BIG = 2**31 + 2**20


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_wide_build_gives_numpys_result(case):
    inputs = case.inputs(np.random.default_rng(5))
    output = np.full(case.output[0], 77, case.output[1])
    with np.errstate(all="ignore"):
        expected = case.expected(*inputs, *case.scalars)
    wide = case.kernel().wide
    verify(wide.function)
    wide(*inputs, output, *case.scalars)
    assert_close(output, expected, case.tolerance)


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_compute_the_same(seed):
    program = Program.draw(Random(seed))
    expected = program.expected()
    arrays = {name: data.copy() for name, data in program.arrays.items()}
    wide = program.kernel().wide
    verify(wide.function)
    wide(*[arrays[name] for name in BUFFERS])
    for name in BUFFERS:
        assert same(arrays[name], expected[name]).all(), name


def test_the_hardwares_instructions_do_the_same():
    for name, kernel in instruction_kernels.kernels().items():
        wide = kernel.wide
        verify(wide.function)
        assert wide.cuda_source()
        arrays = instruction_kernels.arguments(kernel)
        copies = [a.copy() for a in arrays]
        run(kernel, *arrays)
        run(wide, *copies)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(arrays, copies)), name


@needs_nvcc
def test_every_wide_build_compiles_without_a_warning(tmp_path):
    cubin(one_unit(case.kernel().wide.cuda_source(locations=False) for case in CASES), tmp_path, ["sm_90a"])


def device_lines(kernel):
    """The kernel from its name on."""
    return kernel.cuda_source(locations=False).split("\n", 1)[1].rstrip()


def test_the_text_of_a_wide_build():
    assert device_lines(ALL["scale"].wide) == """\
scale_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr, long long n, float s) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const long long i = (long long)bx * 256 + tx;
  if (i < n) {
    B_ptr[i] = A_ptr[i] * s;
  }
}"""
    assert "int n, float s" in device_lines(ALL["scale"]), "the build of before is as it was"


@trace
def mixed(A: T.Buffer(("n",), "int32"), P: T.Buffer(("n",), "int32"), F: T.Buffer(("n",), "float32")):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    with T.If(i < n):
        F[i] = i.astype("float32")
        with T.If(P[i] < n):
            A[P[i]] = T.max(P[i], i % 3)
        count = T.local_scalar("int32", 0)
        with T.While(lambda: count < n):
            count += 1
        for j in T.serial(i, n, 256):
            F[j] = F[j] + 1.0


def test_data_keeps_its_type():
    assert device_lines(mixed.wide) == """\
mixed_kernel(int* __restrict__ A_ptr, const int* __restrict__ P_ptr, float* __restrict__ F_ptr, long long n) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const long long i = (long long)bx * 256 + tx;
  if (i < n) {
    F_ptr[i] = (float)i;
    if (P_ptr[i] < n) {
      A_ptr[P_ptr[i]] = max((long long)P_ptr[i], i % 3);
    }
    long long count = 0;
    while (count < n) {
      count += 1;
    }
    for (long long j = i; j < n; j += 256) {
      F_ptr[j] += 1.0f;
    }
  }
}"""


@trace
def counted(A: T.Buffer(("n",), "int32")):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([1])
    count = T.local_scalar("int32", 0)
    with T.While(lambda: count < n):
        count += 1
    A[tx] = count


def test_where_an_extent_meets_an_int32_that_is_data_it_must_be_an_int32():
    """A thread that counts an int32 up to 2**31 and more would never end."""
    from runtime.indices import index_problems
    problems = index_problems(counted.wide.half)
    assert list(problems((1000,), (1, 1, 1), (1, 1, 1))) == []
    line = counted.function.location.line
    assert list(problems((BIG,), (1, 1, 1), (1, 1, 1))) == [
        f"the index arithmetic `n` at test_wide.py:{line + 6} can reach {BIG} with n = {BIG}, which is used as an int32"]


@trace
def striding(A: T.Buffer(("n",), "int8"), first: T.int64):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([256])
    low = T.local_scalar("int32", 0)
    high = T.local_scalar("int32", n)
    with T.While(lambda: low < high):             # the least index of at least `first`, by halving
        middle = T.let((low + high) // 2)
        with T.If(middle.astype("int64") < first):
            low.assign(middle + 1)
        with T.Else():
            high.assign(middle)
    i = T.local_scalar("int32", low + tx)
    with T.While(lambda: i < n):
        A[i] = A[i] + 1
        i += 256


def test_mutable_scalars_step_through_indices():
    a = np.zeros(1000, "int8")
    striding(a, 300)
    assert not a[:300].any() and (a[300:] == 1).all()
    big = np.zeros(BIG, "int8")
    striding(big, BIG - 700)
    assert (big[-700:] == 1).all() and np.count_nonzero(big[-2**20:]) == 700 and not big[:2**20].any()
    declared = [line.strip() for line in device_lines(striding.wide).splitlines() if line.strip().startswith("long long")]
    assert [line.split()[2] for line in declared if " = " in line and line.split()[2] in ("low", "high", "i")] == ["low", "high", "i"]
    assert "long long" not in device_lines(striding).replace("long long first", "")


def test_what_makes_random_numbers_stays_an_int32():
    @trace
    def random(A: T.Buffer(("n",), "int32")):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        T.thread_id([1])
        seed = T.local_scalar("int32", bx)
        for _ in T.serial(5):
            seed.assign(seed * 1664525 + 1013904223)
        A[bx] = seed

    a, b = np.zeros(50, "int32"), np.zeros(50, "int32")
    random(a)
    random.wide(b)
    assert np.array_equal(a, b) and "int seed" in device_lines(random.wide)


@trace
def last(A: T.Buffer(("n",), "int8"), B: T.Buffer((256,), "int8")):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([256])
    i = n - 256 + tx
    A[i] = A[i] + 7
    T.cuda.cta_sync()
    B[tx] = A[n - 1 - tx]


def test_the_last_of_more_than_2_to_the_31_elements():
    a, b = np.zeros(BIG, "int8"), np.zeros(256, "int8")
    a[-256:] = np.arange(256).astype("int8")
    last(a, b)
    assert np.array_equal(a[-256:], (np.arange(256) + 7).astype("int8")) and np.array_equal(b, a[:-257:-1])
    assert not a[:2**20].any() and not a[2**31 - 2**19:2**31 + 2**19].any()
    with pytest.raises(LaunchError, match=rf"`n` at .* can reach {BIG} with n = {BIG}, which is used as an int32"):
        numbered(a)


@trace
def numbered(A: T.Buffer(("n",), "int8")):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([1])
    A[tx] = T.cuda.func_call("low", n, source_code="__device__ signed char low(int n) { return n; }", return_type="int8")


def test_rows_whose_index_alone_is_wide():
    @trace
    def rows(A: T.Buffer(("n", "m"), "int8")):
        n, m = A.shape
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([256])
        A[n - 1 - bx, m - 256 + tx] = (tx % 100).astype("int8")

    a = np.zeros((2**21 + 1, 2**10), "int8")
    runtime.simulate(rows, a, grid=(2,))        # the first block and one from the middle
    written = [2**20, 2**21]
    assert np.array_equal(a[written, -256:], np.broadcast_to(np.arange(256) % 100, (2, 256)))
    assert np.count_nonzero(a[written, :-256]) == 0 and not a[[0, 2**20 - 1, 2**20 + 1, -2]].any()
