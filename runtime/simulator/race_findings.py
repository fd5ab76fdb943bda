"""From stamps that nothing orders to the error that tells of them: which pair, which class, which reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.frames import Array
from runtime.simulator.knowledge import ACTOR, LAST_TIME, TIME_BITS, WARP
from runtime.simulator.race_cases import Case, Event, width_of
from runtime.simulator.race_text import Accused, describe
from tracer.errors import DataRaceError, SameValueRaceError

if TYPE_CHECKING:
    from runtime.simulator.races import Races


def finding(races: Races, case: Case, before: Array, at: Array, bad: Array, within: bool) -> DataRaceError | None:
    """The error for the first of the pairs `bad`: stamps `before` against our accesses `at`, `within` one statement or behind each other.

    None where all of them store the same value, and nobody asked for that.
    """
    touch = case.touch
    stores = np.array([touch.kind == "store" and (within or races.events[t].kind == "store") for t in (before[bad] & LAST_TIME).tolist()], np.bool_)
    same = np.zeros(len(bad), np.bool_)
    if stores.any() and touch.values is not None:
        same[stores] = _same_values(case, at[bad[stores]], within)
    equal = bool(same.all())
    if equal and not races.checks.same_value_writes:
        return None
    first = int(bad[np.argmin(same)])
    mine, stamp = int(at[first]), int(before[first])
    event = races.events[stamp & LAST_TIME]
    assert event.node is not None
    who, unit = (stamp >> TIME_BITS) - 1, int(case.units[mine])
    theirs = None
    if within:
        other = np.flatnonzero((case.units == unit) & (case.stamps == stamp))
        theirs = _written(case, int(other[-1]))
    accused = (
        Accused(event.node, event.buffer, event.kind, races.place(who), who >= ACTOR, theirs),
        Accused(touch.node, touch.buffer, touch.kind, races.place(int(case.slots[mine])), case.actor is not None, _written(case, mine)),
    )
    why = "statement" if within else _why(races, case, who, event, stamp & LAST_TIME, mine)
    text = describe(races.grid, touch.memory, case.shadow.byte(unit), *accused, why, equal)
    error = SameValueRaceError if equal else DataRaceError
    return error(text, touch.buffer or event.buffer, (event.node.location, touch.node.location))


def _written(case: Case, mine: int) -> bytes | None:
    """The bytes that our access stores, as far as they are known: those of the element that holds the unit."""
    values = case.touch.values
    if values is None or case.touch.kind == "load":
        return None
    flat = np.ascontiguousarray(values).reshape(-1)
    each = len(case.units) * case.shadow.unit // max(1, flat.size)      # bytes of an element
    if each != flat.itemsize:
        return None
    element = mine * case.shadow.unit // each
    return bytes(flat[element:element + 1].tobytes())


def _same_values(case: Case, mine: Array, within: bool) -> Array:
    """Do our stores `mine` leave what is there, or, `within` a statement, what the thread that won stores?"""
    raw = np.ascontiguousarray(case.touch.values).reshape(-1).view(np.uint8)
    unit = case.shadow.unit
    if raw.size != len(case.units) * unit:
        return np.zeros(len(mine), np.bool_)
    ours = raw.reshape(-1, unit)
    if within:
        winner = np.zeros(case.shadow.count, np.int64)
        winner[case.units] = np.arange(len(case.units))     # the last one, as when the stamps were stored
        theirs = ours[winner[case.units[mine]]]
    else:
        cells = case.touch.memory.cells.view(np.uint8).reshape(-1)
        starts = np.array([case.shadow.byte(u) for u in case.units[mine].tolist()])
        theirs = cells[starts[:, None] + np.arange(unit)]
    return np.asarray((ours[mine] == theirs).all(axis=1))


def _why(races: Races, case: Case, who: int, event: Event, when: int, mine: int) -> str:
    """Which reason holds: a key of `race_text.REASONS`."""
    order, own = races.order, int(case.slots[mine])
    if who >= ACTOR:
        return "async"
    if case.actor is not None:
        own = int(case.actor.issuers[own - case.actor.first])
        if case.touch.proxy == "async" and (who == own or order.within(np.array([who]), np.array([when]), case.actor.known)[0]):
            return "proxy"
        return "issue"
    strong = event.strong, case.strong
    row, own_row = who // races.threads, own // races.threads
    if all(strong):
        return "scope" if event.width in (0, width_of(case.touch)) else "width"
    if row == own_row:
        same_warp = who % races.threads // WARP == own % races.threads // WARP
        return "atomic" if any(strong) else "warp" if same_warp else "block"
    if (row, own_row) in order.out_of_reach:
        return "unreached"
    return "atomic grid" if any(strong) else "cluster" if order.distance(row, own_row) == 1 else "grid"
