"""The notation: `S[(8, 4):(4@laneid, 1)] + R[2:4@warpid] + 5@warpid`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from symbolic.layout.axes import Axis, axis, m
from symbolic.layout.errors import LayoutError
from symbolic.layout.values import Value, product, read, sympy_symbols


@dataclass(frozen=True)
class Strided:
    """`value @ axis`: a stride, or in a sum an offset."""

    value: Any
    axis: Axis

    def __repr__(self) -> str:
        return _strided(self.value, self.axis)


@dataclass(frozen=True)
class Iter:
    """`extent` steps of `stride` along `axis`."""

    extent: Value
    stride: Value
    axis: Axis = m

    def __post_init__(self) -> None:
        if self.extent.__class__ is int and self.extent < 0:
            raise LayoutError(f"extent {self.extent} is negative")

    def __repr__(self) -> str:
        return f"{self.extent!r}:{_strided(self.stride, self.axis)}"


@dataclass(frozen=True)
class Spec:
    """A layout as written: shard iters outermost first, replica iters, offsets; `symbols` are the SymPy symbols met."""

    shard: tuple[Iter, ...]
    replica: tuple[Iter, ...] = ()
    offset: tuple[tuple[Axis, Value], ...] = ()
    symbols: Mapping[Any, Any] = field(default_factory=dict, compare=False, hash=False)

    def __add__(self, other: Any) -> Spec:
        if isinstance(other, Spec):
            if other.shard:
                raise LayoutError(f"{other} is added to {self}: a layout has one S[...]; R[...] and offsets are added to it")
            return Spec(self.shard, self.replica + other.replica, self.offset + other.offset, {**self.symbols, **other.symbols})
        if not isinstance(other, Strided):
            other = Strided(other, m)
        term = (other.axis, read(other.value, "an offset"))
        return Spec(self.shard, self.replica, (*self.offset, term), {**self.symbols, **sympy_symbols([other.value])})

    def __repr__(self) -> str:
        return notation(self.shard, self.replica, self.offset)


class _Iters:
    """What `S` and `R` are: `S[extents:strides]`, `S[e0, e1]` (row-major), `S[8:"laneid"]` (stride 1)."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, key: Any) -> Spec:
        if isinstance(key, slice):
            if key.step is not None:
                raise LayoutError(f"{self._name}[{key.start}:{key.stop}:{key.step}] has two colons; write {self._name}[extents:strides]")
            extents, strides = _many(key.start), _many(key.stop)
            if len(extents) != len(strides):
                raise LayoutError(f"{self._name}[{key.start}:{key.stop}] has {len(extents)} extents and {len(strides)} strides")
            iters = tuple(_iter(e, s) for e, s in zip(extents, strides))
        else:
            extents = _many(key)
            values = [read(e, "an extent") for e in extents]
            strides = tuple(product(values[k + 1:]) for k in range(len(values)))
            iters = tuple(_iter(e, s) for e, s in zip(extents, strides))
        symbols = sympy_symbols([*extents, *(s.value if isinstance(s, Strided) else s for s in strides)])
        return Spec(iters, symbols=symbols) if self._name == "S" else Spec((), iters, symbols=symbols)


def _many(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) and not _is_pair(x) else (x,)


def _is_pair(x: Any) -> bool:
    """`(4, "laneid")`, another way to write `4@laneid`."""
    return isinstance(x, tuple) and len(x) == 2 and isinstance(x[1], (str, Axis)) and not isinstance(x[0], (str, Axis))


def _iter(extent: Any, stride: Any) -> Iter:
    where = m
    if isinstance(stride, (str, Axis)):
        stride, where = 1, axis(stride)
    elif _is_pair(stride):
        stride, where = stride[0], axis(stride[1])
    elif isinstance(stride, Strided):
        stride, where = stride.value, stride.axis
    elif isinstance(stride, (tuple, list)) or isinstance(extent, (tuple, list)):
        raise LayoutError(f"{extent}:{stride} is nested; the extents of S[...] are flat: use from_cute for nested shapes")
    return Iter(read(extent, "an extent"), read(stride, "a stride"), where)


S = _Iters("S")
R = _Iters("R")


def _strided(value: Any, where: Axis) -> str:
    from symbolic.integers import Int
    if where is m:
        return repr(value)
    atom = value.__class__ is not Int or value.op == "symbol"
    return f"{value!r}@{where}" if atom else f"({value!r})@{where}"


def notation(shard: tuple[Iter, ...], replica: tuple[Iter, ...], offset: Any) -> str:
    """The text that `S`, `R` and `@` read back."""
    parts = [f"{name}[{_iters(iters)}]" for name, iters in (("S", shard), ("R", replica)) if iters or name == "S"]
    return " + ".join(parts + [_strided(value, where) for where, value in offset])


def _iters(iters: tuple[Iter, ...]) -> str:
    if len(iters) == 1:
        return repr(iters[0])
    extents, strides = (", ".join(x) for x in ([repr(i.extent) for i in iters], [_strided(i.stride, i.axis) for i in iters]))
    return f"({extents}):({strides})"
