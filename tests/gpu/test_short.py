"""The short way on the GPU: which calls take it, that it is right for each, and that it is never taken where it would not be."""

import gc

import pytest

from runtime import short
from tests.gpu.test_launch import add_one
from tests.runtime.kernels import ALL, product, scale, transposed
from tracer.errors import ArgumentError


def test_it_is_compiled_on_this_machine():
    assert not isinstance(short.compiled(), str), short.compiled()


def test_torch_calls_take_it_from_the_second_on(torch):
    for n in (1000, 1001, 1000, 77, 1001):
        a, b = torch.rand(n, device="cuda"), torch.zeros(n, device="cuda")
        scale(a, b, 2.0)
        assert torch.equal(b, a * 2)
        assert scale.again(a, b, 3.0) is True
        torch.cuda.synchronize()
        assert torch.equal(b, a * 3)


def test_cupy_calls_take_it(cupy):
    for n in (1000, 77):
        a, b = cupy.random.rand(n).astype("float32"), cupy.zeros(n, "float32")
        scale(a, b, 2.0)
        assert scale.again(a, b, 3.0) is True
        assert bool((b == a * cupy.float32(3)).all())
    assert scale.again(a, a, 3.0) is False and scale.again(a[:50], b, 3.0) is False


def test_cupys_current_stream_is_followed(cupy):
    a, b = cupy.arange(1000, dtype="float32"), cupy.zeros(1000, "float32")
    scale(a, b, 2.0)
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        scale(b, a, 2.0)
        assert scale.again(b, a, 3.0)
        stream.synchronize()
    assert bool((a == cupy.arange(1000, dtype="float32") * 6).all())


def test_a_stream_that_the_call_names(torch):
    a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for turn in range(3):
        for stream in (*streams, streams[0].cuda_stream):
            scale(a, b, float(turn), stream=stream)
            assert scale.again(a, b, turn + 1.0, stream=stream)
            torch.cuda.synchronize()
            assert torch.equal(b, a * (turn + 1))


def test_views_and_forms_alike(torch):
    """A transposed tensor of equal shape, a requires-grad one, a parameter, one of another dtype: each its own form, or none."""
    a, b = torch.rand(40, 40, device="cuda"), torch.zeros(40, 40, device="cuda")
    product(a, b)
    assert product.again(a, b) and not product.again(a.t(), b) and not product.again(a.double(), b) and not product.again(a.cpu(), b)
    with pytest.raises(ArgumentError, match="A.strides"):
        product(a.t(), b)
    weight = torch.nn.Parameter(torch.rand(40, 40, device="cuda"))
    product(weight.detach(), b)
    assert torch.equal(b, weight.detach())
    b.zero_()
    product(weight, b)
    assert torch.equal(b, weight.detach()) and product.again(weight, b)
    with torch.no_grad():
        product(weight, b)
    with torch.inference_mode():
        c = torch.zeros(40, 40, device="cuda")
        product(weight, c)
        product(weight, c)
    assert torch.equal(c, weight.detach())


def test_a_lazily_negated_tensor_is_refused_although_a_plain_one_passed(torch):
    x = torch.randn(1000, device="cuda", dtype=torch.complex64)
    negated, plain, out = x.conj().imag, torch.rand(1000, 2, device="cuda")[:, 0], torch.zeros(1000, device="cuda")
    assert negated.is_neg() and negated.stride() == plain.stride()

    for tensor in (negated, torch.rand(1000, device="cuda")._neg_view()):
        scale(torch.rand(1000, device="cuda"), out, 1.0)
        assert not scale.again(tensor, out, 1.0)
        with pytest.raises(ArgumentError):
            scale(tensor, out, 1.0)


def test_a_tensor_whose_memory_is_gone_is_refused(torch):
    a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    scale(a, b, 1.0)
    a.untyped_storage().resize_(0)
    assert not scale.again(a, b, 1.0)
    with pytest.raises(ArgumentError, match="A.data: expected memory, got a null pointer"):
        scale(a, b, 1.0)


def test_two_shapes_dtypes_and_kernels_in_turn(torch):
    for turn in range(3):
        for n, m in ((30, 50), (50, 30), (1, 7)):
            a, b = torch.rand(n, m, device="cuda"), torch.zeros(m, n, device="cuda")
            transposed(a, b)
            assert torch.equal(b, a.t())
            c, d = torch.rand(n, 8, device="cuda"), torch.zeros(n, 8, device="cuda")
            ALL["k"](c, d, float(turn))
            assert torch.equal(d, c * turn)


def test_a_hundred_streams_and_shapes(torch):
    """More forms than are kept."""
    for n in range(1, 101):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            a = torch.zeros(n, device="cuda")
            for _ in range(3):
                add_one(a)
        stream.synchronize()
        assert bool((a == 3).all())


def test_an_executable_has_its_own(torch):
    executable = scale.compile(options=("--fmad=false",))
    a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    executable(a, b, 2.0)
    assert torch.equal(b, a * 2) and executable.again(a, b, 3.0) and executable.again is not scale.again


def test_tensors_are_not_kept_alive(torch):
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_allocated()
    a, b = torch.rand(2**20, device="cuda"), torch.zeros(2**20, device="cuda")
    for _ in range(3):
        scale(a, b, 2.0)
    del a, b
    gc.collect()
    assert torch.cuda.memory_allocated() == before
