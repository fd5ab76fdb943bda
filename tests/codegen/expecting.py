"""`@emits(text)`: a kernel function that must give exactly this CUDA source. `test_text` checks it, `test_compiles` compiles it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KERNELS: dict[str, Callable[..., Any]] = {}
EXPECTED: dict[str, str] = {}


def emits(expected: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep the kernel function and the source, without locations, that is expected of it."""
    def keep(kernel: Callable[..., Any]) -> Callable[..., Any]:
        name = kernel.__name__
        assert name not in KERNELS, "kernels are compiled together: their names must differ"
        KERNELS[name], EXPECTED[name] = kernel, expected.lstrip("\n")
        return kernel
    return keep
