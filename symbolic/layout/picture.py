"""Pictures of layouts, as SVG.

A tile layout is drawn as its logical grid, each cell with the thread that owns the element and its place in memory; a swizzled one
as lines of 128 bytes by banks, each chunk with the coordinate of the element that it begins with.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import prod

from symbolic.layout.banks import BANKS, WORD, bits_of
from symbolic.layout.errors import LayoutError
from symbolic.layout.swizzle import ComposeLayout, Layout
from symbolic.layout.tile import TileLayout, coordinate_names
from symbolic.layout.values import number

ROWS_AT_MOST = COLUMNS_AT_MOST = 64
HEAD, LINE, CHAR = 44, 15, 6.1          # pixels: the margin of labels, a line of text, a character of it
LINE_BYTES = BANKS * WORD

_SHORT = {"laneid": "T", "tx": "T", "tid_in_wg": "T", "warpid": "w", "wid_in_wg": "w", "wgid": "g", "m": "r", "TLane": "L", "TCol": "C"}


def colour(key: int, count: int) -> str:
    """The fill for value `key` of `count`: hues around the circle, neighbours told apart by lightness too."""
    return f"hsl({360 * key / max(count, 1) % 360:.0f},{62 if key % 2 else 75}%,{78 if key % 2 else 86}%)"


def svg(layout: Layout, shape: Sequence[int] | None = None, color_by: str | None = None, dtype: str | None = None) -> str:
    """The picture as SVG text.

    `color_by` is an axis, or "bank" (of a memory axis `m` of `dtype`), or, for a swizzled layout, the name of a coordinate (`i`, `j`, ..).
    Raises LayoutError for a layout with symbols, a shape of another size, and an unknown `color_by`. More than 64 rows or
    columns are cut off, and the picture says so.
    """
    if layout.is_symbolic:
        raise LayoutError(f"{layout.notation()} has symbols: give them values to draw it")
    dims = tuple(shape) if shape is not None else default_shape(layout)
    return _lines(layout, dims, color_by, dtype) if isinstance(layout, ComposeLayout) else _grid(layout, dims, color_by, dtype or "float32")


def for_notebook(layout: Layout) -> str | None:
    """The picture that a notebook shows, None for a layout with symbols or without elements."""
    return None if layout.is_symbolic or layout.size() == 0 else svg(layout)


def default_shape(layout: Layout) -> tuple[int, ...]:
    """(rows, columns) at the boundary between iters that makes the squarest picture; one iter is a row."""
    extents = [number(i.extent) for i in layout.shard]
    if len(extents) < 2:
        return (prod(extents),)
    splits = [(prod(extents[:k]), prod(extents[k:])) for k in range(1, len(extents))]
    return min(splits, key=lambda s: (max(s) / max(min(s), 1), -s[1]))


# ---- a grid of elements ------------------------------------------------------------------------------------------------

def _grid(layout: TileLayout, shape: tuple[int, ...], color_by: str | None, dtype: str) -> str:
    import numpy as np
    size = prod(shape)
    if size == 0:
        raise LayoutError(f"shape {shape} has no elements to draw")
    places = {name: np.broadcast_to(v, size).tolist() for name, v in layout.apply(*np.unravel_index(np.arange(size), shape), shape=shape).items()}
    threads = [a.name for a in layout.axes if not a.is_memory]
    memory = [a.name for a in layout.axes if a.is_memory]
    key = color_by or ("laneid" if "laneid" in threads else (threads + memory)[0])
    if key == "bank" and "m" in places:
        keys = [address * bits_of(dtype) // 8 // WORD % BANKS for address in places["m"]]
    elif key in places:
        keys = places[key]
    else:
        raise LayoutError(f"color_by={key!r} is no axis of {layout.notation()}, whose axes are {', '.join(places)}; or \"bank\", along m")
    least, count = min(keys), BANKS if key == "bank" else max(keys) - min(keys) + 1

    def label(axes: list[str], x: int) -> str:
        return " ".join(f"{_SHORT.get(a, a + ' ')}{places[a][x]}" for a in axes)

    columns = shape[-1] if len(shape) > 1 else min(size, 32)
    cells: dict[tuple[int, int], tuple[list[str], str]] = {}
    for x in range(size):
        row, column = divmod(x, columns)
        if row < ROWS_AT_MOST and column < COLUMNS_AT_MOST:
            lines = [t for t in (label(threads, x), label(memory, x) if threads or len(memory) > 1 else str(places[memory[0]][x])) if t]
            cells[row, column] = lines, colour(keys[x] - least, count)
    rows = -(-size // columns)
    lead = shape[:-1]
    heads = [",".join(map(str, np.unravel_index(r, lead))) if lead else str(r * columns) for r in range(min(rows, ROWS_AT_MOST))]
    caption = [layout.notation(), *(f"{a} = {t}" for a, t in layout.formulas(shape).items()),
               f"shape {shape}, coloured by {key}" + (f" of {dtype}" if key == "bank" else "")]
    return _draw(cells, heads, [str(c) for c in range(min(columns, COLUMNS_AT_MOST))], caption, (rows, columns))


# ---- lines of memory by banks --------------------------------------------------------------------------------------------

def _lines(layout: ComposeLayout, shape: tuple[int, ...], color_by: str | None, dtype: str | None) -> str:
    import numpy as np
    chunk = 1 << layout.swizzle.per_element
    bits = 128 // chunk if dtype is None else bits_of(dtype)
    if bits == 0 or LINE_BYTES * 8 % (bits * chunk):
        raise LayoutError(f"chunks of {chunk} elements of {bits} bits do not divide a line of {LINE_BYTES} bytes; give the dtype")
    per_line = LINE_BYTES * 8 // (bits * chunk)
    size = prod(shape)
    names = coordinate_names(len(shape))
    where = np.unravel_index(np.arange(size), shape)
    address = np.broadcast_to(layout.apply(*where, shape=shape)["m"], size)
    key = color_by or names[-1]
    if key not in (*names, "bank"):
        raise LayoutError(f"color_by={key!r} is none of {', '.join(names)}, bank")
    first = np.flatnonzero(address % chunk == 0)
    chunks = address[first] // chunk
    if key == "bank":
        keys, count = chunks % per_line, per_line
    else:
        values = where[names.index(key)][first]
        distinct, keys = np.unique(values, return_inverse=True)
        count = len(distinct)
    cells = {}
    for x, at, k in zip(first.tolist(), chunks.tolist(), keys.tolist()):
        line, column = divmod(at, per_line)
        if 0 <= line < ROWS_AT_MOST:
            cells[line, column] = [",".join(str(int(w[x])) for w in where)], colour(k, count)
    lines = int(chunks.max()) // per_line + 1
    banks = bits * chunk // 8 // WORD
    heads = [f"{c * banks}-{(c + 1) * banks - 1}" if banks > 1 else str(c) for c in range(per_line)]
    caption = [repr(layout), *(f"{a} = {t}" for a, t in layout.formulas(shape).items()),
               f"lines of {LINE_BYTES} bytes by banks; each chunk of {chunk} elements of {bits} bits shows its first element, coloured by {key}"]
    return _draw(cells, [str(line) for line in range(min(lines, ROWS_AT_MOST))], heads, caption, (lines, per_line))


# ---- drawing -----------------------------------------------------------------------------------------------------------

Cells = dict[tuple[int, int], tuple[list[str], str]]


def _draw(cells: Cells, rows: list[str], columns: list[str], caption: list[str], whole: tuple[int, int]) -> str:
    longest = max(*(len(t) for lines, _ in cells.values() for t in lines), *map(len, columns), 1)
    deepest = max((len(lines) for lines, _ in cells.values()), default=1)
    width, height = max(30, int(longest * CHAR) + 8), deepest * LINE + 5
    left = max(HEAD, int(max(map(len, rows), default=1) * CHAR) + 10)
    if whole[0] > len(rows) or whole[1] > len(columns):
        caption = [*caption, f"the first {len(rows)} of {whole[0]} rows and {len(columns)} of {whole[1]} columns"]
    top = LINE * len(caption) + 26
    out = []

    def text(x: float, y: float, words: str, kind: str) -> None:
        out.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>')

    for k, words in enumerate(caption):
        text(6, LINE * (k + 1), words, "caption")
    for c, words in enumerate(columns):
        text(left + (c + 0.5) * width, top - 6, words, "head")
    for r, words in enumerate(rows):
        text(left - 8, top + (r + 0.5) * height + 4, words, "side")
    for (r, c), (lines, fill) in sorted(cells.items()):
        x, y = left + c * width, top + r * height
        out.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>')
        for k, words in enumerate(lines):
            text(x + width / 2, y + height / 2 + (k - (len(lines) - 1) / 2) * LINE + 4, words, "cell")
    across = max(left + len(columns) * width + 8, int(max(map(len, caption)) * 6.7) + 14)
    down = top + len(rows) * height + 8
    style = ("text{font:10px ui-monospace,Menlo,Consolas,monospace;fill:#1c2330}.cell,.head{text-anchor:middle}.side{text-anchor:end}"
             ".caption{font-size:11px}.head,.side{fill:#667085}rect{stroke:#fff;stroke-width:1}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{down}" viewBox="0 0 {across} {down}" role="img">'
            f'<title>{escape(caption[0])}</title><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>' + "".join(out) + "</svg>")


