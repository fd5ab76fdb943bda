"""kernelwright: trace a plain Python function into a checked, simulated, readable CUDA kernel.

`trace` records a function, `T` is what its author writes with, `errors` holds every error class.
"""

from tracer import errors
from tracer.dialect import T
from tracer.function import Kernel, Template, trace

__all__ = ["Kernel", "T", "Template", "errors", "trace"]
