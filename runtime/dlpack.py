"""Reading a DLPack capsule: address, shape, strides and type of an array, whoever made it, without copying.

The layout of the structures is that of dlpack.h 1.1 (`DLManagedTensor` and `DLManagedTensorVersioned`). A capsule is only
looked at, not consumed: whoever keeps it alive keeps the memory alive.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_READ_ONLY = 1


class _Device(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", _Device), ("ndim", c_int32), ("dtype", _DataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("manager", c_void_p), ("deleter", c_void_p)]


class _Version(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class _Versioned(ctypes.Structure):
    _fields_ = [("version", _Version), ("manager", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("tensor", _Tensor)]


# dlpack.h, DLDataTypeCode. A number after the name is the width in bits; the float8 and narrower kinds have one each.
_NAMES = {
    0: "int{bits}", 1: "uint{bits}", 2: "float{bits}", 4: "bfloat{bits}", 5: "complex{bits}", 6: "bool",
    7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz",
    12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu", 15: "float6_e2m3fn", 16: "float6_e3m2fn",
    17: "float4_e2m1fn",
}

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a capsule says. `pointer` is the first element's address, `storage` where its memory starts; strides in elements."""

    pointer: int
    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int
    device: tuple[int, int]
    read_only: bool


def read(capsule: Any) -> Tensor:
    """The tensor in `capsule`, of either DLPack structure. Raises `ValueError` for a consumed or foreign capsule."""
    name = _capsule_name(capsule)
    if name == b"dltensor_versioned":
        versioned = _Versioned.from_address(_capsule_pointer(capsule, name))
        if versioned.version.major != 1:
            raise ValueError(f"DLPack {versioned.version.major}.{versioned.version.minor} is not known here; 1.x is")
        return _tensor(versioned.tensor, bool(versioned.flags & _READ_ONLY))
    if name == b"dltensor":
        return _tensor(_Managed.from_address(_capsule_pointer(capsule, name)).tensor, False)
    raise ValueError(f"a capsule named {name!r} is no DLPack tensor, or was consumed before")


def _tensor(tensor: Any, read_only: bool) -> Tensor:
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim))
    else:
        strides = row_major(shape)
    storage = tensor.data or 0
    return Tensor(storage + tensor.byte_offset, storage, shape, strides, _dtype_name(tensor.dtype),
                  -(-tensor.dtype.bits * tensor.dtype.lanes // 8),
                  (tensor.device.device_type, tensor.device.device_id), read_only)


def _dtype_name(dtype: Any) -> str:
    name = _NAMES.get(dtype.code, "DLPack type {code}:{bits}").format(code=dtype.code, bits=dtype.bits)
    return name if dtype.lanes == 1 else f"{name}x{dtype.lanes}"


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides in elements of a compact row-major array."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)
