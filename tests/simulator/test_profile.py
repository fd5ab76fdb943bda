"""What a profile counts, exactly, for patterns whose cost is known; its texts, its data, its page; and what it costs itself."""

from __future__ import annotations

import io
import json
import re
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from examples import ampere_gemm, hopper_gemm
from runtime.simulator.kinds import KINDS, arithmetic, kind_of
from runtime.simulator.progress import Progress
from runtime.simulator.roof import MACHINES, roof
from tests.simulator.running import run
from tests.simulator.test_checks import at
from tracer import T, trace
from tracer.operations import OPERATIONS


def copies(index: Any, size: int = 1024) -> Any:
    """A kernel of two warps in each of four blocks that reads `A[index(thread of the grid)]` and writes in order."""
    def kernel(A: T.Buffer((size,), "float32"), B: T.Buffer((256,), "float32")) -> None:
        T.device_entry()
        i = T.cta_id([4]) * 64 + T.thread_id([64])
        B[i] = A[index(i)]

    return trace(kernel)


@pytest.mark.parametrize(("index", "sectors", "efficiency"), [
    (lambda i: i, 32, 1.0),
    (lambda i: i * 2, 64, 0.5),
    (lambda i: i * 4, 128, 0.25),
    (lambda i: i + 1, 40, 0.8),
    (lambda i: i + 8, 32, 1.0),
    (lambda i: i // 32, 8, 1.0),                # every lane of a warp reads one word
    (lambda i: i // 2, 16, 1.0),
    (lambda i: 255 - i, 32, 1.0),
    (lambda i: (i % 32) * 32, 256, 0.125),      # a sector a lane
])
def test_coalescing(index: Any, sectors: int, efficiency: float) -> None:
    report = run(copies(index), np.ones(1024, np.float32), np.zeros(256, np.float32), profile=True)
    load, store = report.accesses
    assert (load.requests, load.sectors, load.efficiency) == (8, sectors, efficiency)
    assert (store.requests, store.sectors, store.efficiency) == (8, 32, 1.0)
    assert load.passes == store.passes == 0


def test_a_view_is_as_aligned_as_it_is_in_its_array() -> None:
    """Not as what NumPy got from the system happens to be: on a GPU allocations begin at multiples of 256 bytes."""
    base = np.ones(2048, np.float32)
    for first, sectors in ((0, 32), (1, 40), (7, 40), (8, 32), (64, 32)):
        report = run(copies(lambda i: i), base[first:first + 1024], np.zeros(256, np.float32), profile=True)
        assert report.accesses[0].sectors == sectors


def test_lanes_that_take_no_part() -> None:
    def kernel(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")) -> None:
        T.device_entry()
        i = T.cta_id([2]) * 96 + T.thread_id([96])
        with T.If(i < 100):
            B[i] = A[i]

    report = run(trace(kernel), np.ones(100, np.float32), np.zeros(100, np.float32), profile=True)
    assert [(a.requests, a.sectors, a.threads) for a in report.accesses] == [(4, 13, 100)] * 2
    assert (report.bytes_read, report.bytes_written) == (13 * 32, 13 * 32)


@pytest.mark.parametrize("block", [(48,), (32,), (20, 3), (7, 5, 2), (64,)])
@pytest.mark.parametrize("case", range(4))
def test_against_counting_one_by_one(block: tuple[int, ...], case: int) -> None:
    """Blocks of any shape, threads that drop out, indices of any kind: as Python sets count them, warp by warp."""
    size, every = int(np.prod(block)), 3 * int(np.prod(block))

    def kernel(A: T.Buffer((1024,), "float32"), B: T.Buffer((every,), "float32")) -> None:
        T.device_entry()
        bx = T.cta_id([3])
        axes = T.thread_id(list(block))
        ids = [*axes] if len(block) > 1 else [axes]
        t = sum(axis * int(np.prod(block[:k])) for k, axis in enumerate(ids))
        tile = T.alloc_shared((1024,), "float32")
        at = [(t * 7 + bx) % 512, t * t % 1024, t // 3 * 33 % 1024, 1023 - t * 2][case]
        with T.If((t + bx) % [1, 2, 3, 5][case] == 0):
            tile[at] = A[at]
            B[bx * size + t] = tile[at]

    def of(t: int, bx: int) -> int:
        return [(t * 7 + bx) % 512, t * t % 1024, t // 3 * 33 % 1024, 1023 - t * 2][case]

    requests = sectors = passes = 0
    for bx in range(3):
        for warp in range(0, size, 32):
            places = {of(t, bx) for t in range(warp, min(warp + 32, size)) if (t + bx) % [1, 2, 3, 5][case] == 0}
            if places:
                requests += 1
                sectors += len({place // 8 for place in places})
                passes += max(sum(place % 32 == bank for place in places) for bank in range(32))
    report = run(trace(kernel), np.ones(1024, np.float32), np.zeros(every, np.float32), profile=True, checks=False)
    load, store, again, _ = report.accesses
    assert (load.requests, load.sectors) == (requests, sectors)
    assert (store.requests, store.passes) == (again.requests, again.passes) == (requests, passes)


def test_vectors_and_doubles() -> None:
    def kernel(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), D: T.Buffer((32,), "float64")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((128,), "float32")
        tile.vstore([tx * 4], A.vload([tx * 4], "float32x4"))
        T.cuda.cta_sync()
        B.vstore([tx * 4], tile.vload([tx * 4], "float32x4"))
        D[tx] = D[tx] * 2.0

    report = run(trace(kernel), np.ones(128, np.float32), np.zeros(128, np.float32), np.ones(32), profile=True)
    told = [(a.buffer, a.kind, a.requests, a.sectors, a.passes, a.conflicts) for a in report.accesses]
    assert told == [("A", "load", 1, 16, 0, 0), ("tile", "store", 1, 0, 4, 0), ("tile", "load", 1, 0, 4, 0), ("B", "store", 1, 16, 0, 0),
                    ("D", "load", 1, 8, 0, 0), ("D", "store", 1, 8, 0, 0)]
    assert report.arithmetic == {"float64": 32}


def test_a_vector_that_may_be_misaligned_moves_element_by_element() -> None:
    def kernel(A: T.Buffer((132,), "float32"), B: T.Buffer((128,), "float32"), k: T.int32) -> None:
        T.assume((k >= 0) & (k < 5))
        T.device_entry()
        tx = T.thread_id([32])
        B.vstore([tx * 4], A.vload([tx * 4 + k], "float32x4"))

    report = run(trace(kernel), np.ones(132, np.float32), np.zeros(128, np.float32), 4, profile=True)
    # 512 bytes from the middle of a sector on lie in 17 sectors, and each of the four loads touches all of them.
    assert [(a.buffer, a.requests, a.sectors) for a in report.accesses] == [("A", 4, 68), ("B", 1, 16)]


def test_elements_that_share_bytes() -> None:
    """Eight 4-bit floats are one move of 4 bytes, as it is derived from the index too."""
    def kernel(A: T.Buffer((512,), "float4_e2m1fn"), B: T.Buffer((512,), "float4_e2m1fn")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        B.vstore([tx * 8], A.vload([tx * 8], "float4_e2m1fnx8"))

    made = trace(kernel)
    report = made.simulate(np.zeros(256, np.uint8), np.zeros(256, np.uint8))
    assert [(a.requests, a.sectors, a.bytes) for a in report.accesses] == [(2, 8, 256)] * 2
    assert [(c.least, c.most, c.ideal) for c in made.check().costs] == [(4, 4, 4)] * 2


def transposed(pitch: int) -> Any:
    def kernel(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32")) -> None:
        T.device_entry()
        tx, ty = T.thread_id([32, 8])
        tile = T.alloc_shared((32, pitch), "float32")
        for k in range(0, 32, 8):
            tile[ty + k, tx] = A[ty + k, tx]
        T.cuda.cta_sync()
        for k in range(0, 32, 8):
            B[ty + k, tx] = tile[tx, ty + k]

    return trace(kernel)


@pytest.mark.parametrize(("pitch", "passes", "ways"), [(32, 1024, 32), (33, 32, 1), (34, 64, 2), (36, 128, 4), (40, 256, 8)])
def test_bank_conflicts(pitch: int, passes: int, ways: int) -> None:
    """A column of a 32x32 tile lies in one bank; a row that is longer by one spreads it over all."""
    report = run(transposed(pitch), np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32), profile=True)
    _, store, load, _ = report.statements()
    assert (store.requests, store.passes, store.conflicts, store.ways) == (32, 32, 0, 1)
    assert (load.requests, load.passes, load.conflicts, load.ways) == (32, passes, passes - 32, ways)
    assert report.barriers[0].times == 1 and report.barriers[0].warps == 8 and report.barriers[0].operation == "cuda.cta_sync"


def test_atomics() -> None:
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((4,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        T.cuda.atomic_add(B.ptr_to([tx // 32]), A[tx])

    report = run(trace(kernel), np.ones(64, np.int32), np.zeros(4, np.int32), profile=True)
    assert [(a.kind, a.requests, a.sectors) for a in report.accesses] == [("load", 2, 8), ("atomic", 2, 2)]
    assert (report.bytes_read, report.bytes_written) == (8 * 32 + 32, 32)
    assert report.kinds == {"memory": 64, "atomic": 64}


def test_both_sides_of_copies_and_matrix_products() -> None:
    """`cp.async` is an instruction of warps on both sides; what engines move passes them by."""
    arrays = [np.ones((256, 64), ml_dtypes.bfloat16), np.ones((256, 64), ml_dtypes.bfloat16), np.zeros((256, 256), ml_dtypes.bfloat16)]
    report = hopper_gemm.gemm.specialize(M=256, N=256, K=64).simulate(*arrays, checks=False)
    moved = {(a.buffer, a.kind): a.engine_bytes for a in report.statements() if a.engine_bytes}
    tile = 256 * 64 * 2
    assert moved == {("ptx.wgmma.mma_async", "load"): 10 * 8192 * 2, ("c", "load"): 4 * tile, ("C", "store"): 4 * tile,
                     ("A", "load"): tile, ("a", "store"): tile, ("B", "load"): tile, ("b", "store"): 2 * tile}
    assert report.arithmetic == {"matrix float16": 2 * 256 * 256 * 64}

    arrays = [np.ones((128, 64), np.float16), np.ones((128, 64), np.float16), np.zeros((128, 128), np.float16)]
    report = ampere_gemm.gemm.specialize(M=128, N=128, K=64).simulate(*arrays, checks=False)
    assert [(a.buffer, a.kind, a.bytes, a.sectors, a.passes, a.conflicts) for a in report.statements()] == [
        ("A", "load", 16384, 512, 0, 0), ("a", "store", 16384, 0, 128, 0), ("B", "load", 16384, 512, 0, 0), ("b", "store", 16384, 0, 128, 0),
        ("a", "load", 32768, 0, 256, 0), ("b", "load", 32768, 0, 256, 0), ("C", "store", 32768, 2048, 0, 0)]
    assert report.arithmetic == {"matrix float16": 2 * 128 * 128 * 64}


def test_text() -> None:
    kernel = transposed(32)
    report = run(kernel, np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32), profile=True)
    where, line = re.fullmatch(r"(.*):(\d+)", at(transposed, "= A[ty + k, tx]")).groups()
    short, first = where.rpartition("/")[2], int(line)
    assert str(report) == f"""\
kernel_kernel: grid (1,), block (32, 8)

H200: under the roof of shared memory, 4.04 ns at least

kind     executed
memory       4096
barrier       256

buffer  scope   access  bytes  requests  sectors  efficiency  passes  conflicts  line
A       global  load     4096        32      128        100%                     {short}:{first}
tile    shared  store    4096        32                           32          0  {short}:{first}
tile    shared  load     4096        32                         1024        992  {short}:{first + 3}
B       global  store    4096        32      128        100%                     {short}:{first + 3}

barrier        times  warps  line
cuda.cta_sync      1      8  {short}:{first + 1}

{where}
line  executed  sectors  efficiency  conflicts    source
{first:4}      2048      128        100%                   tile[ty + k, tx] = A[ty + k, tx]
{first + 1:4}       256                                    T.cuda.cta_sync()
{first + 3:4}      2048      128        100%        992        B[ty + k, tx] = tile[tx, ty + k]"""


def test_data() -> None:
    report = run(transposed(33), np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32), profile=True)
    made = json.loads(json.dumps(report.to_dict()))
    assert made["kernel"] == "kernel_kernel" and made["grid"] == [1] and made["sample"] is None
    assert made["kinds"] == {"memory": 4096, "barrier": 256} and made["bytes_read"] == 4096
    assert [a["passes"] for a in made["accesses"] if a["scope"] == "shared"] == [8] * 8
    rows = report.rows()
    assert len(rows) == 16 and {row["efficiency"] for row in rows if row["scope"] == "global"} == {1.0}
    assert rows[0]["buffer"] == "A" and rows[0]["file"] == __file__ and rows[0]["conflicts"] == 0


def test_page() -> None:
    """One file that asks for nothing else, with each line of the kernel and its numbers."""
    report = run(transposed(32), np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32), profile=True)
    page = report.html()
    assert page.startswith("<!DOCTYPE html>") and "http" not in page and "<script" not in page
    assert '<td class="source">            B[ty + k, tx] = tile[tx, ty + k]</td>' in page and ">992</td>" in page
    assert "under the roof of shared memory" in page and ">32-way</td>" in page
    assert page.count("<table>") == page.count("</table>") == 4


def test_roof() -> None:
    """The unit that needs longest: memory for a sum, arithmetic where each byte is used often."""
    machine = MACHINES["H200"]
    found = roof(machine, 4.8e9, 0, {"float32": 1e9})
    assert found.limit == "memory" and found.seconds == pytest.approx(1e-3)
    assert str(found) == "H200: under the roof of memory, 1 ms at least; 0.208 operations a byte, memory limits below 14"
    assert roof(machine, 1e6, 0, {"matrix float16": 989e12}).limit == "matrix float16 arithmetic"
    assert roof(machine, 0, 0, {}).seconds == 0 and str(roof(machine, 0, 0, {})) == "H200: nothing to do"


def test_every_operation_has_a_kind() -> None:
    from tracer.ir import Node
    for row in OPERATIONS.values():
        node = Node(row, (), None, {"counts": tuple(0 for _ in row.operands)})
        assert kind_of(node) in KINDS and arithmetic(node)[1] >= 0


def test_a_bar_is_drawn_on_a_terminal_alone() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        progress = Progress("kernel", 200, stream)
        progress.start(100)
        progress.next -= 10         # a few seconds on
        progress.start(100)
        progress.end()
    assert plain.getvalue() == ""
    drawn = "kernel [" + "#" * 20 + "." * 20 + "] 100/200 blocks"
    assert terminal.getvalue() == f"\r{drawn}\r{' ' * len(drawn)}\r"


def test_a_profile_of_a_million_elements_takes_a_fraction_of_a_second() -> None:
    from tests.simulator.test_report import saxpy
    kernel, n = trace(saxpy), 1 << 20
    a, b = np.ones(n, np.float32), np.zeros(n, np.float32)
    times = []
    for _ in range(3):
        start = time.process_time()
        run(kernel, a, b, 2.0, profile=True, checks=False)
        times.append(time.process_time() - start)
    assert min(times) < 0.6, times          # of this process: others may be busy
