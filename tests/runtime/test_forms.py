"""The short way where no C compiler is: the second function of the host half, with tensors and a driver that stand for the real ones."""

import struct
import sys
from types import SimpleNamespace

import pytest

from codegen import host
from runtime import forms
from runtime.forms import Forms, Launch, Passed, form_key, reach
from runtime.gpu import packing_of
from runtime.hosting import host_code
from tests.runtime.kernels import ALL, offset, scalars, scale
from tracer import T, trace


class Tensor:
    layout, is_cuda = "strided", True

    def __init__(self, at, shape=(1000,), strides=(1,), dtype="float32", device=0, negated=False, begins=0):
        self.at, self.shape, self.strides, self.dtype, self.device, self.negated, self.begins = at, shape, strides, dtype, device, negated, begins

    def stride(self):
        return self.strides

    def get_device(self):
        return self.device

    def is_neg(self):
        return self.negated

    def data_ptr(self):
        return self.at

    def element_size(self):
        return 4

    def storage_offset(self):
        return self.begins


class Driver:
    """`stream` is PyTorch's current one, `launches` what was enqueued: configuration, function, parameters."""

    def __init__(self, layout):
        self.layout, self.stream, self.launches, self.status = layout, 7, [], "success"

    def enqueue(self, config, function, pointers, extra):
        form = next(form for form in self.under_way if form.pointers == pointers)
        self.launches.append((config, function, *struct.unpack_from(self.layout, form.memory)))
        return (self.status,)


@pytest.fixture
def torch(monkeypatch):
    module = SimpleNamespace(Tensor=Tensor, nn=SimpleNamespace(Parameter=type("Parameter", (Tensor,), {})), strided="strided", _C=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def made(kernel, driver):
    """The second function of the kernel, and its forms."""
    kept = Forms(host.ready(kernel.half))
    driver.under_way = []

    class Idle(list):
        def append(self, form):
            super().append(form)
            if form not in driver.under_way:
                driver.under_way.append(form)
    kept.idle = Idle()
    scope = {"forms": kept.idle, "another": kept.another, "current_stream": lambda device: driver.stream, "enqueue": driver.enqueue,
             "SUCCESS": "success", "PackError": struct.error}
    exec(host_code(kernel), scope)
    return scope[host.again_name(kernel.half)], kept


def learn(kept, kernel, args, known, stream=7):
    kept.learn(Passed(args, known, b"", (), stream, False, lambda: Launch(0, f"config on {stream}", "function", packing_of(kernel))))


@pytest.fixture
def scaling(torch):
    driver = Driver("=QQif")
    again, kept = made(scale, driver)
    learn(kept, scale, (Tensor(0x10000), Tensor(0x20000), 2.0), (1000, 2.0))
    return driver, again, kept


GOOD = (Tensor(0x30000), Tensor(0x40000), 1.5)


def test_a_launch(scaling):
    driver, again, kept = scaling
    assert again(*GOOD) is True and again(*GOOD[:2], 3) is True
    assert driver.launches == [("config on 7", "function", 0x30000, 0x40000, 1000, 1.5), ("config on 7", "function", 0x30000, 0x40000, 1000, 3.0)]
    assert len(kept.idle) == 1
    assert again(*GOOD, stream=7) is False, "a stream that is named goes the long way"


LEFT = {
    "fewer": GOOD[:2], "more": (*GOOD, 1), "a shape": (Tensor(0x30000, (999,)), GOOD[1], 1.0),
    "strides": (Tensor(0x30000, strides=(2,)), GOOD[1], 1.0),
    "a dtype": (Tensor(0x30000, dtype="int32"), GOOD[1], 1.0), "a device": (Tensor(0x30000, device=1), GOOD[1], 1.0),
    "negated": (Tensor(0x30000, negated=True), GOOD[1], 1.0), "null": (Tensor(0), GOOD[1], 1.0), "alignment": (Tensor(0x30002), GOOD[1], 1.0),
    "the same": (GOOD[0], GOOD[0], 1.0), "overlap": (GOOD[0], Tensor(0x30000 + 3996), 1.0), "a bool": (*GOOD[:2], True),
    "a str": (*GOOD[:2], "x"), "too large": (*GOOD[:2], 1e300), "no float": (*GOOD[:2], 10**400),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_to_the_long_way(scaling, what):
    driver, again, kept = scaling
    assert again(*LEFT[what]) is False
    assert driver.launches == [] and len(kept.idle) == 1 and again(*GOOD) is True


def test_a_launch_that_the_driver_refuses(scaling):
    driver, again, kept = scaling
    driver.status = "no context"
    assert again(*GOOD) is False and len(kept.idle) == 1


def test_streams_and_shapes_have_forms_of_their_own(scaling):
    driver, again, kept = scaling
    small = Tensor(0x30000, (10,)), Tensor(0x40000, (10,)), 1.0
    learn(kept, scale, small, (10, 1.0))
    learn(kept, scale, GOOD, (1000, 1.0), stream=8)
    learn(kept, scale, GOOD, (1000, 1.0), stream=8)
    assert len(kept.idle) == 3
    for stream, args, taken in ((8, GOOD, True), (7, small, True), (8, small, False), (7, GOOD, True), (9, GOOD, False)):
        driver.stream = stream
        assert again(*args) is taken
    assert [launch[::4] for launch in driver.launches] == [("config on 8", 1000), ("config on 7", 10), ("config on 7", 1000)]
    assert len(kept.idle) == 3


def test_the_oldest_form_goes(scaling):
    _, again, kept = scaling
    for n in range(1, 100):
        learn(kept, scale, (Tensor(0x30000, (n,)), Tensor(0x40000, (n,)), 1.0), (n, 1.0))
    assert len(kept.idle) == forms.MOST and again(Tensor(0x30000, (99,)), Tensor(0x40000, (99,)), 1.0) and not again(*GOOD)


def test_an_offset_is_asked_of_the_tensor(torch):
    driver = Driver("=QQ")
    again, kept = made(offset, driver)
    a, b = Tensor(0x10000, (4, 8), (8, 1)), Tensor(0x20100, (4, 8), (8, 1), begins=64)
    learn(kept, offset, (a, b), ())
    assert again(a, b) is True and driver.launches[0][2:] == (0x10000, 0x20000)
    assert again(a, Tensor(0x20100, (4, 8), (8, 1), begins=32)) is False


def test_scalars_of_every_kind(torch):
    driver = Driver("=QiB3xf?3xq")
    again, kept = made(scalars, driver)
    a = Tensor(0x10000, (5,))
    learn(kept, scalars, (a, 1, 2, 3.5, 7, True), (1, 2, 3.5, 7, True))
    assert again(a, -5, 255, 0.5, -2**63, False) and driver.launches[0][2:] == (0x10000, -5, 255, 0.5, False, -2**63)
    assert not again(a, 2**31, 2, 0.5, 1, True) and not again(a, 1, 256, 0.5, 1, True) and not again(a, 1, 2, 0.5, 1, 1)


def test_a_scalar_that_the_launch_depends_on(torch):
    @trace
    def stepping(A: T.Buffer(("n",), "int32"), step: T.int32):
        n = A.shape[0]
        T.assume(step > 0)
        T.device_entry()
        bx = T.cta_id([T.ceildiv(n, step)])
        T.thread_id([1])
        A[bx] = step

    driver = Driver("=Qi")
    again, kept = made(stepping, driver)
    a = Tensor(0x10000, (8,))
    learn(kept, stepping, (a, 2), (8, 2))
    assert again(a, 2) and not again(a, 3)
    learn(kept, stepping, (a, 3), (8, 3))
    assert again(a, 3) and again(a, 2)


def test_forms_of_tensors(torch):
    assert form_key([Tensor(1, (2, 3), (3, 1))], (5,)) == (((2, 3), (3, 1), "float32", 0), (5,))
    assert form_key([SimpleNamespace()], ()) is None and form_key([Tensor(1, negated=True)], ()) is None
    forms_ = [((2, 3), (3, 1)), ((2, 3), (10, 1)), ((0, 3), (3, 1)), ((), ())]
    assert [reach(Tensor(1, shape, strides)) for shape, strides in forms_] == [24, 52, 0, 4]


def test_pytorchs_own_comparison_is_used_where_it_is(torch):
    class Guards:
        def __init__(self, *tensors, dynamic_dims_sizes, dynamic_dims_strides):
            self.shapes = [t.shape for t in tensors]

        def check(self, *tensors):
            return [t.shape for t in tensors] == self.shapes
    torch._C._dynamo = SimpleNamespace(guards=SimpleNamespace(TensorGuards=Guards))
    same = forms.comparison([Tensor(1)])
    assert same.__self__.__class__ is Guards and same(Tensor(2)) and not same(Tensor(2, (5,)))
    torch._C._dynamo.guards.TensorGuards = lambda *tensors: None       # of another version
    assert forms.comparison([Tensor(1)])(Tensor(2, dtype="int32")) is False


def test_which_kernels_have_one():
    assert {name for name, kernel in ALL.items() if host.ready(kernel.half) is None} == {"affine"}
    assert "affine_again" not in ALL["affine"].host_source() and "def scale_again(*arguments, stream=None):" in scale.host_source()
