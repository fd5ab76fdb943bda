"""The page: one self-contained HTML file in which a layout and a shape are typed, drawn, and explained under the pointer.

Its script reads the notation, maps elements, and prints formulas by itself, so that the file works anywhere; the tests run it in a
browser and compare it with this package.
"""

from __future__ import annotations

import json
from pathlib import Path

from symbolic.layout.axes import AXES
from symbolic.layout.banks import BITS

EXAMPLES = (
    ("mma m16n8k16, A (16-bit)", "S[(2, 8, 2, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)]", "16, 16"),
    ("mma m16n8k16, C", "S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)]", "16, 8"),
    ("two warps, with copies", "S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid", "8, 16"),
    ("wgmma m64n16, D", "S[(4, 2, 8, 2, 4, 2):(1@wid_in_wg, 2, 4@laneid, 4, 1@laneid, 1)]", "64, 16"),
    ("padded rows", "S[(8, 32):(33, 1)]", "8, 32"),
    ("column-major", "S[(8, 16):(1, 8)]", "8, 16"),
    ("128B swizzle, float16", "ComposeLayout(3, 3, 3, S[512:1])", "8, 64"),
    ("64B swizzle, float16", "ComposeLayout(3, 2, 3, S[(16, 2, 32):(32, 512, 1)])", "16, 64"),
    ("tensor memory, datapath F", "S[(4, 16, 16):(32@TLane, 1@TLane, 1@TCol)]", "64, 16"),
)


def page() -> str:
    """The HTML text."""
    data = {"memory": [a.name for a in AXES.values() if a.is_memory], "axes": list(AXES), "bits": BITS, "examples": EXAMPLES}
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return template.replace("/*DATA*/null", json.dumps(data).replace("</", "<\\/"))

