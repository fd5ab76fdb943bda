"""`T.ptx`: chains of words that are recorded when they are called.

`T.ptx.cp.async_.bulk.wait_group.read(0)` and `T.ptx["cp.async.bulk.wait_group.read"](0)` are the same; `__` stands for `::`, and a word
that Python reserves gets `_` behind it. Modifiers may come as keywords where the chain ends before them: `T.ptx.tcgen05.alloc(ptr,
n_cols=512, cta_group=1)`.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from symbolic.integers import is_const
from tracer import operations as ops
from tracer.buffers import Buffer
from tracer.dtypes import DType
from tracer.instructions import arguments, operand_name
from tracer.intrinsics.ptx.grammar import CLOSING, FORMS, NOT_BUILT, Argument, Group
from tracer.intrinsics.ptx.matching import Match, Miss, matches
from tracer.intrinsics.ptx.operands import convert, fits, immediate, literal_in
from tracer.ir import Node
from tracer.recorder import Recorder, current, in_trace
from tracer.tensor_maps import check_use

# Words that Python or C reserve, or that hide something: written with `_` behind them.
_RESERVED = frozenset({"global", *keyword.kwlist, "async"})


def word_of(name: str) -> str:
    """The PTX word of a Python name: `shared__cta` is `shared::cta`, `async_` is `async`."""
    return name.removesuffix("_").replace("__", "::")


def name_of(word: str) -> str | None:
    """The Python name of a PTX word; None where it has none (`32x32b`)."""
    name = word.replace("::", "__")
    name = f"{name}_" if name in _RESERVED else name
    return name if name.isidentifier() else None


class Chain:
    """Some words of an instruction. An attribute or an index adds words; a call records the instruction.

    One that is dropped in a trace without either is an instruction whose parentheses were forgotten, which is an error.
    """

    __slots__ = ("_used", "_words")

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self._words = words
        self._used = not words

    def __getattr__(self, name: str) -> Chain:
        if name.startswith("_"):
            raise AttributeError(name)
        self._used = True
        return Chain((*self._words, word_of(name)))

    def __getitem__(self, words: str) -> Chain:
        self._used = True
        return Chain((*self._words, *words.split(".")))

    def __call__(self, *operands: Any, **keywords: Any) -> None:
        self._used = True
        record(self._words, operands, keywords)

    def __del__(self) -> None:
        if not self._used and (recorder := in_trace()) is not None:
            recorder.report_later(recorder.error(f"`{'.'.join(self._words)}` was written, but not called; write the parentheses: "
                                                 f"T.ptx[\"{'.'.join(self._words)}\"](...)"))

    def __repr__(self) -> str:
        self._used = True
        return f"<instruction {'.'.join(('T.ptx', *self._words))}>"

    def __dir__(self) -> list[str]:
        self._used = True
        return sorted(filter(None, map(name_of, following(self._words))))


def following(words: Sequence[str]) -> set[str]:
    """The words that may come behind `words`."""
    if not words:
        return {form.slots[0].choices[0] for form in FORMS}
    found = matches((*words, ""), {})
    return {word for miss in found if isinstance(miss, Miss) and miss.position == len(words) for slot in miss.open for word in slot.choices}


def record(words: Sequence[str], operands: Iterable[Any], keywords: Mapping[str, Any]) -> None:
    """Record the instruction `words`. Raises `TraceError` that lists what is legal where something is not."""
    recorder = current()
    recorder.observe()
    if not words:
        recorder.fail("T.ptx(...): write an instruction, such as T.ptx.mbarrier.init.shared.b64(...)")
    given = list(flattened(operands))
    bound = [found if isinstance(found, Miss) else Bound(found, given, keywords) for found in matches(words, keywords)]
    hits = [b for b in bound if isinstance(b, Bound)]
    if not hits:
        _complain(words, keywords, [b for b in bound if isinstance(b, Miss)], recorder)
    whole = [b for b in hits if not b.problem]
    fitting = [b for b in whole if len(whole) == 1 or b.fits]
    if not fitting:
        recorder.fail(" Or: ".join(dict.fromkeys(b.problem or b.misfit for b in hits)))
    if len({b.found.words for b in fitting}) > 1:
        recorder.fail(f"`{'.'.join(words)}` may be {' or '.join(b.found.instruction for b in fitting)}; write which one")
    fitting[0].record(recorder)


def flattened(values: Iterable[Any]) -> Iterable[Any]:
    """Lists opened, and local buffers given as a whole taken for their elements, the last index running fastest."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flattened(value)
        elif isinstance(value, Buffer) and value.decl.scope == "local" and all(is_const(n) for n in value.decl.shape):
            yield from (value[index] for index in np.ndindex(*(n.value for n in value.decl.shape)))
        else:
            yield value


class Bound:
    """A form with the values for its operands. `problem` says why they are not as many as they should be."""

    def __init__(self, found: Match, given: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        self.found = found
        self.values: dict[Argument, list[Any]] = {}
        slots = {slot.name for slot in found.form.slots}
        named = {name: list(flattened([value])) for name, value in keywords.items() if name not in slots}
        self.problem = self._unknown(named) or self._assign(list(given), named)

    def _unknown(self, named: Mapping[str, Any]) -> str:
        form = self.found.form
        names = [argument.name for argument in form.arguments]
        for name in named:
            if name not in names:
                known = [*(s.name for s in form.slots if s.name), *names]
                return f"`{self.found.instruction}` has no {name!r}; it has {', '.join(dict.fromkeys(known))}"
        return ""

    def _assign(self, given: list[Any], named: Mapping[str, list[Any]]) -> str:
        modifiers = self.found.modifiers
        arguments = self.found.form.arguments
        counts = {argument: argument.count_in(modifiers) for argument in arguments}
        extra = len(given) - sum(counts[a] for a in arguments if not a.optional and a.name not in named)
        position = 0
        for argument in arguments:
            count = counts[argument]
            if argument.name in named:
                self.values[argument] = named[argument.name]
                if len(named[argument.name]) != count:
                    return f"`{self.found.instruction}`: {argument.name} is {count} operand(s), got {len(named[argument.name])}"
                continue
            if argument.optional:
                wanted = given[position:position + count]
                if extra < count or not all(fits(argument, value, self.found) for value in wanted):
                    self.values[argument] = []
                    continue
                extra -= count
            self.values[argument] = given[position:position + count]
            position += count
        if extra:
            return f"`{self.found.instruction}` takes {self._expected()}: {signature(self.found)}; got {len(given)}"
        return ""

    def _expected(self) -> str:
        modifiers = self.found.modifiers
        least = sum(a.count_in(modifiers) for a in self.found.form.arguments if not a.optional)
        most = sum(a.count_in(modifiers) for a in self.found.form.arguments)
        number = str(least) if least == most else f"{least} to {most}"
        return f"{number} operand{'' if most == 1 else 's'}" if most else "no operands"

    @property
    def fits(self) -> bool:
        """True where every value can be its operand, by its kind."""
        return not self.misfit

    @property
    def misfit(self) -> str:
        """The first value that cannot be its operand."""
        for argument, values in self.values.items():
            for value in values:
                if not fits(argument, value, self.found):
                    return f"`{self.found.instruction}` takes {signature(self.found)}; {argument.name} cannot be {value!r}"
        return ""

    def record(self, recorder: Recorder, result: DType | None = None) -> Node:
        """Record the instruction, whose value (few have one) is of dtype `result`."""
        found, form = self.found, self.found.form
        nodes: dict[str, list[Node]] = {}
        attrs: dict[str, Any] = {**found.modifiers}
        for argument, values in self.values.items():
            if argument.immediate:
                given = values or [int(argument.sink)] * bool(argument.sink)
                attrs.update((argument.name, immediate(argument, value, found, recorder)) for value in given)
            else:
                nodes[argument.name] = [convert(argument, value, found, recorder) for value in values]
        if form.check is not None:
            known = {name: given[0].attrs["value"] for name, given in nodes.items() if len(given) == 1 and given[0].op is ops.CONST}
            form.check(attrs | known, lambda message: recorder.fail(f"`{found.instruction}`: {message}"))
        names = [operand_name(entry) for entry in form.op.operands]
        attrs |= {"instruction": found.instruction, "form": form, "counts": tuple(len(nodes.get(name, ())) for name in names),
                  "architecture": form.architecture(found.words)}
        node = recorder.record(form.op, [node for name in names for node in nodes.get(name, ())], result, attrs)
        if nodes.get("map"):
            check_use(node, recorder)
        return node


def signature(found: Match) -> str:
    """The operands of a form as the PTX manual writes them: `[dst], [src], size`."""
    def text(item: Argument | Group | str) -> str:
        if isinstance(item, str):
            return ""
        if isinstance(item, Group):
            inner = ", ".join(filter(None, map(text, item.items)))
            return f"{item.opening}{inner}{CLOSING.get(item.opening, '')}"
        count = item.count_in(found.modifiers)
        numbers = [str(k) for k in range(count)] if count <= 8 else ["0", "1", "", str(count - 1)]
        shown = item.name if count == 1 else ", ".join(f"{item.name}{k}" if k else ".." for k in numbers)
        return f"{shown} (optional)" if item.optional else shown
    return text(found.form.text)


def _complain(words: Sequence[str], keywords: Mapping[str, Any], misses: Sequence[Miss], recorder: Recorder) -> None:
    """No form has these words: say where they leave the road, and what is legal there."""
    if not misses:
        known = sorted({form.slots[0].choices[0] for form in FORMS})
        recorder.fail(f"`{words[0]}` is not the first word of an instruction that T.ptx has; it has {', '.join(known)}")
    position = misses[0].position
    slots = list(dict.fromkeys(slot for miss in misses for slot in miss.open))
    legal = "; ".join(dict.fromkeys(map(str, slots))) or "nothing more"
    asked = [slot for slot in slots if slot.name in keywords]
    if asked:
        slot = asked[0]
        recorder.fail(f"`{'.'.join(words)}`: {slot.name}={keywords[slot.name]!r} is not legal; write one of {', '.join(slot.choices)}")
    if position == len(words):
        recorder.fail(f"`{'.'.join(words)}` is not complete; what may follow: {legal}")
    behind = f"`{'.'.join(words)}`: {words[position]!r} is not legal behind `{'.'.join(words[:position])}`"
    missing = f" ({NOT_BUILT[words[position]]} are not built yet)" if words[position] in NOT_BUILT else ""
    recorder.fail(f"{behind}{missing}; what may follow: {legal}")


def spelled(node: Node, text: Callable[[Node, DType | None], str]) -> str:
    """The Python call that records an instruction again. `text(operand, dtype)` is that of an operand, `dtype` what a literal would take."""
    form, attrs, operands = node.attrs["form"], node.attrs, arguments(node)
    words = attrs["instruction"].split(".")
    names = [name_of(word) for word in words]
    if words[0] == "cuda":
        callee = f"T.{attrs['instruction']}"
    elif all(names) and "::" not in attrs["instruction"]:
        callee = f"T.ptx.{'.'.join(filter(None, names))}"
    else:
        callee = f"T.ptx[\"{attrs['instruction']}\"]"
    listed: list[str] = []
    for argument in form.arguments:
        if argument.immediate:
            listed.append(str(attrs[argument.name]))
        for operand in operands.get(argument.name, ()):
            constant = operand.attrs["value"] if operand.op is ops.CONST else None
            written = text(operand, None if constant is None or argument.is_memory else literal_in(constant, argument.type_in(attrs)))
            # A mutable scalar in the place of an address stands for its own; `+x` is the address that it holds.
            holds = argument.is_memory and operand.op is ops.LOAD and operand.attrs["buffer"].cell and written.isidentifier()
            listed.append(f"+{written}" if holds else written)
    if words[0] == "cuda":
        listed += [f"{slot.name}={attrs[slot.name]!r}".replace("'", '"') for slot in form.slots if slot.name in attrs]
    return f"{callee}({', '.join(listed)})"
