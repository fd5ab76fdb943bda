"""The simulator's counters beside Nsight Compute's: `python -m benchmarks.profile_counters` on a machine with a GPU and `ncu`.

Each case is simulated here, and run once under `ncu --clock-control none` in a process of its own (`--launch NAME`), where only our kernel is
counted. Sectors of global memory and bank conflicts of shared memory are to agree within 2 %.

There are two counts of conflicts. The hardware's own ("ncu") also has turns that were lost to other traffic of the SM, and so is not the same
from run to run; the one by instruction ("by SASS") has those that the addresses of a request make, which is what is counted here. Passes are
shown for what they are: the compiler makes one wide load of several narrow ones where it can, and then needs fewer.
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
from typing import Any, TypeAlias

import numpy as np

from examples import block_sum, matmul, saxpy, softmax, transpose
from tracer import T, trace

CLOSE = 0.02
_SECTORS, _CONFLICTS, _PASSES = "l1tex__t_sectors_pipe_lsu_mem", "l1tex__data_bank_conflicts_pipe_lsu_mem", "l1tex__data_pipe_lsu_wavefronts_mem"
_HARDWARE = {
    "global load sectors": f"{_SECTORS}_global_op_ld.sum", "global store sectors": f"{_SECTORS}_global_op_st.sum",
    "shared load conflicts": f"{_CONFLICTS}_shared_op_ld.sum", "shared store conflicts": f"{_CONFLICTS}_shared_op_st.sum",
    "shared load passes": f"{_PASSES}_shared_op_ld.sum", "shared store passes": f"{_PASSES}_shared_op_st.sum",
}
# By instruction, the first set that this ncu knows.
_BY_SASS = (
    {"shared load conflicts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
     "shared store conflicts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
     "shared load passes": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
     "shared store passes": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum"},
    {"shared passes": "memory_l1_wavefronts_shared", "shared passes without conflicts": "memory_l1_wavefronts_shared_ideal"},
    {},
)
Counts: TypeAlias = "dict[str, int]"


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


def ours(case: Case) -> Counts:
    """The simulator's counters."""
    report = case.kernel().simulate(*arguments(case), checks=False)
    found = {}
    for label in _HARDWARE:
        scope, kind, what = label.split()
        found[label] = sum(getattr(a, what) for a in report.accesses if a.scope.split(".")[0] == scope and a.kind == kind)
    found["shared passes"] = found["shared load passes"] + found["shared store passes"]
    found["shared conflicts"] = found["shared load conflicts"] + found["shared store conflicts"]
    return found


def theirs(name: str, case: Case) -> tuple[Counts, Counts]:
    """Nsight Compute's, of the first launch of our kernel: (the hardware's, those by instruction). Raises RuntimeError with what `ncu` said."""
    for exact in _BY_SASS:
        row, said = _under_ncu(name, case, [*_HARDWARE.values(), *exact.values()])
        if row is not None:
            by_sass = {label: _count(row, metric) for label, metric in exact.items()}
            if "shared passes without conflicts" in by_sass:
                by_sass["shared conflicts"] = by_sass["shared passes"] - by_sass.pop("shared passes without conflicts")
            return {label: _count(row, metric) for label, metric in _HARDWARE.items()}, by_sass
    raise RuntimeError(f"ncu counted nothing: {said}")


def _under_ncu(name: str, case: Case, metrics: list[str]) -> tuple[dict[str, str] | None, str]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "counters.csv"
        command = ["ncu", "--clock-control", "none", "--metrics", ",".join(metrics), "--csv", "--page", "raw", "--log-file", str(log),
                   "--kernel-name", f"regex:^{case.kernel().half.name}$", "--launch-count", "1",
                   sys.executable, "-m", "benchmarks.profile_counters", "--launch", name]
        done = subprocess.run(command, capture_output=True, text=True)
        text = log.read_text() if log.exists() else ""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        return None, f"{text} {done.stdout} {done.stderr}".strip()
    _units, row = csv.DictReader(lines)
    return (row, "") if all(row.get(metric) for metric in metrics) else (None, text)


def _count(row: dict[str, str], metric: str) -> int:
    return round(float(row[metric].split()[0].replace(",", "")))


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
    print(f"{'case':12}{'counter':26}{'simulator':>12}{'ncu':>12}{'by SASS':>12}{'apart':>9}")
    for name, case in CASES.items():
        counted = ours(case)
        measured: Counts = {}
        exact: Counts = {}
        try:
            if shutil.which("ncu"):
                measured, exact = theirs(name, case)
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
        for label, mine in counted.items():
            if label not in _HARDWARE and label not in exact:
                continue
            judge = exact.get(label, measured.get(label))
            apart = 0.0 if judge is None else abs(mine - judge) / max(mine, judge, 1)
            wrong = apart > CLOSE and "passes" not in label and (label in exact or "conflicts" not in label)
            far += wrong
            told = "".join(f"{counts.get(label, ''):>12}" for counts in (counted, measured, exact))
            print(f"{name:12}{label:26}{told}" + ("" if judge is None else f"{100 * apart:8.1f}%{'  <--' * wrong}"))
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
