"""The golden expressions: right, never longer than another simplifier left them, and the same on a second reading."""

from __future__ import annotations

import json

import numpy as np
import pytest

from symbolic import Facts, Symbol, evaluate, operations_count, text
from tests.symbolic.golden import DATA, Case, cases, parse, sample

CASES = cases()

# Where more operators are left than in the reference, each with its reason.
LOSSES: dict[int, str] = {}


def by_id(case: Case) -> str:
    return f"{case.id}-{case.tag}"


@pytest.mark.parametrize("tag", sorted({c.tag for c in CASES}))
def test_equal_everywhere_in_range(tag: str) -> None:
    rng = np.random.default_rng(0)
    for case in (c for c in CASES if c.tag == tag):
        simplified = case.facts().simplify(case.expr)
        points = sample(case, rng)
        want, got = evaluate(case.expr, points), evaluate(simplified, points)
        shape = next(iter(points.values())).shape
        assert (np.broadcast_to(want, shape) == np.broadcast_to(got, shape)).all(), f"{case.source} -> {simplified}"


def test_bounds_hold_everywhere_in_range() -> None:
    rng = np.random.default_rng(1)
    for case in CASES:
        points = sample(case, rng)
        values = np.atleast_1d(evaluate(case.expr, points))
        lo, hi = case.facts().bounds(case.expr)
        assert lo is None or lo <= values.min(), case.source
        assert hi is None or hi >= values.max(), case.source


def test_never_longer_than_the_reference() -> None:
    counts = {c.id: operations_count(c.facts().simplify(c.expr)) for c in CASES}
    losses = {c.id: text(c.facts().simplify(c.expr)) for c in CASES if counts[c.id] > c.reference_operations}
    wins = sum(counts[c.id] < c.reference_operations for c in CASES)
    ties = sum(counts[c.id] == c.reference_operations for c in CASES)
    print(f"\nwins {wins}, ties {ties}, losses {len(losses)}: {losses}")
    print(f"operators: {sum(counts.values())}, reference {sum(c.reference_operations for c in CASES)}")
    assert losses == LOSSES
    assert sum(counts.values()) <= 0.81 * sum(c.reference_operations for c in CASES)
    assert wins >= 70


def test_a_second_reading_changes_nothing() -> None:
    for case in CASES:
        simplified = case.facts().simplify(case.expr)
        assert case.facts().simplify(simplified) is simplified, case.source


def test_text_is_the_expression() -> None:
    """Python evaluates the text to the value of the expression, and reading it back gives the same node."""
    for case in CASES:
        for e in (case.expr, case.facts().simplify(case.expr)):
            if "select" not in case.source:
                assert parse(text(e), case.names) is e, case.source


@pytest.mark.parametrize("record", json.loads((DATA / "index_regressions.json").read_text())["records"],
                         ids=lambda r: r["id"])
def test_index_regression(record: dict) -> None:
    """Expressions that other tools got wrong: the value at the point, simplified knowing nothing, the range, or the point."""
    names = {n: Symbol(n) for n in record["at"]}
    expr = parse(record["expr"], names)
    point = {names[n]: v for n, v in record["at"].items()}
    near, exact = Facts(), Facts()
    for s, v in point.items():
        near.bound(s, min(v, 0), max(v, 0) + 1)
        exact.bound(s, v, v + 1)
    for facts in (Facts(), near, exact):
        simplified = facts.simplify(expr)
        assert evaluate(simplified, point) == record["right"]
        assert eval(text(simplified), {}, {n: record["at"][n] for n in names}) == record["right"]
    assert text(exact.simplify(expr)) == str(int(record["right"]))
