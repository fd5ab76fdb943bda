"""What happens in a run, told as it happens. Checks and profiles are observers: they look on and change nothing.

Threads are global numbers: `block * threads_per_block + thread`, both linear, x fastest. Memories are told apart by identity: a `Memory` is a
parameter's whole array or the shared space of the blocks that run together, so that two views of the same bytes have the same place. Local
memory is each thread's own, and its accesses are not told.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Protocol

from runtime.simulator.frames import Array
from runtime.simulator.memory import Memory
from tracer.ir import Buffer, Node


@dataclass(slots=True)
class Touch:
    """One statement's access to memory by some threads, or by an asynchronous operation.

    * `kind`: "load", "store" or "atomic"; `order` ("relaxed", "acquire", "release", "acq_rel") and `scope` ("cta", "cluster", "gpu", "sys")
      are those of atomics and of ordered loads and stores, else empty. A volatile access is a relaxed one of scope "sys".
    * `threads`: shape (n,). `start`: byte offsets in `memory.cells`, shape (n,) or (n, pieces); each piece has `size` bytes.
    * `values`: what is stored, an element of whatever type for each of `start`'s pieces and the elements in it; None where unknown.
    * `proxy`: "generic" or "async"; `actor`: the operation that does it, in whose name `threads` (its issuers) stand.
    """

    node: Node
    buffer: Buffer | None
    memory: Memory
    kind: str
    threads: Array
    start: Array
    size: int
    values: Array | None = None
    proxy: str = "generic"
    order: str = ""
    scope: str = ""
    actor: AsyncOperation | None = None


class Completion(Protocol):
    """How an operation tells that it has ended, other than by its group: an mbarrier's bytes or arrival."""

    @property
    def key(self) -> Hashable:
        """What a thread that waits for it acquires, as things stand."""

    def complete(self, operation: AsyncOperation) -> None:
        """Tell it."""


@dataclass(eq=False)
class AsyncOperation:
    """Work that threads hand to an engine, which does it some time later: between its issue and its landing (`engines.Engines`).

    `threads` (global numbers) issued it at `node`; `touches` is what it reads and writes; it lands behind all of `after`, and tells
    `completions` then. `own`: each of the threads issued a part of its own (its row of each touch), and who waits for the operation
    sees only that; else all of it. Subclasses say what it does.
    """

    node: Node
    threads: Array
    touches: list[Touch] = field(default_factory=list)
    after: tuple[AsyncOperation, ...] = ()
    completions: tuple[Completion, ...] = ()
    own: bool = False
    landed: bool = False
    was_read: bool = False      # `read` was called
    reading: AsyncOperation | None = None       # the part that reads, told as an actor of its own where it can end before the rest

    def read(self) -> None:
        """Take what it reads, so that the source may be written again; `land` comes later. May be called again, then does nothing."""

    @property
    def reads_apart(self) -> bool:
        """True where the reading can end before the rest: a subclass then has its own `read`."""
        return type(self).read is not AsyncOperation.read

    def land(self) -> None:
        """Do it (what `read` did not do yet). Called once."""
        raise NotImplementedError


class Observer:
    """Told of everything, in an order in which it could have happened. Every method does nothing here."""

    def access(self, touch: Touch) -> None:
        """Memory is touched. The accesses of an asynchronous operation are told right behind its `issue`."""

    def join(self, threads: Array, node: Node) -> None:
        """A barrier: all of these threads see what any of them did before. Shape (n,), or (groups, n): each row among itself."""

    def release(self, threads: Array, key: Hashable, node: Node, scope: str) -> None:
        """An arrival: adds what these threads did, and saw, to `key`."""

    def acquire(self, threads: Array, key: Hashable, node: Node, scope: str) -> None:
        """A wait that has ended: these threads see what `key` holds."""

    def fence(self, threads: Array, node: Node, scope: str, proxy: str) -> None:
        """A fence: of memory with a scope, `proxy` "generic"; or between that proxy and the one that is named."""

    def issue(self, operation: AsyncOperation, threads: Array) -> None:
        """An actor of its own begins, which sees what these threads saw."""

    def land(self, operation: AsyncOperation, key: Hashable | None, threads: Array | None = None) -> None:
        """It has ended; what it did is added to `key`, the barrier or group that tells of it: all of it, or the part of these `threads`."""

    def start(self, blocks: Array) -> None:
        """These blocks (linear numbers) begin to run."""

    def leave(self, threads: Array, memory: Memory, start: int, size: int) -> None:
        """All threads of a block of a cluster have ended: the `size` bytes of shared memory from `start` on are there no longer."""

    def end(self) -> None:
        """All blocks have run."""

    def notes(self) -> list[str]:
        """What is legal and yet worth a line in the report. Asked behind `end`."""
        return []
