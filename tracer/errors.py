"""Every error of kernelwright is a class here, so that one can be caught by name and looked up by its docstring."""

from __future__ import annotations

from typing import Any


class KernelwrightError(Exception):
    """The root of all errors that this project raises."""


class TraceError(KernelwrightError):
    """The kernel function did something that cannot be recorded, or that is wrong for every run.

    The message says file:line, what was done, where the value came from, and what to write instead.

    >>> from tracer import T, trace
    >>> def k(A: T.Buffer((8,), "float32")):
    ...     T.device_entry(); tx = T.thread_id([8])
    ...     if A[tx] > 0: A[tx] = 0.0
    >>> trace(k)                                                        # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tracer.errors.TraceError: ...

    What works instead:

    >>> def k(A: T.Buffer((8,), "float32")):
    ...     T.device_entry(); tx = T.thread_id([8])
    ...     with T.If(A[tx] > 0): A[tx] = 0.0
    >>> kernel = trace(k)
    """


class DTypeError(TraceError, TypeError):
    """A dtype is unknown, two dtypes do not promote, or a dtype cannot hold a literal or a stored value."""


class SpecializeError(KernelwrightError, TypeError):
    """`specialize` was given too few, unknown or unhashable constexprs; the message names them and the signature."""


class NotSupportedError(KernelwrightError, NotImplementedError):
    """The language has it, this version does not build it yet. The message names what is missing."""


class ArgumentError(KernelwrightError):
    """An argument of a kernel call does not fit its parameter. Nothing was launched or written.

    The message has the parameter, what was expected, what came, and the kernel's signature.
    """


class ArgumentCountError(ArgumentError, TypeError):
    """Too few or too many arguments."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of the wrong kind (array, scalar) or dtype."""


class ArgumentValueError(ArgumentError, ValueError):
    """A rank, extent, stride, alignment, scalar value, device or overlap of arrays that the kernel cannot take."""


class LaunchError(KernelwrightError):
    """The launch itself is impossible on this device: grid, block or shared memory beyond its limits, or the driver refused."""


class CompileError(KernelwrightError):
    """The CUDA compiler refused the emitted source. The message pairs its diagnostics with the Python lines they come from."""


class CompilerNotFoundError(CompileError):
    """Neither NVRTC nor nvcc can be found; the message says what to install."""


class SimulationError(KernelwrightError):
    """The simulator saw the kernel do something wrong. The message has block, thread, buffer, logical index and Python line."""


class OutOfBoundsError(SimulationError, IndexError):
    """A load or store outside the buffer's shape or its storage."""


class MisalignedAccessError(SimulationError):
    """A vector load or store whose first element does not lie at a multiple of the access's width."""


class UninitializedReadError(SimulationError):
    """A read of shared or local memory that nothing wrote."""


class BarrierDivergenceError(SimulationError):
    """A barrier, or an operation of a whole warp, that only some of its threads reached."""


class IndexOverflowError(SimulationError, OverflowError):
    """Integer index arithmetic left the range of its dtype."""


class ArithmeticFault(SimulationError, ArithmeticError):
    """A division or modulo by zero, or a shift by the width or more."""


class DeadlockError(SimulationError):
    """Nobody can go on: every thread that has not ended waits for something that no other thread and no copy under way can bring.

    The message lists who waits where for what, with the counts of each barrier. The usual causes: an arrival that is missing or made by
    too few threads (the count of `mbarrier.init` or `bar.sync`), the wrong phase, `expect_tx` of more bytes than are copied, a wait of
    all threads of a block behind a branch that only some take.
    """


class BarrierError(SimulationError):
    """A named barrier used in a way that has no meaning: an id beyond 15, a count that is no multiple of 32 or differs between the warps
    that meet, a warp that arrives twice before the others came. Give each use its own id, and every warp the same count."""


class MBarrierError(SimulationError):
    """An mbarrier used against its rules: before its initialisation (or initialised while in use), more arrivals than its count, more bytes
    than it can count, a wait for a phase two behind, a wait on another block's barrier.

    Initialise in one thread, then fence and synchronise the block; count as many arrivals as threads arrive; wait for each phase in turn.
    """


class AsyncError(SimulationError):
    """An asynchronous copy or matrix operation that was left to itself: its group not committed, not waited for before the kernel ended, or
    registers that it still uses touched. Commit, and wait, in the thread that issued it, before what needs the result."""


class ClusterError(SimulationError):
    """Blocks of a cluster out of step: an access to the shared memory of a block that has ended, a block that is not in the cluster, a
    cluster barrier waited for without an arrival or arrived at twice. End such kernels with `T.cuda.cluster_sync()`."""


class DataRaceError(SimulationError):
    """Two threads touch the same byte, one of them stores to it, and nothing orders the two: what comes out depends on who is first.

    The message has both accesses with element, value, thread, block and line, the reason why they are not ordered, and what would order
    them. `buffer` is the buffer (None: memory reached by an address), `locations` the lines of both, the one that ran first first.

    A missing barrier:

        tile[tx] = A[tx]
        B[tx] = tile[255 - tx]              # DataRaceError: write T.cuda.cta_sync() between the two

    An update by many threads:

        count[0] = count[0] + 1             # DataRaceError: write T.cuda.atomic_add(count.ptr_to([0]), 1)
    """

    def __init__(self, message: str, buffer: Any = None, locations: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.buffer, self.locations = buffer, locations


class SameValueRaceError(DataRaceError):
    """Two threads store the same value to the same byte, and nothing orders them.

    Today's hardware leaves that value there whoever comes last, but nothing promises it, and one thread is enough: `with T.If(tx == 0)`.
    Where it is meant, `kernel.simulate(..., checks=Checks(same_value_writes=False))` lets it pass.
    """


class UnwrittenOutputError(SimulationError):
    """An array that the kernel writes has elements that no thread wrote. Looked for on request: `checks=Checks(unwritten_outputs=True)`."""


class NonFiniteError(SimulationError, ArithmeticError):
    """An operation made a NaN or an infinity out of finite numbers; the message has its line. On request: `checks=Checks(nan=True)`."""


class DescriptorError(SimulationError):
    """A matrix or instruction descriptor that means nothing, reaches beyond shared memory, or that the threads do not agree on.

    `T.cuda.wgmma.descriptor(A.ptr_to([0, 0]))` makes one that fits the buffer's layout. Buffers with a swizzled layout are aligned to 1024
    bytes (`align=1024`), for the hardware swizzles absolute addresses.
    """


class TensorMemoryError(SimulationError):
    """Tensor memory used against its rules: columns that are not allocated (or not freed), an allocation of a wrong size, lanes that
    belong to another warp, a read without the wait or the fence that orders it. The message says what to write."""
