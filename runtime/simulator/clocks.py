"""Who has seen what: the order between the accesses of a run.

Time is a counter that every access and every synchronisation advances; an access is stamped with who did it and when. A thread *knows* of an
access if something orders the access before what the thread does next: it did it itself, or it takes part in a barrier, waits for an arrival,
or reads a flag that was set behind it. `Order` keeps for each thread up to which time it knows of each other one (vector clocks), in layers,
for most of it is said in one number:

* of a block, the time of its last barrier, at which all of its threads saw each other; of a warp likewise;
* for a thread that has seen more, a `Clock`, shared by all that have seen the same.

Two lanes of a warp are two threads: that they run in lockstep orders nothing (CUDA C++ Programming Guide, Independent Thread Scheduling). Fences
and flags follow the memory consistency model of the PTX ISA (8.8, release and acquire patterns, causality), with one allowance: a fence by the
writer also holds if another thread sets the flag behind a barrier, as hardware does. The proxies are those of PTX ISA 8.6.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable

import numpy as np

from runtime.simulator.frames import Array
from runtime.simulator.knowledge import (
    ACTOR,
    ANY_BLOCK,
    ANYWHERE,
    LAST_TIME,
    NOTHING,
    RANK,
    TIME_BITS,
    WARP,
    Actor,
    Clock,
    Entries,
    Fenced,
    Parcel,
    Sender,
    add,
    merged,
    union,
)
from runtime.simulator.spans import NONE, Spans, holds, span, united


class Order:
    """Clocks of all threads of a grid of blocks of `threads` threads; `cluster_of` gives the cluster of a block's row,
    None where there are none.

    Threads go by *slot*: `row * threads + thread`, the row being the place of the block among those that run.
    """

    def __init__(self, threads: int, blocks: int, cluster_of: Callable[[int], int] | None = None) -> None:
        self.threads, self.cluster_of, self.clusters = threads, cluster_of or (lambda row: row), cluster_of is not None
        self.warps = -(-threads // WARP)
        self.now = 0
        self.barrier = np.zeros(blocks, np.int32)           # when the block last met
        self.running, self.together = 0, 0                  # blocks that run in lockstep, and when all of them last met
        self.warp_barrier: Array | None = None              # when the warp last met
        self.extra: dict[int, Clock] = {}                   # what a thread knows besides
        self.fences: dict[int, Fenced] = {}                 # by the rank of their scope
        self.proxies = Fenced()
        self.over: dict[int, Clock] = {}                    # what a thread knows to be over, and no more: from arrivals of too narrow a scope
        self.kept: dict[Hashable, Entries] = {}             # what was handed over at barriers in memory and flags
        self.pending: dict[int, Entries] = {}               # what relaxed reads of flags found, until a fence
        self.out_of_reach: set[tuple[int, int]] = set()     # rows between which something was handed over in too narrow a scope
        self.actors: dict[object, Actor] = {}
        self.issued: list[Actor] = []
        self.settled: dict[int, Spans] = {}              # operations that all threads of a block know of
        self.next_actor = ACTOR

    def tick(self) -> int:
        """A new time."""
        self.now += 1
        if self.now >= LAST_TIME:
            raise OverflowError(f"a run of more than {LAST_TIME} statements is too long for the race detector: use checks=Checks(races=False)")
        return self.now

    def forget_threads(self) -> None:
        """All threads that ran so far have ended; what they handed over stays."""
        for of_threads in (self.extra, self.pending, self.over):
            of_threads.clear()
        self.fences.clear()
        self.proxies = Fenced()

    # ---- what is known ------------------------------------------------------------------------------------------------------

    def snapshot(self, slots: Array, own: bool = True, far: bool = True) -> Clock:
        """What these threads know now, together; with `own`, what they did themselves included. Not `far`: for their own block alone."""
        listed = slots.tolist()
        clock = union(self.extra[s] for s in listed if s in self.extra) if self.extra else NOTHING
        rows: dict[int, Array] = {}
        settled = NONE
        blocks = slots // self.threads
        for block in ([int(blocks[0])] if (blocks == blocks[0]).all() else np.unique(blocks).tolist()):
            inside = slots[blocks == block] - block * self.threads
            row = np.full(self.threads, self.barrier[block], np.int32)
            if self.warp_barrier is not None:
                for warp in np.unique(inside // WARP).tolist():
                    part = row[warp * WARP:(warp + 1) * WARP]
                    np.maximum(part, self.warp_barrier[block * self.warps + warp], out=part)
            if own:
                row[inside] = self.now
            rows[block] = row
            if far and block in self.settled:
                settled = united((settled, self.settled[block]))
        return merged(clock, Clock(rows, settled))

    def known(self, stamps: Array, slots: Array) -> Array:
        """For each pair of a stamp and a thread: does the thread know of that access?"""
        who, when = (stamps >> TIME_BITS) - 1, stamps & LAST_TIME
        rows, own_rows = who // self.threads, slots // self.threads
        fine: Array = (who == slots) | (rows == own_rows) & (when <= self.barrier[own_rows])
        if self.warp_barrier is not None and not fine.all():
            warp = slots - own_rows * self.threads >> 5
            same = (rows == own_rows) & (who - rows * self.threads >> 5 == warp)
            fine |= same & (when <= self.warp_barrier[own_rows * self.warps + warp])
        if self.extra and not fine.all():
            left = np.flatnonzero(~fine)
            owners = slots[left]
            clocks = {slot: self.extra.get(slot, NOTHING) for slot in np.unique(owners).tolist()}
            groups: dict[int, list[int]] = {}
            for slot, clock in clocks.items():
                groups.setdefault(id(clock), []).append(slot)
            for members in groups.values():
                part = left[np.isin(owners, members)] if len(groups) > 1 else left
                fine[part] = self.within(who[part], when[part], clocks[members[0]])
        if self.settled and not fine.all():
            for k in np.flatnonzero(~fine & (who >= ACTOR)).tolist():
                fine[k] = holds(self.settled.get(int(own_rows[k]), NONE), int(who[k]))
        return fine

    def within(self, who: Array, when: Array, clock: Clock) -> Array:
        """Which of these accesses does the clock cover?"""
        fine = np.zeros(len(who), np.bool_)
        rows = who // self.threads
        for row in np.unique(rows[who < ACTOR]).tolist():
            times = clock.rows.get(row)
            if times is not None:
                part = np.flatnonzero(rows == row)
                fine[part] = when[part] <= times[who[part] - row * self.threads]
        for actor in np.unique(who[who >= ACTOR]).tolist():
            if holds(clock.actors, actor):
                fine[who == actor] = True
        return fine

    def _learn(self, slots: list[int], clock: Clock) -> None:
        """These threads know of `clock` too. Those that knew the same keep knowing the same."""
        if clock is NOTHING:
            return
        made: dict[int, Clock] = {}
        for slot in slots:
            before = self.extra.get(slot, NOTHING)
            after = made.get(id(before))
            if after is None:
                after = made[id(before)] = merged(before, clock)
            self.extra[slot] = after

    def is_over(self, stamps: Array, slots: Array, actor: Actor | None) -> Array:
        """As `known`, of what is over by arrivals alone, whatever their scope: for stores."""
        who, when = (stamps >> TIME_BITS) - 1, stamps & LAST_TIME
        if actor is not None:
            return self.within(who, when, actor.over)
        fine = np.zeros(len(who), np.bool_)
        for slot in np.unique(slots).tolist():
            part = slots == slot
            fine[part] = self.within(who[part], when[part], self.over.get(slot, NOTHING))
        return fine

    # ---- barriers -----------------------------------------------------------------------------------------------------------

    def join(self, slots: Array) -> None:
        """Each row of `slots` (groups, n) meets: all of its threads know what any of them knew."""
        now, count = self.tick(), slots.shape[1]
        first = slots[:, 0] % self.threads
        if count == self.threads:
            rows = slots[:, 0] // self.threads
            self.barrier[rows] = now
            if len(rows) == self.running:
                self.together = now
            if self.extra:
                for row, group in zip(rows.tolist(), slots.tolist()):
                    self._meet(row, group)
        elif ((first % WARP == 0) & (count == np.minimum(WARP, self.threads - first))).all() and (slots[:, -1] - slots[:, 0] == count - 1).all():
            if self.warp_barrier is None:
                self.warp_barrier = np.zeros(len(self.barrier) * self.warps, np.int32)
            self.warp_barrier[slots[:, 0] // self.threads * self.warps + first // WARP] = now
            if self.extra:
                for group in slots.tolist():
                    whole = union(self.extra[s] for s in group if s in self.extra)
                    if whole is not NOTHING:
                        self.extra.update(dict.fromkeys(group, whole))
        else:
            for row in slots:
                whole = self.snapshot(row)
                self.extra.update(dict.fromkeys(row.tolist(), whole))
        if self.fences or self.over or self.proxies.since or self.proxies.common or self.pending:
            for group in slots.tolist():
                past = union(self.over[s] for s in group if s in self.over)
                if past is not NOTHING:
                    self.over.update(dict.fromkeys(group, past))
                for fenced in (*self.fences.values(), self.proxies):
                    fenced.share(group, self.threads)
                found: Entries = {}
                for slot in group:
                    add(found, self.pending.get(slot, {}))
                if found:
                    self.pending.update({slot: dict(found) for slot in group})

    def _meet(self, row: int, group: list[int]) -> None:
        """A whole block: what its threads knew of other blocks is common now; of each other they need no clock."""
        whole = union(self.extra.pop(s) for s in group if s in self.extra)
        if whole.actors:
            self.settled[row] = united((self.settled.get(row, NONE), whole.actors))
        others = whole.rows
        if row in others:
            others = {block: times for block, times in others.items() if block != row}
        if others:
            self.extra.update(dict.fromkeys(group, Clock(others, NONE)))

    # ---- arrivals, waits and flags ------------------------------------------------------------------------------------------

    def release(self, slots: Array, key: Hashable, rank: int) -> None:
        """These threads hand over what they know at `key`."""
        self.tick()
        for part in self._by_block(slots):
            self._hand_over(key, part, rank, Parcel(self.snapshot(part, far=self.clusters or rank > 0), self.proxies.of(part.tolist(), self.threads)))

    def _hand_over(self, key: Hashable, slots: Array, rank: int, parcel: Parcel) -> None:
        if parcel.known is not NOTHING:
            add(self.kept.setdefault(key, {}), {Sender(int(slots[0]) // self.threads, rank): parcel})

    def acquire(self, slots: Array, key: Hashable, rank: int) -> None:
        """These threads know what was handed over at `key`, if the scopes reach."""
        self.tick()
        actor = self.actors.get(key)
        if actor is not None:       # a wait for what one issued oneself
            for slot in slots.tolist():
                self._learn([slot], Clock({}, united(span(actor.first + k) for k in np.flatnonzero(actor.issuers == slot).tolist())))
            return
        for part in self._by_block(slots):
            self._receive(part, self.kept.get(key, {}), rank, barrier=True)

    def _by_block(self, slots: Array) -> list[Array]:
        """The threads of each block."""
        rows = slots // self.threads
        if (rows == rows[0]).all():
            return [slots]
        return [slots[rows == row] for row in np.unique(rows)]

    def _receive(self, slots: Array, entries: Entries, rank: int, barrier: bool = False) -> None:
        """What came with an arrival or a flag. An arrival at a `barrier` says, whatever its scope, that what
        came before is over: enough to store there again, not to read what was stored."""
        if not entries:
            return
        row, listed = int(slots[0]) // self.threads, slots.tolist()
        within: list[Parcel] = []
        for origin, parcel in entries.items():
            if origin.row == ANY_BLOCK and rank < RANK["gpu"]:
                near = {r: times for r, times in parcel.known.rows.items() if self.distance(r, row) <= rank}
                parcel = Parcel(Clock(near, parcel.known.actors), parcel.proxied)
            elif origin.rank != ANYWHERE and min(origin.rank, rank) < self.distance(origin.row, row):
                self.out_of_reach.add((origin.row, row))
                if barrier:
                    self.over.update({slot: merged(self.over.get(slot, NOTHING), parcel.known) for slot in listed})
                continue
            within.append(parcel)
        self._learn(listed, union(parcel.known for parcel in within))
        proxied = union(parcel.proxied for parcel in within)
        if proxied is not NOTHING:
            self.proxies.common.update({slot: merged(self.proxies.common.get(slot, NOTHING), proxied) for slot in listed})

    def distance(self, a: int, b: int) -> int:
        """The rank of the least scope that holds both blocks."""
        return 0 if a in (b, ANY_BLOCK) else 1 if self.cluster_of(a) == self.cluster_of(b) else 2

    def fence(self, slots: Array, rank: int) -> None:
        """What relaxed reads found before it is known, and what is known can be published by relaxed writes behind it."""
        self.tick()
        for slot in slots.tolist() if self.pending else ():
            found = self.pending.pop(slot, None)
            if found:
                self._receive(np.array([slot]), found, rank)
        self._fence(self.fences.setdefault(rank, Fenced()), slots)

    def proxy_fence(self, slots: Array) -> None:
        """What is known is visible to the async proxy."""
        self.tick()
        self._fence(self.proxies, slots)

    def _fence(self, fenced: Fenced, slots: Array) -> None:
        listed = slots.tolist()
        fenced.since.update(dict.fromkeys(listed, self.now))
        groups: dict[tuple[int, int], list[int]] = {}
        for slot in listed:     # who knows the same, but for what each did itself
            groups.setdefault((id(self.extra.get(slot)), slot // WARP), []).append(slot)
        for members in groups.values():
            fenced.common.update(dict.fromkeys(members, self.snapshot(np.array(members), own=False)))

    def flag(self, slots: Array, key: Hashable, reads: bool, writes: bool, order: str, rank: int) -> None:
        """Ordered or relaxed accesses of one element, which one block after the other makes."""
        for part in self._by_block(slots):
            self._flag(part, key, reads, writes, order, rank)

    def _flag(self, slots: Array, key: Hashable, reads: bool, writes: bool, order: str, rank: int) -> None:
        listed = slots.tolist()
        entries = self.kept.get(key)
        if reads and entries:
            if order in ("acquire", "acq_rel"):
                self._receive(slots, entries, rank)
            else:
                within: Entries = {}
                for origin, parcel in entries.items():
                    add(within, {Sender(origin.row, min(origin.rank, rank)): parcel})
                for slot in listed:
                    add(self.pending.setdefault(slot, {}), within)
        if writes:
            if not reads:
                self.kept.pop(key, None)
            if order in ("release", "acq_rel"):
                self._hand_over(key, slots, rank, Parcel(self.snapshot(slots), self.proxies.of(listed, self.threads)))
            proxied = self.proxies.of(listed, self.threads)
            for of, fenced in self.fences.items():
                self._hand_over(key, slots, min(of, rank), Parcel(fenced.of(listed, self.threads), proxied))

    # ---- asynchronous operations --------------------------------------------------------------------------------------------

    def issue(self, operation: object, slots: Array) -> None:
        """An operation begins, which knows what its issuers know: each row of it what its own issuer did."""
        self.tick()
        since = np.array([self.proxies.since.get(s, 0) for s in slots.tolist()])
        proxied = union(self.proxies.common[s] for s in slots.tolist() if s in self.proxies.common)
        past = union(self.over[s] for s in slots.tolist() if s in self.over)
        actor = self.actors[operation] = Actor(self.next_actor, slots, self.snapshot(slots, own=len(slots) == 1), proxied,
                                                past, since)
        self.issued.append(actor)
        self.next_actor += max(1, len(slots))

    def issuer_of(self, slot: int) -> int:
        """The thread itself, or the one that issued an operation."""
        if slot < ACTOR:
            return slot
        actor = self.issued[bisect_right(self.issued, slot, key=lambda a: a.first) - 1]
        return int(actor.issuers[slot - actor.first])

    def land(self, operation: object, key: Hashable | None, row: int, slots: Array | None = None) -> None:
        """It has ended; who waits for `key` knows it, or the part that `slots` issued, and what it knew."""
        self.tick()
        if key is not None and key is not operation:
            actor = self.actors[operation]
            parts = [span(actor.first, max(1, len(actor.issuers)))] if slots is None else [
                span(actor.first + k, 1) for k in np.flatnonzero(np.isin(actor.issuers, slots)).tolist()]
            known = Clock(actor.known.rows, united((actor.known.actors, *parts)))
            add(self.kept.setdefault(key, {}), {Sender(row, ANYWHERE): Parcel(known, actor.proxied)})
