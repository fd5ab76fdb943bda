"""Every row of the rule table is proved; wrong rows are refuted by the same means."""

from __future__ import annotations

import pytest

from symbolic.rules import RULES, Rule
from tests.symbolic import proofs
from tests.symbolic.golden import DATA

TABLE = sorted(RULES)


@pytest.mark.parametrize("name", TABLE)
def test_row_holds_on_a_box(name: str) -> None:
    """With negatives, 0 and 1; and the condition is met somewhere, so the row says something."""
    points, counterexample = proofs.exhaustive(RULES[name])
    assert counterexample == ""
    assert points > 0


@pytest.mark.parametrize("name", TABLE)
def test_row_holds_for_all_integers(name: str) -> None:
    """The solver leaves nothing fixed; rows of bits are proved on all 32-bit words."""
    assert proofs.prove(RULES[name])


@pytest.mark.parametrize("name", [n for n in TABLE if not RULES[n].internal])
def test_row_stays_in_the_word(name: str) -> None:
    """No value that the right side computes leaves the word when all of the left side stay: tried in small words, and
    proved by the solver for int32."""
    points, counterexample = proofs.words(RULES[name])
    assert counterexample == ""
    assert points > 0
    if RULES[name].group != "bits":
        assert proofs.prove_words(RULES[name])


def test_internal_rows_are_few() -> None:
    """A row may name values beyond int32 only where the readable form puts something else in their place."""
    assert [n for n in TABLE if RULES[n].internal] == ["div-refine", "le-is-lt", "lt-scale", "mod-definition"]


def _wrong() -> list[tuple[str, str, str, str]]:
    rows = []
    for line in (DATA / "wrong_rules.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            left, right, when, why = (part.strip() for part in line.split(";"))
            rows.append((left, right, when, why))
    return rows


@pytest.mark.parametrize(("left", "right", "when", "why"), _wrong())
def test_tempting_row_is_refuted(left: str, right: str, when: str, why: str) -> None:
    """What looks right and is not: the proofs must see it, or they would let it into the table."""
    rule = Rule("tempting", left, right, when, "", False)
    if why.startswith("int32"):
        assert proofs.exhaustive(rule)[1] == "" and proofs.words(rule)[1] != ""
    else:
        assert proofs.exhaustive(rule)[1] != ""
        if not any(operator in left for operator in "&|^"):
            assert not proofs.prove(rule)
