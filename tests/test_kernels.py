"""Every kernel of the table gives NumPy's result on the simulator, and its source compiles for each architecture."""

import numpy as np
import pytest

from codegen.architecture import number
from examples import block_sum, demo, matmul, saxpy, softmax, transpose
from tests.kernels import CASES, ONLY_PRINTED
from tests.nvcc import ARCHITECTURES, cubin, needs_nvcc, one_unit
from tracer import T, trace

EXAMPLES = [saxpy, block_sum, transpose, softmax, matmul, demo]


def assert_close(got, expected, tolerance):
    """Equal, or within `tolerance` of the greater of 1 and the value."""
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    if tolerance:
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, expected.astype(got.dtype))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_simulator_gives_numpys_result(case):
    inputs = case.inputs(np.random.default_rng(5))
    kept = [a.copy() for a in inputs]
    output = np.full(case.output[0], 77, case.output[1])
    with np.errstate(all="ignore"):
        expected = case.expected(*inputs, *case.scalars)
    case.kernel()(*inputs, output, *case.scalars)
    assert_close(output, expected, case.tolerance)
    for array, before in zip(inputs, kept):
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_emission_is_deterministic(case):
    assert case.kernel().cuda_source() == case.kernel().cuda_source()
    assert case.kernel().host_source() == case.kernel().host_source()


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_compiles_without_a_warning(architecture, tmp_path):
    sources = []
    for case in [*CASES, *ONLY_PRINTED]:
        kernel = case.kernel() if hasattr(case, "kernel") else trace(case)
        if number(kernel.minimum_arch) <= number(architecture):
            sources.append(kernel.cuda_source(locations=False))
    cubin(one_unit(sources), tmp_path, [architecture])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda m: m.__name__)
def test_examples_run(example, capsys):
    example.main()
    out = capsys.readouterr().out
    assert "simulator: right" in out and "WRONG" not in out
    assert 'extern "C" __global__' in out


@needs_nvcc
def test_examples_compile_without_a_warning(tmp_path):
    kernels = [trace(saxpy.saxpy), trace(block_sum.block_sum), trace(transpose.transpose), trace(softmax.softmax),
               matmul.matmul.specialize(M=128, N=96, K=64), trace(demo.scale)]
    cubin(one_unit(k.cuda_source() for k in kernels), tmp_path)


def test_simplified_arithmetic_on_data_stays_in_its_type():
    """`i + 1 <= i % n` is `n*(i//n) < 0`, whose left side leaves int32 for the least i: it stays as the author wrote it."""
    def kernel(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "bool"), n: T.int32):
        T.assume((n >= 1) & (n < 64))
        T.device_entry()
        tx = T.thread_id([4])
        i = A[tx]
        B[tx] = False
        with T.If(i < 100):
            B[tx] = i + 1 <= i % n

    kernel = trace(kernel)
    assert "i + 1 <= floormod(i, n)" in kernel.cuda_source() and "floordiv" not in kernel.cuda_source()
    a, b = np.array([-2**31, -1, 0, 50], np.int32), np.zeros(4, np.bool_)
    kernel(a, b, 50)
    assert b.tolist() == [True, True, False, False]
