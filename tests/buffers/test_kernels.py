"""Every buffer kernel gives NumPy's result on the simulator, traces back from its script, and compiles everywhere without spills."""

import numpy as np
import pytest

from tests.buffers.kernels import CASES, EXTERNAL
from tests.nvcc import ARCHITECTURES, cubin, needs_nvcc, one_unit
from tracer import trace


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_simulated(case):
    inputs = case.inputs(np.random.default_rng(7))
    output = np.full(case.output[0], 77, case.output[1])
    before = [a.copy() for a in inputs]
    case.kernel()(*inputs, output)
    np.testing.assert_array_equal(output, case.expected(*before))
    for array, same in zip(inputs, before):
        np.testing.assert_array_equal(array, same)


@pytest.mark.parametrize("case", [*CASES, *EXTERNAL], ids=lambda c: c.name)
def test_traced_back_from_its_script(case):
    kernel = case.kernel()
    names = {}
    exec(kernel.script(), names)
    assert trace(names[kernel.function.name]).script() == kernel.script()


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiled(architecture, tmp_path):
    sources = [c.kernel().cuda_source(locations=False).replace("_kernel(", f"_{n}_kernel(") for n, c in enumerate([*CASES, *EXTERNAL])]
    assert cubin(one_unit(sources), tmp_path, [architecture])[architecture].stat().st_size > 0


@needs_nvcc
@pytest.mark.parametrize("name", ["registers", "register_fragment", "scalars", "buffers_of_vectors", "lanes_column_major"])
def test_arrays_indexed_by_constants_are_registers(name):
    """ptxas's own account: no stack frame, and so no local memory, and nothing spilled."""
    case, = (c for c in CASES if c.name == name)
    for architecture in ("sm_75", "sm_90a", "sm_100a"):
        resources = case.kernel().compile(arch=architecture).resources
        assert (resources.local, resources.spill_stores, resources.spill_loads) == (0, 0, 0)
