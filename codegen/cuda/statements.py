"""How statements are written: declarations, stores, control flow. One function for each statement, in one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter

from codegen.cuda import fragments as fr
from codegen.cuda import types
from codegen.cuda.arithmetic import divides_by_zero
from codegen.cuda.expressions import Expressions
from codegen.cuda.fragments import ADDITIVE, Fragment
from codegen.cuda.helpers import Needs
from codegen.cuda.integers import write_integer
from codegen.cuda.memory import CACHED_STORES
from codegen.cuda.names import Scopes
from codegen.cuda.templates import Site, form_of
from codegen.lowered import DeviceHalf
from codegen.packets import instructed, is_half_bytes, is_packet, moved, moves_whole
from codegen.schedule import Schedule
from codegen.words import facts_at
from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.addressing import in_bytes
from tracer.errors import NotSupportedError
from tracer.intrinsics.ptx.alignment import pointers
from tracer.ir import Location, Node, Region, Storage

_INDENT = "  "
# `cell = cell op value` is `cell op= value`; where `op` commutes, the cell may be the right operand as well.
_COMPOUND = {ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.DIV: "/", ops.AND: "&", ops.OR: "|", ops.XOR: "^", ops.SHL: "<<", ops.SHR: ">>"}
_SUMS = frozenset({ops.ADD, ops.SUB})
_COMMUTES = frozenset({ops.ADD, ops.MUL, ops.AND, ops.OR, ops.XOR})
# An operator that C can join with `=`, and one operand that needs no parentheses on its right.
_ONE_OPERATOR = re.compile(r" ([-+*/%&|^]|<<|>>) (\S+)")
_SCOPES = {"shared": "__shared__ ", "shared.dyn": "extern __shared__ ", "local": ""}
# What everybody calls them, for a hardware index that the author gave no name.
_REGISTER_NAMES = {"cta_id": "b", "thread_id": "t", "block_index": "b", "thread_index": "t"}


class Statements:
    """Writes the body of one kernel, line by line. `lines` pairs each line with the Python line that it comes from."""

    def __init__(self, half: DeviceHalf, plan: Schedule, needs: Needs, scopes: Scopes, *, locations: bool) -> None:
        self.half = half
        self.plan = plan
        self.needs = needs
        self.scopes = scopes
        self.values = Expressions(half, plan, needs)
        self.lines: list[tuple[str, Location | None]] = []
        self.alignment: dict[Storage, int] = _alignments(half, plan)
        self.initialises = {store: allocation for allocation, store in plan.declared_at.items()}
        self._locations = locations
        self._depth = 1
        self._last: Location | None = None

    # ---- lines

    def line(self, text: str, location: Location | None = None) -> None:
        """Add one line; its Python line follows as a comment where it is another one than the last."""
        comment = ""
        if location is not None and location != self._last:
            self._last = location
            comment = f"  // {location.short}" if self._locations else ""
        first, *others = text.split("\n")
        for each in (first + comment, *others):
            self.lines.append((f"{_INDENT * self._depth}{each}", location or self._last))

    @contextmanager
    def indented(self) -> Iterator[None]:
        """A block: one level deeper, with names of its own."""
        self._depth += 1
        with self.scopes.block():
            yield
        self._depth -= 1

    # ---- regions

    def kernel(self) -> None:
        """The whole body."""
        for node in self.plan.hardware:
            if node not in self.plan.folded:
                assert node.dtype is not None
                name = self.scopes.declare(node.name or _register_name(node))
                self.line(f"const {types.c_type(node.dtype, self.needs)} {name} = {self.values.register(node).text};", node.location)
                self.values.variables[node] = name
        self.region(self.half.body)

    def region(self, region: Region) -> None:
        """Every statement of `region` that is needed."""
        for node in region.nodes:
            if self.plan.is_statement(node):
                STATEMENTS.get(node.op, _value)(self, node)

    def statements_of(self, region: Region) -> list[Node]:
        """The nodes of `region` that are written as statements."""
        return [n for n in region.nodes if self.plan.is_statement(n)]

    def declare(self, node: Node) -> str:
        """A name for the variable of `node`."""
        name = self.scopes.declare(node.name) if node.name else self.scopes.neutral()
        self.values.variables[node] = name
        return name


def _register_name(node: Node) -> str:
    kind = node.attrs.get("kind", node.op.name)
    axis = node.attrs["axis"]
    if kind in _REGISTER_NAMES:
        return _REGISTER_NAMES[kind] + "xyz"[axis]
    return f"{kind}_{'xyz'[axis]}" if axis else kind


# ---- values and stores -------------------------------------------------------------------------------------------------

def _value(out: Statements, node: Node) -> None:
    """A variable, or a call made for what it does."""
    if node.dtype is None:
        out.line(f"{form_of(node.op)(Site(out.values, node)).text};", node.location)
        return
    text = out.values.write(node, modular=True).text
    if node in out.plan.discarded:
        out.line(f"{text};", node.location)
        return
    c_type = types.c_type(node.dtype, out.needs)
    const = f"{c_type} const" if node.dtype.kind == "handle" else f"const {c_type}"     # the pointer is constant, not what it points to
    out.line(f"{const} {out.declare(node)} = {text};", node.location)


def _store(out: Statements, node: Node) -> None:
    value = node.operands[-1]
    buffer = node.attrs["buffer"]
    if node in out.initialises:
        _scalar(out, out.initialises[node], node)
    elif "cache" in node.attrs:
        _store_cached(out, node, value, CACHED_STORES[node.attrs["cache"]])
    elif is_packet(node):
        _store_packet(out, node, value)
    elif is_half_bytes(node):
        out.needs.helper("float4_store")
        pointer, index = out.values.pointer(node, buffer.dtype), out.values.index(node)
        out.line(f"{fr.call('float4_store', pointer, index, out.values.write(value)).text};", node.location)
    elif (update := _update(out, node, value)) is not None:
        out.line(f"{out.values.element(node, buffer.dtype).text} {update[0]}= {update[1].text};", node.location)
    else:
        out.line(f"{_assignment(out.values.element(node, buffer.dtype).text, out.values.write(value, modular=True).text)};", node.location)


def _store_cached(out: Statements, node: Node, value: Node, function: str) -> None:
    """A store through `function`: of one element, of an aligned vector, or of a vector lane by lane."""
    values, dtype = out.values, node.attrs["buffer"].dtype
    if is_packet(node) and not moves_whole(node, out.half.lowered):
        pointer = values.pointer(node, dtype).within(fr.PRIMARY)
        for k in range(moved(node).lanes):
            place = Fragment(f"&{pointer}[{values.index(node, k).text}]", fr.UNARY)
            out.line(f"{fr.call(function, place, values.write(value, k, typed=True)).text};", node.location)
        return
    place = values.packet_pointer(node, moved(node)) if is_packet(node) else fr.prefix("&", values.element(node, dtype))
    out.line(f"{fr.call(function, place, values.write(value, typed=True)).text};", node.location)


def _assignment(place: str, value: str) -> str:
    """`place = value`, or `place op= operand` where `value` is `place op operand`."""
    same = _ONE_OPERATOR.fullmatch(value.removeprefix(place)) if value.startswith(place) else None
    return f"{place} {same[1]}= {same[2]}" if same else f"{place} = {value}"


def _store_packet(out: Statements, node: Node, value: Node) -> None:
    """One wide access, or one store a lane where the index may not lie on the vector's alignment."""
    values, dtype = out.values, moved(node)
    if moves_whole(node, out.half.lowered):
        out.line(f"{values.packet(node, dtype).text} = {values.write(value, modular=True).text};", node.location)
        return
    pointer = values.pointer(node, node.attrs["buffer"].dtype).within(fr.PRIMARY)
    if is_half_bytes(node):
        _store_pairs(out, node, value, pointer)
        return
    for k in range(dtype.lanes):
        out.line(f"{pointer}[{values.index(node, k).text}] = {values.write(value, k, modular=True).text};", node.location)


def _store_pairs(out: Statements, node: Node, value: Node, pointer: str) -> None:
    """4-bit elements byte by byte; where they do not fill bytes, as they need not in a thread's own memory, one by one."""
    values, lanes, place = out.values, range(moved(node).lanes), out.half.lowered.accesses[node]
    texts = [values.write(value, k) for k in lanes]
    if place.lanes or facts_at(node, out.half.lowered).prove(si.eq(place.index % 2, 0)) is not True:
        out.needs.helper("float4_store")
        for k in lanes:
            out.line(f"{fr.call('float4_store', Fragment(pointer, fr.PRIMARY), values.index(node, k), texts[k]).text};", node.location)
        return
    out.needs.helper("float4_pair")
    for k in lanes[::2]:
        out.line(f"{pointer}[{values.byte_index(node, k).text}] = {fr.call('float4_pair', texts[k], texts[k + 1]).text};", node.location)


def _update(out: Statements, store: Node, value: Node) -> tuple[str, Fragment] | None:
    """The operator and operand where `store` adds to (or scales, ...) what stands there already."""
    if value in out.values.variables or value.dtype is None or value.dtype.lanes > 1 or value.dtype.kind == "bool":
        return None
    exact = out.plan.integers.get(value)
    if exact is not None:
        return _exact_update(out, store, value, exact)
    if value.op not in _COMPOUND or out.values.wraps(value) or divides_by_zero(value):
        return None
    a, b = value.operands
    modular = value.op in _SUMS
    if _is_same_place(out, store, a):
        return _COMPOUND[value.op], out.values.write(b, modular=modular)
    if value.op in _COMMUTES and _is_same_place(out, store, b):
        return _COMPOUND[value.op], out.values.write(a, modular=modular)
    return None


def _exact_update(out: Statements, store: Node, value: Node, exact: Int) -> tuple[str, Fragment] | None:
    """`x + k` for an element `x` that stands once in the sum."""
    for term, coefficient in si.terms_of(exact).items():
        if term.op is si.SYMBOL and coefficient == 1 and _is_same_place(out, store, out.values.names.atom(term)):
            rest = exact - term
            if term in si.free_symbols(rest):
                return None
            negative = all(c < 0 for c in si.terms_of(rest).values()) and si.constant_of(rest) <= 0
            assert value.dtype is not None
            operand = write_integer(-rest if negative else rest, value.dtype.name, out.values.context(value))
            return ("-" if negative else "+"), operand
    if value.op in _COMPOUND and value.operands[1].op is ops.CONST and _is_same_place(out, store, value.operands[0]):
        return _COMPOUND[value.op], out.values.write(value.operands[1])
    return None


def _is_same_place(out: Statements, store: Node, load: Node) -> bool:
    if load.op is not ops.LOAD or "cache" in load.attrs or load in out.values.variables or load.dtype is not store.attrs["buffer"].dtype:
        return False
    if load.attrs["buffer"].storage is not store.attrs["buffer"].storage:
        return False
    accesses = out.half.lowered.accesses
    return accesses[load].emitted is accesses[store].emitted


# ---- memory ------------------------------------------------------------------------------------------------------------

def _alloc(out: Statements, node: Node) -> None:
    if node in out.plan.declared_at:
        return
    buffer = node.attrs["buffer"]
    if buffer.scope not in _SCOPES:
        raise NotSupportedError(f"{buffer.name!r}: memory of scope {buffer.scope!r} cannot be written in CUDA C++ yet")
    if buffer.cell and buffer.scope != "shared.dyn":
        _scalar(out, node, None)
        return
    storage = buffer.storage
    name = out.values.memory[storage] = out.scopes.declare(storage.name) if storage.name else out.scopes.neutral()
    needed = out.alignment.get(storage, 0)
    dynamic = buffer.scope == "shared.dyn"
    align = f"__align__({needed}) " if dynamic or needed > storage.dtype.alignment else ""
    count = in_bytes(storage.size, storage.dtype) if storage.dtype.packed and storage.dtype.lanes == 1 else storage.size
    size = "" if dynamic else count.value        # the launch gives the other
    c_type = types.memory_type(storage.dtype, out.needs)
    out.line(f"{_SCOPES[buffer.scope]}{align}{c_type} {name}[{size}];", node.location)


def _scalar(out: Statements, allocation: Node, first: Node | None) -> None:
    """A mutable scalar, with the value that it gets first if that is known here."""
    buffer = allocation.attrs["buffer"]
    storage = buffer.storage
    value = "" if first is None else f" = {out.values.write(first.operands[-1], modular=True).text}"
    const = "const " if allocation in out.plan.unchanging else ""
    name = out.values.memory[storage] = out.scopes.declare(buffer.name) if buffer.name else out.scopes.neutral()
    out.values.scalars.add(storage)
    c_type = types.c_type(storage.dtype, out.needs)
    out.line(f"{_SCOPES[buffer.scope]}{const}{c_type} {name}{value};", (first or allocation).location)


def _alignments(half: DeviceHalf, plan: Schedule) -> dict[Storage, int]:
    """Bytes to which each storage must be aligned: what its buffers ask for, and what its elements, wide accesses and instructions need."""
    found: dict[Storage, int] = {storage: needed for storage, needed, _ in sorted(instructed(half), key=itemgetter(1))}
    for node in half.body.walk():
        if "form" in node.attrs:
            for _, pointer, needed in pointers(node):
                storage = pointer.attrs["buffer"].storage
                if storage.parameter is None:
                    found[storage] = max(found.get(storage, 0), needed)
        if node not in plan.live or "buffer" not in node.attrs:
            continue
        buffer = node.attrs["buffer"]
        asked = max(buffer.align or 0, buffer.storage.align, buffer.dtype.alignment)
        if node.op in (ops.LOAD, ops.STORE) and is_packet(node) and moves_whole(node, half.lowered):
            asked = max(asked, moved(node).alignment)
        found[buffer.storage] = max(found.get(buffer.storage, 0), asked)
    return found


# ---- control flow ------------------------------------------------------------------------------------------------------

def _if(out: Statements, node: Node, opening: str = "if") -> None:
    if node in out.plan.decided:
        out.region(out.plan.decided[node])
        return
    then, otherwise = (out.statements_of(r) for r in node.regions)
    condition = out.values.write(node.operands[0]) if then else out.values.negated(node.operands[0])
    out.line(f"{opening} ({condition.text}) {{", node.location)
    with out.indented():
        out.region(node.regions[0] if then else node.regions[1])
    if then and len(otherwise) == 1 and otherwise[0].op is ops.IF and otherwise[0] not in out.plan.decided:
        _if(out, otherwise[0], "} else if")
        return
    if then and otherwise:
        out.line("} else {")
        with out.indented():
            out.region(node.regions[1])
    out.line("}")


def _for(out: Statements, node: Node) -> None:
    start, stop, step = node.operands
    (variable,) = node.regions[0].arguments
    assert variable.dtype is not None
    if node.attrs["kind"] in ("unroll", "vectorized"):
        out.line("#pragma unroll")
    first, bound = out.values.write(start).text, out.values.write(stop).within(ADDITIVE)
    with out.scopes.block():
        name = out.declare(variable)
        more, advance = _advance(out, node, name)
        c_type = types.c_type(variable.dtype, out.needs)
        out.line(f"for ({c_type} {name} = {first}; {name} {more} {bound}; {advance}) {{", node.location)
        with out.indented():
            out.region(node.regions[0])
    out.line("}")


def _advance(out: Statements, loop: Node, name: str) -> tuple[str, str]:
    """How the loop variable compares with the bound while the loop goes on, and how it steps."""
    step = loop.operands[2]
    distance = out.plan.integers.get(step, step.sym)
    assert distance is not None
    facts = facts_at(loop, out.half.lowered)
    if facts.prove(si.gt(distance, 0)):
        return "<", f"++{name}" if distance is si.ONE else f"{name} += {out.values.write(step).text}"
    if si.is_const(distance):
        return ">", f"--{name}" if distance is si.MINUS_ONE else f"{name} -= {-distance.value}"
    raise NotSupportedError(f"{loop.location}: the step of a loop must be known to be positive, or be a negative constant")


def _while(out: Statements, node: Node) -> None:
    condition, body = node.regions
    assert condition.result is not None
    if not out.statements_of(condition):
        out.line(f"while ({out.values.write(condition.result).text}) {{", node.location)
        with out.indented():
            out.region(body)
    else:
        out.line("while (true) {", node.location)
        with out.indented():
            out.region(condition)
            out.line(f"if ({out.values.negated(condition.result).text}) {{", node.location)
            out.line(f"{_INDENT}break;")
            out.line("}")
            out.region(body)
    out.line("}")


def _if_then_else(out: Statements, node: Node) -> None:
    """A guarded value one of whose branches needs statements."""
    if not any(out.statements_of(r) for r in node.regions):
        _value(out, node)
        return
    assert node.dtype is not None
    condition = out.values.write(node.operands[0]).text
    name = out.declare(node)
    out.line(f"{types.c_type(node.dtype, out.needs)} {name};", node.location)
    for opening, region in zip((f"if ({condition}) {{", "} else {"), node.regions):
        assert region.result is not None
        out.line(opening)
        with out.indented():
            out.region(region)
            out.line(f"{name} = {out.values.write(region.result, modular=True).text};", region.result.location)
    out.line("}")


def _leave(word: str) -> Callable[[Statements, Node], None]:
    return lambda out, node: out.line(f"{word};", node.location)


STATEMENTS: dict[ops.Operation, Callable[[Statements, Node], None]] = {
    ops.ALLOC: _alloc, ops.STORE: _store, ops.IF: _if, ops.FOR: _for, ops.WHILE: _while, ops.IF_THEN_ELSE: _if_then_else,
    ops.BREAK: _leave("break"), ops.CONTINUE: _leave("continue"), ops.RETURN: _leave("return"),
}
