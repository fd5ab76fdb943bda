"""Milliseconds from the Python function to CUDA text, for the examples and for a 500-statement kernel.

Run with `python -m benchmarks.compile_time`. Trace runs the function against proxies; lower simplifies every index; emit prints. Each is
the median of fresh runs. For comparison, the reference system takes 21 ms for a one-line kernel, 43 ms for a tiled matmul, and
1.12 s for 494 lines.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from codegen.cuda import emit
from codegen.split import device_half
from examples import block_sum, matmul, saxpy, softmax, transpose
from tracer import T, trace

ROUNDS = 15


def one_line(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    T.device_entry()
    tx = T.thread_id([256])
    B[tx] = A[tx] * 2.0


def many_statements(statements: int) -> Callable[..., Any]:
    """A kernel of that many different loads, sums and stores."""
    lines = [f"    B[{k} + tx * 4, ty] = A[tx * 4 + {k % 7}, (ty + {k}) % 64] * {k}.5 + B[{k}, ty]" for k in range(statements)]
    namespace: dict[str, Any] = {"T": T}
    exec("def many(A: T.Buffer((4096, 64), 'float32'), B: T.Buffer((4096, 64), 'float32')):\n    T.device_entry()\n"
         "    tx, ty = T.thread_id([16, 64])\n" + "\n".join(lines) + "\n", namespace)
    return namespace["many"]


def measure(make: Callable[[], Any]) -> dict[str, float]:
    """Median milliseconds of each step, and the lines of CUDA."""
    samples: dict[str, list[float]] = {"trace": [], "lower": [], "emit": []}
    lines = 0
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        function = make().function
        traced = time.perf_counter()
        half = device_half(function)
        lowered = time.perf_counter()
        lines = emit(half).text.count("\n")
        emitted = time.perf_counter()
        for step, spent in zip(samples, (traced - begin, lowered - traced, emitted - lowered)):
            samples[step].append(spent * 1e3)
    result = {step: statistics.median(values) for step, values in samples.items()}
    return {**result, "total": sum(result.values()), "lines": lines}


def main() -> None:
    fresh = iter(range(1, 10**6))
    many = many_statements(500)
    kernels: dict[str, Callable[[], Any]] = {
        "one line": lambda: trace(one_line),
        "saxpy": lambda: trace(saxpy.saxpy),
        "block sum": lambda: trace(block_sum.block_sum),
        "transpose": lambda: trace(transpose.transpose),
        "softmax": lambda: trace(softmax.softmax),
        # a new M each time, so that no kernel object is found again
        "tiled matmul": lambda: matmul.matmul.specialize(M=32 * next(fresh), N=96, K=64),
        "500 statements": lambda: trace(many),
    }
    print(f"{'kernel':16}{'trace':>9}{'lower':>9}{'emit':>9}{'total':>9}   milliseconds, median of {ROUNDS}; lines of CUDA")
    for name, make in kernels.items():
        m = measure(make)
        print(f"{name:16}{m['trace']:9.2f}{m['lower']:9.2f}{m['emit']:9.2f}{m['total']:9.2f}   {m['lines']:.0f}")


if __name__ == "__main__":
    main()
