"""`kernel.check()`: verdicts and reasons of every subject, on small kernels; and that the verdicts are sound, on all kernels there are."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pytest

from codegen.check import OPEN, SAFE, WRONG, Check
from examples import block_sum, matmul, softmax, transpose
from tests.kernels import CASES, Case
from tests.property import random_kernels
from tests.property.random_kernels import Program
from tests.sanitizer import arithmetic, bounds, flags, races, synchronisation  # noqa: F401  (they fill the corpus)
from tests.sanitizer.corpus import CORPUS, Planted
from tests.sanitizer.test_random_kernels import Racing, planted
from tests.simulator.test_checks import at
from tracer import T, trace
from tracer.errors import DataRaceError, SameValueRaceError, TraceError


def told(checked: Check, subject: str) -> list[tuple[str, str, str]]:
    """(verdict, what, reason) of one subject."""
    return [(f.verdict, f.what, f.reason) for f in checked.findings if f.subject == subject]


def costs(checked: Check) -> list[tuple[str, str, int, int, int]]:
    return [(c.unit, c.what, c.least, c.most, c.ideal) for c in checked.costs]


# ---- bounds, alignment, numbers ----------------------------------------------------------------------------------------

def test_bounds() -> None:
    def kernel(A: T.Buffer(("n",), "float32"), I: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")) -> None:  # noqa: E741
        n = A.shape[0]
        T.device_entry()
        tx = T.thread_id([64])
        at = I[tx]
        B[tx] = A[at]
        with T.If(tx + 1 < n):
            B[tx] = A[tx + 1]

    checked = trace(kernel).check()
    assert told(checked, "bounds") == [
        (SAFE, "load of I[tx]", "0 <= tx < 64"),
        (OPEN, "load of A[at]", "index 0, at, which is -2147483648 to 2147483647, is not known to be 0 or more"),
        (SAFE, "store of B[tx]", "0 <= tx < 64"),
        (SAFE, "load of A[tx + 1]", "0 <= tx + 1 < n"),
        (SAFE, "store of B[tx]", "0 <= tx < 64"),
    ]
    safe = next(f for f in checked.safe if f.what == "load of A[tx + 1]")
    assert safe.explain().splitlines()[0] == "tx + 1 >= 0 and tx + 1 < n" and safe.explain().endswith("\n1")


def test_pointers() -> None:
    def kernel(A: T.Buffer((64,), "float32"), k: T.int32) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        T.cuda.func_call("twice", A.ptr_to([tx * 2]), source_code="__device__ void twice(float *p) { p[1] = 2.0f * p[0]; }")
        T.cuda.func_call("twice", A.ptr_to([tx + k]), source_code="__device__ void twice(float *p) { p[1] = 2.0f * p[0]; }")

    checked = trace(kernel).check()
    assert told(checked, "bounds") == [
        (SAFE, "address of A[tx*2]", "0 <= tx*2 < 64, the element it points to; what is reached from there, the simulator sees"),
        (OPEN, "address of A[k + tx]",
         "index 0 is k + tx, which is -2147483648 to 2147483678; what is reached from there, the simulator sees")]


def test_alignment() -> None:
    def kernel(A: T.Buffer(("n",), "float32"), B: T.Buffer((256,), "float32"), k: T.int32) -> None:
        T.assume((k >= 0) & (A.shape[0] >= 512) & (k < 8))
        T.device_entry()
        tx = T.thread_id([64])
        B.vstore([tx * 4], A.vload([tx * 4 + k], "float32x4"))

    checked = trace(kernel).check()
    assert told(checked, "alignment") == [
        (OPEN, "load of A[tx*4 + k]", "element tx*4 + k of A is not known to be a multiple of 4: the lanes move one by one"),
        (SAFE, "store of B[tx*4]", "element tx*4 of B is a multiple of 4: one move of 16 bytes"),
    ]


def test_numbers() -> None:
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), rows: T.int32, d: T.int32) -> None:
        T.assume((d >= 2) & (d < 9))
        T.device_entry()
        tx = T.thread_id([64])
        x = A[tx]
        B[tx] = (rows * 64 + tx) % d + 100 // x + (x << (x % 32)) + (x >> x)

    checked = trace(kernel).check()
    assert told(checked, "divisor") == [(SAFE, "d, which is 2 to 8", "it is never 0"),
                                        (OPEN, "x, which is -2147483648 to 2147483647", "it is not known to differ from 0")]
    assert told(checked, "shift") == [(SAFE, "x % 32, which is 0 to 31", "within 0 to 31"),
                                      (OPEN, "x, which is -2147483648 to 2147483647", "not known to be within 0 to 31")]
    assert told(checked, "overflow") == [
        (OPEN, "rows*64", "-137438953472 to 137438953408, beyond int32 for some extents; every call checks its own"),
        (OPEN, "rows*64 + tx", "-137438953472 to 137438953471, beyond int32 for some extents; every call checks its own")]


# ---- barriers ----------------------------------------------------------------------------------------------------------

def test_barriers() -> None:
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        T.cuda.cta_sync()
        with T.If(n > 3):
            T.cuda.cta_sync()
        for k in T.serial(n):
            B[tx] = k
            T.cuda.cta_sync()
        with T.If(A[0] > 3):
            T.cuda.cta_sync()
        with T.If(tx < 32):
            T.return_()
        T.cuda.cta_sync()

    assert [(verdict, reason) for verdict, _, reason in told(trace(kernel).check(), "barrier")] == [
        (SAFE, "every thread of the block comes here"),
        (SAFE, "what is around it is the same for all threads of the block"),
        (SAFE, "what is around it is the same for all threads of the block"),
        (OPEN, "reached by all threads of the block only if they agree on `A[0] > 3`"),
        (OPEN, "reached by all threads of the block only if they agree on `tx < 32`"),
    ]


# ---- races -------------------------------------------------------------------------------------------------------------

def exchange(pitch: int, barrier: bool, double: bool = False) -> Any:
    """A loop that passes values to the neighbour by way of shared memory."""
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        tile = T.alloc_shared((2 if double else 1, 64 * pitch), "float32")
        for k in T.serial(8):
            tile[k % 2 if double else 0, tx * pitch] = A[tx]
            T.cuda.cta_sync()
            B[tx] = tile[k % 2 if double else 0, (tx + 1) % 64 * pitch]
            if barrier:
                T.cuda.cta_sync()

    return trace(kernel)


def test_a_race_from_one_turn_to_the_next() -> None:
    """The store of the next turn meets the load of this one; a second barrier, or a second buffer, keeps them apart."""
    checked = exchange(1, barrier=False).check()
    line = at(exchange, "(tx + 1) % 64 * pitch]").rpartition(":")[2]
    assert told(checked, "race")[0] == (WRONG, "store of tile[0, tx]", "threads 0 and 1 touch the same element with no barrier between: "
                                        f"load of tile[0, (tx + 1) % 64], line {line}")
    assert told(exchange(1, barrier=True).check(), "race")[0][::2] == (SAFE, "no two threads touch the same element between two barriers")


def test_two_buffers_are_left_to_the_run() -> None:
    """`k % 2` is not followed from turn to turn: nothing is claimed."""
    assert told(exchange(1, barrier=False, double=True).check(), "race")[0][0] == OPEN


def test_warps_that_order_themselves_are_not_accused() -> None:
    def kernel(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((32,), "float32")
        tile[tx] = A[tx]
        T.cuda.warp_sync()
        B[tx] = tile[31 - tx]

    assert told(trace(kernel).check(), "race")[0][0] == OPEN


def test_a_lock_is_not_accused() -> None:
    def kernel(A: T.Buffer((4,), "int32")) -> None:
        T.device_entry()
        T.thread_id([2])
        with T.While(lambda: T.cuda.atomic_cas(A.ptr_to([0]), 0, 1) != 0):
            pass
        A[1] = A[1] + 1
        T.cuda.atomic_exch(A.ptr_to([0]), 0)

    assert {verdict for verdict, _, _ in told(trace(kernel).check(), "race")} == {OPEN}


def test_elements_of_the_grid() -> None:
    def kernel(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n", "m"), "float32"), C: T.Buffer((64,), "int32")) -> None:
        n, m = A.shape
        T.device_entry()
        bx, by = T.cta_id([T.ceildiv(m, 32), T.ceildiv(n, 32)])
        tx, ty = T.thread_id([32, 8])
        for k in range(4):
            i, j = by * 32 + ty + k * 8, bx * 32 + tx
            with T.If((i < n) & (j < m)):
                B[i, j] = A[i, j]
        C[tx] = 1
        T.cuda.atomic_add(C.ptr_to([32 + tx]), 1)

    found = told(trace(kernel).check(), "race")
    assert [f[0] for f in found if "of B[" in f[1]] == [SAFE] * 4
    assert (OPEN, "store of C[tx]", "atomic of C[tx + 32], line "
            + at(test_elements_of_the_grid, "atomic_add").rpartition(":")[2] + ", goes by another index than store of C[tx]") not in found
    assert {f[0] for f in found if "of C[" in f[1]} == {OPEN}


def test_what_guards_pin_must_be_the_same_for_all_accesses() -> None:
    """Each of the two accesses is one thread's, but not the same one's."""
    def kernel(data: T.Buffer((1,), "int32"), out: T.Buffer((1,), "int32"), *, reader: T.constexpr) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([32])
        with T.If((bx == 0) & (tx == 0)):
            data[0] = 42
        with T.If((bx == reader) & (tx == 0)):
            out[0] = data[0]

    verdicts = {reader: told(trace(kernel).specialize(reader=reader).check(), "race") for reader in (0, 1)}
    assert verdicts[0][0] == (SAFE, "store of data[0]", "each element belongs to one thread of the grid")
    assert verdicts[1][0] == (OPEN, "store of data[0]", "threads that differ in bx alone touch the same element")


def test_what_instructions_alone_write_is_left_to_the_run() -> None:
    def kernel(A: T.Buffer((128,), "float32", align=16), B: T.Buffer((128,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((128,), "float32")
        T.ptx["cp.async.cg.shared.global"](tile.ptr_to([tx * 4]), A.ptr_to([tx * 4]), 16)
        T.ptx.cp.async_.wait_all()
        B[tx] = tile[127 - tx]

    assert told(trace(kernel).check(), "race")[0] == (OPEN, "address of tile[tx*4]", "ptx.cp.async writes there, which only a run follows")


def test_both_of_two_stores_that_meet_are_told() -> None:
    def kernel(A: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        tile = T.alloc_shared((65,), "int32")
        tile[tx] = tx
        tile[tx + 1] = tx
        T.cuda.cta_sync()
        A[tx] = tile[tx]

    line = kernel.__code__.co_firstlineno
    assert told(trace(kernel).check(), "race")[:2] == [
        (OPEN, "store of tile[tx]", f"threads 1 and 0, the other at line {line + 5}, write the same element: right only if they write the same"),
        (OPEN, "store of tile[tx + 1]", f"threads 0 and 1, the other at line {line + 4}, write the same element: right only if they write the same")]


# ---- costs -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("index", "least", "most", "ideal"), [
    (lambda i, k: i, 4, 4, 4),
    (lambda i, k: i * 2, 8, 8, 4),
    (lambda i, k: i + 1, 5, 5, 4),
    (lambda i, k: i + 8, 4, 4, 4),
    (lambda i, k: i + k, 4, 5, 4),
    (lambda i, k: i + k * 8, 4, 4, 4),
    (lambda i, k: i // 32, 1, 1, 1),
    (lambda i, k: k, 1, 1, 1),
])
def test_sectors(index: Any, least: int, most: int, ideal: int) -> None:
    def kernel(A: T.Buffer((4096,), "float32"), B: T.Buffer((256,), "float32"), k: T.int32) -> None:
        T.assume((k >= 0) & (k < 64))
        T.device_entry()
        i = T.cta_id([4]) * 64 + T.thread_id([64])
        B[i] = A[index(i, k)]

    cost, store = trace(kernel).check().costs
    assert (cost.unit, cost.least, cost.most, cost.ideal) == ("sectors", least, most, ideal)
    assert str(store).endswith("store of B[i]: 4 a warp, the fewest there can be")


def test_sectors_that_an_extent_decides() -> None:
    """Rows of unknown length begin anywhere in a sector; a thread that takes a row has a stride that is no number."""
    def kernel(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n", "m"), "float32")) -> None:
        T.device_entry()
        row, tx = T.cta_id([A.shape[0]]), T.thread_id([128])
        for j in T.serial(tx, A.shape[1], 128):
            B[row, j] = A[row, j]
        with T.If(tx < A.shape[0]):
            B[tx, 0] = A[tx, 0]

    along, _, down, _ = trace(kernel).check().costs
    assert str(along) == "sectors: load of A[row, j]: 4 to 5 a warp where 4 would do (depends on row*m % 8)"
    assert str(down) == "sectors: load of A[tx, 0]: in m*tx the thread's stride is no number"


@pytest.mark.parametrize(("pitch", "passes"), [(1, 1), (2, 2), (3, 1), (32, 32), (33, 1), (36, 4)])
def test_passes(pitch: int, passes: int) -> None:
    found = [c for c in exchange(pitch, barrier=True).check().costs if c.unit == "passes"]
    assert [(c.least, c.most, c.ideal) for c in found] == [(passes, passes, 1)] * 2


# ---- all kernels -------------------------------------------------------------------------------------------------------

def test_examples() -> None:
    """Nothing is wrong with them, and all of their races are decided but that of a tree whose strides are data."""
    kernels = [trace(transpose.transpose), trace(block_sum.block_sum), trace(softmax.softmax), matmul.matmul.specialize(M=128, N=96, K=64)]
    left = {k.__name__: [f.what for f in k.check().left if f.subject == "race"] for k in kernels}
    assert left == {"transpose": [], "block_sum": ["store of tree[tx]"], "softmax": [], "matmul": []}
    assert not any(k.check().wrong for k in kernels)


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_planted_bugs(case: Planted) -> None:
    """Nothing is called wrong in a corrected twin, and no race is called safe where one is planted."""
    try:
        broken = trace(case.fn).specialize(fixed=False)
    except TraceError:
        broken = None           # found even earlier
    assert trace(case.fn).specialize(fixed=True).check().wrong == ()
    expected = case.error if isinstance(case.error, tuple) else (case.error,)
    if broken is not None and set(expected) & {DataRaceError, SameValueRaceError}:
        assert any(f.subject == "race" and f.verdict != SAFE for f in broken.check().findings)


def test_many_planted_races_are_proved() -> None:
    """Before anything runs."""
    proved = [case.name for case in CORPUS if case.error is DataRaceError
              and any(f.subject == "race" for f in trace(case.fn).specialize(fixed=False).check().wrong)]
    assert len(proved) >= 18, proved


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_costs_are_those_of_the_run(case: Case) -> None:
    """What is derived from an index is what the simulator counts, where all lanes take part."""
    kernel = case.kernel()
    arguments = case.inputs(np.random.default_rng(0))
    shape, dtype = case.output
    report = kernel.simulate(*arguments, np.zeros(shape, dtype), *case.scalars, checks=False)
    checked = kernel.check()
    assert checked.wrong == ()
    known: dict[Any, list[Any]] = defaultdict(list)
    for cost in checked.costs:
        known[cost.location, cost.what.partition("[")[0]].append(cost)
    for access in report.accesses:
        found = known[access.location, f"{access.kind} of {access.buffer}"]
        if found and all(c.known for c in found) and access.threads == 32 * access.requests:
            counted = access.sectors or access.passes
            assert min(c.least for c in found) * access.requests <= counted <= max(c.most for c in found) * access.requests


def test_random_kernels_are_not_accused() -> None:
    for seed in range(60):
        assert Program.draw(Random(seed)).kernel().check().wrong == ()


def test_no_planted_race_of_a_random_kernel_is_called_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_kernels, "Recorded", Racing)
    for seed in range(60):
        program, buffer = planted(seed)
        verdicts = [f.verdict for f in program.kernel().check().findings if f.subject == "race" and f" of {buffer}[" in f.what]
        assert OPEN in verdicts or WRONG in verdicts, seed


# ---- texts -------------------------------------------------------------------------------------------------------------

def test_text_and_data() -> None:
    def copy(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")) -> None:
        T.device_entry()
        i = T.cta_id([T.ceildiv(A.shape[0], 256)]) * 256 + T.thread_id([256])
        with T.If(i < A.shape[0]):
            B[i] = A[i]

    checked = trace(copy).check()
    where = at(test_text_and_data, "B[i] = A[i]")
    assert str(checked) == f"""\
copy_kernel: 3 proved safe, 0 proved wrong, 0 left to the run
{where}  B[i] = A[i]
    bounds, proved safe: load of A[i]: 0 <= i < n
    bounds, proved safe: store of B[i]: 0 <= i < n
    race, proved safe: store of B[i]: each element belongs to one thread of the grid
    sectors: load of A[i]: 4 a warp, the fewest there can be
    sectors: store of B[i]: 4 a warp, the fewest there can be"""
    made = json.loads(json.dumps(checked.to_dict()))
    assert made["findings"][2] == {"subject": "race", "verdict": "proved safe", "what": "store of B[i]", "file": __file__,
                                   "reason": "each element belongs to one thread of the grid", "line": int(where.rpartition(":")[2])}
    assert made["costs"][0]["most"] == 4
