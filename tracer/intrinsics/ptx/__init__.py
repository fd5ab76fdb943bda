"""`T.ptx`: the hardware's own instructions, by the words of their PTX opcodes. `grammar` says how a table is written; the others are tables."""

from tracer.intrinsics.ptx import calls, copies, matrix, memory, sync
from tracer.intrinsics.ptx.chain import Chain

__all__ = ["PTX", "calls", "copies", "matrix", "memory", "sync"]

PTX = Chain()
