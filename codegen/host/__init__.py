"""The host half as Python source: what one call of one kernel checks and computes before the kernel runs.

    def scale(array, launch, *arguments): ...
    def scale_again(*arguments, stream=None): ...

`array` reads an argument (`runtime.arguments.array_of`). `launch(device, shape, arguments, known)` runs the kernel: on the
simulator for arrays in host memory, on a GPU for arrays there; checks and messages are the same. `shape` is a `LaunchShape`;
`arguments` are the kernel's own, an array being (array, address, offset, size) of its storage, a tensor map (that of its
array, bytes to the first element, extents, strides in bytes), innermost axis first and its stride left out; `known` are the values of `known_nodes`.

The checks stand in one order for every kernel (`source.SECTIONS`), one module for each concern. The second function is the
short way for a call like one that has passed (`again`); it refuses nothing.
"""

from codegen.host.again import Ready, ShortForm, ready, short_form
from codegen.host.call import LaunchShape, index_symbols, known_nodes
from codegen.host.names import HELPERS
from codegen.host.source import again_name, entry_name, host_source, signature

__all__ = ["HELPERS", "LaunchShape", "Ready", "ShortForm", "again_name", "entry_name", "host_source", "index_symbols", "known_nodes", "ready",
           "short_form", "signature"]
