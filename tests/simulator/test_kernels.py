"""Whole kernels against NumPy: memory, vectors, loops, launches of every shape, chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.simulator import lockstep
from runtime.simulator.checks import Checks
from tests.simulator.running import random, run
from tests.simulator.test_semantics import same
from tracer import T, trace
from tracer.dtypes import dtype


@pytest.fixture(params=[1 << 16, 1], ids=["one chunk", "a chunk a block"], autouse=True)
def chunks(request: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(lockstep, "CHUNK_THREADS", request.param)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def saxpy(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), s: T.float32) -> None:
    T.device_entry()
    i = T.cta_id([T.ceildiv(A.shape[0], 64)]) * 64 + T.thread_id([64])
    with T.If(i < A.shape[0]):
        B[i] = A[i] * s + B[i]


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_saxpy(n: int) -> None:
    a, b = normal(n), normal(n, seed=1)
    expected = a * np.float32(2.5) + b
    run(trace(saxpy), a, b, 2.5)
    assert same(b, expected)


def test_empty_grid() -> None:
    report = run(trace(saxpy), normal(0), normal(0), 1.0)
    assert report.accesses[0].threads == 0


def test_some_blocks() -> None:
    a, b = normal(256), np.zeros(256, np.float32)
    run(trace(saxpy), a, b, 1.0, blocks=[3, 1, 1])
    expected = np.where(np.arange(256) // 64 % 2 == 1, a, np.float32(0))
    assert same(b, expected)
    with pytest.raises(ValueError, match=r"blocks must be in \[0, 4\) for the grid \(4, 1, 1\), not 4"):
        run(trace(saxpy), a, b, 1.0, blocks=[4])


def test_indices_of_three_dimensions() -> None:
    def where(out: T.Buffer((2, 3, 2, 4, 3, 2), "int32")) -> None:
        T.device_entry()
        bx, by, bz = T.cta_id([2, 3, 2])
        tx, ty, tz = T.thread_id([2, 3, 4])
        out[bz, by, bx, tz, ty, tx] = ((((bx * 10 + by) * 10 + bz) * 10 + tx) * 10 + ty) * 10 + tz

    out = np.full((2, 3, 2, 4, 3, 2), -1, np.int32)
    run(trace(where), out)
    z, y, x, c, b, a = np.indices(out.shape)
    assert (out == ((((x * 10 + y) * 10 + z) * 10 + a) * 10 + b) * 10 + c).all()


def test_warp_and_lane_ids() -> None:
    def where(out: T.Buffer((96,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([96])
        out[tx] = T.warp_id([3]) * 100 + T.lane_id([32])

    out = np.zeros(96, np.int32)
    run(trace(where), out)
    assert out.tolist() == [t // 32 * 100 + t % 32 for t in range(96)]


def test_cluster_ids() -> None:
    def where(out: T.Buffer((8, 4), "int32")) -> None:
        T.device_entry()
        cluster, rank = T.cluster_id([4]), T.cta_id_in_cluster([2])
        tx = T.thread_id([4])
        out[cluster * 2 + rank, tx] = cluster * 10 + rank

    out = np.zeros((8, 4), np.int32)
    run(trace(where), out)
    assert (out == (np.arange(8) // 2 * 10 + np.arange(8) % 2)[:, None]).all()


def test_matrix_product_through_shared_memory() -> None:
    tile = 8

    def product(A: T.Buffer(("m", "k"), "float32"), B: T.Buffer(("k", "n"), "float32"), C: T.Buffer(("m", "n"), "float32")) -> None:
        m, k, n = A.shape[0], A.shape[1], B.shape[1]
        T.device_entry()
        bx, by = T.cta_id([T.ceildiv(n, tile), T.ceildiv(m, tile)])
        tx, ty = T.thread_id([tile, tile])
        a, b = T.alloc_shared((tile, tile), "float32"), T.alloc_shared((tile, tile), "float32")
        row, column = by * tile + ty, bx * tile + tx
        total = T.local_scalar("float32", 0.0)
        for step in T.serial(T.ceildiv(k, tile)):
            a[ty, tx] = T.if_then_else((row < m) & (step * tile + tx < k), A[row, step * tile + tx], 0.0)
            b[ty, tx] = T.if_then_else((step * tile + ty < k) & (column < n), B[step * tile + ty, column], 0.0)
            T.cuda.cta_sync()
            for j in T.unroll(tile):
                total.assign(T.fma(a[ty, j], b[j, tx], total))
            T.cuda.cta_sync()
        with T.If((row < m) & (column < n)):
            C[row, column] = total

    a, b = normal(19, 13), normal(13, 21, seed=1)
    c = np.zeros((19, 21), np.float32)
    report = run(trace(product), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    assert report.instructions["cuda.cta_sync"] == 2 * 9 * 64 * 2


def test_block_sum_by_halving() -> None:
    def total(A: T.Buffer(("b", 64), "float32"), out: T.Buffer(("b",), "float32")) -> None:
        T.device_entry()
        bx = T.cta_id([A.shape[0]])
        tx = T.thread_id([64])
        partial = T.alloc_shared((64,), "float32")
        partial[tx] = A[bx, tx]
        T.cuda.cta_sync()
        width = T.local_scalar("int32", 32)
        with T.While(lambda: width > 0):
            with T.If(tx < width):
                partial[tx] = partial[tx] + partial[tx + width]
            T.cuda.cta_sync()
            width.assign(width // 2)
        with T.If(tx == 0):
            out[bx] = partial[0]

    a, out = normal(5, 64), np.zeros(5, np.float32)
    run(trace(total), a, out)
    while a.shape[1] > 1:
        a = a[:, :a.shape[1] // 2] + a[:, a.shape[1] // 2:]
    assert same(out, a[:, 0].copy())


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_data_dependent_offsets(scope: str) -> None:
    """A table of each thread's (or block's) own, filled by everybody and read at random places."""
    def permute(A: T.Buffer((3, 16), "int32"), P: T.Buffer((3, 16), "int32"), out: T.Buffer((3, 16), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([3]), T.thread_id([16])
        table = T.alloc_buffer((16,), "int32", scope=scope)
        if scope == "shared":
            table[tx] = A[bx, tx]
        else:
            for k in T.serial(16):
                table[k] = A[bx, k]
        T.cuda.cta_sync()
        with T.If(P[bx, tx] % 3 != 0):
            out[bx, tx] = table[P[bx, tx]]

    rng = np.random.default_rng(2)
    a, p = (rng.integers(0, 16, (3, 16)).astype(np.int32) for _ in range(2))
    out = np.full((3, 16), -1, np.int32)
    run(trace(permute), a, p, out)
    assert (out == np.where(p % 3 != 0, np.take_along_axis(a, p, 1), -1)).all()


@pytest.mark.parametrize(("name", "lanes"), [("float32", 4), ("float32", 2), ("float16", 8), ("int8", 16), ("float64", 2),
                                             ("bfloat16", 4), ("uint16", 4)])
@pytest.mark.parametrize("scope", ["global", "shared", "local"])
def test_vectors(name: str, lanes: int, scope: str) -> None:
    vector = f"{name}x{lanes}"

    def add(A: T.Buffer(("n",), name), B: T.Buffer(("n",), name)) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([8])
        start = (bx * 8 + tx) * lanes
        v = A.vload([start], dtype=vector)
        if scope != "global":
            room = T.alloc_buffer((8 * lanes,), name, scope=scope, align=16)
            at = tx * lanes if scope == "shared" else 0
            room.vstore([at], v)
            v = room.vload([at], dtype=vector)
        with T.If(A[start] == A[start]):
            B.vstore([start], v + v)
            B[start] = v[lanes - 1]

    storage = dtype(name).storage
    a = random(storage, 16 * lanes)
    a[~np.isfinite(a.astype(float))] = 1
    b = np.zeros_like(a)
    run(trace(add), a, b)
    with np.errstate(over="ignore"):
        expected = (a.astype(np.float32) + a.astype(np.float32)).astype(storage) if name in ("float16", "bfloat16") else a + a
    expected[::lanes] = a[lanes - 1::lanes]
    assert same(b, expected)


def test_the_same_vector_for_all_threads() -> None:
    def spread(A: T.Buffer((4,), "float32"), s: T.float32, out: T.Buffer((8, 4), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([8])
        v = A.vload([0], dtype="float32x4") * s
        with T.If(tx % 3 != 0):
            out.vstore([tx, 0], v)

    a, out = normal(4), np.zeros((8, 4), np.float32)
    run(trace(spread), a, 3.0, out)
    assert same(out, np.where(np.arange(8)[:, None] % 3 != 0, a * np.float32(3), np.float32(0)))


def test_shared_scalar() -> None:
    def first(A: T.Buffer((4, 32), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([4]), T.thread_id([32])
        x = T.shared_scalar("int32")
        with T.If(tx == 7):
            x.assign(A[bx, tx])
        T.cuda.cta_sync()
        A[bx, tx] = x

    a = np.arange(128, dtype=np.int32).reshape(4, 32)
    run(trace(first), a)
    assert (a == np.array([7, 39, 71, 103])[:, None]).all()


@pytest.mark.parametrize("name", ["int32", "float32"])
@pytest.mark.parametrize("scope", ["local", "shared"])
def test_a_value_is_what_it_was(name: str, scope: str) -> None:
    def swap(A: T.Buffer((2, 32), name)) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        t = A[0, tx]
        A[0, tx] = A[1, tx]
        A[1, tx] = t
        x = T.alloc_buffer((1,), name, scope=scope)
        x[0] = 5
        old = x[0]
        x[0] = 9
        A[0, tx] = A[0, tx] + old

    a = np.arange(64).reshape(2, 32).astype(name)
    expected = a[::-1].copy()
    expected[0] += 5
    run(trace(swap), a, checks=Checks(races=False))
    assert (a == expected).all()


def test_last_thread_wins() -> None:
    def race(A: T.Buffer((2,), "int32")) -> None:
        T.device_entry()
        i = T.cta_id([3]) * 32 + T.thread_id([32])
        A[0] = i
        A[i % 2] = i

    a = np.zeros(2, np.int32)
    run(trace(race), a, checks=Checks(races=False))
    assert a.tolist() == [94, 95]


def test_wide_and_unsigned_integers() -> None:
    def mix(A: T.Buffer((32,), "uint64"), B: T.Buffer((32,), "int64"), out: T.Buffer((32,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        with T.If(A[tx] > T.uint64(2**63)):
            out[tx] = (A[tx] % T.uint64(1000)).astype("int32")
        with T.Else():
            out[tx] = (B[tx] // 3 - tx).astype("int32")

    rng = np.random.default_rng(4)
    a = rng.integers(0, 2**64 - 1, 32, dtype=np.uint64, endpoint=True)
    b = rng.integers(-2**62, 2**62, 32)
    out = np.zeros(32, np.int32)
    run(trace(mix), a, b, out)
    assert out.tolist() == [int(x) % 1000 if x > 2**63 else int(np.int64(int(y) // 3 - t).astype(np.int32)) for t, (x, y) in enumerate(zip(a, b))]


def test_narrow_integers_wrap() -> None:
    def narrow(A: T.Buffer((256,), "uint8"), B: T.Buffer((256,), "int8")) -> None:
        T.device_entry()
        tx = T.thread_id([256])
        A[tx] = A[tx] * 3 + 200
        B[tx] = -B[tx]

    a, b = np.arange(256).astype(np.uint8), np.arange(256).astype(np.uint8).view(np.int8)
    expected_a, expected_b = a * np.uint8(3) + np.uint8(200), -b
    run(trace(narrow), a, b)
    assert same(a, expected_a) and same(b, expected_b)


def test_host_values_and_extents() -> None:
    def scaled(A: T.Buffer(("n", "m"), "float32"), k: T.int32) -> None:
        n, m = A.shape
        half = T.let(n // 2)
        T.device_entry()
        by, tx = T.cta_id([n]), T.thread_id([32])
        for j in T.serial(tx, m, 32):
            A[by, j] = T.select(by < half, A[by, j] * k, A[by, j] - m)

    a = normal(6, 70)
    expected = np.where(np.arange(6)[:, None] < 3, a * np.float32(7), a - np.float32(70))
    run(trace(scaled), a, 7)
    assert same(a, expected)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int16", "bool"])
def test_buffers_of_narrow_types(name: str) -> None:
    def copy(A: T.Buffer((64,), name), B: T.Buffer((64,), name), C: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        tile = T.alloc_shared((64,), name)
        mine = T.local_scalar(name)
        tile[63 - tx] = A[tx]
        T.cuda.cta_sync()
        mine.assign(tile[tx])
        B[tx] = mine
        C[tx] = B[tx].astype("float32")

    a = random(dtype(name).storage, 64)
    b, c = np.zeros_like(a), np.zeros(64, np.float32)
    run(trace(copy), a, b, c)
    assert b.tobytes() == a[::-1].tobytes()
    assert same(c, a[::-1].astype(np.float32))
