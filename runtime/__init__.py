"""Running kernels: on the simulator for arrays in host memory, on the GPU for CUDA arrays.

`call`, `simulate` and `compile` are what the kernel object of `tracer` uses; nothing here needs a GPU to be imported.
`compile_many` compiles many kernels side by side, `tune` finds the fastest of many configurations.
`pack_float4` and `unpack_float4` make the bytes in which arrays of 4-bit floats come, and read them.
"""

from runtime.executable import Executable, compile
from runtime.launcher import call, simulate
from runtime.many import compile_many
from runtime.narrow import pack_float4, unpack_float4
from runtime.simulator.checks import Checks
from runtime.tuning import Trial, Tuned, tune

__all__ = ["Checks", "Executable", "Trial", "Tuned", "call", "compile", "compile_many", "pack_float4", "simulate", "tune", "unpack_float4"]
