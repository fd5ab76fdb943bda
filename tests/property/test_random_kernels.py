"""Random kernels agree between direct NumPy evaluation and the simulator, and trace back from their own script."""

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.random_kernels import BUFFERS, Program, same
from tracer import trace


def differences(program: Program) -> list[str]:
    """Where the simulator's buffers differ from plain NumPy's."""
    kernel = program.kernel()
    expected = program.expected()
    got = {name: data.copy() for name, data in program.arrays.items()}
    kernel(*[got[name] for name in BUFFERS])
    found = []
    for name in BUFFERS:
        wrong = np.argwhere(~same(got[name], expected[name]))
        found += [f"{name}[{i}, {j}]: simulator {got[name][i, j]!r}, NumPy {expected[name][i, j]!r}" for i, j in wrong[:3]]
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_simulator_agrees_with_numpy(random):
    program = Program.draw(random)
    found = differences(program)
    assert not found, "\n".join([*found, program.kernel().script()])


@pytest.mark.parametrize("seed", range(150))
def test_simulator_agrees_with_numpy_on_fixed_seeds(seed):
    program = Program.draw(Random(seed))
    found = differences(program)
    assert not found, "\n".join([*found, program.kernel().script()])


@pytest.mark.parametrize("seed", range(40))
def test_scripts_of_random_kernels_trace_back(seed):
    kernel = Program.draw(Random(seed)).kernel()
    text = kernel.script()
    namespace = {}
    exec(text, namespace)
    assert trace(namespace["random_kernel"]).script() == text
