"""The forms of calls that have passed every check, each with its launch made ready: what the short way of a host half uses.

`codegen.host.again` says what a form is. Only plain PyTorch tensors on a GPU have one here. A form under way belongs to its thread:
it is taken out of the list of idle ones, so no two launches share a parameter buffer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from codegen.host import Ready
from runtime.parameters import Packing, Parameters

MOST = 64       # forms kept of one kernel; the oldest goes
RECENT = 8      # of those used last, each is compared before the key is looked at, which costs more

Key = tuple[Any, ...]


class Launch(NamedTuple):
    """A launch made ready: where, with the driver's configuration of it, what, and how its parameters lie."""

    device: int
    config: Any
    function: Any
    packing: Packing


class EncodedMap(NamedTuple):
    """One tensor map of a call: the address of its array, and the map for any address."""

    address: int
    encode: Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Passed:
    """A call that has passed every check and was launched on `stream`, which the caller has `named` or not.

    `known` are the values of `known_nodes`, `parameters` the bytes that the driver got, `maps` the tensor maps among them in order; `ready`
    makes the launch ready for calls like it.
    """

    args: Sequence[Any]
    known: Sequence[Any]
    parameters: bytes
    maps: Sequence[EncodedMap]
    stream: int
    named: bool
    ready: Callable[[], Launch]


class Form:
    """One form, and the launch of its calls. `same(*tensors)` tells whether tensors have it; `numbers` and `fixed` are those of `Ready`."""

    __slots__ = ("_parameters", "config", "device", "fixed", "function", "key", "memory", "numbers", "pack", "pointers", "same", "stream")

    def __init__(self, key: Key, tensors: Sequence[Any], fixed: tuple[Any, ...], numbers: tuple[int, ...], stream: int,
                 launch: Launch) -> None:
        self.key, self.fixed, self.numbers, self.stream = key, fixed, numbers, stream
        self.same = comparison(tensors)
        self.device, self.config, self.function, packing = launch
        self._parameters = Parameters(packing)
        self.pack, self.memory, self.pointers = packing.pack, self._parameters.memory, self._parameters.pointers


class Forms:
    """The forms of one kernel: `idle` has those that no thread uses now, the one used last at the end."""

    def __init__(self, ready: Ready) -> None:
        self.ready = ready
        self.idle: list[Form] = []

    def learn(self, passed: Passed) -> None:
        """Keep the form of a call, unless one like it is idle: then the call went the long way for another reason."""
        if passed.named:
            return      # such calls always do
        tensors = tuple(passed.args[i] for i in self.ready.tensors)
        fixed = tuple(passed.known[i] for i in self.ready.fixed)
        key = form_key(tensors, fixed)
        if key is None:
            return
        key = (*key, passed.stream)
        if any(form.key == key for form in list(self.idle)):
            return
        bytes_ = [reach(tensor) for tensor in tensors]
        room = [end for a, b in self.ready.pairs for end in (-bytes_[a], bytes_[b])]
        form = Form(key, tensors, fixed, (*(passed.known[i] for i in self.ready.known), *room), passed.stream, passed.ready())
        del self.idle[:max(len(self.idle) - MOST + 1, 0)]
        self.idle.append(form)

    def another(self, form: Form, tensors: tuple[Any, ...], fixed: tuple[Any, ...], stream: int) -> Form | None:
        """Give `form` back; the idle one that these tensors have, for launches on `stream`, or None."""
        self.idle.append(form)
        for found in self.idle[:-RECENT - 1:-1]:
            if found.stream == stream and found.fixed == fixed and found.same(*tensors) and self._take(found):
                return found
        key = form_key(tensors, fixed)
        for found in [] if key is None else self.idle[::-1]:
            if found.key == (*(key or ()), stream) and self._take(found):
                found.same = comparison(tensors)        # the same form in another mode of PyTorch's, such as with gradients
                return found
        return None

    def _take(self, form: Form) -> bool:
        """Take a form out of the idle ones; False where another thread was first."""
        try:
            self.idle.remove(form)
        except ValueError:
            return False
        return True


def form_key(tensors: Sequence[Any], fixed: tuple[Any, ...]) -> Key | None:
    """What tells forms apart; None where one of the tensors is not a plain one on a GPU."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    plain = (torch.Tensor, torch.nn.Parameter)
    if not all(type(t) in plain and t.is_cuda and t.layout is torch.strided and not t.is_neg() for t in tensors):
        return None
    return (*((t.shape, t.stride(), t.dtype, t.get_device()) for t in tensors), fixed)


def reach(tensor: Any) -> int:
    """The bytes from the first to the last element of a tensor; its strides are not negative."""
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return 0 if 0 in tensor.shape else (1 + last) * int(tensor.element_size())


def comparison(tensors: Sequence[Any]) -> Callable[..., bool]:
    """Whether other tensors have the form of these: one call for all, as PyTorch's compiler guards its code, or else one by one."""
    kind = getattr(getattr(getattr(sys.modules["torch"]._C, "_dynamo", None), "guards", None), "TensorGuards", None)
    if kind is not None:
        try:
            made = kind(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
            if made.check(*tensors) is True:
                check: Callable[..., bool] = made.check
                return check
        except (TypeError, ValueError, RuntimeError):      # a PyTorch whose guards are made otherwise
            pass
    key = form_key(tensors, ())
    return lambda *others: form_key(others, ()) == key


def current_stream() -> Callable[[int], int]:
    """The function that gives PyTorch's current stream on a device, as a handle."""
    found: Callable[[int], int] = sys.modules["torch"]._C._cuda_getCurrentRawStream
    return found
