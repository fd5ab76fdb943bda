"""From logical coordinates to simplified flat indices: the pass that gives a traced function its addresses.

It walks the program in order with what is known at each point: the ranges of indices and loops, the conditions around, the
guards passed. Every integer is tried in two forms, expanded to the hardware indices and in terms of the author's own named
values, and the shorter one is emitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codegen.lowered import FlatAccess, Lowered
from codegen.packets import is_packet, moved
from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.simplify import simplify
from symbolic.text import text
from tracer import operations as ops
from tracer.addressing import flat_index
from tracer.exact import exact, is_exact
from tracer.intrinsics.ptx.alignment import moved_bytes, pointers
from tracer.ir import Buffer, Function, Location, Node, Region
from tracer.operations import Effect
from tracer.spelling import describe

ZERO = si.const(0)


def lower(function: Function) -> Lowered:
    """Compute every address and integer of `function`."""
    return _Lowering(function).run()


class _Lowering:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.result = Lowered(function, atoms=dict(function.atoms))
        self.forms: dict[Node, Int] = {}        # each integer in terms of the author's named values
        self.wanted = _wanted_integers(function)

    def run(self) -> Lowered:
        facts = Facts()
        leaves = [node for node in self.function.atoms.values() if not node.op.operands and node.parent is None]
        # What is assumed of the extents goes first: what is known of indices is understood in its light.
        for node in leaves:
            if node.op in (ops.EXTENT, ops.SCALAR):
                self._bound(node, facts)
        self._region(self.function.host, facts)
        for condition, _ in self.function.assumptions:
            self._assume(condition, facts)
        for node in leaves:
            if node.op not in (ops.EXTENT, ops.SCALAR):
                self._bound(node, facts)
        for node in self.function.scope_ids:
            self._scope_id(node, facts)
        self._region(self.function.device, facts.scope())
        return self.result

    # -- what is known

    def _bound(self, node: Node, facts: Facts) -> None:
        """An atom lies within its dtype; an extent is not negative; hardware indices lie within the launch."""
        assert node.dtype is not None and node.sym is not None
        least, greatest = node.dtype.limits
        launch = self.function.launch
        axis = node.attrs.get("axis", 0)
        if node.op is ops.EXTENT:
            least = 0
        facts.bound(node.sym, least, greatest + 1)
        sizes = {ops.THREAD_INDEX: launch.block, ops.BLOCK_INDEX: launch.grid, ops.CTA_IN_CLUSTER: launch.cluster or ()}.get(node.op, ())
        if axis < len(sizes):
            facts.bound(node.sym, 0, sizes[axis])
        elif node.op in _REGISTERS:
            facts.bound(node.sym, 0, 1 if sizes else greatest + 1)

    def _scope_id(self, node: Node, facts: Facts) -> None:
        assert node.sym is not None
        if node.sym in self.function.atoms:
            self.result.atoms[node.sym] = node       # print threadIdx.x as the author's `tx`
        else:
            facts.assume(si.lt(node.sym, node.attrs["extent"]))
        if node.attrs["kind"] == "cluster_id":
            facts.bound(node.sym, 0, node.attrs["extent"])
        self.result.integers[node] = node.sym if node.sym in self.function.atoms else simplify(node.sym, facts)
        self._form(node, facts)

    def _assume(self, condition: Node, facts: Facts, holds: bool = True) -> None:
        for known in (condition.sym, self.forms.get(condition)):
            if known is not None:
                facts.assume(known if holds else si.lnot(known))

    # -- walking

    def _region(self, region: Region, facts: Facts) -> None:
        self.result.facts[region] = facts
        for node in region.nodes:
            self._node(node, facts)
            if node.op is ops.IF and node.regions[0].leaves and not node.regions[1].nodes:
                facts = facts.scope()
                self._assume(node.operands[0], facts, holds=False)

    def _node(self, node: Node, facts: Facts) -> None:
        self.result.known[node] = facts
        if is_exact(node.dtype):
            if node.sym in self.function.atoms and self.function.atoms[node.sym] is node:
                self._bound(node, facts)
            self._form(node, facts)
        if node.op.accesses and "buffer" in node.attrs:
            self.result.accesses[node] = self._access(node, facts)
        if node.op in (ops.IF, ops.IF_THEN_ELSE):
            for region, holds in zip(node.regions, (True, False)):
                inner = facts.scope()
                self._assume(node.operands[0], inner, holds)
                self._region(region, inner)
        elif node.op is ops.WHILE:
            test, body = node.regions
            inner = facts.scope()
            self._region(test, inner)
            assert test.result is not None
            inner = inner.scope()
            self._assume(test.result, inner)
            self._region(body, inner)
        elif node.op is ops.FOR:
            self._loop(node, facts.scope())

    def _loop(self, node: Node, facts: Facts) -> None:
        start, stop, step = (o.sym for o in node.operands)
        variable = node.regions[0].arguments[0]
        assert start is not None and stop is not None and step is not None and variable.sym is not None
        down = si.is_const(step) and step.value < 0
        facts.bound(variable.sym, *((stop + 1, start + 1) if down else (start, stop)))
        if si.is_const(start) and si.is_const(step) and abs(step.value) > 1:
            facts.divisible(variable.sym - start.value, abs(step.value))
        self.forms[variable] = variable.sym
        self._region(node.regions[0], facts)

    # -- integers

    def _form(self, node: Node, facts: Facts) -> None:
        """Record `node` in terms of named values, and, where something needs it, the expression that computes it."""
        assert node.sym is not None
        if node.sym in self.function.atoms:
            if self.function.atoms[node.sym] is node:
                self.forms[node] = node.sym
                return
            form = node.sym
        elif node.op is ops.SCOPE_ID:
            form = self.result.integers[node]
        else:
            computed = exact(node.op, node.dtype, [o.dtype for o in node.operands], [self.forms.get(o, o.sym) for o in node.operands])
            form = node.sym if computed is None else computed
        named = node.name is not None and node.sym not in self.function.atoms
        if node.op is not ops.SCOPE_ID and (named or node.op is ops.LET or node in self.wanted):
            # Neither names a value that may leave its word where the author's own operations, which are proved or checked, stay.
            self.result.integers[node] = form = _shorter(simplify(node.sym, facts), simplify(form, facts))
        if (named or node.op is ops.LET) and not si.is_const(form):
            alias = si.Symbol(node.name or "let")
            self.result.atoms[alias] = node
            low, high = facts.bounds(node.sym)
            facts.bound(alias, low, None if high is None else high + 1)
            form = alias
        self.forms[node] = form

    # -- addresses

    def _access(self, node: Node, facts: Facts) -> FlatAccess:
        buffer: Buffer = node.attrs["buffer"]
        if node.attrs.get("data"):
            return FlatAccess(node, buffer, (), ZERO, ZERO, True)      # A.data: the storage's first element
        coords, _ = node.op.split(node.operands)
        exact_coords = [c.sym for c in coords if c.sym is not None]
        forms = [form for form in (self.forms.get(c, c.sym) for c in coords) if form is not None]
        index, emitted = _index(buffer, exact_coords, forms, facts)
        shown = tuple(simplify(f, facts) for f in forms)
        lanes = moved(node).lanes if node.op is not ops.ADDRESS_OF and is_packet(node) else 1
        return FlatAccess(node, buffer, shown, index, emitted, _in_bounds(buffer, exact_coords, lanes, facts),
                          _lanes(buffer, exact_coords, forms, lanes, index, facts))


_REGISTERS = (ops.THREAD_INDEX, ops.BLOCK_INDEX, ops.CLUSTER_INDEX, ops.CTA_IN_CLUSTER)


def _wanted_integers(function: Function) -> set[Node]:
    """The integer nodes that something other than integer algebra uses: these get an expression of their own."""
    wanted: set[Node] = set()
    for region in (function.host, function.device):
        for node in region.walk():
            transparent = is_exact(node.dtype) and node.sym is not None and function.atoms.get(node.sym) is not node
            if not transparent:
                operands = node.op.split(node.operands)[1] if node.op.accesses else node.operands
                wanted.update(o for o in operands if is_exact(o.dtype) and o.op is not ops.CONST)
            wanted.update(r.result for r in node.regions if r.result is not None and is_exact(r.result.dtype))
    return {node for node in wanted if node.sym is not None and function.atoms.get(node.sym) is not node and node.op is not ops.CONST}


def _shorter(expanded: Int, named: Int) -> Int:
    """The form with fewer operations; the author's names where they tie."""
    return named if si.operations_count(named) <= si.operations_count(expanded) else expanded


def _index(buffer: Buffer, coords: list[Int], forms: list[Int], facts: Facts) -> tuple[Int, Int]:
    """The flat index over hardware and loop atoms, and the shorter of it and the one in terms of named values."""
    index = simplify(flat_index(buffer, coords, facts), facts)
    return index, _shorter(index, simplify(flat_index(buffer, forms, facts), facts))


def _lanes(buffer: Buffer, coords: list[Int], forms: list[Int], count: int, first: Int, facts: Facts) -> tuple[Int, ...]:
    """The index of each of `count` lanes, which follow each other along the last axis; empty where they are proved to be one run."""
    if count == 1 or (buffer.layout is None and buffer.window is None):
        return ()
    places = [simplify(flat_index(buffer, [*coords[:-1], coords[-1] + k], facts), facts) for k in range(1, count)]
    if all(facts.prove(si.eq(place, first + k)) is True for k, place in enumerate(places, 1)):
        return ()
    named = (simplify(flat_index(buffer, [*forms[:-1], forms[-1] + k], facts), facts) for k in range(count))
    return tuple(map(_shorter, (first, *places), named))


def _in_bounds(buffer: Buffer, coords: list[Int], lanes: int, facts: Facts) -> bool | None:
    """True where every coordinate is proved inside its extent, False where one is proved outside, None where undecided."""
    verdict: bool | None = True
    for axis, (coord, size) in enumerate(zip(coords, buffer.shape)):
        last = coord + (lanes - 1 if axis == len(coords) - 1 else 0)
        for relation in (si.ge(coord, ZERO), si.lt(last, size)):
            proved = facts.prove(relation)
            if proved is False:
                return False
            if proved is None:
                verdict = None
    return verdict


# ---------------------------------------------------------------------- what users see

class BufferName(str):
    """A buffer's name, with its declaration beside it (`shape`, `dtype`, `scope`)."""

    __slots__ = ("decl",)
    decl: Buffer

    def __new__(cls, decl: Buffer) -> BufferName:
        made = super().__new__(cls, decl.name)
        made.decl = decl
        return made

    @property
    def name(self) -> str:
        return str(self)

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(public_int(entry) for entry in self.decl.shape)

    @property
    def dtype(self) -> str:
        return self.decl.dtype.name

    @property
    def scope(self) -> str:
        return self.decl.scope


@dataclass(frozen=True)
class Access:
    """One load, store or atomic of the kernel.

    `kind` is "load", "store" or "atomic" (which reads and writes). `coords` are the logical coordinates and `index` the element offset into
    the buffer's storage, SymPy expressions; `in_bounds` is True (proved), False (proved wrong) or None (not decided); the text is
    `B[i, j] store  i*8 + j + 64`. An instruction is listed with where its pointer points; what it moves beyond one element, nothing is decided of.
    """

    buffer: BufferName
    kind: str
    coords: tuple[Any, ...]
    index: Any
    in_bounds: bool | None
    location: Location | None
    text: str

    def __str__(self) -> str:
        return self.text


def atom_names(lowered: Lowered) -> dict[Int, str]:
    """How each atom is called in texts: the author's name, the register, or the expression that loads it."""
    return {symbol: node.name or describe(node) for symbol, node in lowered.atoms.items()}


def public_int(value: Int, names: dict[Int, str] | None = None) -> Any:
    """A Python int, or a SymPy expression over symbols with the author's names."""
    return value.value if si.is_const(value) else _sympy(value, names)


def _sympy(value: Int, names: dict[Int, str] | None) -> Any:
    from symbolic.sympy_bridge import to_sympy  # which imports SymPy: half a second, for those who ask
    return to_sympy(value, names)


_ROLES = {"read": "load", "write": "store", "update": "atomic"}      # what an instruction does through a pointer
_KINDS = {Effect.READ: "load", Effect.WRITE: "store", Effect.READ | Effect.WRITE: "atomic"}


def public_accesses(lowered: Lowered) -> list[Access]:
    """Every load, store and atomic in program order, those that instructions make through pointers too; mutable scalars are not listed."""
    names = atom_names(lowered)
    found = []
    for node in lowered.function.device.walk():
        if "form" in node.attrs:
            for argument, pointer, _ in pointers(node):
                if argument.role in _ROLES and (place := lowered.accesses.get(pointer)) is not None and not place.buffer.cell:
                    known = place.in_bounds is False or moved_bytes(node) <= place.buffer.dtype.bytes
                    found.append(_public(node, place, _ROLES[argument.role], place.in_bounds if known else None, names))
        elif node.op is not ops.ADDRESS_OF and (place := lowered.accesses.get(node)) is not None and not place.buffer.cell:
            found.append(_public(node, place, _KINDS[node.op.effect], place.in_bounds, names))
    return found


def _public(node: Node, access: FlatAccess, kind: str, in_bounds: bool | None, names: dict[Int, str]) -> Access:
    coords = ", ".join(text(c, names) for c in access.coords)
    shown = f"{access.buffer.name}[{coords or '()'}] {kind}  {text(access.index, names)}"
    return Access(BufferName(access.buffer), kind, tuple(_sympy(c, names) for c in access.coords), _sympy(access.index, names), in_bounds,
                  node.location, shown)
