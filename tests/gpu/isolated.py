"""Running cases in another process: a kernel that kills its context ("illegal instruction") takes no other case with it."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

SECONDS = 60
MOST_FAILURES = 8       # a new process costs seconds


class Isolated:
    """A process that runs functions, one after the other; a new one where the last has failed."""

    def __init__(self) -> None:
        self._failures = 0
        self._process: Any = None
        self._pipe: Any = None

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `function(*arguments)` returns there. Fails with its traceback, or where it does not end."""
        if self._failures >= MOST_FAILURES:
            raise AssertionError(f"not run: {self._failures} cases before it have failed")
        if self._process is None or not self._process.is_alive():
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()      # so that a dead process is seen
        self._pipe.send((function, arguments))
        if not self._pipe.poll(SECONDS):
            self._failures += 1
            self.end()
            raise AssertionError(f"{function.__name__}{arguments} did not end within {SECONDS} s")
        try:
            right, result = self._pipe.recv()
        except EOFError:
            right, result = False, "the process died"
        if not right:
            self._failures += 1
            self.end()
            raise AssertionError(result)
        return result

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(pipe: Connection) -> None:
    while True:
        function, arguments = pipe.recv()
        try:
            pipe.send((True, function(*arguments)))
        except BaseException:  # noqa: BLE001  whatever it is, the caller is told
            pipe.send((False, traceback.format_exc()))
