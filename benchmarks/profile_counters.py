"""The simulator's counters beside Nsight Compute's: `python -m benchmarks.profile_counters` on a machine with a GPU and `ncu`.

Each case is simulated here, and run once under `ncu --clock-control none` in a process of its own (`--launch NAME`), where only our kernel is
counted. Sectors of global memory and bank conflicts of shared memory are to agree within 2 %; passes are shown as well.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from examples import block_sum, matmul, saxpy, softmax, transpose
from tracer import T, trace

CLOSE = 0.02
_METRICS = {
    ("global", "load", "sectors"): "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    ("global", "store", "sectors"): "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    ("shared", "load", "conflicts"): "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    ("shared", "store", "conflicts"): "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    ("shared", "load", "passes"): "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    ("shared", "store", "passes"): "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}


def strided(A: T.Buffer((1 << 20,), "float32"), B: T.Buffer((1 << 18,), "float32")):
    """Every fourth element: a fourth of each sector is used."""
    T.device_entry()
    i = T.cta_id([1 << 10]) * 256 + T.thread_id([256])
    B[i] = A[i * 4]


def unpadded(A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024, 1024), "float32")):
    """A transposition whose tile has its columns in one bank."""
    T.device_entry()
    bx, by = T.cta_id([32, 32])
    tx, ty = T.thread_id([32, 8])
    tile = T.alloc_shared((32, 32), "float32")
    for k in range(0, 32, 8):
        tile[ty + k, tx] = A[by * 32 + ty + k, bx * 32 + tx]
    T.cuda.cta_sync()
    for k in range(0, 32, 8):
        B[bx * 32 + ty + k, by * 32 + tx] = tile[tx, ty + k]


def vectors(A: T.Buffer((1 << 20,), "float32"), B: T.Buffer((1 << 20,), "float32")):
    """16 bytes a lane, through shared memory."""
    T.device_entry()
    bx, tx = T.cta_id([1 << 10]), T.thread_id([256])
    tile = T.alloc_shared((1024,), "float32", align=16)
    tile.vstore([tx * 4], A.vload([bx * 1024 + tx * 4], "float32x4"))
    T.cuda.cta_sync()
    B.vstore([bx * 1024 + tx * 4], tile.vload([(tx ^ 1) * 4], "float32x4"))


@dataclass(frozen=True)
class Case:
    kernel: Callable[[], Any]
    shapes: tuple[tuple[int, ...], ...]         # of its float32 arrays
    scalars: tuple[float, ...] = ()


CASES = {
    "saxpy": Case(lambda: trace(saxpy.saxpy), ((1 << 20,),) * 3, (2.0,)),
    "block_sum": Case(lambda: trace(block_sum.block_sum), ((1 << 20,), (1 << 12,))),
    "transpose": Case(lambda: trace(transpose.transpose), ((1000, 2000), (2000, 1000))),
    "softmax": Case(lambda: trace(softmax.softmax), ((500, 1000), (500, 1000))),
    "matmul": Case(lambda: matmul.matmul.specialize(M=256, N=256, K=256), ((256, 256), (256, 256), (256, 256))),
    "strided": Case(lambda: trace(strided), ((1 << 20,), (1 << 18,))),
    "unpadded": Case(lambda: trace(unpadded), ((1024, 1024), (1024, 1024))),
    "vectors": Case(lambda: trace(vectors), ((1 << 20,), (1 << 20,))),
}


def arguments(case: Case) -> list[Any]:
    rng = np.random.default_rng(0)
    arrays: list[Any] = [rng.standard_normal(shape, dtype=np.float32) for shape in case.shapes]
    return [*arrays, *case.scalars]


def ours(case: Case) -> dict[tuple[str, str, str], int]:
    """The simulator's counters."""
    report = case.kernel().simulate(*arguments(case), checks=False)
    return {key: sum(getattr(a, key[2]) for a in report.accesses if a.scope.split(".")[0] == key[0] and a.kind == key[1]) for key in _METRICS}


def theirs(name: str, case: Case) -> dict[tuple[str, str, str], int]:
    """Nsight Compute's, of the first launch of our kernel. Raises RuntimeError with what `ncu` said where it gives none."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "counters.csv"
        command = ["ncu", "--clock-control", "none", "--metrics", ",".join(_METRICS.values()), "--csv", "--page", "raw", "--log-file", str(log),
                   "--kernel-name", f"regex:^{case.kernel().half.name}$", "--launch-count", "1",
                   sys.executable, "-m", "benchmarks.profile_counters", "--launch", name]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = [line for line in (log.read_text().splitlines() if log.exists() else []) if line.startswith('"')]
        if len(lines) < 3:
            raise RuntimeError(f"ncu counted nothing: {(log.read_text() if log.exists() else '')} {done.stdout} {done.stderr}".strip())
        _units, row = csv.DictReader(lines)
    return {key: round(float(row[metric].replace(",", ""))) for key, metric in _METRICS.items()}


def launch(name: str) -> None:
    """Run one case on the GPU."""
    import torch
    case = CASES[name]
    case.kernel()(*[torch.from_numpy(a).cuda() if isinstance(a, np.ndarray) else a for a in arguments(case)])
    torch.cuda.synchronize()


def main() -> int:
    if sys.argv[1:2] == ["--launch"]:
        launch(sys.argv[2])
        return 0
    if shutil.which("ncu") is None:
        print("there is no ncu here; ours alone", file=sys.stderr)
    far = 0
    print(f"{'case':12}{'counter':26}{'simulator':>12}{'ncu':>12}{'apart':>9}")
    for name, case in CASES.items():
        counted = ours(case)
        try:
            measured = theirs(name, case) if shutil.which("ncu") else {}
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
            measured = {}
        for key, mine in counted.items():
            told, other = f"{name:12}{' '.join(key):26}{mine:12}", measured.get(key)
            if other is None:
                print(told)
                continue
            apart = abs(mine - other) / max(mine, other, 1)
            far += apart > CLOSE and key[2] != "passes"
            print(f"{told}{other:12}{100 * apart:8.1f}%{'  <--' * (apart > CLOSE)}")
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
