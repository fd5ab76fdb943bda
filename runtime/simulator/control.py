"""Control flow: which threads run what, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from runtime.simulator.agent import Agent, Loop, Wait
from runtime.simulator.frames import Frame, Value
from runtime.simulator.polling import polling_of
from runtime.simulator.program import Body, Compiler, Flow, Read, Run, Write, statement
from runtime.simulator.turns import Watch
from tracer import operations as op
from tracer.errors import ArithmeticFault
from tracer.ir import Node
from tracer.operations import Effect


@statement(op.IF)
def _if(c: Compiler, node: Node) -> tuple[Run, bool]:
    then, otherwise = (c.region(region) for region in node.regions)
    condition, counter = c.narrow(node.operands[0]), c.count(node)
    # Lanes of a warp that wait in one branch may wait for those in the other.
    both_wait = bool(otherwise.steps) and any(inner.op.effect & Effect.WAIT or inner.op is op.WHILE for inner in node.regions[0].walk())

    def run(agent: Agent, frame: Frame) -> Flow:
        agent.counts[counter] += frame.count
        held, failed = frame.split(condition(agent, frame))
        if both_wait and held.count and failed.count and agent.resident is not None:
            left, right = yield from _in_turns(agent, node, frame, (held, failed), (then, otherwise))
        else:
            left = yield from _part(agent, node, frame, held, then)
            right = yield from _part(agent, node, frame, failed, otherwise)
        if left is held and right is failed:
            return frame
        return agent.present(frame)

    return run, True


def _part(agent: Agent, node: Node, frame: Frame, part: Frame, body: Body) -> Flow:
    """Run `body` for a part of the frame that `node` split; the result is `part` itself where nobody left."""
    if not part.count or not body.steps:
        return part
    if part is frame:
        return (yield from body.run(agent, part))
    agent.splits.append(node)
    result = yield from body.run(agent, part)
    agent.splits.pop()
    return result


def _in_turns(agent: Agent, node: Node, frame: Frame, parts: tuple[Frame, Frame],
              bodies: tuple[Body, Body]) -> Generator[Wait, None, tuple[Frame, Frame]]:
    """Run both branches of an If, each until it waits, in turns: as lanes of a warp do that may wait for each other."""
    loops, splits = agent.loops, agent.splits
    stacks = [(list(loops), list(splits)) for _ in parts]
    flows = [_part(agent, node, frame, part, body) for part, body in zip(parts, bodies)]
    waits: list[Wait | None] = [None, None]
    results: list[Frame | None] = [None, None]
    while True:
        for k, flow in enumerate(flows):
            wait = waits[k]
            if results[k] is None and (wait is None or wait.ready()):
                agent.loops, agent.splits = stacks[k]
                try:
                    waits[k] = next(flow)
                except StopIteration as end:
                    waits[k], results[k] = None, end.value
        left = tuple(wait for wait in waits if wait is not None)
        if not left:
            break
        yield _either(agent, frame, node, left)
    agent.loops, agent.splits = loops, splits
    assert results[0] is not None and results[1] is not None
    return results[0], results[1]


def _either(agent: Agent, frame: Frame, node: Node, waits: tuple[Wait, ...]) -> Wait:
    return Wait(agent, frame, node, lambda: any(wait.ready() for wait in waits), lambda: "both branches wait", waits,
                any(wait.timed for wait in waits))


@statement(op.IF_THEN_ELSE)
def _if_then_else(c: Compiler, node: Node) -> tuple[Run, bool]:
    results = [_result(c, node, k) for k in (0, 1)]
    bodies = [c.region(region) for region in node.regions]
    condition, counter, write = c.narrow(node.operands[0]), c.count(node), c.define(node) if node.dtype else None
    assert node.dtype is not None and write is not None
    storage, lanes = node.dtype.storage, (node.dtype.lanes,) if node.dtype.lanes > 1 else ()

    def run(agent: Agent, frame: Frame) -> Flow:
        agent.counts[counter] += frame.count
        out: Value = None
        for part, body, result in zip(frame.split(condition(agent, frame)), bodies, results):
            if not part.count:
                continue
            yield from _part(agent, node, frame, part, body)
            value = result(agent, part)
            if part is frame:
                out = value
            else:
                if out is None:
                    out = np.empty(frame.shape + lanes, storage)
                frame.put(out, part, value)
        write(agent, frame, out)
        return frame

    return run, True


def _result(c: Compiler, node: Node, k: int) -> Read:
    result = node.regions[k].result
    assert result is not None
    return c.narrow(result)


@statement(op.FOR)
def _for(c: Compiler, node: Node) -> tuple[Run, bool]:
    body = c.region(node.regions[0])
    start, stop, step = (c.wide(o) for o in node.operands)
    counter, write = c.count(node), _loop_variable(c, node)

    def run(agent: Agent, frame: Frame) -> Flow:
        k, end, by = start(agent, frame), stop(agent, frame), step(agent, frame)
        if np.any(by == 0):
            agent.fail(ArithmeticFault, "for: the step is 0", frame, by == 0, node)
        loop = Loop()
        agent.loops.append(loop)
        here = frame
        doubts = agent.engines.doubts
        departed = stale = False        # somebody left an iteration; and `here` does not know it yet
        while True:
            running = _in_range(k, end, by)
            if doubts is not None:
                doubts.turn()
            if isinstance(running, np.ndarray):
                here = frame.keep(running & ~agent.away[frame.lanes] if departed else running)
            elif stale:
                here, stale = agent.present(frame), False
            if not here.count or running is False:
                break
            agent.counts[counter] += here.count
            write(agent, frame, k)
            after = yield from _part(agent, node, frame, here, body)
            if after is not here:
                agent.rejoin(loop.continued)
                departed = stale = True
            k = k + by
        return _leave_loop(agent, frame, loop, departed)

    return run, True


def _loop_variable(c: Compiler, node: Node) -> Write:
    variable = node.regions[0].arguments[0]
    return c.define(variable, exact=True)


def _in_range(k: Value, end: Value, by: Value) -> Value:
    """Python's `range`: up to `end` for a positive step, down to it for a negative one."""
    if isinstance(by, int):
        return k < end if by > 0 else k > end
    return np.where(by > 0, k < end, k > end)


def _leave_loop(agent: Agent, frame: Frame, loop: Loop, departed: bool) -> Frame:
    """Behind the loop: everybody who did not return."""
    agent.loops.pop()
    agent.rejoin(loop.broken)
    return agent.present(frame) if departed else frame


@statement(op.WHILE)
def _while(c: Compiler, node: Node) -> tuple[Run, bool]:
    polling = polling_of(node, c.half.body)
    c.polls += polling.polls
    body = c.region(node.regions[1])
    holds = _result(c, node, 0)
    condition = c.region(node.regions[0])
    c.polls -= polling.polls
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> Flow:
        loop = Loop()
        agent.loops.append(loop)
        here, departed = frame, False
        watch = Watch(agent, node, polling)
        doubts = agent.engines.doubts
        while here.count:
            if doubts is not None:
                doubts.turn()
            yield from _part(agent, node, frame, here, condition)
            here = here.keep(holds(agent, here))
            agent.counts[counter] += here.count
            after = yield from _part(agent, node, frame, here, body)
            if after is not here:
                agent.rejoin(loop.continued)
                here = agent.present(here)
                departed = True
            if here.count:
                wait = watch.turn(here)
                if wait is not None:
                    yield wait
        return _leave_loop(agent, frame, loop, departed)

    return run, True


@statement(op.BREAK)
def _break(c: Compiler, node: Node) -> tuple[Run, bool]:
    return _leaving(c, node, lambda agent, frame: agent.leave(frame, agent.loops[-1].broken))


@statement(op.CONTINUE)
def _continue(c: Compiler, node: Node) -> tuple[Run, bool]:
    return _leaving(c, node, lambda agent, frame: agent.leave(frame, agent.loops[-1].continued))


@statement(op.RETURN)
def _return(c: Compiler, node: Node) -> tuple[Run, bool]:
    return _leaving(c, node, lambda agent, frame: agent.end(frame))


def _leaving(c: Compiler, node: Node, leave: Callable[[Agent, Frame], Frame]) -> tuple[Run, bool]:
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> Flow:
        agent.counts[counter] += frame.count
        return leave(agent, frame)
        yield       # makes this a generator, as all control flow is

    return run, True
