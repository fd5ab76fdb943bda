"""GPUs: the primary context of each, which PyCUDA keeps, the kernels loaded in it, and one launch.

The primary context is the one that PyTorch, CuPy and the CUDA runtime use, so memory and streams are shared with them
whichever was imported first. It is current only inside `Device.current()`: PyCUDA aborts a process that exits with a
context still on its stack. PyCUDA and cuda-bindings are imported on the first use of a GPU, never before.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from tracer.errors import ArgumentTypeError, LaunchError

STATIC_SHARED_LIMIT = 48 * 1024   # what a block may have without the opt-in (CUDA C++ Programming Guide, compute capabilities)

_lock = threading.RLock()
_devices: dict[int, Device] = {}
_process: int | None = None       # the one that initialised CUDA


# ---- the two libraries -------------------------------------------------------------------------------------------------

@cache
def pycuda_driver() -> Any:
    """`pycuda.driver`, initialised. Raises `LaunchError` without PyCUDA or without a usable GPU."""
    global _process
    try:
        driver = importlib.import_module("pycuda.driver")
    except ImportError as problem:
        raise LaunchError("a GPU launch needs PyCUDA and NVIDIA's driver: run pip install 'kernelwright[cuda]' "
                          f"({problem})") from problem
    try:
        driver.init()
    except driver.Error as problem:
        raise LaunchError(f"CUDA cannot be initialised: {problem}") from problem
    _process = os.getpid()
    atexit.register(_close)
    return driver


@cache
def bindings() -> Any:
    """`cuda.bindings.driver`, for what PyCUDA lacks. Raises `LaunchError` without cuda-bindings."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as problem:
        raise LaunchError("a launch on another library's stream, or with arrays that do not tell their device, needs "
                          f"cuda-bindings: run pip install 'kernelwright[cuda]' ({problem})") from problem


def _call(function: str, *arguments: Any) -> Any:
    """One call of the driver through cuda-bindings. Raises `LaunchError` with the driver's name for what went wrong."""
    driver = bindings()
    status, *values = getattr(driver, function)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise LaunchError(f"{function} failed: {status.name}")
    return values[0] if values else None


# ---- devices -----------------------------------------------------------------------------------------------------------

class Device:
    """One GPU of this process. `arch` is what to compile for; `shared_limit` the bytes of shared memory a block may have."""

    def __init__(self, ordinal: int) -> None:
        driver = pycuda_driver()
        self.ordinal = ordinal
        handle = driver.Device(ordinal)
        major, minor = handle.compute_capability()
        self.arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        self.shared_limit: int = handle.get_attribute(driver.device_attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self._context = handle.retain_primary_context()
        self._loaded: dict[tuple[bytes, str], Loaded] = {}

    @property
    def context_handle(self) -> int:
        """The primary context as the driver knows it."""
        return int(self._context.handle)

    @contextmanager
    def current(self) -> Iterator[None]:
        """The primary context is current inside; what was current before is so again after."""
        self._context.push()
        try:
            yield
        finally:
            self._context.pop()

    def load(self, code: bytes, entry: str) -> Loaded:
        """The kernel `entry` of a cubin, loaded here once and until the process ends: a captured graph may still hold it."""
        key = (code, entry)      # bytes remember their hash
        with _lock:
            if key not in self._loaded:
                self._loaded[key] = Loaded(self, code, entry)
            return self._loaded[key]

    def close(self) -> None:
        """Unload every kernel and give the context back. Only `_close` calls it."""
        with self.current():
            for loaded in self._loaded.values():
                loaded.unload()
        self._context.detach()     # PyCUDA's destructor would detach it as if it were not the primary one


def device(ordinal: int) -> Device:
    """The GPU `ordinal`. Raises `LaunchError` where CUDA cannot be used, in a forked child of a process that uses it too."""
    with _lock:
        if _process not in (None, os.getpid()):
            raise LaunchError("this process was forked from one that had initialised CUDA, where CUDA cannot be used; "
                              "start workers with multiprocessing's 'spawn' method, or fork before the first GPU launch")
        if ordinal not in _devices:
            driver = pycuda_driver()
            if not 0 <= ordinal < driver.Device.count():
                raise LaunchError(f"there is no cuda:{ordinal}; this process sees {driver.Device.count()} GPU(s)")
            _devices[ordinal] = Device(ordinal)
        return _devices[ordinal]


def ordinal_of(pointer: int) -> int:
    """The GPU on which the memory at `pointer` lies; for a null pointer (an empty array) the first.

    Raises `LaunchError` for memory of another context than the primary one, which a kernel here could not reach.
    """
    if pointer == 0:
        return 0
    pycuda_driver()
    attributes = bindings().CUpointer_attribute
    ordinal = int(_call("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer))
    context = int(_call("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_CONTEXT, pointer))
    if context not in (0, device(ordinal).context_handle):     # 0: from a memory pool, which belongs to no context
        raise LaunchError(f"the memory at {pointer:#x} belongs to a CUDA context of its own, not to the primary one of cuda:{ordinal} "
                          "that is shared with PyTorch, CuPy and others; with PyCUDA, import pycuda.autoprimaryctx, not pycuda.autoinit")
    return ordinal


def _close() -> None:
    """At exit, before PyCUDA's own teardown: nothing of ours may outlive the interpreter with a context behind it."""
    if _process == os.getpid():
        while _devices:
            _devices.popitem()[1].close()


# ---- streams -----------------------------------------------------------------------------------------------------------

def stream_handle(stream: Any) -> int:
    """The CUstream behind an int, a PyTorch, CuPy or PyCUDA stream, or anything with `__cuda_stream__`.

    Raises `ArgumentTypeError` for anything else.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    told = getattr(stream, "__cuda_stream__", None)
    if told is not None:
        return int((told() if callable(told) else told)[1])
    for name in ("cuda_stream", "ptr", "handle"):   # PyTorch, CuPy, PyCUDA
        if hasattr(stream, name):
            return int(getattr(stream, name))
    raise ArgumentTypeError(f"stream: expected a CUDA stream (an int, a PyTorch, CuPy or PyCUDA stream, or an object with "
                            f"__cuda_stream__), got {stream!r}")


# ---- launching ---------------------------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Parameters:
    """A kernel's parameters as the driver takes them: one buffer, and where in it each begins."""

    buffer: bytes
    offsets: Sequence[int]


class Loaded:
    """One kernel on one device."""

    def __init__(self, device: Device, code: bytes, entry: str) -> None:
        driver = pycuda_driver()
        self.device, self.code, self.entry = device, code, entry
        with device.current():
            try:
                self.module = driver.module_from_buffer(code)
                self.function = self.module.get_function(entry)
                self.shared_static: int = self.function.shared_size_bytes
            except driver.Error as problem:
                raise LaunchError(f"{entry} cannot be loaded on cuda:{device.ordinal}, an {device.arch}: {problem}") from problem
        self.shared_allowed = STATIC_SHARED_LIMIT - self.shared_static
        self._foreign: Any = None

    def launch(self, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, parameters: Parameters,
               stream: Any) -> None:
        """Enqueue the kernel. `shared` counts the dynamic bytes of a block. Raises `LaunchError` where the driver refuses."""
        driver = pycuda_driver()
        handle = stream_handle(stream)
        self._check_shared(shared)
        with self.device.current():
            try:
                if handle == 0 or isinstance(stream, driver.Stream):
                    self._allow_shared(shared)
                    self.function._launch_kernel(grid, block, parameters.buffer, shared, stream if handle else None)
                else:
                    self._launch_foreign(grid, block, shared, parameters, handle)
            except (driver.Error, LaunchError) as problem:
                raise LaunchError(f"{self.entry} with grid {grid}, block {block} and {shared} bytes of dynamic shared memory: "
                                  f"{problem}") from problem

    def unload(self) -> None:
        """Give the code's memory back; the kernel cannot be launched any more."""
        self.function = self.module = None
        if self._foreign is not None:
            _call("cuModuleUnload", self._foreign[0])
            self._foreign = None

    def _check_shared(self, shared: int) -> None:
        limit = self.device.shared_limit - self.shared_static
        if shared > limit:
            raise LaunchError(f"{self.entry} asks for {shared} bytes of dynamic shared memory; cuda:{self.device.ordinal} has "
                              f"{limit} for a block beside the {self.shared_static} static ones")

    def _allow_shared(self, shared: int) -> None:
        if shared > self.shared_allowed:
            self.function.set_attribute(pycuda_driver().function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
            self.shared_allowed = shared

    def _launch_foreign(self, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, parameters: Parameters,
                        stream: int) -> None:
        """Launch on a stream that PyCUDA did not make, which its own launch does not take: the same code, loaded once more."""
        if self._foreign is None:
            module = _call("cuModuleLoadData", self.code)
            self._foreign = module, _call("cuModuleGetFunction", module, self.entry.encode())
        function = self._foreign[1]
        if shared > STATIC_SHARED_LIMIT - self.shared_static:
            attribute = bindings().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _call("cuFuncSetAttribute", function, attribute, shared)
        held = ctypes.create_string_buffer(parameters.buffer, len(parameters.buffer))
        base = ctypes.addressof(held)
        pointers = (ctypes.c_void_p * len(parameters.offsets))(*(base + offset for offset in parameters.offsets))
        _call("cuLaunchKernel", function, *grid, *block, shared, stream, ctypes.addressof(pointers), 0)
