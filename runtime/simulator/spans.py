"""Sets of whole numbers that come in runs, as their edges: (a, b, c, d) holds a to b - 1 and c to d - 1. Numbers that follow each other cost
nothing, and most do: operations are numbered as they are issued, and soon all but the latest have ended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

Spans = tuple[int, ...]
NONE: Spans = ()


def span(first: int, count: int = 1) -> Spans:
    """`count` numbers from `first` on."""
    return (first, first + count)


def holds(spans: Spans, number: int) -> bool:
    """Is the number in the set?"""
    return bisect_right(spans, number) % 2 == 1


def united(parts: Iterable[Spans]) -> Spans:
    """The numbers that are in any of the sets."""
    distinct = list({part: None for part in parts if part})
    if len(distinct) < 2:
        return distinct[0] if distinct else NONE
    edges: list[int] = []
    for low, high in sorted((part[k], part[k + 1]) for part in distinct for k in range(0, len(part), 2)):
        if edges and low <= edges[-1]:
            edges[-1] = max(edges[-1], high)
        else:
            edges += (low, high)
    return tuple(edges)
