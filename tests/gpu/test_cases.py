"""Every kernel of `tests.kernels` on the GPU: what plain NumPy gives, and what the simulator gave."""

import ml_dtypes  # noqa: F401  (names bfloat16 and the float8 types to NumPy)
import numpy as np
import pytest

from tests.kernels import CASES


def to_gpu(torch, array):
    """A NumPy array as a torch tensor on the GPU, ml_dtypes' types by their bits."""
    if array.dtype.name == "bfloat16" or array.dtype.name.startswith("float8"):
        bits = np.dtype(f"uint{8 * array.itemsize}")
        return torch.from_numpy(array.view(bits).copy()).cuda().view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array.copy()).cuda()


def to_host(torch, tensor, kind):
    if kind.name == "bfloat16" or kind.name.startswith("float8"):
        bits = getattr(torch, f"uint{8 * kind.itemsize}")
        return tensor.view(bits).cpu().numpy().view(kind)
    return tensor.cpu().numpy()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_gpu_agrees(torch, case):
    kernel = case.kernel()
    inputs = case.inputs(np.random.default_rng(7))
    shape, kind = case.output
    kind = np.dtype(kind)
    wanted = np.asarray(case.expected(*inputs, *case.scalars))
    there = to_gpu(torch, np.zeros(shape, kind))
    kernel(*(to_gpu(torch, array) for array in inputs), there, *case.scalars)
    got = to_host(torch, there, kind)
    if kind.kind in "biu":
        assert np.array_equal(got, wanted)
        return
    # The GPU contracts a*b + c and has its own elementary functions, so floats may differ in the last places.
    slack = max(case.tolerance, 8 * float(ml_dtypes.finfo(kind).eps))
    np.testing.assert_allclose(got.astype("float64"), wanted.astype("float64"), rtol=slack, atol=slack)
    assert kernel.compile().log == ""
