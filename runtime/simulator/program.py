"""A device half compiled into a list of Python closures, once, so that a statement costs about a microsecond and its NumPy.

A region is compiled from its end to its beginning: when a node comes up, everything that uses it has been seen. So what
nothing needs is left out, and the first request for a value is its last use, after which it is dropped.

A value can exist in two forms, each in a slot of its own: *narrow*, an array of the dtype's NumPy type, and *wide*, an exact
integer (see `integers`). Which of them a node makes is what its users asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from codegen.lowered import DeviceHalf
from runtime.simulator import integers
from runtime.simulator.agent import Agent, Wait
from runtime.simulator.conversions import conversion
from runtime.simulator.finite import check_finite
from runtime.simulator.frames import Frame, Value
from runtime.simulator.polling import needs_warps
from runtime.simulator.semantics import SEMANTICS, Undefined
from symbolic import integers as si
from symbolic.integers import Int
from symbolic.text import text
from tracer import operations as op
from tracer.addressing import cells_in
from tracer.dtypes import DType, dtype
from tracer.errors import ArithmeticFault, IndexOverflowError
from tracer.intrinsics.ptx.alignment import pointers
from tracer.ir import Buffer, Node, Region, Storage
from tracer.operations import Effect, Operation

Flow: TypeAlias = Generator[Wait, None, Frame]
Read: TypeAlias = Callable[[Agent, Frame], Value]
Write: TypeAlias = Callable[[Agent, Frame, Value], None]
Run: TypeAlias = Callable[[Agent, Frame], Any]       # returns None, or, for control flow, a Flow

NARROW, WIDE = "narrow", "wide"
LEAVES = frozenset({op.CONST, op.SCALAR, op.EXTENT, op.THREAD_INDEX, op.BLOCK_INDEX, op.CLUSTER_INDEX, op.CTA_IN_CLUSTER,
                    op.SCOPE_ID, op.LOOP_VAR, op.TENSOR_MAP})

_ACTS = Effect.WRITE | Effect.SYNC | Effect.CONVERGENT | Effect.CONTROL | Effect.OPAQUE


class Step(NamedTuple):
    """One statement. `flows`: `run` returns a generator, which ends with the frame that goes on. `drops`: slots not used again."""

    run: Run
    flows: bool
    drops: list[int]


class Body(NamedTuple):
    """A compiled region."""

    steps: list[Step]

    def run(self, agent: Agent, frame: Frame) -> Flow:
        """Run the statements for the frame's threads; the result is the frame of those that reached the end."""
        for run, flows, drops in self.steps:
            if flows:
                frame = yield from run(agent, frame)
                if not frame.count:
                    return frame
            else:
                run(agent, frame)
            if drops:
                agent.drop(frame, drops)
        return frame


class Counter(NamedTuple):
    """What one entry of `Agent.counts` counts."""

    node: Node
    kind: str | None        # "load", "store" or "atomic" for an access


class Program(NamedTuple):
    """`leaves`: how each hardware index, scalar and extent that the body needs is stored at the start; then `prologue` runs."""

    leaves: list[tuple[Node, Write]]
    prologue: Body
    body: Body
    counters: list[Counter]
    bytes_per_thread: int       # of local memory
    shared: dict[Storage, int]  # of a block: each allocation's alignment in bytes
    warps: bool                 # it takes an agent a warp


Statement: TypeAlias = "Callable[[Compiler, Node], tuple[Run, bool]]"
STATEMENTS: dict[Operation, Statement] = {}


def statement(*rows: Operation) -> Callable[[Statement], Statement]:
    """Register how these rows, which do more than compute a value, are compiled: the result is `Step`'s first two fields."""
    def register(compiler: Statement) -> Statement:
        STATEMENTS.update(dict.fromkeys(rows, compiler))
        return compiler
    return register


class Compiler:
    """Turns one device half into a `Program`."""

    def __init__(self, half: DeviceHalf, checks: bool, finite: bool = False) -> None:
        self.half, self.lowered, self.checks, self.finite = half, half.lowered, checks, finite
        self.slots: dict[tuple[Node, str], int] = {}
        self.counters: list[Counter] = []
        self.leaves: list[Node] = []
        self.drops: dict[Region, list[int]] = {}        # of the step being compiled, for each open region
        self.homes: dict[Node, Region] = {}
        self.exact = frozenset(self.lowered.function.assumed_exact) if checks else frozenset()
        self._find_homes(half.body)
        self.mixed = _mixed(half)
        self.polls = 0      # loops around here that wait for what other threads write

    def _find_homes(self, region: Region) -> None:
        self.homes.update(dict.fromkeys((*region.nodes, *region.arguments), region))
        for node in region.nodes:
            for inner in node.regions:
                self._find_homes(inner)

    def program(self) -> Program:
        body = self.region(self.half.body)
        order: list[Node] = []
        for leaf in self.leaves:
            self._place(leaf, order)
        # Users are compiled before what they use, as everywhere, and run after it.
        steps, leaves = [], []
        for leaf in reversed(order):
            if self.expression(leaf) is not None:
                steps.append(Step(self.compile(leaf)[0], False, []))
            else:
                leaves.append((self._register(leaf), self.define(leaf)))
        steps.reverse()
        allocated = [n.attrs["buffer"].storage for n in self.half.body.walk() if n.op is op.ALLOC]
        local = sum(cells_in(s).value * s.dtype.cell.itemsize for s in allocated if s.scope == "local")
        shared = {s: alignment for s, alignment in self._alignments(allocated).items() if s.scope in ("shared", "shared.dyn")}
        return Program(leaves, Body(steps), body, self.counters, local, shared, needs_warps(self.half.body))

    def _alignments(self, allocated: Iterable[Storage]) -> dict[Storage, int]:
        """Where each allocation may begin: 16 bytes, what its buffers ask for, and what the instructions on it need."""
        found = {storage: max(16, storage.align) for storage in allocated}
        for node in self.half.body.walk():
            buffer = node.attrs.get("buffer")
            if isinstance(buffer, Buffer) and buffer.storage in found:
                found[buffer.storage] = max(found[buffer.storage], buffer.align or 0)
            for _, pointer, needed in pointers(node) if "form" in node.attrs else ():
                storage = pointer.attrs["buffer"].storage
                if storage in found:
                    found[storage] = max(found[storage], needed)
        return found

    def _place(self, leaf: Node, order: list[Node]) -> None:
        """Add `leaf` behind the leaves that it is made of: a scope id is an expression over hardware indices."""
        if leaf in order:
            return
        expression = self.expression(leaf)
        for symbol in si.free_symbols(expression) if expression is not None else ():
            self._place(self.lowered.atoms[symbol], order)
        order.append(leaf)

    def _register(self, leaf: Node) -> Node:
        """The hardware index that a scope id is another name of; any other leaf itself."""
        return self.lowered.function.atoms[leaf.sym] if leaf.op is op.SCOPE_ID and leaf.sym is not None else leaf

    # ---- regions and statements --------------------------------------------------------------------------------------

    def region(self, region: Region) -> Body:
        steps = []
        for node in reversed(region.nodes):
            if self.acts(node) or any((node, form) in self.slots for form in (NARROW, WIDE)):
                drops = self.drops[region] = []
                run, flows = self.compile(node)
                steps.append(Step(run, flows, drops))
        return Body(steps[::-1])

    def acts(self, node: Node) -> bool:
        """True for what must run even if nobody uses its value."""
        if node.op is op.IF_THEN_ELSE:
            return any(self.acts(inner) for region in node.regions for inner in region.nodes)
        return bool(node.op.effect & _ACTS) or node in self.exact

    def compile(self, node: Node) -> tuple[Run, bool]:
        e = self.expression(node)
        if e is not None:
            return self._exact(node, e), False
        if node.op in STATEMENTS:
            return STATEMENTS[node.op](self, node)
        return self._computed(node), False

    def count(self, node: Node, kind: str | None = None) -> int:
        """A new entry of the agent's counts."""
        self.counters.append(Counter(node, kind))
        return len(self.counters) - 1

    def _computed(self, node: Node) -> Run:
        """A node that its operation computes from its operands."""
        function = SEMANTICS[node.op](node)
        reads = [self.narrow(o) for o in node.operands]
        if any(o.dtype is not None and o.dtype.lanes > 1 for o in node.operands):
            reads = [read if o.dtype is None or o.dtype.lanes > 1 else _over_lanes(read) for o, read in zip(node.operands, reads)]
        counter, write = self.count(node), self.define(node)
        finite = self.finite and node.dtype is not None and node.dtype.is_float

        def run(agent: Agent, frame: Frame) -> None:
            agent.counts[counter] += frame.count
            operands = [read(agent, frame) for read in reads]
            try:
                value = function(*operands)
            except Undefined as fault:
                _undefined(agent, frame, node, fault)
            if finite:
                check_finite(agent, frame, node, value, operands)
            write(agent, frame, value)

        return run

    def _exact(self, node: Node, e: Int) -> Run:
        """A node that its lowered expression computes."""
        assert node.dtype is not None
        truth = node.dtype.kind == "bool"
        read = self.integer(e, node.dtype.bits, truth)
        low, high = node.dtype.limits
        counter, write = self.count(node), self.define(node, exact=True)
        checked = self.checks and not truth

        def run(agent: Agent, frame: Frame) -> None:
            agent.counts[counter] += frame.count
            try:
                value = read(agent, frame)
            except Undefined as fault:
                _undefined(agent, frame, node, fault)
            if checked:
                if isinstance(value, np.ndarray):
                    outside = value.size and (value.min() < low or value.max() > high)
                else:
                    outside = not low <= value <= high
                if outside:
                    self.overflow(agent, frame, node, e, value)
            write(agent, frame, value)

        return run

    def overflow(self, agent: Agent, frame: Frame, node: Node, e: Int, value: Value) -> NoReturn:
        """Raise IndexOverflowError: `node`, which `e` computes, has a `value` beyond its dtype."""
        assert node.dtype is not None
        low, high = node.dtype.limits
        bad = np.asarray((value < low) | (value > high), dtype=np.bool_)
        shown = text(e, {s: self.lowered.atoms[s].name or s.name for s in si.free_symbols(e)})
        name = f"{node.name} = {shown}" if node.name else shown
        agent.fail(IndexOverflowError, f"index arithmetic leaves {node.dtype}: {name} is {frame.first(bad, value)}, "
                   f"not in [{low}, {high}]", frame, bad, node)

    # ---- values ------------------------------------------------------------------------------------------------------

    def expression(self, node: Node) -> Int | None:
        """The lowered expression that computes `node`, if it has one over other values."""
        e = self.lowered.integers.get(node)
        if e is None and node in self.exact:
            e = node.sym
        if e is None or node.op is op.CONST or (e.op is si.SYMBOL and self.lowered.atoms[e] is node):
            return None
        return e

    def _slot(self, node: Node, form: str) -> int:
        slot = self.slots.get((node, form))
        if slot is None:
            slot = self.slots[node, form] = len(self.slots)
            home = self.homes.get(node)
            if home is not None:
                self.drops.setdefault(home, []).append(slot)
            elif node not in self.leaves:
                self.leaves.append(node)
        return slot

    def narrow(self, node: Node) -> Read:
        """How to read `node` as a value of its dtype."""
        if node.op is op.CONST:
            assert node.dtype is not None
            constant = _constant(node.attrs["value"], node.dtype)
            return lambda agent, frame: constant
        return _reader(self._slot(node, NARROW), node.dtype is not None and node.dtype.lanes > 1)

    def wide(self, node: Node) -> Read:
        """How to read an integer or bool `node` as an exact number."""
        if node.op is op.CONST:
            constant = int(node.attrs["value"])
            return lambda agent, frame: constant
        return _reader(self._slot(node, WIDE), vector=False)

    def integer(self, e: Int, bits: int = 64, truth: bool = False) -> Read:
        """How to evaluate `e` exactly; with `truth`, whether it is nonzero. `bits` limits what may be shifted by."""
        function = integers.function_of(e, bits, truth)
        if e.op is si.CONST:
            constant = function()
            return lambda agent, frame: constant
        symbols = si.free_symbols(e)
        nodes = [self.lowered.atoms[s] for s in symbols]
        reads = [self.wide(n) for n in nodes]
        if e.op is si.SYMBOL and not truth:
            return reads[0]
        if integers.fits_int64(e, tuple(_limit(n) for n in nodes)):
            return lambda agent, frame: function(*[read(agent, frame) for read in reads])

        def evaluate(agent: Agent, frame: Frame) -> Value:
            values = [read(agent, frame) for read in reads]
            if not integers.fits_int64(e, tuple(map(integers.magnitude, values))):
                values = [v.astype(object) if isinstance(v, np.ndarray) else v for v in values]
            return function(*values)

        return evaluate

    def define(self, node: Node, exact: bool = False) -> Write:
        """How to store the value of `node`, given narrow (or wide, if `exact`), in the forms that were asked for."""
        narrow, wide = self.slots.get((node, NARROW)), self.slots.get((node, WIDE))
        assert node.dtype is not None
        storage = node.dtype.storage

        def write(agent: Agent, frame: Frame, value: Value) -> None:
            if narrow is not None:
                agent.set(frame, narrow, integers.narrow(value, storage) if exact else value)
            if wide is not None:
                agent.set(frame, wide, integers.widen(value) if not exact or storage == np.bool_ else value)

        return write


def counted(c: Compiler, node: Node) -> tuple[Run, bool]:
    """A statement that changes nothing here: it is only counted."""
    counter = c.count(node)

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count

    return run, False


def _constant(value: bool | int | float, t: DType) -> Value:
    """A literal as a value of type `t`, rounded once."""
    given = np.asarray(float(value)) if t.is_float else np.asarray(value, t.storage)
    held = np.asarray(conversion(dtype("float64"), t)(given) if t.is_float else given)[()]
    return held if t.lanes == 1 else np.full(t.lanes, held)


def _reader(slot: int, vector: bool) -> Read:
    def read(agent: Agent, frame: Frame) -> Value:
        value = frame.values.get(slot)
        return agent.fetch(frame, slot, vector) if value is None else value
    return read


def _over_lanes(read: Read) -> Read:
    """A scalar value beside vectors: the same for every lane."""
    def spread(agent: Agent, frame: Frame) -> Value:
        value = read(agent, frame)
        return value[..., None] if getattr(value, "ndim", 0) else value
    return spread


def _limit(node: Node) -> int:
    """The greatest magnitude that the node's value can have."""
    if node.op is op.THREAD_INDEX:
        return 1024     # CUDA's limit of threads a block
    assert node.dtype is not None
    low, high = node.dtype.limits
    return max(-low, high)


def _undefined(agent: Agent, frame: Frame, node: Node, fault: Undefined) -> NoReturn:
    what = fault.what.format(frame.first(fault.where, fault.value))
    agent.fail(ArithmeticFault, f"{node.op.name}: {what}", frame, fault.where, node)


def _mixed(half: DeviceHalf) -> frozenset[Storage]:
    """The storages that accesses see as elements of several widths."""
    widths: dict[Storage, set[int]] = {}
    for access in half.lowered.accesses.values():
        storage = access.buffer.storage
        widths.setdefault(storage, {storage.dtype.cell.itemsize}).add(access.buffer.dtype.cell.itemsize)
    return frozenset(storage for storage, seen in widths.items() if len(seen) > 1)


@lru_cache(maxsize=64)
def program_of(half: DeviceHalf, checks: bool, finite: bool = False) -> Program:
    """The program of a device half; compiled once. With `checks`, its steps also look for what no kernel should do; with `finite`, for
    the first NaN or infinity."""
    return Compiler(half, checks, finite).program()
