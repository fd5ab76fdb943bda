"""How the hardware's own instructions are written: `assembly` writes what has a PTX form, `calls` the rest."""

from codegen.cuda.ptx import calls, matrix
from codegen.cuda.ptx.assembly import instruction
from codegen.cuda.templates import template
from tracer.intrinsics.ptx.grammar import FORMS

__all__ = ["calls", "instruction", "matrix"]

for _op in dict.fromkeys(form.op for form in FORMS):
    template(_op, instruction)
