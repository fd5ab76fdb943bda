"""Every intrinsic runs on the simulator, twice with the same result. What each computes is tested beside this file."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.every_intrinsic import arguments, kernels


@pytest.mark.parametrize("name", kernels())
def test_every_intrinsic_runs(name: str) -> None:
    kernel = kernels()[name]
    first, second, before = arguments(kernel), arguments(kernel), arguments(kernel)
    kernel(*first)
    kernel(*second)
    assert any(isinstance(a, np.ndarray) and a.tobytes() != b.tobytes() for a, b in zip(first, before))
    for a, b in zip(first, second):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
