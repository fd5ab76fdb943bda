"""Reads of what nothing wrote yet, where another thread may write it later.

Whether a reader or an unordered writer runs first is the simulator's choice. If the writer comes after all, it is a data race, and that is
what helps the author; so a read of unwritten shared memory is kept in mind while the others go on, and reported when none came.
"""

from __future__ import annotations

from tracer.errors import ClusterError, DataRaceError, SimulationError

PATIENCE = 10_000       # turns of loops, which what was read may keep from ending


class Doubts:
    """The first such read, if there was one."""

    def __init__(self) -> None:
        self.error: SimulationError | None = None
        self.turns = 0

    def add(self, error: SimulationError) -> None:
        """A read of what nothing wrote yet."""
        self.error = self.error or error

    def turn(self) -> None:
        """A loop begins a turn. Raises the error when that has happened too often."""
        if self.error is not None:
            self.turns += 1
            if self.turns > PATIENCE:
                raise self.error

    def settle(self, found: SimulationError | None = None) -> None:
        """The run has ended, with the error `found` if any: raise the doubt instead, unless that tells of missing order, too."""
        if self.error is not None and not isinstance(found, (DataRaceError, ClusterError)):
            raise self.error from None
