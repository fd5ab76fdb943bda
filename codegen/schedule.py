"""Which values of a kernel become variables, which fold into the expression that uses them, and which are not written at all.

The method is one pass forward and one back. Forward: whatever nothing observable needs is dead (a pure value, a load, a store
to memory that nobody reads, what stands behind a `return`). Back: a value knows by then every place that writes it out. The
author's named values stay variables, for the reader looks for them. An unnamed one folds into its single use where that
gives the same value: a load only within its own region and across nothing that may change its memory, a shuffle or call
only across nothing that it is ordered with, a float computation not into a loop. The rest become variables too, and so does
every so many levels of a deep expression, which neither a reader nor a recursive printer follows for ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from codegen.lowered import DeviceHalf, Lowered
from codegen.packets import is_packet, moved, moves_whole
from codegen.words import writable_integers
from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.ir import Node, Region, Storage
from tracer.operations import Effect

REGISTERS = frozenset({ops.THREAD_INDEX, ops.BLOCK_INDEX, ops.CLUSTER_INDEX, ops.CTA_IN_CLUSTER})
_HARDWARE = REGISTERS | {ops.SCOPE_ID}
LEAVES = _HARDWARE | {ops.CONST, ops.SCALAR, ops.EXTENT, ops.LOOP_VAR, ops.TENSOR_MAP}
_ENDS = frozenset({ops.BREAK, ops.CONTINUE, ops.RETURN})
_LOOPS = frozenset({ops.FOR, ops.WHILE})
# Pure operations on whole vectors; every other pure operation works lane by lane.
_WHOLE = frozenset({ops.LANE, ops.REINTERPRET, ops.ADDRESS_OF, ops.LET})
# CUDA computes these on two halves at once.
_PAIRWISE = frozenset({ops.ADD, ops.SUB, ops.MUL, ops.DIV, ops.NEG, ops.ABS, ops.MIN, ops.MAX})
_PAIRS = frozenset({"float16x2", "bfloat16x2"})
# Levels of operations in one expression.
_DEEPEST = 60
# Operators of whose operands C may leave some unevaluated.
_PARTIAL = frozenset({si.LAND, si.LOR, si.SELECT})


def elementwise(node: Node) -> bool:
    """True for a vector that is computed one lane after the other."""
    if node.dtype is None or node.dtype.lanes == 1 or not node.op.pure or node.op in LEAVES:
        return False
    return node.op not in _WHOLE and not (node.op in _PAIRWISE and node.dtype.name in _PAIRS)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression is written: before node `index` of `region` (behind the last: the region's result).

    `conditional`: C may skip it there. `repeated`: C evaluates it more than once (the bound of a loop).
    """

    region: Region
    index: int
    conditional: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Mention:
    """One node written inside another, `times` times over."""

    node: Node
    times: int = 1
    conditional: bool = False
    repeated: bool = False


@dataclass(eq=False, slots=True)
class Schedule:
    """The decisions. `integers`: the nodes written as exact expressions. `live`: what is written. `folded`: the live values
    written inside their use; other live values are variables.

    `declared_at` maps the allocation of a local scalar to the store that can be its initialiser; `unchanging` are those of them
    that nothing stores to again. `discarded` are calls made for their effect, whose result nobody reads. `decided` maps an `if`
    whose condition is a constant to the branch that runs. `hardware` are the hardware indices and scope ids that need a
    variable, in order.
    """

    integers: dict[Node, Int] = field(default_factory=dict)
    live: set[Node] = field(default_factory=set)
    folded: set[Node] = field(default_factory=set)
    discarded: set[Node] = field(default_factory=set)
    decided: dict[Node, Region] = field(default_factory=dict)
    declared_at: dict[Node, Node] = field(default_factory=dict)
    unchanging: set[Node] = field(default_factory=set)
    hardware: list[Node] = field(default_factory=list)

    def is_statement(self, node: Node) -> bool:
        """True where `node` is written as a statement or as a variable's definition."""
        return node in self.live and node not in self.folded


def schedule(half: DeviceHalf) -> Schedule:
    """Decide for every node of `half`. Deterministic: it follows program order only."""
    return _Scheduler(half).run()


def occurrences(e: Int) -> Counter[Int]:
    """How often each symbol is written when `e` is."""
    if e.op is si.SYMBOL:
        return Counter((e,))
    found: Counter[Int] = Counter()
    for a in e.args:
        found.update(occurrences(a))
    return found


class Names:
    """Which node an atom stands for when it is written: two names of one hardware index are one variable, the author's."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        self._variable: dict[Int, Node] = {}
        for node in sorted(lowered.function.scope_ids, key=lambda n: n.name is None):
            self._variable.setdefault(lowered.integers[node], node)

    def node(self, node: Node) -> Node:
        """The node whose variable `node` is read from."""
        if node.op not in _HARDWARE:
            return node
        value = self._lowered.integers.get(node, node.sym)
        assert value is not None
        return self._variable.get(value, node)

    def atom(self, symbol: Int) -> Node:
        """The node that `symbol` stands for."""
        return self.node(self._lowered.atoms[symbol])


class _Scheduler:
    def __init__(self, half: DeviceHalf) -> None:
        self.half = half
        self.lowered = half.lowered
        self.names = Names(half.lowered)
        self.result = Schedule(writable_integers(half.lowered))
        self.order: list[Node] = []                       # reachable nodes, in program order
        self.inner_first: list[Node] = []                 # the same, a control node behind what its regions have
        self.too_deep: set[Node] = set()
        self.index: dict[Node, int] = {}                  # position in its region
        self.home: dict[Node, Region] = {}
        self.owner: dict[Region, Node] = {}               # the control node that a region belongs to
        self.touching: dict[Storage, list[Node]] = defaultdict(list)
        self.allocations: dict[Storage, Node] = {}
        self.places: dict[Node, list[Place]] = defaultdict(list)
        self.around: dict[Node, set[Node]] = defaultdict(set)      # the folded values that one stands in, directly or not

    def run(self) -> Schedule:
        self._collect(self.half.body)
        self._find_live()
        self._measure()
        self._place()
        self._merge_initialisers()
        function = self.lowered.function
        hardware = [n for n in self.result.live if n.op in _HARDWARE]
        rank = {n: i for i, n in enumerate(function.scope_ids)}
        self.result.hardware = sorted(hardware, key=lambda n: (rank.get(n, len(rank)), n.op.name, n.attrs["axis"]))
        return self.result

    # ------------------------------------------------------------------ what there is

    def _collect(self, region: Region) -> bool:
        """Note the nodes of `region` that may run; True where it is left before its end, so that what follows never runs."""
        for position, node in enumerate(region.nodes):
            self.order.append(node)
            self.index[node], self.home[node] = position, region
            if node.op is ops.ALLOC:
                self.allocations[node.attrs["buffer"].storage] = node
            elif node.op.accesses:
                self.touching[_storage(node)].append(node)
            branches = self._branches(node)
            left = []
            for inner in branches:
                self.owner[inner] = node
                left.append(self._collect(inner))
            self.inner_first.append(node)
            if node.op in _ENDS or node.op is ops.IF and all(left):
                return True
        return False

    def _branches(self, node: Node) -> tuple[Region, ...]:
        """The regions of `node` that may run: of an `if` that is decided, one."""
        if node.op is not ops.IF:
            return node.regions
        condition = node.operands[0]
        value = si.const(condition.attrs["value"]) if condition.op is ops.CONST else self.result.integers.get(condition)
        if value is None or not si.is_const(value):
            return node.regions
        self.result.decided[node] = node.regions[0 if value.value else 1]
        return (self.result.decided[node],)

    def _mentions(self, node: Node) -> Iterator[Mention]:
        """The nodes that stand in the text of `node` itself, not counting its regions."""
        if node.op in _HARDWARE or node.op is ops.ALLOC:
            return
        if node.op.accesses:
            for index in self._indices(node):
                yield from self._atoms(index)
            if node.op is ops.STORE:
                yield self._stored(node)
            else:
                yield from (Mention(self.names.node(o)) for o in node.op.split(node.operands)[1])
        elif node in self.result.integers:
            yield from self._atoms(self.result.integers[node])
        else:
            for position, operand in enumerate(node.operands):
                yield self._operand(node, position, self.names.node(operand))

    def _indices(self, access: Node) -> Iterator[Int]:
        """The indices in the text of an access: that of each lane where no wide access is possible."""
        place = self.lowered.accesses[access]
        return map(place.lane, range(moved(access).lanes if self._moves_by_lanes(access) else 1))

    def _stored(self, store: Node) -> Mention:
        """The value of a store: lane after lane where no wide access is possible, and nothing may change between two lanes."""
        value = self.names.node(store.operands[-1])
        return Mention(value, moved(store).lanes if self._moves_by_lanes(store) and not elementwise(value) else 1)

    def _moves_by_lanes(self, access: Node) -> bool:
        return access.op is not ops.ADDRESS_OF and is_packet(access) and not moves_whole(access, self.lowered)

    def _atoms(self, e: Int) -> Iterator[Mention]:
        conditional = _has_partial(e)
        for symbol, times in occurrences(e).items():
            yield Mention(self.names.atom(symbol), times, conditional)

    def _operand(self, node: Node, position: int, operand: Node) -> Mention:
        is_bool = node.dtype is not None and node.dtype.kind == "bool"
        conditional = position > 0 and (node.op is ops.SELECT or (is_bool and node.op in (ops.AND, ops.OR)))
        times = node.dtype.lanes if node.dtype is not None and elementwise(node) and not elementwise(operand) else 1
        return Mention(operand, times, conditional, repeated=node.op is ops.FOR and position > 0)

    # ------------------------------------------------------------------ what is needed

    def _find_live(self) -> None:
        for node in self.order:
            if self._is_observable(node):
                self._need(node)

    def _is_observable(self, node: Node) -> bool:
        if node.op is ops.STORE:
            return _storage(node) not in self.allocations
        if node.op in _ENDS or node.op is ops.WHILE:
            return node.op is not ops.RETURN or self.home[node] is not self.half.body     # the kernel ends there anyway
        return bool(node.op.effect & (Effect.SYNC | Effect.OPAQUE | Effect.WRITE))

    def _need(self, root: Node) -> None:
        pending = [root]
        while pending:
            node = pending.pop()
            if node in self.result.live:
                continue
            self.result.live.add(node)
            pending.extend(m.node for m in self._mentions(node))
            pending.extend(self.names.node(r.result) for r in node.regions if r.result is not None)
            owner = self.owner.get(self.home[node]) if node in self.home else None
            if owner is not None:
                pending.append(owner)
            if node.op.accesses:
                pending.extend(self._needed_memory(node))

    def _needed_memory(self, access: Node) -> Iterator[Node]:
        """The allocation under `access`, and for a reader of it everything that writes there."""
        storage = _storage(access)
        if storage in self.allocations:
            yield self.allocations[storage]
            if access.op is not ops.STORE:
                yield from (n for n in self.touching[storage] if n.op is ops.STORE)

    # ------------------------------------------------------------------ where each value is written

    def _measure(self) -> None:
        """Find the values that would end up `_DEEPEST` levels above their leaves if all that may fold did."""
        height: dict[Node, int] = {}
        for node in self.inner_first:
            if node in self.result.live and node.dtype is not None and not self._is_variable(node):
                inside = [m.node for m in self._mentions(node)] + [self.names.node(r.result) for r in node.regions if r.result is not None]
                height[node] = 1 + max((height.get(n, 0) for n in inside), default=0)
                if height[node] >= _DEEPEST:
                    self.too_deep.add(node)
                    height[node] = 0

    def _place(self) -> None:
        for node in self.order:
            if node in self.result.live:
                for region in node.regions:
                    if region.result is not None:
                        self.places[self.names.node(region.result)].append(Place(region, len(region.nodes)))
        for node in reversed(self.order):
            if node not in self.result.live:
                continue
            places = [Place(self.home[node], self.index[node])]
            if not self.places[node]:
                self.result.discarded.add(node)
            if node.dtype is not None and self._folds(node, self.places[node]):
                self.result.folded.add(node)
                places = self.places[node]
            for mention in self._mentions(node):
                if node in self.result.folded:
                    self.around[mention.node] |= self.around[node] | {node}
                self.places[mention.node].extend(
                    Place(p.region, p.index, p.conditional or mention.conditional, p.repeated or mention.repeated)
                    for p in places for _ in range(mention.times))
        self.result.folded.update(n for n in self.result.live if n.op in _HARDWARE and self._is_free(n))

    def _folds(self, node: Node, places: list[Place]) -> bool:
        """Whether `node`, written at `places`, needs no variable."""
        assert node.dtype is not None
        if node.dtype.kind == "handle":
            return node.op is ops.ADDRESS_OF
        if self._is_variable(node):
            return self._is_number(node) or self._is_alias(node)
        if self._is_free(node):
            return True
        if node.op is ops.IF_THEN_ELSE and any(self.result.is_statement(n) for r in node.regions for n in r.walk()):
            return False
        if node in self.too_deep:
            return False
        if len(places) == 1 or (places and self._is_scalar_read(node)):
            return all(self._may_move(node, place) for place in places)
        return False

    def _is_variable(self, node: Node) -> bool:
        """The author gave it a name."""
        return node.name is not None or node.op is ops.LET

    def _is_alias(self, node: Node) -> bool:
        """A second name for a variable of the same type: the first is enough."""
        value = self.result.integers.get(node)
        if value is None or value.op is not si.SYMBOL:
            return False
        first = self.names.atom(value)
        return first is not node and first.dtype is node.dtype and (first.op in LEAVES or first.name is not None)

    def _is_number(self, node: Node) -> bool:
        value = self.result.integers.get(node)
        return value is not None and si.is_const(value)

    def _is_free(self, node: Node) -> bool:
        """A number, or another name of a variable: nothing is computed."""
        value = self.result.integers.get(node)
        if value is None or not value.args:
            return value is not None and (si.is_const(value) or node.op not in _HARDWARE)
        return False

    def _is_scalar_read(self, node: Node) -> bool:
        """Reading a mutable scalar costs as little as reading a variable."""
        return node.op is ops.LOAD and bool(node.attrs["buffer"].cell) and node.attrs["buffer"].scope == "local"

    def _may_move(self, node: Node, place: Place) -> bool:
        inside = [node, *(n for r in node.regions for n in r.walk())]
        read = {_storage(n) for n in inside if n.op is ops.LOAD}
        effects = reduce(or_, (n.op.effect for n in inside)) & ~Effect.READ & ~Effect.CONTROL
        if not read and not effects:
            return not (_computes_floats(node) and self._enters_loop(place.region, self.home[node]))
        if place.region is not self.home[node] or place.repeated or (effects and place.conditional):
            return False
        return not any(_interferes(n, read, effects) for n in self._between(node, place))

    def _between(self, node: Node, place: Place) -> Iterator[Node]:
        for other in place.region.nodes[self.index[node] + 1:place.index]:
            if other in self.result.live and other not in self.around[node]:
                yield other
                for region in other.regions:
                    yield from (n for n in region.walk() if n in self.result.live)

    def _enters_loop(self, region: Region, outer: Region) -> bool:
        while region is not outer:
            owner = self.owner.get(region)
            if owner is None:
                return False
            if owner.op in _LOOPS:
                return True
            region = self.home[owner]
        return False

    # ------------------------------------------------------------------ mutable scalars

    def _merge_initialisers(self) -> None:
        """A local scalar is declared by its first store where nothing touches it before and it lies in the same region."""
        for storage, allocation in self.allocations.items():
            buffer = allocation.attrs["buffer"]
            touching = [n for n in self.touching[storage] if n in self.result.live]
            if not touching or not buffer.cell or buffer.scope != "local":
                continue
            first, *rest = touching
            if first.op is not ops.STORE or self.home[first] is not self.home[allocation] or first.attrs["buffer"] is not buffer:
                continue
            self.result.declared_at[allocation] = first
            if all(n.op is ops.LOAD for n in rest):
                self.result.unchanging.add(allocation)


def _storage(access: Node) -> Storage:
    storage: Storage = access.attrs["buffer"].storage
    return storage


def _interferes(other: Node, read: set[Storage], effects: Effect) -> bool:
    """Whether a value that reads `read` and has `effects` may not be computed behind `other` instead of before it."""
    if other.op in (ops.ALLOC, ops.DECL):
        return False
    touches_memory = bool(effects & ~Effect.CONVERGENT)
    if other.op is ops.STORE:
        return touches_memory or _storage(other) in read
    if other.op is ops.LOAD:
        return touches_memory
    barrier = Effect.SYNC | Effect.OPAQUE | Effect.WRITE | Effect.CONVERGENT
    return bool(other.op.effect & (barrier | Effect.CONTROL if effects else barrier))


def _computes_floats(node: Node) -> bool:
    return node.dtype is not None and node.dtype.is_float and node.op not in LEAVES


def _has_partial(e: Int) -> bool:
    return e.op in _PARTIAL or any(map(_has_partial, e.args))

