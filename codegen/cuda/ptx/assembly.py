"""An instruction as CUDA C++: one inline function for each text, with one `asm` in it, called with registers and addresses.

The function's parameters are the operands in the order of the form: registers that it writes by reference, addresses in shared
memory as 32-bit numbers, all other addresses as pointers. A bool becomes a predicate inside the assembly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from codegen.cuda import fragments as fr
from codegen.cuda.fragments import Fragment
from codegen.cuda.helpers import Helper, helper
from codegen.cuda.ptx.registers import Register, register
from codegen.cuda.templates import Site
from tracer.instructions import WRITTEN_ROLES, arguments
from tracer.intrinsics.ptx.grammar import CLOSING, Argument, Form, Group
from tracer.intrinsics.ptx.operands import SHARED_SPACES
from tracer.ir import Node

LINE_LENGTH = 110

helper("shared_address", """
// The address of something in shared memory, as instructions take it.
__device__ __forceinline__ unsigned int shared_address(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }""")


@dataclass(slots=True)
class _Assembly:
    """One function being written."""

    site: Site
    parameters: list[str] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)       # constraint, expression
    inputs: list[tuple[str, str]] = field(default_factory=list)
    before: list[str] = field(default_factory=list)        # lines of C++
    after: list[str] = field(default_factory=list)
    predicates: list[str] = field(default_factory=list)
    set_up: list[str] = field(default_factory=list)        # instructions around the one that is meant
    put_back: list[str] = field(default_factory=list)
    places: dict[tuple[str, int], str] = field(default_factory=dict)       # an operand in the text


def instruction(s: Site) -> Fragment:
    """The call for one instruction's node; its function is added to the file."""
    node, form = s.node, s.node.attrs["form"]
    name = "ptx_" + re.sub(r"\W+", "_", "_".join([node.attrs["instruction"], *(str(node.attrs[a.name]) for a in form.arguments if a.immediate)]))
    while True:
        text = _function(s, name, form)
        key = _key(text)
        if s.needs.helpers.get(key, Helper(text)).text == text:
            break
        name += "_"         # another instruction with the same words, whose operands have the same types
    s.needs.helper(key, Helper(text))
    return fr.call(name, *_passed(s, form))


def _key(text: str) -> str:
    """The name and the parameters' types: C++ has one function of each. It sorts behind the helpers that the function may call."""
    head = text.partition("{")[0]
    return "~" + re.sub(r"\w+(?=[,)])", "", head)


def _passed(s: Site, form: Form) -> Iterator[Fragment]:
    operands = arguments(s.node)
    for argument in form.arguments:
        for node in operands.get(argument.name, ()):
            if argument.is_register:
                yield s.printer.element(node, node.attrs["buffer"].dtype)
            elif argument.is_memory and _in_shared(argument, s.node) and node.dtype is not None and node.dtype.kind == "handle":
                yield shared_address(s, node)
            else:
                yield s.printer.write(node, typed=True)


def shared_address(s: Site, pointer: Node) -> Fragment:
    """The 32-bit address of what `pointer` points to in shared memory."""
    s.needs.helper("shared_address")
    return fr.call("shared_address", s.printer.write(pointer))


def _in_shared(argument: Argument, node: Node) -> bool:
    return argument.space_in(node.attrs) in SHARED_SPACES


# ---- the function

def _function(s: Site, name: str, form: Form) -> str:
    made = _Assembly(s)
    operands = arguments(s.node)
    for argument in form.arguments:
        for k, node in enumerate(operands.get(argument.name, ())):
            _add(made, argument, node, k if len(operands[argument.name]) > 1 else None)
    text = _text(form.text, s.node, operands, made)
    lines = [f"{s.node.attrs['instruction']}{f' {text}' if text else ''};"]
    if made.predicates:
        lines = ["{", f".reg .pred {', '.join(made.predicates)};", *made.set_up, *lines, *made.put_back, "}"]
    lines = [_numbered(line, made) for line in lines]
    opening = f"  asm{'' if form.computes else ' volatile'}("
    indent = " " * len(opening)
    quoted = f"\n{indent}".join([*map(_quoted, lines[:-1]), f'"{lines[-1]}"'])
    statement = f"{opening}{quoted}{_constraints(form, made)});"
    head = f"__device__ __forceinline__ void {name}({', '.join(made.parameters)}) {{"
    return "\n".join([wrapped(head, "    "), *(f"  {line}" for line in made.before), wrapped(statement, indent),
                      *(f"  {line}" for line in made.after), "}"])


def _quoted(line: str) -> str:
    return f'"{line}\\n"'


def wrapped(text: str, indent: str) -> str:
    """`text` with every line broken behind commas where it is too long."""
    made: list[str] = []
    for line in text.split("\n"):
        while len(line) > LINE_LENGTH and (end := line.rfind(", ", len(indent), LINE_LENGTH)) > len(indent) and not _inside_quotes(line, end):
            made.append(line[:end + 1])
            line = indent + line[end + 2:]
        made.append(line)
    return "\n".join(made)


def _inside_quotes(line: str, position: int) -> bool:
    return line.count('"', 0, position) % 2 == 1


def _constraints(form: Form, made: _Assembly) -> str:
    outputs, inputs = (", ".join(f'"{c}"({e})' for c, e in each) for each in (made.outputs, made.inputs))
    clobbers = "" if form.computes else '"memory"'
    parts = [outputs, inputs, clobbers]
    while parts and not parts[-1]:
        parts.pop()
    return "".join(f" : {part}" if part else " :" for part in parts)


def _add(made: _Assembly, argument: Argument, node: Node, number: int | None) -> None:
    """One operand: its parameter, its constraint, and how the text names it."""
    name = argument.name + ("" if number is None else str(number))
    key = (argument.name, number or 0)
    if argument.is_memory:
        made.parameters.append(f"{_address_type(argument, node, made.site)} {name}")
        made.inputs.append(("r" if _in_shared(argument, made.site.node) else "l", name))
        made.places[key] = f"<in {len(made.inputs) - 1}>"
        return
    dtype = node.attrs["buffer"].dtype if argument.is_register else node.dtype
    assert dtype is not None
    held = register(dtype, made.site.needs)
    predicate = argument.type_in(made.site.node.attrs) == "pred"
    if argument.is_register:
        made.parameters.append(f"{held.c_type}& {name}")
        place = _output(made, argument, held, name)
        if predicate:
            made.put_back.append(f"selp.b32 {place}, 1, 0, {name};")
    else:
        made.parameters.append(f"{held.c_type} {name}")
        made.inputs.append((held.constraint, f"(unsigned int){name}" if predicate and held.word else held.given(name, made.site.needs)))
        place = f"<in {len(made.inputs) - 1}>"
        if predicate:
            made.set_up.append(f"setp.ne.b32 {name}, {place}, 0;")
    if predicate:
        made.predicates.append(name)
    made.places[key] = name if predicate else place


def _output(made: _Assembly, argument: Argument, held: Register, name: str) -> str:
    sign = "+" if argument.role == "inout" else "="
    target = name
    if held.word:
        target = f"{name}_bits"
        made.before.append(f"{held.word} {target}{f' = {held.given(name, made.site.needs)}' if sign == '+' else ''};")
        made.after.append(f"{name} = {held.taken(target, made.site.needs)};")
    made.outputs.append((sign + held.constraint, target))
    return f"<out {len(made.outputs) - 1}>"


def _address_type(argument: Argument, node: Node, s: Site) -> str:
    if _in_shared(argument, s.node):
        return "unsigned int"
    if node.dtype is not None and node.dtype.kind != "handle":
        return s.c_type(node.dtype)
    return "void*" if argument.role in WRITTEN_ROLES else "const void*"


def _text(item: Argument | Group | str, node: Node, operands: dict[str, tuple[Node, ...]], made: _Assembly) -> str:
    """The operand text, with places for the numbers of registers."""
    if isinstance(item, str):
        return item
    if isinstance(item, Group):
        parts = list(filter(None, (_text(inner, node, operands, made) for inner in item.items)))
        joined = ("|" if item.opening == "(" else ", ").join(parts)
        if not item.opening or item.opening == "(" or not parts or (item.opening == "{" and not _braced(item, node)):
            return joined
        return f"{item.opening}{joined}{CLOSING[item.opening]}"
    if item.immediate:
        return str(node.attrs[item.name])
    count = len(operands.get(item.name, ()))
    return ", ".join(made.places[item.name, k] for k in range(count)) or item.sink


def _braced(group: Group, node: Node) -> bool:
    return any(argument.in_braces(node.attrs) for argument in group.arguments())


def _numbered(line: str, made: _Assembly) -> str:
    line = re.sub(r"<out (\d+)>", r"%\1", line)
    return re.sub(r"<in (\d+)>", lambda found: f"%{int(found[1]) + len(made.outputs)}", line)

