"""Running kernels: on the simulator for arrays in host memory, on the GPU for CUDA arrays.

`call`, `simulate` and `compile` are what the kernel object of `tracer` uses; nothing here needs a GPU to be imported.
`pack_float4` and `unpack_float4` make the bytes in which arrays of 4-bit floats come, and read them.
"""

from runtime.executable import Executable, compile
from runtime.launcher import call, simulate
from runtime.narrow import pack_float4, unpack_float4
from runtime.simulator.checks import Checks

__all__ = ["Checks", "Executable", "call", "compile", "pack_float4", "simulate", "unpack_float4"]
