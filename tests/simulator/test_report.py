"""What a run counts, how the table looks, and that it stays fast."""

from __future__ import annotations

import time

import numpy as np

from runtime.simulator import AccessCount, simulate
from tests.simulator.running import run
from tests.simulator.test_checks import at
from tracer import T, trace


def half_scaled(A: T.Buffer(("n",), "float16"), B: T.Buffer(("n",), "float16")) -> None:
    T.device_entry()
    i = T.cta_id([2]) * 32 + T.thread_id([32])
    with T.If(i < A.shape[0]):
        B[i] = A[i] * 2.0


def test_counts() -> None:
    report = run(trace(half_scaled), np.ones(50, np.float16), np.zeros(50, np.float16))
    load, store = report.accesses
    location = load.location
    assert str(location) == at(half_scaled, "A[i] * 2.0")
    assert load == AccessCount("A", "global", "load", location, 2, 50) and load.bytes == 100
    assert store == AccessCount("B", "global", "store", location, 2, 50)
    assert {name: count for name, count in report.instructions.items() if count in (50, 64)} == {
        "add": 64, "lt": 64, "if": 64, "load": 50, "mul": 50, "store": 50}


def test_table() -> None:
    report = run(trace(half_scaled), np.ones(50, np.float16), np.zeros(50, np.float16))
    where = at(half_scaled, "A[i] * 2.0")
    assert str(report) == f"""\
half_scaled_kernel: grid (2,), block (32,)

instruction  executed
add                64
if                 64
lt                 64
load               50
mul                50
store              50

buffer  scope   access  threads  bytes  line
A       global  load         50    100  {where}
B       global  store        50    100  {where}"""


def saxpy(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), s: T.float32) -> None:
    T.device_entry()
    i = T.cta_id([T.ceildiv(A.shape[0], 256)]) * 256 + T.thread_id([256])
    with T.If(i < A.shape[0]):
        B[i] = A[i] * s + B[i]


def test_a_million_elements_take_well_under_a_second() -> None:
    kernel = trace(saxpy)
    n = 1 << 20
    a, b = np.ones(n, np.float32), np.zeros(n, np.float32)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run(kernel, a, b, 2.0)
        times.append(time.perf_counter() - start)
    assert b[0] == 6.0 and min(times) < 0.2, times


def test_a_small_kernel_takes_microseconds() -> None:
    kernel = trace(saxpy)
    a, b = np.ones(100, np.float32), np.zeros(100, np.float32)
    run(kernel, a, b, 2.0)
    start = time.perf_counter()
    for _ in range(50):
        run(kernel, a, b, 2.0)
    assert (time.perf_counter() - start) / 50 < 0.005


def test_programs_are_compiled_once() -> None:
    from runtime.simulator.program import program_of
    kernel = trace(saxpy)
    assert program_of(kernel.half, True) is program_of(kernel.half, True)
    assert program_of(kernel.half, True) is not program_of(kernel.half, False)
    assert simulate.__module__ == "runtime.simulator.machine"
