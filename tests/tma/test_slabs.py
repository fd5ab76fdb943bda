"""A map of a view: several slabs of columns by one instruction."""

import numpy as np
import pytest

from tests.nvcc import cubin, needs_nvcc
from tests.tma.slabs import KERNEL, arrays
from tracer.errors import ArgumentValueError


def test_three_slabs_at_once():
    a, b, expected = arrays()
    KERNEL.simulate(a, b)
    assert np.array_equal(b, expected)
    source = KERNEL.host_source()
    assert "(64, n, k//64)" in source and "(k//64*128, 128)" in source     # innermost first; strides in bytes
    with pytest.raises(ArgumentValueError, match=r"the assumption `k % 64 == 0` .* does not hold: k = 250"):
        KERNEL.simulate(a[:, :250].copy(), b)


@needs_nvcc
def test_it_compiles(tmp_path):
    assert cubin(KERNEL.cuda_source(), tmp_path, ["sm_90a"])["sm_90a"].stat().st_size > 0
