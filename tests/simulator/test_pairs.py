"""Arithmetic on pairs of float32 against exact fractions, rounded by hand, in every rounding."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.simulator.running import run
from tracer import T, trace

THREADS = 256
OPERATIONS = {
    "add": lambda a, b, c: a + b, "sub": lambda a, b, c: a - b, "mul": lambda a, b, c: a * b, "fma": lambda a, b, c: a * b + c,
}


def kernel(name: str, rounding: str, ftz: bool) -> Any:
    def pairs(A: T.Buffer((3, THREADS), "uint64"), D: T.Buffer((THREADS,), "uint64")) -> None:
        T.device_entry()
        tx = T.thread_id([THREADS])
        r = T.alloc_local((1,), "uint64")
        words = [name, rounding, *(["ftz"] if ftz else []), "f32x2"]
        T.ptx[".".join(words)](r[0], *(A[k, tx] for k in range(3 if name == "fma" else 2)))
        D[tx] = r[0]

    return trace(pairs)


def samples() -> Any:
    """float32 numbers of all sizes: near each other, far apart, subnormal, zero."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3, 2 * THREADS)).astype(np.float32) * np.float32(2) ** rng.integers(-60, 60, (3, 2 * THREADS)).astype(np.float32)
    x[1, ::4] = -x[0, ::4]
    x[2, 1::8] = -x[0, 1::8] * x[1, 1::8]
    x[:, ::16] *= np.float32(2.0 ** -100)
    x[0, ::32] = 0.0
    return x.astype(np.float32)


def by_hand(value: Fraction, rounding: str) -> np.float32:
    """The float32 that `rounding` gives for a number that is not zero, within the range of float32."""
    down, up = np.float32(float(value)), np.float32(float(value))
    while Fraction(float(down)) > value:
        down = np.nextafter(down, np.float32(-np.inf))
    while Fraction(float(up)) < value:
        up = np.nextafter(up, np.float32(np.inf))
    if rounding == "rp" or (rounding == "rz" and value < 0):
        return up
    if rounding == "rm" or rounding == "rz":
        return down
    below, above = value - Fraction(float(down)), Fraction(float(up)) - value
    even = down if down.view(np.uint32) % 2 == 0 else up
    return down if below < above else up if above < below else even


@pytest.mark.parametrize("rounding", ["rn", "rz", "rp", "rm"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_result_is_rounded_once(name: str, rounding: str) -> None:
    x = samples()
    got = np.zeros(THREADS, np.uint64)
    run(kernel(name, rounding, False), x.view(np.uint64), got)
    for k, found in enumerate(got.view(np.float32)):
        a, b, c = (Fraction(float(v)) for v in x[:, k])
        exact = OPERATIONS[name](a, b, c)
        if exact:
            assert found == by_hand(exact, rounding), (name, rounding, x[:, k])
        else:
            assert found == 0


def test_the_sign_of_zero() -> None:
    x = np.zeros((3, 2 * THREADS), np.float32)
    x[0], x[1] = 1.5, -1.5
    for rounding, negative in (("rn", False), ("rz", False), ("rp", False), ("rm", True)):
        got = np.zeros(THREADS, np.uint64)
        run(kernel("add", rounding, False), x.view(np.uint64), got)
        assert (got.view(np.float32) == 0).all() and (np.signbit(got.view(np.float32)) == negative).all()


def test_subnormals_are_flushed_on_request() -> None:
    x = np.full((3, 2 * THREADS), -1e-40, np.float32)
    x[1] = 1e-41
    kept, flushed = np.zeros(THREADS, np.uint64), np.zeros(THREADS, np.uint64)
    run(kernel("sub", "rn", False), x.view(np.uint64), kept)
    run(kernel("sub", "rn", True), x.view(np.uint64), flushed)
    assert (kept.view(np.float32) == x[0] - x[1]).all() and (kept.view(np.float32) != 0).all()
    assert (flushed.view(np.float32) == 0).all() and np.signbit(flushed.view(np.float32)).all()
