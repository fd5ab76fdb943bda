"""Our wgmma GEMM beside torch.matmul (cuBLAS) on the same data: `python -m benchmarks.gemm [--size M N K]... [--seconds 2]`.

bfloat16, A (M, K), B (N, K), random normal. The two take turns, so that clocks and power are the same for both; what counts is the
ratio. Every turn works on the next of several sets of matrices, which together exceed the L2 cache.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from typing import Any

from examples.hopper_gemm import gemm

SIZES = [(4096, 4096, 4096), (8192, 8192, 8192), (2048, 2048, 2048), (4096, 14336, 4096)]
CONFIGURATIONS: list[dict[str, int]] = [{}, {"GROUP": 8}, {"GROUP": 4}, {"SLABS": 1}, {"STAGES": 3, "SLABS": 4}, {"BLOCKS": 128}, {"CLUSTER": 1},
                                         {"BN": 128, "STAGES": 6}]
L2_BYTES = 50 << 20


def measure(m: int, n: int, k: int, seconds: float, configurations: list[dict[str, int]]) -> None:
    """Print a row for each configuration: microseconds, TFLOP/s and the ratio to cuBLAS."""
    import torch
    sets = max(1, -(-3 * L2_BYTES // (2 * (m * k + n * k + m * n))))
    data = [(torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16),
             torch.empty(m, n, device="cuda", dtype=torch.bfloat16)) for _ in range(sets)]
    runs: dict[str, Any] = {"cuBLAS": lambda a, b, c: torch.matmul(a, b.T, out=c)}
    for configuration in configurations:
        try:
            kernel = gemm.specialize(M=m, N=n, K=k, **configuration)
            kernel(*data[0])
        except Exception as problem:  # noqa: BLE001  a configuration that does not fit is one row less
            print(f"  {configuration}: {type(problem).__name__}: {str(problem)[:120]}")
            continue
        a, b, c = data[0]
        error = float((c.float() - a.float() @ b.float().T).abs().max() / k**0.5)
        assert error < 0.1, f"{configuration}: wrong by {error}"
        runs[f"ours {configuration or ''}".strip()] = kernel
    times: dict[str, list[float]] = {name: [] for name in runs}
    per_turn = max(1, int(2e-2 / (2 * m * n * k / 600e12)))        # 20 ms, so that the clocks see one of them for a while
    turn, spent = 0, 0.0
    while spent < seconds * len(runs):
        for name, call in runs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for i in range(per_turn):
                call(*data[(turn + i) % sets])
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / per_turn * 1e3)
            spent += begin.elapsed_time(end) * 1e-3
        turn += per_turn
    reference = statistics.median(times["cuBLAS"])
    print(f"{m} x {n} x {k}, {clocks()}")
    for name, each in times.items():
        middle = statistics.median(each)
        print(f"  {name:40} {middle:9.1f} us  {2 * m * n * k / middle * 1e-6:7.1f} TFLOP/s  {reference / middle:6.3f} of cuBLAS"
              f"  (spread {min(each):.1f} to {max(each):.1f})")


def clocks() -> str:
    """The SM clock and the power now."""
    asked = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader", "-i", "0"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", nargs=3, type=int, action="append", metavar=("M", "N", "K"))
    parser.add_argument("--seconds", type=float, default=2.0, help="of work for each kernel and size")
    chosen = parser.parse_args()
    for m, n, k in chosen.size or SIZES:
        measure(m, n, k, chosen.seconds, CONFIGURATIONS)


if __name__ == "__main__":
    main()
