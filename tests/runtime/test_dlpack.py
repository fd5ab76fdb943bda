"""Reading DLPack capsules: NumPy's own, and ones made here for what NumPy does not export."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from runtime import dlpack
from runtime.arguments import DLPACK, array_of, storage_view

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


_alive = []


class Exporter:
    """An array with `__dlpack__`, of any DLPack type: what JAX's and others' arrays look like to a consumer."""

    def __init__(self, array, code, bits, *, lanes=1, strides=True, byte_offset=0, versioned=True, read_only=False,
                 device=(dlpack.CPU, 0), old=False):
        self.array, self.device, self.old, self.asked = array, device, old, []
        shape, steps = array.shape, [s // array.itemsize for s in array.strides]
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.steps = (ctypes.c_int64 * len(shape))(*steps)
        held = dlpack._Versioned() if versioned else dlpack._Managed()
        tensor = held.tensor
        tensor.data, tensor.byte_offset = array.ctypes.data - byte_offset, byte_offset
        tensor.device.device_type, tensor.device.device_id = device
        tensor.ndim = len(shape)
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = code, bits, lanes
        tensor.shape = self.shape
        if strides:
            tensor.strides = self.steps
        if versioned:
            held.version.major, held.version.minor = 1, 1
            held.flags = int(read_only)
        self.held = held
        _alive.append(self)     # a real maker's capsule owns all this
        self.name = b"dltensor_versioned" if versioned else b"dltensor"

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **asked):
        if self.old and "max_version" in asked:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append(asked)
        return _new(ctypes.addressof(self.held), self.name, None)


@pytest.mark.parametrize("name", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                                  "float32", "float64"])
def test_numpys_own_capsules(name):
    array = np.zeros((3, 4), name)[:, 1:3]
    tensor = dlpack.read(array.__dlpack__())
    assert (tensor.pointer, tensor.shape, tensor.strides) == (array.ctypes.data, (3, 2), (4, 1))
    assert (tensor.dtype, tensor.itemsize, tensor.device) == (name, array.itemsize, (dlpack.CPU, 0))


@pytest.mark.parametrize("name, code, bits", [
    ("bfloat16", 4, 16), ("float8_e4m3fn", 10, 8), ("float8_e5m2", 12, 8), ("float8_e8m0fnu", 14, 8),
    ("float6_e2m3fn", 15, 6), ("float6_e3m2fn", 16, 6), ("float4_e2m1fn", 17, 4),
])
def test_the_narrow_floats_keep_their_names(name, code, bits):
    values = np.arange(4).astype(getattr(ml_dtypes, name))
    array = array_of(Exporter(values, code, bits))
    assert (array.dtype, array.itemsize, array.shape, array.strides, array.kind) == (name, 1 if bits <= 8 else 2, (4,), (1,), DLPACK)
    if name == "float4_e2m1fn":       # which kernels take packed, two a byte
        return
    view = storage_view(array, 0, 4)
    assert view.dtype == values.dtype
    view[2] = 0.5
    assert values[2] == 0.5


def test_strides_left_out_mean_compact_and_an_offset_is_added():
    base = np.arange(24, dtype="float32")
    array = array_of(Exporter(base[12:].reshape(3, 4), 2, 32, strides=False, byte_offset=48, versioned=False))
    assert (array.pointer, array.strides, array.offset) == (base.ctypes.data + 48, (4, 1), 12)


def test_an_old_maker_is_asked_without_a_version():
    maker = Exporter(np.zeros(3, "float32"), 2, 32, versioned=False, old=True)
    assert array_of(maker).shape == (3,)
    assert maker.asked == [{}]


def test_the_read_only_flag():
    assert array_of(Exporter(np.zeros(3, "float32"), 2, 32, read_only=True)).read_only
    assert not array_of(Exporter(np.zeros(3, "float32"), 2, 32)).read_only


@pytest.mark.parametrize("stream, asked", [(0, 1), (7, 7)])
def test_a_cuda_array_is_asked_to_be_ready_on_the_stream_of_the_launch(stream, asked):
    maker = Exporter(np.zeros(3, "float32"), 2, 32, device=(dlpack.CUDA, 1))
    assert array_of(maker, stream).device == 1
    assert maker.asked == [{"stream": asked, "max_version": (1, 1)}]


def test_what_is_refused_is_said():
    assert array_of(Exporter(np.zeros(3, "float32"), 2, 32, device=(10, 0))) == "an Exporter on DLPack device 10:0"
    assert array_of(Exporter(np.zeros(3, "float32"), 2, 32, lanes=4)).dtype == "float32x4"
    assert array_of(Exporter(np.zeros(3, "float32"), 99, 32)).dtype == "DLPack type 99:32"
    newer = Exporter(np.zeros(3, "float32"), 2, 32)
    newer.held.version.major = 2
    assert array_of(newer) == "an Exporter that does not come through DLPack (DLPack 2.1 is not known here; 1.x is)"
    used = Exporter(np.zeros(3, "float32"), 2, 32)
    used.name = b"used_dltensor"
    with pytest.raises(ValueError, match="b'used_dltensor' is no DLPack tensor, or was consumed before"):
        dlpack.read(used.__dlpack__())
