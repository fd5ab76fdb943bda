"""Pictures: well-formed, a cell for each element, the text that the map gives, colours by what was asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from symbolic import named
from symbolic.layout import (
    FRAGMENTS,
    ComposeLayout,
    LayoutError,
    R,
    S,
    TileLayout,
    laneid,
    mma_atom,
    mma_shared_layout,
    tmem_datapath_layout,
    warpid,
)
from symbolic.layout.picture import default_shape, svg
from tests.layout.browser import FLAGS, browser

PAIR = TileLayout(S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid)
SVG = "{http://www.w3.org/2000/svg}"


def read(source: str) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """(caption, [(fill, text of the cell)], heads and sides)."""
    root = ElementTree.fromstring(source)
    texts = root.findall(f"{SVG}text")
    rects = root.findall(f"{SVG}rect")[1:]
    cells = [t.text or "" for t in texts if t.get("class") == "cell"]
    lines = len(cells) // len(rects)
    return ([t.text or "" for t in texts if t.get("class") == "caption"],
            [(r.get("fill") or "", "\n".join(cells[k * lines:(k + 1) * lines])) for k, r in enumerate(rects)],
            [t.text or "" for t in texts if t.get("class") in ("head", "side")])


def test_a_grid_shows_owner_and_register() -> None:
    caption, cells, labels = read(PAIR.svg((8, 16), color_by="laneid"))
    assert caption == [PAIR.notation(), "laneid = i*4 + j//2 % 4", "warpid = r*4 + j//8 + 5", "m = j % 2", "shape (8, 16), coloured by laneid"]
    assert [text for _, text in cells] == [f"T{i * 4 + j // 2 % 4} w{j // 8 + 5}\nr{j % 2}" for i in range(8) for j in range(16)]
    owner = {text.split()[0]: fill for fill, text in cells}
    assert len(set(owner.values())) == 32 and all(owner[text.split()[0]] == fill for fill, text in cells)
    assert labels == [*map(str, range(16)), *map(str, range(8))]


def test_colours_by_any_axis_or_by_bank() -> None:
    assert len({fill for fill, _ in read(PAIR.svg((8, 16), color_by="warpid"))[1]}) == 2
    assert len({fill for fill, _ in read(PAIR.svg((8, 16), color_by="m"))[1]}) == 2
    padded = read(TileLayout(S[(8, 32):(33, 1)]).svg((8, 32), color_by="bank"))
    assert padded[0][-1] == "shape (8, 32), coloured by bank of float32"
    fills = [fill for fill, _ in padded[1]]
    assert len(set(fills)) == 32 and all(fills[32 * i + j] == fills[(i + j) % 32] for i in range(8) for j in range(32))
    halves = [fill for fill, _ in read(svg(TileLayout(S[64]), (64,), "bank", "float16"))[1]]
    assert len(set(halves)) == 32 and halves[0] == halves[1] != halves[2]


def test_swizzled_layouts_show_lines_by_banks() -> None:
    caption, cells, labels = read(mma_atom("float16", "128B").svg((8, 64)))
    assert caption[1] == "m = i*64 + (i ^ j//8)*8 + j % 8"
    assert caption[2] == "lines of 128 bytes by banks; each chunk of 8 elements of 16 bits shows its first element, coloured by j"
    assert [text for _, text in cells] == [f"{line},{8 * (chunk ^ line)}" for line in range(8) for chunk in range(8)]
    assert labels[:8] == ["0-3", "4-7", "8-11", "12-15", "16-19", "20-23", "24-27", "28-31"]
    column = {text.split(",")[1]: fill for fill, text in cells}
    assert len(set(column.values())) == 8 and all(fill == column[text.split(",")[1]] for fill, text in cells)
    assert len({fill for fill, _ in read(mma_atom("float16", "64B").svg((8, 32), color_by="i"))[1]}) == 8
    # Two rows of the 64-byte atom share a line of 128 bytes.
    assert [text for _, text in read(mma_atom("float16", "64B").svg((8, 32)))[1]][:8] == ["0,0", "0,8", "0,16", "0,24", "1,0", "1,8", "1,16", "1,24"]
    with pytest.raises(LayoutError, match="give the dtype"):
        ComposeLayout(8, 1, 1).svg()


def test_ranks_and_large_shapes() -> None:
    assert read(TileLayout(S[40]).svg())[2] == [*map(str, range(32)), "0", "32"]
    assert read(TileLayout(S[2, 2, 3]).svg((2, 2, 3)))[2] == ["0", "1", "2", "0,0", "0,1", "1,0", "1,1"]
    caption, cells, _ = read(TileLayout(S[100, 70]).svg((100, 70)))
    assert caption[-1] == "the first 64 of 100 rows and 64 of 70 columns" and len(cells) == 64 * 64
    assert default_shape(PAIR) == (8, 16) and default_shape(TileLayout(S[(2, 8, 2, 4, 2):(2, 1, 1, 1, 1)])) == (16, 16)
    with pytest.raises(LayoutError, match="but shape"):
        PAIR.svg((8, 8))


def test_notebooks() -> None:
    assert PAIR._repr_svg_() == PAIR.svg((8, 16)) and mma_atom("int8", "32B")._repr_svg_() == mma_atom("int8", "32B").svg()
    assert TileLayout(S[named("n"), 8])._repr_svg_() is None and TileLayout(S[0:1])._repr_svg_() is None


@pytest.mark.parametrize("layout", [*(row.layout for row in FRAGMENTS.values()), tmem_datapath_layout("F", 64, 8),
                                    mma_shared_layout("int8", "32B", (16, 64))])
def test_every_atom_is_drawn(layout: TileLayout) -> None:
    caption, cells, _ = read(layout.svg())
    assert len(cells) == (layout.size() if isinstance(layout, TileLayout) else layout.size() // 16)
    assert caption[1:-1] == [f"{axis} = {text}" for axis, text in layout.formulas(default_shape(layout)).items()]


def test_a_browser_draws_them(tmp_path: Path) -> None:
    """As an image of the size that the file says, with no text outside."""
    file = tmp_path / "picture.svg"
    file.write_text(PAIR.svg((8, 16)))
    shot = tmp_path / "shot.png"
    subprocess.run([browser(), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=900,500", f"--screenshot={shot}", file.as_uri()],
                   capture_output=True, timeout=120, check=True)
    assert shot.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and shot.stat().st_size > 10_000
    root = ElementTree.fromstring(file.read_text())
    width = float(root.get("width") or 0)
    assert max(float(t.get("x") or 0) for t in root.findall(f"{SVG}text")) < width


def test_importing_the_package_draws_and_loads_nothing() -> None:
    """`import symbolic` takes neither SymPy nor the pictures with it."""
    code = "import sys, symbolic.layout; print(sorted(m for m in sys.modules if m in ('sympy', 'symbolic.layout.picture', 'symbolic.layout.page')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
