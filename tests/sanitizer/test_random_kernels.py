"""Random kernels with a race planted in them: each is found. (Without one they pass: `tests.property` runs them with all checks.)"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import tests.property.random_kernels as random_kernels
from tests.property.random_kernels import BUFFERS, ROWS, WIDTH, Program, Recorded, Stmt
from tracer.errors import DataRaceError


class Racing(Recorded):
    """Knows two statements more: of the thread's own element of a column, and of that of a thread further on."""

    def do_own(self, s: Stmt) -> None:
        dtype, column, _, kind = s.value
        buffer = self.buffers[dtype]
        if kind == "load":      # of the other statement, so that this one stores
            buffer[self.row, column] = buffer[self.row, column]
        else:
            buffer[self.row, (column + 1) % WIDTH] = buffer[self.row, column]

    def do_other(self, s: Stmt) -> None:
        dtype, column, distance, kind = s.value
        buffer, row = self.buffers[dtype], (self.row + distance) % ROWS
        if kind == "load":
            buffer[self.row, (column + 1) % WIDTH] = buffer[row, column]
        else:
            buffer[row, column] = buffer[self.row, (column + 2) % WIDTH]


def planted(seed: int) -> tuple[Program, str]:
    """A random program with the two statements somewhere in it, and the name of the buffer."""
    random = Random(seed)
    program = Program.draw(random)
    value = (random.choice(BUFFERS), random.randrange(WIDTH), random.choice([1, 7, 32]), random.choice(["load", "store"]))
    for statement in ("own", "other"):
        program.body.insert(random.randint(0, len(program.body)), Stmt(statement, value=value))
    return program, f"b_{value[0]}"


@pytest.mark.parametrize("seed", range(100))
def test_a_planted_race_is_found(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(random_kernels, "Recorded", Racing)
    program, _ = planted(seed)
    with pytest.raises(DataRaceError, match="race"):
        program.kernel()(*[program.arrays[name].copy() for name in BUFFERS])
