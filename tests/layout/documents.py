"""Documents whose code blocks run: `python -m tests.layout.documents` writes what they print, and their pictures."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "layouts.md"
PIECE = re.compile(r"^```python\n(?P<code>.*?)^```$|^!\[[^\]]*\]\((?P<picture>[^)]+)\)$", re.MULTILINE | re.DOTALL)


def pieces(source: str) -> Iterator[re.Match[str]]:
    """Code blocks and pictures, in order."""
    return PIECE.finditer(source)


def examples(block: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(block)


def printed(example: doctest.Example, names: dict[str, Any]) -> str:
    """What the prompt would print."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(example.source, "<document>", "single"), names)
        except Exception as error:
            return f"Traceback (most recent call last):\n    ...\n{type(error).__module__}.{type(error).__qualname__}: {error}\n"
    return out.getvalue()


def refreshed(source: str) -> tuple[str, dict[str, str]]:
    """The document with the output of its blocks, and the pictures: the value of `picture` where each is shown."""
    names: dict[str, Any] = {}
    pictures: dict[str, str] = {}
    out, end = [], 0
    for piece in pieces(source):
        out.append(source[end:piece.start()])
        end = piece.end()
        if piece["picture"]:
            pictures[piece["picture"]] = names["picture"]
            out.append(piece[0])
        else:
            lines = []
            for example in examples(piece["code"]):
                first, *rest = example.source.rstrip("\n").split("\n")
                lines += [f">>> {first}", *(f"... {line}" for line in rest), printed(example, names).rstrip("\n")]
            out.append("```python\n" + "\n".join(line for line in lines if line) + "\n\n```")
    return "".join([*out, source[end:]]), pictures


def main(source: Path = DOCUMENT) -> None:
    text, pictures = refreshed(source.read_text())
    DOCUMENT.write_text(text)
    for name, picture in pictures.items():
        (DOCUMENT.parent / name).write_text(picture + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
