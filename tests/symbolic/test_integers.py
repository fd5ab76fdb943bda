"""The node: identity, order, light normalisation, evaluation, printing."""

from __future__ import annotations

import ast
import gc

import numpy as np
import pytest

from symbolic import (
    Facts,
    Int,
    Symbol,
    absolute,
    bitand,
    const,
    eq,
    evaluate,
    floordiv,
    free_symbols,
    ge,
    is_const,
    land,
    le,
    lnot,
    lor,
    lt,
    maximum,
    minimum,
    named,
    ne,
    operations_count,
    select,
    shl,
    simplify,
    substitute,
    text,
    truncdiv,
    truncmod,
)
from symbolic import integers as si
from tests.fuzz.simplify import POINTS, cases
from tests.symbolic.golden import parse

i, j, k, n = (Symbol(name) for name in "ijkn")


def test_equal_structure_is_one_node() -> None:
    assert i * 8 + j is j + 8 * i
    assert (i + 1) * 8 - 8 is i * 8
    assert i + j - i is j
    assert minimum(i, j) is minimum(j, i)
    assert eq(i, j) is eq(j, i)
    assert i // 4 is floordiv(i, 4)
    assert const(7) is const(7) and const(1 << 40) is const(1 << 40)


def test_symbols_are_fresh_and_names_are_not() -> None:
    assert Symbol("i") is not Symbol("i")
    assert named("i") is named("i")
    assert Symbol("a").serial < Symbol("a").serial


@pytest.mark.parametrize(("e", "want"), [
    (i * 0, "0"), (i // 1, "i"), (i % 1, "0"), (i % -1, "0"), (const(-7) // 2, "-4"), (const(-7) % 2, "1"),
    (truncdiv(-7, 2), "-3"), (truncmod(-7, 2), "-1"), (i // 0, "i//0"), (const(4) % 0, "4 % 0"),
    (i << 3, "i*8"), (i >> 3, "i//8"), (i & 7, "i % 8"), (i & 56, "i//8 % 8 * 8"), (i & -8, "i//8*8"), (i & 5, "i & 5"),
    (~i, "-i - 1"), (i ^ i, "0"), (i ^ j ^ i, "j"), (i | i, "i"), (i ^ 5 ^ 3, "i ^ 6"), (i & 0, "0"), (i | 0, "i"),
    (i | -1, "-1"), (shl(i, j), "i << j"), (minimum(i, 3, 5), "min(i, 3)"), (maximum(i, i), "i"), (absolute(-3), "3"),
    (lnot(lt(i, j)), "i >= j"), (lnot(land(lt(i, j), eq(i, 3))), "j <= i or i != 3"), (land(lt(i, j), 1), "i < j"),
    (lor(lt(i, j), 1), "1"), (select(1, i, j), "i"), (select(n, i, i), "i"), (select(n, i, j), "i if n != 0 else j"),
])
def test_light_normalisation(e: Int, want: str) -> None:
    # `not i < j` is stored as `j <= i`.
    assert text(e) == want.replace("i >= j", "j <= i")


@pytest.mark.parametrize(("source", "want"), [
    ("64 + j + i*8", "i*8 + j + 64"), ("j - 64", "j - 64"), ("64 - j", "64 - j"), ("-j - 1", "-j - 1"), ("0 - j", "-j"),
    ("j*-2", "-2*j"), ("(i + j)*8", "i*8 + j*8"), ("(i + j)*n", "n*(i + j)"), ("i*n + j", "i*n + j"),
    ("i//(j//2)", "i//(j//2)"), ("i//j//2", "i//j//2"), ("(i//j)*2", "i//j*2"), ("i % 4 * 8", "i % 4 * 8"), ("(i*8) % 4", "i*8 % 4"),
    ("i % (j % 4)", "i % (j % 4)"), ("(i + j) % 4 // 2", "(i + j) % 4 // 2"), ("i//2 % 4 + 1", "i//2 % 4 + 1"),
    ("(i ^ j) + 1", "(i ^ j) + 1"), ("i ^ (j + 1)", "i ^ j + 1"), ("(i & j) | n", "n | i & j"), ("i & (j | n)", "i & (j | n)"),
    ("(i < j) == (j < n)", "(i < j) == (j < n)"), ("i + (i < j)", "i + (i < j)"), ("3 < i", "i > 3"), ("3 <= i", "i >= 3"),
    ("(i < j or j < n) and i < n", "(i < j or j < n) and i < n"), ("-(i//2)", "-(i//2)"), ("-(i % 2)", "-(i % 2)"),
    ("(-i) % 4", "-i % 4"), ("(-i)//4", "-i//4"), ("select(i < j, i, j)*2", "(i if i < j else j)*2"),
    ("select(i < j, select(i < n, 1, 2), 3)", "(1 if i < n else 2) if i < j else 3"), ("min(i, j - 1)", "min(i, j - 1)"),
    ("i*(0 - j)", "-(i*j)"), ("i - (j - n)", "i + n - j"), ("-2*(i//2)", "-2*(i//2)"), ("-3 * i % 7", "-3*i % 7"),
])
def test_text(source: str, want: str) -> None:
    names = {"i": i, "j": j, "n": n}
    assert text(parse(source, names)) == want
    if "if" not in want:
        assert parse(want, names) is parse(source, names)


def test_names_override() -> None:
    assert text(i * 8 + j, {i: "threadIdx.x"}) == "threadIdx.x*8 + j"


def test_text_evaluates_to_the_value_with_minimal_parentheses() -> None:
    """Python reads the text back to the same value, and no pair of parentheses can go."""
    for number, world, e, _ in cases(600, seed=9):
        source = text(e)
        points = world.points()
        at = {s.name: int(points[s][0]) for s in world.symbols}
        space = {"truncdiv": lambda a, b: evaluate(truncdiv(a, b), {}), "truncmod": lambda a, b: evaluate(truncmod(a, b), {})}
        try:
            want = evaluate(e, {s: at[s.name] for s in world.symbols})
        except ZeroDivisionError:
            continue
        assert int(eval(source, space, at)) == want, f"{number}: {source}"
        tree = ast.dump(ast.parse(source))
        for a, b in _pairs(source):
            if source[a - 1:a].isalnum():
                continue
            bare = source[:a] + source[a + 1:b] + source[b + 1:]
            try:
                same = ast.dump(ast.parse(bare)) == tree
            except SyntaxError:
                continue
            assert not same, f"{number}: {source} needs no parentheses at {a}"


def _pairs(source: str) -> list[tuple[int, int]]:
    stack, found = [], []
    for at, letter in enumerate(source):
        if letter == "(": stack.append(at)
        if letter == ")": found.append((stack.pop(), at))
    return found


@pytest.mark.parametrize(("e", "count"), [
    (i * 8 + j, 2), (-i, 1), (i * -2, 1), (3 - i, 1), (i * n * 4 + 1, 3), (minimum(i, j, 3), 2), (select(lt(i, j), i, 0), 2),
    (i - 3, 1), ((i ^ j) & k, 2), (absolute(i), 1), (const(-5), 0), (-i - 1, 2),
])
def test_operations_count(e: Int, count: int) -> None:
    assert operations_count(e) == count


def test_evaluate() -> None:
    e = (i * 8 + j) // 12 * 12 + (i * 8 + j) % 12
    assert evaluate(e, {i: 5, j: 3}) == 43
    values = evaluate(e, {i: np.arange(6)[:, None], j: np.arange(8)})
    assert values.shape == (6, 8) and values.dtype == np.int64 and (values == np.arange(48).reshape(6, 8)).all()
    assert evaluate(i // -3, {i: np.array([-7, 7])}).tolist() == [2, -3]
    assert evaluate(i % -3, {i: np.array([-7, 7])}).tolist() == [-1, -2]
    assert evaluate(truncdiv(i, -3), {i: np.array([-7, 7])}).tolist() == [2, -2]
    assert evaluate(lt(i, 3) + lt(i, 9), {i: np.array([1, 5, 9])}).tolist() == [2, 1, 0]
    assert evaluate(select(ne(n, 0), i // n, -1), {i: 7, n: 0}) == -1
    assert evaluate(const(3), {}) == 3
    with pytest.raises(ZeroDivisionError):
        evaluate(i // n, {i: 7, n: 0})
    with pytest.raises(KeyError):
        evaluate(i + j, {i: 7})


def test_substitute() -> None:
    e = (i * 8 + j) // 4
    assert substitute(e, {i: j, j: i}) is (j * 8 + i) // 4
    assert substitute(e, {i: 1, j: 2}) is const(2)
    assert substitute(e, {n: 1}) is e


def test_free_symbols_are_ordered() -> None:
    assert free_symbols(n * j + i // k) == (i, j, k, n)
    assert free_symbols(const(3)) == ()


def test_truth_is_refused() -> None:
    with pytest.raises(TypeError, match=r"the truth of `i < j` is not known; use land, lor, select, or facts.prove"):
        bool(i < j)
    assert is_const(const(3)) and not is_const(i) and bool(const(3))
    assert le(i, j) is ge(j, i)
    with pytest.raises(TypeError, match=r"an integer expression was expected, not 1.5 of type float"):
        i + 1.5  # type: ignore[operator]


def test_unused_nodes_are_forgotten() -> None:
    """The table of nodes does not grow for ever, simplified or not."""
    before = len(si._table)
    for step in range(2000):
        (i * 7 + step) // 12345
        simplify((i * 7 + j % 4 * 5) // 4 + step, Facts())
    grown = len(si._table)
    gc.collect()            # the facts above, which point at each other
    si._forget_unused()
    assert grown >= before + 4000 and len(si._table) <= before + 20
    assert bitand(i, 7) is i % 8


def test_arrays_and_scalars_agree() -> None:
    for number, world, e, _ in cases(200, seed=8):
        points = world.points()
        got = np.broadcast_to(evaluate(e, points), POINTS)
        for at in (0, 70, 140):
            try:
                want = evaluate(e, {s: int(points[s][at]) for s in world.symbols})
            except ZeroDivisionError:
                continue
            if abs(want) < 1 << 40:
                assert got[at] == want, f"{number}: {e!r}"
