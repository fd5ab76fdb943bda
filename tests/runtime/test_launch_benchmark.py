"""The benchmark of launches, as far as it goes without a GPU: its C loop compiles, medians and table are right."""

import ctypes
import shutil

import pytest

from benchmarks import launch


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
def test_the_floor_compiles(tmp_path):
    launches = launch.compile_floor(str(tmp_path))
    assert launches.restype is ctypes.c_double and len(launches.argtypes) == 6


def test_the_median_of_rounds_after_the_first_three():
    taken = iter([9.0, 9.0, 9.0, 1.0, 2.0, 30.0])
    waits = []
    figures = launch.measure({"one": lambda count: next(taken)}, lambda: waits.append(1), rounds=3)
    assert figures == {"one": 2.0 / launch.BATCH * 1e6} and len(waits) == 6


def test_a_batch_calls_so_many_times():
    calls = []
    assert launch.loop(lambda *a: calls.append(a), 1, 2)(5) >= 0
    assert calls == [(1, 2)] * 5


def test_the_table():
    assert launch.table({"floor": 4.0, "ours, all": 5.0}, "floor") == "floor         4.00 us  x 1.00\nours, all     5.00 us  x 1.25"
    assert launch.table({"a": 1.0}) == "a     1.00 us"
