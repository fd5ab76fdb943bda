"""How the operations between threads, and calls of the author's own device functions, are written."""

from __future__ import annotations

from codegen.cuda import fragments as fr
from codegen.cuda.fragments import PRIMARY, Fragment
from codegen.cuda.names import reserve_called
from codegen.cuda.templates import Form, Site, calls, template
from tracer import operations as ops
from tracer.ir import Node

_FULL_WARP = 0xFFFFFFFF


def lane_mask(s: Site, node: Node) -> Fragment:
    """The mask of lanes, in hexadecimal where it is a constant."""
    if node.op is ops.CONST:
        return Fragment(f"{int(node.attrs['value']) & _FULL_WARP:#x}", PRIMARY)
    return s.printer.write(node)


def _warp_sync(s: Site) -> Fragment:
    mask = s.node.operands[0]
    full = mask.op is ops.CONST and int(mask.attrs["value"]) & _FULL_WARP == _FULL_WARP
    return fr.call("__syncwarp", *([] if full else [lane_mask(s, mask)]))


def _shuffle(function: str) -> Form:
    """CUDA C++ Programming Guide, "Warp Shuffle Functions"; the width is written where it is not the warp's."""
    reserve_called(f"{function}(")

    def form(s: Site) -> Fragment:
        mask, value, lane = s.node.operands
        width = s.node.attrs.get("width", 32)
        arguments = [lane_mask(s, mask), s.printer.write(value, typed=True), s.printer.write(lane)]
        return fr.call(function, *arguments, *([] if width == 32 else [Fragment(str(width), PRIMARY)]))
    return form


def _func_call(s: Site) -> Fragment:
    s.printer.sources[s.node.attrs["source_code"]] = None
    return fr.call(s.node.attrs["name"], *s.operands(typed=True))


template(ops.CTA_SYNC, calls("__syncthreads"))
template(ops.WARP_SYNC, _warp_sync)
template(ops.SHFL, _shuffle("__shfl_sync"))
template(ops.SHFL_UP, _shuffle("__shfl_up_sync"))
template(ops.SHFL_DOWN, _shuffle("__shfl_down_sync"))
template(ops.SHFL_XOR, _shuffle("__shfl_xor_sync"))
template(ops.FUNC_CALL, _func_call)
