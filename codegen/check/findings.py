"""What can be said of a kernel before it runs: findings, each with its verdict, its line, and the reason."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from symbolic.facts import Facts
from symbolic.integers import Int
from tracer.ir import Location

SAFE, WRONG, OPEN = "proved safe", "proved wrong", "left to the run"
SUBJECTS = ("bounds", "alignment", "overflow", "divisor", "shift", "barrier", "race")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that had to be decided, about one statement.

    `subject` is one of `SUBJECTS`, `verdict` SAFE, WRONG or OPEN, `what` the statement or value it is about, `reason` why. `relation` is
    what was to be proved, where that is one relation.
    """

    subject: str
    verdict: str
    what: str
    reason: str
    location: Location | None
    relation: Int | None = None
    facts: Facts | None = field(default=None, repr=False, compare=False)
    names: Mapping[Int, str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, subject: str, what: str, relation: Int, facts: Facts, reasons: Mapping[str, str], location: Location | None,
           names: Mapping[Int, str]) -> Finding:
        """The finding that the facts' answer to `relation` is; where they contradict each other nothing is ever executed."""
        if facts.contradictory:
            return cls(subject, SAFE, what, "it is never reached", location, relation, facts, names)
        proved = facts.prove(relation)
        verdict = OPEN if proved is None else SAFE if proved else WRONG
        return cls(subject, verdict, what, reasons[verdict], location, relation, facts, names)

    def explain(self) -> str:
        """The rules of the algebra that led from the relation to the verdict (`Facts.explain`); the reason where there is none."""
        if self.relation is None or self.facts is None:
            return self.reason
        return self.facts.explain(self.relation, self.names)

    def __str__(self) -> str:
        return f"{self.subject}, {self.verdict}: {self.what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one instruction of one warp costs at an access, all lanes taking part: derived from the index alone.

    `unit` is "sectors" (global memory) or "passes" (shared). `least` and `most` are what it may be, depending on the warp and on what the
    index leaves open; `ideal` is the least that the bytes need. They are 0 where nothing can be said; `reason` says why.
    """

    unit: str
    what: str
    least: int
    most: int
    ideal: int
    reason: str
    location: Location | None

    @property
    def known(self) -> bool:
        return self.most > 0

    def __str__(self) -> str:
        if not self.known:
            return f"{self.unit}: {self.what}: {self.reason}"
        count = f"{self.most}" if self.least == self.most else f"{self.least} to {self.most}"
        judged = ", the fewest there can be" if self.most == self.ideal else f" where {self.ideal} would do"
        return f"{self.unit}: {self.what}: {count} a warp{judged}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True)
class Check:
    """All that `kernel.check()` found; `str(check)` lists it by line."""

    kernel: str
    findings: tuple[Finding, ...]
    costs: tuple[Cost, ...]

    def _with(self, verdict: str) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.verdict == verdict)

    @property
    def safe(self) -> tuple[Finding, ...]:
        """What is proved to be right for every call."""
        return self._with(SAFE)

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """What is proved to go wrong wherever it is reached."""
        return self._with(WRONG)

    @property
    def left(self) -> tuple[Finding, ...]:
        """What only a run or a call can tell."""
        return self._with(OPEN)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as dictionaries, lists, strings and numbers alone."""
        return {
            "kernel": self.kernel,
            "findings": [{"subject": f.subject, "verdict": f.verdict, "what": f.what, "reason": f.reason, **_place(f.location)}
                         for f in self.findings],
            "costs": [{"unit": c.unit, "what": c.what, "least": c.least, "most": c.most, "ideal": c.ideal, "reason": c.reason,
                       **_place(c.location)} for c in self.costs],
        }

    def __str__(self) -> str:
        head = f"{self.kernel}: {len(self.safe)} proved safe, {len(self.wrong)} proved wrong, {len(self.left)} left to the run"
        told = sorted(((f.location.file, f.location.line) if f.location else ("", 0), str(f)) for f in _unique(self.findings))
        told += sorted(((c.location.file, c.location.line) if c.location else ("", 0), str(c)) for c in _unique(self.costs))
        told.sort(key=lambda entry: entry[0])
        lines = [head]
        for (file, number), entries in groupby(told, key=lambda entry: entry[0]):
            source = linecache.getline(file, number).strip()
            lines.append(f"{file}:{number}" + (f"  {source}" if source else ""))
            lines += [textwrap.indent(entry, "    ") for _, entry in entries]
        return "\n".join(lines)


def _unique(entries: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(entries))


def _place(location: Location | None) -> dict[str, Any]:
    return {"file": location.file if location else "", "line": location.line if location else 0}
