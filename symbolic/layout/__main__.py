"""`python -m symbolic.layout`: write the page, and open it.

    python -m symbolic.layout "S[(8, 16):(1, 8)]" 8,16          the page with this layout
    python -m symbolic.layout -o layouts.html --no-open         only write it
"""

from __future__ import annotations

import argparse
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

from symbolic.layout.page import page


def main(arguments: Sequence[str] | None = None) -> str:
    """Write the page and return its address, with the layout asked for in the fragment."""
    parser = argparse.ArgumentParser(prog="python -m symbolic.layout", description="Write the page of layouts and open it in a browser.")
    parser.add_argument("layout", nargs="?", help='what to show, as in "S[(8, 16):(1, 8)]"')
    parser.add_argument("shape", nargs="?", help="its logical shape, as in 8,16")
    parser.add_argument("-o", "--output", type=Path, help="the file to write; a new temporary one by default")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    asked = parser.parse_args(arguments)
    if (asked.layout is None) != (asked.shape is None):
        parser.error("give a layout and its shape, or neither")
    file = asked.output or Path(tempfile.mkdtemp(prefix="layouts-")) / "layouts.html"
    file.write_text(page(), encoding="utf-8")
    address: str = file.resolve().as_uri()
    if asked.layout is not None:
        address += "#" + urlencode({"layout": asked.layout, "shape": asked.shape})
    print(address)
    if not asked.no_open:
        webbrowser.open(address)
    return address


if __name__ == "__main__":
    main()
