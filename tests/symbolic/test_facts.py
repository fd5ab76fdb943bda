"""What is known: bounds, residues, relations, scopes, and what follows from them."""

from __future__ import annotations

import pytest

from symbolic import (
    Facts,
    Int,
    Symbol,
    absolute,
    eq,
    evaluate,
    land,
    le,
    lnot,
    lor,
    lt,
    maximum,
    minimum,
    ne,
    select,
    truncdiv,
    truncmod,
)
from tests.fuzz.simplify import cases

i, j, n, m = (Symbol(name) for name in "ijnm")


@pytest.fixture
def facts() -> Facts:
    known = Facts()
    known.bound(n, 1, None)
    known.bound(i, 0, 8)
    known.bound(j, -3, 5)
    return known


@pytest.mark.parametrize(("e", "bounds"), [
    (i, (0, 7)), (n, (1, None)), (m, (None, None)), (i * 8 + j, (-3, 60)), (i - j, (-4, 10)), (-i, (-7, 0)), (n * i, (0, None)),
    (j // 2, (-2, 2)), (j // -2, (-2, 1)), (j % 4, (0, 3)), (i % 16, (0, 7)), (j % -4, (-3, 0)), (i // n, (0, 7)), (j // n, (-3, 4)),
    (m % n, (0, None)), (m % 8, (0, 7)), (i - i // 4 * 4, (0, 3)), (i * 2 - i // 4 * 8 + i // 4, (0, 7)),
    (truncdiv(j, 2), (-1, 2)), (truncmod(j, 2), (-1, 1)), (minimum(i, j), (-3, 4)), (maximum(i, j), (0, 7)), (absolute(j), (0, 4)),
    (select(lt(m, 0), i, j), (-3, 7)), (i & 5, (0, 5)), (m & 6, (0, 6)), (i ^ 8, (8, 15)), (lt(m, 3), (0, 1)),
    (i * i, (0, 49)), (m * m, (0, None)), (m // 0, (None, None)),
])
def test_bounds(facts: Facts, e: Int, bounds: tuple[int | None, int | None]) -> None:
    assert facts.bounds(e) == bounds


@pytest.mark.parametrize(("relation", "answer"), [
    (lt(i, 8), True), (lt(i, 7), None), (lt(i, 0), False), (le(0, i), True), (eq(i, 9), False), (ne(i, 9), True), (lt(0, n), True),
    (lt(i, n), None), (eq(i * 2, j * 2 + 1), False), (land(lt(i, 8), lt(j, 5)), True), (lor(lt(m, 0), le(0, m)), True),
    (land(lt(m, 0), lt(0, m)), False), (le(i // 4 * 4, i), True), (lt(i, i + n), True), (eq(m - m, 0), True), (lnot(lt(i, 8)), False),
])
def test_prove(facts: Facts, relation: Int, answer: bool | None) -> None:
    assert facts.prove(relation) is answer


def test_symbolic_bounds_and_products() -> None:
    facts = Facts()
    facts.bound(n, 1, None)
    facts.bound(m, 1, None)
    facts.bound(i, 0, n)
    facts.bound(j, 0, m)
    assert facts.prove(lt(i * m + j, n * m)) is True
    assert facts.prove(le(i * m, n * m)) is True
    assert facts.prove(lt(i, n - 1)) is None
    assert facts.prove(lt(n - 1 - i, n)) is True
    inside = facts.scope()
    inside.assume(lt(i + 1, n))
    assert inside.prove(lt(i, n - 1)) is True
    assert inside.prove(le(2, n)) is True               # 0 <= i < n - 1 leaves two at least
    assert facts.prove(le(2, n)) is None


def test_bounds_by_an_expression() -> None:
    facts = Facts()
    facts.bound(n, 1, None)
    facts.bound(i, j, minimum(n, 100))
    assert facts.prove(lt(i, n)) is True and facts.prove(lt(i, 100)) is True and facts.prove(le(j, i)) is True
    assert facts.bounds(i) == (None, 99)


def test_relations_between_sums() -> None:
    facts = Facts()
    facts.bound(i, 0, None)
    facts.bound(j, 0, 16)
    facts.assume(lt(i * 16 + j, n))
    assert facts.bounds(n) == (1, None)
    assert facts.prove(lt(i * 16, n)) is True
    assert facts.prove(lt(i, n)) is True
    facts.assume(eq(n, 64))
    assert facts.bounds(i) == (0, 3) or facts.prove(lt(i, 4)) is True


def test_divisibility_and_residues() -> None:
    facts = Facts()
    facts.bound(n, 1, None)
    facts.divisible(n, 16)
    assert facts.bounds(n) == (16, None)
    assert facts.prove(eq(n % 8, 0)) is True
    assert facts.prove(eq(n % 32, 1)) is False
    assert facts.simplify(n // 16 * 16) is n
    facts.divisible(n, 6)
    assert facts.prove(eq(n % 48, 0)) is True
    assert facts.bounds(n) == (48, None)
    other = Facts()
    other.divisible(i + 3, 4)
    assert other.simplify(i % 4).value == 1


def test_facts_in_any_order() -> None:
    """A residue learnt late sharpens what was said before of the quotients."""
    b, t = Symbol("b"), Symbol("t")
    for late in (False, True):
        facts = Facts()
        facts.bound(n, 1, None)
        facts.bound(t, 0, 256)
        if not late: facts.divisible(n, 256)
        facts.bound(b, 0, (n + 255) // 256)
        assert facts.prove(lt(b * 256 + t, n)) is (None if late else True)
        if late: facts.divisible(n, 256)
        assert facts.prove(lt(b * 256 + t, n)) is True
        outer = Facts()
        outer.bound(n, 1, None)
        outer.bound(t, 0, 256)
        outer.bound(b, 0, (n + 255) // 256)
        inside = outer.scope()
        inside.divisible(n, 256)
        assert inside.prove(lt(b * 256 + t, n)) is True and outer.prove(lt(b * 256 + t, n)) is None


def test_disequality_moves_an_end() -> None:
    facts = Facts()
    facts.bound(i, 0, 8)
    facts.assume(ne(i, 0))
    facts.assume(ne(i, 7))
    facts.assume(ne(i, 4))
    assert facts.bounds(i) == (1, 6)
    facts.assume(lt(i, 5))
    assert facts.bounds(i) == (1, 3)


def test_connectives() -> None:
    facts = Facts()
    facts.assume(land(le(0, i), lt(i, 8), lor(lt(j, 0), lt(9, j))))
    assert facts.bounds(i) == (0, 7)
    assert facts.prove(lor(lt(j, 0), lt(9, j))) is True
    assert facts.prove(lt(j, 0)) is None
    negated = Facts()
    negated.assume(lnot(lor(lt(i, 0), le(8, i))))
    assert negated.bounds(i) == (0, 7)


def test_truth_of_any_expression() -> None:
    facts = Facts()
    facts.bound(i, 0, 8)
    facts.assume(i)
    assert facts.bounds(i) == (1, 7)


def test_contradictions_are_seen_in_the_scope_alone() -> None:
    facts = Facts()
    facts.bound(i, 0, 8)
    for relation in (lt(i, 0), le(8, i), eq(i, 9), land(lt(i, 3), lt(5, i)), eq(i * 2, 3), lt(j, j)):
        dead = facts.scope()
        dead.assume(relation)
        assert dead.contradictory, relation
        assert dead.scope().contradictory
    assert not facts.contradictory
    live = facts.scope()
    live.assume(lt(i, 3))
    assert not live.contradictory


def test_a_scope_sees_what_its_parent_learns_later() -> None:
    facts = Facts()
    inside = facts.scope()
    inside.assume(lt(j, n))
    assert inside.bounds(i) == (None, None)
    facts.bound(i, 0, 8)
    assert inside.bounds(i) == (0, 7)
    facts.divisible(n, 4)
    assert inside.simplify(n // 4 * 4) is n
    assert inside.scope().scope().prove(lt(j, n)) is True
    assert facts.prove(lt(j, n)) is None


def test_bounds_are_never_too_narrow() -> None:
    for number, world, e, assumed in cases(500, seed=11):
        if assumed is not None:
            continue
        lo, hi = world.facts.bounds(e)
        points = world.points()
        for at in range(0, 160, 20):
            try:
                value = evaluate(e, {s: int(points[s][at]) for s in world.symbols})
            except ZeroDivisionError:
                continue
            assert (lo is None or lo <= value) and (hi is None or value <= hi), f"{number}: {e!r} {lo} {hi} {value}"
