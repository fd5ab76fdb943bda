"""Packed float4 by tensor copies."""

import numpy as np

from tests.nvcc import cubin, needs_nvcc
from tests.tma.halves import KERNEL, arrays


def test_weights_are_widened():
    a, expected = arrays()
    b = np.zeros_like(expected)
    KERNEL.simulate(a, b)
    assert np.array_equal(b, expected)


@needs_nvcc
def test_it_compiles(tmp_path):
    assert cubin(KERNEL.cuda_source(), tmp_path, ["sm_90a"])["sm_90a"].stat().st_size > 0
