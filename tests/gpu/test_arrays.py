"""Arrays of every framework reach a kernel without a copy, and come back right."""

import numpy as np
import pytest

from tests.runtime.kernels import ALL, affine, in_place, offset, product, scalars, scale, transposed, vectors
from tracer import T, trace
from tracer.errors import ArgumentError, ArgumentTypeError, ArgumentValueError

SIZES = (0, 1, 255, 256, 257, 1_000_003)


def axpy(dtype):
    """`B = A * 2 + B` for a dtype."""
    @trace
    def axpy(A: T.Buffer(("n",), dtype), B: T.Buffer(("n",), dtype)):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([T.ceildiv(n, 256)])
        tx = T.thread_id([256])
        i = bx * 256 + tx
        with T.If(i < n):
            B[i] = A[i] * 2 + B[i]

    return axpy


class OnlyDLPack:
    """An array that has nothing but DLPack, as JAX's seems to a stranger."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **asked):
        return self.tensor.__dlpack__(**asked)


class OldDLPack(OnlyDLPack):
    """One of before DLPack 1.0."""

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)


class OnlyInterface:
    """An array that has nothing but the CUDA array interface, as Numba's."""

    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        return self.array.__cuda_array_interface__


@pytest.mark.parametrize("n", SIZES)
def test_torch_tensors_of_every_size(torch, n):
    a, b = torch.rand(n, device="cuda"), torch.zeros(n, device="cuda")
    assert scale(a, b, 3.0) is None
    assert torch.equal(b, a * 3.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"])
@pytest.mark.parametrize("wrap", [lambda t: t, OnlyDLPack, OldDLPack], ids=["torch", "DLPack 1", "DLPack 0"])
def test_every_dtype_by_torch_and_by_dlpack(torch, dtype, wrap):
    kind = getattr(torch, dtype)
    a = torch.randint(-20, 20, (1000,), device="cuda").to(kind)
    b = torch.randint(-20, 20, (1000,), device="cuda").to(kind)
    expected = (a * 2 + b)
    axpy(dtype)(wrap(a), wrap(b))
    assert torch.equal(b, expected)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("wrap", [lambda t: t, OnlyDLPack], ids=["torch", "DLPack"])
def test_float8(torch, dtype, wrap):
    @trace
    def copy(A: T.Buffer((64,), dtype), B: T.Buffer((64,), dtype)):
        T.device_entry()
        tx = T.thread_id([64])
        B[tx] = A[tx]

    a = torch.arange(64, device="cuda").float().to(getattr(torch, dtype))
    b = torch.zeros_like(a)
    try:
        copy(wrap(a), wrap(b))
    except ArgumentTypeError as refusal:     # this PyTorch does not export float8: said in words, nothing launched
        assert wrap is OnlyDLPack and "does not come through DLPack" in str(refusal)
        return
    assert torch.equal(b.view(torch.uint8), a.view(torch.uint8))


@pytest.mark.parametrize("n", SIZES)
def test_cupy_arrays(cupy, n):
    a, b = cupy.random.rand(n).astype("float32"), cupy.zeros(n, "float32")
    scale(a, b, 3.0)
    assert bool((b == a * np.float32(3)).all())


@pytest.mark.parametrize("n", SIZES)
def test_pycuda_arrays(gpu, gpuarray, n):
    held = np.random.default_rng(n).random(n, "float32")
    with gpu.current():
        a, b = gpuarray.to_gpu(held), gpuarray.to_gpu(np.zeros(n, "float32"))
    scale(a, b, 3.0)
    with gpu.current():
        assert np.array_equal(b.get(), held * np.float32(3))


def test_the_cuda_array_interface(torch):
    a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    scale(OnlyInterface(a), OnlyInterface(b), 3.0)
    torch.cuda.synchronize()
    assert torch.equal(b, a * 3.0)


def test_frameworks_mixed_in_one_call(torch, cupy):
    a, b = torch.arange(1000, device="cuda", dtype=torch.float32), cupy.zeros(1000, "float32")
    torch.cuda.synchronize()
    scale(a, b, 3.0)
    assert np.array_equal(cupy.asnumpy(b), np.arange(1000, dtype="float32") * 3)


def test_views_are_written_through_and_nothing_around_them(torch):
    base = torch.full((4096,), 7.0, device="cuda")
    source = torch.rand(1000, device="cuda")
    scale(source, base[1024:2024], 2.0)
    assert torch.equal(base[1024:2024], source * 2.0)
    assert bool((base[:1024] == 7).all()) and bool((base[2024:] == 7).all())


def test_an_offset_is_counted_from_the_storage(torch, cupy):
    for base, a in [(torch.zeros(128, device="cuda"), torch.rand(4, 8, device="cuda")),
                    (cupy.zeros(128, "float32"), cupy.random.rand(4, 8).astype("float32"))]:
        offset(a, base[64:96].reshape(4, 8))
        assert bool((base[64:96].reshape(4, 8) == a).all())
        assert not bool(base[:64].any()) and not bool(base[96:].any())
        with pytest.raises(ArgumentValueError, match="got one at 32"):
            offset(a, base[32:64].reshape(4, 8))


def _calls(rng):
    def floats(*shape):
        return rng.random(shape, "float32")
    return {
        "scale": (scale, [floats(1000), floats(1000), 2.5]),
        "scalars": (scalars, [floats(5), -7, 200, 0.1, -2**40, True]),
        "transposed": (transposed, [floats(37, 41), floats(41, 37)]),
        "affine": (affine, [floats(2001), floats(1000), 1.5]),
        "vectors": (vectors, [floats(64), floats(64)]),
        "product": (product, [floats(37, 41), floats(37, 41)]),
        "in_place": (in_place, [floats(100)]),
        "k": (ALL["k"], [floats(37, 8), floats(37, 8), 3]),
    }


@pytest.mark.parametrize("name", list(_calls(np.random.default_rng(0))))
def test_the_gpu_and_the_simulator_agree(torch, name):
    kernel, args = _calls(np.random.default_rng(1))[name]
    on_gpu = [torch.from_numpy(a.copy()).cuda() if isinstance(a, np.ndarray) else a for a in args]
    kernel(*args)
    kernel(*on_gpu)
    for host, there in zip(args, on_gpu):
        if isinstance(host, np.ndarray):
            assert np.array_equal(there.cpu().numpy(), host)


@pytest.mark.parametrize("dtype, value", [("bool", True), ("int8", -7), ("int16", -3000), ("int32", -2**31), ("int64", 2**62),
                                          ("uint8", 255), ("uint16", 65535), ("uint32", 2**31 + 1), ("uint64", 2**63), ("float16", 0.1),
                                          ("bfloat16", -3.0), ("float32", 0.1), ("float64", 0.1)])
def test_a_scalar_of_each_dtype_arrives(cupy, dtype, value):
    stored = "float32" if dtype == "bfloat16" else dtype

    @trace
    def put(A: T.Buffer((2,), stored), first: T.uint8, x: getattr(T, dtype), last: T.uint8):
        T.device_entry()
        T.thread_id([1])
        A[0] = x.astype(stored)
        A[1] = (first + last).astype(stored)

    out = cupy.zeros(2, stored)
    put(out, 1, value, 0)
    assert cupy.asnumpy(out)[0] == np.dtype(stored).type(value)
    assert cupy.asnumpy(out)[1] == 1


def test_mixed_devices_are_refused_by_name(torch):
    with pytest.raises(ArgumentValueError) as caught:
        scale(torch.zeros(3), torch.zeros(3, device="cuda"), 1.0)
    assert str(caught.value).startswith("the arrays are on different devices: A on cpu, B on cuda:0, when calling `scale(A: ")


def test_two_gpus(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    a, b = torch.rand(1000, device="cuda:1"), torch.zeros(1000, device="cuda:1")
    scale(a, b, 2.0)                                # while cuda:0 is PyTorch's current device
    assert torch.equal(b, a * 2.0) and torch.cuda.current_device() == 0
    with pytest.raises(ArgumentValueError, match="A on cuda:0, B on cuda:1"):
        scale(torch.zeros(1000, device="cuda:0"), b, 1.0)


def test_cpu_tensors_run_on_the_simulator(torch):
    a, b = torch.rand(1000), torch.zeros(1000)
    scale(a, b, 2.0)
    assert torch.equal(b, a * 2.0)


REFUSED = {
    "dtype": lambda t, a, b: (a.double(), b, 1.0),
    "rank": lambda t, a, b: (a.reshape(-1), b, 1.0),
    "extent": lambda t, a, b: (a, b[:-1], 1.0),
    "strides": lambda t, a, b: (a, b.t().contiguous().t(), 1.0),
    "expanded": lambda t, a, b: (a[:1].expand(64, 8), b, 1.0),
    "alignment": lambda t, a, b: (t.zeros(64 * 8 + 1, device="cuda")[1:].reshape(64, 8), b, 1.0),
    "overlap": lambda t, a, b: (b, b, 1.0),
    "scalar": lambda t, a, b: (a, b, 1e300),
    "kind": lambda t, a, b: (a, b, a),
    "sparse": lambda t, a, b: (a.to_sparse(), b, 1.0),
    "host": lambda t, a, b: (a.cpu(), b, 1.0),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_call_writes_nothing(torch, case):
    a, b = torch.rand(64, 8, device="cuda"), torch.full((64, 8), 7.0, device="cuda")
    before = a.clone()
    with pytest.raises(ArgumentError):
        ALL["k"](*REFUSED[case](torch, a, b))
    torch.cuda.synchronize()
    assert bool((b == 7).all()) and torch.equal(a, before)
