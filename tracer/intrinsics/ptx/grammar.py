"""How an instruction is written: its modifiers in PTX order, and its operands. Each is one `Form`, made from two lines of text.

The first line lists the words of the opcode. A plain word must be there; `(word)` too, but where the author's words end before it, it is
added. `<name=a|b>` is a choice, `[name=a|b]` one that may be left out, `[word]` a word that may be left out.

    mbarrier.arrive [sem=release|relaxed] [scope=cta|cluster] [space=shared|shared::cta|shared::cluster] (b64)

The second line is the operand text of the PTX manual, which is also the order of the arguments in Python:

    state?:b64=_, [bar], count?:u32

| written | means |
|---|---|
| `d:u32`, `d:type` | a register of that type, or of the type that the modifier `type` names; `pred` is a bool |
| `[bar]`, `[src@global]` | an address in the space that the modifier `space` names, or in that space |
| `[taddr:u32]` | a value that stands in brackets |
| `(leader:b32, elected:pred)` | two registers that PTX writes as `leader|elected` |
| `{d:b32*num}` | as many as the modifier `num` says, or so many; without braces where that modifier is left out |
| `{d:b32*2num}`, `{d:f32*n/2}` | twice as many as `num` says; half as many as the modifier `shape` (`m64n256k16`) has columns |
| `_` | itself: a result that is not wanted |
| `count?:u32`, `state?:b64=_` | may be left out; what is written instead |
| `policy:b64 if cache_hint` | there is one exactly where that modifier is written |
| `n#`, `scale_a#?=1` | an integer that is part of the instruction; one that is 1 where it is left out |

What a register operand is there for (read, written) is told by the operation's row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracer.instructions import REGISTER_ROLES, operand_name, operand_role
from tracer.operations import Operation

Modifiers = Mapping[str, Any]
# Calls `fail` for what the hardware lacks: check(modifiers, immediates and the operands that are constants, fail).
Check = Callable[[Modifiers, Callable[[str], None]], None]

# Modifiers whose number is what matters: `x4`, `v2`, `3d`.
_NUMBERED = frozenset({"num", "vec", "dim"})
# Modifiers whose first part is what matters: `mbarrier::complete_tx::bytes`.
_FIRST = frozenset({"completion"})


@dataclass(frozen=True, slots=True)
class Slot:
    """One place in the opcode. `name` is "" for a word that must be there."""

    name: str
    choices: tuple[str, ...]
    optional: bool = False
    added: bool = False         # where the author's words end before it

    @property
    def is_flag(self) -> bool:
        """True for a word that is there or not."""
        return self.optional and self.choices == (self.name,)

    def value(self, word: str) -> Any:
        """What `word` says, as an attribute: True for a flag, 1 for `cta_group::1`, 4 for `x4`, else the word."""
        if self.is_flag:
            return True
        text = word.removeprefix(f"{self.name}::")
        if self.name in _NUMBERED:
            return int(re.sub(r"\D", "", text))
        if self.name in _FIRST:
            return text.partition("::")[0]
        return int(text) if text.isdigit() else text

    def word(self, given: Any) -> str | None:
        """The word that a keyword argument asks for: `cta_group=1`; "" where it asks for none; None for what is not legal."""
        if self.optional and (given is None or given is False):
            return ""
        if given is True and len(self.choices) == 1:
            return self.choices[0]
        for word in self.choices:
            if given == word or (given == self.value(word) and type(given) is type(self.value(word))):
                return word
        return None

    def __str__(self) -> str:
        shown = self.choices if len(self.choices) <= 16 else (*self.choices[:2], "..", self.choices[-1])
        listed = ", ".join(shown)
        return listed if self.name in ("", *self.choices) else f"{self.name}: {listed}"


_COUNT = re.compile(r"(\d*)([a-z]\w*)?(?:/(\d+))?$")       # 4, num, 2num, n/2


@dataclass(frozen=True, slots=True)
class Argument:
    """One operand of the text. `type`, `space` and `count` may be names of modifiers."""

    name: str
    role: str
    type: str = ""
    space: str = ""
    count: str = ""
    immediate: bool = False
    optional: bool = False
    needs: str = ""         # the modifier with which it comes
    sink: str = ""

    @property
    def is_memory(self) -> bool:
        """True for an address."""
        return not self.type and not self.immediate

    @property
    def is_register(self) -> bool:
        """True for a register that the instruction writes."""
        return self.role in REGISTER_ROLES

    def type_in(self, modifiers: Modifiers) -> str:
        """Its PTX type."""
        return str(modifiers.get(self.type, self.type))

    def space_in(self, modifiers: Modifiers) -> str:
        """The state space of an address; "" where the instruction takes generic ones."""
        named = self.space or "space"
        return str(modifiers.get(named, "" if named.endswith("space") else named))

    def count_in(self, modifiers: Modifiers) -> int:
        """How many there are, where it may not be left out."""
        if self.needs and not modifiers.get(self.needs):
            return 0
        found = _COUNT.match(self.count)
        assert found is not None
        factor, name, divisor = found.groups()
        width = re.search(r"n(\d+)", str(modifiers.get("shape", ""))) if name == "n" else None
        counted = int(width[1]) if width else int(modifiers.get(name, 1))
        return int(factor or 1) * counted // int(divisor or 1)

    def in_braces(self, modifiers: Modifiers) -> bool:
        """False where the modifier that counts them is left out: then there is one."""
        return self.count.isdigit() or "n/" in self.count or self.count.lstrip("0123456789") in modifiers


@dataclass(frozen=True, slots=True)
class Group:
    """Operands in brackets, in braces, or (the whole text) in neither."""

    opening: str
    items: tuple[Argument | Group | str, ...]

    def arguments(self) -> Iterator[Argument]:
        """Every operand in it, in order."""
        for item in self.items:
            if isinstance(item, Group):
                yield from item.arguments()
            elif isinstance(item, Argument):
                yield item


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """One way to write an operation."""

    op: Operation
    slots: tuple[Slot, ...]
    text: Group
    since: str                                      # the first architecture that has it
    newer: Mapping[str, str] = field(default_factory=dict)      # words that came with later ones
    limits: Mapping[str, Sequence[int]] = field(default_factory=dict)      # of immediate operands
    check: Check | None = None
    computes: bool = False                          # gives registers from registers alone: nothing else notices it
    source: str = ""                                # the two lines, for messages

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The operands in order."""
        return tuple(self.text.arguments())

    def architecture(self, words: Sequence[str]) -> tuple[str, ...]:
        """What the instruction made of `words` asks of the architecture."""
        return tuple(dict.fromkeys([self.since, *(self.newer[w] for w in words if w in self.newer)]))


FORMS: list[Form] = []
NOT_BUILT: dict[str, str] = {}      # words of PTX that lead to what there is not yet: what that is, in the plural


def form(op: Operation, opcode: str, operands: str = "", *, since: str | None = None, newer: Mapping[str, str] | None = None,
         limits: Mapping[str, Sequence[int]] | None = None, check: Check | None = None, computes: bool = False) -> Form:
    """Add one way to write `op`; see the module's docstring for the two lines."""
    known = {operand_name(entry): operand_role(entry) for entry in op.operands}
    text = _parse(operands, known)
    for argument in text.arguments():
        assert argument.immediate or argument.name in known, f"{op.name} has no operand {argument.name!r}"
    made = Form(op, tuple(_slots(opcode)), text, op.since if since is None else since, newer or {}, limits or {}, check, computes,
                f"{opcode}  {operands}".strip())
    FORMS.append(made)
    return made


def described(op: Operation, modifiers: str, operands: str, limits: Mapping[str, Sequence[int]], check: Check | None) -> Form:
    """The form of a function that is no PTX opcode: its modifiers come as keywords."""
    text = _parse(operands, {operand_name(entry): operand_role(entry) for entry in op.operands})
    return Form(op, tuple(_slots(modifiers)), text, op.since, {}, limits, check)


def _slots(opcode: str) -> Iterator[Slot]:
    for part in opcode.split():
        if part[0] in "<[":
            name, _, choices = part[1:-1].partition("=")
            words = tuple(choices.split("|")) if choices else (name,)
            yield Slot(name, words, part[0] == "[", part[0] == "<" and len(words) == 1)
        elif part[0] == "(":
            yield Slot("", (part[1:-1],), added=True)
        else:
            for word in part.split("."):
                yield Slot("", (word,))


_ATOM = re.compile(r"(?P<name>\w+)(?P<immediate>#)?(?P<optional>\?)?(?::(?P<type>\w+))?(?:\*(?P<count>[\w/]+))?(?:@(?P<space>[\w:]+))?"
                   r"(?:=(?P<sink>[^\s,]+))?(?: if (?P<needs>\w+))?")
CLOSING = {"[": "]", "{": "}", "(": ")"}


def _parse(text: str, roles: Mapping[str, str]) -> Group:
    group, rest = _group("", text, roles)
    assert not rest, f"operands {text!r}: {rest!r} is left over"
    return group


def _group(opening: str, text: str, roles: Mapping[str, str]) -> tuple[Group, str]:
    """The items up to the closing bracket, and what follows it."""
    items: list[Argument | Group | str] = []
    while text := text.lstrip(" ,"):
        if text[0] == "_":
            items.append("_")
            text = text[1:]
        elif text[0] in CLOSING:
            inner, text = _group(text[0], text[1:], roles)
            items.append(inner)
        elif opening and text[0] == CLOSING[opening]:
            return Group(opening, tuple(items)), text[1:]
        else:
            found = _ATOM.match(text)
            assert found, f"operand {text!r}"
            parts = {key: value or "" for key, value in found.groupdict().items()}
            items.append(Argument(parts["name"], roles.get(parts["name"], ""), parts["type"], parts["space"], parts["count"],
                                  bool(parts["immediate"]), bool(parts["optional"]), parts["needs"], parts["sink"]))
            text = text[found.end():]
    assert not opening, "a bracket is not closed"
    return Group(opening, tuple(items)), text
