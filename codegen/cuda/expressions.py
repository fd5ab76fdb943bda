"""How values are written: a variable's name, a constant, index arithmetic, or the row of their operation."""

from __future__ import annotations

from collections.abc import Callable

from codegen.cuda import fragments as fr
from codegen.cuda import types
from codegen.cuda.fragments import PRIMARY, Fragment
from codegen.cuda.helpers import Needs
from codegen.cuda.integers import Context, c_kind, write_integer
from codegen.cuda.literals import literal, literal_kind
from codegen.cuda.templates import Site, form_of
from codegen.cuda.wrapping import fixed, wrapping
from codegen.lowered import DeviceHalf
from codegen.packets import is_half_bytes
from codegen.schedule import Names, Schedule, elementwise
from codegen.words import WORDS, Typing, facts_at, promoted, takes_64_bits
from symbolic import integers as si
from symbolic.integers import Int
from symbolic.simplify import simplify
from tracer import operations as ops
from tracer.dtypes import DType
from tracer.ir import Node, Storage
from tracer.operations import Operation

# CUDA C++ Programming Guide, "Built-in Variables"; crt/sm_90_rt.h for clusters.
_REGISTERS = {ops.THREAD_INDEX: "threadIdx", ops.BLOCK_INDEX: "blockIdx", ops.CLUSTER_INDEX: "__clusterIdx()",
              ops.CTA_IN_CLUSTER: "__clusterRelativeBlockIdx()"}
# Nothing in these makes a difference negative, so that unsigned hardware registers may stand in them as they are.
_UNSIGNED_SAFE = frozenset({si.SUM, si.PRODUCT, si.FLOORDIV, si.FLOORMOD, si.CONST, si.SYMBOL})
_NEGATED = {ops.LT: ">=", ops.LE: ">", ops.GT: "<=", ops.GE: "<", ops.EQ: "!=", ops.NE: "=="}
# What these make of two values that C holds in one type fits that type: they may be computed there, and the result widened.
_CLOSED = frozenset({ops.AND, ops.OR, ops.XOR, ops.SELECT, ops.IF_THEN_ELSE, *_NEGATED})
_COMPARISONS = frozenset({si.LT, si.LE, si.EQ, si.NE})


class Expressions:
    """Writes the values of one kernel. `variables` and `memory` grow as declarations are written."""

    def __init__(self, half: DeviceHalf, plan: Schedule, needs: Needs) -> None:
        self.half = half
        self.lowered = half.lowered
        self.plan = plan
        self.needs = needs
        self.names = Names(half.lowered)
        self.variables: dict[Node, str] = {}
        self.memory: dict[Storage, str] = {}        # arrays and pointers by name
        self.scalars: set[Storage] = set()          # of those, the ones that are plain variables
        self.sources: dict[str, None] = {}          # the author's own device functions, in order of first use
        self._fixed = fixed(half.body)
        self._wrapping = wrapping(half.lowered, plan, self._fixed)
        self._extents = {s for s, n in half.lowered.atoms.items() if n.op in (ops.EXTENT, ops.SCALAR)}

    # ---- values

    def write(self, node: Node, lane: int | None = None, *, modular: bool = False, typed: bool = False) -> Fragment:
        """The value of `node`, or its lane `lane`.

        `modular`: whoever takes it reads its low bits only; `typed`: C must see exactly the node's type.
        """
        node = self.names.node(node)
        assert node.dtype is not None
        if node.dtype.lanes > 1:
            return self._vector(node) if lane is None else self._lane(node, lane, modular=modular, typed=typed)
        if node in self.variables:
            return Fragment(self.variables[node], PRIMARY)
        if node.op is ops.CONST:
            return literal(node.attrs["value"], node.dtype, self.needs, typed=typed)
        if node in self.plan.integers:
            return write_integer(self.plan.integers[node], node.dtype.name, self.context(node), typed=typed)
        return self._typed(node, form_of(node.op)(Site(self, node, None, modular)), typed)

    def write_pair(self, op: Operation, a: Node, b: Node, lane: int | None = None,
                   modular: Callable[[Node], bool] = lambda _: False) -> tuple[Fragment, Fragment]:
        """The operands of `op`. C computes in the greater of the types that it sees: if that is not their dtype, one is cast."""
        typed = not self._computes_right(op, a, b)
        return self.write(a, lane, modular=modular(a), typed=typed), self.write(b, lane, modular=modular(b))

    def _typed(self, node: Node, made: Fragment, typed: bool) -> Fragment:
        assert node.dtype is not None
        return fr.cast(types.c_type(node.dtype.scalar, self.needs), made) if typed and not self.has_c_type(node) else made

    def _vector(self, node: Node) -> Fragment:
        assert node.dtype is not None
        if node in self.variables:
            return Fragment(self.variables[node], PRIMARY)
        if node.op is not ops.CONST and not elementwise(node):
            return form_of(node.op)(Site(self, node))
        lanes = [self.write(node, k, typed=True) for k in range(node.dtype.lanes)]
        return Fragment(types.build(lanes, node.dtype, self.needs), PRIMARY)

    def _lane(self, node: Node, lane: int, *, modular: bool = False, typed: bool = False) -> Fragment:
        assert node.dtype is not None
        if node in self.variables:
            return Fragment(types.lane(self.variables[node], node.dtype, lane, self.needs), PRIMARY)
        if node.op is ops.CONST:
            return literal(node.attrs["value"], node.dtype.scalar, self.needs, typed=typed)
        if elementwise(node):
            return self._typed(node, form_of(node.op)(Site(self, node, lane, modular)), typed)
        return Fragment(types.lane(self._vector(node).within(PRIMARY), node.dtype, lane, self.needs), PRIMARY)

    def negated(self, condition: Node) -> Fragment:
        """`!condition`, with the comparison turned round where that says the same (NaN forbids it for floats)."""
        node = self.names.node(condition)
        exact = self.plan.integers.get(node)
        if node not in self.variables and exact is not None and exact.op in _COMPARISONS:
            return write_integer(si.lnot(exact), "bool", self.context(node))
        operands = node.operands
        if node not in self.variables and node.op in _NEGATED and operands[0].dtype is not None and not operands[0].dtype.is_float:
            a, b = self.write_pair(node.op, operands[0], operands[1])
            return fr.infix(a, _NEGATED[node.op], b)
        return fr.prefix("!", self.write(node))

    # ---- integers

    def index(self, access: Node, lane: int = 0) -> Fragment:
        """The flat element index of a load, store or address, or of one lane of it."""
        return write_integer(self.lowered.accesses[access].lane(lane), None, self.context(access))

    def context(self, node: Node) -> Context:
        """What is known where `node` is computed."""
        typing = Typing(self._atom_dtype, facts_at(node, self.lowered), takes_64_bits(node, self.lowered))
        return Context(lambda symbol: self._atom(self.names.atom(symbol)), typing, self.needs, self._extents)

    def _atom(self, node: Node) -> Fragment:
        return self.write(node, typed=node not in self.plan.integers)

    def _atom_dtype(self, symbol: Int) -> str:
        node = self.names.atom(symbol)
        assert node.dtype is not None
        value = self.plan.integers.get(node)
        if value is None or node in self.variables or node.dtype.kind == "bool":
            return node.dtype.name
        return c_kind(value, node.dtype.name, self.context(node))

    def has_c_type(self, node: Node) -> bool:
        """Whether C computes with the dtype of `node` where it is written bare."""
        assert node.dtype is not None
        return not node.dtype.is_integer or self._kind(node) == promoted(node.dtype.scalar.name)

    def _kind(self, node: Node) -> str:
        """The type that C computes with for an integer or bool `node`, or for a lane of it, written bare."""
        node = self.names.node(node)
        assert node.dtype is not None
        own = promoted(node.dtype.scalar.name)
        if node in self.variables:
            return own
        if node.op is ops.CONST:
            return own if own == "int32" else literal_kind(int(node.attrs["value"]), own)
        value = self.plan.integers.get(node)
        if value is not None:
            return c_kind(value, node.dtype.name, self.context(node))
        if node.op in (ops.LET, ops.LANE) or (node.op is ops.CAST and _same_scalar(node, node.operands[0])):
            return self._kind(node.operands[0])
        if node.op in _CLOSED and node.dtype.is_integer:
            kinds = set(map(self._kind, _results(node) if node.regions else node.operands[-2:]))
            return kinds.pop() if len(kinds) == 1 else own
        return own

    def _computes_right(self, op: Operation, a: Node, b: Node) -> bool:
        assert a.dtype is not None
        if not a.dtype.is_integer:
            return True
        kinds = self._kind(a), self._kind(b)
        return (op in _CLOSED and kinds[0] == kinds[1]) or max(kinds, key=WORDS.index) == promoted(a.dtype.scalar.name)

    def is_nonnegative(self, node: Node) -> bool:
        """Whether the facts prove `node >= 0`."""
        value = self.plan.integers.get(node, node.sym)
        if value is None:
            return False
        low, _ = facts_at(node, self.lowered).bounds(value)
        return low is not None and low >= 0

    def is_fixed(self, node: Node) -> bool:
        """Whether constants alone make up `node`: compilers compute it, and warn where it overflows or changes in a conversion."""
        return node.op is ops.CONST or node in self._fixed

    def wraps(self, node: Node) -> bool:
        """Whether `node` must be computed by wrapping arithmetic."""
        return node in self._wrapping

    # ---- hardware

    def register(self, node: Node) -> Fragment:
        """A scope id or hardware index from CUDA's own registers. They are unsigned: where a difference might be read, as `int`."""
        value = self.plan.integers.get(node, node.sym)
        assert value is not None
        registers = self.lowered.function.atoms       # `lowered.atoms` may give the author's name for one
        plain = _is_unsigned_safe(value)

        def text(symbol: Int) -> Fragment:
            hardware = registers[symbol]
            name = Fragment(f"{_REGISTERS[hardware.op]}.{'xyz'[hardware.attrs['axis']]}", PRIMARY)
            return name if plain else fr.cast("int", name)

        return write_integer(value, None, Context(text, Typing(lambda _: "int32", facts_at(node, self.lowered)), self.needs))

    # ---- memory

    def pointer(self, access: Node, dtype: DType, *, const: bool = False) -> Fragment:
        """The array or pointer under `access`, as a pointer to `dtype`."""
        storage = access.attrs["buffer"].storage
        name = self.memory[storage]
        base = Fragment(f"&{name}", fr.UNARY) if storage in self.scalars else Fragment(name, PRIMARY)
        wanted = types.memory_type(dtype, self.needs)
        if wanted == types.memory_type(storage.dtype, self.needs) and storage not in self.scalars or dtype is storage.dtype:
            return base
        return fr.cast(f"{'const ' if const else ''}{wanted}*", base)

    def byte_index(self, access: Node, further: int = 0) -> Fragment:
        """The byte that holds the two 4-bit elements from the one on that lies `further` behind the first one of `access`."""
        facts = facts_at(access, self.lowered)
        place = simplify(si.floordiv(self.lowered.accesses[access].emitted + further, si.const(2)), facts)
        return write_integer(place, None, self.context(access))

    def element(self, access: Node, dtype: DType, *, const: bool = False) -> Fragment:
        """The element of type `dtype` that `access` names."""
        storage, index = access.attrs["buffer"].storage, self.index(access)
        if storage in self.scalars and dtype is storage.dtype and index.text == "0":
            return Fragment(self.memory[storage], PRIMARY)
        return Fragment(f"{self.pointer(access, dtype, const=const).within(PRIMARY)}[{index.text}]", PRIMARY)

    def packet(self, access: Node, vector: DType, *, const: bool = False) -> Fragment:
        """The vector of consecutive elements that starts where `access` says."""
        return fr.prefix("*", self.packet_pointer(access, vector, const=const))

    def packet_pointer(self, access: Node, vector: DType, *, const: bool = False) -> Fragment:
        """A pointer to that vector."""
        index = self.byte_index(access) if is_half_bytes(access) else self.index(access)
        start = self.pointer(access, access.attrs["buffer"].dtype, const=const)
        if index.text != "0":
            start = Fragment(f"{start.within(fr.ADDITIVE)} + {index.within(fr.ADDITIVE)}", fr.ADDITIVE)
        c_type = types.c_type(vector, self.needs)
        return fr.cast(f"{'const ' if const else ''}{c_type}*", start)


def _results(node: Node) -> list[Node]:
    return [r.result for r in node.regions if r.result is not None]


def _same_scalar(a: Node, b: Node) -> bool:
    return a.dtype is not None and b.dtype is not None and a.dtype.scalar is b.dtype.scalar


def _is_unsigned_safe(e: Int) -> bool:
    nonnegative = e.value >= 0 and all(c > 0 for c in e.coefs)
    return nonnegative and e.op in _UNSIGNED_SAFE and all(map(_is_unsigned_safe, e.args))
