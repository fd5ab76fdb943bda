"""Random pipelines of copies, mbarriers and roles give on the GPU what they give in every order on the simulator."""

import numpy as np
import pytest

from codegen.architecture import number
from runtime.device import device
from tests.gpu.transfer import from_gpu, to_gpu
from tests.simulator.test_random_pipelines import WIDTH, kernel, plan


@pytest.mark.parametrize("seed", range(12))
def test_a_pipeline(seed, torch):
    ring = plan(seed)
    built = kernel(ring)
    if number(built.minimum_arch) > number(device(0).arch):
        pytest.skip(f"needs {built.minimum_arch}")
    a = np.random.default_rng(seed).standard_normal((ring.rounds, WIDTH), dtype=np.float32)
    sent = [to_gpu(torch, a), to_gpu(torch, np.zeros((ring.rounds, ring.consumers * 32), np.float32))]
    built(*sent)
    np.testing.assert_array_equal(from_gpu(torch, sent[1], np.float32), np.tile(a[:, :32] + a[:, :31:-1], ring.consumers))
