"""Running kernels: on the simulator for arrays in host memory, on the GPU for CUDA arrays.

`call`, `simulate` and `compile` are what the kernel object of `tracer` uses; nothing here needs a GPU to be imported.
"""

from runtime.executable import Executable, compile
from runtime.launcher import call, simulate
from runtime.simulator.checks import Checks

__all__ = ["Checks", "Executable", "call", "compile", "simulate"]
