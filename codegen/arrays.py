"""What array a buffer parameter takes: the shape, strides and elements that its layout needs of it.

An array of a vector dtype is one of scalars whose last axis holds the lanes: `(n,)` of float32x4 takes a float32 array `(n, 4)`.
Strides, offsets and sizes here count those scalars, as the arrays' own do.

An array is taken whose strides are the layout's, where the layout has one stride for each axis; or, for any layout, a compact
row-major array that holds all elements the layout reaches: its memory is then what the layout divides up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from tracer.addressing import axis_strides, first_element, product, row_major, span
from tracer.dtypes import DType
from tracer.ir import Buffer


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """The array for one parameter.

    `strides` are those that the layout asks for, None where it has no single one for each axis; `compact` those of a row-major
    array. The first element lies `offset` into the storage; the layout reaches `reach` elements from there, and the shape
    has `count`. `fits`: whether a compact array holds what the layout reaches, None where only the call tells.
    """

    dtype: DType
    shape: tuple[Int, ...]
    strides: tuple[Int, ...] | None
    compact: tuple[Int, ...]
    offset: Int
    reach: Int
    count: Int
    fits: bool | None
    layout: Any

    @property
    def is_dense(self) -> bool:
        """Only a compact row-major array is taken, and nothing else need be said of it."""
        return self.strides is not None and self.strides == self.compact

    @property
    def size(self) -> Int:
        """Elements of the storage, from its first one on."""
        return self.offset + self.reach


def array_form(buffer: Buffer) -> ArrayForm:
    """The array that the parameter's buffer stands for."""
    lanes = buffer.dtype.lanes
    vector = (si.const(lanes),) if lanes > 1 else ()
    shape = (*buffer.shape, *vector)
    steps = axis_strides(buffer.shape, buffer.layout)
    strides = None if steps is None else (*(step * lanes for step in steps), *(si.const(1) for _ in vector))
    first = first_element(buffer)
    reach, count = (buffer.elem_offset + span(buffer.shape, buffer.layout) - first) * lanes, product(shape)
    fits = True if buffer.layout is None else _positive(buffer.shape).prove(si.le(reach, count))
    return ArrayForm(buffer.dtype.scalar, shape, strides, tuple(row_major(shape)), first * lanes, reach, count, fits, buffer.layout)


def _positive(shape: tuple[Int, ...]) -> Facts:
    """That no extent is 0: an empty array fits everything."""
    facts = Facts()
    for size in shape:
        facts.assume(si.ge(size, si.const(1)))
    return facts
