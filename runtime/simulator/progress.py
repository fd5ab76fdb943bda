"""How far a long run has come: a bar on stderr, where that is a terminal, once a run has taken a few seconds."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_PATIENCE = 2.0         # seconds before the bar appears
_PAUSE = 0.1            # seconds between two drawings of it
_WIDTH = 40


class Progress:
    """Counts blocks, or what `unit` says, of `total` as they start. Draws nothing on what is no terminal."""

    def __init__(self, name: str, total: int, stream: TextIO | None = None, unit: str = "blocks") -> None:
        self.name, self.total, self.unit = name, total, unit
        self.stream = stream if stream is not None else sys.stderr
        self.started, self.shown = 0, False
        self.next = time.monotonic() + _PATIENCE if self.stream is not None and self.stream.isatty() else float("inf")

    def start(self, blocks: int) -> None:
        """So many more blocks begin to run."""
        now = time.monotonic()
        if now >= self.next:
            self._draw(self.started)
            self.next = now + _PAUSE
        self.started += blocks

    def end(self) -> None:
        """The run is over, however it ended: the line is free again."""
        if self.shown:
            self.stream.write("\r" + " " * (len(self._text(self.total))) + "\r")
            self.stream.flush()
            self.shown = False

    def _draw(self, done: int) -> None:
        self.stream.write("\r" + self._text(done))
        self.stream.flush()
        self.shown = True

    def _text(self, done: int) -> str:
        filled = _WIDTH * done // max(self.total, 1)
        return f"{self.name} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{self.total} {self.unit}"
