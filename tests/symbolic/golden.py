"""The golden simplifications: expressions, their ranges, and how many operators another simplifier left."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from symbolic import Facts, Int, Symbol
from symbolic.rules import Light, compile_side

DATA = Path(__file__).parent.parent / "data" / "symbolic"


def parse(source: str, names: dict[str, Int]) -> Int:
    """Python text as an expression over `names`."""
    return compile_side(source, tuple(names))(Light, **names)


@dataclass(frozen=True)
class Case:
    id: int
    tag: str
    source: str
    names: dict[str, Int]
    expr: Int
    ranges: dict[str, list[Any]]
    constraints: list[str]
    reference: str
    reference_operations: int

    def facts(self) -> Facts:
        facts = Facts()
        for name, (lo, hi) in self.ranges.items():
            facts.bound(self.names[name], lo, parse(hi, self.names) if isinstance(hi, str) else hi)
        for constraint in self.constraints:
            facts.assume(parse(constraint, self.names))
        return facts


def cases() -> list[Case]:
    made = []
    for r in json.loads((DATA / "simplify.json").read_text())["records"]:
        # Sizes before what they bound.
        order = sorted(r["ranges"], key=lambda n: (isinstance(r["ranges"][n][1], str), n))
        names = {n: Symbol(n) for n in order}
        made.append(Case(r["id"], r["tag"], r["in"], names, parse(r["in"], names), {n: r["ranges"][n] for n in order},
                         r.get("constraints", []), r["out"], r["ops_out"]))
    return made


def sample(case: Case, rng: np.random.Generator, count: int = 400) -> dict[Int, np.ndarray]:
    """Assignments within the ranges and constraints: every one when there are few, random ones else."""
    bounded = {n: r for n, r in case.ranges.items() if isinstance(r[1], int)}
    if len(bounded) == len(case.ranges):
        size = int(np.prod([hi - lo for lo, hi in bounded.values()])) if bounded else 1
        if size <= 50_000:
            grid = np.meshgrid(*[np.arange(lo, hi) for lo, hi in bounded.values()], indexing="ij")
            return {case.names[n]: g.ravel() for n, g in zip(bounded, grid)}
        return {case.names[n]: rng.integers(lo, hi, 50_000) for n, (lo, hi) in bounded.items()}
    rows: list[dict[str, int]] = []
    while len(rows) < count:
        row: dict[str, int] = {}
        for n, (lo, hi) in case.ranges.items():
            if hi is None:
                step = max([int(c.split()[2]) for c in case.constraints if c.startswith(f"{n} ")], default=1)
                row[n] = int(rng.integers(1, 40 if step > 1 else 2000)) * step
            else:
                end = eval(hi, {}, row) if isinstance(hi, str) else hi
                if end <= lo:
                    break
                row[n] = int(rng.integers(lo, end))
        else:
            rows.append(row)
    return {case.names[n]: np.array([row[n] for row in rows]) for n in case.ranges}
