"""GPUs: the primary context of each, which PyCUDA keeps, and the kernels loaded in it.

The primary context is the one that PyTorch, CuPy and the CUDA runtime use, so memory and streams are shared with them
whichever was imported first. It is current only inside `Device.current()`: PyCUDA aborts a process that exits with a
context still on its stack.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.driver import ask, at_exit, bindings, check_process, pycuda_driver
from runtime.loaded import Loaded
from tracer.errors import LaunchError

_lock = threading.RLock()
_devices: dict[int, Device] = {}


class Device:
    """One GPU of this process.

    `name` is its maker's, `arch` what to compile for, `shared_limit` the bytes of shared memory that a block may have, `processors` how many
    multiprocessors there are.
    """

    def __init__(self, ordinal: int) -> None:
        driver = pycuda_driver()
        self.ordinal = ordinal
        handle = driver.Device(ordinal)
        self.name: str = handle.name()
        major, minor = handle.compute_capability()
        self.arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        told = driver.device_attribute
        self.shared_limit: int = handle.get_attribute(told.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self.processors: int = handle.get_attribute(told.MULTIPROCESSOR_COUNT)
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
        """The kernel `entry` of a cubin, loaded here once and until the process ends: a captured graph may still hold it.

        Also while a stream of the process is captured in a graph.
        """
        key = (code, entry)      # bytes remember their hash
        with _lock:
            if key not in self._loaded:
                with self.current(), _capture_goes_on():
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
        check_process()
        if ordinal not in _devices:
            driver = pycuda_driver()
            if not 0 <= ordinal < driver.Device.count():
                raise LaunchError(f"there is no cuda:{ordinal}; this process sees {driver.Device.count()} GPU(s)")
            if not _devices:
                at_exit(_close)
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
    ordinal = int(ask("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer))
    context = int(ask("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_CONTEXT, pointer))
    if context not in (0, device(ordinal).context_handle):     # 0: from a memory pool, which belongs to no context
        raise LaunchError(f"the memory at {pointer:#x} belongs to a CUDA context of its own, not to the primary one of cuda:{ordinal} "
                          "that is shared with PyTorch, CuPy and others; with PyCUDA, import pycuda.autoprimaryctx, not pycuda.autoinit")
    return ordinal


@contextmanager
def _capture_goes_on() -> Iterator[None]:
    """Calls that a capture in its default mode forbids, such as loading a module, are allowed to this thread inside."""
    relaxed = bindings().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = ask("cuThreadExchangeStreamCaptureMode", relaxed)
    try:
        yield
    finally:
        ask("cuThreadExchangeStreamCaptureMode", before)


def _close() -> None:
    """Nothing of ours may outlive the interpreter with a context behind it."""
    while _devices:
        _devices.popitem()[1].close()
