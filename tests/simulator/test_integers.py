"""`Int` expressions as NumPy functions, against the same expressions on Python ints."""

from __future__ import annotations

import random as rnd
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.simulator.integers import fits_int64, function_of, magnitude, narrow, widen
from runtime.simulator.semantics import Undefined
from symbolic import integers as si
from symbolic.integers import Int

SYMBOLS = [si.Symbol(name) for name in "abcd"]


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# What is built, and what it means on Python ints.
OPERATORS: list[tuple[int, Callable[..., Int], Callable[..., int]]] = [
    (2, lambda a, b: a + b, lambda a, b: a + b), (2, lambda a, b: a - b, lambda a, b: a - b), (2, lambda a, b: a * b, lambda a, b: a * b),
    (2, si.floordiv, lambda a, b: a // b), (2, si.floormod, lambda a, b: a % b),
    (2, si.truncdiv, quotient), (2, si.truncmod, lambda a, b: a - b * quotient(a, b)),
    (2, si.minimum, min), (2, si.maximum, max), (1, si.absolute, abs), (1, lambda a: -a, lambda a: -a), (1, si.bitnot, lambda a: ~a),
    (2, si.bitand, lambda a, b: a & b), (2, si.bitor, lambda a, b: a | b), (2, si.bitxor, lambda a, b: a ^ b),
    (2, si.lt, lambda a, b: int(a < b)), (2, si.le, lambda a, b: int(a <= b)), (2, si.eq, lambda a, b: int(a == b)),
    (2, si.ne, lambda a, b: int(a != b)), (2, si.land, lambda a, b: int(bool(a and b))), (2, si.lor, lambda a, b: int(bool(a or b))),
    (1, si.lnot, lambda a: int(not a)), (3, si.select, lambda c, a, b: a if c else b),
]


def random_expression(random: rnd.Random, depth: int) -> tuple[Int, Callable[[dict[Int, int]], int]]:
    if not depth or random.random() < 0.15:
        if random.random() < 0.3:
            value = random.choice([-7, -1, 0, 1, 2, 3, 8, 1000])
            return si.const(value), lambda env: value
        symbol = random.choice(SYMBOLS)
        return symbol, lambda env: env[symbol]
    arity, build, meaning = random.choice(OPERATORS)
    parts = [random_expression(random, depth - 1) for _ in range(arity)]
    return build(*[e for e, _ in parts]), lambda env: meaning(*[f(env) for _, f in parts])


def call(e: Int, env: dict[Int, Any], **options: Any) -> Any:
    """As the program does: Python ints in the arrays where int64 could be too small."""
    values = [env[s] for s in si.free_symbols(e)]
    if not fits_int64(e, tuple(map(magnitude, values))):
        values = [v.astype(object) if isinstance(v, np.ndarray) else v for v in values]
    with np.errstate(all="ignore"):
        return function_of(e, **options)(*values)


@pytest.mark.parametrize("seed", range(300))
def test_random_expressions(seed: int) -> None:
    """Scalars, arrays, and both mixed; numbers up to 2**62, whose products leave int64."""
    random = rnd.Random(seed)
    e, meaning = random_expression(random, 4)
    big = random.choice([10, 10, 2**31, 2**62])
    columns = {s: [random.randint(-big, big) for _ in range(20)] for s in SYMBOLS}
    uniform = {s for s in SYMBOLS if random.random() < 0.3}
    env = {s: column[0] if s in uniform else np.array(column, np.int64) for s, column in columns.items()}
    rows = [{s: column[0 if s in uniform else k] for s, column in columns.items()} for k in range(20)]
    try:
        expected = [meaning(row) for row in rows]
    except ZeroDivisionError:
        return          # a constructor may have folded the division away, so there is nothing to compare
    got = call(e, env)
    assert np.broadcast_to(np.asarray(got, object), 20).tolist() == expected
    truth = np.broadcast_to(np.asarray(call(e, env, truth=True)), 20)
    assert truth.dtype == np.bool_ and truth.tolist() == [x != 0 for x in expected]


def test_most_random_expressions_are_compared() -> None:
    """Guards the test above: it may skip some of its seeds, not many."""
    kept = 0
    for seed in range(300):
        _, meaning = random_expression(rnd.Random(seed), 4)
        try:
            meaning(dict.fromkeys(SYMBOLS, 12345))
            kept += 1
        except ZeroDivisionError:
            pass
    assert kept > 200


def test_a_number_beyond_int64_is_kept() -> None:
    a, b = SYMBOLS[:2]
    x = np.array([2**62, 3], np.int64)
    assert call(a * b * 4, {a: x, b: x}).tolist() == [2**126, 36]
    assert call(si.floordiv(a * b, 2**62), {a: x, b: x}).tolist() == [2**62, 0]


def test_a_choice_of_two_plain_numbers_keeps_one_beyond_int64() -> None:
    """Of which NumPy by itself makes an int64, wrapped."""
    a, b, c, _ = SYMBOLS
    got = function_of(si.select(si.lt(c, 2), a, b))(2**64 - 3, 2, np.arange(4))
    assert got.tolist() == [2**64 - 3, 2**64 - 3, 2, 2]


def test_shared_parts_are_computed_once() -> None:
    """As a tree this expression has 2**60 nodes."""
    x = SYMBOLS[0]
    e, value = si.floormod(x, 97), 5
    for _ in range(60):
        e, value = si.floormod(e * e + 1, 97), (value * value + 1) % 97
    assert call(e, {x: np.array([5, 102])}).tolist() == [value, value] and call(e, {x: 5}) == value


def test_undefined_says_where() -> None:
    a, b = SYMBOLS[:2]
    for e in (si.floordiv(a, b), si.floormod(a, b), si.truncdiv(a, b), si.truncmod(a, b)):
        with pytest.raises(Undefined) as caught:
            call(e, {a: 5, b: np.array([1, 0, 2])})
        assert caught.value.what == "division by zero" and caught.value.where.tolist() == [False, True, False]
        with pytest.raises(Undefined):
            call(e, {a: 5, b: 0})
    with pytest.raises(Undefined) as caught:
        call(si.shl(a, b), {a: 1, b: np.array([31, 32, -1])}, bits=32)
    assert caught.value.what == "shift by {}, not in [0, 32)" and caught.value.where.tolist() == [False, True, True]
    assert call(si.shr(a, b), {a: np.array([-5, 5, 64]), b: 2}, bits=32).tolist() == [-2, 1, 16]


def test_widen_and_narrow() -> None:
    big = np.array([2**64 - 1, 5], np.uint64)
    assert widen(big).tolist() == [2**64 - 1, 5] and widen(big).dtype == object
    assert widen(np.array([-3, 5], np.int8)).dtype == np.int64 and widen(np.uint64(2**64 - 1)) == 2**64 - 1
    assert widen(np.array([True, False])).tolist() == [1, 0] and type(widen(np.bool_(True))) is int
    assert narrow(widen(big), np.dtype(np.uint64)).tolist() == big.tolist()
    assert narrow(np.array([2**70 + 7, -1], object), np.dtype(np.int32)).tolist() == [7, -1]
    assert narrow(2**32 - 1, np.dtype(np.int32)) == -1 and narrow(-1, np.dtype(np.uint8)) == 255
    assert narrow(np.array([300, -1]), np.dtype(np.int8)).tolist() == [44, -1]
    assert narrow(True, np.dtype(np.bool_)) is np.True_
