"""4- and 6-bit floats on the GPU: the bytes that the simulator gives."""

import numpy as np
import pytest

from tests.buffers.test_packed import KERNELS
from tests.gpu.transfer import from_gpu, to_gpu

rng = np.random.default_rng(6)
PACKED = [rng.integers(0, 256, 32, dtype=np.uint8) for _ in range(2)]
FLOATS = np.float32([0.25, 0.75, 1.25, 1.75, 2.5, 5.0, 7.0, -100.0, np.inf, np.nan, 0.2500001, -0.25, *rng.standard_normal(52) * 3])
ARGUMENTS = {
    "decode": [PACKED[0], np.zeros(64, np.float32)],
    "encode": [FLOATS, np.zeros(32, np.uint8)],
    "vectors": [PACKED[0], np.zeros(32, np.uint8)],
    "gather": [PACKED[0], rng.integers(0, 64, 32).astype(np.int32), np.zeros(32, np.uint8)],
    "views": [PACKED[0].reshape(4, 8), np.zeros(32, np.uint8), np.zeros((4, 8, 1), np.uint8)],
    "arithmetic": [PACKED[1], np.zeros(64, np.float32), np.zeros(64, np.uint8)],
    "pooled": [PACKED[1], np.zeros(32, np.uint8)],
    "six": [rng.integers(0, 64, 64, dtype=np.uint8), np.zeros(64, np.uint8)],
}


@pytest.mark.parametrize("name", KERNELS)
def test_gpu_gives_the_simulators_bytes(name, torch):
    expected = [array.copy() for array in ARGUMENTS[name]]
    KERNELS[name].simulate(*expected)
    arrays = [to_gpu(torch, array) for array in ARGUMENTS[name]]
    KERNELS[name](*arrays)
    for got, wanted in zip(arrays, expected):
        assert from_gpu(torch, got, wanted.dtype).tobytes() == wanted.tobytes()


def test_pytorchs_own_pairs(torch):
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this PyTorch has no float4_e2m1fn_x2")
    wanted = np.zeros(64, np.float32)
    KERNELS["decode"].simulate(PACKED[0], wanted)
    out = torch.zeros(64, device="cuda")
    KERNELS["decode"](to_gpu(torch, PACKED[0]).view(torch.float4_e2m1fn_x2), out)
    assert np.array_equal(out.cpu().numpy(), wanted)
