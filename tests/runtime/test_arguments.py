"""What comes as an argument: NumPy arrays, look-alikes of each framework's, and numbers."""

import ml_dtypes
import numpy as np
import pytest

from runtime import arguments
from runtime.arguments import array_of, kind_of, overlap, storage_view
from runtime.scalars import held, number_of, what


def test_a_numpy_array():
    base = np.arange(24, dtype="float32").reshape(4, 6)
    array = array_of(base[1:, ::2])
    assert (array.pointer, array.shape, array.strides) == (base.ctypes.data + 24, (3, 3), (6, 2))
    assert (array.dtype, array.itemsize, array.device, array.place, array.read_only) == ("float32", 4, None, "cpu", False)
    assert (array.offset, array.span, array.empty) == (6, 17, False)
    base.flags.writeable = False
    assert array_of(base).read_only


def test_a_numpy_array_of_an_ml_dtype_and_one_of_the_other_byte_order():
    assert array_of(np.zeros(3, ml_dtypes.bfloat16)).dtype == "bfloat16"
    assert array_of(np.zeros(3, ml_dtypes.float8_e4m3fn)).dtype == "float8_e4m3fn"
    assert array_of(np.zeros(3, ">f4")).dtype == ">f4"


def test_a_field_of_records_may_step_by_half_elements():
    records = np.zeros(4, [("a", "float64"), ("b", "float32")])
    assert array_of(records["a"]).strides == (1.5,)


def test_a_masked_array_is_refused():
    assert array_of(np.ma.masked_array(np.zeros(3))) == "a masked array, whose mask a kernel would not see"


def test_what_is_no_array_is_described():
    assert [what(x) for x in (None, 3, 2.5, True, np.float32(1.5), "text", [1], object())] == [
        "None", "3 (an int)", "2.5 (a float)", "True (a bool)", "1.5 (a float32)", "a str", "a list", "an object"]
    assert array_of([1.0]) == "a list"


def test_numbers():
    assert [number_of(x) for x in (True, 3, 2.5, np.bool_(True), np.uint8(7), np.float16(0.5), ml_dtypes.bfloat16(1.5))] == [
        True, 3, 2.5, True, 7, 0.5, 1.5]
    assert [type(number_of(x)) for x in (np.bool_(True), np.uint8(7), np.float16(0.5), ml_dtypes.bfloat16(1.5))] == [
        bool, int, float, float]
    for other in (None, "1", 1j, np.complex64(1), np.datetime64(1, "ns"), np.str_("1"), np.zeros(()), [1]):
        assert number_of(other) is None


@pytest.mark.parametrize("name, value, result", [
    ("int32", 2**31 - 1, 2**31 - 1), ("int32", 2**31, None), ("int32", -2**31, -2**31), ("uint8", 255, 255), ("uint8", 256, None),
    ("uint8", -1, None), ("int64", 2**63, None), ("bool", 1, True), ("bool", 2, None), ("float32", 0.1, np.float32(0.1)),
    ("float32", 1e300, None), ("float32", float("inf"), np.float32("inf")), ("float16", 65519.0, np.float16(65504)),
    ("float16", 65520.0, None), ("bfloat16", 1e39, None), ("float32", 10**400, None), ("float64", 2**53 + 1, np.float64(2**53)),
])
def test_a_scalar_is_held_or_refused(name, value, result):
    assert held(name, value) == result
    if result is not None:
        assert held(name, value).dtype.name == name


def test_a_nan_is_held():
    assert np.isnan(held("float32", float("nan")))


def test_columns_side_by_side_do_not_overlap():
    base = np.zeros((4, 16), "float32")
    left, right, middle, all_but_last = (array_of(x) for x in (base[:, :8], base[:, 8:], base[:, 4:12], base[:3]))
    assert not overlap(left, right) and not overlap(right, left)
    assert overlap(left, middle) and overlap(middle, right) and overlap(left, all_but_last)
    assert not overlap(array_of(base[:, 2:6]), array_of(base[::-1, 6:]))
    assert overlap(array_of(base[:, :2]), array_of(base.reshape(-1)[15:63].reshape(3, 16)[:, :2]))      # it runs into the next row


def test_overlap():
    base = np.zeros(32, "float32")
    parts = [array_of(base[:16]), array_of(base[15:20]), array_of(base[16:]), array_of(base[20:20])]
    assert [[overlap(a, b) for b in parts] for a in parts] == [
        [True, True, False, False], [True, True, True, False], [False, True, True, False], [False, False, False, False]]


def test_the_view_of_the_storage_writes_through_and_begins_before_the_array():
    base = np.arange(128, dtype="int32")
    array = array_of(base[64:96].reshape(4, 8))
    view = storage_view(array, 64, 96)
    assert np.array_equal(view, base[:96])
    view[65] = -1
    assert base[65] == -1
    assert storage_view(array_of(base[:0]), 0, 0).shape == (0,)


def test_the_view_of_a_read_only_array_is_read_only():
    base = np.arange(8, dtype="int32")
    base.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        storage_view(array_of(base), 0, 8)[0] = 1


def test_the_view_keeps_the_memory_alive():
    view = storage_view(array_of(np.arange(100_000, dtype="int64")), 0, 100_000)
    assert np.array_equal(view, np.arange(100_000))


# Frameworks that are not there: classes of their names, with what the adapters read.

class _Layout:
    pass


def fake(module, name, **members):
    return type(name, (), {"__module__": module, **members})


def test_a_cupy_array():
    class Data:
        ptr, mem = 4096 + 8, type("Memory", (), {"ptr": 4096})
    cls = fake("cupy", "ndarray", data=Data, shape=(2, 3), strides=(24, 8), dtype=np.dtype("float64"), itemsize=8,
               device=type("Device", (), {"id": 1}))
    array = array_of(cls())
    assert kind_of(cls) is arguments.CUPY
    assert (array.pointer, array.shape, array.strides, array.dtype) == (4104, (2, 3), (3, 1), "float64")
    assert (array.device, array.place, array.offset) == (1, "cuda:1", 1)


def test_a_pycuda_array(monkeypatch):
    monkeypatch.setattr(arguments.device, "ordinal_of", lambda pointer: 2)
    cls = fake("pycuda.gpuarray", "GPUArray", gpudata=4096, shape=(4,), strides=(4,), dtype=np.dtype("int32"), base=None)
    array = array_of(cls())
    assert (array.pointer, array.shape, array.strides, array.dtype, array.device, array.offset) == (4096, (4,), (1,), "int32", 2, 0)


def test_the_cuda_array_interface(monkeypatch):
    monkeypatch.setattr(arguments.device, "ordinal_of", lambda pointer: 0)
    told = {"shape": (2, 3), "typestr": "<f4", "data": (4096, True), "version": 3, "strides": None, "stream": 7}
    cls = fake("numba", "DeviceNDArray", __cuda_array_interface__=told)
    array = array_of(cls())
    assert (array.pointer, array.shape, array.strides, array.dtype, array.device) == (4096, (2, 3), (3, 1), "float32", 0)
    assert (array.read_only, array.offset, array.kind.stream(cls())) == (True, None, 7)
    told["mask"] = object()
    assert array_of(cls()) == "a DeviceNDArray with a mask, which a kernel would not see"


def test_a_torch_tensor_on_the_meta_device_is_refused(monkeypatch):
    cls = fake("torch", "Tensor", is_cuda=False, device=type("Device", (), {"type": "meta", "__str__": lambda self: "meta"})())
    assert kind_of(type("Parameter", (cls,), {"__module__": "torch.nn"})) is arguments.TORCH
    assert array_of(cls()) == "a torch tensor on meta"
