"""Kernels that together use every modifier of every form of `T.ptx`, with operands that it may have."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tracer import T, trace
from tracer.dtypes import dtype as dtype_named
from tracer.intrinsics.ptx.chain import Chain
from tracer.intrinsics.ptx.grammar import FORMS, Argument, Form, Slot
from tracer.intrinsics.ptx.matching import Match, match
from tracer.intrinsics.ptx.types import DTYPES

TRIES = 4000
PER_KERNEL = 40
ELSEWHERE = re.compile(r"ptx\.(ldmatrix|stmatrix|mma\b|wgmma|tcgen05|setmaxnreg)")       # they have tests of their own


unreached: list[tuple[Form, str]] = []      # modifiers that are refused with whatever stands beside them


class Refused(Exception):
    """A form's own check says no."""


def _refuse(message: str) -> None:
    raise Refused(message)


def words_of(form: Form, slot: Slot, word: str, source: random.Random) -> tuple[str, ...] | None:
    """Some legal opcode of `form` with `word` in the place of `slot`; None where no try gave one."""
    for attempt in range(TRIES):
        chosen = [word if s is slot else "" if s.optional and source.random() < 0.3 + 0.7 * (attempt % 2) else source.choice(s.choices)
                  for s in form.slots]
        found = match(form, [w for w in chosen if w], {})
        if not isinstance(found, Match):
            continue
        if immediates(found, source) is not None:
            return found.words
    return None


def immediates(found: Match, source: random.Random) -> dict[str, int] | None:
    """Integers for the immediate operands with which the instruction is legal; None where some tries gave none."""
    form = found.form
    for _ in range(64):
        chosen = {a.name: source.choice(form.limits[a.name]) for a in form.arguments if a.immediate}
        try:
            if form.check is not None:
                form.check({**found.modifiers, **chosen}, _refuse)
        except Refused:
            continue
        return chosen
    return None


@cache
def matches() -> tuple[Match, ...]:
    """For every modifier of every form one opcode that has it."""
    source = random.Random(1)
    found: dict[tuple[Form, tuple[str, ...]], Match] = {}
    for form in FORMS:
        if ELSEWHERE.match(form.op.name):
            continue
        for slot in form.slots:
            for word in slot.choices:
                words = words_of(form, slot, word, source)
                if words is None:
                    unreached.append((form, word))
                    continue
                made = match(form, words, {})
                assert isinstance(made, Match)
                found[form, words] = made
    return tuple(found.values())


class Operands:
    """Something for every kind of operand: registers of every dtype, memory in every space."""

    def __init__(self, memory: Any, maps: dict[int, Any]) -> None:
        self.memory, self.maps = memory, maps
        self.shared = T.alloc_shared((1024,), "uint32", align=128)
        self.barriers = T.alloc_shared((4,), "uint64")
        self.registers: dict[str, Any] = {}
        self.taken: dict[str, int] = {}

    def register(self, dtype: str) -> Any:
        if dtype not in self.registers:
            self.registers[dtype] = T.alloc_local((256,), dtype)
        self.taken[dtype] = (self.taken.get(dtype, -1) + 1) % 256
        return self.registers[dtype][self.taken[dtype]]

    def value(self, name: str) -> Any:
        wanted, word = dtype_named(name), self.memory[T.cuda.clock64().astype("int32") % 1024]
        if name == "bool":
            return word > 7
        return T.reinterpret(name, word.astype(f"uint{wanted.bits * wanted.lanes}"))

    def address(self, argument: Argument, found: Match) -> Any:
        space = argument.space_in(found.modifiers)
        if argument.role == "tensormap":
            return self.maps[found.modifiers.get("dim", 1)]
        if argument.role == "barrier":
            return self.barriers.ptr_to([1])
        return self.memory.ptr_to([0]) if space == "global" else self.shared.ptr_to([0])

    def values(self, argument: Argument, found: Match, numbers: dict[str, int], source: random.Random) -> Iterator[Any]:
        """What is passed for one operand."""
        if argument.optional and source.random() < 0.5:
            return
        for _ in range(argument.count_in(found.modifiers)):
            if argument.immediate:
                yield numbers[argument.name]
            elif argument.is_memory:
                yield self.address(argument, found)
            else:
                chosen = source.choice(DTYPES[argument.type_in(found.modifiers)])
                yield self.register(chosen) if argument.is_register else self.value(chosen)


def kernel_of(name: str, found: list[Match]) -> Any:
    """One kernel with an instruction for each of `found`."""
    def kernel(A: T.Buffer((1024,), "uint32"), M1: T.Buffer((16,), "uint32"), M2: T.Buffer((2, 16), "uint32"), M3: T.Buffer((2, 2, 16), "uint32"),
               M4: T.Buffer((2, 2, 2, 16), "uint32"), M5: T.Buffer((2, 2, 2, 2, 16), "uint32")) -> None:
        maps = {dim: T.tensor_map(M, (*[1] * (dim - 1), 16)) for dim, M in enumerate((M1, M2, M3, M4, M5), 1)}
        T.device_entry()
        tx = T.thread_id([128])
        source = random.Random(name)
        operands = Operands(A, maps)
        for m in found:
            numbers = immediates(m, source)
            assert numbers is not None
            Chain(m.words)(*(v for argument in m.form.arguments for v in operands.values(argument, m, numbers, source)))
        for held in operands.registers.values():
            if held.dtype.bits * held.dtype.lanes == 32:
                A[tx] = T.reinterpret("uint32", held[0])       # so that the compiler keeps some registers

    kernel.__name__ = name
    return trace(kernel)


@cache
def kernels() -> dict[str, Any]:
    """Traced kernels by name, each with instructions that need the same of an architecture."""
    groups: dict[str, list[Match]] = {}
    for found in matches():
        if found.form.op.name.startswith("ptx."):
            groups.setdefault(max(found.form.architecture(found.words)), []).append(found)
    made = {}
    for need, members in groups.items():
        for start in range(0, len(members), PER_KERNEL):
            name = f"instructions_{need.replace('+', '_later') or 'all'}_{start // PER_KERNEL}"
            made[name] = kernel_of(name, members[start:start + PER_KERNEL])
    return made

