"""The forms of calls that have passed every check, each with its launch made ready: what the short way of a host half uses.

`codegen.host.again` says what a form is. Only plain PyTorch tensors on a GPU have one here. A form under way belongs to its thread:
it is taken out of the list of idle ones, so no two launches share a parameter buffer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from codegen.host import Ready
from runtime.driver import bindings
from runtime.parameters import Packing, Parameters

MOST = 64       # forms kept of one kernel; the oldest goes

Key = tuple[Any, ...]


class Form:
    """One form, and the launch of its calls. `same(*tensors)` tells whether tensors have it; `numbers` and `fixed` are those of `Ready`."""

    __slots__ = ("_parameters", "config", "device", "fixed", "function", "key", "memory", "numbers", "pack", "pointers", "same", "stream")

    def __init__(self, key: Key, tensors: Sequence[Any], fixed: tuple[Any, ...], numbers: tuple[int, ...], device: int, stream: int,
                 config: Any, function: Any, packing: Packing) -> None:
        self.key, self.fixed, self.numbers = key, fixed, numbers
        self.same = comparison(tensors)
        self.device, self.stream, self.config, self.function = device, stream, config, function
        self._parameters = Parameters(packing)
        self.pack, self.memory, self.pointers = packing.pack, self._parameters.memory, self._parameters.pointers

    def turn_to(self, stream: int) -> None:
        """Launch on `stream` from now on."""
        self.config.hStream = bindings().CUstream(stream)
        self.stream = stream


class Forms:
    """The forms of one kernel: `idle` has those that no thread uses now, the one used last at the end."""

    def __init__(self, ready: Ready) -> None:
        self.ready = ready
        self.idle: list[Form] = []

    def add(self, form: Form) -> None:
        """Keep a form that has passed."""
        del self.idle[:max(len(self.idle) - MOST + 1, 0)]
        self.idle.append(form)

    def another(self, form: Form, tensors: tuple[Any, ...], fixed: tuple[Any, ...]) -> Form | None:
        """Give `form` back; the idle one that these tensors have, or None."""
        self.idle.append(form)
        key = form_key(tensors, fixed)
        if key is None:
            return None
        for found in reversed(self.idle):
            if found.key == key:
                try:
                    self.idle.remove(found)
                except ValueError:      # another thread has taken it
                    continue
                if not found.same(*tensors):        # the same form in another mode of PyTorch's, such as with gradients
                    found.same = comparison(tensors)
                return found
        return None


def form_key(tensors: Sequence[Any], fixed: tuple[Any, ...]) -> Key | None:
    """What tells forms apart; None where one of the tensors is not a plain one on a GPU."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    plain = (torch.Tensor, torch.nn.Parameter)
    if not all(type(t) in plain and t.is_cuda and t.layout is torch.strided and not t.is_neg() for t in tensors):
        return None
    return (*((t.shape, t.stride(), t.dtype, t.get_device()) for t in tensors), fixed)


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
