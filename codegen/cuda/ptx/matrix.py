"""How the functions of `T.cuda` about matrices are written, and what ties wgmma's registers to its waits."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.cuda import fragments as fr
from codegen.cuda.expressions import Expressions
from codegen.cuda.fragments import PRIMARY, Fragment
from codegen.cuda.helpers import Helper, Needs, helper
from codegen.cuda.ptx.assembly import instruction, shared_address, wrapped
from codegen.cuda.statements import STATEMENTS, Statements
from codegen.cuda.templates import Form, Site, template
from symbolic.integers import is_const
from symbolic.layout.descriptors import GENERATIONS
from symbolic.layout.shared import SWIZZLE_MODES
from tracer import instructions as ins
from tracer import operations as ops
from tracer.instructions import arguments
from tracer.ir import Node, Region, Storage

helper("matrix_descriptor", """
// The descriptor of the matrix that starts at a shared address; `fields` are its other bits. PTX ISA 9.7.15.5.1.2.2.
__device__ __forceinline__ unsigned long long matrix_descriptor(unsigned int address, unsigned long long fields) {
  return fields | ((address & 0x3FFFF) >> 4);
}""")
helper("~matrix_descriptor_of", """
// As matrix_descriptor, from the leading and the stride offset in units of 16 bytes.
__device__ __forceinline__ void matrix_descriptor_of(unsigned long long& desc, unsigned int address, unsigned int ldo,
    unsigned int sdo, unsigned long long fields) {
  fields |= ((unsigned long long)(ldo & 0x3FFF) << 16) | ((unsigned long long)(sdo & 0x3FFF) << 32);
  desc = matrix_descriptor(address, fields);
}""")
helper("tmem_address", """
// So many lanes and columns on in tensor memory.
__device__ __forceinline__ unsigned int tmem_address(unsigned int address, unsigned int row, unsigned int col) {
  return address + (row << 16) + col;
}""")


def _bits(fields: int) -> Fragment:
    return Fragment(f"{fields:#x}ull", PRIMARY)


def _matrix_descriptor(s: Site) -> Fragment:
    s.needs.helper("matrix_descriptor")
    (pointer,) = s.node.operands
    return fr.call("matrix_descriptor", _address(s, pointer), _bits(s.node.attrs["fields"]))


def _address(s: Site, pointer: Node) -> Fragment:
    return shared_address(s, pointer) if pointer.dtype is not None and pointer.dtype.kind == "handle" else s.printer.write(pointer, typed=True)


def by_hand(generation: str) -> Form:
    """The descriptor from offsets that the author gives."""
    low, _, fixed, code = GENERATIONS[generation]
    codes = {row[1]: row[code] for row in SWIZZLE_MODES.values()}

    def form(s: Site) -> Fragment:
        s.needs.helper("matrix_descriptor")
        s.needs.helper("~matrix_descriptor_of")
        target, pointer, *offsets = s.node.operands
        fields = fixed | codes[s.node.attrs["swizzle"]] << low
        return fr.call("matrix_descriptor_of", s.printer.element(target, target.attrs["buffer"].dtype), _address(s, pointer),
                       *(s.printer.write(o, typed=True) for o in offsets), _bits(fields))
    return form


def _tmem_address(s: Site) -> Fragment:
    s.needs.helper("tmem_address")
    return fr.call("tmem_address", *s.operands(typed=True))


# ---- registers that the compiler must not look at while wgmma works on them

_CONSTRAINTS = {"float32": ("f", "float"), "uint32": ("r", "unsigned int"), "int32": ("r", "int")}


def _held(needs: Needs, printer: Expressions, registers: list[Node]) -> Fragment:
    """A call that does nothing to these registers, but lets no access to them pass."""
    kinds = [_CONSTRAINTS[r.attrs["buffer"].dtype.name] for r in registers]
    letters = "".join(dict.fromkeys(constraint for constraint, _ in kinds))
    name = f"hold_{len(registers)}{letters}"
    parameters = ", ".join(f"{c_type}& r{k}" for k, (_, c_type) in enumerate(kinds))
    operands = ", ".join(f'"+{constraint}"(r{k})' for k, (constraint, _) in enumerate(kinds))
    text = "\n".join(["// Nothing, but the compiler moves no access to these registers across it.",
                      wrapped(f"__device__ __forceinline__ void {name}({parameters}) {{", "    "),
                      wrapped(f'  asm volatile("" : {operands} : : "memory");', "               "), "}"])
    needs.helper(f"~{text}", Helper(text))
    return fr.call(name, *(printer.element(r, r.attrs["buffer"].dtype) for r in registers))


def _accumulators(out: Statements, node: Node) -> Iterator[list[Node]]:
    """The accumulator registers of the kernel's wgmma that can be named where `node` stands, each once: a list for each array."""
    lowered = out.half.lowered
    arrays: dict[Storage, dict[int, Node]] = {}
    for wgmma in out.half.body.walk():
        if wgmma.op is ins.WGMMA:
            for register in arguments(wgmma)["d"]:
                flat = lowered.accesses[register]
                if is_const(flat.emitted):
                    arrays.setdefault(flat.buffer.storage, {}).setdefault(flat.emitted.value, register)
    visible = {n.attrs["buffer"].storage for region in _around(out.half.body, node) for n in region.nodes if n.op is ops.ALLOC}
    for storage, registers in arrays.items():
        if storage in visible and storage in out.values.memory:
            yield list(registers.values())


def _around(region: Region, node: Node) -> list[Region]:
    """The regions that `node` stands in, outermost first; none where it is not in this one."""
    if node in region.nodes:
        return [region]
    for outer in region.nodes:
        for inner in outer.regions:
            if found := _around(inner, node):
                return [region, *found]
    return []


def _fence(out: Statements, node: Node) -> None:
    """What the kernel did to accumulators stays before the fence, what it does stays behind the wait: neither text names them."""
    for registers in _accumulators(out, node):
        out.line(f"{_held(out.needs, out.values, registers).text};", node.location)
    out.line(f"{instruction(Site(out.values, node)).text};", node.location)


def _wait(out: Statements, node: Node) -> None:
    out.line(f"{instruction(Site(out.values, node)).text};", node.location)
    for registers in _accumulators(out, node):
        out.line(f"{_held(out.needs, out.values, registers).text};", node.location)


template(ins.MATRIX_DESCRIPTOR, _matrix_descriptor)
template(ins.WGMMA_DESCRIPTOR, by_hand("wgmma"))
template(ins.TCGEN05_DESCRIPTOR, by_hand("tcgen05"))
template(ins.TMEM_ADDRESS, _tmem_address)
template(ins.WGMMA_NOOP_BARRIER, lambda s: _held(s.needs, s.printer, list(s.node.operands)))
STATEMENTS[ins.WGMMA_FENCE] = _fence
STATEMENTS[ins.WGMMA_WAIT] = _wait
