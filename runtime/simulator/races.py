"""Data races: two accesses of a byte by different threads, one of them a store, with nothing that orders the two.

The detector looks on (see `events`). It follows the order between threads (`clocks`) and who touched each byte (`shadow`); so the verdict does
not depend on the order in which the simulator happened to run the threads. What conflicts with what is a table, `CONFLICTS`. Accesses are
plain or *strong* (atomics, and loads and stores with an order): strong ones need no order among themselves, as far as their scopes reach
(PTX ISA 8.7.1, morally strong). Sources: PTX ISA 8, FastTrack (Flanagan and Freund, 2009) for the epochs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from codegen.lowered import DeviceHalf
from runtime.simulator.checks import Checks
from runtime.simulator.clocks import Order
from runtime.simulator.elements import Known
from runtime.simulator.events import AsyncOperation, Observer, Touch
from runtime.simulator.frames import Array
from runtime.simulator.knowledge import ACTOR, LAST_TIME, RANK, TIME_BITS, WARP, Actor
from runtime.simulator.memory import Memory
from runtime.simulator.peers import Peers, meets_cluster
from runtime.simulator.polling import needs_warps
from runtime.simulator.race_cases import Case, Event, as_actor, width_of
from runtime.simulator.race_findings import finding
from runtime.simulator.race_text import Grid
from runtime.simulator.shadow import Kind, Shadow
from tracer import instructions as ins
from tracer import operations as op
from tracer.ir import Buffer, Node, Storage
from tracer.operations import Effect

LOADS, STRONG_LOADS, STRONG_STORES = "loads", "strong loads", "strong stores"


class Conflict(NamedTuple):
    """What must be ordered before an access, and in which crowd the access is kept (None: it is a plain store, which ends them all)."""

    before: tuple[str, ...]
    strong: tuple[str, ...]     # only where a scope does not reach
    crowd: str | None


CONFLICTS: dict[tuple[str, bool], Conflict] = {     # every access must be ordered behind the last plain store
    ("load", False): Conflict((STRONG_STORES,), (), LOADS),
    ("load", True): Conflict((), (STRONG_STORES,), STRONG_LOADS),
    ("store", False): Conflict((LOADS, STRONG_LOADS, STRONG_STORES), (), None),
    ("store", True): Conflict((LOADS,), (STRONG_LOADS, STRONG_STORES), STRONG_STORES),
    ("atomic", True): Conflict((LOADS,), (STRONG_LOADS, STRONG_STORES), STRONG_STORES),
}


class Races(Observer):
    """Raises `DataRaceError` at the second of two accesses that race."""

    def __init__(self, half: DeviceHalf, grid: tuple[int, int, int], block: tuple[int, int, int], cluster: tuple[int, int, int],
                 known: Known, checks: Checks, parameters: Mapping[Storage, Memory]) -> None:
        self.checks = checks
        self.grid = Grid(grid, block, known, parameters)
        self.threads = block[0] * block[1] * block[2]
        self.cluster = cluster
        self.blocks = np.empty(0, np.int64)     # by their row
        self.dense = True                       # they are 0, 1, 2 ...: a slot is the thread's number
        self.sorted = np.empty(0, np.int64)     # rows, by the number of the block
        self.order = Order(self.threads, grid[0] * grid[1] * grid[2], None if cluster == (1, 1, 1) else self._cluster_of)
        self.events: list[Event] = [Event(None, None, "", "", False, 0)]      # of each time
        nodes = list(half.body.walk())
        self.fixed = frozenset(a.buffer.storage for a in half.arguments if a.buffer is not None and a.read_only)     # nobody stores there
        self.lockstep = not needs_warps(half.body)
        alone = cluster == (1, 1, 1) and not any(n.op.effect & Effect.OPAQUE for n in nodes)
        syncs = Effect.SYNC | Effect.OPAQUE
        self.warps = self.threads > WARP and any(n.op.effect & syncs and n.op is not op.CTA_SYNC and n.op not in op.FENCES for n in nodes)
        flags = not self.lockstep or any(n.op in op.FENCES or n.op.effect & Effect.OPAQUE for n in nodes)
        self.kinds = {"global": Kind(self.threads, False, self.warps, flags), "shared": Kind(self.threads, alone, self.warps, not self.lockstep)}
        self.used = frozenset(operand for n in nodes for operand in n.operands) | {n for n in nodes if n.op is ins.ATOM}
        self.noted: dict[Node, str] = {}        # atomics whose outcome depends on the order
        self.slots_of: dict[int, tuple[Array, Array, Array]] = {}
        self.peers = None if cluster == (1, 1, 1) else Peers(self)

    def _cluster_of(self, row: int) -> int:
        """The number of the cluster that a block belongs to."""
        number, (gx, gy, _), (cx, cy, cz) = int(self.blocks[row]), self.grid.grid, self.cluster
        x, y, z = number % gx, number // gx % gy, number // (gx * gy)
        return (z // cz * (gy // cy) + y // cy) * (gx // cx) + x // cx

    # ---- threads ------------------------------------------------------------------------------------------------------------

    def start(self, blocks: Array) -> None:
        self.dense = self.dense and bool((blocks == np.arange(len(self.blocks), len(self.blocks) + len(blocks))).all())
        self.blocks = np.concatenate((self.blocks, blocks))
        if not self.dense:
            self.sorted = np.argsort(self.blocks)
        self.slots_of.clear()
        self.order.running, self.order.together = (len(blocks), 0) if self.lockstep else (0, 0)
        if self.lockstep:
            self.order.forget_threads()

    def _slots(self, threads: Array) -> tuple[Array, Array]:
        """The slots of threads, and the stamps that they make at time 0. The same array of threads comes often."""
        kept = self.slots_of.get(id(threads))
        if kept is None or kept[0] is not threads:
            if len(self.slots_of) > 1000:
                self.slots_of.clear()
            slots = threads.astype(np.int64, copy=False)
            if not self.dense:
                place = np.searchsorted(self.blocks, slots // self.threads, sorter=self.sorted)
                slots = self.sorted[place] * self.threads + slots % self.threads
            kept = self.slots_of[id(threads)] = (threads, slots, slots + 1 << TIME_BITS)
        return kept[1], kept[2]

    # ---- accesses -----------------------------------------------------------------------------------------------------------

    def access(self, touch: Touch) -> None:
        if touch.buffer is not None and touch.buffer.storage in self.fixed:
            return
        shadow = self._shadow(touch.memory, touch.buffer)
        actor = self.order.actors.get(touch.actor) if touch.actor is not None else None
        slots, marks = self._slots(touch.threads)
        if actor is not None:
            slots, marks = as_actor(actor, slots)
        now = self.order.tick()
        strong, rank = touch.kind == "atomic" or bool(touch.order), RANK[touch.scope]
        self.events.append(Event(touch.node, touch.buffer, touch.kind, touch.proxy, strong, rank, width_of(touch) if strong else 0))
        units, each = shadow.units(touch.start, touch.size)
        each *= touch.start.shape[1] if touch.start.ndim > 1 else 1
        if each > 1:
            slots, marks = np.repeat(slots, each), np.repeat(marks, each)
        stamps = marks + now
        case = Case(touch, strong, shadow, units, slots, stamps, actor)
        rule = CONFLICTS[touch.kind, strong]
        if self.peers is not None and touch.memory.places:
            self.peers.begun(case)
        if shadow.stored is not None:
            self._check(case, shadow.stored.cells[units])
        for name in rule.before:
            if name in shadow.crowds:
                members = shadow.crowds[name].members(units)
                for stamps_before in self._unobserved(case, members) if name == STRONG_STORES else members:
                    self._check(case, stamps_before, loads=name == LOADS)
        if touch.kind == "atomic":
            self._note(case)
            self._check_widths(case, self.events[-1].width)
        if rule.crowd is None:
            self._store(case)
        else:
            shadow.crowd(rule.crowd).add(units, stamps)
        if strong:
            shadow.narrow |= rank < 2
            if shadow.narrow and not shadow.kind.one_block:
                self._check_scopes(case, rule, rank)
            self._flags(touch, actor, rank)

    def end(self) -> None:
        if self.peers is not None:
            self.peers.end()

    def notes(self) -> list[str]:
        return list(self.noted.values())

    def _note(self, case: Case) -> None:
        """Values that depend on the order in which threads come to an atomic are legal, and worth a note."""
        node = case.touch.node
        why = "which thread finds which value" if node in self.used else "the sum, in its last bits," if _sums_floats(case.touch) else ""
        if not why or node in self.noted:
            return
        crowd = case.shadow.crowd(STRONG_STORES)
        before = crowd.last[case.units]
        others = (before != 0) & (before >> TIME_BITS != case.stamps >> TIME_BITS)
        if others.any() or len(np.unique(case.units)) < len(case.units):
            self.noted[node] = f"{node.op.name} at {node.location}: {why} depends on the order in which threads come"

    def _shadow(self, memory: Memory, buffer: Buffer | None) -> Shadow:
        if memory.shadow is None:
            scope = "shared" if buffer is not None and buffer.scope != "global" else "global"
            memory.shadow = Shadow(memory.cells.nbytes, self.kinds[scope])
        shadow: Shadow = memory.shadow
        return shadow

    def _unobserved(self, case: Case, members: list[Array]) -> list[Array]:
        """Those of the strong stores to the units of a plain access that its thread may not have seen the outcome of.

        An atomic whose value is used has seen all atomics before it on that element, and a strong load behind them too (PTX ISA 8.9.2, observation
        order): whoever comes behind one of these comes behind them all.
        """
        at = np.flatnonzero(members[0])
        if not len(at):
            return members
        last = members[0][at]
        when, kinds = np.unique(last & LAST_TIME, return_inverse=True)
        read = np.array([self.events[t].node in self.used for t in when.tolist()], np.bool_)[kinds]
        seen = read & self._behind(case, last, at)
        if STRONG_LOADS in case.shadow.crowds:
            load = case.shadow.crowds[STRONG_LOADS].last[case.units[at]]
            seen |= (load & LAST_TIME > last & LAST_TIME) & self._behind(case, load, at)
        for stamps in members if seen.any() else ():
            stamps[at[seen]] = 0        # they are copies
        return members

    def _behind(self, case: Case, before: Array, at: Array) -> Array:
        """For each of our accesses `at`: is it ordered behind the one stamped in `before`?"""
        if case.actor is None:
            return self.order.known(before, case.slots[at])
        return self._known_to(case.actor, before, case.slots[at], case.touch.proxy)

    def _check(self, case: Case, before: Array, loads: bool = False) -> None:
        """Raise DataRaceError where one of the accesses stamped in `before`, all `loads` or none, is not ordered before ours."""
        if case.shadow.kind.one_block and (before & LAST_TIME).max(initial=0) <= self.order.together:
            return      # all of it was before a barrier of all blocks
        doubtful = before >> TIME_BITS != case.stamps >> TIME_BITS
        doubtful &= before != 0
        if not doubtful.any():
            return
        at = np.flatnonzero(doubtful)
        stamps = before[at]
        bad = ~self._behind(case, stamps, at)
        if bad.any() and self.order.over and case.touch.kind == "store" and (loads or case.touch.memory.places):
            bad &= ~self.order.is_over(stamps, case.slots[at], case.actor)
        if bad.any():
            self._report(case, stamps, at, np.flatnonzero(bad))

    def _known_to(self, actor: Actor, stamps: Array, slots: Array, proxy: str) -> Array:
        """As `Order.known`, for rows of an asynchronous operation; through the async proxy it sees only what was fenced for it."""
        who, when = (stamps >> TIME_BITS) - 1, stamps & LAST_TIME
        index = slots - actor.first
        own = who == actor.issuers[index]
        fine: Array = own | self.order.within(who, when, actor.known)
        if proxy == "async":
            stored = np.array([self.events[t].kind != "load" and self.events[t].proxy == "generic" for t in when.tolist()], np.bool_)
            visible = own & (when <= actor.since[index])
            if stored.any():
                visible |= self.order.within(who, when, actor.proxied)
            fine &= visible | ~stored
        return fine

    def _check_scopes(self, case: Case, rule: Conflict, rank: int) -> None:
        """Strong accesses of other blocks that the narrower of both scopes does not reach."""
        for name in rule.strong:
            for before in case.shadow.crowds[name].members(case.units) if name in case.shadow.crowds else ():
                who = (before >> TIME_BITS) - 1
                rows, own = self.rows(who), self.rows(case.slots)
                far = np.flatnonzero((before != 0) & (rows != own))
                reach = [min(rank, self.events[t].rank) for t in (before[far] & LAST_TIME).tolist()]
                needed = [self.order.distance(a, b) for a, b in zip(rows[far].tolist(), own[far].tolist())]
                short = far[np.array(reach, np.int64) < np.array(needed, np.int64)]
                if len(short):
                    kept = np.zeros_like(before)
                    kept[short] = before[short]
                    self._check(case, kept)

    def _check_widths(self, case: Case, width: int) -> None:
        """Atomics of other widths on the same bytes: neither is atomic for the other (PTX ISA 8.7.1, they must overlap completely)."""
        widths = case.shadow.widths
        if width:
            widths.add(width)
        if not width or len(widths) < 2:
            return
        for before in case.shadow.crowd(STRONG_STORES).members(case.units):
            times, kinds = np.unique(before & LAST_TIME, return_inverse=True)
            other = np.array([self.events[t].width not in (0, width) for t in times.tolist()], np.bool_)[kinds]
            if other.any():
                self._check(case, np.where(other, before, 0))

    def rows(self, slots: Array) -> Array:
        """The rows of the blocks of threads, and of those that issued operations."""
        rows: Array = slots // self.threads
        if slots.max(initial=0) >= ACTOR:
            rows = rows.copy()
            for k in np.flatnonzero(slots >= ACTOR).tolist():
                rows[k] = int(self.order.issuer_of(int(slots[k]))) // self.threads
        return rows

    def _store(self, case: Case) -> None:
        """Keep a plain store, unless two threads of the statement store to one place."""
        cells = case.shadow.stores().cells
        cells[case.units] = case.stamps
        kept = cells[case.units]
        beaten = kept != case.stamps
        if beaten.any():
            at = np.flatnonzero(beaten)
            self._report(case, kept[at], at, np.arange(len(at)), within=True)
        for crowd in case.shadow.crowds.values():
            crowd.clear(case.units)

    def _flags(self, touch: Touch, actor: Actor | None, rank: int) -> None:
        """What ordered accesses and fences around relaxed ones hand over."""
        order = self.order
        if actor is not None or not (order.fences or order.kept or touch.order not in ("relaxed", "volatile", "")):
            return
        slots = self._slots(touch.threads)[0]
        places = touch.start if touch.start.ndim == 1 else touch.start[:, 0]
        for place in np.unique(places).tolist():
            order.flag(slots[places == place], (id(touch.memory), place), touch.kind != "store", touch.kind != "load", touch.order, rank)

    def _report(self, case: Case, before: Array, at: Array, bad: Array, within: bool = False) -> None:
        """Raise for the first of the pairs `bad`: stamps `before` against our accesses `at`."""
        error = finding(self, case, before, at, bad, within)
        if error is not None:
            raise error

    def place(self, slot: int) -> tuple[int, int]:
        """The linear numbers of a block and of a thread in it, also of the thread that issued an operation."""
        row, thread = divmod(self.order.issuer_of(slot), self.threads)
        return int(self.blocks[row]), thread

    # ---- order --------------------------------------------------------------------------------------------------------------

    def join(self, threads: Array, node: Node) -> None:
        slots = self._slots(threads)[0]
        self._timed(lambda: self.order.join(slots if slots.ndim == 2 else slots[None, :]), node)

    def release(self, threads: Array, key: Hashable, node: Node, scope: str) -> None:
        self._timed(lambda: self.order.release(self._slots(threads)[0], key, RANK[scope]), node)

    def acquire(self, threads: Array, key: Hashable, node: Node, scope: str) -> None:
        if self.peers is not None and meets_cluster(key):
            self.peers.met.update(self.rows(self._slots(threads)[0]).tolist())
        self._timed(lambda: self.order.acquire(self._slots(threads)[0], key, RANK[scope]), node)

    def fence(self, threads: Array, node: Node, scope: str, proxy: str) -> None:
        slots = self._slots(threads)[0]
        if proxy == "generic":
            self._timed(lambda: self.order.fence(slots, RANK[scope]), node)
        else:
            self._timed(lambda: self.order.proxy_fence(slots), node)

    def issue(self, operation: AsyncOperation, threads: Array) -> None:
        self._timed(lambda: self.order.issue(operation, self._slots(threads)[0]), operation.node)

    def land(self, operation: AsyncOperation, key: Hashable | None, threads: Array | None = None) -> None:
        row = int(self._slots(operation.threads)[0][0]) // self.threads
        slots = None if threads is None else self._slots(threads)[0]
        self._timed(lambda: self.order.land(operation, key, row, slots), operation.node)

    def leave(self, threads: Array, memory: Memory, start: int, size: int) -> None:
        if self.peers is not None:
            self.peers.left(int(self._slots(threads)[0][0]) // self.threads, memory, start, size)

    def _timed(self, step: Any, node: Node) -> None:
        """Every tick of the clock has its node."""
        before = self.order.now
        step()
        self.events += [Event(node, None, "", "", False, 0)] * (self.order.now - before)


def _sums_floats(touch: Touch) -> bool:
    return touch.node.op.name.endswith("_add") and touch.buffer is not None and touch.buffer.dtype.is_float
