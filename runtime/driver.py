"""The two libraries that reach NVIDIA's driver, imported on the first use of a GPU and never before.

PyCUDA keeps devices and contexts. Modules, functions and launches go through cuda-bindings: PyCUDA's launch takes no stream of
another library and no attributes, and its functions do not tell their handle.
"""

from __future__ import annotations

import atexit
import importlib
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from tracer.errors import LaunchError

_at_exit: list[Callable[[], None]] = []
_process: list[int] = []        # the one that initialised CUDA


@cache
def pycuda_driver() -> Any:
    """`pycuda.driver`, initialised. Raises `LaunchError` without PyCUDA or without a usable GPU."""
    try:
        driver = importlib.import_module("pycuda.driver")
    except ImportError as problem:
        raise LaunchError("a GPU launch needs PyCUDA and NVIDIA's driver: run pip install 'kernelwright[cuda]' "
                          f"({problem})") from problem
    try:
        driver.init()
    except driver.Error as problem:
        raise LaunchError(f"CUDA cannot be initialised: {problem}") from problem
    _process.append(os.getpid())
    atexit.register(_close)     # behind PyCUDA's own registration, and so before its teardown
    return driver


@cache
def bindings() -> Any:
    """`cuda.bindings.driver`. Raises `LaunchError` without cuda-bindings."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as problem:
        raise LaunchError(f"a GPU launch needs cuda-bindings: run pip install 'kernelwright[cuda]' ({problem})") from problem


def ask(function: str, *arguments: Any) -> Any:
    """One call of the driver through cuda-bindings. Raises `LaunchError` with the driver's name for what went wrong."""
    driver = bindings()
    status, *values = getattr(driver, function)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise LaunchError(f"{function} failed: {named(status)}")
    return values[0] if values else None


def driver_function(name: str) -> int:
    """The address of one of the driver's functions. Raises `LaunchError` where this driver lacks it."""
    driver = bindings()
    status, address, _ = driver.cuGetProcAddress(name.encode(), 12000, 0)
    if status != driver.CUresult.CUDA_SUCCESS or not address:
        raise LaunchError(f"this driver has no {name}: {named(status)}")
    return int(address)


# What is behind the commonest errors, and what to do.
_ADVICE = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel that was enqueued before accessed memory that is not there, and the context is lost; run it on "
                                  "NumPy arrays, and the simulator says where",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel that was enqueued before made a misaligned access, and the context is lost; run it on NumPy "
                                     "arrays, and the simulator says where",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a kernel that was enqueued before executed an instruction with operands that it does not take, and "
                                      "the context is lost; run it on NumPy arrays, and the simulator says where",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the code was compiled for another architecture",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "a block takes more registers than a multiprocessor has; take fewer threads, or set "
                                          "tirx.launch_bounds_min_blocks_per_sm",
    "CUDA_ERROR_OUT_OF_MEMORY": "the GPU's memory is used up",
}


def named(status: Any) -> str:
    """A status of the driver in its words, with advice where there is some: `CUDA_ERROR_INVALID_VALUE`."""
    name = str(getattr(status, "name", status))
    return f"{name} ({_ADVICE[name]})" if name in _ADVICE else name


def check_process() -> None:
    """Raise `LaunchError` in a forked child of a process that uses CUDA, where CUDA cannot be used."""
    if _process and _process[0] != os.getpid():
        raise LaunchError("this process was forked from one that had initialised CUDA, where CUDA cannot be used; "
                          "start workers with multiprocessing's 'spawn' method, or fork before the first GPU launch")


def at_exit(function: Callable[[], None]) -> None:
    """Call `function` when the process that initialised CUDA ends, before PyCUDA's own teardown."""
    _at_exit.append(function)


def _close() -> None:
    if _process[0] == os.getpid():
        for function in _at_exit:
            function()
