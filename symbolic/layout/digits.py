"""How a coordinate becomes digits: one per shard iter.

A layout flattens its coordinate row-major and splits it over the extents of its iters. Where extents and shape have a boundary
in common, flattening and splitting cancel there, and the expressions stay small: the plan finds those boundaries once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from symbolic.facts import Facts
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter, notation
from symbolic.layout.values import NOTHING_KNOWN, Value, divides, product, quotient, same, show, simple

Shape = tuple[Value, ...]


def group(iters: Sequence[Iter], shape: Shape, facts: Facts = NOTHING_KNOWN) -> tuple[list[Iter], list[int]]:
    """The iters split so that each dimension of `shape` has its own: (iters, seps), dimension d owning iters[seps[d]:seps[d+1]].

    Walks outermost first. When the extents so far are a multiple `c` of the dimension, the last iter is cut at `c`: its outer
    part ends this dimension, its inner part begins the next. Unit iters that end no dimension are dropped. Raises
    LayoutError where a boundary falls inside an extent.
    """
    def refuse(why: str) -> LayoutError:
        return LayoutError(f"{notation(tuple(iters), (), ())} is not grouped by {show(tuple(shape))}: {why}")

    made: list[Iter] = []
    seps = [0]
    so_far: Value = 1
    for it in iters:
        extent, stride = it.extent, it.stride
        so_far = simple(so_far * extent, facts)
        while len(seps) <= len(shape) and divides(shape[len(seps) - 1], so_far, facts):
            inner = quotient(so_far, shape[len(seps) - 1], facts)
            if not divides(inner, extent, facts):
                raise refuse(f"extent {extent} does not split at {inner}")
            made.append(Iter(quotient(extent, inner, facts), simple(stride * inner, facts), it.axis))
            seps.append(len(made))
            extent = so_far = inner
        if not same(extent, 1, facts):
            if len(seps) > len(shape):
                raise refuse("the layout is larger")
            made.append(Iter(extent, stride, it.axis))
    if len(seps) <= len(shape):
        d = len(seps) - 1
        raise refuse(f"dimension {d} of extent {shape[d]} has no boundary among the extents")
    return made, seps


@dataclass(frozen=True)
class Block:
    """Dimensions and iters between two common boundaries; `seps` groups the iters by dimension where they can be grouped."""

    dims: tuple[int, ...]
    iters: tuple[Iter, ...]
    seps: tuple[int, ...] | None


def blocks(iters: tuple[Iter, ...], shape: Shape, facts: Facts) -> list[Block]:
    """The finest cut of iters and shape, of one total size, at boundaries that both have."""
    made = []
    k = d = 0
    while d < len(shape):
        first_iter, first_dim = k, d
        a: Value = 1
        b = shape[d]
        d += 1
        while not same(a, b, facts):
            if k < len(iters) and _goes_first(a, b, facts):
                a = simple(a * iters[k].extent, facts)
                k += 1
            elif d < len(shape) and _goes_first(b, a, facts):
                b = simple(b * shape[d], facts)
                d += 1
            else:                                   # no further boundary is provably common
                k, d = len(iters), len(shape)
                break
        made.append(_block(tuple(range(first_dim, d)), iters[first_iter:k], shape, facts))
    return made


def _goes_first(a: Value, b: Value, facts: Facts) -> bool:
    if a.__class__ is int and b.__class__ is int:
        return bool(a < b)
    return a.__class__ is int or divides(a, b, facts) is True


def _block(dims: tuple[int, ...], iters: tuple[Iter, ...], shape: Shape, facts: Facts) -> Block:
    try:
        grouped, seps = group(iters, tuple(shape[d] for d in dims), facts)
    except LayoutError:                             # digits of the flattened coordinate then
        return Block(dims, iters, None)
    return Block(dims, tuple(grouped), tuple(seps))


@lru_cache(maxsize=4096)
def _known_blocks(iters: tuple[Iter, ...], shape: Shape) -> list[Block]:
    return blocks(iters, shape, NOTHING_KNOWN)


def digits(iters: tuple[Iter, ...], coords: Sequence[Any], shape: Shape, facts: Facts) -> list[tuple[Iter, Any]]:
    """Pairs (iter, digit): what `coords` in `shape` is along each iter, some of them split. Sizes must be equal.

    The outermost digit of a dimension is not reduced modulo its extent.
    """
    known = all(x.__class__ is int for x in (*shape, *(i.extent for i in iters)))
    made: list[tuple[Iter, Any]] = []
    for block in _known_blocks(iters, shape) if known else blocks(iters, shape, facts):
        if block.seps is None:
            flat: Any = 0
            for d in block.dims:
                flat = flat * shape[d] + coords[d]
            made += split(block.iters, flat)
        else:
            for d, lo, hi in zip(block.dims, block.seps, block.seps[1:]):
                made += split(block.iters[lo:hi], coords[d])
    return made


def split(iters: Sequence[Iter], x: Any) -> list[tuple[Iter, Any]]:
    """`x` in the mixed radix of the extents, outermost digit first and unreduced."""
    made = []
    for it in reversed(iters[1:]):
        made.append((it, x % it.extent))
        x = x // it.extent
    return [*([(iters[0], x)] if iters else []), *reversed(made)]


def check_size(have: Value, shape: Shape, what: str, facts: Facts) -> None:
    """Raises LayoutError unless the product of `shape` is `have`."""
    total = product(shape)
    equal = same(have, total, facts)
    if equal is None:
        raise LayoutError(f"{what} has {have} elements and shape {show(tuple(shape))} has {total}: whether they are equal is not known; pass facts=")
    if not equal:
        raise LayoutError(f"{what} has {have} elements, but shape {show(tuple(shape))} has {total}")

