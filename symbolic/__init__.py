"""Integer expressions, what is known of them, and their simplest form. Nothing here knows of kernels.

The SymPy functions (FloorDiv, Xor, ..., `to_sympy`, `from_sympy`) are loaded when they are first asked for: SymPy takes longer
to import than all the rest.
"""

from typing import Any

from symbolic.evaluate import evaluate
from symbolic.facts import Facts
from symbolic.integers import (
    Int,
    Symbol,
    absolute,
    bitand,
    bitnot,
    bitor,
    bitxor,
    const,
    eq,
    floordiv,
    floormod,
    free_symbols,
    ge,
    gt,
    is_const,
    land,
    le,
    lnot,
    lor,
    lt,
    maximum,
    minimum,
    named,
    ne,
    operations_count,
    select,
    shl,
    shr,
    substitute,
    to_int,
    truncdiv,
    truncmod,
)
from symbolic.layout import (
    AXES,
    Axis,
    Bank,
    BankConflicts,
    ComposeLayout,
    CuteLayout,
    F,
    Fragment,
    Inverse,
    Iter,
    LayoutError,
    LinearLayout,
    P,
    R,
    S,
    Swizzle,
    TCol,
    TileLayout,
    TLane,
    bank_conflicts,
    bx,
    by,
    bz,
    cbx,
    cby,
    cbz,
    fragment,
    from_cute,
    from_linear,
    get_swizzle_mode,
    laneid,
    m,
    mma_shared_layout,
    new_axis,
    pid,
    tcgen05_atom_layout,
    tid_in_wg,
    tmem_datapath_layout,
    tmem_registers,
    tx,
    warpid,
    wg_local_layout,
    wgid,
    wgmma_accumulator,
    wid_in_wg,
)
from symbolic.simplify import simplify
from symbolic.solve import Solution, solve
from symbolic.text import Printer, text

_BRIDGE = (
    "Abs", "And", "BitAnd", "BitOr", "Equal", "FloorDiv", "FloorMod", "IntegerFunction", "Less", "LessEqual", "Max",
    "Min", "NotEqual", "Or", "Select", "Shl", "Shr", "TruncDiv", "TruncMod", "Xor", "from_sympy", "to_sympy",
)


def __getattr__(name: str) -> Any:
    if name in _BRIDGE:
        from symbolic import sympy_bridge
        return getattr(sympy_bridge, name)
    raise AttributeError(f"module 'symbolic' has no attribute {name!r}")


__all__ = [
    "Facts", "Int", "Printer", "Solution", "Symbol", "absolute", "bitand", "bitnot", "bitor", "bitxor", "const", "eq",
    "evaluate", "floordiv", "floormod", "free_symbols", "ge", "gt", "is_const", "land", "le", "lnot", "lor", "lt",
    "maximum", "minimum", "named", "ne", "operations_count", "select", "shl", "shr", "simplify", "solve",
    "substitute", "text", "to_int", "truncdiv", "truncmod",
    "AXES", "Axis", "Bank", "BankConflicts", "ComposeLayout", "CuteLayout", "F", "Fragment", "Inverse", "Iter",
    "LayoutError", "LinearLayout", "P", "R", "S", "Swizzle", "TCol", "TLane", "TileLayout", "bank_conflicts", "bx",
    "by", "bz", "cbx", "cby", "cbz", "fragment", "from_cute", "from_linear", "get_swizzle_mode", "laneid", "m",
    "mma_shared_layout", "new_axis", "pid", "tcgen05_atom_layout", "tid_in_wg", "tmem_datapath_layout",
    "tmem_registers", "tx", "warpid", "wg_local_layout", "wgid", "wgmma_accumulator", "wid_in_wg",
    *_BRIDGE,
]
