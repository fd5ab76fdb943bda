"""Every kernel of the table, and random ones, give on the GPU what they give on the simulator."""

from random import Random

import numpy as np
import pytest

from examples import block_sum, matmul, saxpy, softmax, transpose
from tests.gpu.transfer import from_gpu, to_gpu
from tests.kernels import CASES
from tests.property.random_kernels import BUFFERS, Program, same
from tests.test_kernels import assert_close


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_gpu_gives_numpys_result(case, torch):
    inputs = case.inputs(np.random.default_rng(7))
    with np.errstate(all="ignore"):
        expected = case.expected(*inputs, *case.scalars)
    arrays = [to_gpu(torch, a) for a in inputs]
    output = to_gpu(torch, np.full(case.output[0], 77, case.output[1]))
    case.kernel()(*arrays, output, *case.scalars)
    # The GPU contracts a*b + c into one rounding, so floats may differ in the last place.
    slack = 1e-6 if np.issubdtype(case.output[1], np.floating) else 0.0
    assert_close(from_gpu(torch, output, case.output[1]), expected, max(case.tolerance, slack))
    for array, before in zip(arrays, inputs):
        np.testing.assert_array_equal(from_gpu(torch, array, before.dtype), before)


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels_agree_bit_for_bit(seed, torch):
    """Without fused multiply-add, which rounds once where NumPy rounds twice."""
    program = Program.draw(Random(seed))
    expected = program.expected()
    arrays = {name: to_gpu(torch, data) for name, data in program.arrays.items()}
    program.kernel().compile(options=("--fmad=false",))(*[arrays[name] for name in BUFFERS])
    for name in BUFFERS:
        got = from_gpu(torch, arrays[name], expected[name].dtype)
        assert same(got, expected[name]).all(), (name, got[~same(got, expected[name])], expected[name][~same(got, expected[name])])


@pytest.mark.parametrize("example", [saxpy, block_sum, transpose, softmax, matmul], ids=lambda m: m.__name__)
def test_examples_run_on_the_gpu(example, torch, capsys):
    example.main()
    out = capsys.readouterr().out
    assert "through PyTorch: right" in out and "WRONG" not in out
