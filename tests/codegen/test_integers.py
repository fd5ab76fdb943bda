"""Index arithmetic in C++: exact text, and random expressions compiled by the host's compiler against exact evaluation."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codegen.cuda.fragments import PRIMARY, Fragment
from codegen.cuda.helpers import Needs
from codegen.cuda.integers import Context, write_integer
from codegen.words import Typing
from symbolic import integers as si
from symbolic.evaluate import evaluate
from symbolic.facts import Facts
from symbolic.integers import Int, Symbol, const

# Atoms by name: dtype, least and greatest value, C type.
ATOMS = {
    "i": ("int32", -40, 40, "int"), "j": ("int32", 0, 1000, "int"), "n": ("int32", 1, 60000, "int"),
    "b": ("uint8", 0, 255, "unsigned char"), "u": ("uint32", 0, 50000, "unsigned int"), "v": ("uint32", 0, 2**32 - 1, "unsigned int"),
    "l": ("int64", -(2**33), 2**33, "long long"), "w": ("uint64", 0, 2**34, "unsigned long long"), "p": ("bool", 0, 1, "bool"),
}
SYMBOLS = {name: Symbol(name) for name in ATOMS}
NAMES = {symbol: name for name, symbol in SYMBOLS.items()}


def _facts() -> Facts:
    facts = Facts()
    for name, (_, low, high, _) in ATOMS.items():
        facts.bound(SYMBOLS[name], low, high + 1)
    return facts


FACTS = _facts()


def written(e: Int, wanted: str | None = None, *, wide: bool = False, needs: Needs | None = None, typed: bool = False) -> str:
    typing = Typing(lambda symbol: ATOMS[NAMES[symbol]][0], FACTS, wide)
    context = Context(lambda symbol: Fragment(NAMES[symbol], PRIMARY), typing, needs or Needs(), {SYMBOLS["n"]})
    return write_integer(e, wanted, context, typed=typed).text


i, j, n, b, u, v, l, w, p = SYMBOLS.values()  # noqa: E741


@pytest.mark.parametrize("expression, expected", [
    (j * 8 + i, "j * 8 + i"),
    (i - j * 4 - 3, "i - j * 4 - 3"),
    (5 - i, "5 - i"), (-i - 1, "~i"), (-(i + j) - 1, "-i - j - 1"),
    (-i * 3, "-i * 3"),
    ((j + 3) * n + i, "(j + 3) * n + i"),
    (j // 7, "j / 7"), (j % 7, "j % 7"),
    (i // 8, "i >> 3"), (i % 8, "i & 7"),
    ((i + 1) // 8 * 2, "((i + 1) >> 3) * 2"),
    (i // 7, "floordiv(i, 7)"), (i % n, "floormod(i, n)"),
    (si.truncdiv(i, n), "i / n"),
    (si.minimum(i, j, 5), "min(min(i, j), 5)"),
    (si.select(si.lt(i, j), i, j + 1), "i < j ? i : j + 1"),
    (si.land(si.lt(i, n), si.lor(si.ge(j, 4), si.ne(i, 2))), "i < n && (j >= 4 || i != 2)"),
    (si.lor(si.land(si.lt(i, 3), si.lt(j, 3)), si.eq(i, j)), "(i < 3 && j < 3) || i == j"),
    (si.bitand(i, 12) + 1, "((i >> 2) & 3) * 4 + 1"),
    (si.bitxor(j + 1, i), "i ^ (j + 1)"),
    (si.ne(p, 0), "p"), (si.eq(p, 0), "!p"),
    (si.eq(si.lt(i, j), p), "p == (i < j)"),
    # A proved small unsigned value is cast. A sum with a large one is right modulo 2**32, as an index is not negative; where an
    # operator looks at more than the low bits of what may be negative, 64 bits are taken.
    (u + i, "i + (int)u"), (v + i, "i + v"), (v // 2 + i // 3, "floordiv((long long)i, 3LL) + (long long)v / 2"), (v * 2 + 1, "v * 2 + 1"), (v, "v"),
    (si.lt(v, 5), "v < 5"), (b + i, "b + i"),
    (l * 4 + j, "l * 4 + j"), (w + 1, "w + 1"), (w + i, "i + w"),
    (si.minimum(l, j), "min((long long)j, l)"), (si.maximum(l, 5), "max(l, 5LL)"),
])
def test_text(expression, expected):
    assert written(expression) == expected


@pytest.mark.parametrize("expression, expected", [
    (n * n, "(long long)n * n"), (j * 8 + i, "j * 8 + i"), (n * n + i, "(long long)n * n + i"),
    (n * 100000 + j * n + 7, "(long long)n * 100000 + j * n + 7"), (n * n * 97, "(long long)n * n * 97"), (5 - n * n * 3, "5 - (long long)n * n * 3"),
])
def test_products_that_leave_32_bits_are_widened_where_a_64_bit_type_took_part(expression, expected):
    assert written(expression, wide=True) == expected


@pytest.mark.parametrize("value, dtype, expected", [
    (5, "int32", "5"), (-(2**31), "int32", "-2147483647 - 1"), (2**31, "int64", "2147483648LL"), (-(2**63), "int64", "-9223372036854775807LL - 1"),
    (2**32 - 1, "uint32", "4294967295u"), (2**64 - 1, "uint64", "18446744073709551615ULL"), (1, "bool", "true"),
])
def test_constants(value, dtype, expected):
    assert written(const(value), dtype) == expected


def test_typed_gives_exactly_the_wanted_type():
    assert written(j, "int64", typed=True) == "(long long)j"
    assert written(const(3), "uint32", typed=True) == "3u"
    assert written(j + 1, "int64", typed=True) == "(long long)(j + 1)"
    assert written(l + 1, "int64", typed=True) == "l + 1"


# ---- random expressions against the host's compiler

def _random(rng: random.Random, depth: int, atoms: list[Int]) -> Int:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(atoms) if rng.random() < 0.8 else const(rng.choice([0, 1, 2, 3, 7, 8, 16, 100, -1, -5]))
    a, c = (_random(rng, depth - 1, atoms) for _ in range(2))
    d = rng.choice([2, 3, 4, 7, 8, 32, -3])
    make = rng.choice([
        lambda: a + c, lambda: a - c, lambda: a + c, lambda: a * rng.choice([2, 3, 4, -2, 10]), lambda: a // d, lambda: a % d,
        lambda: a // abs(d), lambda: a % abs(d), lambda: si.truncdiv(a, d), lambda: si.truncmod(a, d),
        lambda: si.minimum(a, c), lambda: si.maximum(a, c), lambda: si.absolute(a), lambda: si.bitxor(a, c), lambda: si.bitor(a, c),
        lambda: si.bitand(a, c), lambda: si.select(si.lt(a, c), a, c), lambda: si.select(si.land(si.le(a, c), si.ne(a, 3)), c, a),
    ])
    return make()


_SHIM = """
#include <cstdio>
#include <cstdlib>
#define __device__ static
static long long abs(long long x) { return x < 0 ? -x : x; }
#define __forceinline__ inline
#define OVERLOADS(T) __device__ T min(T a, T b) { return a < b ? a : b; } __device__ T max(T a, T b) { return a > b ? a : b; }
OVERLOADS(int) OVERLOADS(unsigned int) OVERLOADS(long long) OVERLOADS(unsigned long long)
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no host compiler to run the expressions with")
@pytest.mark.parametrize("atoms, wide", [("ijnb", False), ("ijbu", False), ("ijnbuv", True), ("ijnl", True), ("ijbuvlw", True)])
def test_random_expressions_compute_what_they_mean(atoms, wide, tmp_path: Path):
    """The undefined-behaviour sanitizer stops at any signed overflow, so that a sum left in 32 bits wrongly is seen."""
    rng = random.Random(f"{atoms} {wide}")
    expressions = [e for e in (_random(rng, 4, [SYMBOLS[a] for a in atoms]) for _ in range(80)) if e.args]
    points = [{a: rng.choice([ATOMS[a][1], ATOMS[a][2], rng.randint(*ATOMS[a][1:3])]) for a in ATOMS} for _ in range(24)]
    needs = Needs()
    parameters = ", ".join(f"{c} {name}" for name, (_, _, _, c) in ATOMS.items())
    functions = [f"long long f{k}({parameters}) {{ return {written(e, 'int64' if wide else 'int32', wide=wide, needs=needs)}; }}"
                 for k, e in enumerate(expressions)]
    calls = [f'printf("%lld\\n", f{k}({", ".join(_literal(point[a], ATOMS[a][3]) for a in ATOMS)}));'
             for k in range(len(expressions)) for point in points]
    source = tmp_path / "expressions.cpp"
    source.write_text("\n".join([_SHIM, *needs.preamble(), *functions, "int main() {", *calls, "}"]))
    program = tmp_path / "expressions"
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", "-fsanitize=signed-integer-overflow", "-fno-sanitize-recover", "-o", str(program), str(source)],
                   check=True, stderr=sys.stderr)
    run = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    got = list(map(int, run.stdout.split()))
    for k, e in enumerate(expressions):
        for q, point in enumerate(points):
            exact = int(evaluate(e, {SYMBOLS[a]: value for a, value in point.items()}))
            assert got[k * len(points) + q] == exact, (written(e, wide=wide), point)


def _literal(value: int, c_type: str) -> str:
    return f"({c_type})({value}LL)" if value < 2**63 else f"({c_type}){value}ULL"
