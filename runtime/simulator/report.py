"""What a run did, in numbers: how often each operation ran, what each access moved and cost, who waited where; by Python line.

Counts are of the blocks that ran. Where that is a sample of the grid (`Report.sample`) the text says so; `roof` scales up.
"""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from runtime.simulator.kinds import KINDS
from runtime.simulator.roof import MACHINES, Roof, roof
from symbolic.layout.banks import PASS_BYTES
from tracer.ir import Location


@dataclass(frozen=True, slots=True)
class AccessCount:
    """One load, store or atomic statement: `threads` executions of `bytes_each` bytes, and what the hardware does for them.

    `requests` are instructions of warps. To global memory they move `sectors` of 32 bytes, of which `least_sectors` would do; in shared
    memory they take `passes` through the banks, of which `least_passes` would do, the worst with `ways` words in one bank. `engine_bytes`
    are moved by a copy engine. All are 0 where no profile was taken.
    """

    buffer: str
    scope: str
    kind: str                     # "load", "store" or "atomic"
    location: Location | None
    bytes_each: int
    threads: int
    requests: int = 0
    sectors: int = 0
    least_sectors: int = 0
    passes: int = 0
    least_passes: int = 0
    ways: int = 0
    engine_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Bytes asked for, over all threads."""
        return self.threads * self.bytes_each

    @property
    def efficiency(self) -> float | None:
        """Coalescing: the part of the sectors moved that would have to be moved in any case. None where none are."""
        return self.least_sectors / self.sectors if self.sectors else None

    @property
    def conflicts(self) -> int:
        """Bank conflicts: passes through shared memory beyond those that the bytes need."""
        return self.passes - self.least_passes

    def plus(self, other: AccessCount) -> AccessCount:
        """The sums of both."""
        added = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        return replace(self, ways=max(self.ways, other.ways), **added)


_ADDED = ("threads", "requests", "sectors", "least_sectors", "passes", "least_passes", "engine_bytes")


@dataclass(frozen=True, slots=True)
class OperationCount:
    """One operation of the kernel: how many threads executed it. `kind` is one of `kinds.KINDS`."""

    operation: str
    kind: str
    location: Location | None
    threads: int


@dataclass(frozen=True, slots=True)
class BarrierCount:
    """One barrier, or wait for an mbarrier or a group of copies: how many `times` it let `warps` (in all) go on."""

    operation: str
    location: Location | None
    times: int
    warps: int


@dataclass(frozen=True, slots=True)
class Line:
    """One line of Python with all that it did. `source` is empty where the text is not to be found."""

    file: str
    number: int
    source: str
    operations: tuple[OperationCount, ...]
    accesses: tuple[AccessCount, ...]
    barriers: tuple[BarrierCount, ...]

    @property
    def executed(self) -> int:
        """Operations executed, over all threads."""
        return sum(o.threads for o in self.operations)


@dataclass(slots=True)
class Report:
    """Counts of one simulated launch; `str(report)` is a table, `report.html()` a page.

    * `instructions`: operation name -> executions, one a thread; `operations` has them one by one.
    * `accesses`: one row a load, store or atomic statement, in program order; `barriers`: one a barrier or wait.
    * `arithmetic`: pipe ("float32", "matrix float16", ..) -> operations; `bytes_read`, `bytes_written`: sectors of global memory touched,
      each counted once.
    * `sample`: (blocks that ran, blocks of the grid) where these differ.
    * `notes`: what is legal and yet worth a look, such as a barrier that some threads no longer reach.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    instructions: dict[str, int] = field(default_factory=dict)
    accesses: list[AccessCount] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    operations: list[OperationCount] = field(default_factory=list)
    barriers: list[BarrierCount] = field(default_factory=list)
    arithmetic: dict[str, float] = field(default_factory=dict)
    bytes_read: int = 0
    bytes_written: int = 0
    sample: tuple[int, int] | None = None
    profiled: bool = False

    # ---- as data

    @property
    def kinds(self) -> dict[str, int]:
        """Executions by kind of instruction, one a thread; kinds that do not occur are left out."""
        found = dict.fromkeys(KINDS, 0)
        for o in self.operations:
            found[o.kind] += o.threads
        return {kind: count for kind, count in found.items() if count}

    def roof(self, machine: str = "H200") -> Roof:
        """Which unit of a GPU ("A100", "H100", "H200", "B200") needs longest for the whole grid, and how long at least.

        Raises KeyError for a GPU that is not in `roof.MACHINES`.
        """
        scale = self.sample[1] / self.sample[0] if self.sample else 1
        dram = (self.bytes_read + self.bytes_written) * scale
        passes = sum(a.passes + (a.engine_bytes // PASS_BYTES if a.scope.startswith("shared") else 0) for a in self.accesses)
        return roof(MACHINES[machine], dram, scale * passes,
                    {pipe: count * scale for pipe, count in self.arithmetic.items()})

    def lines(self) -> list[Line]:
        """Every line of Python that did something, by file and number."""
        places = {o.location for group in (self.operations, self.accesses, self.barriers) for o in group if o.location is not None}
        spots = sorted({(place.file, place.line) for place in places})

        def at(group: Sequence[Any], spot: tuple[str, int]) -> tuple[Any, ...]:
            return tuple(o for o in group if o.location is not None and (o.location.file, o.location.line) == spot)

        return [Line(*spot, linecache.getline(*spot).rstrip(), at(self.operations, spot), at(self.accesses, spot), at(self.barriers, spot))
                for spot in spots]

    def statements(self) -> list[AccessCount]:
        """The accesses that cost something, those of one buffer on one line (of an unrolled loop) added up."""
        found: dict[Any, AccessCount] = {}
        for a in self.accesses:
            if a.requests or a.engine_bytes:
                key = (a.buffer, a.scope, a.kind, a.location, a.bytes_each)
                found[key] = a.plus(found[key]) if key in found else a
        return list(found.values())

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary an access, for a data frame: what it is, where, and each of its numbers."""
        return [{"buffer": a.buffer, "scope": a.scope, "access": a.kind, "file": a.location.file if a.location else "",
                 "line": a.location.line if a.location else 0, "threads": a.threads, "bytes": a.bytes, "requests": a.requests,
                 "sectors": a.sectors, "efficiency": a.efficiency, "passes": a.passes, "conflicts": a.conflicts, "ways": a.ways,
                 "engine_bytes": a.engine_bytes} for a in self.accesses]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as dictionaries, lists, strings and numbers alone."""
        def plain(o: Any) -> dict[str, Any]:
            place = o.location
            return {**asdict(o), "location": {"file": place.file, "line": place.line, "function": place.function} if place else None}

        return {
            "kernel": self.kernel, "grid": list(self.grid), "block": list(self.block), "sample": list(self.sample) if self.sample else None,
            "instructions": dict(self.instructions), "kinds": self.kinds, "arithmetic": dict(self.arithmetic),
            "bytes_read": self.bytes_read, "bytes_written": self.bytes_written, "notes": list(self.notes),
            "operations": [plain(o) for o in self.operations], "accesses": [plain(a) for a in self.accesses],
            "barriers": [plain(b) for b in self.barriers],
        }

    def html(self, machine: str = "H200") -> str:
        """One self-contained page: the lines with their numbers beside them, and the tables."""
        from runtime.simulator.html import page
        return page(self, machine)

    # ---- as text

    def __str__(self) -> str:
        parts = [f"{self.kernel}: grid {self.grid}, block {self.block}"]
        if self.sample:
            parts[0] += f"\nsampled: {self.sample[0]} of {self.sample[1]} blocks ran; these are their counts"
        parts += self._profile() if self.profiled else self._counts()
        parts += [f"note: {note}" for note in self.notes]
        return "\n\n".join(parts)

    def _counts(self) -> list[str]:
        parts = []
        if self.instructions:
            names = sorted(self.instructions, key=lambda name: (-self.instructions[name], name))
            parts.append(table(("instruction", "executed"), [(name, self.instructions[name]) for name in names]))
        if self.accesses:
            rows = [(a.buffer, a.scope, a.kind, a.threads, a.bytes, str(a.location or "")) for a in self.accesses]
            parts.append(table(("buffer", "scope", "access", "threads", "bytes", "line"), rows))
        return parts

    def _profile(self) -> list[str]:
        parts = [str(self.roof())]
        if self.kinds:
            parts.append(table(("kind", "executed"), list(self.kinds.items())))
        told = self.statements()
        if told:
            parts.append(table(("buffer", "scope", "access", "bytes", "requests", "sectors", "efficiency", "passes", "conflicts", "line"), [
                (a.buffer, a.scope, a.kind, a.engine_bytes or a.bytes, a.requests, a.sectors or "", percent(a.efficiency), a.passes or "",
                 a.conflicts if a.passes else "", str(a.location.short if a.location else "")) for a in told]))
        if self.barriers:
            parts.append(table(("barrier", "times", "warps", "line"), [
                (b.operation, b.times, b.warps, str(b.location.short if b.location else "")) for b in self.barriers]))
        parts += [self._listing(file, list(lines)) for file, lines in groupby(self.lines(), lambda line: line.file)]
        return parts

    @staticmethod
    def _listing(file: str, lines: list[Line]) -> str:
        sources = textwrap.dedent("\n".join(line.source for line in lines)).split("\n")
        rows = [(line.number, line.executed, sum(a.sectors for a in line.accesses) or "", percent(efficiency_of(line.accesses)),
                 sum(a.conflicts for a in line.accesses) or "", "  " + source) for line, source in zip(lines, sources)]
        return f"{file}\n" + table(("line", "executed", "sectors", "efficiency", "conflicts", "  source"), rows)


def efficiency_of(accesses: Iterable[AccessCount]) -> float | None:
    """Of several accesses together."""
    accesses = list(accesses)
    moved = sum(a.sectors for a in accesses)
    return sum(a.least_sectors for a in accesses) / moved if moved else None


def percent(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.0f}%"


def table(header: tuple[str, ...], rows: Iterable[tuple[str | int, ...]]) -> str:
    """Columns two blanks apart, numbers to the right. A column all of whose entries are empty is left out."""
    rows = list(rows)
    kept = [k for k in range(len(header)) if any(row[k] != "" for row in rows)]
    texts = [[str(line[k]) for k in kept] for line in (header, *rows)]
    widths = [max(len(line[k]) for line in texts) for k in range(len(kept))]
    right = [not any(str(row[k]).strip("0123456789%") for row in rows) for k in kept]
    return "\n".join(
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(line, widths, right)).rstrip() for line in texts
    )
