"""Every instruction but the matrix ones and tensor copies gives on the GPU, bit for bit, what it gives on the simulator."""

import pytest

from codegen.architecture import number
from runtime.device import device
from tests.codegen.instruction_kernels import arguments, kernels
from tests.gpu.transfer import from_gpu, to_gpu
from tests.property.random_kernels import same


@pytest.mark.parametrize("name", kernels())
def test_every_instruction_agrees(name, torch):
    kernel = kernels()[name]
    if number(kernel.minimum_arch) > number(device(0).arch):
        pytest.skip(f"needs {kernel.minimum_arch}")
    expected, given = arguments(kernel), arguments(kernel)
    kernel(*expected)
    sent = [to_gpu(torch, a) for a in given]
    kernel(*sent)
    for held, wanted in zip(sent, expected):
        got = from_gpu(torch, held, wanted.dtype)
        assert same(got, wanted).all(), (got[~same(got, wanted)], wanted[~same(got, wanted)])
