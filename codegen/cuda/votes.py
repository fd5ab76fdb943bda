"""How votes, matches and reductions of a warp are written. CUDA C++ Programming Guide, "Warp Vote", "Warp Match", "Warp Reduce Functions"."""

from __future__ import annotations

from codegen.cuda import fragments as fr
from codegen.cuda.fragments import PRIMARY, Fragment
from codegen.cuda.helpers import helper
from codegen.cuda.names import reserve_called
from codegen.cuda.templates import Form, Site, calls, template
from codegen.cuda.threads import lane_mask
from tracer import operations as ops

for _c_type in ("int", "unsigned int", "long long", "unsigned long long", "float", "double"):
    helper(f"match_all_{_c_type}", f"""
// The mask where all its lanes have the same bits, else 0.
__device__ __forceinline__ unsigned int match_all(unsigned int mask, {_c_type} value) {{
  int same;
  return __match_all_sync(mask, value, &same);
}}""")

helper("elect", """
// True for one lane of the mask.
__device__ __forceinline__ bool elect(unsigned int mask) {
  unsigned int elected;
  asm volatile("{\\n .reg .pred p;\\n elect.sync _|p, %1;\\n selp.u32 %0, 1, 0, p;\\n}" : "=r"(elected) : "r"(mask));
  return elected != 0;
}""")


def _with_mask(function: str, *, truth: bool = False) -> Form:
    """`function(mask, value)`; with `truth` its answer is any int, which is made a bool."""
    reserve_called(f"{function}(")

    def form(s: Site) -> Fragment:
        mask, *values = s.node.operands
        made = fr.call(function, lane_mask(s, mask), *(s.printer.write(value, typed=True) for value in values))
        return fr.infix(made, "!=", Fragment("0", PRIMARY)) if truth else made
    return form


def _match_all(s: Site) -> Fragment:
    s.needs.helper(f"match_all_{s.c_type(s.operand_dtype(1))}")
    return _with_mask("match_all")(s)


def _elect(s: Site) -> Fragment:
    s.needs.helper("elect")
    return _with_mask("elect")(s)


template(ops.BALLOT, _with_mask("__ballot_sync"))
template(ops.ANY, _with_mask("__any_sync", truth=True))
template(ops.ALL, _with_mask("__all_sync", truth=True))
template(ops.MATCH_ANY, _with_mask("__match_any_sync"))
template(ops.MATCH_ALL, _match_all)
template(ops.ACTIVEMASK, calls("__activemask"))
template(ops.ELECT, _elect)
for _row in ops.REDUCE:
    template(_row, _with_mask(f"__{_row.name.removeprefix('cuda.').rsplit('_', 1)[0]}"))
