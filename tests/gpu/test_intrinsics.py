"""Every intrinsic gives on the GPU, bit for bit, what it gives on the simulator."""

import numpy as np
import pytest

from codegen.architecture import number
from runtime.device import device
from tests.codegen.every_intrinsic import arguments, kernels
from tests.gpu.transfer import from_gpu, to_gpu
from tests.property.random_kernels import same

# What is not the same: the quotient is within 2 units of the last place; a clock counts something else.
ROUNDED, UNLIKE = {"floats"}, {"order"}
# Which lane is elected is not promised.
UNSAID = {"elected"}


@pytest.mark.parametrize("name", kernels())
def test_every_intrinsic_agrees(name, torch):
    kernel = kernels()[name]
    if number(kernel.minimum_arch) > number(device(0).arch):
        pytest.skip(f"needs {kernel.minimum_arch}")
    expected, given = arguments(kernel), arguments(kernel)
    kernel(*expected)
    sent = [to_gpu(torch, a) if isinstance(a, np.ndarray) else a for a in given]
    kernel(*sent)
    if name in UNLIKE | UNSAID:
        return
    for held, wanted in zip(sent, expected):
        if isinstance(wanted, np.ndarray):
            got = from_gpu(torch, held, wanted.dtype)
            if name in ROUNDED:
                np.testing.assert_allclose(got, wanted, rtol=3e-7)
            else:
                assert same(got, wanted).all(), (got[~same(got, wanted)], wanted[~same(got, wanted)])
