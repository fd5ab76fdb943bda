"""Numbers in messages."""

from __future__ import annotations

import numpy as np

from runtime.simulator.frames import Array


def runs(flags: Array) -> str:
    """`0-127, 130` for the positions that are set."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return ", ".join(str(a) if b - a == 1 else f"{a}-{b - 1}" for a, b in edges.reshape(-1, 2))
