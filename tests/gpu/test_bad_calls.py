"""The generated bad calls on the GPU: each refused in its own words, no byte changed, the next good call right.

Arrays go there with the memory around them, canaries and all, and come as PyTorch tensors where these can have their form, and through
the CUDA array interface.
"""

import numpy as np
import pytest

from tests.runtime.bad_calls import GOODS, bad_calls, memory

CASES = list(bad_calls())


class Interface:
    """An array that has nothing but the CUDA array interface."""

    def __init__(self, owner, view, address):
        self.owner, self.view, self.address = owner, view, address

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "typestr": self.view.dtype.str, "shape": self.view.shape, "strides": self.view.strides,
                "data": (self.address, not self.view.flags.writeable)}


class Carrier:
    """Takes NumPy views to the GPU, those of one memory to one memory there."""

    def __init__(self, torch, through, name):
        self.torch, self.through, self.name = torch, through, name
        self.memories = []      # (host memory, the same on the GPU, bytes before it)

    def carry(self, value):
        """The argument on the GPU; `LookupError` where it cannot come this way."""
        if not isinstance(value, np.ndarray):
            return value
        host = memory(value)
        there, start = next(((there, start) for held, there, start in self.memories if held is host), (None, 0))
        if there is None:
            # The same address modulo 256; memory that is an array's own (512 bytes) begins where PyTorch's does.
            start = 0 if host.size == 512 else host.ctypes.data % 256
            there = self.torch.empty(start + host.size, dtype=self.torch.uint8, device="cuda")
            there[start:] = self.torch.from_numpy(host.copy()).cuda()
            assert there.data_ptr() % 256 == 0
            self.memories.append((host, there, start))
        offset = start + value.ctypes.data - host.ctypes.data
        return self.through(self, value, there, offset)

    def tensor(self, value, there, offset):
        size = value.itemsize
        if offset % size or not value.flags.writeable or any(s < 0 for s in value.strides):
            raise LookupError("PyTorch has no such tensor")
        typed = there[:there.numel() // size * size].view(getattr(self.torch, value.dtype.name))
        return typed.as_strided(value.shape, [s // size for s in value.strides], offset // size)

    def interface(self, value, there, offset):
        if value.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            raise LookupError("the interface has no such dtype")
        if self.name == "offset":
            raise LookupError("it does not tell where memory begins")
        return Interface(there, value, there.data_ptr() + offset)

    def unchanged(self):
        self.torch.cuda.synchronize()
        return all(np.array_equal(there[start:].cpu().numpy(), host) for host, there, start in self.memories)


def carried(torch, through, name, args):
    carrier = Carrier(torch, through, name)
    return carrier, [carrier.carry(a) for a in args]


def good_call(torch, name):
    good = GOODS[name]
    host = good.args()
    carrier, args = carried(torch, Carrier.tensor, name, host)
    good.kernel(*args)
    torch.cuda.synchronize()
    for place, expected in good.results(host).items():
        held = args[place].contiguous().view(torch.uint8).cpu().numpy().reshape(-1)
        assert np.array_equal(held, np.ascontiguousarray(expected).view(np.uint8).reshape(-1)), name


@pytest.mark.parametrize("name", GOODS)
def test_the_good_call(torch, name):
    good_call(torch, name)


@pytest.mark.parametrize("through", [Carrier.tensor, Carrier.interface], ids=["PyTorch", "interface"])
@pytest.mark.parametrize("name", GOODS)
def test_bad_calls(torch, name, through):
    tried = 0
    for case in CASES:
        if case.good != name:
            continue
        try:
            carrier, args = carried(torch, through, name, case.args())
        except LookupError:
            continue
        tried += 1
        assert not GOODS[name].kernel.again(*args), f"{case.name}: taken by the short way"
        with pytest.raises(case.error) as caught:
            GOODS[name].kernel(*args)
        assert case.words in str(caught.value), case.name
        assert carrier.unchanged(), case.name
        good_call(torch, name)
    assert tried >= 5 or through is Carrier.interface


@pytest.mark.parametrize("name", [name for name, good in GOODS.items() if sum(isinstance(a, np.ndarray) for a in good.args()) > 1])
def test_an_array_in_host_memory_among_others(torch, name):
    host = GOODS[name].args()
    places = [i for i, a in enumerate(host) if isinstance(a, np.ndarray)]
    for place in places:
        carrier, args = carried(torch, Carrier.tensor, name, host)
        args[place] = host[place]
        with pytest.raises(ValueError, match=r"the arrays are on different devices: .* on cpu") as caught:
            GOODS[name].kernel(*args)
        assert "on cuda:0" in str(caught.value) and carrier.unchanged()
    good_call(torch, name)


def test_there_are_enough(torch):
    tried = 0
    for case in CASES:
        for through in (Carrier.tensor, Carrier.interface):
            try:
                carried(torch, through, case.good, case.args())
            except LookupError:
                continue
            tried += 1
    assert tried >= 600
