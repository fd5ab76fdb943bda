"""The device half as CUDA C++: `emit(half) -> CudaSource`."""

from codegen.cuda import arithmetic, memory, threads
from codegen.cuda.source import CudaSource, emit

# Imported for their rows of `templates.TEMPLATES`.
_ROWS = (arithmetic, memory, threads)

__all__ = ["CudaSource", "emit"]
