"""Control flow: random programs against an interpreter that runs one thread at a time, and single cases against NumPy."""

from __future__ import annotations

import random as rnd
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tests.simulator.running import run
from tracer import T, trace

BLOCKS, THREADS = 3, 40

# A program is a list of statements. A condition is four numbers: (x*a + thread*b + block*c + k*d) % 7 < t, with `k` the
# innermost loop's variable. Statements:
#   ("add", n)   ("if", condition, then, else)   ("for", start, stop, step, body)   ("for to", n, body): up to (x + n) % 5
#   ("while", n, condition, body)   ("break",)   ("continue",)   ("return",)
Program = list[tuple[Any, ...]]


def random_program(random: rnd.Random, depth: int, in_loop: bool) -> Program:
    def condition() -> tuple[int, ...]:
        # Often of the thread or the block alone, so that whole blocks or the same threads of all blocks go one way.
        a, b, c, d = (random.choice((0, 0, 1, 3)) for _ in range(4))
        return (a, b, c, d, random.randint(0, 7))

    def statement() -> tuple[Any, ...]:
        kind = random.choice(["add", "add", "leave", *(["if", "if", "for", "for to", "while"] if depth else [])])
        if kind == "if":
            then, otherwise = (random_program(random, depth - 1, in_loop) for _ in range(2))
            return ("if", condition(), then, otherwise if random.random() < 0.6 else [])
        if kind == "for":
            return ("for", *random.choice([(0, 3, 1), (1, 8, 3), (5, 0, -2), (2, 2, 1)]), random_program(random, depth - 1, True))
        if kind == "for to":
            return ("for to", random.randint(0, 4), random_program(random, depth - 1, True))
        if kind == "while":
            return ("while", random.randint(1, 4), condition(), random_program(random, depth - 1, True))
        if kind == "leave" and random.random() < 0.7:
            how = random.choice(["break", "continue", "break", "continue", "return"]) if in_loop else "return"
            if how != "return" or random.random() < 0.3:
                return ("if", condition(), [("add", random.randint(1, 9)), (how,)], [])
        return ("add", random.randint(1, 99))

    return [statement() for _ in range(random.randint(1, 4))]


class Leave(Exception):
    """How one thread breaks, continues or returns."""


def interpret(program: Program, thread: int, block: int) -> int:
    """The final `x` of one thread."""
    state = {"x": thread * 31 + block * 17}

    def holds(condition: tuple[int, ...], k: int) -> bool:
        a, b, c, d, t = condition
        return (state["x"] * a + thread * b + block * c + k * d) % 7 < t

    def loop(rounds: Any, body: Program) -> None:
        for k in rounds:
            try:
                steps(body, k)
            except Leave as leave:
                if leave.args[0] == "return": raise
                if leave.args[0] == "break": break

    def turns(limit: int, condition: tuple[int, ...], outer: int) -> Any:
        w = 0
        while w < limit and holds(condition, outer):
            w += 1
            yield outer

    def steps(statements: Program, k: int) -> None:
        for kind, *rest in statements:
            if kind == "add":
                state["x"] = (state["x"] * 5 + rest[0] + k) % 1009
            elif kind == "if":
                steps(rest[1] if holds(rest[0], k) else rest[2], k)
            elif kind == "for":
                loop(range(*rest[:3]), rest[3])
            elif kind == "for to":
                loop(range((state["x"] + rest[0]) % 5), rest[1])
            elif kind == "while":
                loop(turns(rest[0], rest[1], k), rest[2])
            else:
                raise Leave(kind)

    with suppress(Leave):
        steps(program, 0)
    return state["x"]


def kernel_of(program: Program, warps: bool = False) -> Any:
    """The same program traced; `x` is stored after every change, since a thread may return anywhere. With `warps` it runs warp by warp."""
    def kernel(out: T.Buffer((BLOCKS, THREADS), "int32")) -> None:
        T.device_entry()
        block, thread = T.cta_id([BLOCKS]), T.thread_id([THREADS])
        if warps:
            T.ptx.bar.sync(1, 64)
        x = T.local_scalar("int32", thread * 31 + block * 17)
        out[block, thread] = x

        def holds(condition: tuple[int, ...], k: Any) -> Any:
            a, b, c, d, t = condition
            return (x * a + thread * b + block * c + k * d) % 7 < t

        def steps(statements: Program, k: Any) -> None:
            for kind, *rest in statements:
                if kind == "add":
                    x.assign((x * 5 + rest[0] + k) % 1009)
                    out[block, thread] = x
                elif kind == "if":
                    with T.If(holds(rest[0], k)):
                        steps(rest[1], k)
                    if rest[2]:
                        with T.Else():
                            steps(rest[2], k)
                elif kind == "for":
                    for j in T.serial(*rest[:3]):
                        steps(rest[3], j)
                elif kind == "for to":
                    for j in T.serial((x + rest[0]) % 5):
                        steps(rest[1], j)
                elif kind == "while":
                    turns(*rest, k)
                else:
                    {"break": T.break_, "continue": T.continue_, "return": T.return_}[kind]()

        def turns(limit: int, condition: tuple[int, ...], body: Program, k: Any) -> None:
            w = T.local_scalar("int32", 0)
            with T.While(lambda: (w < limit) & holds(condition, k)):
                w.assign(w + 1)
                steps(body, k)

        steps(program, 0)

    return trace(kernel)


@pytest.mark.parametrize("seed, warps", [*((seed, False) for seed in range(120)), *((seed, True) for seed in range(0, 120, 3))])
def test_random_programs(seed: int, warps: bool) -> None:
    program = random_program(rnd.Random(seed), depth=3, in_loop=False)
    out = np.full((BLOCKS, THREADS), -1, np.int32)
    run(kernel_of(program, warps), out)
    expected = [[interpret(program, t, b) for t in range(THREADS)] for b in range(BLOCKS)]
    assert out.tolist() == expected, program
