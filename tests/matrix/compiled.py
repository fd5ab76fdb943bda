"""Emitted source through nvcc with ptxas's report: no spills, no complaint about wgmma or setmaxnreg."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.nvcc import NVCC


def report(source: str, directory: Path, architecture: str) -> str:
    """What ptxas says. Fails the test on any warning, any C75xx (registers of wgmma serialised, setmaxnreg ignored), any spill or stack."""
    assert NVCC is not None
    path = directory / "kernel.cu"
    path.write_text(source)
    command = [NVCC, "-cubin", f"-arch={architecture}", "-Werror", "all-warnings", "-Xptxas", "-v", "-o", str(directory / "kernel.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert not re.search(r"\bC7\d\d\d\b", told), told
    assert set(re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", told)) == {"0"}, told
    return told
