"""Every expected source, and every operation on every dtype, goes through nvcc with warnings as errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import tests.codegen.test_text  # noqa: F401  (fills EXPECTED)
from tests.codegen.every_operation import kernels
from tests.codegen.expecting import EXPECTED
from tests.kernels import CASES
from tests.nvcc import ARCHITECTURES, cubin, needs_nvcc, one_unit


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_expected_sources_compile(architecture: str, tmp_path: Path) -> None:
    made = cubin(one_unit(EXPECTED.values()), tmp_path, [architecture])
    assert made[architecture].stat().st_size > 0


@needs_nvcc
def test_kernels_compile(tmp_path: Path) -> None:
    made = cubin(one_unit(case.kernel().cuda_source() for case in CASES), tmp_path, ["sm_90a"])
    assert made["sm_90a"].stat().st_size > 0


@needs_nvcc
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90a"])
def test_every_operation_compiles(architecture: str, tmp_path: Path) -> None:
    made = cubin(one_unit(k.cuda_source(locations=False) for k in kernels().values()), tmp_path, [architecture])
    assert made[architecture].stat().st_size > 0
