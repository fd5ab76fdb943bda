"""Layouts: which place of which memory, thread or device holds each element of an array."""

from symbolic.layout.axes import (
    AXES,
    Axis,
    Bank,
    F,
    P,
    TCol,
    TLane,
    bx,
    by,
    bz,
    cbx,
    cby,
    cbz,
    laneid,
    m,
    new_axis,
    pid,
    tid_in_wg,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import Iter, R, S
from symbolic.layout.tile import TileLayout
