"""Random kernels of mixed integer dtypes: every operator on every pair, nested, in casts, comparisons, selections, lets and cells."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from tracer import T, trace
from tracer.dtypes import dtype, promote
from tracer.errors import DTypeError

THREADS, RESULTS = 64, 4
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
INPUTS = (*INTEGERS, "bool")
OUTPUTS = (*INTEGERS, "bool", "float32")

_BITS: dict[str, Callable[[Any, Any], Any]] = {"&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **_BITS, "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "min": lambda a, b: T.min(a, b),
    "max": lambda a, b: T.max(a, b),
}
_DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "truncdiv": lambda a, b: T.truncdiv(a, b), "truncmod": lambda a, b: T.truncmod(a, b),
}
_SHIFTS: dict[str, Callable[[Any, Any], Any]] = {"<<": lambda a, b: a << b, ">>": lambda a, b: a >> b}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"-": lambda a: -a, "~": lambda a: ~a, "let": lambda a: T.let(a), "0-": lambda a: 0 - a}


class Writer:
    """Records random values of one thread through `T`."""

    def __init__(self, random: Random, values: list[Any]) -> None:
        self.random = random
        self.values = values

    def integer(self, depth: int) -> Any:
        """A value of some integer dtype."""
        r = self.random
        if depth == 0 or r.random() < 0.15:
            return r.choice(self.values)
        kind = r.choice(["binary"] * 4 + ["division", "division", "shift", "unary", "unary", "literal", "cast", "choose", "choose", "cell"])
        if kind == "binary":
            a, b = self.pair(depth)
            return r.choice(list(_BINARY.values()))(a, b)
        if kind == "division":
            a, b = self.pair(depth)
            return r.choice(list(_DIVISIONS.values()))(a, r.choice([(b & 15) + 1, r.choice([2, 3, 7, 8])]))
        if kind == "shift":
            return r.choice(list(_SHIFTS.values()))(self.integer(depth - 1), r.choice([self.integer(depth - 1) & 7, r.randrange(7)]))
        if kind == "unary":
            return r.choice(list(_UNARY.values()))(self.integer(depth - 1))
        if kind == "literal":
            return r.choice(list(_BINARY.values()))(self.integer(depth - 1), r.randint(0, 100))
        if kind == "cast":
            return self.integer(depth - 1).astype(r.choice(INTEGERS))
        if kind == "cell":
            return self.cell(self.integer(depth - 1))
        a, b = self.pair(depth)
        return r.choice([T.select, T.if_then_else])(self.condition(depth - 1), a, r.choice([b, r.randint(0, 5)]))

    def condition(self, depth: int) -> Any:
        """A bool."""
        r = self.random
        if depth > 0 and r.random() < 0.2:
            return r.choice(list(_BITS.values()))(self.condition(depth - 1), self.condition(depth - 1))
        if depth > 0 and r.random() < 0.1:
            return ~self.condition(depth - 1)
        a, b = self.pair(max(depth, 1))
        return r.choice(list(_COMPARISONS.values()))(a, r.choice([b, b, r.randint(0, 3)]))

    def pair(self, depth: int) -> tuple[Any, Any]:
        """Two values that promote to one dtype."""
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        try:
            promote(dtype(a.dtype), dtype(b.dtype))
        except DTypeError:
            b = b.astype(a.dtype)
        return a, b

    def cell(self, value: Any) -> Any:
        """`value` by way of a mutable scalar, changed once more."""
        cell = T.local_scalar(value.dtype, value)
        if self.random.random() < 0.6:
            before = +cell
            cell += self.random.choice([1, 100])
            return T.select(+cell > before, before, +cell)
        return +cell


def kernel(seed: int) -> Any:
    """The kernel drawn from `seed`: reads an array of each of INPUTS, writes RESULTS rows of each of OUTPUTS."""
    random = Random(seed)

    def body(inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        T.device_entry()
        tx = T.thread_id([THREADS])
        writer = Writer(random, [inputs[name][tx] for name in INTEGERS] + [tx])
        for row in range(RESULTS):
            value = writer.condition(3) if random.random() < 0.15 else writer.integer(3)
            if random.random() < 0.3 and value.dtype != "bool":
                value = T.let(value)
                writer.values.append(value)
            for name in {random.choice(OUTPUTS), random.choice(OUTPUTS), str(value.dtype)}:
                outputs[name][row, tx] = value.astype(name)

    parameters = [f"i_{n}: T.Buffer(({THREADS},), {n!r})" for n in INPUTS] + [f"o_{n}: T.Buffer(({RESULTS}, {THREADS}), {n!r})" for n in OUTPUTS]
    inputs, outputs = (f"{{{', '.join(f'{n!r}: {c}_{n}' for n in names)}}}" for c, names in (("i", INPUTS), ("o", OUTPUTS)))
    namespace: dict[str, Any] = {"T": T, "body": body}
    exec(f"def mixed_{seed}({', '.join(parameters)}):\n    body({inputs}, {outputs})\n", namespace)
    return trace(namespace[f"mixed_{seed}"])


def arrays(seed: int) -> list[np.ndarray]:
    """Its arguments: half of the inputs small, half anything; outputs of zeros."""
    rng = np.random.default_rng(seed)
    made = []
    for name in INPUTS:
        if name == "bool":
            made.append(rng.random(THREADS) < 0.5)
            continue
        info = np.iinfo(name)
        data = rng.integers(info.min, info.max, THREADS, dtype=name, endpoint=True)
        data[::2] = rng.integers(-9 if info.min else 0, 9, THREADS // 2).astype(name)
        data[1], data[3] = info.min, info.max
        made.append(data)
    return made + [np.zeros((RESULTS, THREADS), name) for name in OUTPUTS]
