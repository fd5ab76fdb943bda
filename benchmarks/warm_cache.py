"""Milliseconds to machine code for the kernel of `make demo`, in a process with a cold cache and in one with a warm one.

Run with `python -m benchmarks.warm_cache [sm_90a]`. Each figure is of a fresh process that has printed the kernel's CUDA source (what that
takes is in `benchmarks.compile_time`) and compiled nothing yet: the compiler, or the cache. A warm cache is answered without a compiler.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

LIMIT = 5.0         # milliseconds that a warm process may take
ROUNDS = 5

CHILD = """
import sys, time
import runtime
from examples.demo import scale
from tracer import trace
kernel = trace(scale)
kernel.cuda_source()
begin = time.perf_counter()
executable = kernel.compile(sys.argv[1])
taken = time.perf_counter() - begin
assert executable.cubin[:4] == bytes([0x7F]) + b"ELF"
print(taken * 1e3)
"""


def measure(arch: str, folder: str) -> float:
    """Milliseconds in one process whose cache is `folder`."""
    told = subprocess.run([sys.executable, "-c", CHILD, arch], env={**os.environ, "KERNELWRIGHT_CACHE": folder}, capture_output=True,
                          text=True, check=True)
    return float(told.stdout)


def main(arch: str = "sm_90a") -> int:
    """Measure and print; 1 where a warm process takes longer than `LIMIT`."""
    cold, warm = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(measure(arch, folder))
            warm.append(measure(arch, folder))
    print(f"the demo's kernel for {arch}: {statistics.median(cold):.1f} ms with a cold cache, {statistics.median(warm):.2f} ms with a warm one "
          f"(median of {ROUNDS} processes each)")
    return int(statistics.median(warm) > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
