"""From the author's words to a form of the tables, or to where they leave all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.intrinsics.ptx.grammar import FORMS, Form, Slot


@dataclass(frozen=True, slots=True)
class Match:
    """A form with its words. `modifiers` are the attributes that they come to; `exact`: no word had to be added."""

    form: Form
    words: tuple[str, ...]
    modifiers: dict[str, Any]
    exact: bool

    @property
    def instruction(self) -> str:
        """The opcode as PTX writes it."""
        return ".".join(self.words)


@dataclass(frozen=True, slots=True)
class Miss:
    """Where the author's words leave a form: after `position` of them one of `open` should have come."""

    form: Form
    position: int
    open: tuple[Slot, ...]


def match(form: Form, words: Sequence[str], keywords: Mapping[str, Any]) -> Match | Miss:
    """Read `words` as the opcode of `form`. `keywords` (those that name modifiers) fill places; what else is certain is added."""
    made: list[str] = []
    modifiers: dict[str, Any] = {}
    open_here: list[Slot] = []
    position, exact = 0, True
    for slot in form.slots:
        ended = position == len(words)
        if slot.name and slot.name in keywords:
            word = slot.word(keywords[slot.name])
            if word is None:
                return Miss(form, position, (slot,))
            exact = False
        elif not ended and words[position] in slot.choices:
            word, open_here = words[position], []
            position += 1
        elif slot.optional:
            open_here.append(slot)
            continue
        elif ended and slot.added:
            (word,), exact = slot.choices, False
        else:
            return Miss(form, position, (*open_here, slot))
        if word:
            made.append(word)
            if slot.name:
                modifiers[slot.name] = slot.value(word)
    if position < len(words):
        return Miss(form, position, tuple(open_here))
    return Match(form, tuple(made), modifiers, exact)


def matches(words: Sequence[str], keywords: Mapping[str, Any]) -> list[Match] | list[Miss]:
    """The forms that `words` are: those written out, else those with the fewest words to add; else the nearest misses."""
    hits: list[Match] = []
    misses: list[Miss] = []
    for candidate in FORMS:
        if candidate.slots[0].choices[0] == words[0]:
            found = match(candidate, words, {k: v for k, v in keywords.items() if any(s.name == k for s in candidate.slots)})
            if isinstance(found, Match):
                hits.append(found)
            else:
                misses.append(found)
    if hits:
        exact = [hit for hit in hits if hit.exact]
        return exact or hits
    furthest = max((miss.position for miss in misses), default=0)
    return [miss for miss in misses if miss.position == furthest]
