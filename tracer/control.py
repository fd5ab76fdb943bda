"""Control flow: `with T.If(...)`, `T.Elif`, `T.Else`, `T.While`, the loops, and the statements that leave them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.dtypes import DType, promote
from tracer.ir import Node, Region
from tracer.recorder import INT32, Recorder, current
from tracer.values import Value, as_condition, as_node, cast, wrap


class If:
    """`with T.If(condition): ...` records its body for the threads where `condition` holds.

    A `with T.Elif(...)` or `with T.Else()` may stand right behind it.
    """

    def __init__(self, condition: Any) -> None:
        self.recorder = current()
        self.recorder.observe()
        self.condition = as_condition(condition, "T.If", self.recorder)
        self.around: list[tuple[Region, Int | None]] = []      # the else regions to enter first, with what holds in each
        made, word = self.recorder.location(), f"T.{type(self).__name__}"
        self.recorder.unfinished[self] = lambda: self.recorder.fail(f"{word} was made and never entered; write `with {word}(condition):`", at=made)

    def __enter__(self) -> None:
        recorder = self.recorder
        recorder.unfinished.pop(self, None)
        if recorder.on_host:
            recorder.fail("T.If before T.device_entry(): host code cannot branch; use a Python `if` on constexprs, or T.assume")
        for region, condition in self.around:
            recorder.open(region, condition)
        self.node = recorder.record(ops.IF, [self.condition], regions=(Region(), Region()))
        recorder.open(self.node.regions[0], self.condition.sym)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        recorder = self.recorder
        if kind is not None:
            recorder.abandon(self.around[0][0] if self.around else self.node.regions[0])
            return
        recorder.close(self.node.regions[0])
        for region, _ in reversed(self.around):
            recorder.close(region)
        if not self.around and self.node.regions[0].leaves:
            recorder.learn(self._negation())      # whoever gets past `If(c): return_()` knows that c is false
        parent = recorder.region
        _chains[recorder] = _Chain(parent, len(parent.nodes), [*self.around, (self.node.regions[1], self._negation())])

    def _negation(self) -> Int | None:
        return None if self.condition.sym is None else si.lnot(self.condition.sym)


class _Chain:
    """An If that has just closed in `parent`, whose nodes numbered `end` then; `path` leads to where its Else goes."""

    def __init__(self, parent: Region, end: int, path: list[tuple[Region, Int | None]]) -> None:
        self.parent, self.end, self.path = parent, end, path


_chains: dict[Recorder, _Chain] = {}      # the last If of each running trace


def forget(recorder: Recorder) -> None:
    """A trace has ended."""
    _chains.pop(recorder, None)


def _chain(recorder: Recorder, what: str) -> tuple[_Chain, list[Node]]:
    """The If that `what` continues, and the nodes recorded since it closed."""
    recorder.observe()
    chain = _chains.get(recorder)
    if chain is None or chain.parent is not recorder.region:
        recorder.fail(f"{what} without a T.If (or T.Elif) right before it at the same level")
    return chain, recorder.region.nodes[chain.end:]


class Elif(If):
    """`with T.Elif(condition): ...` right behind a T.If or T.Elif; the condition is evaluated only where the earlier ones failed."""

    def __init__(self, condition: Any) -> None:
        super().__init__(condition)
        recorder = self.recorder
        chain, since = _chain(recorder, "T.Elif")
        if any(not (node.op.pure or node.op in (ops.LOAD, ops.IF_THEN_ELSE, ops.DECL)) for node in since):
            recorder.fail("T.Elif is not right behind its T.If: other statements stand between them")
        recorder.move(since, chain.path[-1][0])
        self.around = chain.path


class Else:
    """`with T.Else(): ...` right behind a T.If or T.Elif: where none of their conditions held."""

    def __init__(self) -> None:
        self.recorder = current()
        chain, since = _chain(self.recorder, "T.Else")
        if since:
            self.recorder.fail("T.Else is not right behind its T.If: other statements stand between them")
        self.path = chain.path
        del _chains[self.recorder]

    def __enter__(self) -> None:
        for region, condition in self.path:
            self.recorder.open(region, condition)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self.recorder.abandon(self.path[0][0])
            return
        for region, _ in reversed(self.path):
            self.recorder.close(region)


class While:
    """`with T.While(lambda: condition): ...`: the condition, recorded by calling the lambda, is evaluated before every round."""

    def __init__(self, condition: Callable[[], Any]) -> None:
        self.recorder = current()
        self.recorder.observe()
        if not callable(condition):
            self.recorder.fail("T.While needs a function, because its condition is evaluated before every round: write "
                               "`with T.While(lambda: x < 4):`")
        if self.recorder.on_host:
            self.recorder.fail("T.While before T.device_entry(): host code cannot loop; use a Python loop over ints")
        self.condition = condition

    def __enter__(self) -> None:
        recorder = self.recorder
        test, body = Region(), Region()
        recorder.record(ops.WHILE, regions=(test, body))
        recorder.open(test, loop=True)
        test.result = as_condition(self.condition(), "T.While", recorder)
        condition = test.result.sym
        recorder.close(test)
        recorder.open(body, condition, loop=True)
        self.body = body

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.recorder.close(self.body)
        else:
            self.recorder.abandon(self.body)


# ---------------------------------------------------------------------- loops

def serial(start: Any, stop: Any = None, step: Any = 1) -> Iterator[Value]:
    """`for i in T.serial(n)`, `T.serial(start, stop)`, `T.serial(start, stop, step)`: a loop that runs in the kernel."""
    return _loop("serial", start, stop, step)


def unroll(start: Any, stop: Any = None, step: Any = 1) -> Iterator[Value]:
    """Like `serial`; the CUDA compiler is asked to unroll it (`#pragma unroll`)."""
    return _loop("unroll", start, stop, step)


def vectorized(start: Any, stop: Any = None, step: Any = 1) -> Iterator[Value]:
    """Like `serial`, for rounds that do not depend on each other; they may run as one."""
    return _loop("vectorized", start, stop, step)


def grid(*stops: Any) -> Iterator[tuple[Value, ...]]:
    """`for i, j in T.grid(a, b)`: nested serial loops, the last the innermost."""
    if not stops:
        current().fail("T.grid needs at least one extent")
    return _grid(stops)


def _grid(stops: tuple[Any, ...]) -> Iterator[tuple[Value, ...]]:
    if len(stops) == 1:
        for i in serial(stops[0]):
            yield (i,)
        return
    for i in serial(stops[0]):
        for rest in _grid(stops[1:]):
            yield (i, *rest)


def _loop(kind: str, start: Any, stop: Any, step: Any) -> Iterator[Value]:
    recorder = current()
    recorder.observe()
    if stop is None:
        start, stop = 0, start
    bounds = _bounds(start, stop, step, recorder)
    _check_step(bounds[2], recorder)
    if recorder.on_host:
        recorder.fail(f"T.{kind} before T.device_entry(): host code cannot loop; use a Python loop over ints")
    return _rounds(kind, bounds, recorder)


def _bounds(start: Any, stop: Any, step: Any, recorder: Recorder) -> list[Node]:
    """Start, stop and step as nodes of one integer dtype; at least int32."""
    nodes = [as_node(v, None, recorder) for v in (start, stop, step)]
    common: DType = INT32
    for node in nodes:
        if node.dtype is None or not node.dtype.is_integer or node.dtype.lanes != 1:
            recorder.fail(f"a loop bound is a {node.dtype} value; it must be an integer", node)
        common = promote(common, node.dtype)
    return [cast(node, common) for node in nodes]


def _check_step(step: Node, recorder: Recorder) -> None:
    assert step.sym is not None
    if recorder.known.prove(si.gt(step.sym, si.const(0))) is True:
        return
    if si.is_const(step.sym) and step.sym.value < 0:
        return
    recorder.fail("the step of a loop must be a constant other than 0, or known to be positive", step)


def _rounds(kind: str, bounds: list[Node], recorder: Recorder) -> Iterator[Value]:
    start, stop, step = bounds
    assert start.sym is not None and stop.sym is not None and step.sym is not None and start.dtype is not None
    body = Region()
    loop = recorder.record(ops.FOR, bounds, attrs={"kind": kind}, regions=(body,))
    variable = Node(ops.LOOP_VAR, (), start.dtype, {}, (), loop.location)
    downwards = si.is_const(step.sym) and step.sym.value < 0
    recorder.open(body, loop=True)
    low, high = (stop.sym + 1, start.sym + 1) if downwards else (start.sym, stop.sym)
    variable.sym = recorder.atom(variable, low, high, index=True)
    variable.parent = body
    body.arguments = (variable,)
    if si.is_const(start.sym) and si.is_const(step.sym) and abs(step.sym.value) > 1:
        recorder.known.divisible(variable.sym - start.sym.value, abs(step.sym.value))
    try:
        yield wrap(variable, recorder)
    except GeneratorExit:
        if recorder.is_open(body):
            recorder.report_later(recorder.error(
                f"Python left a T.{kind} loop early (`break`, `return`, or next() on it): the loop is recorded once for all its rounds. Write "
                "`with T.If(condition): T.break_()`", at=loop.location))
        raise
    recorder.close(body)


def _leave(op: Any, what: str, in_loop: bool) -> None:
    recorder = current()
    recorder.observe()
    if in_loop and not recorder.in_loop:
        recorder.fail(f"{what} outside a loop")
    if recorder.on_host:
        recorder.fail(f"{what} before T.device_entry()")
    recorder.record(op)


def break_() -> None:
    """Leave the innermost loop."""
    _leave(ops.BREAK, "T.break_()", True)


def continue_() -> None:
    """Go on with the next round of the innermost loop."""
    _leave(ops.CONTINUE, "T.continue_()", True)


def return_() -> None:
    """End this thread."""
    _leave(ops.RETURN, "T.return_()", False)


