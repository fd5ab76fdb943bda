"""Compiling emitted source in tests: several kernels in one translation unit, once an architecture, warnings as errors."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

NVCC = shutil.which("nvcc")
ARCHITECTURES = ("sm_75", "sm_80", "sm_90a", "sm_100a")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not on PATH; the emitted source cannot be compiled")


def one_unit(sources: Iterable[str]) -> str:
    """One translation unit of many: headers and macros first, then each source in a namespace of its own.

    The kernels' names must differ, as they are `extern "C"`.
    """
    headers: dict[str, None] = {}
    bodies = []
    for number, source in enumerate(sources):
        headers.update(dict.fromkeys(re.findall(r"^#include .*$", source, re.M)))
        body = re.sub(r"^#include .*\n", "", source, flags=re.M)
        for name in re.findall(r"extern __shared__ .*?(\w+)\[\];", body):      # one variable for all namespaces, as in C
            body = re.sub(rf"\b{name}\b", f"{name}_{number}", body)
        bodies.append(f"namespace unit_{number} {{\n{body}}}\n")
    return "\n".join([*headers, "", *bodies])


def cubin(source: str, directory: Path, architectures: Iterable[str] = ARCHITECTURES) -> dict[str, Path]:
    """The cubin of `source` for each architecture. Any warning or error fails the test with nvcc's message and the source."""
    assert NVCC is not None
    path = directory / "kernels.cu"
    path.write_text(source)
    made = {}
    for architecture in architectures:
        target = directory / f"kernels.{architecture}.cubin"
        command = [NVCC, "-cubin", f"-arch={architecture}", "-Werror", "all-warnings", "-o", str(target), str(path)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{' '.join(command)}\n{run.stdout}{run.stderr}\n{_numbered(source)}"
        made[architecture] = target
    return made


def _numbered(source: str) -> str:
    return "\n".join(f"{number:4} {line}" for number, line in enumerate(source.split("\n"), 1))
