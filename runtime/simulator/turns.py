"""Loops that may go on for ever: those that wait for others, for the time, and those that nothing ends."""

from __future__ import annotations

from runtime.simulator.agent import Agent, Wait
from runtime.simulator.engines import END
from runtime.simulator.frames import Frame
from runtime.simulator.polling import Polling
from tracer.errors import DeadlockError
from tracer.ir import Node

PATIENCE = 1 << 16      # turns of a loop that polls and counts besides, while memory stays as it is
LOOKS = 1 << 10         # turns before which nobody asks whether a loop ends


class Watch:
    """One execution of a loop by an agent. `turn` says after each turn whether the next may come out differently.

    A loop that polls memory waits until that has changed; if it also looks at the clock, or counts its turns, until nobody else does anything. One
    that depends on the thread's own variables alone and leaves them as they were never ends. Where only the time is waited for, it passes quickly.
    """

    def __init__(self, agent: Agent, node: Node, polling: Polling) -> None:
        self.agent, self.node, self.polling = agent, node, polling
        self.waits = polling.polls and agent.resident is not None
        self.turns = 0
        self.seen = agent.engines.changes
        self.state = self._state() if self.waits else None

    def _state(self) -> list[bytes]:
        """The thread's own variables that decide."""
        memories = [self.agent.memory.get(storage) for storage in self.polling.state]
        return [memory.cells.tobytes() for memory in memories if memory is not None]

    def turn(self, frame: Frame) -> Wait | None:
        """A turn has ended for the threads of `frame`, which go on. What they wait for before the next one."""
        self.turns += 1
        if self.waits:
            return self._wait(frame)
        if self.polling.timed:
            self.agent.engines.pass_time()
        elif self.turns >= LOOKS:
            self._look(frame)
        return None

    def _wait(self, frame: Frame) -> Wait:
        engines, seen, before, idle = self.agent.engines, self.seen, self.state, self.agent.engines.idle
        self.seen, self.state = engines.changes, self._state()
        if self.seen != seen:
            self.turns = 0
            return Wait(self.agent, frame, self.node, lambda: True, self._text)
        # A loop that counts its turns ends by itself, but had better see first what others still do.
        timed = (self.polling.timed and engines.time < END) or (self.state != before and self.turns < PATIENCE)
        return Wait(self.agent, frame, self.node, lambda: engines.changes != seen or (timed and engines.idle != idle), self._text, timed=timed)

    def _text(self) -> str:
        polled = self.agent.polled
        return f"the loop polls: {polled()}" if polled is not None else "the loop polls memory, which nobody changes"

    def _look(self, frame: Frame) -> None:
        """Now and then: whether the last turn changed anything that counts."""
        if self.turns & self.turns - 1 == 0:
            self.state = self._state()
        elif self.state is not None:
            if self.state == self._state():
                self.agent.fail(DeadlockError, f"the loop never ends: nothing has changed that its condition depends on ({self.turns} turns so far)",
                                frame, True, self.node)
            self.state = None
