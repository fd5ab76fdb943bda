"""Axes: what a coordinate of a layout counts, and where it lives.

A memory axis counts elements or cells of a storage. A thread or device axis counts units of one kind inside a larger one:
`laneid` counts threads inside a warp. The pair is what scopes are chained by, see `TileLayout.scope`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from symbolic.layout.errors import LayoutError

MEMORY, THREAD, DEVICE = "memory", "thread", "device"


@dataclass(frozen=True)
class Axis:
    """`name` as it prints; `kind` is "memory", "thread" or "device"; `unit` is what it counts, `scope` in which it counts.

    A memory axis has the same word for both: the memory. `4 @ laneid` is a stride of 4 along this axis.
    """

    name: str
    kind: str
    unit: str
    scope: str

    @property
    def is_memory(self) -> bool:
        return self.kind == MEMORY

    def __rmatmul__(self, value: Any) -> Any:
        from symbolic.layout.notation import Strided
        return Strided(value, self)

    def __repr__(self) -> str:
        return self.name


_ROWS: Final = (
    # name        kind    counts       within        what
    ("m",         MEMORY, "element",   "element"),   # elements of a buffer: shared, global, local, registers
    ("TLane",     MEMORY, "tmem",      "tmem"),      # lanes (rows) of tensor memory, 128 of them
    ("TCol",      MEMORY, "tmem",      "tmem"),      # columns of tensor memory, 512 of 32 bits
    ("P",         MEMORY, "sbuf",      "sbuf"),      # partitions of a systolic array's buffer
    ("F",         MEMORY, "sbuf",      "sbuf"),      # the free dimension within a partition
    ("Bank",      MEMORY, "psum",      "psum"),      # banks of its accumulator memory
    ("laneid",    THREAD, "thread",    "warp"),
    ("tid_in_wg", THREAD, "thread",    "warpgroup"),
    ("tx",        THREAD, "thread",    "cta"),
    ("wid_in_wg", THREAD, "warp",      "warpgroup"),
    ("warpid",    THREAD, "warp",      "cta"),
    ("wgid",      THREAD, "warpgroup", "cta"),
    ("cbx",       THREAD, "cta",       "cluster"),
    ("cby",       THREAD, "cta",       "cluster"),
    ("cbz",       THREAD, "cta",       "cluster"),
    ("bx",        THREAD, "cta",       "grid"),
    ("by",        THREAD, "cta",       "grid"),
    ("bz",        THREAD, "cta",       "grid"),
    ("pid",       DEVICE, "grid",      "mesh"),      # the device, in a mesh of devices
)

AXES: Final[dict[str, Axis]] = {row[0]: Axis(*row) for row in _ROWS}
THREADS_IN: Final = {"thread": 1, "warp": 32, "warpgroup": 128}

m, TLane, TCol, P, F, Bank = (AXES[n] for n in ("m", "TLane", "TCol", "P", "F", "Bank"))
laneid, tid_in_wg, tx = (AXES[n] for n in ("laneid", "tid_in_wg", "tx"))
wid_in_wg, warpid, wgid = (AXES[n] for n in ("wid_in_wg", "warpid", "wgid"))
cbx, cby, cbz, bx, by, bz, pid = (AXES[n] for n in ("cbx", "cby", "cbz", "bx", "by", "bz", "pid"))


def new_axis(name: str, kind: str = DEVICE, unit: str = "grid", scope: str = "mesh") -> Axis:
    """An axis of your own: `gpuid = new_axis("gpuid")`. Raises LayoutError for a name that is taken by a different axis."""
    made = Axis(name, kind, unit, scope)
    if not name.isidentifier() or kind not in (MEMORY, THREAD, DEVICE) or AXES.setdefault(name, made) != made:
        raise LayoutError(f"{made!r} of kind {kind} is no new axis: a name is an identifier that no other axis has, a kind one of "
                          f"{MEMORY}, {THREAD}, {DEVICE}")
    return AXES[name]


def axis(name: Axis | str) -> Axis:
    """The axis of this name. Raises LayoutError for an unknown one: a misspelt axis must not become a new kind of place."""
    if isinstance(name, Axis):
        return name
    found = AXES.get(name)
    if found is None:
        raise LayoutError(f"there is no axis {name!r}; the axes are {', '.join(AXES)}; new_axis({name!r}) makes one")
    return found


def axis_between(unit: str, scope: str) -> Axis | None:
    """The one axis that counts `unit`s within a `scope`, if there is one and it is not one of three (bx, by, bz)."""
    found = [a for a in AXES.values() if (a.unit, a.scope) == (unit, scope) and a.kind == THREAD]
    return found[0] if len(found) == 1 else None
