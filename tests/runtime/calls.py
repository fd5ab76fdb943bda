"""Calling a host half without running anything: what it would launch."""

from typing import Any, NamedTuple

from codegen.host import LaunchShape
from runtime.arguments import array_of
from runtime.hosting import host_function


class Call(NamedTuple):
    """What the host half handed to `launch`; `values` has (address, offset, size) for an array."""

    device: int | None
    shape: LaunchShape
    values: tuple[Any, ...]


def recorded(kernel: Any, *args: Any, array: Any = array_of) -> Call | None:
    """The launch that this call would make; None for an empty grid."""
    def launch(device, shape, values, known):
        return Call(device, shape, tuple(v[1:] if type(v) is tuple else v for v in values))
    return host_function(kernel)(array, launch, *args)
