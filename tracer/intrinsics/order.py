"""`T.cuda`: fences, which order a thread's accesses for others, pauses and the clock."""

from __future__ import annotations

from typing import Any

from tracer import operations as ops
from tracer.dtypes import dtype
from tracer.intrinsics.operands import UINT32, exactly
from tracer.recorder import current
from tracer.values import Value, wrap

_DEVICE, _BLOCK, _SYSTEM = ops.FENCES


def thread_fence() -> None:
    """What this thread wrote before is seen by the device's threads before what it writes behind (`__threadfence`)."""
    current().record(_DEVICE)


def thread_fence_block() -> None:
    """As `thread_fence`, for the threads of the block (`__threadfence_block`)."""
    current().record(_BLOCK)


def thread_fence_system() -> None:
    """As `thread_fence`, for all threads of the host and the devices (`__threadfence_system`)."""
    current().record(_SYSTEM)


def nano_sleep(nanoseconds: Any) -> None:
    """Pause for about `nanoseconds`, a uint32 below a million (`__nanosleep`)."""
    recorder = current()
    recorder.record(ops.NANO_SLEEP, [exactly(nanoseconds, UINT32, ops.NANO_SLEEP.name, recorder)])


def clock64() -> Value:
    """int64: the multiprocessor's cycle counter (`clock64`). On the simulator, how much has run so far, which only grows."""
    recorder = current()
    return wrap(recorder.record(ops.CLOCK64, [], dtype("int64")), recorder)
