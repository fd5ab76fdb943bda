"""The recorded program: nodes in nested regions, buffers over storages, and the function that holds them. No behaviour.

A `Node` is one SSA value or one statement. Its operands are nodes; everything static (a buffer, a kind, a constant's value)
stands in `attrs`. Control flow nests: an `if` node owns two regions, a loop owns its body and the variable it defines.

An integer or bool node also carries `sym`, its value as exact mathematics over *atoms* (`symbolic.integers.Symbol`): the
hardware indices, the extents, loop variables, and every value that the algebra cannot see through (a load, a wrapped sum).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from symbolic.integers import Int
from tracer.dtypes import DType
from tracer.operations import LEAVING, Operation


class Location(NamedTuple):
    """The Python line that made a node."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """`kernel.py:12`: the same on every machine, so it is what goes into emitted source."""
        return f"{os.path.basename(self.file)}:{self.line}"


@dataclass(eq=False, slots=True)
class Region:
    """A block of statements. `arguments` are values that it defines on entry (a loop's variable); `result` is what it yields."""

    nodes: list[Node] = field(default_factory=list)
    arguments: tuple[Node, ...] = ()
    result: Node | None = None

    @property
    def leaves(self) -> bool:
        """True where control never comes out at the end: it breaks, continues or returns there."""
        return bool(self.nodes) and self.nodes[-1].op in LEAVING

    def walk(self) -> Iterator[Node]:
        """Every node of this region and of those nested in it, in program order, a parent before its regions."""
        for node in self.nodes:
            yield node
            for region in node.regions:
                yield from region.walk()


@dataclass(eq=False, slots=True)
class Node:
    """One operation: what it does (`op`), on what (`operands`, `attrs`), giving what (`dtype`, None for a statement).

    Leaves (`const`, `scalar`, `extent`, `thread_index`, `block_index`, `scope_id`, `loop_var`) stand in no region's list:
    they are there from the start of the function or of their loop.
    """

    op: Operation
    operands: tuple[Node, ...]
    dtype: DType | None
    attrs: dict[str, Any]
    regions: tuple[Region, ...] = ()
    location: Location | None = None
    name: str | None = None     # the author's variable, where one was seen
    sym: Int | None = None      # integer and bool values: the value over atoms
    parent: Region | None = None

    def __repr__(self) -> str:
        shown = [repr(o) if o.op.name == "const" else o.name or o.op.name for o in self.operands]
        extra = [f"{k}={v!r}" for k, v in self.attrs.items()]
        return f"<{self.name or self.op.name}: {self.op.name}({', '.join(shown + extra)})>"


@dataclass(eq=False, slots=True)
class Storage:
    """Memory that buffers look at: a parameter's, or that of one allocation.

    `size` counts elements of `dtype` (for a parameter: what its buffer's layout spans, from `elem_offset` 0 on);
    `parameter` is the index of the kernel parameter, None for an allocation.
    """

    name: str
    dtype: DType
    scope: str
    size: Int
    align: int
    parameter: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A part of `base`: along each of its axes the coordinate where it starts; `kept` are the axes that remain."""

    base: Buffer
    start: tuple[Int, ...]
    kept: tuple[int, ...]

    def coordinates(self, coords: Sequence[Int]) -> tuple[Int, ...]:
        """The coordinates in `base` of those in the window."""
        shifted = list(self.start)
        for axis, coord in zip(self.kept, coords):
            shifted[axis] = shifted[axis] + coord
        return tuple(shifted)


@dataclass(eq=False, slots=True)
class Buffer:
    """Logical coordinates over a storage: address = storage + elem_offset + layout(coordinates).

    `layout` is None for dense row-major; `elem_offset` counts elements of `dtype`, which may differ from the storage's. `cell`
    marks the one-element buffer behind a mutable scalar, `window` a part of another buffer.
    """

    name: str
    shape: tuple[Int, ...]
    dtype: DType
    scope: str
    layout: Any
    elem_offset: Int
    storage: Storage
    align: int | None = None
    cell: bool = False
    window: Window | None = None
    location: Location | None = None


@dataclass(eq=False, slots=True)
class TensorMap:
    """What the copy engine is told of the array behind `buffer`: it moves boxes of `box` elements, of which every
    `element_strides`-th is taken, all in the order of the buffer's axes.

    `swizzle` is "none", "32B", "64B" or "128B", `l2_promotion` "none", "64B", "128B" or "256B", `oob_fill` "zeros" or "nan".
    """

    buffer: Buffer
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    l2_promotion: str
    oob_fill: str

    @property
    def moved(self) -> tuple[int, ...]:
        """How many elements along each axis one copy moves."""
        return tuple(-(-size // step) for size, step in zip(self.box, self.element_strides))


@dataclass(eq=False, slots=True)
class Parameter:
    """One argument of the call: `kind` is "buffer" (T.Buffer), "handle" (bound by match_buffer) or "scalar".

    `buffer` is what it was bound to (None: a handle that nothing uses); `node` the scalar's value.
    """

    name: str
    kind: str
    dtype: DType
    buffer: Buffer | None = None
    node: Node | None = None
    location: Location | None = None


class Extents(tuple[Any, ...]):
    """Up to three launch extents. Missing ones are 1, as in CUDA's `dim3`: `Extents((256,)) == (256, 1, 1)`."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            return NotImplemented
        return _without_trailing_ones(self) == _without_trailing_ones(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(_without_trailing_ones(self))


def _without_trailing_ones(extents: tuple[Any, ...]) -> tuple[Any, ...]:
    end = len(extents)
    while end and extents[end - 1] == 1:
        end -= 1
    return tuple(extents[:end])


@dataclass(eq=False, slots=True)
class Launch:
    """How the kernel is launched: `Int` extents over the function's extents and scalar parameters."""

    grid: tuple[Int, ...] = ()
    block: tuple[Int, ...] = ()
    cluster: tuple[Int, ...] | None = None
    preferred_cluster: tuple[Int, ...] | None = None
    dynamic_shared_bytes: Int | None = None
    grid_asked: bool = False      # False: no cta_id was declared, the grid is one block


@dataclass(eq=False, slots=True)
class Function:
    """A traced function. `host` holds what was written before `T.device_entry()`, `device` what came after.

    `atoms` maps each symbol that occurs in a `sym`, a shape or a launch extent to the node it stands for;
    `assumptions` are the relations of `T.assume`, each with its line; `assumed_exact` are the integer nodes whose dtype could
    overflow for some extents and that were taken to be exact: the launcher and the simulator check them. `overflowing` are
    those that leave their dtype for some thread at every launch, with the range they would need: they wrap, and may not be
    part of an index.
    """

    name: str
    parameters: list[Parameter]
    host: Region
    device: Region
    launch: Launch
    extents: list[Node] = field(default_factory=list)
    scope_ids: list[Node] = field(default_factory=list)
    atoms: dict[Int, Node] = field(default_factory=dict)
    assumptions: list[tuple[Node, Location | None]] = field(default_factory=list)
    assumed_exact: list[Node] = field(default_factory=list)
    overflowing: dict[Node, tuple[int | None, int | None]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    location: Location | None = None
