"""Tensor copies on the GPU: what lies in shared memory and in the array, byte by byte, is what the simulator's tests expect."""

import ml_dtypes
import numpy as np
import pytest

from tests.gpu.transfer import from_gpu, to_gpu
from tests.tma import slabs
from tests.tma import test_multicast as multicast
from tests.tma.boxes import CASES, RANDOM, Case, memory_of, without_nan
from tests.tma.test_boxes import COMBINE, REDUCED

pytestmark = pytest.mark.usefixtures("hopper")


@pytest.fixture(scope="module")
def hopper(gpu):
    if gpu.arch < "sm_90":
        pytest.skip(f"{gpu.arch} has no tensor copies")


def on_gpu(torch, array):
    """The array with its strides: a part of a wider one stays one."""
    if array.base is None or array.flags.c_contiguous:
        return to_gpu(torch, np.ascontiguousarray(array))
    return to_gpu(torch, array.base)[..., :array.shape[-1]]


@pytest.mark.parametrize("case", [*CASES, *RANDOM], ids=str)
def test_loads(case, torch):
    kernel, array = case.load_kernel(), case.array()
    on_device = on_gpu(torch, array)
    for at in case.at:
        before = memory_of(case)
        memory = to_gpu(torch, before.view(np.uint32))
        kernel(on_device, to_gpu(torch, np.int32(at)), memory)
        got = from_gpu(torch, memory, np.uint32).view(np.uint8)
        assert np.array_equal(without_nan(case, got), case.loaded(array, at, before)), at


@pytest.mark.parametrize("case", [*CASES[::2], *RANDOM[::2]], ids=str)
def test_stores(case, torch):
    kernel = case.store_kernel()
    for at in case.at:
        array, memory = case.array(), memory_of(case)
        on_device = on_gpu(torch, array)
        kernel(on_device, to_gpu(torch, np.int32(at)), to_gpu(torch, memory.view(np.uint32)))
        got, expected = from_gpu(torch, on_device, array.dtype), case.stored(array, at, memory)
        assert np.array_equal(got.view(f"u{case.itemsize}"), expected.view(f"u{case.itemsize}")), at


@pytest.mark.parametrize(("op", "dtype"), REDUCED)
def test_reductions(op, dtype, torch):
    case = Case((20, 32), (8, 16), dtype, "64B" if dtype in ("float32", "int32", "uint32") else "none")
    kernel = case.store_kernel(op)
    for at in ((0, 0), (16, 20), (-3, -7)):
        array, memory = case.array(), memory_of(case)
        on_device = to_gpu(torch, array)
        kernel(on_device, to_gpu(torch, np.int32(at)), to_gpu(torch, memory.view(np.uint32)))
        assert np.array_equal(from_gpu(torch, on_device, array.dtype), case.stored(array, at, memory, COMBINE[op])), at


def test_a_map_of_a_view(torch):
    a, b, expected = slabs.arrays()
    out = to_gpu(torch, b)
    slabs.KERNEL(to_gpu(torch, a), out)
    assert np.array_equal(from_gpu(torch, out, b.dtype), expected)


def test_multicast(torch):
    a = np.random.default_rng(0).standard_normal((multicast.BLOCKS * 16, 64)).astype(ml_dtypes.bfloat16)
    out = to_gpu(torch, np.zeros((2, multicast.BLOCKS, *a.shape), a.dtype))
    multicast.KERNEL(to_gpu(torch, a), out)
    assert np.array_equal(from_gpu(torch, out, a.dtype), np.broadcast_to(a, tuple(out.shape)))
