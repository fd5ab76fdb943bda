"""Tensor memory: who has which columns, and which cell each register of tcgen05.ld and st is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from runtime.simulator.tensor_memory import COPIES, TensorMemory, Unusable, accumulator_cells, cells_of

# (thread l, register r) -> (lane, column): PTX ISA 9.7.16.2.3.1
FORMULAS = {
    "32x32b": lambda l, r: (l, r),
    "16x64b": lambda l, r: (l // 4 + 8 * (l % 2), l // 2 % 2 + 2 * r),
    "16x128b": lambda l, r: (l // 4 + 8 * (r % 2), l % 4 + 4 * (r // 2)),
    "16x256b": lambda l, r: (l // 4 + 8 * (r // 2 % 2), r % 2 + 2 * (l % 4) + 8 * (r // 4)),
    "16x32bx2": lambda l, r: (l % 16, r + 40 * (l // 16)),
}
REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


@pytest.mark.parametrize("num", [1, 4])
@pytest.mark.parametrize("shape", FORMULAS)
def test_cells_of_registers(shape, num):
    cells = cells_of(shape, num, 40)
    assert cells.lanes.shape == (32, num * REGISTERS[shape])
    for l in range(32):
        for r in range(num * REGISTERS[shape]):
            assert (cells.lanes[l, r], cells.columns[l, r]) == FORMULAS[shape](l, r)


def test_accumulators():
    assert accumulator_cells(128, 16).lanes[77, 3] == 77 and accumulator_cells(128, 16).columns[77, 3] == 3
    assert accumulator_cells(64, 16).lanes[:, 0].tolist() == [32 * (r // 16) + r % 16 for r in range(64)]


def test_copies_reach_every_lane_once():
    for (shape, _), copy in COPIES.items():
        lanes = np.concatenate(copy.lanes)
        assert sorted(lanes.tolist()) == list(range(128)), shape
    assert [lanes[40] for lanes in COPIES["64x128b", "warpx2::02_13"].lanes] == [40, 104]
    assert [lanes[40] for lanes in COPIES["64x128b", "warpx2::01_23"].lanes] == [72, 104]


def test_allocations():
    memory = TensorMemory()
    assert memory.allocate(256, None) == 0
    assert memory.allocate(256, None) == 256
    assert memory.allocate(128, None) is None
    memory.free(0, 256)
    assert memory.allocate(128, None) == 0
    memory.check(np.arange(128), np.arange(128))


def refusal(action) -> str:
    with pytest.raises(Unusable) as caught:
        action()
    return str(caught.value)


def test_what_an_allocation_may_not_be():
    memory = TensorMemory()
    assert refusal(lambda: memory.allocate(48, None)) == "48 columns: an allocation is a power of two from 32 to 512"
    memory.allocate(64, None)
    assert refusal(lambda: memory.allocate(128, None)) == "128 columns after an allocation of 64: allocations of a block may not grow"
    assert refusal(lambda: memory.free(32, 64)) == "64 columns at lane 0, column 32 were not allocated; allocated are 64 at column 0"
    assert refusal(lambda: memory.check(np.arange(4), np.arange(60, 70))) == "columns 60 to 69 are used, and column 64 is not allocated"
    assert refusal(lambda: memory.check(np.array([128]), np.array([0]))) == \
        "lane 128, column 0 is beyond the 128 lanes and 512 columns of tensor memory"
    memory.relinquished = SimpleNamespace(location="k.py:3")
    assert refusal(lambda: memory.allocate(32, None)) == "the block gave up its permit to allocate at k.py:3"
