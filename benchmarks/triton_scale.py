"""The kernel of `benchmarks.launch` in Triton, which reads it from a file."""

import triton
import triton.language as tl


@triton.jit
def scale(a, b, n, s, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(b + i, tl.load(a + i, mask=inside) * s, mask=inside)
