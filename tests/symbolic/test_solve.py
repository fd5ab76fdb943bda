"""Extents from shapes."""

from __future__ import annotations

from symbolic import Symbol, evaluate, solve, text

n, m, k = Symbol("n"), Symbol("m"), Symbol("k")
a, b, c = Symbol("a"), Symbol("b"), Symbol("c")


def shown(*equations: tuple) -> tuple[dict[str, str], list[str], list[str], list[str]]:
    s = solve([n, m, k], equations)
    return ({x.name: text(v) for x, v in s.values.items()}, [text(d) for d in s.divisibility], [text(d) for d in s.checks],
            [x.name for x in s.unsolved])


def test_the_first_plain_extent_defines_the_others_are_checked() -> None:
    assert shown((n, a), (n, b), (m, c)) == ({"n": "a", "m": "c"}, [], ["a == b"], ["k"])


def test_multiples_and_offsets() -> None:
    assert shown((n * 2, a), (m * 2 + 1, b), (4 - k, c)) == (
        {"n": "a//2", "m": "(b - 1)//2", "k": "4 - c"}, ["a % 2 == 0", "(b - 1) % 2 == 0"], [], [])


def test_products_with_a_solved_factor() -> None:
    assert shown((n * m, a), (n + 1, b)) == (
        {"n": "b - 1", "m": "a//(b - 1)"}, ["b - 1 != 0", "a % (b - 1) == 0"], [], ["k"])
    assert shown((n * m * 4 + n, a), (n, b)) == (
        {"n": "b", "m": "(a - b)//(b*4)"}, ["b*4 != 0", "(a - b) % (b*4) == 0"], [], ["k"])


def test_chains() -> None:
    assert shown((n + m, a), (m + k, b), (k, c)) == ({"k": "c", "m": "b - c", "n": "a + c - b"}, [], [], [])


def test_plain_extents_come_first_wherever_they_stand() -> None:
    assert shown((n * 2, a), (n, b)) == ({"n": "b"}, [], ["a == b*2"], ["m", "k"])


def test_what_no_equation_determines_is_reported() -> None:
    assert shown((n * m, a)) == ({}, [], [], ["n", "m", "k"])
    assert shown((n // 2, a), (m % 4, b), (k * k, c)) == ({}, [], [], ["n", "m", "k"])


def test_constant_extents_are_checks() -> None:
    s = solve([n], [(n * 0 + 8, a), (n, b)])
    assert [text(x) for x in s.checks] == ["a == 8"]


def test_values_solve_the_equations() -> None:
    equations = [(n * m + 3, a), (2 * n + 1, b), (m - k, c)]
    s = solve([n, m, k], equations)
    truth = {n: 6, m: 5, k: 2}
    known = {x: evaluate(e, truth) for e, x in equations}
    assert {x: evaluate(v, known) for x, v in s.values.items()} == truth
    assert all(evaluate(d, known) for d in (*s.divisibility, *s.checks))
