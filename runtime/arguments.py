"""What an array argument of a call is: of one of the `KINDS`, one row each.

Nothing here imports a framework: a kind is recognised by the type of what came. An `Array` says where the elements are and
how they lie; it keeps the object that owns the memory alive for as long as it lives itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import ml_dtypes  # noqa: F401  (gives NumPy the names of bfloat16 and the float8 types)
import numpy as np

from runtime import device, dlpack
from runtime.scalars import what
from tracer.dtypes import dtype

Stride: TypeAlias = "int | float"   # a view into records may step by a fraction of an element


@dataclass(slots=True, eq=False)
class Array:
    """One array argument. `pointer` is the address of its first element, `strides` count elements.

    `device` is the ordinal of its GPU, None for host memory. `kind` is the row that read it from `owner`.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[Stride, ...]
    dtype: str
    itemsize: int
    device: int | None
    read_only: bool
    kind: Kind
    owner: Any

    @property
    def place(self) -> str:
        """Where it lives, for messages: "cpu" or "cuda:0"."""
        return "cpu" if self.device is None else f"cuda:{self.device}"

    @property
    def empty(self) -> bool:
        """True where it has no elements."""
        return 0 in self.shape

    @property
    def offset(self) -> Stride | None:
        """How many elements its first one lies into its storage; None where its maker does not tell."""
        start = self.kind.storage(self.owner)
        if start is None:
            return None
        return _in_elements(self.pointer - start, self.itemsize)

    @property
    def span(self) -> int:
        """From its lowest to its highest element, in elements: 0 where it is empty."""
        return 0 if self.empty else 1 + int(sum(abs((size - 1) * step) for size, step in zip(self.shape, self.strides)))

    @property
    def lowest(self) -> int:
        """The address of its lowest element: before the first one where it runs backwards."""
        return self.pointer + int(sum(min((size - 1) * step, 0) for size, step in zip(self.shape, self.strides)) * self.itemsize)


@dataclass(frozen=True, slots=True)
class Kind:
    """One way in which arrays come. `read(argument, stream)` gives the `Array`, or says in words why it cannot.

    `storage(owner)` is the address at which the memory behind an array starts, None where that is not known;
    `stream(argument)` the handle of the stream on which its framework works now, None for a framework without such a thing.
    """

    name: str
    recognises: Callable[[type], bool]
    read: Callable[[Any, int], Array | str]
    storage: Callable[[Any], int | None]
    stream: Callable[[Any], int | None]


def array_of(argument: Any, stream: int = 0) -> Array | str:
    """The array that `argument` is, or in words what it is instead. `stream` is where the kernel will run."""
    kind = kind_of(type(argument))
    return what(argument) if kind is None else kind.read(argument, stream)


def kind_of(cls: type) -> Kind | None:
    """The row for arguments of this type; None where it is no array."""
    if cls not in _kinds:
        _kinds[cls] = next((kind for kind in KINDS if kind.recognises(cls)), None)
    return _kinds[cls]


_kinds: dict[type, Kind | None] = {}


def strides_differ(array: Array, wanted: tuple[int, ...]) -> bool:
    """True where an element would not lie where `wanted` says: an axis of extent 1 and an empty array may have any stride."""
    return not array.empty and any(
        came != step and size != 1 for size, came, step in zip(array.shape, array.strides, wanted))


def overlap(a: Array, b: Array) -> bool:
    """True where two arrays share a byte, as far as their spans tell; columns of one array that lie side by side do not."""
    if a.device != b.device or a.empty or b.empty:
        return False
    (first, last), (begin, end) = _ends(a), _ends(b)
    return first < end and begin < last and not _side_by_side(a, b)


def _ends(array: Array) -> tuple[float, float]:
    """The address of its lowest element, and the one behind its highest."""
    low: Stride = 0
    high: Stride = 1
    for size, step in zip(array.shape, array.strides):
        if step < 0:
            low += (size - 1) * step
        else:
            high += (size - 1) * step
    return array.pointer + low * array.itemsize, array.pointer + high * array.itemsize


def _side_by_side(a: Array, b: Array) -> bool:
    """Whether rows of one lie between rows of the other: the same distance from row to row, within which both have room."""
    (period, width), (other, beside) = _rows(a), _rows(b)
    if period != other or period == 0:
        return False
    start = (b.lowest - a.lowest) % period
    return start >= width and start + beside <= period


def _rows(array: Array) -> tuple[Stride, Stride]:
    """The greatest stride, and what an array takes beside it, in bytes."""
    steps = [(abs(step), size) for step, size in zip(array.strides, array.shape) if size > 1]
    step, size = max(steps, default=(0, 1))
    return step * array.itemsize, (array.span - (size - 1) * step) * array.itemsize


def storage_view(array: Array, offset: int, size: int) -> np.ndarray[Any, Any]:
    """The flat view of `size` elements from `offset` elements before the first one of a host array; of elements that share bytes, the bytes.

    Stores into it go through to the array; it is read-only where the array is.
    """
    if dtype(array.dtype).packed:
        whole = replace(array, dtype="uint8", itemsize=1, shape=(*array.shape[:-1], array.shape[-1] // 2))
        return storage_view(whole, offset // 2, size // 2)
    kind = dtype(array.dtype).storage
    if array.empty:
        return np.empty(size, kind)
    return np.asarray(_Memory(array, array.pointer - offset * array.itemsize, size)).view(kind)


class _Memory:
    """The array interface of raw memory. NumPy keeps this object, and so the array that owns the memory, alive."""

    def __init__(self, array: Array, address: int, size: int) -> None:
        self.owner = array
        self.__array_interface__ = {"version": 3, "data": (address, array.read_only), "shape": (size,),
                                    "typestr": f"|V{array.itemsize}"}


def _in_elements(size: int, itemsize: int) -> Stride:
    return size // itemsize if size % itemsize == 0 else size / itemsize


# ---- the kinds ---------------------------------------------------------------------------------------------------------

def _named(module: str, name: str) -> Callable[[type], bool]:
    """Recognises a class, and those derived from it, by package and name."""
    def recognises(cls: type) -> bool:
        return any(c.__name__ == name and c.__module__.partition(".")[0] == module for c in cls.__mro__)
    return recognises


@cache
def _numpy_name(kind: np.dtype[Any]) -> str:
    return kind.name if kind.isnative else kind.str


def _read_numpy(array: Any, _: int) -> Array | str:
    if isinstance(array, np.ma.MaskedArray):
        return "a masked array, whose mask a kernel would not see"
    size = array.itemsize
    return Array(array.__array_interface__["data"][0], array.shape, tuple(_in_elements(s, size) for s in array.strides),
                 _numpy_name(array.dtype), size, None, not array.flags.writeable, NUMPY, array)


def _numpy_storage(array: Any) -> int:
    while isinstance(array.base, np.ndarray):
        array = array.base
    start: int = array.__array_interface__["data"][0]
    return start


_torch_names: dict[Any, str] = {}


def _read_torch(tensor: Any, _: int) -> Array | str:
    if not tensor.is_cuda and tensor.device.type != "cpu":
        return f"a torch tensor on {tensor.device}"
    if tensor.layout is not sys.modules["torch"].strided or tensor.is_neg():
        return f"a torch tensor whose layout is {tensor.layout}{', lazily negated' * tensor.is_neg()}"
    kind = tensor.dtype
    name = _torch_names.get(kind) or _torch_names.setdefault(kind, str(kind).removeprefix("torch."))
    return Array(tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), name, kind.itemsize,
                 tensor.get_device() if tensor.is_cuda else None, False, TORCH, tensor)


def _torch_storage(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _torch_stream(tensor: Any) -> int | None:
    if not tensor.is_cuda:
        return None
    return int(sys.modules["torch"]._C._cuda_getCurrentRawStream(tensor.get_device()))


def _read_cupy(array: Any, _: int) -> Array | str:
    size = array.itemsize
    return Array(array.data.ptr, array.shape, tuple(_in_elements(s, size) for s in array.strides),
                 _numpy_name(array.dtype), size, array.device.id, False, CUPY, array)


def _cupy_stream(_: Any) -> int:
    return int(sys.modules["cupy"].cuda.get_current_stream().ptr)


def _read_gpuarray(array: Any, _: int) -> Array | str:
    pointer, size = int(array.gpudata or 0), array.dtype.itemsize
    return Array(pointer, array.shape, tuple(_in_elements(s, size) for s in array.strides), _numpy_name(array.dtype), size,
                 device.ordinal_of(pointer), False, GPUARRAY, array)


def _gpuarray_storage(array: Any) -> int:
    while getattr(array, "base", None) is not None:
        array = array.base
    return int(array.gpudata or 0)


def _read_dlpack(array: Any, stream: int) -> Array | str:
    place, ordinal = array.__dlpack_device__()
    if place not in (dlpack.CPU, dlpack.CUDA_HOST, dlpack.CUDA, dlpack.CUDA_MANAGED):
        return f"{what(array)} on DLPack device {int(place)}:{ordinal}"
    on_gpu = place in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    asked = {"stream": stream or _LEGACY_STREAM} if on_gpu else {}
    try:
        try:
            capsule = array.__dlpack__(**asked, max_version=(1, 1))
        except TypeError:   # a maker of DLPack before 1.0
            capsule = array.__dlpack__(**asked)
        tensor = dlpack.read(capsule)
    except (BufferError, ValueError) as problem:
        return f"{what(array)} that does not come through DLPack ({problem})"
    return Array(tensor.pointer, tensor.shape, tensor.strides, tensor.dtype, tensor.itemsize,
                 ordinal if on_gpu else None, tensor.read_only, DLPACK, capsule)


_LEGACY_STREAM = 1   # DLPack's and CUDA's handle of the legacy default stream, for which 0 stands elsewhere


def _dlpack_storage(capsule: Any) -> int:
    return dlpack.read(capsule).storage


def _read_interface(array: Any, _: int) -> Array | str:
    told = array.__cuda_array_interface__
    if told.get("mask") is not None:
        return f"{what(array)} with a mask, which a kernel would not see"
    kind, shape = np.dtype(told["typestr"]), tuple(told["shape"])
    pointer, read_only = told["data"]
    steps = told.get("strides")
    strides = dlpack.row_major(shape) if steps is None else tuple(_in_elements(s, kind.itemsize) for s in steps)
    return Array(pointer, shape, strides, _numpy_name(kind), kind.itemsize, device.ordinal_of(pointer), read_only,
                 INTERFACE, array)


def _interface_stream(array: Any) -> int | None:
    stream: int | None = array.__cuda_array_interface__.get("stream")
    return stream


def _no_stream(_: Any) -> None:
    return None


NUMPY = Kind("NumPy", lambda cls: issubclass(cls, np.ndarray), _read_numpy, _numpy_storage, _no_stream)
TORCH = Kind("PyTorch", _named("torch", "Tensor"), _read_torch, _torch_storage, _torch_stream)
CUPY = Kind("CuPy", _named("cupy", "ndarray"), _read_cupy, lambda array: int(array.data.mem.ptr), _cupy_stream)
GPUARRAY = Kind("PyCUDA", _named("pycuda", "GPUArray"), _read_gpuarray, _gpuarray_storage, _no_stream)
DLPACK = Kind("DLPack", lambda cls: hasattr(cls, "__dlpack__") and hasattr(cls, "__dlpack_device__"), _read_dlpack,
              _dlpack_storage, _no_stream)
INTERFACE = Kind("the CUDA array interface", lambda cls: hasattr(cls, "__cuda_array_interface__"), _read_interface,
                 lambda array: None, _interface_stream)

KINDS = (NUMPY, TORCH, CUPY, GPUARRAY, DLPACK, INTERFACE)
