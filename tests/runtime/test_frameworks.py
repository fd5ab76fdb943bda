"""PyTorch's and JAX's arrays in host memory, where they are installed: read in place, run on the simulator."""

import numpy as np
import pytest

from runtime.arguments import DLPACK, TORCH, array_of, storage_view
from tests.runtime.kernels import scale

NARROW = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float32", "bool", "int8", "uint8"]


class OnlyDLPack:
    """An array that has nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**asked)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("wrap", [lambda t: t, OnlyDLPack], ids=["torch", "DLPack"])
def test_torch_tensors(dtype, wrap):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    array = array_of(wrap(tensor))
    assert (array.pointer, array.dtype, array.shape, array.strides, array.device, array.offset) == (
        tensor.data_ptr(), dtype, (2, 3), (3, 1), None, 0)
    assert array.kind is (DLPACK if wrap is OnlyDLPack else TORCH)
    assert np.array_equal(storage_view(array, 0, 6).astype("float32"), tensor.float().reshape(-1).numpy())


def test_torch_views_and_what_is_refused():
    torch = pytest.importorskip("torch")
    assert array_of(torch.zeros(128)[64:96].reshape(4, 8)).offset == 64
    assert array_of(torch.nn.Parameter(torch.zeros(2))).shape == (2,)
    assert array_of(torch.zeros(3, device="meta")) == "a torch tensor on meta"
    assert array_of(torch.zeros(3, 3).to_sparse()) == "a torch tensor whose layout is torch.sparse_coo"
    assert array_of(torch.zeros(3, dtype=torch.complex64).conj().imag) == (
        "a torch tensor whose layout is torch.strided, lazily negated")
    assert array_of(OnlyDLPack(torch.zeros(3, requires_grad=True))).startswith("an OnlyDLPack that does not come through DLPack (")


def test_a_kernel_writes_into_a_torch_tensor():
    torch = pytest.importorskip("torch")
    a, b = torch.rand(1000), torch.zeros(1000)
    scale(a, b, 2.0)
    assert torch.equal(b, a * 2)


@pytest.mark.parametrize("dtype", NARROW)
def test_jax_arrays(dtype):
    jnp = pytest.importorskip("jax.numpy")
    held = jnp.arange(6).reshape(2, 3).astype(dtype)
    array = array_of(held)
    if array.device is not None:
        pytest.skip("JAX works on a GPU here")
    assert (array.kind, array.dtype, array.shape, array.strides) == (DLPACK, dtype, (2, 3), (3, 1))
    assert np.array_equal(storage_view(array, 0, 6), np.asarray(held).reshape(-1))
