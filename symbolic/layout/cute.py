"""CuTe's `(shape):(stride)`: nested modes, the leftmost fastest within a dimension.

A top-level mode is a dimension here. Where it is nested, CuTe counts its sub-modes from the left, this package its iters from
the right; the coordinates of the dimensions are the same. A linear index is not: CuTe's runs through the leftmost dimension
first, this package's through the last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from symbolic.layout.axes import Axis, axis
from symbolic.layout.digits import check_size
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter, Spec
from symbolic.layout.tile import TileLayout
from symbolic.layout.values import NOTHING_KNOWN, product, read, sympy_symbols, write


class CuteLayout(NamedTuple):
    """`shape` and `stride`: ints, or equally nested tuples of them. Its text is CuTe's, `((2,4),8):((1,16),2)`."""

    shape: Any
    stride: Any

    def __str__(self) -> str:
        return f"{_text(self.shape)}:{_text(self.stride)}"


def _text(x: Any) -> str:
    return f"({','.join(map(_text, x))})" if isinstance(x, (tuple, list)) else str(x)


def from_cute(shape: Any, stride: Any = None, along: Axis | str = "m") -> TileLayout:
    """The layout that `apply(i, j, ..., shape=...)` sends where CuTe sends (i, j, ...), along one axis.

    `shape` and `stride` are ints or nested tuples, or one string holds both: `from_cute("((2,4),8):((1,16),2)")`. Without strides,
    CuTe's compact ones, the leftmost mode dense. Raises LayoutError when the two are not nested alike.
    """
    if isinstance(shape, str):
        shape, stride = _parse(shape)
    if stride is None:
        stride = _compact(shape, 1)[0]
    if not _alike(shape, stride):
        raise LayoutError(f"shape {_text(shape)} and stride {_text(stride)} are not nested alike")
    modes = zip(shape, stride) if isinstance(shape, (tuple, list)) else [(shape, stride)]
    where = axis(along)
    iters = [Iter(read(e, "an extent"), read(s, "a stride"), where) for mode in modes for e, s in reversed(list(zip(*map(_flat, mode))))]
    return TileLayout(Spec(tuple(iters), symbols=sympy_symbols([*_flat(shape), *_flat(stride)])))


def to_cute(layout: TileLayout, shape: Sequence[Any] | None = None) -> CuteLayout:
    """See `TileLayout.to_cute`. Raises LayoutError for several axes, copies, or an offset, which this notation cannot say."""
    if len({i.axis for i in layout.shard}) > 1 or layout.replica or layout.offset:
        raise LayoutError(f"{layout.notation()} has several axes, copies or an offset, which (shape):(stride) cannot say")
    if shape is None:
        groups = [[i] for i in layout.shard]
    else:
        dims = tuple(read(e, "an extent of shape") for e in shape)
        check_size(product(i.extent for i in layout.shard), dims, layout.notation(), NOTHING_KNOWN)
        grouped, seps = layout.canonicalize().group(dims)
        groups = [list(grouped.shard[lo:hi]) for lo, hi in zip(seps, seps[1:])]

    def mode(numbers: list[Any]) -> Any:
        written = [write(x, layout._symbols) for x in reversed(numbers)]
        return written[0] if len(written) == 1 else tuple(written)

    extents, strides = [mode([i.extent for i in g]) for g in groups], [mode([i.stride for i in g]) for g in groups]
    return CuteLayout(extents[0], strides[0]) if [len(g) for g in groups] == [1] else CuteLayout(tuple(extents), tuple(strides))


def _parse(source: str) -> tuple[Any, Any]:
    """Shape and stride; parentheses always nest, `(4)` being a mode of one; CuTe's static `_4` is 4."""
    parts = source.replace("_", "").replace("(", "[").replace(")", "]").split(":")
    if len(parts) != 2:
        raise LayoutError(f"{source!r} is not (shape):(stride)")
    try:
        shape, stride = (_tuples(json.loads(p)) for p in parts)
    except ValueError:
        raise LayoutError(f"{source!r} is not (shape):(stride), with integers") from None
    return shape, stride


def _tuples(x: Any) -> Any:
    return tuple(map(_tuples, x)) if isinstance(x, list) else x


def _flat(x: Any) -> list[Any]:
    return [y for part in x for y in _flat(part)] if isinstance(x, (tuple, list)) else [x]


def _alike(shape: Any, stride: Any) -> bool:
    if isinstance(shape, (tuple, list)) != isinstance(stride, (tuple, list)):
        return False
    return not isinstance(shape, (tuple, list)) or len(shape) == len(stride) and all(map(_alike, shape, stride))


def _compact(shape: Any, step: Any) -> tuple[Any, Any]:
    """Strides with the leftmost mode dense, and the step after them."""
    if not isinstance(shape, (tuple, list)):
        return step, step * shape
    strides = []
    for part in shape:
        s, step = _compact(part, step)
        strides.append(s)
    return tuple(strides), step
