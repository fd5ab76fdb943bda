"""Tensor copies on the simulator against plain Python, byte by byte; and on every architecture that has them, the compiler."""

import numpy as np
import pytest

from tests.nvcc import cubin, needs_nvcc, one_unit
from tests.tma.boxes import CASES, RANDOM, Case, memory_of, without_nan
from tracer.tensor_maps import REDUCTIONS

REDUCED = [(op, dtype) for op, dtypes in REDUCTIONS.items() for dtype in dtypes.split()]
COMBINE = {"add": lambda a, b: a + b, "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
           "inc": lambda a, b: 0 if a >= b else a + 1, "dec": lambda a, b: b if a == 0 or a > b else a - 1}


@pytest.mark.parametrize("case", [*CASES, *RANDOM], ids=str)
def test_loads(case):
    kernel, array = case.load_kernel(), case.array()
    for at in case.at:
        before = memory_of(case)
        memory = before.copy()
        kernel.simulate(array, np.int32(at), memory.view(np.uint32))
        assert np.array_equal(without_nan(case, memory), case.loaded(array, at, before)), at


@pytest.mark.parametrize("case", [*CASES[::2], *RANDOM[::2]], ids=str)
def test_stores(case):
    kernel = case.store_kernel()
    for at in case.within:
        array, memory = case.array(), memory_of(case)
        expected = case.stored(array, at, memory)
        kernel.simulate(array, np.int32(at), memory.view(np.uint32))
        assert np.array_equal(array.view(f"u{case.itemsize}"), expected.view(f"u{case.itemsize}")), at


@pytest.mark.parametrize(("op", "dtype"), REDUCED)
def test_reductions(op, dtype):
    case = Case((20, 32), (8, 16), dtype, "64B" if dtype in ("float32", "int32", "uint32") else "none")
    kernel = case.store_kernel(op)
    for at in ((0, 0), (16, 24), (3, 8), (17, 32), (100, 0)):
        array, memory = case.array(), memory_of(case)
        expected = case.stored(array, at, memory, COMBINE[op])
        kernel.simulate(array, np.int32(at), memory.view(np.uint32))
        assert np.array_equal(array, expected), at


@needs_nvcc
def test_they_compile(tmp_path):
    sources = [c.load_kernel().cuda_source(locations=False).replace("load_kernel", f"load_{k}") for k, c in enumerate([*CASES, *RANDOM[:10]])]
    sources += [c.store_kernel().cuda_source(locations=False).replace("store_kernel", f"store_{k}") for k, c in enumerate(RANDOM[:10])]
    sources += [Case((20, 32), (8, 16), dtype).store_kernel(op).cuda_source(locations=False).replace("store_kernel", f"reduce_{k}")
                for k, (op, dtype) in enumerate(REDUCED[::3])]
    made = cubin(one_unit(sources), tmp_path, ["sm_90a"])
    assert made["sm_90a"].stat().st_size > 0


def test_scripts_trace_back():
    for case in (CASES[0], CASES[-1], RANDOM[3]):
        kernel = case.load_kernel()
        namespace = {}
        exec(kernel.script(), namespace)
        from tracer import trace
        assert trace(namespace["load"]).script() == kernel.script()
