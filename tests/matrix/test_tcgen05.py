"""tcgen05 on the simulator: products, moves and copies against NumPy; everything compiled for sm_100a."""

from __future__ import annotations

import numpy as np
import pytest

from tests.matrix.compiled import report
from tests.matrix.tensor_kernels import copied, moved, product_cases
from tests.matrix.test_tensor_memory import FORMULAS, REGISTERS
from tests.nvcc import needs_nvcc, one_unit
from tests.simulator.running import run

PRODUCTS = product_cases()
MOVES = [(shape, num, num * each, packed) for shape, each in REGISTERS.items() for num, packed in ((1, False), (4, False), (16, False), (8, True))]
COPIES = [("128x256b", "", 128, 8), ("128x128b", "", 128, 4), ("64x128b", "warpx2::02_13", 64, 4), ("64x128b", "warpx2::01_23", 64, 4),
          ("32x128b", "warpx4", 32, 4)]
# The row of shared memory that lane l gets.
SOURCES = {"": lambda l: l, "warpx2::02_13": lambda l: l % 64, "warpx2::01_23": lambda l: l % 32 + l // 64 * 32, "warpx4": lambda l: l % 32}


@pytest.mark.parametrize("case", PRODUCTS.values(), ids=PRODUCTS.keys())
def test_products(case):
    run(case.kernel, *case.arguments)
    case.check()


@pytest.mark.parametrize("shape, num, registers, packed", MOVES)
def test_moves(shape, num, registers, packed):
    values = np.random.default_rng(3).integers(0, 2**32, (32, registers), np.uint32)
    back, cells = np.zeros_like(values), np.zeros((32, 128), np.uint32)
    run(moved(shape, num, registers, packed), values, back, cells)
    assert np.array_equal(back, values)
    expected = np.zeros((32, 128), np.uint32)
    for l in range(32):
        for r in range(registers):
            lane, column = FORMULAS[shape](l, r)
            if packed:      # two columns for each; the second half begins 40 columns on all the same
                column = column % 40 * 2 + column // 40 * 40 if shape == "16x32bx2" else column * 2
                expected[lane, column:column + 2] = values[l, r] & 0xFFFF, values[l, r] >> 16
            else:
                expected[lane, column] = values[l, r]
    assert np.array_equal(cells, expected)


@pytest.mark.parametrize("shape, multicast, rows, words", COPIES)
def test_copies(shape, multicast, rows, words):
    source = np.random.default_rng(5).integers(0, 2**32, (rows, words), np.uint32)
    cells = np.zeros((128, words), np.uint32)
    run(copied(shape, multicast, rows, words), source, cells)
    assert np.array_equal(cells, source[[SOURCES[multicast](l) for l in range(128)]])


@needs_nvcc
def test_all_of_it_compiles(tmp_path):
    kernels = [case.kernel for case in PRODUCTS.values()] + [moved(*m) for m in MOVES] + [copied(*c) for c in COPIES]
    assert {k.minimum_arch for k in kernels} == {"sm_100a"}
    report(one_unit(k.cuda_source() for k in kernels), tmp_path, "sm_100a")


def test_a_profile_is_of_sectors_and_banks_alone():
    """Tensor memory has neither: its columns are shown to the race detector, and cost nothing."""
    shape, multicast, rows, words = COPIES[1]
    source, cells = np.arange(rows * words, dtype=np.uint32).reshape(rows, words), np.zeros((128, words), np.uint32)
    profile = copied(shape, multicast, rows, words).simulate(source, cells)
    assert np.array_equal(cells, source)
    assert {a.scope for a in profile.accesses} == {"global", "shared", "local"}
    assert {a.buffer for a in profile.accesses if a.scope == "global"} == {"S", "Z"}
    assert not any("dealloc" in barrier.operation for barrier in profile.barriers)
