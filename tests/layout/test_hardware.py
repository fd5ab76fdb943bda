"""The atoms against the formulas that the manual's figures stand for, thread by thread and register by register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from symbolic import named
from symbolic.layout import (
    DATAPATHS,
    FRAGMENTS,
    SWIZZLE_MODES,
    TMEM_SHAPES,
    ComposeLayout,
    LayoutError,
    S,
    TileLayout,
    bank_conflicts,
    fragment,
    get_swizzle_mode,
    laneid,
    matrix_addresses,
    mma_atom,
    mma_shared_layout,
    tcgen05_atom_layout,
    tmem_datapath_layout,
    tmem_registers,
    wgmma_accumulator,
)
from symbolic.layout.banks import BITS
from symbolic.layout.tile import coordinate_names

Place = Callable[[int, int], tuple[int, int]]

# (lane l, element i) -> (row, column), as the PTX ISA's text and figures of each section give them.
FORMULAS: dict[tuple[str, str], Place] = {
    ("mma.m16n8k4.tf32", "A"): lambda l, i: (l // 4 + 8 * i, l % 4),
    ("mma.m16n8k4.tf32", "B"): lambda l, i: (l % 4, l // 4),
    ("mma.m16n8k8.f16", "A"): lambda l, i: (l // 4 + 8 * (i // 2), 2 * (l % 4) + i % 2),
    ("mma.m16n8k8.f16", "B"): lambda l, i: (2 * (l % 4) + i, l // 4),
    ("mma.m16n8k8.tf32", "A"): lambda l, i: (l // 4 + 8 * (i % 2), l % 4 + 4 * (i // 2)),
    ("mma.m16n8k8.tf32", "B"): lambda l, i: (l % 4 + 4 * i, l // 4),
    ("mma.m16n8k16.f16", "A"): lambda l, i: (l // 4 + 8 * (i // 2 % 2), 2 * (l % 4) + i % 2 + 8 * (i // 4)),
    ("mma.m16n8k16.f16", "B"): lambda l, i: (2 * (l % 4) + i % 2 + 8 * (i // 2), l // 4),
    ("mma.m16n8k16.b8", "A"): lambda l, i: (l // 4 + 8 * (i // 4), 4 * (l % 4) + i % 4),
    ("mma.m16n8k16.b8", "B"): lambda l, i: (4 * (l % 4) + i, l // 4),
    ("mma.m16n8k32.b8", "A"): lambda l, i: (l // 4 + 8 * (i // 4 % 2), 4 * (l % 4) + i % 4 + 16 * (i // 8)),
    ("mma.m16n8k32.b8", "B"): lambda l, i: (4 * (l % 4) + i % 4 + 16 * (i // 4), l // 4),
    ("mma.m8n8k16.b8", "A"): lambda l, i: (l // 4, 4 * (l % 4) + i),
    ("mma.m8n8k16.b8", "B"): lambda l, i: (4 * (l % 4) + i, l // 4),
    ("mma.m8n8k4.f64", "A"): lambda l, i: (l // 4, l % 4),
    ("mma.m8n8k4.f64", "B"): lambda l, i: (l % 4, l // 4),
    ("mma.m16n8k4.f64", "A"): lambda l, i: (l // 4 + 8 * i, l % 4),
    ("mma.m16n8k4.f64", "B"): lambda l, i: (l % 4, l // 4),
    ("mma.m16n8k8.f64", "A"): lambda l, i: (l // 4 + 8 * (i % 2), l % 4 + 4 * (i // 2)),
    ("mma.m16n8k8.f64", "B"): lambda l, i: (l % 4 + 4 * i, l // 4),
    ("mma.m16n8k16.f64", "A"): lambda l, i: (l // 4 + 8 * (i % 2), l % 4 + 4 * (i // 2)),
    ("mma.m16n8k16.f64", "B"): lambda l, i: (l % 4 + 4 * i, l // 4),
}
for name in sorted({i for i, _ in FRAGMENTS if i.startswith("mma.")}):
    FORMULAS[name, "C"] = lambda l, i: (l // 4 + 8 * (i // 2), 2 * (l % 4) + i % 2)
for num in (1, 2, 4):
    for instruction, operand in (("ldmatrix", "D"), ("stmatrix", "A")):
        # Register q of lane l holds two neighbours of matrix q, whose rows are 8*q and on.
        FORMULAS[f"{instruction}.x{num}", operand] = lambda l, i: (8 * (i // 2) + l // 4, 2 * (l % 4) + i % 2)
        FORMULAS[f"{instruction}.x{num}.trans", operand] = lambda l, i: (8 * (i // 2) + 2 * (l % 4) + i % 2, l // 4)
WGMMA: dict[str, Place] = {
    "wgmma.m64k16.f16": lambda l, i: (l // 4 + 8 * (i // 2 % 2), 2 * (l % 4) + i % 2 + 8 * (i // 4)),
    "wgmma.m64k8.tf32": lambda l, i: (l // 4 + 8 * (i % 2), l % 4 + 4 * (i // 2)),
    "wgmma.m64k32.b8": lambda l, i: (l // 4 + 8 * (i // 4 % 2), 4 * (l % 4) + i % 4 + 16 * (i // 8)),
}


def owners(layout: Any, shape: tuple[int, int]) -> dict[tuple[int, int, int], tuple[int, int]]:
    """(warp in its warpgroup, lane, element) -> (row, column)."""
    rows, columns = np.indices(shape)
    place = {a: np.broadcast_to(v, shape) for a, v in layout.apply(rows, columns, shape=shape).items()}
    warp = place.get("wid_in_wg", np.zeros(shape, int))
    return {(int(warp[r, c]), int(place["laneid"][r, c]), int(np.broadcast_to(place.get("m", 0), shape)[r, c])): (r, c)
            for r in range(shape[0]) for c in range(shape[1])}


def test_every_row_has_a_formula() -> None:
    assert set(FRAGMENTS) == set(FORMULAS) | {(name, "A") for name in WGMMA}


@pytest.mark.parametrize("key", FORMULAS, ids=" ".join)
def test_fragments_of_a_warp(key: tuple[str, str]) -> None:
    row = fragment(*key)
    assert row.elements * 32 == row.shape[0] * row.shape[1]
    assert owners(row.layout, row.shape) == {(0, l, i): FORMULAS[key](l, i) for l in range(32) for i in range(row.elements)}
    assert row.layout.is_injective() and row.layout.is_surjective(laneid=32)
    assert row.source.startswith("PTX ISA 9.1, 9.7.14.5.")


@pytest.mark.parametrize("name", WGMMA)
def test_fragments_of_a_warpgroup(name: str) -> None:
    row = fragment(name, "A")
    expected = {(w, l, i): (16 * w + WGMMA[name](l, i)[0], WGMMA[name](l, i)[1]) for w in range(4) for l in range(32) for i in range(row.elements)}
    assert owners(row.layout, row.shape) == expected and row.registers == 4


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_wgmma_accumulators(n: int) -> None:
    row = wgmma_accumulator(n)
    assert row.registers == n // 2 and wgmma_accumulator(n, 16).registers == n // 4
    assert owners(row.layout, row.shape) == {
        (w, l, i): (16 * w + l // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (l % 4) + i % 2)
        for w in range(4) for l in range(32) for i in range(n // 2)}


def test_registers() -> None:
    assert [fragment("mma.m16n8k16.f16", o).registers for o in "ABCD"] == [4, 2, 4, 4]
    assert [fragment("mma.m16n8k32.b8", o).registers for o in "ABC"] == [4, 2, 4]
    assert [fragment(f"ldmatrix.x{num}", "D").registers for num in (1, 2, 4)] == [1, 2, 4]


def test_matrix_addresses() -> None:
    """Lane 8q + r gives the address of row r of matrix q: rows 8q + r of the fragment."""
    assert [matrix_addresses(4).apply(row) for row in (0, 9, 31)] == [{"laneid": 0}, {"laneid": 9}, {"laneid": 31}]


# (lane l, register r) -> (TMEM lane, column) within a warp's lanes
TMEM: dict[str, Place] = {
    "32x32b": lambda l, r: (l, r),
    "16x64b": lambda l, r: (l // 4 + 8 * (l % 2), l // 2 % 2 + 2 * r),
    "16x128b": lambda l, r: (l // 4 + 8 * (r % 2), l % 4 + 4 * (r // 2)),
    "16x256b": lambda l, r: (l // 4 + 8 * (r // 2 % 2), r % 2 + 2 * (l % 4) + 8 * (r // 4)),
}


@pytest.mark.parametrize("repeat", (1, 2, 8, 32))
@pytest.mark.parametrize("name", TMEM_SHAPES)
def test_tensor_memory_loads(name: str, repeat: int) -> None:
    row = TMEM_SHAPES[name]
    shape = (row.rows, row.columns * repeat)
    registers = shape[0] * shape[1] // 32
    # 16x32bx2: lanes 16 and on hold the second range of columns.
    formula = TMEM.get(name, lambda l, r: (l % 16, r + repeat * (l // 16)))
    assert owners(tmem_registers(name, repeat), shape) == {(0, l, r): formula(l, r) for l in range(32) for r in range(registers)}


def test_a_warpgroup_reads_its_own_lanes() -> None:
    """The warp that reads an element in an atom of 128 rows is the one whose TMEM lanes hold its row."""
    for name in ("16x64b", "16x128b", "16x256b"):
        for dtype, packed in (("float32", 1), ("float16", 2)):
            layout = tcgen05_atom_layout(name, (128, 64), dtype)
            assert layout.is_injective() and layout.is_surjective(laneid=32, wid_in_wg=4, m=64)
            assert [layout.apply(row, 0, shape=(128, 64))["wid_in_wg"] for row in (0, 31, 32, 127)] == [0, 0, 1, 3]
            row, packed_pair = layout.apply(5, 0, shape=(128, 64)), layout.apply(5, packed - 1, shape=(128, 64))
            assert packed_pair == {**row, "m": row["m"] + packed - 1}


DATAPATH_FORMULAS: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "A": lambda r, c, n, s: (r, c),
    "B": lambda r, c, n, s: (r + 64 * (c // (n // 2)), c % (n // 2)),
    "C": lambda r, c, n, s: (32 * (r // 16) + 16 * s + r % 16, c),
    "G": lambda r, c, n, s: (r + 32 * (c // (n // 4)), c % (n // 4)),
}
DATAPATH_FORMULAS |= {"D": DATAPATH_FORMULAS["A"], "E": DATAPATH_FORMULAS["B"], "F": DATAPATH_FORMULAS["C"]}


@pytest.mark.parametrize("letter", "ABCDEFG")
def test_datapaths(letter: str) -> None:
    path = DATAPATHS[letter]
    for n in (8, 64, 112):
        for slab in (0, 1) if path.has_sub_slabs else (0,):
            layout = tmem_datapath_layout(letter, path.rows, n, slab)
            for r in range(path.rows):
                for c in (0, 1, n // 2 - 1, n // 2, n - 1):
                    lane, column = DATAPATH_FORMULAS[letter](r, c, n, slab)
                    assert layout.apply(r, c, shape=(path.rows, n)) == {"TLane": lane, "TCol": column}
            assert layout.is_injective() and layout.span("TLane") <= 128


# ---- shared memory -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [d for d, bits in BITS.items() if 128 % bits == 0])
@pytest.mark.parametrize("mode", ("32B", "64B", "128B"))
def test_swizzled_bytes(mode: str, dtype: str) -> None:
    """The descriptor's formula on byte addresses: a ^ ((a >> 3) & mask), with mask 0x10, 0x30, 0x70."""
    mask = {"32B": 0x10, "64B": 0x30, "128B": 0x70}[mode]
    atom = mma_atom(dtype, mode)
    bits = BITS[dtype]
    columns = SWIZZLE_MODES[mode][0] * 8 // bits
    rows, cols = np.indices((32, columns))
    layout = mma_shared_layout(dtype, mode, (32, columns))
    linear = (rows * columns + cols) * bits
    byte = linear // 8
    expected = (byte ^ ((byte >> 3) & mask)) * 8 + linear % 8
    assert np.array_equal(layout.apply(rows, cols, shape=(32, columns))["m"] * bits, expected)
    assert get_swizzle_mode(layout) == get_swizzle_mode(layout, dtype) == get_swizzle_mode(atom) == mode
    assert atom.size() == 8 * columns and layout.is_injective() and layout.is_surjective(m=32 * columns)


@pytest.mark.parametrize("dtype", ("int8", "float16", "float32"))
@pytest.mark.parametrize("mode", ("32B", "64B", "128B"))
def test_swizzled_formulas_are_short_and_right(mode: str, dtype: str) -> None:
    """Atoms in any stack: one XOR of a row's digit with a column's, whatever else there is."""
    for shape in ((8, 128), (64, 256), (3, 16, 256), (2, 3, 24, 256)):
        layout = mma_shared_layout(dtype, mode, shape)
        formula = layout.formulas(shape)["m"]
        assert formula.count("^") == 1 and formula.count("(") == 1 and formula.count("//") <= 3, formula
        where = np.indices(shape).reshape(len(shape), -1)
        values = eval(formula, {}, dict(zip(coordinate_names(len(shape)), where)))
        assert np.array_equal(values, layout.apply(*where, shape=shape)["m"])


def test_swizzled_formulas() -> None:
    for mode, text in (("32B", "j//16*1024 + i*16 + (i//4 % 2 ^ j//8 % 2)*8 + j % 8"), ("64B", "j//32*2048 + i*32 + (i//2 % 4 ^ j//8 % 4)*8 + j % 8"),
                       ("128B", "j//64*4096 + i*64 + (i % 8 ^ j//8 % 8)*8 + j % 8")):
        assert mma_shared_layout("float16", mode, (64, 128)).formulas((64, 128)) == {"m": text}
    n = named("n")
    stages = ComposeLayout(3, 3, 3, TileLayout(S[(n, 64, 64):(4096, 64, 1)]))
    assert stages.formulas((n, 64, 64)) == {"m": "i*4096 + j*64 + (k//8 ^ j % 8)*8 + k % 8"}
    part = mma_shared_layout("float16", "128B", (8, 64)).slice((8, 64), [(4, 8), (32, 64)])
    assert part.formulas((4, 32)) == {"m": "i*64 + (i + 4 ^ j//8 + 4)*8 + j % 8 + 256"}


def test_atoms_are_stacked_down_then_across() -> None:
    layout = mma_shared_layout("float16", "128B", (2, 16, 128))
    assert repr(layout) == "ComposeLayout(3, 3, 3, TileLayout(S[(2, 16, 2, 64):(2048, 64, 1024, 1)]))"
    assert repr(mma_shared_layout("float16", "none", (64, 64))) == "TileLayout(S[(64, 8, 8):(8, 512, 1)])"
    assert repr(mma_shared_layout("float16", "none", (4, 12))) == "TileLayout(S[48:1])"
    assert mma_shared_layout("float16", "SWIZZLE_128B_ATOM", (8, 64)) == mma_shared_layout("float16", "128B", (8, 64)) == mma_atom("float16", "128B")
    assert get_swizzle_mode(TileLayout(S[8])) == "none"


# ---- banks ---------------------------------------------------------------------------------------------------------------

def column(c: int) -> list[tuple[int, int]]:
    return [(row, c) for row in range(8)]


def test_the_128_byte_swizzle_frees_columns() -> None:
    swizzled, plain = mma_shared_layout("float16", "128B", (8, 64)), TileLayout(S[8, 64])
    for c in range(64):
        found = swizzled.bank_conflicts(column(c), "float16", (8, 64))
        assert found.free and (found.ways, found.passes) == (1, 1)
        assert plain.bank_conflicts(column(c), "float16", (8, 64)).ways == 8
    for c in range(0, 64, 8):                               # the eight rows that ldmatrix reads, 16 bytes each
        assert swizzled.bank_conflicts(column(c), "float16", (8, 64), vector=8).free
    assert str(plain.bank_conflicts(column(0), "float16", (8, 64), vector=8)) == "8-way conflict, 8 passes instead of 1"


def test_padding_frees_columns_of_words() -> None:
    for pitch, ways in ((32, 32), (33, 1), (34, 2), (36, 4), (48, 16)):
        layout = TileLayout(S[(32, 32):(pitch, 1)])
        assert bank_conflicts(layout, lambda lane: (lane, 0), "float32", (32, 32)).ways == ways


def test_wide_accesses_are_served_in_parts() -> None:
    row = TileLayout(S[32, 8])
    for vector, parts in ((1, 1), (2, 2), (4, 4)):
        found = row.bank_conflicts(lambda lane, v=vector: (lane * v // 8, lane * v % 8), "float32", (32, 8), vector)
        assert found.free and (found.passes, len(found.words)) == (parts, parts)
    assert row.bank_conflicts(range(32), "float32") == row.bank_conflicts(lambda lane: divmod(lane, 8), "float32", (32, 8))
    same_word = row.bank_conflicts([(0, 0)] * 32, "float32", (32, 8))
    assert str(same_word) == "conflict-free, 1 pass" and same_word.words[0][0] == (0,)
    # Two 16-bit elements share a word: a column of neighbours in pairs is one word a pair.
    assert TileLayout(S[(2, 32):(1, 64)]).bank_conflicts(lambda lane: (lane % 2, lane // 2), "float16", (2, 32)).ways == 16


def test_stmatrix_of_an_accumulator_is_free() -> None:
    """The addresses of stmatrix.x4 for eight registers of a wgmma accumulator, into the swizzled slab of 64 columns."""
    slab = mma_shared_layout("bfloat16", "128B", (64, 64))
    for warp in range(4):
        for c in range(0, 64, 16):
            rows = [(16 * warp + lane % 16, c + 8 * (lane // 16)) for lane in range(32)]
            assert slab.bank_conflicts(rows, "bfloat16", (64, 64), vector=8).free


def test_swizzled_tiles() -> None:
    atom = mma_atom("float16", "128B")
    big = atom.tile_to((64, 128), (8, 64))
    assert repr(big) == "ComposeLayout(3, 3, 3, TileLayout(S[(8, 8, 2, 64):(1024, 64, 512, 1)]))"
    assert atom.is_tile_inner(big, (64, 128), (8, 64)) == TileLayout(S[8, 2])
    with pytest.raises(LayoutError, match="its swizzle is another"):
        mma_atom("float32", "128B").is_tile_inner(big, (64, 128), (8, 32))
    summed = mma_atom("float16", "128B").direct_sum(TileLayout(S[2:512]), (2,), (512,))
    assert [summed.apply(x)["m"] for x in range(1024)] == [ComposeLayout(3, 3, 3, TileLayout(S[1024])).apply(x)["m"] for x in range(1024)]
    assert big.permute((64, 128), (1, 0)).apply(9, 3, shape=(128, 64)) == big.apply(3, 9, shape=(64, 128))
    assert big.broadcast(2, 0).apply(1, 3, 9, shape=(2, 64, 128)) == big.apply(3, 9, shape=(64, 128))
    assert big.compose(TileLayout(S[(64, 64):(128, 1)])).apply(3, 9, shape=(64, 64)) == big.apply(3, 9, shape=(64, 128))
    assert (big.span(), big.size(), big.storage() is big, big.is_trivial(), ComposeLayout(0, 0, 0, TileLayout(S[8])).is_trivial()) == (
        8192, 8192, True, False, True)
    assert ComposeLayout(3, 3, 3, TileLayout(S[(4, 64):(64, 1)] + 8)).span() == 320


def test_a_swizzle_on_bytes_of_another_dtype_moves_the_same_bytes() -> None:
    half = mma_shared_layout("float16", "128B", (8, 64))
    assert half.pack(2) == mma_shared_layout("float32", "128B", (8, 32)) and half.unpack(2) == ComposeLayout(4, 3, 3, TileLayout(S[(512, 2):(2, 1)]))
    assert half.unpack(2).canonicalize() == mma_shared_layout("int8", "128B", (8, 128))


def test_lanes_along_a_row() -> None:
    assert TileLayout(S[(8, 4):(4@laneid, 1@laneid)]).canonicalize() == TileLayout(S[32:1@laneid])
