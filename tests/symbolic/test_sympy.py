"""SymPy at the boundary: in, out, and never its own Mod and floor."""

from __future__ import annotations

import json

import pytest
import sympy

from symbolic import (
    Facts,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Select,
    Symbol,
    Xor,
    evaluate,
    from_sympy,
    named,
    select,
    simplify,
    text,
    to_sympy,
)
from tests.symbolic.golden import DATA, parse

i, j = sympy.symbols("i j", integer=True, nonnegative=True)


def test_the_page_example() -> None:
    facts = Facts()
    facts.bound(i, 0, 8)
    facts.bound(j, 0, 16)
    assert text(simplify(i * 4 + FloorMod(FloorDiv(j, 2), 4), facts)) == "i*4 + j//2 % 4"
    assert text(simplify(FloorDiv(j + 40, 8), facts)) == "j//8 + 5"


def test_a_sympy_expression_gives_a_sympy_expression_of_the_same_symbols() -> None:
    s = simplify(FloorDiv(i * 8 + FloorMod(j, 8), 8))
    assert s is i
    assert simplify(FloorDiv(i * 6 + 3, 2)) == 3 * i + 1
    assert simplify(Max(i, 0)) is i                     # nonnegative=True is a fact
    m = sympy.Symbol("m", integer=True)
    assert simplify(Max(m, 0)) == Max(m, 0)


def test_nothing_folds_on_construction() -> None:
    y = sympy.Symbol("y", integer=True)
    e = FloorMod(2 * FloorMod(y, 8), 16)
    assert e.subs(y, 5) == 10
    assert simplify(e).subs(y, 5) == 10
    assert FloorDiv(-7, 2) == -4 and FloorMod(-7, 2) == 1 and Xor(5, 3) == 6
    assert FloorDiv(y, 0) == FloorDiv(y, 0) and isinstance(FloorDiv(4, 0), FloorDiv)


@pytest.mark.parametrize("record", json.loads((DATA / "index_regressions.json").read_text())["records"], ids=lambda r: r["id"])
def test_regressions_survive_the_boundary(record: dict) -> None:
    names = {n: named(n) for n in record["at"]}
    e = parse(record["expr"], names)
    there = to_sympy(e)
    assert from_sympy(there) is e
    point = {names[n]: v for n, v in record["at"].items()}
    assert evaluate(from_sympy(simplify(there)), point) == record["right"]


def test_round_trip_of_every_function() -> None:
    a, b, c = named("a"), named("b"), named("c")
    names = {"a": a, "b": b, "c": c}
    for source in ("a // b", "a % b", "truncdiv(a, b)", "truncmod(a, b)", "min(a, b)", "max(a, b, 3)", "abs(a)", "a & b", "a | b",
                   "a ^ b", "a << b", "a >> b", "a < b", "a <= b", "a == b", "a != b", "a < b and b < c", "a < b or b < c",
                   "select(a < b, a, b)", "a*b*4 - c + 7"):
        e = parse(source, names)
        assert from_sympy(to_sympy(e)) is e, source


def test_equal_names_are_one_extent() -> None:
    plain, positive = sympy.Symbol("n", integer=True), sympy.Symbol("n", integer=True, positive=True)
    assert from_sympy(plain) is from_sympy(positive) is from_sympy(sympy.Symbol("n"))
    assert to_sympy(Symbol("n")) == plain


def test_what_is_read() -> None:
    a, b = named("a"), named("b")
    x, y = sympy.symbols("a b", integer=True)
    assert from_sympy(sympy.Min(x, y)) is parse("min(a, b)", {"a": a, "b": b})
    assert from_sympy(x ** 2) is a * a
    assert from_sympy(x < y) is parse("a < b", {"a": a, "b": b})
    assert from_sympy(Select(x < y, x, y)) is select(parse("a < b", {"a": a, "b": b}), a, b)
    assert from_sympy(Min(x, y)) is from_sympy(sympy.Min(x, y))


@pytest.mark.parametrize("wrong", [sympy.Mod(sympy.Symbol("x", integer=True), 8), sympy.floor(sympy.Symbol("x") / 16),
                                   sympy.Rational(1, 2), sympy.Symbol("x") / 16, sympy.sqrt(sympy.Symbol("x"))], ids=str)
def test_sympys_own_division_is_refused(wrong: sympy.Expr) -> None:
    with pytest.raises(TypeError, match="is no integer expression of symbolic"):
        from_sympy(wrong)


def test_the_refusal_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"Mod\(x, 8\) \(Mod\) is no integer expression of symbolic; write FloorDiv\(a, b\)"):
        from_sympy(sympy.Mod(sympy.Symbol("x", integer=True), 8))
