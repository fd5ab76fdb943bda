"""wgmma: matrix products of a warpgroup, which go on beside its warps (`warpgroups`). PTX ISA 9.7.15."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.simulator.agent import Agent, Wait
from runtime.simulator.frames import Frame
from runtime.simulator.matrix import values_of, whole_warps
from runtime.simulator.memory import LocalMemory
from runtime.simulator.program import Compiler, Flow, Read, Run, statement
from runtime.simulator.register_operands import Registers, loaded
from runtime.simulator.tracking import tracker_of
from runtime.simulator.warpgroups import Ended, Part, Product, warpgroup_of
from tracer import instructions as ins
from tracer.errors import AsyncError, DescriptorError
from tracer.instructions import arguments
from tracer.ir import Node


@statement(ins.WGMMA)
def _wgmma(c: Compiler, node: Node) -> tuple[Run, bool]:
    given = arguments(node)
    d, counter = Registers(c, node, given["d"]), c.count(node)
    described = len(given["a"]) == 1
    a = None if described else values_of(c, given["a"])
    held = Registers(c, node, given["a"]) if not described and loaded(given["a"]) else None
    a_bits, b_bits, scale_d = (c.narrow(o) for o in (given["a"][0], *given["b"], *given["scale_d"]))

    def run(agent: Agent, frame: Frame) -> Flow:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        group = warpgroup_of(agent, node)
        _check_fenced(agent, frame, node, d, "touched")
        if held is not None:
            _check_fenced(agent, frame, node, held, "written")
        part = Part(agent, frame, d, held, _uniform(agent, frame, node, "a", a_bits) if a is None else a(agent, frame),
                    _uniform(agent, frame, node, "b", b_bits), bool(_uniform(agent, frame, node, "scale_d", scale_d)))
        _hold(agent, part, node)
        product = group.issue(agent, node, part)
        if not product.complete:        # what the warp does next comes behind the issue
            yield Wait(agent, frame, node, lambda: product.complete, lambda: f"{node.op.name} waits for {group.missing(product)}")
        return frame

    return run, True


def _uniform(agent: Agent, frame: Frame, node: Node, name: str, read: Read) -> int:
    """A value that all threads of the warp must agree on."""
    values = frame.spread(read(agent, frame))
    different = values != values.flat[0]
    if different.any():
        agent.fail(DescriptorError, f"{node.op.name}: the threads of a warp pass different values for {name}: {int(values.flat[0]):#x} and "
                   f"{int(values[different][0]):#x}", frame, different, node)
    return int(values.flat[0])


def _check_fenced(agent: Agent, frame: Frame, node: Node, registers: Registers, how: str) -> None:
    """Raise AsyncError where something touched (or wrote) the registers since the last fence."""
    for run, memory, positions in registers.places(agent, frame):
        touched = getattr(tracker_of(memory), how).view(f"u{registers.cell.itemsize}")[positions] != 0
        if touched.any():
            agent.fail(AsyncError, f"{node.op.name}: registers of {run.buffer.name} were used by other instructions, and no wgmma.fence stands "
                       "between: write T.ptx.wgmma.fence.sync.aligned() in front of the first wgmma and behind each access to its registers", frame,
                       touched.any(axis=-1).reshape(frame.shape), node)


def _release(agent: Agent, pending: Sequence[Product]) -> None:
    """Only what is still pending keeps registers."""
    for memory in agent.memory.values():
        if memory.tracker is not None:
            memory.tracker.filled[:] = 0
            memory.tracker.held[:] = 0
    for product in pending:
        for part in product.parts.values():
            if part.agent is agent:
                _hold(agent, part, product.node)


def _hold(agent: Agent, part: Part, node: Node) -> None:
    """The registers belong to the instruction from now on."""
    for registers, name in ((part.d, "filled"), (part.held, "held")):
        if registers is not None:
            for _, memory, positions in registers.places(agent, part.frame):
                tracker = tracker_of(memory)
                tracker.take(getattr(tracker, name), positions, registers.cell.itemsize, node)


@statement(ins.WGMMA_FENCE)
def _fence(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        warpgroup_of(agent, node)
        for memory in agent.memory.values():
            if isinstance(memory, LocalMemory):
                tracker = tracker_of(memory)
                tracker.touched[:] = tracker.written[:] = 0

    return run, False


@statement(ins.WGMMA_COMMIT)
def _commit(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        queue = warpgroup_of(agent, node).queues[agent]
        queue.groups.append(queue.open)
        queue.open = []

    return run, False


@statement(ins.WGMMA_WAIT)
def _wait(c: Compiler, node: Node) -> tuple[Run, bool]:
    counter, n = c.count(node), node.attrs["n"]

    def run(agent: Agent, frame: Frame) -> None:
        whole_warps(agent, frame, node)
        agent.counts[counter] += frame.count
        group = warpgroup_of(agent, node)
        queue = group.queues[agent]
        cut = max(0, len(queue.groups) - n)
        due = [product for committed in queue.groups[:cut] for product in committed]
        for product in due:
            agent.engines.land(product)
            for observer in agent.observers:
                observer.acquire(agent.numbers(frame), Ended(product).key, node, "cta")
        del queue.groups[:cut]
        _release(agent, queue.pending())

    return run, False


@statement(ins.WGMMA_NOOP_BARRIER)
def _noop_barrier(c: Compiler, node: Node) -> tuple[Run, bool]:
    """It is for the compiler: nothing happens."""
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count

    return run, False
