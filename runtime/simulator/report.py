"""What a run did, in numbers: how often each operation ran, and what each access moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracer.ir import Location


@dataclass(frozen=True, slots=True)
class AccessCount:
    """One load, store or atomic statement: `threads` executions of `bytes_each` bytes."""

    buffer: str
    scope: str
    kind: str                     # "load", "store" or "atomic"
    location: Location | None
    bytes_each: int
    threads: int

    @property
    def bytes(self) -> int:
        """Bytes asked for, over all threads."""
        return self.threads * self.bytes_each


@dataclass(slots=True)
class Report:
    """Counts of one simulated launch; `str(report)` is a table.

    * `instructions`: operation name -> executions, one a thread.
    * `accesses`: one row a load, store or atomic statement, in program order.
    * `notes`: what is legal and yet worth a look, such as a barrier that some threads no longer reach.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    instructions: dict[str, int] = field(default_factory=dict)
    accesses: list[AccessCount] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.kernel}: grid {self.grid}, block {self.block}"]
        if self.instructions:
            names = sorted(self.instructions, key=lambda name: (-self.instructions[name], name))
            parts.append(_table(("instruction", "executed"), [(name, self.instructions[name]) for name in names]))
        if self.accesses:
            rows = [(a.buffer, a.scope, a.kind, a.threads, a.bytes, str(a.location or "")) for a in self.accesses]
            parts.append(_table(("buffer", "scope", "access", "threads", "bytes", "line"), rows))
        parts += [f"note: {note}" for note in self.notes]
        return "\n\n".join(parts)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str | int, ...]]) -> str:
    """Columns two blanks apart, numbers to the right."""
    rows = list(rows)
    texts = [header, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[k]) for line in texts) for k in range(len(header))]
    right = [isinstance(cell, int) for cell in rows[0]]
    return "\n".join(
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(line, widths, right)).rstrip() for line in texts
    )
