"""`@emits(text)`: a kernel function that must give exactly this CUDA source. All of them are compiled, see `test_compiles`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import trace

SOURCES: dict[str, str] = {}


def emits(expected: str) -> Callable[[Callable[..., Any]], Callable[[], None]]:
    """Turn a kernel function into a test that compares its source, without locations, with `expected`."""
    def decorate(kernel: Callable[..., Any]) -> Callable[[], None]:
        assert kernel.__name__ not in SOURCES, "kernels are compiled together: their names must differ"
        SOURCES[kernel.__name__] = expected.lstrip("\n")

        def test() -> None:
            assert trace(kernel).cuda_source(locations=False) == expected.lstrip("\n")

        test.__name__ = test.__qualname__ = f"test_{kernel.__name__}"
        test.__doc__ = kernel.__doc__
        test.kernel = kernel  # type: ignore[attr-defined]
        return test
    return decorate
