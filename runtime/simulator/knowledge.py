"""What a thread can know of others, and hand over (see `clocks`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from runtime.simulator.frames import Array
from runtime.simulator.spans import NONE, Spans, united

TIME_BITS = 28
LAST_TIME = (1 << TIME_BITS) - 1
WARP = 32
ACTOR = 1 << 34         # asynchronous operations are numbered from here, behind all threads
RANK = {"cta": 0, "cluster": 1, "gpu": 2, "": 2, "sys": 3}
ANYWHERE = 4            # the rank of an operation's end: whoever waits for it at a barrier of its own knows it


class Clock(NamedTuple):
    """What is known beyond barriers: for a block, by its row, the time up to which each of its threads is known; and the operations that
    have ended. Nothing here is changed once it is made."""

    rows: dict[int, Array]
    actors: Spans


NOTHING = Clock({}, NONE)


def merged(a: Clock, b: Clock) -> Clock:
    """What is known by either."""
    return a if a is b or b is NOTHING else b if a is NOTHING else union((a, b))


def union(clocks: Iterable[Clock]) -> Clock:
    """What is known by any; equal clocks are looked at once."""
    distinct = list({id(c): c for c in clocks if c is not NOTHING}.values())
    if len(distinct) < 2:
        return distinct[0] if distinct else NOTHING
    rows = dict(distinct[0].rows)
    for clock in distinct[1:]:
        for block, row in clock.rows.items():
            own = rows.get(block)
            rows[block] = row if own is None or own is row else np.maximum(own, row)
    return Clock(rows, united(clock.actors for clock in distinct))


class Parcel(NamedTuple):
    """What an arrival or a flag hands over: what was seen, and of that what was also made visible to the async proxy."""

    known: Clock
    proxied: Clock


class Sender(NamedTuple):
    """Where a parcel comes from: the row of the block, and how far its scope reaches."""

    row: int
    rank: int


MANY = 64               # senders; of more, those that reach all blocks are kept together, as ANY_BLOCK
ANY_BLOCK = -1


Entries = dict[Sender, Parcel]


@dataclass(slots=True)
class Fenced:
    """What each thread knew at its last fence of one kind: itself up to `since`, others as `common` says."""

    since: dict[int, int] = field(default_factory=dict)
    common: dict[int, Clock] = field(default_factory=dict)

    def of(self, slots: list[int], threads: int) -> Clock:
        """What these threads have fenced, together."""
        clock = union(self.common[s] for s in slots if s in self.common)
        own = [s for s in slots if s in self.since]
        if own:
            rows: dict[int, Array] = {}
            for slot in own:
                block, thread = divmod(slot, threads)
                if block not in rows:
                    rows[block] = np.zeros(threads, np.int32)
                rows[block][thread] = self.since[slot]
            clock = merged(clock, Clock(rows, NONE))
        return clock

    def share(self, slots: list[int], threads: int) -> None:
        """They meet at a barrier."""
        if any(s in self.since or s in self.common for s in slots):
            self.common.update(dict.fromkeys(slots, self.of(slots, threads)))


@dataclass(eq=False, slots=True)
class Actor:
    """An asynchronous operation: numbers from `first` on, one for each of the threads that issued it, and what they knew then."""

    first: int
    issuers: Array
    known: Clock
    proxied: Clock
    over: Clock             # what they know to be over, if no more
    since: Array            # for each issuer, up to when what it did itself is visible to the async proxy


# ---- entries -----------------------------------------------------------------------------------------------------------

def add(entries: Entries, more: Entries) -> None:
    """Join `more` to the entries."""
    for origin, parcel in more.items():
        _put(entries, origin, parcel)
    if len(entries) > MANY:
        for origin in [o for o in entries if o.rank >= RANK["gpu"] and o.row != ANY_BLOCK]:
            _put(entries, Sender(ANY_BLOCK, origin.rank), entries.pop(origin))


def _put(entries: Entries, origin: Sender, parcel: Parcel) -> None:
    there = entries.get(origin)
    entries[origin] = parcel if there is None else Parcel(merged(there.known, parcel.known), merged(there.proxied, parcel.proxied))
