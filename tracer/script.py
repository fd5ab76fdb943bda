"""The recorded function as Python that traces back to an equal function.

Python evaluates operands before it calls, so a nested expression is recorded in one definite order. An unnamed value is
written inside its only use exactly where that order is the recorded one; everything else gets a line and a name.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from symbolic.integers import AND, LAND, LOR, OR, Int, free_symbols, named, substitute
from symbolic.layout.axes import AXES
from symbolic.text import ATOM, Piece
from symbolic.text import Printer as IntPrinter
from symbolic.text import text as int_text
from tracer import ir
from tracer import operations as ops
from tracer.addressing import with_symbols
from tracer.dtypes import DType
from tracer.ir import Function, Node, Parameter, Region
from tracer.spelling import quoted, spell

INDENT = "    "
LAYOUT_NAMES = frozenset({"TileLayout", "ComposeLayout", "S", "R", *AXES})
_RESERVED = frozenset({"T", "trace", "range", *keyword.kwlist, *keyword.softkwlist})


def script(function: Function) -> str:
    """Python source with the imports it needs; executing it defines a function that traces back to an equal one.

    A name of the author's that is also that of something imported gets an underscore.
    """
    printer = Printer(function)
    text = printer.function()
    taken = frozenset(filter(printer.names.taken, printer.imported))
    if taken:
        printer = Printer(function, taken)
        text = printer.function()
    return f"{_imports(text, printer.imported)}\n\n{text}"


def _imports(text: str, names: set[str]) -> str:
    """The import lines that `text`, whose layouts mention `names`, needs."""
    lines = ["import sympy\n"] if "sympy." in text else []
    lines += [f"from symbolic.layout import {', '.join(sorted(names))}"] if names else []
    return "\n".join([*lines, "from tracer import T", ""])


class ExtentPrinter(IntPrinter):
    """Extents as the author writes them: `T.min`, `T.max` and `T.select`, where Python's own would ask for a value's truth."""

    def extremum(self, e: Int) -> Piece:
        first, *others = map(self.text, e.args)
        for other in others:
            first = f"T.{e.op}({first}, {other})"
        return first, ATOM

    def select(self, e: Int) -> Piece:
        return f"T.select({', '.join(map(self.text, e.args))})", ATOM

    def truncated(self, e: Int) -> Piece:
        return f"T.{e.op}({', '.join(map(self.text, e.args))})", ATOM

    AND_WORD = " & "
    OR_WORD = " | "
    PRECEDENCE = {**IntPrinter.PRECEDENCE, LAND: IntPrinter.PRECEDENCE[AND], LOR: IntPrinter.PRECEDENCE[OR]}


class Names:
    """Unique Python names for nodes and buffers."""

    def __init__(self, reserved: frozenset[str]) -> None:
        self._reserved = reserved
        self._given: dict[object, str] = {}
        self._taken = Counter[str]()

    def __call__(self, thing: object, wanted: str) -> str:
        if thing not in self._given:
            base = f"{wanted}_" if wanted in self._reserved else wanted
            name = base
            while self._taken[name]:
                name = f"{base}_{self._taken[base]}"
                self._taken[base] += 1
            self._taken[name] += 1
            self._given[thing] = name
        return self._given[thing]

    def taken(self, name: str) -> bool:
        """True where something has this name."""
        return bool(self._taken[name])

    def fresh(self) -> str:
        """A neutral name that nobody has: v0, v1, ..."""
        return next(name for name in map("v{}".format, count()) if not self._taken[name])

    def share(self, thing: object, *others: object) -> None:
        """Let `others` (those that are not None) go by the name of `thing`."""
        self._given.update({other: self._given[thing] for other in others if other is not None})


class Printer:
    """Prints one function. `body` prints a region alone (the device half)."""

    def __init__(self, function: Function, imported: frozenset[str] = frozenset()) -> None:
        self.source = function
        self.names = Names(_RESERVED | imported)
        self.imported: set[str] = set()     # what the layouts are written with
        self.lines: list[str] = []
        self.depth = 0
        self.uses = _uses(function)
        self.assumed = {node for node, _ in function.assumptions}
        self.pending: list[tuple[Node, tuple[str, int]]] = []
        self.acting: set[Node] = set()      # the values whose expression does more than read
        for parameter in function.parameters:
            self.names(parameter, parameter.name)
            self.names.share(parameter, parameter.node, parameter.buffer if parameter.kind == "buffer" else None)

    # ------------------------------------------------------------------ the whole function

    def function(self) -> str:
        source = self.source
        self.write(f"def {source.name}({', '.join(map(self.parameter, source.parameters))}):")
        self.depth = 1
        self.host()
        self.write("T.device_entry()")
        self.device_head()
        self.region(source.device)
        return "\n".join(self.lines) + "\n"

    def host(self) -> None:
        source = self.source
        for node in source.extents:
            self.write(f"{self.name(node)} = T.{node.dtype}()")
        for parameter in source.parameters:
            buffer = parameter.buffer
            if parameter.kind == "handle" and buffer is not None:
                self.write(f"{self.buffer(buffer)} = T.match_buffer({self.names(parameter, parameter.name)}, {self.buffer_options(buffer)})")
        self.region(source.host)

    def device_head(self) -> None:
        source = self.source
        if source.attrs:
            listed = ", ".join(f"{quoted(key)}: {value!r}" for key, value in source.attrs.items())
            self.write(f"T.attr({{{listed}}})")
        groups: dict[str, list[Node]] = {}
        for node in source.scope_ids:
            groups.setdefault(node.attrs["kind"], []).append(node)
        for kind, nodes in groups.items():
            nodes.sort(key=lambda n: n.attrs["axis"])
            if [node.attrs["axis"] for node in nodes] != list(range(len(nodes))):
                register = {"thread_id": "threadIdx", "cta_id": "blockIdx"}[kind]
                for node in nodes:
                    tag = quoted(f"{register}.{'xyz'[node.attrs['axis']]}")
                    self.write(f"{self.name(node)} = T.launch_thread({tag}, {self.integer(node.attrs['extent'])})")
                continue
            targets = ", ".join(self.name(node) for node in nodes)
            sizes = ", ".join(self.integer(node.attrs["extent"]) for node in nodes)
            preferred = source.launch.preferred_cluster
            extra = ""
            if preferred is not None and kind == ("cta_id_in_cluster" if "cta_id_in_cluster" in groups else "cta_id"):
                extra = f", preferred=[{', '.join(map(self.integer, preferred))}]"
            self.write(f"{targets} = T.{kind}([{sizes}]{extra})")

    def parameter(self, parameter: Parameter) -> str:
        name = self.names(parameter, parameter.name)
        if parameter.kind == "handle":
            return f"{name}: T.handle"
        if parameter.kind == "scalar":
            return f"{name}: T.{parameter.dtype}"
        assert parameter.buffer is not None
        return f"{name}: T.Buffer({self.buffer_options(parameter.buffer, annotation=True)})"

    def buffer_options(self, buffer: ir.Buffer, annotation: bool = False) -> str:
        """Shape, dtype and whatever differs from the defaults. In an annotation a symbolic extent is a quoted name."""
        shape = [self.annotated(entry) if annotation else self.integer(entry) for entry in buffer.shape]
        options = [f"({', '.join(shape)}{',' if len(shape) == 1 else ''})", quoted(buffer.dtype)]
        if buffer.layout is not None:
            options.append(f"layout={self.layout(buffer.layout)}")
        if buffer.align is not None:
            options.append(f"align={buffer.align}")
        if self.integer(buffer.elem_offset) != "0":
            options.append(f"elem_offset={self.annotated(buffer.elem_offset) if annotation else self.integer(buffer.elem_offset)}")
        return ", ".join(options)

    def annotated(self, entry: Int) -> str:
        """A shape entry of an annotation: an int, a quoted name, or a SymPy formula over symbols."""
        symbols = free_symbols(entry)
        if not symbols:
            return self.integer(entry)
        if len(symbols) == 1 and entry is symbols[0]:
            return quoted(self.integer(entry))
        names = {symbol: f'sympy.Symbol({quoted(self.name(self.source.atoms[symbol]))})' for symbol in symbols}
        return int_text(entry, names)

    # ------------------------------------------------------------------ names

    def name(self, node: Node) -> str:
        fallback = {ops.SCOPE_ID: node.attrs.get("kind", ""), ops.LOOP_VAR: "i", ops.EXTENT: "extent"}.get(node.op)
        return self.names(node, node.name or fallback or self.names.fresh())

    def buffer(self, buffer: ir.Buffer) -> str:
        return self.names(buffer, buffer.name)

    def integer(self, entry: Int) -> str:
        """An exact integer over extents and scalars."""
        return ExtentPrinter({symbol: self.name(node) for symbol, node in self.source.atoms.items()
                              if node.op in (ops.EXTENT, ops.SCALAR)}).text(entry)

    def layout(self, layout: Any) -> str:
        """A layout with the author's names for its symbols."""
        if layout is None:
            return "None"
        text = repr(with_symbols(layout, lambda value: substitute(value, {s: named(self.name(self.source.atoms[s])) for s in free_symbols(value)})))
        self.imported |= LAYOUT_NAMES & set(re.findall(r"\b[A-Za-z]\w*\b", text))
        return text

    # ------------------------------------------------------------------ regions

    def write(self, line: str) -> None:
        self.lines.append(INDENT * self.depth + line)

    def block(self, head: str, region: Region) -> None:
        self.write(head)
        self.depth += 1
        before = len(self.lines)
        self.region(region)
        if len(self.lines) == before:
            self.write("pass")
        self.depth -= 1

    def region(self, region: Region, keep: Iterable[Node] = ()) -> None:
        """Print a region's statements; values in `keep` are left for the caller to mention."""
        kept = set(keep)
        nodes = iter(region.nodes)
        for node in nodes:
            if node.op is ops.ALLOC and node.attrs["buffer"].cell:
                self.cell(node, nodes, region)
            else:
                self.node(node, node in kept)
        self.flush()

    def cell(self, node: Node, following: Iterator[Node], region: Region) -> None:
        """A mutable scalar, with its first value where that is stored at once."""
        buffer: ir.Buffer = node.attrs["buffer"]
        where = region.nodes.index(node) + 1
        store = region.nodes[where] if where < len(region.nodes) else None
        initial = ""
        if store is not None and store.op is ops.STORE and store.attrs["buffer"] is buffer:
            next(following)
            self.consume(store)
            first = store.operands[0]
            # Another cell was read before this one was made.
            read = "+" if _is_cell_load(first) and first in self.inline else ""
            initial = f", {read}{self.operand(first)[0]}"
        self.flush()
        kind = "local" if buffer.scope == "local" else "shared"
        self.write(f"{self.buffer(buffer)} = T.{kind}_scalar({quoted(buffer.dtype)}{initial})")

    def node(self, node: Node, kept: bool = False) -> None:
        if _is_written_cell(node):
            return      # it is spelled where it is passed
        statement = _STATEMENTS.get(node.op)
        if statement is not None:
            statement(self, node)
            return
        self.consume(node)
        expression = self.expression(node)
        if node in self.assumed:
            if self.uses[node] > 1 or node.name is not None:
                self.assign(node, expression[0])
                expression = self.operand(node)
            self.write(f"T.assume({expression[0]})")
            return
        if self.uses[node] == 1 and node.name is None and not kept and node.dtype is not None:
            self.pending.append((node, expression))
        elif node.dtype is None or (not self.uses[node] and node.name is None and not kept):
            self.write(expression[0])
        else:
            self.assign(node, expression[0])

    def assign(self, node: Node, expression: str) -> None:
        if any(waiting in self.acting for waiting, _ in self.pending):
            self.flush()      # what it does comes before this line
        # Reading a mutable scalar into a variable takes its value now: `+x`.
        self.write(f"{self.name(node)} = {'+' if _is_cell_load(node) else ''}{expression}")

    def flush(self) -> None:
        """Give every value that waits to be written inside its use a line of its own."""
        waiting, self.pending = self.pending, []
        for node, expression in waiting:
            self.assign(node, expression[0])

    def consume(self, node: Node) -> None:
        """Decide whether `node`'s waiting operands can be written inside it, in the order in which Python evaluates them."""
        waiting = [n for n, _ in self.pending]
        mine = [o for o in _evaluation_order(node) if o in waiting]
        if mine and waiting[len(waiting) - len(mine):] == mine:
            self.inline = dict(self.pending[len(waiting) - len(mine):])
            del self.pending[len(waiting) - len(mine):]
        else:
            self.inline = {}
            if mine:
                self.flush()
        acts = not (node.op.pure or node.op is ops.LOAD)
        if acts or any(operand in self.acting for operand in self.inline):
            self.acting.add(node)
        if acts:
            self.flush()

    inline: dict[Node, tuple[str, int]] = {}

    def operand(self, node: Node) -> tuple[str, int]:
        if node in self.inline:
            return self.inline[node]
        if node.op is ops.CONST:
            return spell(node, self.operand)
        return self.expression(node) if _is_written_cell(node) else (self.name(node), 9)

    def expression(self, node: Node) -> tuple[str, int]:
        return spell(node, self.operand, self.buffer)


def _uses(function: Function) -> Counter[Node]:
    """How often each node is an operand or the result of a region."""
    uses: Counter[Node] = Counter()
    for region in (function.host, function.device):
        for node in region.walk():
            uses.update(node.operands)
            uses.update(r.result for r in node.regions if r.result is not None)
    for node, _ in function.assumptions:
        uses[node] += 1
    return uses


def _is_cell_load(node: Node) -> bool:
    return node.op is ops.LOAD and bool(node.attrs["buffer"].cell)


def _evaluation_order(node: Node) -> list[Node]:
    """The operands in the order in which Python evaluates them: a mutable scalar is read last, by the operation itself."""
    operands = list(dict.fromkeys(node.operands))
    # A pointer is made, its cells read, before the values are evaluated.
    if node.op in ops.ATOMICS or (node.op.accesses and "cache" in node.attrs):
        coords, values = node.op.split(node.operands)
        return list(dict.fromkeys([*coords, *(o for o in values if not _is_cell_load(o)), *(o for o in values if _is_cell_load(o))]))
    if node.op is ops.STORE and node.operands[-1].dtype is node.attrs["buffer"].dtype and not node.attrs["buffer"].cell:
        operands = list(dict.fromkeys([node.operands[-1], *node.operands[:-1]]))       # B[i] = v evaluates v before i
    return [o for o in operands if not _is_cell_load(o)] + [o for o in operands if _is_cell_load(o)]


def _is_written_cell(node: Node) -> bool:
    """True for a mutable scalar that an instruction writes, which it is passed by name."""
    return node.op is ops.ADDRESS_OF and bool(node.attrs["buffer"].cell) and "register" in node.attrs


# ---------------------------------------------------------------------- statements

def _alloc(printer: Printer, node: Node) -> None:
    printer.flush()
    buffer: ir.Buffer = node.attrs["buffer"]
    made = f"T.alloc_{buffer.scope}(" if buffer.scope in ("shared", "local") else "T.alloc_buffer("
    scope = "" if buffer.scope in ("shared", "local") else f", scope={quoted(buffer.scope)}"
    printer.write(f"{printer.buffer(buffer)} = {made}{printer.buffer_options(buffer)}{scope})")


def _decl(printer: Printer, node: Node) -> None:
    printer.consume(node)
    buffer, source = node.attrs["buffer"], node.attrs["source"]
    operands = [printer.operand(o)[0] for o in node.operands]
    made = node.attrs["spelling"].format(*operands, source=printer.buffer(source), layout=printer.layout(buffer.layout))
    printer.write(f"{printer.buffer(buffer)} = {made}")


def _tensor_map(printer: Printer, node: Node) -> None:
    made: ir.TensorMap = node.attrs["map"]
    options = [printer.buffer(made.buffer), repr(made.box)]
    options += [f"{name}={quoted(value)}" for name, value, usual in (
        ("swizzle", made.swizzle, "none"), ("l2_promotion", made.l2_promotion, "none"), ("oob_fill", made.oob_fill, "zeros")) if value != usual]
    options += [f"element_strides={made.element_strides!r}"] * any(step != 1 for step in made.element_strides)
    printer.write(f"{printer.name(node)} = T.tensor_map({', '.join(options)})")


def _store(printer: Printer, node: Node) -> None:
    printer.consume(node)
    buffer: ir.Buffer = node.attrs["buffer"]
    *coords, value = (printer.operand(o)[0] for o in node.operands)
    name = printer.buffer(buffer)
    value_dtype: DType | None = node.operands[-1].dtype
    if "cache" in node.attrs:
        printer.write(printer.expression(node)[0])
    elif buffer.cell:
        printer.write(f"{name}.assign({value})")
    elif value_dtype is buffer.dtype:
        printer.write(f"{name}[{', '.join(coords) or '()'}] = {value}")
    else:
        printer.write(f"{name}.vstore([{', '.join(coords)}], {value})")


def _if(printer: Printer, node: Node, word: str = "If") -> None:
    printer.consume(node)
    printer.block(f"with T.{word}({printer.operand(node.operands[0])[0]}):", node.regions[0])
    _else(printer, node.regions[1])


def _else(printer: Printer, region: Region) -> None:
    if not region.nodes:
        return
    *before, last = region.nodes
    # Values made between a T.If and its T.Elif belong to the else. Written so, they are judged by what was known before the T.If, as they were.
    if last.op is ops.IF and all(node.op.pure or node.op in (ops.LOAD, ops.IF_THEN_ELSE, ops.DECL) for node in before):
        for node in before:
            printer.node(node)
        _if(printer, last, "Elif")
    else:
        printer.block("with T.Else():", region)


def _all_inline(printer: Printer, nodes: Sequence[Node], result: Node) -> bool:
    """True where `nodes` are written as one expression, that of `result`."""
    if any(not (n.op.pure or n.op is ops.LOAD) for n in nodes):
        return False
    trial = Printer(printer.source)
    for node in nodes:
        trial.node(node)
    trial.consume(Node(ops.IF, (result,), None, {}))
    return not trial.lines and not trial.pending


def _if_then_else(printer: Printer, node: Node) -> None:
    """`T.if_then_else(c, a, b)`: each branch is one expression."""
    printer.consume(Node(ops.IF, node.operands, None, {}))
    condition = printer.operand(node.operands[0])[0]
    expression = f"T.if_then_else({condition}, {', '.join(_Branch(printer, region).text() for region in node.regions)})", 9
    if printer.uses[node] == 1 and node.name is None:
        printer.pending.append((node, expression))
    else:
        printer.assign(node, expression[0])


class _Branch(Printer):
    """Prints a region as one expression. A value that needs a name gets it as the parameter of a lambda, which is evaluated in place."""

    def __init__(self, outer: Printer, region: Region) -> None:
        super().__init__(outer.source)
        self.names, self.branch = outer.names, region
        self.bound: list[tuple[str, str]] = []

    def assign(self, node: Node, expression: str) -> None:
        self.bound.append((self.name(node), f"{'+' if _is_cell_load(node) else ''}{expression}"))

    def text(self) -> str:
        result = self.branch.result
        assert result is not None
        for node in self.branch.nodes:
            self.node(node)
        self.consume(Node(ops.SELECT, (result,), None, {}))
        expression = self.operand(result)[0]
        self.flush()
        for name, value in reversed(self.bound):
            expression = f"(lambda {name}: {expression})({value})"
        return expression


def _while(printer: Printer, node: Node) -> None:
    printer.flush()
    test, body = node.regions
    assert test.result is not None
    if _all_inline(printer, test.nodes, test.result):
        for inner in test.nodes:
            printer.node(inner)
        printer.consume(Node(ops.IF, (test.result,), None, {}))
        condition = printer.operand(test.result)[0]
        if _is_cell_load(test.result):
            condition = f"+{condition}"
        printer.block(f"with T.While(lambda: {condition}):", body)
        return
    name = printer.names(node, "condition")
    printer.write(f"def {name}():")
    printer.depth += 1
    printer.region(test, keep=[test.result])
    printer.write(f"return {printer.operand(test.result)[0]}")
    printer.depth -= 1
    printer.block(f"with T.While({name}):", body)


def _for(printer: Printer, node: Node) -> None:
    printer.consume(node)
    start, stop, step = (printer.operand(o)[0] for o in node.operands)
    bounds = [start, stop, step]
    if step == "1":
        bounds = bounds[:2] if start != "0" else [stop]
    body = node.regions[0]
    printer.block(f"for {printer.name(body.arguments[0])} in T.{node.attrs['kind']}({', '.join(bounds)}):", body)


def _leave(printer: Printer, node: Node) -> None:
    printer.flush()
    printer.write(f"{node.op.spelling}()")


_STATEMENTS = {
    ops.ALLOC: _alloc, ops.DECL: _decl, ops.TENSOR_MAP: _tensor_map, ops.STORE: _store, ops.IF: _if, ops.IF_THEN_ELSE: _if_then_else,
    ops.WHILE: _while, ops.FOR: _for, ops.BREAK: _leave, ops.CONTINUE: _leave, ops.RETURN: _leave,
}
