# ruff: noqa: E501    (messages are written as they are read)
"""The notation, its text, equality; and every refusal by its exact words."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from symbolic import Facts, Symbol, named
from symbolic.layout import (
    AXES,
    Axis,
    ComposeLayout,
    Iter,
    LayoutError,
    R,
    S,
    TCol,
    TileLayout,
    TLane,
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
    wgid,
    wgmma_accumulator,
    wid_in_wg,
)
from symbolic.layout.linear import LinearLayout

PAIR = TileLayout(S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid)


@pytest.mark.parametrize("written, text", [
    (S[8:1], "S[8:1]"),
    (S[8], "S[8:1]"),
    (S[4, 8], "S[(4, 8):(8, 1)]"),
    (S[(4, 8)], "S[(4, 8):(8, 1)]"),
    (S[8:"laneid"], "S[8:1@laneid]"),
    (S[8:(4, "laneid")], "S[8:4@laneid]"),
    (S[(8, 4):((4, "laneid"), (1, laneid))], "S[(8, 4):(4@laneid, 1@laneid)]"),
    (S[8:-1] + 7, "S[8:-1] + 7"),
    (S[8:-1@laneid] + 7@laneid + 1 + 2, "S[8:-1@laneid] + 3 + 7@laneid"),
    (S[8:1] + 3 + -3, "S[8:1]"),
    (S[():()], "S[():()]"),
    (S[32:1@laneid] + R[(2, 2):(32@laneid, 1@warpid)], "S[32:1@laneid] + R[(2, 2):(32@laneid, 1@warpid)]"),
    (S[(named("n"), 8):(named("n") * 2 + 1, 1)] + named("k")@laneid, "S[(n, 8):(n*2 + 1, 1)] + k@laneid"),
    (S[8:(named("n") + 1)@laneid], "S[8:(n + 1)@laneid]"),
    (S[2 * sympy.Symbol("n"), 8], "S[(n*2, 8):(8, 1)]"),
])
def test_text_that_is_read_back(written: Any, text: str) -> None:
    layout = TileLayout(written)
    assert layout.notation() == text and repr(layout) == f"TileLayout({text})"
    names = {"S": S, "R": R, "TileLayout": TileLayout, "n": named("n"), "k": named("k"), **AXES}
    assert eval(repr(layout), names) == layout


def test_equality_is_as_written() -> None:
    assert TileLayout(S[4, 8]) == TileLayout(S[(4, 8):(8, 1)]) != TileLayout(S[32])
    assert len({TileLayout(S[4, 8]), TileLayout(S[(4, 8):(8, 1)]), TileLayout(S[32:1])}) == 2
    assert TileLayout(S[4, 8]).canonicalize() == TileLayout(S[32])
    assert TileLayout(S[8:1] + 1@laneid + 2) == TileLayout(S[8:1] + 2 + 1@laneid)
    assert TileLayout(S[8:1]) != S[8:1] and TileLayout(S[512]) != ComposeLayout(3, 3, 3)
    n = Symbol("n")
    assert TileLayout(S[n, 8]) == TileLayout(S[(n, 8):(8, 1)]) != TileLayout(S[Symbol("n"), 8])


def test_compose_text() -> None:
    for layout, text in ((ComposeLayout(3, 3, 3), "ComposeLayout(3, 3, 3, TileLayout(S[512:1]))"),
                         (ComposeLayout(2, 1, 3, TileLayout(S[8, 64]), swizzle_inner=False),
                          "ComposeLayout(2, 1, 3, TileLayout(S[(8, 64):(64, 1)]), swizzle_inner=False)")):
        assert repr(layout) == text
        again = eval(text)
        assert again == layout and hash(again) == hash(layout) and {again, layout} == {layout}
    assert ComposeLayout(3, 3, 3) != ComposeLayout(3, 2, 3, TileLayout(S[512]))


def test_parts() -> None:
    assert PAIR.shard[1] == Iter(2, 1, warpid) and PAIR.replica == (Iter(2, 4, warpid),) and PAIR.offset == {"warpid": 5}
    assert PAIR.axes == (laneid, warpid, m) and PAIR.extents == (8, 2, 4, 2)
    assert (PAIR.size(), PAIR.size("laneid"), PAIR.size(m), PAIR.span(), PAIR.span("warpid")) == (128, 32, 2, 2, 11)
    assert str(PAIR.storage()) == "TileLayout(S[2:1])"
    assert PAIR.replicas() == [{"laneid": 0, "warpid": 0, "m": 0}, {"laneid": 0, "warpid": 4, "m": 0}]
    assert PAIR.replicas(0, 9, shape=(8, 16)) == [{"laneid": 0, "warpid": 6, "m": 1}, {"laneid": 0, "warpid": 10, "m": 1}]
    assert TileLayout(S[(4, 0):(8, 1)]).span() == 0 == TileLayout(S[(4, 0):(8, 1)]).size()
    assert list(TileLayout(S[(2, 2):(1, 2@laneid)]).elements()) == [{"m": 0, "laneid": 0}, {"m": 0, "laneid": 2}, {"m": 1, "laneid": 0},
                                                                    {"m": 1, "laneid": 2}]


def test_axes() -> None:
    assert (laneid.kind, laneid.unit, laneid.scope) == ("thread", "thread", "warp")
    assert (pid.kind, TCol.kind, TLane.is_memory, tx.is_memory) == ("device", "memory", True, False)
    rank = new_axis("rank", "device", "grid", "mesh")
    assert rank is new_axis("rank") and TileLayout(S[4:1@rank] + 2@rank).span("rank") == 6
    assert eval(repr(TileLayout(S[4:1@rank])), {"TileLayout": TileLayout, "S": S, "rank": rank}) == TileLayout(S[4:1@rank])


def test_scopes() -> None:
    assert PAIR.get_scope() == ("thread", "cta") and TileLayout(S[8:1]).get_scope() is None
    assert TileLayout(S[(2, 4):(1@wgid, 1@wid_in_wg)]).get_scope() == ("warp", "cta")
    assert repr(TileLayout(S[(2, 32):(1@warpid, 1@laneid)] + 3@warpid).widen_threads()) == "TileLayout(S[(2, 32):(32@tx, 1@tx)] + 96@tx)"
    assert repr(TileLayout(S[(4, 32, 2):(1@wid_in_wg, 1@laneid, 1)]).widen_threads().canonicalize()) == "TileLayout(S[(128, 2):(1@tid_in_wg, 1)])"
    assert TileLayout(S[32:1@laneid]).widen_threads() == TileLayout(S[32:1@laneid])
    assert not TileLayout(S[(4, 32):(1@wgid, 1@laneid)]).is_well_formed() and PAIR.is_well_formed()


def test_apply_with_facts() -> None:
    i, j, n = Symbol("i"), Symbol("j"), Symbol("n")
    padded = TileLayout(S[(n, 4, 8):(40, 8, 1)])
    assert repr(padded.apply(i, j, shape=(n, 32))["m"]) == "i*40 + j"
    assert repr(TileLayout(S[(4, 8):(16, 1)]).apply(i, shape=(32,), facts=Facts())["m"]) == "i//8*16 + i % 8"
    facts = Facts()
    facts.bound(i, 0, 8)
    assert repr(TileLayout(S[(4, 8):(16, 1)]).apply(i, shape=(32,), facts=facts)["m"]) == "i"
    facts = Facts()
    facts.divisible(n, 8)
    with pytest.raises(LayoutError, match="dimension 0 of extent 8 has no boundary"):
        TileLayout(S[n:2]).group((8, n // 8))
    assert repr(TileLayout(S[n:2]).group((8, n // 8), facts)[0]) == "TileLayout(S[(8, n//8):(n//4, 2)])"
    assert repr(TileLayout(S[8 * n:2]).group((n, 8))) == "(TileLayout(S[(n, 8):(16, 2)]), [0, 1, 2])"


def test_symbols_go_through_the_algebra() -> None:
    """With n = 5, b = 3, k = 7 the results are those of the numbers."""
    n, b, k = named("n"), named("b"), named("k")
    rows, atom = TileLayout(S[(n, 64):(k * 64, 1)] + b), TileLayout(S[(8, 4, 2):(4@laneid, 1@laneid, 1)])
    facts = Facts()
    facts.bound(b, 0, n - 1)
    made = {
        "TileLayout(S[(2, 32):(k*64, 1)] + b*k*64 + b + 16)": rows.slice((n, 64), [(b, b + 2), (16, 48)], facts),
        "TileLayout(S[(64, n):(1, k*64)] + b)": rows.permute((n, 64), (1, 0)),
        "TileLayout(S[(n, 8, 4, 4, 2):(8, 4@laneid, 2, 1@laneid, 1)])": atom.tile_to((8 * n, 32), (8, 8)),
        "TileLayout(S[(n, 8, 4, 4, 2):(8, 4@laneid, 2, 1@laneid, 1)] + n@warpid)": atom.rebuilt(offset={warpid: n}).tile_to((8 * n, 32), (8, 8)),
        "TileLayout(S[(n, 32):(k*32, 1)])": TileLayout(S[(n, 64):(k * 64, 1)]).pack(2),
        "TileLayout(S[(n, 64, 2):(k*128, 2, 1)] + b*2)": rows.unpack(2),
        "TileLayout(S[(k, n, 64):(0, k*64, 1)] + b)": rows.broadcast(k, 0),
        "TileLayout(S[(8, n):(n, 1)])": TileLayout(S[8 * n]).compose(TileLayout(S[(8, n):(n, 1)])),
        "TileLayout(S[(n, 8):(1, n)])": TileLayout(S[(n, 8):(1, n)]).canonicalize(),
        "TileLayout(S[n:8])": TileLayout(S[8:1]).complement(8 * n),
    }
    assert {text: repr(layout) for text, layout in made.items()} == {text: text for text in made}
    assert atom.is_tile_inner(atom.tile_to((8 * n, 32), (8, 8)), (8 * n, 32), (8, 8)) == TileLayout(S[n, 4])
    assert repr(rows.inverse().coordinate((n, 64), m=named("a"))) == "((a - b)//(k*64), (a - b) % (k*64))"
    assert str(rows.storage().span()) == "k*(n - 1)*64 + b + 64"


N = named("n")
REFUSED = [
    (lambda: TileLayout(S[(4, 8):(1,)]), "S[(4, 8):(1,)] has 2 extents and 1 strides"),
    (lambda: TileLayout(S[-4:1]), "extent -4 is negative"),
    (lambda: TileLayout.from_iters([(-4, 1, "m")]), "extent -4 is negative"),
    (lambda: TileLayout(S[4:1]).broadcast(-1), "extent -1 is negative"),
    (lambda: TileLayout.from_iters([(4, 1)]), "an iter is (extent, stride, axis), not (4, 1)"),
    (lambda: TileLayout(S[4:1.5]), "a stride must be an integer, not 1.5"),
    (lambda: TileLayout(S[True:1]), "an extent must be an integer, not True"),
    (lambda: TileLayout(S[4:1:2]), "S[4:1:2] has two colons; write S[extents:strides]"),
    (lambda: TileLayout(S[(2, (2, 2)):(4, (1, 2))]), "(2, 2):(1, 2) is nested; the extents of S[...] are flat: use from_cute for nested shapes"),
    (lambda: TileLayout(S[4:1] + S[4:1]), "S[4:1] is added to S[4:1]: a layout has one S[...]; R[...] and offsets are added to it"),
    (lambda: TileLayout((4, 8)), "TileLayout takes S[extents:strides] (+ R[...] + offset@axis), not (4, 8)"),
    (lambda: new_axis("laneid", "memory"), "laneid of kind memory is no new axis: a name is an identifier that no other axis has, a kind one of "
                                           "memory, thread, device"),
    (lambda: PAIR.apply(1, 2, shape=(8, 8)), "S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid has 128 elements, "
                                             "but shape (8, 8) has 64"),
    (lambda: PAIR.apply(1, 2, shape=(128,)), "2 coordinates are given for shape (128,) of 1 dimensions"),
    (lambda: TileLayout(S[4, 8]).apply(1, 2, 3), "3 coordinates are given to S[(4, 8):(8, 1)], which has 2 iters: give one linear index, one "
                                                 "coordinate per iter, or shape="),
    (lambda: TileLayout(S[N, 8]).apply(1, 2, shape=(N + 1, 8)), "S[(n, 8):(8, 1)] has n*8 elements, but shape (n + 1, 8) has n*8 + 8"),
    (lambda: TileLayout(S[N, 8]).apply(1, 2, shape=(4, 8)), "S[(n, 8):(8, 1)] has n*8 elements and shape (4, 8) has 32: whether they are equal is "
                                                            "not known; pass facts="),
    (lambda: TileLayout(S[4:1]).apply(1.0), "a coordinate must be an integer, not 1.0"),
    (lambda: TileLayout(S[4:1]).apply(sympy.Mod(sympy.Symbol("x"), 4)), "a coordinate must be an integer expression: Mod(x, 4) (Mod) is no integer "
                                                                        "expression of symbolic; write FloorDiv(a, b) and FloorMod(a, b)"),
    (lambda: TileLayout(S[4:1] + R[N:1@laneid]).replicas(), "the replicas of S[4:1] + R[n:1@laneid] are not listed: an extent is not a number"),
    (lambda: TileLayout(S[N:1]).elements(), "S[n:1] has symbols: its elements are not listed"),
    (lambda: TileLayout(S[(6, 4):(1, 6)]).group((8, 3)), "S[(6, 4):(1, 6)] is not grouped by (8, 3): extent 4 does not split at 3"),
    (lambda: TileLayout(S[4, 8]).group((4, 9)), "S[32:1] is not grouped by (4, 9): dimension 1 of extent 9 has no boundary among the extents"),
    (lambda: TileLayout(S[4, 8]).group((4, 4)), "S[32:1] is not grouped by (4, 4): the layout is larger"),
    (lambda: TileLayout(S[24]).group_many([(2, 12), (3, 8)]), "['(2, 12)', '(3, 8)'] have no common refinement: of [2, 3] none divides all"),
    (lambda: TileLayout(S[8]).tile(TileLayout(S[2]), (2,), (2, 4)), "outer_shape (2,) and inner_shape (2, 4) differ in rank"),
    (lambda: TileLayout(S[8, 8]).tile_to((12, 16), (8, 8)), "(12, 16) is no multiple of (8, 8): 8 does not divide 12"),
    (lambda: TileLayout(S[4, 4]).tile_to((2, 4), (4, 4)), "(2, 4) is no multiple of (4, 4): 4 does not divide 2"),
    (lambda: TileLayout(S[8, 8]).is_tile_inner(TileLayout(S[(8, 2, 32):(64, 1, 2)]), (16, 32), (8, 8)),
     "S[(8, 8):(8, 1)] is no factor of S[(8, 2, 32):(64, 1, 2)]: dimension 0 has [4:64, 2:1], and needs [8:8]"),
    (lambda: TileLayout(S[4:1]).is_tile_inner(TileLayout(S[(2, 4):(6, 1)]), (8,), (4,)),
     "S[4:1] is no inner tile of S[(2, 4):(6, 1)]: it spans 4 along m, which does not divide stride 6"),
    (lambda: TileLayout(S[4:1] + R[2:1@laneid]).is_tile_inner(TileLayout(S[8]), (8,), (4,)),
     "S[4:1] + R[2:1@laneid] is no part of S[8:1]: replica 2:1@laneid is missing there"),
    (lambda: TileLayout(S[4]).is_direct_sum_right(TileLayout(S[12]), (3, 5), (4,)),
     "interleaved_shape (3, 5) has not (4,) at every second place from 1 on"),
    (lambda: TileLayout(S[4, 8]).slice((4, 8), [(0, 4), (4, 9)]), "[4, 9) is outside of dimension 1 of (4, 8)"),
    (lambda: TileLayout(S[4, 8]).slice((4, 8), [(0, 4)]), "region [(0, 4)] has 1 dimensions, shape (4, 8) has 2"),
    (lambda: TileLayout(S[(2, 4):(1, 2@laneid)]).slice((8,), [(3, 5)]), "[3, 5) of dimension 0 of S[(2, 4):(1, 2@laneid)] is no layout: its halves "
                                                                       "differ along 2 axes"),
    (lambda: TileLayout(S[(2, 4):(9, 2)]).slice((8,), [(3, 6)]), "[3, 6) of dimension 0 of S[(2, 4):(9, 2)] is no layout: it wraps around the iter "
                                                                "4:2 unevenly"),
    (lambda: TileLayout(S[4, 8]).permute_dims([0, 0]), "[0, 0] is no permutation of the 2 groups of S[(4, 8):(8, 1)]"),
    (lambda: TileLayout(S[4, 8]).view((4, 8), (4, 9)), "S[(4, 8):(8, 1)] has 32 elements, but shape (4, 9) has 36"),
    (lambda: TileLayout(S[4, 8]).pack(3), "S[(4, 8):(8, 1)] is not packed by 3: 3 does not divide the innermost extent 8"),
    (lambda: TileLayout(S[(4, 8):(9, 1)]).pack(2), "S[(4, 8):(9, 1)] is not packed by 2: 2 does not divide the stride of 4:9"),
    (lambda: TileLayout(S[(8, 4):(1, 8)]).pack(2), "S[(8, 4):(1, 8)] is not packed by 2: its innermost iter 4:8 is not dense memory"),
    (lambda: TileLayout(S[8] + 1).pack(2), "S[8:1] + 1 is not packed by 2: 2 does not divide the offset 1"),
    (lambda: TileLayout(S[4, 8]).broadcast(2, 3), "position 3 is outside of S[(4, 8):(8, 1)], which has 2 iters"),
    (lambda: TileLayout(S[(4, 32):(1@wgid, 1@laneid)]).get_scope(), "the axes of S[(4, 32):(1@wgid, 1@laneid)] leave a gap: warpgroup within cta and "
                                                                    "thread within warp do not chain"),
    (lambda: TileLayout(S[(4, 32):(1@tx, 1@laneid)]).get_scope(), "the axes of S[(4, 32):(1@tx, 1@laneid)] contradict: laneid counts each thread "
                                                                  "within a warp, another axis within a cta"),
    (lambda: TileLayout(S[(4, 32):(1@pid, 1@AXES["bx"])]).widen_threads(), "no axis counts each cta within a mesh, which S[(4, 32):(1@pid, 1@bx)] "
                                                                           "does with pid and bx"),
    (lambda: TileLayout(S[(2, 2):(1, 0)]).inverse(), "S[(2, 2):(1, 0)] is not inverted: two elements share a place along m"),
    (lambda: TileLayout(S[(2, 3):(3, 2)]).inverse(), "S[(2, 3):(3, 2)] is not inverted: the strides along m are not nested, each greater than all that "
                                                     "the smaller ones reach"),
    (lambda: PAIR.inverse(), "S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid has copies along warpid: an element has "
                             "several places; invert it without its replicas"),
    (lambda: TileLayout(S[4, 8]).inverse().index(laneid=1), "a place is given along ['laneid'], this layout has the axes ['m']"),
    (lambda: TileLayout(S[(4, 8):(16, 1)]).inverse().layout(), "the places along m have gaps: no layout lists them; use index() or coordinate()"),
    (lambda: TileLayout(S[8] + 1).inverse().layout(), "the places along m begin at 1: no layout lists them; use index() or coordinate()"),
    (lambda: ComposeLayout(3, 3, 3).inverse().layout(), "the inverse of a swizzled layout is no tile layout; use index() or coordinate()"),
    (lambda: TileLayout(S[4:2]).complement(9), "S[4:2] has no complement: it comes in blocks of 8, which do not divide 9"),
    (lambda: TileLayout(S[(2, 2):(3, 2)]).complement(), "S[(2, 2):(3, 2)] has no complement: the smaller iters reach 4, which does not divide the "
                                                        "stride of 2:3"),
    (lambda: PAIR.complement(), PAIR.notation() + " has no complement: it needs one axis, no offset and no copies"),
    (lambda: TileLayout(S[8:1]).is_surjective(laneid=4), "S[8:1] has no axis laneid"),
    (lambda: ComposeLayout(3, 4, 3), "Swizzle(per_element=3, swizzle_len=4, atom_len=3, swizzle_inner=True) needs per_element >= 0, swizzle_len >= 0 and "
                                     "atom_len >= swizzle_len"),
    (lambda: ComposeLayout(3, 3, 3, TileLayout(S[512:1@laneid])), "a swizzle permutes addresses along m, and S[512:1@laneid] has other axes or copies"),
    (lambda: ComposeLayout(3, 3, 3).pack(3), "a swizzle works on powers of two, 3 is none"),
    (lambda: ComposeLayout(1, 3, 3).pack(4), "ComposeLayout(1, 3, 3, TileLayout(S[128:1])) is not packed by 4: its chunks hold 2 elements"),
    (lambda: ComposeLayout(3, 3, 3, TileLayout(S[4, 64])).tile_to((8, 64), (4, 64)),
     "copies of ComposeLayout(3, 3, 3, TileLayout(S[(4, 64):(64, 1)])) would start at multiples of 256, inside a swizzle period of 512"),
    (lambda: from_cute((2, 2), (1, (2, 4))), "shape (2,2) and stride (1,(2,4)) are not nested alike"),
    (lambda: from_cute("(2,2)"), "'(2,2)' is not (shape):(stride)"),
    (lambda: from_cute("(2,n):(1,2)"), "'(2,n):(1,2)' is not (shape):(stride), with integers"),
    (lambda: PAIR.to_cute(), PAIR.notation() + " has several axes, copies or an offset, which (shape):(stride) cannot say"),
    (lambda: TileLayout(S[6]).to_linear((6,)), "S[6:1] is no linear layout: 6:1 is not of powers of two"),
    (lambda: TileLayout(S[(2, 2):(1, 1)]).to_linear((4,)), "S[(2, 2):(1, 1)] is no linear layout: two iters step along bit 0 of m"),
    (lambda: TileLayout(S[(4, 8):(16, 1)]).to_linear((4, 8)), "S[(4, 8):(16, 1)] is no linear layout: bits [0, 1, 2, 4, 5] of m are in use, with gaps"),
    (lambda: TileLayout(S[8] + 1).to_linear((8,)), "S[8:1] + 1 is no linear layout: it has an offset"),
    (lambda: LinearLayout({"m": ((1,),)}, (6,)), "shape (6,) is no power of two in every dimension"),
    (lambda: LinearLayout({"m": ((4,),)}, (4,)), "basis (4,) of m is no coordinate in (4,)"),
    (lambda: from_linear(LinearLayout({"m": ((1,),)}, (4,))), "LinearLayout(bases={'m': ((1,),)}, shape=(4,)) reaches 2 of 4 elements: the others have "
                                                             "no place"),
    (lambda: from_linear(LinearLayout({"m": ((1,),), "laneid": ((3,),)}, (4,))), "LinearLayout(bases={'m': ((1,),), 'laneid': ((3,),)}, shape=(4,)) mixes "
                                                                                 "bits in a way that is no tile layout, nor one with a swizzle of m"),
    (lambda: mma_shared_layout("float16", "256B", (8, 64)), "swizzle mode '256B' is not known; known are none, 32B, 64B, 128B"),
    (lambda: mma_shared_layout("float16", "128B", (8, 96)), "96 columns of float16 are no multiple of 64, a row of the 128B swizzle atom; widen the shape, "
                                                           "or use 'none' or '32B' or '64B'"),
    (lambda: mma_shared_layout("float6_e2m3fn", "128B", (8, 64)), "16 bytes hold no whole number of float6_e2m3fn of 6 bits"),
    (lambda: mma_shared_layout("half", "128B", (8, 64)), "dtype 'half' is not known here; known are bool, int8, uint8, int16, uint16, int32, uint32, int64, "
                                                        "uint64, float16, bfloat16, float32, float64, tfloat32, float8_e4m3fn, float8_e5m2, float8_e8m0fnu, "
                                                        "float6_e2m3fn, float6_e3m2fn, float4_e2m1fn"),
    (lambda: mma_shared_layout("float16", "128B", (0, 64)), "shape (0, 64) must have positive extents"),
    (lambda: get_swizzle_mode(ComposeLayout(3, 3, 3, swizzle_inner=False)), "Swizzle(per_element=3, swizzle_len=3, atom_len=3, swizzle_inner=False) is no "
     "hardware mode: those XOR bits 3 and up of the 16-byte chunk number into its low ones (swizzle_inner=True)"),
    (lambda: get_swizzle_mode(ComposeLayout(3, 3, 3), "float32"), "Swizzle(per_element=3, swizzle_len=3, atom_len=3, swizzle_inner=True) is no "
     "hardware mode: those XOR bits 3 and up of the 16-byte chunk number into its low ones (swizzle_inner=True)"),
    (lambda: tmem_datapath_layout("H", 128, 64), "datapath 'H' is not known; known are A, B, C, D, E, F, G"),
    (lambda: tmem_datapath_layout("F", 128, 64), "datapath F (M = 64, cta_group::1) has 64 rows, not 128"),
    (lambda: tmem_datapath_layout("G", 32, 63), "datapath G splits its columns in 4 parts, 63 is no multiple"),
    (lambda: tmem_datapath_layout("D", 128, 64, 1), "datapath D fills all its lanes: sub_slab is 0, not 1"),
    (lambda: tmem_datapath_layout("F", 64, 64, 2), "datapath F fills 16 of each 32 lanes: sub_slab is 0 or 1, not 2"),
    (lambda: wgmma_accumulator(12), "wgmma has n = 8, 16, .., 256, not 12"),
    (lambda: tmem_registers("16x256b", 64), "tcgen05.ld.16x256b has a power of two of repetitions and at most 128 registers, not x64"),
    (lambda: tcgen05_atom_layout("16x64b", (64, 64), "float64"), "the registers of tcgen05.ld hold elements of 16 or 32 bits, float64 has 64"),
    (lambda: PAIR.bank_conflicts([(0, 0)] * 33, "float16", (8, 16)), "a warp has 32 lanes, the access has 33"),
    (lambda: TileLayout(S[8, 64]).bank_conflicts([(0, 4)], "float16", (8, 64), 8), "the 16 bytes at (0, 4) begin at bit 64, not aligned to their size"),
    (lambda: TileLayout(S[(64, 8):(1, 64)]).bank_conflicts([(0, 0)], "float16", (64, 8), 8),
     "the 8 elements from (0, 0) on are not neighbours in memory: [0, 64, 128, 192, 256, 320, 384, 448]"),
    (lambda: TileLayout(S[8, 64]).bank_conflicts([(0, 0)], "float16", (8, 64), 3), "an access of 3 float16 is 48 bits; a lane moves 1, 2, 4, 8 or 16 bytes"),
    (lambda: TileLayout(S[N:1]).svg((4,)), "S[n:1] has symbols: give them values to draw it"),
    (lambda: TileLayout(S[4, 8]).svg((4, 8), "laneid"), "color_by='laneid' is no axis of S[(4, 8):(8, 1)], whose axes are m; or \"bank\", along m"),
    (lambda: ComposeLayout(3, 3, 3).svg((8, 64), "k"), "color_by='k' is none of i, j, bank"),
]


@pytest.mark.parametrize("ask, words", REFUSED, ids=range(len(REFUSED)))
def test_refusals_say_why(ask: Any, words: str) -> None:
    with pytest.raises(LayoutError) as refusal:
        ask()
    assert str(refusal.value) == words


def test_an_unknown_fragment_lists_the_known_ones() -> None:
    with pytest.raises(LayoutError, match=r"no fragment E of 'mma.m16n8k16.f16' is known; known are mma.m16n8k4.tf32 A, .*, wgmma.m64k32.b8 A"):
        fragment("mma.m16n8k16.f16", "E")


def test_a_misspelt_axis_is_no_new_one() -> None:
    with pytest.raises(LayoutError, match=r"there is no axis 'lane'; the axes are m, TLane, .*; new_axis\('lane'\) makes one"):
        TileLayout(S[4:"lane"])


def test_axis_is_data() -> None:
    assert repr(Axis("x", "memory", "element", "element")) == "x" and 4 @ tid_in_wg == 4 @ AXES["tid_in_wg"]
