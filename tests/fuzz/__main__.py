"""`make fuzz`: every fuzzer, for as long as it takes. `python -m tests.fuzz NAME ...` runs some of them.

A fuzzer is a row of `FUZZERS`: its name, the function (count, seed) that raises AssertionError with what went wrong, how
many cases in all and how many a chunk. Chunks run in as many processes as there are processors.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.fuzz import kernels, simplify, words


@dataclass(frozen=True)
class Fuzzer:
    """One row: `check` is called with `chunk` cases and the seeds 0, 1, ... until there were `total`."""

    check: Callable[[int, int], dict[str, int]]
    total: int
    chunk: int


def same_under_hash_seeds(count: int, seed: int) -> dict[str, int]:
    """The texts of `count` simplified expressions are the same in 5 processes with different PYTHONHASHSEED."""
    script = f"from tests.fuzz.simplify import digest; print(digest({count}, {seed}))"
    texts = {subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": str(h)},
                            capture_output=True, text=True, check=True).stdout for h in range(5)}
    assert len(texts) == 1, f"chunk {seed}: {len(texts)} different results"
    return {"expressions": count}


FUZZERS = {
    "simplify": Fuzzer(simplify.check, 1_000_000, 5_000),
    "simplify-steps": Fuzzer(simplify.check_steps, 100_000, 2_500),
    "simplify-int32": Fuzzer(words.check, 1_000_000, 5_000),
    "kernels": Fuzzer(kernels.check, 5_000, 100),
    "simplify-hash-seeds": Fuzzer(same_under_hash_seeds, 50_000, 5_000),
}


def run(name: str) -> bool:
    """Run one fuzzer and print what it counted; False if it found anything."""
    fuzzer = FUZZERS[name]
    start, seen, wrong = time.monotonic(), Counter[str](), 0
    with ProcessPoolExecutor() as pool:
        chunks = [pool.submit(fuzzer.check, fuzzer.chunk, seed) for seed in range(fuzzer.total // fuzzer.chunk)]
        for chunk in chunks:
            error = chunk.exception()
            if isinstance(error, AssertionError):
                wrong += 1
                print(f"{name}: {error}")
            elif error is not None:
                raise error
            else:
                seen.update(chunk.result())
    counted = ", ".join(f"{n} {what}" for what, n in seen.most_common(6))
    print(f"{name}: {wrong} chunks of {fuzzer.chunk} with a failure; {counted}; {time.monotonic() - start:.0f} s")
    return not wrong


if __name__ == "__main__":
    results = [run(name) for name in sys.argv[1:] or FUZZERS]
    sys.exit(not all(results))
