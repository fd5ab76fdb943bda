"""Tensor copies on the GPU: what lies in shared memory and in the array, byte by byte, is what the simulator's tests expect."""

import ml_dtypes
import numpy as np
import pytest

from tests.gpu.isolated import Isolated
from tests.gpu.transfer import from_gpu, to_gpu
from tests.tma import halves, slabs
from tests.tma import test_multicast as multicast
from tests.tma.boxes import CASES, RANDOM, Case, memory_of, without_nan
from tests.tma.test_boxes import COMBINE, REDUCED

READ = [(case, at) for case in [*CASES, *RANDOM] for at in case.at]
WRITTEN = [(case, at) for case in [*CASES, *RANDOM] for at in case.within]


@pytest.fixture(scope="module")
def there(gpu, torch):
    """A process with the GPU."""
    if gpu.arch < "sm_90":
        pytest.skip(f"{gpu.arch} has no tensor copies")
    isolated = Isolated()
    yield isolated
    isolated.end()


def _on_gpu(array):
    """The array with its strides: a part of a wider one stays one."""
    import torch
    if array.base is None or array.flags.c_contiguous:
        return to_gpu(torch, np.ascontiguousarray(array))
    return to_gpu(torch, array.base)[..., :array.shape[-1]]


def loaded(case, at):
    """Shared memory after a load."""
    import torch
    memory = to_gpu(torch, memory_of(case).view(np.uint32))
    case.load_kernel()(_on_gpu(case.array()), to_gpu(torch, np.int32(at)), memory)
    return from_gpu(torch, memory, np.uint32).view(np.uint8)


def stored(case, at, reduction=None):
    """The array's bytes after a store or reduction."""
    import torch
    array = case.array()
    on_device = _on_gpu(array)
    case.store_kernel(reduction)(on_device, to_gpu(torch, np.int32(at)), to_gpu(torch, memory_of(case).view(np.uint32)))
    return from_gpu(torch, on_device, array.dtype).view(f"u{case.itemsize}")


@pytest.mark.parametrize(("case", "at"), READ, ids=str)
def test_loads(case, at, there):
    got = there(loaded, case, at)
    assert np.array_equal(without_nan(case, got), case.loaded(case.array(), at, memory_of(case)))


@pytest.mark.parametrize(("case", "at"), WRITTEN[::2], ids=str)
def test_stores(case, at, there):
    expected = case.stored(case.array(), at, memory_of(case))
    assert np.array_equal(there(stored, case, at), expected.view(f"u{case.itemsize}"))


@pytest.mark.parametrize(("op", "dtype"), REDUCED)
def test_reductions(op, dtype, there):
    case = Case((20, 32), (8, 16), dtype, "64B" if dtype in ("float32", "int32", "uint32") else "none")
    for at in ((0, 0), (16, 24), (3, 8), (17, 32), (100, 0)):
        expected = case.stored(case.array(), at, memory_of(case), COMBINE[op])
        assert np.array_equal(there(stored, case, at, op), expected.view(f"u{case.itemsize}")), at


def three_slabs():
    """B of `tests.tma.slabs`."""
    import torch
    a, b, _ = slabs.arrays()
    out = to_gpu(torch, b)
    slabs.KERNEL(to_gpu(torch, a), out)
    return from_gpu(torch, out, np.uint16)


def test_a_map_of_a_view(there):
    assert np.array_equal(there(three_slabs), slabs.arrays()[2].view(np.uint16))


def widened():
    """B of `tests.tma.halves`."""
    import torch
    a, expected = halves.arrays()
    out = to_gpu(torch, np.zeros_like(expected))
    halves.KERNEL(to_gpu(torch, a), out)
    return from_gpu(torch, out, np.float16)


def test_packed_weights(there):
    assert np.array_equal(there(widened), halves.arrays()[1])


def shared_boxes(a):
    """B of `tests.tma.test_multicast`."""
    import torch
    out = to_gpu(torch, np.zeros((2, multicast.BLOCKS, *a.shape), ml_dtypes.bfloat16))
    multicast.KERNEL(to_gpu(torch, a.view(ml_dtypes.bfloat16)), out)
    return from_gpu(torch, out, np.uint16)


def test_multicast(there):
    a = np.random.default_rng(0).integers(0, 1 << 14, (multicast.BLOCKS * 16, 64)).astype(np.uint16)
    got = there(shared_boxes, a)
    assert np.array_equal(got, np.broadcast_to(a, got.shape))
