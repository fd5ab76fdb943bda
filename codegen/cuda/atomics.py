"""How atomics are written. CUDA C++ Programming Guide, "Atomic Functions": an overload for each dtype, or the unsigned one of its width."""

from __future__ import annotations

from codegen.cuda import fragments as fr
from codegen.cuda.fragments import Fragment
from codegen.cuda.names import reserve_called
from codegen.cuda.templates import Form, Site, template
from tracer import operations as ops
from tracer.dtypes import dtype

_SUFFIXES = {"device": "", "block": "_block", "system": "_system"}
# Two's complement: what these do to int64 is what they do to its bits, for which alone there is an overload.
_ON_BITS = frozenset({"add", "and", "or", "xor", "exch", "cas"})
_UNSIGNED = dtype("uint64")


def _atomic(name: str) -> Form:
    function = f"atomic{'CAS' if name == 'cas' else name.capitalize()}"
    reserve_called(" ".join(f"{function}{suffix}(" for suffix in _SUFFIXES.values()))

    def form(s: Site) -> Fragment:
        attrs = s.node.attrs
        _, values = s.node.op.split(s.node.operands)
        place = fr.prefix("&", s.printer.element(s.node, attrs["buffer"].dtype))
        operands = [s.printer.write(value, typed=True) for value in values]
        bits = s.dtype.name == "int64" and name in _ON_BITS
        if bits:
            c_type = s.c_type(_UNSIGNED)
            place, operands = fr.cast(f"{c_type}*", place), [fr.cast(c_type, operand) for operand in operands]
        made = fr.call(f"{function}{_SUFFIXES[attrs['scope']]}", place, *operands)
        return fr.cast(s.c_type(), made) if bits and s.node not in s.printer.plan.discarded else made
    return form


for _row in ops.ATOMICS:
    template(_row, _atomic(_row.name.removeprefix("cuda.atomic_")))
