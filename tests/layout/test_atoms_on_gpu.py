"""The atoms, asked of the hardware itself: needs a Hopper GPU and its compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.layout.atoms_on_gpu import source


def hopper() -> str:
    """Why this cannot run here, or nothing."""
    if shutil.which("nvcc") is None:
        return "nvcc is not on PATH"
    if shutil.which("nvidia-smi") is None:
        return "no GPU here: there is no nvidia-smi"
    told = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    return "" if told.stdout.startswith("9.0") else f"no Hopper GPU here: nvidia-smi says {told.stdout.strip() or told.stderr.strip()!r}"


def test_the_hardware_agrees(tmp_path: Path) -> None:
    """6 mma, 12 ldmatrix and stmatrix, 3 wgmma in 4 swizzle modes: registers and memory bit by bit."""
    why = hopper()
    if why:
        pytest.skip(why)
    file, program = tmp_path / "atoms.cu", tmp_path / "atoms"
    file.write_text(source())
    made = subprocess.run(["nvcc", "-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a", "-o", str(program), str(file)],
                          capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and ran.stdout.endswith("\n30 right, 0 wrong\n"), ran.stdout
