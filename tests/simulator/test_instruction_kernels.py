"""Every instruction but the matrix ones runs on the simulator, in several orders of warps and copies with the same result, without an alarm."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.instruction_kernels import THREADS, arguments, kernels
from tests.simulator.running import run
from tracer.instructions import is_instruction
from tracer.operations import OPERATIONS

SEEDS = (None, 1, 2)
# Rows with tests of their own: tensor copies, matrices, tensor memory, pairs of floats.
ELSEWHERE = ("ptx.cp.async.bulk.tensor", "ptx.cp.reduce.async.bulk.tensor", "ptx.ldmatrix", "ptx.stmatrix", "ptx.mma", "ptx.wgmma", "ptx.tcgen05",
             "cuda.get_tmem_addr", "cuda.matrix_descriptor", "ptx.add.f32x2", "ptx.sub.f32x2", "ptx.mul.f32x2", "ptx.fma.f32x2")


def test_every_row_is_run() -> None:
    used = {node.op for kernel in kernels().values() for node in kernel.function.device.walk()}
    assert {row.name for row in OPERATIONS.values() if is_instruction(row) and row not in used and not row.name.startswith(ELSEWHERE)} == set()


@pytest.mark.parametrize("name", kernels())
def test_results_do_not_depend_on_the_order(name: str) -> None:
    kernel = kernels()[name]
    results = []
    for seed in SEEDS:
        given = arguments(kernel)
        run(kernel, *given, seed=seed)
        results.append([a.tobytes() for a in given])
    assert results.count(results[0]) == len(SEEDS)
    assert results[0] != [a.tobytes() for a in arguments(kernel)]


def outcome(name: str) -> list[Any]:
    given = arguments(kernels()[name])
    run(kernels()[name], *given)
    return given


def inputs(name: str) -> list[Any]:
    return arguments(kernels()[name])


def test_states() -> None:
    (a,) = outcome("states")
    np.testing.assert_array_equal(a[0], 3 * np.arange(THREADS)[::-1])
    assert a[1, 0] == 3 and not a[1, 1:].any()         # what was pending before those arrivals


def test_transactions() -> None:
    np.testing.assert_array_equal(outcome("transactions")[0], 7 + np.arange(THREADS))


def test_named_barriers() -> None:
    a, b = outcome("named_barriers")
    np.testing.assert_array_equal(a[0], np.concatenate([np.zeros(64, int), b[:64]]))
    assert (a[1] == (b > 5).sum()).all() and (a[2] == (b != 1).all()).all() and (a[3] == (b == 77).any()).all()


def test_cluster_memory() -> None:
    a, b = outcome("cluster_memory")
    for rank in range(2):
        other = b[1 - rank]
        np.testing.assert_array_equal(a[rank, :4], [other[::-1], other, np.full(THREADS, 1 - rank), np.full(THREADS, 1 - rank)])
        mine = a[1 - rank]          # what the other block sent: what it had read here
        np.testing.assert_array_equal(a[rank, 4], mine[0] + mine[1] + mine[3])
        assert (a[rank, 5] == 100 + b[rank].sum()).all()


def test_copied() -> None:
    a, b = outcome("copied")
    t, four = np.arange(THREADS), a.reshape(THREADS, 4)
    np.testing.assert_array_equal(b[0], a[:THREADS])
    np.testing.assert_array_equal(b[1], a[:2 * THREADS].reshape(THREADS, 2).sum(axis=1))
    np.testing.assert_array_equal(b[2], four[:, 0] ^ four[:, 3])
    kept = t % 5 * 4          # bytes
    np.testing.assert_array_equal(b[3], four[:, 0] * (kept >= 4) + four[:, 3] * (kept >= 16))
    np.testing.assert_array_equal(b[4], np.where(t % 2 == 0, 0, a[:THREADS]))
    np.testing.assert_array_equal(b[5], a[:THREADS][::-1])
    np.testing.assert_array_equal(b[6], a[:THREADS][::-1])


def test_bulk() -> None:
    a, b, c = outcome("bulk")
    _, before, sums = inputs("bulk")
    moved = a[0] + 1
    np.testing.assert_array_equal(b, [moved, before[1] + moved, np.maximum(before[2], moved), before[3] ^ (np.arange(THREADS) - 5)])
    np.testing.assert_array_equal(c[0], sums[0] + np.arange(THREADS, dtype=np.float32) / 2)


def test_bulk_in_a_cluster() -> None:
    a, b = outcome("bulk_in_a_cluster")
    np.testing.assert_array_equal(a[:, 0], b[::-1])
    np.testing.assert_array_equal(a[:, 1], b[::-1] + np.arange(THREADS, dtype=np.uint32))
    got, given = outcome("multicast")
    np.testing.assert_array_equal(got, [given + 1, given + 1])


def test_messages() -> None:
    a, flag, data = outcome("message")
    assert a.tolist()[:3] == [42, 18, 41] and flag.tolist() == [2] and data.tolist() == [41, 17]


def test_vectors_of_atomics() -> None:
    a, b, h = outcome("vector_atomics")
    before, _, halves = inputs("vector_atomics")
    pairs = np.tile([True, True, False, False], 32)
    np.testing.assert_array_equal(a[0], before[0] + b)
    np.testing.assert_array_equal(a[1], before[1] + b + np.where(pairs, b, 0))
    given = np.repeat(b.reshape(32, 1, 4), 2, axis=1).reshape(-1).astype(np.float16)
    np.testing.assert_array_equal(h, np.maximum(halves, given))
    np.testing.assert_array_equal(a[2], before[0] + halves[::2].astype(np.float32))


def test_addresses_and_registers() -> None:
    a, b = outcome("addresses")
    np.testing.assert_array_equal(a[0], b[np.arange(64) // 2 * 2])
    assert (a[1] == 1).all()
    a, b = outcome("registers")
    np.testing.assert_array_equal(b, np.where(np.arange(384) < 128, a + 1, a * 3))


@pytest.mark.parametrize("name", [name for name in kernels() if name.startswith("moves")])
def test_moves(name: str) -> None:
    a, b = outcome(name)
    for row in range(3 if a.itemsize == 8 else 4):
        assert b[row].tobytes() == a.tobytes()


def test_descriptors() -> None:
    a, f, b = outcome("descriptors")
    assert (a[0] == (1 << 2 | 64 << 18 | 1 << 48)).all()           # mode 1: 128 bytes
    assert (a[1] == (2 << 2 | 32 << 18 | 1 << 32 | 4 << 47)).all()  # mode 4: 64 bytes
    low, high = f[:, 0], f[:, 2]
    np.testing.assert_array_equal(b[:, 0].copy().view(ml_dtypes.bfloat16).reshape(32, 2), np.stack([low, high], 1).astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(b[:, 1].copy().view(np.float16).reshape(32, 2), np.stack([low, high], 1).astype(np.float16))
