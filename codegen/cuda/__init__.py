"""The device half as CUDA C++: `emit(half) -> CudaSource`."""

from codegen.cuda import arithmetic, atomics, bits, memory, order, ptx, threads, votes
from codegen.cuda.source import CudaSource, emit

# Imported for their rows of `templates.TEMPLATES`.
_ROWS = (arithmetic, atomics, bits, memory, order, ptx, threads, votes)

__all__ = ["CudaSource", "emit"]
