"""The page in a real browser: typed into, pointed at, and compared with this package element by element."""

from __future__ import annotations

import json
import random
import re
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from symbolic.layout import AXES, FRAGMENTS, ComposeLayout, R, S, TileLayout, mma_shared_layout, tmem_datapath_layout, wgmma_accumulator
from symbolic.layout.__main__ import main
from symbolic.layout.page import EXAMPLES, page
from symbolic.layout.tile import coordinate_names
from tests.layout.browser import run_in

NAMES = {"S": S, "R": R, "TileLayout": TileLayout, "ComposeLayout": ComposeLayout, **AXES}

TYPED: list[tuple[str, tuple[int, ...]]] = [
    *((source, tuple(map(int, shape.split(",")))) for _, source, shape in EXAMPLES),
    *((row.layout.notation(), row.shape) for row in FRAGMENTS.values()),
    (wgmma_accumulator(64).layout.notation(), (64, 64)),
    *((repr(mma_shared_layout(dtype, mode, shape)), shape) for dtype in ("float16", "float32", "int8") for mode in ("none", "32B", "64B", "128B")
      for shape in ((8, 128),) + ((2, 8, 128),) * (dtype == "float16")),
    *((tmem_datapath_layout(letter, rows, 8).notation(), (rows, 8)) for letter, rows in (("B", 64), ("F", 64), ("G", 32))),
    ("S[(2, 8, 12):(12@TCol, 1@TLane, 1@TCol)]", (2, 8, 12)),
    ("S[8:-1] + 7", (8,)), ("S[8:-1] + 7", (2, 4)), ("S[(4, 8):(8, -1)] + 7", (4, 8)), ("S[4, 8]", (8, 4)), ("S[(8, 4):(1, 8)]", (32,)),
    ("S[(6, 4):(1, 6)] + 3", (8, 3)), ("S[(4, 6):(6@laneid, 1)]", (2, 3, 4)), ("S[(1, 5, 3):(7@warpid, 3, 1)]", (5, 3)), ("S[5]", (1, 5, 1)),
    ("ComposeLayout(0, 2, 3, TileLayout(S[64:1]), swizzle_inner=False)", (4, 16)), ("ComposeLayout(2, 1, 1, S[(6, 10):(100, 1)])", (6, 10)),
    ("S[(4, 2):(1, 0)] + R[(2, 3):(4, 8)]", (4, 2)),
]

# Types each layout, points at every element, and returns what the page shows.
SCRIPT = """
const type = (id, text, event) => { $(id).value = text; $(id).dispatchEvent(new Event(event, {bubbles: true})); };
const see = ([layout, shape]) => {
  $("view").value = "elements";
  type("layout", layout, "input"); type("shape", shape, "input");
  const here = [...document.querySelectorAll(".cell")].map(cell => {
    cell.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
    return [cell.classList.contains("near"), document.querySelectorAll(".near").length, $("here").textContent];
  });
  return {error: $("error").textContent, formulas: $("formulas").textContent, here,
          cells: [...document.querySelectorAll(".cell")].map(c => c.textContent),
          hash: location.hash, colors: new Set([...document.querySelectorAll(".cell")].map(c => c.style.background)).size,
          offered: [...$("color").options].map(o => o.value), color: $("color").value};
};
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    cases = [[source, ", ".join(map(str, shape))] for source, shape in TYPED]
    answer: list[dict[str, Any]] = run_in(page(), f"{SCRIPT} return {json.dumps(cases)}.map(see);", tmp_path_factory.mktemp("page"))
    return answer


def layout_of(source: str) -> Any:
    """The layout that a text writes, as Python reads it: S[...] within ComposeLayout may go without TileLayout."""
    source = re.sub(r"(?<!TileLayout\()S\[", "TileLayout(S[", source) if source.startswith("Compose") and "TileLayout" not in source else source
    if source.count("(") > source.count(")"):
        source += ")"
    made = eval(source, dict(NAMES))
    return made if isinstance(made, (TileLayout, ComposeLayout)) else TileLayout(made)


def test_every_element_is_where_the_package_puts_it(shown: list[dict[str, Any]]) -> None:
    elements = 0
    for (source, shape), seen in zip(TYPED, shown):
        layout = layout_of(source)
        assert seen["error"] == "" and len(seen["here"]) == layout.size(), source
        names = coordinate_names(len(shape))
        for near, marked, words in seen["here"]:
            assert near and marked == 1
            head, *lines = words.split("\n")
            coordinate = tuple(map(int, re.fullmatch(r"element \((.*)\), number \d+:  .*", head)[1].split(", ")))  # type: ignore[index]
            assert head.endswith(", ".join(f"{n} = {x}" for n, x in zip(names, coordinate)))
            place = {line.split(" = ")[0]: int(line.split(" = ")[-1]) for line in lines if " = " in line}
            assert place == layout.apply(*coordinate, shape=shape), (source, coordinate)
            elements += 1
    assert elements == 40504


def test_formulas_are_right_and_as_short_as_the_packages(shown: list[dict[str, Any]]) -> None:
    equal = 0
    for (source, shape), seen in zip(TYPED, shown):
        layout = layout_of(source)
        lines = [line for line in seen["formulas"].split("\n") if " = " in line]
        assert len(lines) == len(layout.axes)
        expected = layout.formulas(shape)
        copies = dict.fromkeys(re.findall(r"\br\d*\b", seen["formulas"]), 0)
        for line in lines:
            axis, text = line.split(" = ")
            equal += text == expected[axis]
            if "swizzle" in text:
                continue
            for x in random.Random(0).sample(range(layout.size()), min(layout.size(), 50)):
                coordinate = []
                for e in reversed(shape):
                    coordinate.insert(0, x % e)
                    x //= e
                values = {**dict(zip(coordinate_names(len(shape)), coordinate)), **copies}
                assert eval(text, {}, values) == layout.apply(*coordinate, shape=shape)[axis], (source, line)
        if "swizzle" not in seen["formulas"]:
            assert sum(map(len, lines)) <= sum(len(f"{a} = {t}") for a, t in expected.items()) + 12, (source, lines, expected)
    print(f"\n{equal} formulas are the package's, letter by letter")
    assert equal == 148


def test_the_page_of_the_issue(shown: list[dict[str, Any]]) -> None:
    by_source = {(source, shape): seen for (source, shape), seen in zip(TYPED, shown)}
    pair = by_source["S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid", (8, 16)]
    assert pair["formulas"] == "laneid = i*4 + j//2 % 4\nwarpid = r*4 + j//8 + 5\nm = j % 2\nr < 2"
    assert pair["here"][9 + 16][2] == ("element (1, 9), number 25:  i = 1, j = 9\n"
                                       "laneid = i*4 + j//2 % 4 = 4\nwarpid = r*4 + j//8 + 5 = 6\nm = j % 2 = 1")
    assert pair["cells"][:4] == ["T0 w5\nr0", "T0 w5\nr1", "T1 w5\nr0", "T1 w5\nr1"] and pair["colors"] == 32
    assert pair["offered"] == ["laneid", "warpid", "m", "i", "j"] and pair["color"] == "laneid"
    swizzled = by_source["ComposeLayout(3, 3, 3, S[512:1])", (8, 64)]
    assert swizzled["formulas"] == "m = i*64 + (i ^ j//8)*8 + j % 8"
    assert swizzled["here"][65][2] == "element (1, 1), number 65:  i = 1, j = 1\nm = i*64 + (i ^ j//8)*8 + j % 8 = 73\nbank 4"


def test_refusals_are_shown(tmp_path: Path) -> None:
    refused = {
        ("S[(4, 8):(16, 1)", "4, 8"): "] was expected, not the end",
        ("S[(4, 8):(16)]", "4, 8"): "2 extents have 1 strides",
        ("S[8:1@lane]", "8"): "there is no axis lane; the axes are " + ", ".join(AXES),
        ("S[4, 8]", "4, 4"): "the layout has 32 elements, but shape (4, 4) has 16",
        ("S[4, 8]", ""): "the shape needs positive extents, as in 8, 16",
        ("ComposeLayout(3, 4, 3, S[512])", "512"): "a swizzle needs per_element >= 0, swizzle_len >= 0 and atom_len >= swizzle_len",
        ("ComposeLayout(3, 3, 3, S[512:1@laneid])", "512"): "a swizzle permutes addresses along m; this tile has other axes or copies",
        ("S[8:1] 5", "8"): "5 was not expected",
        ("S[x:1]", "8"): "a number was expected, not x",
    }
    answer = run_in(page(), f"{SCRIPT} return {json.dumps(list(map(list, refused)))}.map(see);", tmp_path)
    assert [a["error"] for a in answer] == list(refused.values())
    assert all(a["cells"] == [] and a["formulas"] == "" for a in answer)


def test_lines_by_banks_colours_examples_and_the_address(tmp_path: Path) -> None:
    answer = run_in(page(), SCRIPT + """
      const grid = () => [...document.querySelectorAll(".cell")].map(c => [c.textContent, c.style.gridRow, c.style.gridColumn, c.style.background]);
      const heads = () => [...document.querySelectorAll(".head")].map(c => c.textContent);
      type("example", "6", "change");
      const lines = {layout: $("layout").value, shape: $("shape").value, view: $("view").value, cells: grid(), heads: heads(), hash: location.hash};
      type("view", "elements", "change");
      const elements = {count: grid().length, first: grid()[1]};
      see(["S[(8, 32):(33, 1)]", "8, 32"]);
      type("dtype", "float32", "change"); type("color", "bank", "change");
      const banks = {cells: grid(), hash: location.hash};
      return {lines, elements, banks};
    """, tmp_path)
    lines = answer["lines"]
    assert (lines["layout"], lines["shape"], lines["view"]) == ("ComposeLayout(3, 3, 3, S[512:1])", "8, 64", "banks")
    assert lines["heads"][:8] == ["0-3", "4-7", "8-11", "12-15", "16-19", "20-23", "24-27", "28-31"]
    assert {(text, int(row.split()[0]) - 2, int(column.split()[0]) - 2) for text, row, column, _ in lines["cells"]} == {
        (f"{row},{8 * chunk}", row, chunk ^ row) for row in range(8) for chunk in range(8)}
    assert parse_qs(urlsplit(lines["hash"]).fragment)["view"] == ["banks"]
    assert answer["elements"]["count"] == 512 and answer["elements"]["first"][0] == "1"
    cells = answer["banks"]["cells"]
    assert len({color for *_, color in cells}) == 32
    assert cells[0][3] == cells[32 + 31][3] != cells[1][3]          # the padded row begins one bank further
    assert parse_qs(urlsplit(answer["banks"]["hash"]).fragment)["color"] == ["bank"]


def test_the_page_opens_at_the_layout_asked_for(tmp_path: Path) -> None:
    """The address that `python -m symbolic.layout` opens, sums and all; and the page's own address brings its state back."""
    asked = main(["S[(4, 8):(1, 4)] + 5", "4, 8", "-o", str(tmp_path / "own.html"), "--no-open"])
    see = 'return [$("layout").value, $("shape").value, $("color").value, $("formulas").textContent, location.hash.slice(1)];'
    answer = run_in(page(), see, tmp_path, urlsplit(asked).fragment)
    assert answer[:4] == ["S[(4, 8):(1, 4)] + 5", "4, 8", "m", "m = j*4 + i + 5"]
    again = run_in(page(), see, tmp_path, answer[4].replace("color=m", "color=j"))
    assert again[:4] == ["S[(4, 8):(1, 4)] + 5", "4, 8", "j", "m = j*4 + i + 5"]


# ---- without a browser -----------------------------------------------------------------------------------------------------

def test_the_page_stands_alone() -> None:
    """Nothing is loaded from elsewhere."""
    text = page()
    assert not re.search(r"""(src|href)\s*=|@import|url\(|fetch\(|https?://""", text) and "/*DATA*/" not in text


def test_main_writes_and_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    file = tmp_path / "page.html"
    address = main(["S[(8, 16):(1, 8)]", "8,16", "-o", str(file)])
    assert opened == [address] and capsys.readouterr().out == address + "\n" and file.read_text() == page()
    assert parse_qs(urlsplit(address).fragment) == {"layout": ["S[(8, 16):(1, 8)]"], "shape": ["8,16"]}
    assert main(["--no-open"]).endswith("/layouts.html") and len(opened) == 1
    with pytest.raises(SystemExit):
        main(["S[8:1]"])
    assert "give a layout and its shape, or neither" in capsys.readouterr().err
