"""Older spellings of what has another name here."""

from __future__ import annotations

from typing import Any

from tracer.intrinsics.cuda import shfl_down_sync, shfl_sync, shfl_up_sync, shfl_xor_sync
from tracer.recorder import current
from tracer.values import Value, as_node, wrap


def Cast(dtype: Any, value: Any) -> Value:
    """`value.astype(dtype)`."""
    recorder = current()
    return wrap(as_node(value, None, recorder), recorder).astype(dtype)


def evaluate(value: Any) -> None:
    """An expression for what it does alone, such as an atomic whose result nobody wants. Writing it as a statement does the same."""
    as_node(value, None, current())


def tvm_warp_shuffle(mask: Any, value: Any, lane: Any, width: int = 32, warp_size: int = 32) -> Value:
    """`T.cuda.shfl_sync(mask, value, lane, width)`."""
    return shfl_sync(mask, value, lane, _width(width, warp_size))


def tvm_warp_shuffle_up(mask: Any, value: Any, delta: Any, width: int = 32, warp_size: int = 32) -> Value:
    """`T.cuda.shfl_up_sync(mask, value, delta, width)`."""
    return shfl_up_sync(mask, value, delta, _width(width, warp_size))


def tvm_warp_shuffle_down(mask: Any, value: Any, delta: Any, width: int = 32, warp_size: int = 32) -> Value:
    """`T.cuda.shfl_down_sync(mask, value, delta, width)`."""
    return shfl_down_sync(mask, value, delta, _width(width, warp_size))


def tvm_warp_shuffle_xor(mask: Any, value: Any, lane_mask: Any, width: int = 32, warp_size: int = 32) -> Value:
    """`T.cuda.shfl_xor_sync(mask, value, lane_mask, width)`."""
    return shfl_xor_sync(mask, value, lane_mask, _width(width, warp_size))


def _width(width: int, warp_size: int) -> int:
    if warp_size != 32:
        current().fail(f"a warp has 32 lanes, not warp_size={warp_size!r}")
    return width
