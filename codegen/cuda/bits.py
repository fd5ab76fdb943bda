"""How the instructions on bits are written. CUDA Math API, "Integer Intrinsics": each takes words of one signedness, as below."""

from __future__ import annotations

from codegen.cuda import fragments as fr
from codegen.cuda.fragments import Fragment
from codegen.cuda.names import reserve_called
from codegen.cuda.templates import Form, Site, calls, template
from tracer import operations as ops
from tracer.dtypes import dtype


def _of_a_word(function: str, kind: str, *, same: bool = False) -> Form:
    """`function(a)` for 32 bits and `functionll(a)` for 64, on the type of `kind`; `same`: the result is brought back to `a`'s type."""
    reserve_called(f"{function}( {function}ll(")

    def form(s: Site) -> Fragment:
        given = s.operand_dtype(0)
        taken = dtype(f"{kind}{given.bits}")
        a = s.operand(0, typed=True)
        made = fr.call(f"{function}ll" if given.bits == 64 else function, a if given is taken else fr.cast(s.c_type(taken), a))
        return fr.cast(s.c_type(given), made) if same and given is not taken else made
    return form


template(ops.POPC, _of_a_word("__popc", "uint"))
template(ops.CLZ, _of_a_word("__clz", "int"))
template(ops.FFS, _of_a_word("__ffs", "int"))
template(ops.BREV, _of_a_word("__brev", "uint", same=True))
template(ops.BYTE_PERM, calls("__byte_perm"))
template(ops.DP4A, calls("__dp4a"))
template(ops.FDIVIDEF, calls("__fdividef"))
for _row in ops.FUNNEL:
    template(_row, calls(f"__{_row.name.removeprefix('cuda.')}"))
