"""docs/layouts.md: every code block runs and prints what it says, every picture is the one that its block draws; docstrings too."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re

import pytest

import symbolic.layout
from tests.layout.documents import DOCUMENT, examples, pieces, refreshed


def test_the_document_is_what_its_blocks_print() -> None:
    source = DOCUMENT.read_text()
    text, pictures = refreshed(source)
    assert text == source
    assert sum(len(examples(p["code"])) for p in pieces(source) if p["code"]) == 82
    assert {name: (DOCUMENT.parent / name).read_text() for name in pictures} == {name: picture + "\n" for name, picture in pictures.items()}
    assert sorted(pictures) == sorted(re.findall(r"!\[.*?\]\((.*?)\)", source)) and len(pictures) == 4


def test_every_code_block_is_run() -> None:
    """No block escapes by its fence: what is fenced is Python with a prompt."""
    source = DOCUMENT.read_text()
    assert source.count("```") == 2 * sum(1 for p in pieces(source) if p["code"])


def test_every_difference_from_the_reference_is_told() -> None:
    told = DOCUMENT.read_text().partition("## Where it differs")[2]
    for word in ("another size", "negative stride", "`pid`", "new_axis", "canonicalize", "widen_threads", "is_well_formed", "group", "pack",
                 "tile_to", "slice", "permute_dims", "is_tile_inner", "mma_shared_layout", "ComposeLayout"):
        assert word in told


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(symbolic.layout.__path__)])
def test_docstrings_run(name: str) -> None:
    module = importlib.import_module(f"symbolic.layout.{name}")
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0 and (result.attempted == 3 if name == "errors" else True)


@pytest.mark.parametrize("name", symbolic.layout.__all__)
def test_public_names_are_documented(name: str) -> None:
    thing = getattr(symbolic.layout, name)
    if callable(thing):
        assert thing.__doc__ and not thing.__doc__.startswith(f"{name}("), name
        if isinstance(thing, type):
            for method, member in vars(thing).items():
                if not method.startswith("_") and callable(member):
                    assert member.__doc__, f"{name}.{method}"
