"""`T.cuda`: sums over a warp and over a block, in plain Python over shuffles and shared memory."""

from __future__ import annotations

from typing import Any

from tracer.buffers import Buffer
from tracer.control import If
from tracer.intrinsics.cuda import cta_sync, shfl_xor_sync
from tracer.intrinsics.operands import FULL_MASK, element
from tracer.launch import scope_value
from tracer.recorder import current
from tracer.values import Value, as_node, wrap

_DISTANCES = (16, 8, 4, 2, 1)


def warp_sum(value: Any) -> Value:
    """The sum of `value` over the 32 lanes of the warp, for each of them. All lanes must be there."""
    recorder = current()
    total = wrap(as_node(value, None, recorder), recorder)
    for distance in _DISTANCES:
        total = total + shfl_xor_sync(FULL_MASK, total, distance)
    return total


def cta_sum(value: Any, warps: int, scratch: Any) -> Value:
    """The sum of `value` over the block's `warps` warps, for each thread: warps first, in the order of `warp_sum`, then warp 0, 1, ...

    `scratch` points at `warps` elements of `value`'s dtype in shared memory, which are free again afterwards. All threads of the block must
    be there.
    """
    recorder = current()
    recorder.observe()
    decl, coords = element(scratch, "cuda.cta_sum", recorder)
    node = as_node(value, None, recorder)
    if not isinstance(warps, int) or not 1 <= warps <= 32:
        recorder.fail(f"`cuda.cta_sum`: warps={warps!r}; it is the number of the block's warps, 1 to 32")
    if decl.scope not in ("shared", "shared.dyn") or not coords or decl.dtype is not node.dtype:
        recorder.fail(f"`cuda.cta_sum` needs {warps} {node.dtype} elements of shared memory as scratch, not {decl.name!r} ({decl.dtype}, "
                      f"{decl.scope}); write T.alloc_shared(({warps},), \"{node.dtype}\").ptr_to([0])")
    *outer, first = (wrap(coord, recorder) for coord in coords)
    partial = Buffer(decl, recorder)
    total = warp_sum(wrap(node, recorder))
    with If(scope_value("lane_id", 32) == 0):
        partial[(*outer, first + scope_value("warp_id", warps))] = total
    cta_sync()
    total = wrap(as_node(partial[(*outer, first)], None, recorder), recorder)
    for warp in range(1, warps):
        total = total + partial[(*outer, first + warp)]
    cta_sync()
    return total
