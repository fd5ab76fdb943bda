"""The golden layouts: how a record of the data is asked and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from symbolic.layout import LayoutError, TileLayout, new_axis
from symbolic.layout.fragments import tcgen05_atom_layout, wg_local_layout
from symbolic.layout.shared import get_swizzle_mode, mma_atom, mma_shared_layout
from symbolic.layout.swizzle import ComposeLayout, Swizzle
from symbolic.layout.tmem import tmem_datapath_layout

DATA = Path(__file__).parent.parent / "data" / "layout"
Record = dict[str, Any]

new_axis("gpuid")           # the data names an axis of its own


def records(name: str) -> list[Record]:
    found: list[Record] = json.loads((DATA / f"{name}.json").read_text())["records"]
    return found


def layout_of(r: Record) -> Any:
    """The layout that a record's fields write down."""
    tile = TileLayout.from_iters(r["shard"], r["replica"], r["offset"])
    return ComposeLayout(*r["swizzle"][:3], tile, r["swizzle"][3]) if r.get("swizzle") else tile


def same_map(a: Any, b: Any) -> bool:
    """Equal up to how it is written."""
    return bool(a == b or a.canonicalize() == b.canonicalize())


def refused(ask: Any) -> bool:
    """Whether it raises LayoutError, with a message."""
    try:
        ask()
    except LayoutError as error:
        assert str(error)
        return True
    return False


# ---- layout_apply ------------------------------------------------------------------------------------------------------

def coordinates(r: Record) -> list[Any]:
    """One array for each dimension."""
    if r["all"]:
        return [g.ravel() for g in np.meshgrid(*[np.arange(e) for e in r["shape"]], indexing="ij")]
    return list(np.array(r["coords"]).T)


def check_apply(r: Record) -> list[str]:
    """What differs from the record: the values, the axes, sizes, spans."""
    layout = layout_of(r)
    wrong = []
    try:
        place = layout.apply(*coordinates(r), shape=r["shape"])
    except LayoutError as error:
        return [f"refused: {error}"]
    want = {axis: np.array(r["values"])[:, k] for k, axis in enumerate(r["axes"])}
    # Whether an axis along which nothing moves is named at all differs from path to path in the reference; it is 0 either way.
    wrong += [f"values along {axis}" for axis in sorted({*want, *place})
              if not np.array_equal(np.broadcast_to(place.get(axis, 0), len(r["values"])), want.get(axis, np.zeros(len(r["values"]))))]
    if layout.size() != r["size"]: wrong.append("size")
    wrong += [f"size {axis}" for axis, size in r["size_axis"].items() if layout.size(axis) != size]
    if layout.span() != r["span"]: wrong.append(f"span {layout.span()} for {r['span']}")
    wrong += [f"span {axis} {layout.span(axis)} for {span}" for axis, span in r["span_axis"].items() if layout.span(axis) != span]
    return wrong


# ---- layout_ops --------------------------------------------------------------------------------------------------------

def ask(r: Record) -> Any:
    """The answer to an operation of layout_ops."""
    op = r["op"]
    if op == "ComposeLayout_ctor":
        return ComposeLayout(*r["params"], TileLayout.from_iters([(512, 1, "m")]))
    a = layout_of(r["layout"])
    match op:
        case "canonicalize": return (a.widen_threads() if "target" in r else a).canonicalize()
        case "group": return a.group(r["shape"])
        case "group_many": return a.group_many(r["shapes"])
        case "tile": return a.tile(layout_of(r["outer"]), r["outer_shape"], r["inner_shape"])
        case "tile_to": return a.tile_to(r["to_shape"], r["current_shape"])
        case "is_tile_inner": return a.is_tile_inner(layout_of(r["tile_layout"]), r["tiled_shape"], r["inner_shape"])
        case "is_tile_outer": return a.is_tile_outer(layout_of(r["tile_layout"]), r["tiled_shape"], r["outer_shape"])
        case "direct_sum": return a.direct_sum(layout_of(r["left"]), r["left_shape"], r["right_shape"])
        case "is_direct_sum_right": return a.is_direct_sum_right(layout_of(r["sum_layout"]), r["interleaved_shape"], r["right_shape"])
        case "is_direct_sum_left": return a.is_direct_sum_left(layout_of(r["sum_layout"]), r["interleaved_shape"], r["left_shape"])
        case "slice": return a.slice(r["shape"], r["region_begin_end"])
        case "permute_dims": return a.permute_dims(r["perm"])
        case "permute_by_groups": return a.permute_by_groups(r["seps"], r["perm"])
        case "pack": return a.pack(r["num"])
        case "unpack": return a.unpack(r["num"])
        case "broadcast": return a.broadcast(r["num"], r["position"], r["axis"])
        case "storage": return a.storage()
        case "get_scope": return a.get_scope()
        case "verify_well_formed": return a.is_well_formed()
        case "is_trivial": return a.is_trivial()
        case "apply_linear": return [a.apply(c) for c in r["coords"]]
        case "apply_shard_coords": return a.apply(*r["coord"])
        case "apply_to_shape": return a.digits(*r["coord"], shape=r["shape"])
    raise KeyError(op)


def check_op(r: Record) -> str:
    """Empty when the answer is the record's, else what it is instead."""
    try:
        got = ask(r)
    except LayoutError as error:
        return "" if "error" in r or r["out"] is None and r["op"] != "get_scope" else f"refused: {error}"
    if "error" in r or r["out"] is None and r["op"] != "get_scope":
        return f"answered: {got}"
    want = r["out"]
    if isinstance(want, dict) and "shard" in want:
        if "seps" in want:
            layout, seps = got
            return "" if seps == want["seps"] and same_map(layout, layout_of(want)) else f"answered: {got}"
        return "" if same_map(got, layout_of(want)) else f"answered: {got}"
    if isinstance(got, tuple):
        got = list(got)
    return "" if got == want else f"answered: {got}"


# ---- swizzle -----------------------------------------------------------------------------------------------------------

def check_swizzle(r: Record) -> str:
    """Empty when the record is reproduced, else what is instead."""
    kind = r["kind"]
    if kind == "raw":
        at = np.arange(r["n"]) if r["addr"] is None else np.array(r["addr"])
        got = Swizzle(r["per_element"], r["swizzle_len"], r["atom_len"], r["swizzle_inner"])(at)
        return "" if got.tolist() == r["out"] else "values"
    if kind == "compose":
        tile = TileLayout.from_iters([(e, s, "m") for e, s in r["shard"]])
        layout = ComposeLayout(r["per_element"], r["swizzle_len"], r["atom_len"], tile, r["swizzle_inner"])
        got = layout.apply(*np.array(r["coords"]).T, shape=r["shape"])["m"]
        return "" if got.tolist() == r["out"] else "values"
    if kind == "atom":
        atom = mma_atom(r["dtype"], r["mode"])
        ok = same_map(atom, layout_of(r)) and atom.size() == r["period"] == np.prod(r["atom_shape"])
        return "" if ok else f"answered: {atom}"
    if kind == "get_swizzle_mode":
        layout = ComposeLayout(*r["params"][:3], TileLayout.from_iters([(512, 1, "m")]), r["params"][3])
        if "error" in r:
            return "" if refused(lambda: get_swizzle_mode(layout)) else "answered"
        return "" if r["mode"] == f"SWIZZLE_{get_swizzle_mode(layout)}_ATOM" else "mode"
    if kind == "compose_nonmemory_axis":
        return "" if refused(lambda: ComposeLayout(3, 3, 3, TileLayout.from_iters([(8, 1, "laneid"), (64, 1, "m")]))) else "answered"
    try:
        layout = mma_shared_layout(r["dtype"], r["mode"], r["shape"])
    except LayoutError as error:
        return "" if "error" in r else f"refused: {error}"
    if "error" in r:
        return f"answered: {layout}"
    got = layout.apply(*np.array(r["coords"]).T, shape=r["shape"])["m"]
    ok = same_map(layout, layout_of(r["layout"])) and got.tolist() == r["elem_offset"] and (layout.size(), layout.span()) == (r["size"], r["span"])
    return "" if ok else f"answered: {layout}"


# ---- pools -------------------------------------------------------------------------------------------------------------

def check_pool(r: Record) -> str:
    """Empty when a record of tensor memory, registers, or one MMA allocation of a pool is reproduced."""
    kind = r["kind"]
    make = {
        "tmem_datapath": lambda: tmem_datapath_layout(r["datapath"], r["rows"], r["cols"], r["sub_slab"]),
        "tcgen05_atom": lambda: tcgen05_atom_layout(r["instr_shape"], tuple(r["shape"]), r["dtype"]),
        "wg_local": lambda: wg_local_layout(r["cols"], r["rows"]),
    }[kind]
    if "error" in r:
        return "" if refused(make) else "answered"
    layout = make()
    if not same_map(layout, layout_of(r["layout"])):
        return f"answered: {layout}"
    if kind == "tmem_datapath":
        places = layout.apply(*np.array(r["coords"]).T, shape=(r["rows"], r["cols"]))
        got = np.stack(np.broadcast_arrays(places["TLane"], places["TCol"]), axis=1).tolist()
        return "" if got == r["TLane_TCol"] and [layout.span("TLane"), layout.span("TCol")] == r["span"] else "values"
    if kind == "tcgen05_atom":
        return "" if [layout.apply(*c, shape=r["shape"]) for c in r["coords"]] == r["out"] else "values"
    return ""


def mma_allocations() -> list[tuple[int, Any, Any, Any, Any]]:
    """(record, shape, dtype, mode, what the reference allotted) for each alloc_mma of a pool; None where it was refused."""
    made = []
    for r in records("pools"):
        if r["kind"] == "smem_pool":
            for op, step in zip(r["ops"], r["steps"]):
                if op[0] == "alloc_mma":
                    mode = "128B" if op[3] == "auto" else op[3]
                    made.append((r["id"], op[1], op[2], mode, step.get("layout")))
    return made
