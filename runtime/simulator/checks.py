"""What a run looks for besides what it computes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checks:
    """Which checks a simulation makes: `kernel.simulate(..., checks=Checks(same_value_writes=False))`. `True` is `Checks()`, `False` none.

    * `races`: two accesses of a byte, one a store, that nothing orders (`DataRaceError`).
    * `same_value_writes`: also where both store the same value (`SameValueRaceError`): harmless on today's hardware, if it is meant.
    * `unwritten_outputs`: elements of arrays that the kernel writes, and that no thread has written at its end (`UnwrittenOutputError`).
      Not by default: many kernels write only a part.
    * `nan`: the first NaN or infinity that an operation makes out of finite operands (`NonFiniteError`), with its line. Not by default.

    Bounds, alignment, uninitialised reads, barriers and index overflow are always looked for, unless `checks` is False.
    """

    races: bool = True
    same_value_writes: bool = True
    unwritten_outputs: bool = False
    nan: bool = False


def checks_of(asked: bool | Checks) -> Checks | None:
    """What `checks=` stands for; None: nothing."""
    return asked if isinstance(asked, Checks) else Checks() if asked else None
