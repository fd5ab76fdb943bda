"""The trace in progress: where nodes go, which Python line made them, what the author calls them, what is known of them.

`Recorder.record` is the one door through which every operation enters the program. It keeps the rules that hold for all of
them (a value belongs to one trace and to the region that made it), gives integers their exact mathematics, and folds what
the ranges decide. The policy of single constructs (If, loops, buffers) stands in their own modules.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from tracer import operations as ops
from tracer.dtypes import DType, dtype
from tracer.errors import DTypeError, TraceError
from tracer.exact import ASSUMED_TO_FIT, exact, is_exact, side_condition
from tracer.ir import Function, Launch, Location, Node, Region
from tracer.operations import Effect, Operation
from tracer.spelling import describe

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_HOUSE = tuple(os.path.join(_ROOT, package) + os.sep for package in ("tracer", "symbolic", "codegen", "runtime"))
_active = threading.local()

BOOL, INT32 = dtype("bool"), dtype("int32")
# Of an expression with more operations than this, written out, the algebra sees only the name: no index is that long, and a value
# that feeds on itself (`a = T.select(a < b, b, a)`, over and over) would grow without end.
MANY_OPERATIONS = 100


def current() -> Recorder:
    """The trace in progress in this thread; `TraceError` outside one."""
    recorder = in_trace()
    if recorder is None:
        raise TraceError("T.* was called outside a trace; call it inside a function that you pass to trace(...)")
    return recorder


def in_trace() -> Recorder | None:
    """The trace in progress in this thread, or None."""
    return getattr(_active, "recorder", None)


class Recorder:
    """One trace: the function being built, the stack of open regions, and what is known inside each."""

    def __init__(self, name: str) -> None:
        self.function = Function(name, [], Region(), Region(), Launch())
        self.on_host = True
        self._regions: list[Region] = [self.function.host]
        self._facts: list[Facts] = [Facts()]
        self._open: set[Region] = {self.function.host}
        self._loops: list[Region] = []
        self._index_atoms: set[Int] = set()     # atoms of index arithmetic
        self._fixed_atoms: set[Int] = set()     # those among them whose range is the same at every launch
        self._late_error: TraceError | None = None
        self.unfinished: dict[Any, Callable[[], None]] = {}     # what must be ended before the trace ends, and its complaint
        self.named_registers: list[tuple[Node, Node]] = []      # loads that only name an instruction's register, and the pointers instead
        # Learning names: the frame that started the trace, the last line seen, and which names held mutable scalars.
        self._entry: FrameType | None = None
        self._seen: tuple[FrameType | None, int, int] = (None, -1, -1)
        self._passed: dict[FrameType, list[Any]] = {}
        self._named_in: dict[Node, FrameType] = {}
        self._cells: dict[tuple[FrameType, str], Any] = {}

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Make this the trace of the running thread while the author's function runs."""
        _active.recorder = self
        self._entry = sys._getframe(2)
        try:
            yield
            self.raise_late_error()
        finally:
            _active.recorder = None
            self._entry = None
            self._seen = (None, -1, -1)
            self._passed.clear()
            self._named_in.clear()
            self._cells.clear()

    # ------------------------------------------------------------------ lines and names

    def _author_frame(self) -> FrameType | None:
        """The innermost frame that is not ours."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame is not self._entry and frame.f_code.co_filename.startswith(_HOUSE):
            frame = frame.f_back
        return None if frame is self._entry else frame

    def location(self) -> Location | None:
        """The author's line that is running now."""
        frame = self._author_frame()
        return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)

    def observe(self, always: bool = False) -> Location | None:
        """The author's line that is running now, after learning the names of what earlier lines (`always`: or this one) bound."""
        self.raise_late_error()
        frame = self._author_frame()
        if frame is None:
            return None
        line, step = frame.f_lineno, frame.f_lasti
        seen_frame, seen_line, seen_step = self._seen
        if always or frame is not seen_frame or line != seen_line or step < seen_step:
            self._learn_names(frame, callers=frame is not seen_frame)
        self._seen = (frame, line, step)
        return Location(frame.f_code.co_filename, line, frame.f_code.co_name)

    def _learn_names(self, frame: FrameType, callers: bool) -> None:
        """Give values, cells and buffers the names of the locals that hold them.

        What came in as an argument of a helper is the caller's to name, so a helper's parameter gives no name until it is rebound.
        """
        caller = frame.f_back
        if callers and caller is not None and caller is not self._entry:
            self._learn_names(caller, callers=True)
        if frame.f_code.co_filename.startswith(_HOUSE) or frame.f_locals is frame.f_globals:
            return
        names = frame.f_locals
        if frame not in self._passed:
            code = frame.f_code
            parameters = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
            is_kernel = caller is self._entry
            self._passed[frame] = [] if is_kernel else [names[p] for p in parameters if isinstance(names.get(p), Nameable)]
        passed = self._passed[frame]
        for name, held in names.items():
            if any(held is argument for argument in passed):
                continue
            if isinstance(held, Nameable):
                if held.recorder is self:
                    self._name(held, name, frame)
                    self._watch_cell(frame, name, held)
            elif type(held) in (list, tuple):
                for position, item in enumerate(held[:64]):
                    if isinstance(item, Nameable) and item.recorder is self:
                        self._name(item, f"{name}_{position}", frame)

    def _name(self, held: Nameable, name: str, frame: FrameType) -> None:
        named = held.learn_name(name)
        if named is not None:
            self._named_in[named] = frame

    def held_by_name(self, node: Node) -> bool:
        """True where a variable of a frame that is still running holds `node`; a helper that has returned holds nothing."""
        namer = self._named_in.get(node)
        frame = self._author_frame() if namer is not None else None
        while frame is not None and frame is not namer:
            frame = frame.f_back
        return frame is not None

    def _watch_cell(self, frame: FrameType, name: str, held: Nameable) -> None:
        """Report a mutable scalar whose Python name was bound to a new value inside a loop: the update would be lost."""
        home = held.home
        if home is not None:      # a cell
            self._cells[frame, name] = held
            return
        cell = self._cells.pop((frame, name), None)
        made = held.made_in
        if cell is not None and made is not None and self._loop_between(cell.home, made):
            self.fail(f"`{name} = ...` inside a loop binds the Python name {name!r} to a new value; the mutable scalar keeps its old "
                      f"one. Write `{name} += ...` or `{name}.assign(...)` to store into it")

    def _loop_between(self, outer: Region, inner: Region) -> bool:
        if outer not in self._open or inner not in self._open:
            return False
        between = self._regions[self._regions.index(outer) + 1: self._regions.index(inner) + 1]
        return any(region in self._loops for region in between)

    # ------------------------------------------------------------------ errors

    def error(self, message: str, *values: Node, at: Location | None = None, kind: type[TraceError] = TraceError) -> TraceError:
        """An error with the author's line in front and, for `values`, what each is and which line made it."""
        where = at or self.location() or self.function.location
        lines = [f"{where}: {message}" if where else message]
        for node in values:
            origin = f", made at {node.location}" if node.location else ""
            lines.append(f"  the value is `{describe(node)}` ({node.dtype}{origin})")
        return kind("\n".join(lines))

    def fail(self, message: str, *values: Node, at: Location | None = None, kind: type[TraceError] = TraceError) -> NoReturn:
        """Raise `error(...)`."""
        raise self.error(message, *values, at=at, kind=kind)

    def dtype(self, spec: Any) -> DType:
        """The dtype that the author's `spec` names; the error of an unknown one has the line."""
        try:
            return dtype(spec)
        except DTypeError as error:
            self.fail(str(error), kind=DTypeError)

    def report_later(self, error: TraceError) -> None:
        """Keep an error that is noticed where Python cannot raise it; the next recorded operation raises it."""
        self._late_error = self._late_error or error

    def raise_late_error(self) -> None:
        """Raise what could not be raised where it happened (a Python `break` out of a traced loop)."""
        if self._late_error is not None:
            error, self._late_error = self._late_error, None
            raise error

    # ------------------------------------------------------------------ regions

    @property
    def region(self) -> Region:
        """The innermost open region: where the next node goes."""
        return self._regions[-1]

    @property
    def known(self) -> Facts:
        """What is known in the innermost open region."""
        return self._facts[-1]

    @property
    def always_known(self) -> Facts:
        """What is known whatever the conditions around: enough to judge code that may be dead."""
        return self._facts[min(1, len(self._facts) - 1)]

    @property
    def in_loop(self) -> bool:
        """True inside a for or while loop."""
        return bool(self._loops)

    @property
    def dead(self) -> bool:
        """True where the conditions around contradict each other, so that nothing written here ever runs."""
        return bool(self.known.contradictory)

    def is_open(self, region: Region | None) -> bool:
        """True where values made in `region` may be used now (None: a leaf, there from the start)."""
        return region is None or region in self._open

    def open(self, region: Region, *conditions: Int | None, loop: bool = False) -> None:
        """Enter `region`; `conditions` hold inside it."""
        facts = self.known.scope()
        for condition in conditions:
            if condition is not None:
                facts.assume(condition)
        self._regions.append(region)
        self._facts.append(facts)
        self._open.add(region)
        if loop:
            self._loops.append(region)

    def close(self, region: Region) -> None:
        """Leave `region`: values made in it can no longer be used."""
        self.observe(always=True)
        while self._regions[-1] is not region:     # an exception left inner regions open
            self._leave()
        self._leave()

    def abandon(self, region: Region) -> None:
        """An exception leaves `region` and all inside it; whoever catches it goes on outside."""
        while region in self._open:
            self._leave()

    def _leave(self) -> None:
        region = self._regions.pop()
        self._facts.pop()
        self._open.discard(region)
        if self._loops and self._loops[-1] is region:
            self._loops.pop()

    def learn(self, condition: Int | None) -> None:
        """`condition` holds for the rest of the innermost region: nodes from here on see it."""
        if condition is not None:
            facts = self.known.scope()
            facts.assume(condition)
            self._facts[-1] = facts

    def enter_device(self) -> None:
        """`T.device_entry()`: from here on nodes belong to the kernel; what the host computed stays visible."""
        self.on_host = False
        self.open(self.function.device)

    # ------------------------------------------------------------------ nodes

    def record(self, op: Operation, operands: Sequence[Node] = (), result: DType | None = None, attrs: dict[str, Any] | None = None,
               regions: tuple[Region, ...] = ()) -> Node:
        """Append one operation to the innermost region and return its node; a constant where the ranges decide the value."""
        location = self.observe()
        for operand in operands:
            if not self.is_open(operand.parent):
                self.fail("a value is used after the If, loop or While in which it was made has closed; keep it in a mutable scalar "
                          "(x = T.local_scalar(...) before, x.assign(...) inside, x after)", operand)
        if self.on_host and op.effect is not Effect.PURE and op is not ops.DECL:
            self.fail(f"`{op.name}` before T.device_entry(): that part runs on the host, where device memory and threads cannot be "
                      "touched; write it below T.device_entry()")
        node = Node(op, tuple(operands), result, attrs or {}, regions, location)
        if result is not None and is_exact(result):
            value = node.sym = self._mathematics(node)
            if si.is_const(value):
                return self.constant(bool(value.value) if result is BOOL else value.value, result)
            if result is BOOL and (decided := self.known.prove(value)) is not None:
                return self.constant(decided, result)
        node.parent = self._regions[-1]
        node.parent.nodes.append(node)
        return node

    def _mathematics(self, node: Node) -> Int:
        """The node's value over atoms; an atom of its own where algebra cannot see through it or the dtype may not hold it."""
        values = [operand.sym for operand in node.operands]
        value = exact(node.op, node.dtype, [operand.dtype for operand in node.operands], values)
        if value is not None and si.operations_count(value) <= MANY_OPERATIONS and self._fits(node, value, values):
            return value
        return self.atom(node)

    def _fits(self, node: Node, value: Int, values: Sequence[Int | None]) -> bool:
        assert node.dtype is not None
        condition = side_condition(node.op, node.dtype, values)
        if condition is not None and self.known.prove(condition) is not True:
            return False
        if node.dtype is BOOL:
            return True
        least, greatest = node.dtype.limits
        low, high = self.known.bounds(value)
        if low is not None and high is not None and least <= low and high <= greatest:
            return True
        if node.dtype.kind != "int" or node.op not in ASSUMED_TO_FIT or si.is_const(value) or not self.is_launch_arithmetic(value):
            return False
        if self.is_fixed(value):
            self.function.overflowing[node] = (low, high)      # it wraps for some threads, whatever the launch
            return False
        self.function.assumed_exact.append(node)
        return True

    def is_launch_arithmetic(self, value: Int) -> bool:
        """True for an integer made of indices, extents and scalars, whose range the launcher checks at every call."""
        return all(symbol in self._index_atoms for symbol in si.free_symbols(value))

    def is_fixed(self, value: Int) -> bool:
        """True where the range of `value` does not depend on extents or scalar parameters."""
        return all(symbol in self._fixed_atoms for symbol in si.free_symbols(value))

    def atom(self, node: Node, low: Int | None = None, high: Int | None = None, index: bool = False) -> Int:
        """A fresh symbol for `node`, bounded by its dtype and, where given, by low <= value < high.

        `index` marks the atoms of index arithmetic (hardware indices, extents, scalars, loop variables).
        """
        assert node.dtype is not None
        symbol = si.Symbol(node.name or node.op.name)
        self.function.atoms[symbol] = node
        least, greatest = node.dtype.limits
        self.known.bound(symbol, least if low is None else low, greatest + 1 if high is None else high)
        ends = [s for end in (low, high) if end is not None for s in si.free_symbols(end)]
        if index and all(s in self._index_atoms for s in ends):      # a loop over data's range is data
            self._index_atoms.add(symbol)
            if low is not None and high is not None and all(s in self._fixed_atoms for s in ends):
                self._fixed_atoms.add(symbol)
        return symbol

    def leaf(self, op: Operation, result: DType, attrs: dict[str, Any] | None = None, name: str | None = None,
             low: Int | None = None, high: Int | None = None) -> Node:
        """A value that is there without being computed; integers among them are atoms of index arithmetic."""
        node = Node(op, (), result, attrs or {}, (), self.location(), name)
        if is_exact(result):
            node.sym = self.atom(node, low, high, index=True)
        return node

    def constant(self, value: bool | int | float, result: DType) -> Node:
        """A constant of type `result`, which must be able to hold `value`."""
        node = Node(ops.CONST, (), result, {"value": value}, (), None)
        if is_exact(result):
            node.sym = si.const(int(value))
        return node

    def extent(self, name: str | None, result: DType = INT32) -> Node:
        """The free symbolic extent called `name`; a new one, to be named by the author's variable, for None."""
        for node in self.function.extents:
            if name is not None and node.name == name:
                return node
        node = self.leaf(ops.EXTENT, result, name=name, low=si.const(0))
        self.function.extents.append(node)
        return node

    def name_extent(self, node: Node) -> Node:
        """`node` has just got its name. Equal names are equal extents: the one that had the name before takes its place."""
        for other in self.function.extents:
            if other is not node and other.name == node.name:
                if other.dtype is not node.dtype:
                    self.fail(f"the extent {node.name!r} is declared as {other.dtype} by a shape and as {node.dtype} here; equal names are equal "
                              "extents: declare it once, before the T.match_buffer that uses it")
                self.function.extents.remove(node)
                return other
        return node

    def move(self, nodes: Sequence[Node], target: Region) -> None:
        """Take `nodes` out of the region where they stand and append them to `target`, in order."""
        for node in nodes:
            assert node.parent is not None
            node.parent.nodes.remove(node)
            node.parent = target
            target.nodes.append(node)

    def copy(self, nodes: Sequence[Node], target: Region, copies: dict[Node, Node] | None = None) -> dict[Node, Node]:
        """Append copies of `nodes` (pure ones and loads, in program order) to `target`; returns original -> copy.

        An original that nothing else uses is dropped when the trace ends, so this moves what only `target` needs.
        """
        copies = {} if copies is None else copies
        for node in nodes:
            inner = tuple(Region() for _ in node.regions)
            for region, made in zip(node.regions, inner):
                self.copy(region.nodes, made, copies)
                made.result = None if region.result is None else copies.get(region.result, region.result)
            operands = tuple(copies.get(o, o) for o in node.operands)
            copy = Node(node.op, operands, node.dtype, node.attrs, inner, node.location, parent=target)
            if copy.dtype is not None and is_exact(copy.dtype):
                copy.sym = self._mathematics(copy)
            copies[node] = copy
            target.nodes.append(copy)
        return copies


class Nameable:
    """What the author holds in variables: a value, a mutable scalar or a buffer of one trace."""

    __slots__ = ()
    recorder: Recorder

    def learn_name(self, name: str) -> Node | None:
        """The author calls it `name`. Returns the node that had no name before, if there is one."""
        raise NotImplementedError

    @property
    def home(self) -> Region | None:
        """A mutable scalar's region; None for anything else."""
        return None

    @property
    def made_in(self) -> Region | None:
        """A computed value's region; None for anything else."""
        return None
