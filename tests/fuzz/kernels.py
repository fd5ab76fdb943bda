"""Random kernels: the simulator against plain NumPy, and every script traced back."""

from __future__ import annotations

from random import Random

from tests.property.random_kernels import BUFFERS, Program, same
from tracer import trace


def check(count: int, seed: int) -> dict[str, int]:
    """Draw `count` programs; raises AssertionError with the script of one that differs from NumPy or does not trace back."""
    elements = 0
    for number in range(seed * count, (seed + 1) * count):
        program = Program.draw(Random(number), 7)
        kernel = program.kernel()
        got = {name: data.copy() for name, data in program.arrays.items()}
        try:
            kernel(*[got[name] for name in BUFFERS])
        except Exception as error:
            raise AssertionError(f"seed {number}: {error!r}\n{kernel.script()}") from error
        for name, expected in program.expected().items():
            elements += expected.size
            assert same(got[name], expected).all(), f"seed {number}, buffer {name}:\n{kernel.script()}"
        namespace: dict[str, object] = {}
        exec(kernel.script(), namespace)
        assert trace(namespace["random_kernel"]).script() == kernel.script(), f"seed {number}:\n{kernel.script()}"
    return {"kernels": count, "elements": elements}
