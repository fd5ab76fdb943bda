"""Rings of mbarriers: who fills a stage of a ring of buffers and who empties it wait for each other.

`MBarriers` is an array of mbarriers in shared memory with the instructions as methods. `Pipeline` has two of them: `full[s]` says that
stage s was filled, `empty[s]` that it may be filled again. What each role needs to know, which stage is next and which phase of its
barriers, is kept in mutable scalars, by `Producer` and `Consumer`. All of it is plain Python over `T.ptx`.

PTX ISA 9.7.13.15: a phase of an mbarrier ends when as many threads have arrived as it counts, and all bytes that were announced
have come; a wait names the phase by its parity. The phases of a fresh barrier have the parities 0, 1, 0, ...; a wait for the parity before
the first one, 1, passes at once: that is how the producer, whose `phase` is 1 at first, finds all stages empty at the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer.buffers import Buffer, alloc_shared, local_scalar
from tracer.control import If, unroll
from tracer.intrinsics.cuda import cta_sync
from tracer.intrinsics.ptx.calls import cluster_sync, mbarrier_wait
from tracer.intrinsics.ptx.chain import Chain
from tracer.launch import present_thread
from tracer.recorder import current
from tracer.values import Cell, Value

_PTX = Chain()
_ARRIVE = _PTX["mbarrier.arrive.shared::cta.b64"]
_ARRIVE_WITH_BYTES = _PTX["mbarrier.arrive.expect_tx.shared::cta.b64"]
_ARRIVE_REMOTELY = _PTX["mbarrier.arrive.release.cluster.shared::cluster.b64"]
_ARRIVE_REMOTELY_AFTER_READS = _PTX["mbarrier.arrive.shared::cluster.b64"]
MOST_ARRIVALS = (1 << 20) - 1


class MBarriers:
    """`count` mbarriers in shared memory, each of whose phases ends after `arrivals` threads (and all bytes announced) have come.

    `pool` is a `T.SMEMPool` to take the memory from. Before use, `init` must run; everything else names a barrier by its index.
    """

    def __init__(self, count: int, arrivals: int, *, pool: Any = None, name: str = "barriers") -> None:
        recorder = current()
        recorder.observe()
        for what, number, most in (("count", count, None), ("arrivals", arrivals, MOST_ARRIVALS)):
            if not isinstance(number, int) or isinstance(number, bool) or number < 1 or (most is not None and number > most):
                recorder.fail(f"T.MBarriers: {what}={number!r}; it is a Python int{f' from 1 to {most}' if most else ', 1 or more'}")
        self.count, self.arrivals = count, arrivals
        self.buffer: Buffer = alloc_shared((count,), "uint64") if pool is None else pool.alloc((count,), "uint64")
        self.buffer.decl.name = name
        if pool is None:
            self.buffer.decl.storage.name = name

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"<{self.count} mbarriers for {self.arrivals} arrivals>"

    def ptr(self, index: Any) -> Value:
        """The address of a barrier: what copies are given to signal."""
        return self.buffer.ptr_to([index])

    def init(self, *, cluster: bool = False) -> None:
        """Initialise all of them. Every thread of the block comes here (of the cluster, with `cluster`), for the barrier at the end."""
        initialise([self], cluster)

    def _set_up(self) -> None:
        for index in range(self.count):
            _PTX["mbarrier.init.shared::cta.b64"](self.ptr(index), self.arrivals)

    def arrive(self, index: Any, *, tx: Any = None, rank: Any = None, reads_only: bool = False) -> None:
        """Arrive once; with `tx`, announce so many bytes first. With `rank`, arrive at that block's barrier (its rank in the cluster).

        A remote arrival shows the other block what this thread wrote, for which it waits until all of it is visible in the device. Where
        there is nothing to show, because the thread only waited until the tensor core or the copy engine had read, say `reads_only`.
        """
        if rank is None:
            if tx is None:
                _ARRIVE(self.ptr(index))
            else:
                _ARRIVE_WITH_BYTES(self.ptr(index), tx)
            return
        if tx is not None:
            current().fail("arrive: bytes are announced at the block's own barrier; leave out tx= or rank=")
        address = local_scalar("uint32")
        address.buffer.name = address.buffer.storage.name = "remote"
        _PTX["mapa.shared::cluster.u32"](address, self.ptr(index), rank)
        (_ARRIVE_REMOTELY_AFTER_READS if reads_only else _ARRIVE_REMOTELY)(+address)

    def arrive_after_copies(self, index: Any) -> None:
        """Arrive when all `cp.async` that this thread has issued are done; it counts among the `arrivals`."""
        _PTX["cp.async.mbarrier.arrive.noinc.shared::cta.b64"](self.ptr(index))

    def wait(self, index: Any, phase: Any, *, cluster: bool = False) -> None:
        """Wait until the phase of that parity is over. `cluster`: other blocks wrote what is read behind it."""
        mbarrier_wait(self.ptr(index), phase, **({"scope": "cluster"} if cluster else {}))

    def invalidate(self) -> None:
        """End their life, so that the memory can be used for something else. One thread calls this, and nobody uses them any more."""
        for index in range(self.count):
            _PTX["mbarrier.inval.shared::cta.b64"](self.ptr(index))


def initialise(groups: Sequence[MBarriers], cluster: bool) -> None:
    """One thread initialises the barriers and publishes that; then all threads meet."""
    with If(present_thread() == 0):
        for group in groups:
            group._set_up()
        _PTX["fence.mbarrier_init.release.cluster"]()
    (cluster_sync if cluster else cta_sync)()


class Pipeline:
    """A ring of `stages`, filled by `producers` arrivals and emptied by `consumers` arrivals each turn.

    With copies that announce their bytes one elected thread arrives: `producers=1`. In a cluster, `consumers` counts the arrivals from
    all blocks that read what this block's stage holds. `init` comes first; then each role makes its own `producer()` or `consumer()`.
    """

    def __init__(self, stages: int, *, producers: int = 1, consumers: int, pool: Any = None, cluster: bool = False) -> None:
        self.stages, self.cluster = stages, cluster
        self.full = MBarriers(stages, producers, pool=pool, name="full")
        self.empty = MBarriers(stages, consumers, pool=pool, name="empty")

    def __repr__(self) -> str:
        return f"<pipeline of {self.stages} stages, {self.full.arrivals} producers, {self.empty.arrivals} consumers>"

    def init(self) -> None:
        """Initialise the barriers. Every thread of the block (of the cluster, if the pipeline is for one) comes here."""
        initialise([self.full, self.empty], self.cluster)

    def producer(self) -> Producer:
        """The filling side, at stage 0."""
        return Producer(self)

    def consumer(self) -> Consumer:
        """The emptying side, at stage 0."""
        return Consumer(self)


class _Role:
    """Where one side of a pipeline stands: mutable scalars `stage`, 0 at first, and `phase`, the parity that it waits for there."""

    name = ""
    first_phase = 0

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.stage = _named(local_scalar("int32", 0), f"{self.name}_stage")
        self.phase = _named(local_scalar("uint32", self.first_phase), f"{self.name}_phase")

    def advance(self) -> None:
        """Go on to the next stage; behind the last, to the first one's next phase."""
        self.stage += 1
        with If(self.stage == self.pipeline.stages):
            self.stage.assign(0)
            self.phase ^= 1


class Producer(_Role):
    """Fills stages: `acquire`, fill stage `stage`, `commit`, `advance`."""

    name = "produced"
    first_phase = 1

    @property
    def barrier(self) -> Value:
        """The address of the present stage's `full` barrier: what a bulk or tensor copy signals."""
        return self.pipeline.full.ptr(self.stage)

    def acquire(self) -> None:
        """Wait until the stage may be filled."""
        self.pipeline.empty.wait(self.stage, self.phase, cluster=self.pipeline.cluster)

    def commit(self, *, tx: Any = None, copies: bool = False) -> None:
        """Arrive at `full`. `tx`: that many bytes come by bulk or tensor copies, issued before or behind; `copies`: with this thread's `cp.async`."""
        if tx is not None and copies:
            current().fail("commit(tx=..., copies=True): a stage is filled by bulk copies, which announce bytes, or by cp.async; give one of them")
        if copies:
            self.pipeline.full.arrive_after_copies(self.stage)
        else:
            self.pipeline.full.arrive(self.stage, tx=tx)

    def finish(self) -> None:
        """Wait until all stages are empty again: in a cluster no block may end while others still arrive at its barriers."""
        for _ in unroll(self.pipeline.stages):
            self.acquire()
            self.advance()


class Consumer(_Role):
    """Empties stages: `wait`, use stage `stage`, `release`, `advance`."""

    name = "consumed"

    def wait(self) -> None:
        """Wait until the stage is filled."""
        self.pipeline.full.wait(self.stage, self.phase)

    def release(self, *, rank: Any = None, reads_only: bool = False) -> None:
        """Arrive at `empty`, of this block or of the block with that rank in the cluster; `reads_only` as for `MBarriers.arrive`."""
        self.pipeline.empty.arrive(self.stage, rank=rank, reads_only=reads_only)


def _named(cell: Cell, name: str) -> Cell:
    cell.buffer.name = cell.buffer.storage.name = name
    return cell
