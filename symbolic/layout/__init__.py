"""Layouts: which place of which memory, thread or device holds each element of an array.

    L = TileLayout(S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid)
    L.apply(i, j, shape=(8, 16))       where an element is
    L.inverse()                        which element is somewhere
    L.svg((8, 16))                     a picture

`docs/layouts.md` is the guide. Pictures and the page (`python -m symbolic.layout`) are loaded when they are first asked for.
"""

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
from symbolic.layout.banks import BankConflicts, bank_conflicts
from symbolic.layout.cute import CuteLayout, from_cute
from symbolic.layout.errors import LayoutError
from symbolic.layout.fragments import (
    FRAGMENTS,
    TMEM_SHAPES,
    Fragment,
    fragment,
    matrix_addresses,
    tcgen05_atom_layout,
    tmem_registers,
    wg_local_layout,
    wgmma_accumulator,
)
from symbolic.layout.inverse import Inverse
from symbolic.layout.linear import LinearLayout, from_linear
from symbolic.layout.notation import Iter, R, S
from symbolic.layout.shared import SWIZZLE_MODES, get_swizzle_mode, mma_atom, mma_shared_layout, swizzle_mode
from symbolic.layout.swizzle import ComposeLayout, Layout, Swizzle
from symbolic.layout.tile import TileLayout
from symbolic.layout.tmem import DATAPATHS, tmem_datapath_layout

__all__ = [
    "AXES", "Axis", "Bank", "BankConflicts", "ComposeLayout", "CuteLayout", "DATAPATHS", "F", "FRAGMENTS", "Fragment", "Inverse", "Iter",
    "Layout", "LayoutError", "LinearLayout", "P", "R", "S", "SWIZZLE_MODES", "Swizzle", "TCol", "TLane", "TMEM_SHAPES", "TileLayout",
    "bank_conflicts", "bx", "by", "bz", "cbx", "cby", "cbz", "fragment", "from_cute", "from_linear", "get_swizzle_mode", "laneid", "m",
    "matrix_addresses", "mma_atom", "mma_shared_layout", "new_axis", "pid", "swizzle_mode", "tcgen05_atom_layout", "tid_in_wg",
    "tmem_datapath_layout", "tmem_registers", "tx", "warpid", "wg_local_layout", "wgid", "wgmma_accumulator", "wid_in_wg",
]
