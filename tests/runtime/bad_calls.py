"""Calls that must be refused, generated: every check of the host half for every kind of parameter, with the words of the refusal.

A `Good` is a kernel with arguments that it takes and what it then makes of them; `bad_calls` gives variations of each, wrong in one
respect. Arrays are NumPy's, views into memory that is filled with a canary; `tests.gpu.test_bad_calls` takes the same ones to a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  (names of dtypes)
import numpy as np

from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from tests.runtime import kernels
from tracer import T, trace
from tracer.dtypes import dtype as our_dtype
from tracer.errors import ArgumentCountError, ArgumentTypeError, ArgumentValueError, LaunchError

CANARY = 0xA5
MARGIN = 256        # bytes of canary before and behind every array
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
          "float8_e4m3fn", "float8_e5m2")
SCALARS = DTYPES[:13]


def array(shape, dtype="float32", fill=None, shift=0, strides=None, room=None):
    """An array inside memory of its own, between canaries; `shift` moves it so many bytes, `strides` count elements, `room` the
    elements behind its first one.
    """
    kind = np.dtype(dtype)
    strides = tuple(np.cumprod((1, *shape[:0:-1]))[::-1]) if strides is None else strides
    lowest = sum(min((size - 1) * step, 0) for size, step in zip(shape, strides))
    reach = 1 + sum(abs((size - 1) * step) for size, step in zip(shape, strides)) if 0 not in shape else 1
    size = max(reach, room or 0) * kind.itemsize
    raw = np.full(size + 2 * MARGIN + 512, CANARY, np.uint8)
    start = -raw.ctypes.data % 256
    base = raw[start:start + size + 2 * MARGIN]          # the memory that holds it, aligned as an allocation is
    made = np.ndarray(shape, kind, base, MARGIN + shift - lowest * kind.itemsize, tuple(step * kind.itemsize for step in strides))
    if fill is not None:
        made[...] = fill
    return made


def whole(size, dtype="float32"):
    """An array that is all of its memory, for what looks at where memory begins; full of canaries."""
    return np.full(size * np.dtype(dtype).itemsize, CANARY, np.uint8).view(dtype)


def memory(view: np.ndarray) -> np.ndarray:
    """The memory that an array lies in, as bytes."""
    while isinstance(view.base, np.ndarray):
        view = view.base
    assert view.dtype == np.uint8 and view.ndim == 1
    return view


def numbers(*shape, dtype="float32"):
    return (np.arange(int(np.prod(shape))) % 7 + 1).reshape(shape).astype(dtype)


@dataclass(frozen=True)
class Good:
    """A kernel, fresh arguments that it takes, and which of them hold what afterwards."""

    kernel: Any
    args: Callable[[], list[Any]]
    results: Callable[[list[Any]], dict[int, np.ndarray]]


@dataclass(frozen=True)
class Bad:
    """A call to be refused: the same kernel, arguments wrong in one respect, the error and a part of its words."""

    name: str
    good: str
    args: Callable[[], list[Any]]
    error: type[Exception]
    words: str


# ---- kernels ------------------------------------------------------------------------------------------------------------------

@trace
def every_scalar(A: T.Buffer((13,), "float64"), b: T.bool, i1: T.int8, i2: T.int16, i4: T.int32, i8: T.int64, u1: T.uint8, u2: T.uint16,
                 u4: T.uint32, u8: T.uint64, f2: T.float16, bf: T.bfloat16, f4: T.float32, f8: T.float64):
    T.device_entry()
    T.thread_id([1])
    for place, value in enumerate((b, i1, i2, i4, i8, u1, u2, u4, u8, f2, bf, f4, f8)):
        A[place] = value.astype("float32").astype("float64")


@trace
def rows(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32", layout=TileLayout(S[(4, 8):(16, 1)]))):
    T.device_entry()
    i, j = T.thread_id([4, 8])
    B[i, j] = A[i, j]


@trace
def strided(A: T.Buffer(("n", 8), "float32"), b: T.handle):
    s = T.int32()
    B = T.match_buffer(b, (A.shape[0], 8), "float32", strides=(s, 1))
    T.device_entry()
    bx = T.cta_id([A.shape[0]])
    tx = T.thread_id([8])
    B[bx, tx] = A[bx, tx]


@trace
def lanes(A: T.Buffer((16,), "float32x4"), B: T.Buffer((16,), "float32x4")):
    T.device_entry()
    tx = T.thread_id([16])
    B[tx] = A[tx]


@trace
def grid(A: T.Buffer(("n", "m"), "int8")):
    n, m = A.shape
    T.device_entry()
    bx, by = T.cta_id([n, m])
    T.thread_id([1])
    A[bx, by] = 1


@trace
def line(A: T.Buffer(("n",), "float32")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([A.shape[0]])
    A[tx] = 3.0


@trace
def sums(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), C: T.Buffer(("n",), "float32")):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([n])
    T.thread_id([1])
    C[bx] = A[bx] + B[bx]
    A[bx] = 0.0


@trace
def stepping(A: T.Buffer(("n",), "int32"), step: T.int32, limit: T.uint8):
    n = A.shape[0]
    T.assume(step > 0)
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n, step)])
    T.thread_id([1])
    with T.If(bx * step < n):
        A[bx * step] = limit.astype("int32")


def copying(kind):
    """`B = A` for elements of one dtype."""
    @trace
    def copy(A: T.Buffer(("n",), kind), B: T.Buffer(("n",), kind)):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        T.thread_id([1])
        B[bx] = A[bx]
    return copy


SCALAR_VALUES = [True, -7, -300, -70000, -2**40, 200, 60000, 2**31, 2**40, 0.5, 1.5, 0.25, 0.125]


def _strided_args():
    return [array((3, 8), fill=numbers(3, 8)), array((3, 8), strides=(12, 1))]


GOODS = {
    "k": Good(kernels.k, lambda: [array((3, 8), fill=numbers(3, 8)), array((3, 8)), 2.0], lambda a: {1: numbers(3, 8) * 2}),
    "scale": Good(kernels.scale, lambda: [array((9,), fill=numbers(9)), array((9,)), 3.0], lambda a: {1: numbers(9) * 3}),
    "offset": Good(kernels.offset, lambda: [array((4, 8), fill=numbers(4, 8)), whole(128)[64:96].reshape(4, 8)], lambda a: {1: numbers(4, 8)}),
    "affine": Good(kernels.affine, lambda: [array((9,), fill=numbers(9)), array((4,)), 2.0], lambda a: {1: numbers(9)[1::2] * 2}),
    "vectors": Good(kernels.vectors, lambda: [array((64,), fill=numbers(64)), array((64,))], lambda a: {1: numbers(64)}),
    "lanes": Good(lanes, lambda: [array((16, 4), fill=numbers(16, 4)), array((16, 4))], lambda a: {1: numbers(16, 4)}),
    "rows": Good(rows, lambda: [array((4, 8), fill=numbers(4, 8)), array((4, 8), strides=(16, 1))], lambda a: {1: numbers(4, 8)}),
    "strided": Good(strided, _strided_args, lambda a: {1: numbers(3, 8)}),
    "every_scalar": Good(every_scalar, lambda: [array((13,), "float64"), *SCALAR_VALUES],
                         lambda a: {0: np.array(SCALAR_VALUES, "float32").astype("float64")}),
    "grid": Good(grid, lambda: [array((3, 5), "int8")], lambda a: {0: np.ones((3, 5), "int8")}),
    "line": Good(line, lambda: [array((40,))], lambda a: {0: np.full(40, 3, "float32")}),
    "sums": Good(sums, lambda: [array((6,), fill=numbers(6)), array((6,), fill=numbers(6)), array((6,))],
                 lambda a: {0: np.zeros(6, "float32"), 1: numbers(6), 2: numbers(6) * 2}),
    "stepping": Good(stepping, lambda: [array((4,), "int32", fill=0), 2, 9], lambda a: {0: np.array([9, 0, 9, 0], "int32")}),
    **{f"copy {kind}": Good(copying(kind), lambda kind=kind: [array((5,), kind, fill=numbers(5, dtype=kind)), array((5,), kind)],
                            lambda a, kind=kind: {1: numbers(5, dtype=kind)}) for kind in DTYPES},
}


# ---- what is wrong -------------------------------------------------------------------------------------------------------------

def _with(name: str, place: int, value: Callable[[], Any]) -> Callable[[], list[Any]]:
    def args() -> list[Any]:
        made = GOODS[name].args()
        made[place] = value()
        return made
    return args


def _parameters(name: str) -> list[tuple[int, str, Any]]:
    """(place, title, shape of the array or None for a scalar) for each parameter."""
    function = GOODS[name].kernel.function
    made = GOODS[name].args()
    return [(i, p.buffer.name if p.buffer is not None else p.name, made[i] if p.buffer is not None else None)
            for i, p in enumerate(function.parameters)]


def bad_calls() -> Iterator[Bad]:
    """Every generated case. Each is wrong in one respect alone, so that only its own check can refuse it."""
    for name in GOODS:
        yield from _counts(name)
        for place, title, held in _parameters(name):
            if held is None:
                yield from _scalars(name, place, title)
            else:
                yield from _arrays(name, place, title, held)
        yield from _sharing(name)
    yield from SINGLE


def _counts(name: str) -> Iterator[Bad]:
    count = len(GOODS[name].args())
    expected = f"expected {count} argument{'s' * (count != 1)}, got "
    yield Bad(f"{name}: one argument less", name, lambda: GOODS[name].args()[:-1], ArgumentCountError, expected + str(count - 1))
    yield Bad(f"{name}: one argument more", name, lambda: [*GOODS[name].args(), 1], ArgumentCountError, expected + str(count + 1))


NO_ARRAYS = {"None": (None, "None"), "an int": (3, "3 (an int)"), "a str": ("x", "a str"), "a list": ([1.0], "a list"), "a dict": ({}, "a dict")}
NO_NUMBERS = {"None": (None, "None"), "a str": ("x", "a str"), "a list": ([1], "a list"), "a complex": (1j, "a complex")}


def _arrays(name: str, place: int, title: str, held: np.ndarray) -> Iterator[Bad]:
    good = GOODS[name]
    kind = held.dtype
    for what, (value, told) in NO_ARRAYS.items():
        yield Bad(f"{name}: {title} is {what}", name, _with(name, place, lambda value=value: value), ArgumentTypeError,
                  f"{title}: expected an array, got {told}")
    other = "float64" if kind != np.float64 else "int64"
    yield Bad(f"{name}: {title} of another dtype", name, _with(name, place, lambda: array(held.shape, other)), ArgumentTypeError,
              f"{title}.dtype: expected {kind.name}, got {other}")
    yield Bad(f"{name}: {title} with an axis more", name, _with(name, place, lambda: array((*held.shape, 1), kind)), ArgumentValueError,
              f"{title}.ndim: expected {held.ndim}, the shape (")
    if held.ndim > 1:
        yield Bad(f"{name}: {title} with an axis less", name, _with(name, place, lambda: array((held.size,), kind)), ArgumentValueError,
                  f"{title}.ndim: expected {held.ndim}, the shape (")
    buffer = good.kernel.function.parameters[place].buffer
    constant = all(not e.args for e in buffer.shape) and all(e.op == "const" for e in buffer.shape)
    arrays = sum(h is not None for _, _, h in _parameters(name))
    if constant or arrays > 1 and name != "affine":
        for axis in range(held.ndim):
            longer = tuple(size + (axis == i) for i, size in enumerate(held.shape))
            yield Bad(f"{name}: {title} longer along axis {axis}", name, _with(name, place, lambda longer=longer: array(longer, kind)),
                      ArgumentValueError, ".shape[")
    dense = tuple(np.cumprod((1, *held.shape[:0:-1]))[::-1])
    wide = tuple(2 * step for step in dense)
    yield Bad(f"{name}: every other element of {title}", name, _with(name, place, lambda: array(held.shape, kind, strides=wide)),
              ArgumentValueError, ".strides")
    yield Bad(f"{name}: one element of {title} for all", name,
              _with(name, place, lambda: array(held.shape, kind, strides=(0,) * held.ndim)), ArgumentValueError, ".strides")
    yield Bad(f"{name}: {title} backwards", name, _with(name, place, lambda: array(held.shape, kind, strides=tuple(-s for s in dense))),
              ArgumentValueError, ".strides")
    if kind.itemsize > 1 and (name, title) != ("offset", "B"):      # whose offset is looked at first
        yield Bad(f"{name}: {title} a byte off", name, _with(name, place, lambda: _moved(held, 1)), ArgumentValueError,
                  f"{title}.data: expected an address that is a multiple of ")
    if name in ("vectors", "lanes") or (name, title) == ("k", "A"):
        yield Bad(f"{name}: {title} an element off", name, _with(name, place, lambda: _moved(held, kind.itemsize)), ArgumentValueError,
                  f"{title}.data: expected an address that is a multiple of 16 (")


def _moved(held: np.ndarray, shift: int) -> np.ndarray:
    """The same form, `shift` bytes further on."""
    return array(held.shape, held.dtype, shift=shift, strides=tuple(s // held.itemsize for s in held.strides))


def _scalars(name: str, place: int, title: str) -> Iterator[Bad]:
    kind = our_dtype(GOODS[name].kernel.function.parameters[place].dtype)
    words = {"bool": "a bool", "int": "an int", "uint": "an int", "float": "a number"}[kind.kind]
    for what, (value, told) in NO_NUMBERS.items():
        yield Bad(f"{name}: {title} is {what}", name, _with(name, place, lambda value=value: value), ArgumentTypeError,
                  f"{title}: expected {words} ({kind}), got {told}")
    yield Bad(f"{name}: {title} is an array", name, _with(name, place, lambda: array((1,))), ArgumentTypeError,
              f"{title}: expected {words} ({kind}), got a")
    if kind.kind == "float":
        if kind.name != "float64":
            yield Bad(f"{name}: {title} overflows", name, _with(name, place, lambda: 1e300), ArgumentValueError,
                      f"{title}: expected a number that {kind} can hold, got 1e+300, which overflows")
        yield Bad(f"{name}: {title} is an int beyond all floats", name, _with(name, place, lambda: 10**400), ArgumentValueError,
                  f"{title}: expected a number that {kind} can hold, got 1")
    else:
        low, high = kind.limits
        for value in (low - 1, high + 1):
            yield Bad(f"{name}: {title} is {value}", name, _with(name, place, lambda value=value: value), ArgumentValueError,
                      f"{title}: expected {low} to {high} ({kind}), got {value}")
        yield Bad(f"{name}: {title} is a float", name, _with(name, place, lambda: 1.0), ArgumentTypeError,
                  f"{title}: expected {words} ({kind}), got 1.0 (a float)")


def _sharing(name: str) -> Iterator[Bad]:
    """Two arguments in one memory, of which the kernel writes one."""
    half = GOODS[name].kernel.half
    written = {a.buffer for a in half.arguments if a.buffer is not None and not a.read_only}
    arrays = [(i, p.buffer) for i, p in enumerate(GOODS[name].kernel.function.parameters) if p.buffer is not None]
    for i, first in arrays:
        for j, second in arrays:
            if i < j and (first in written or second in written) and name not in ("affine", "offset", "rows", "strided"):
                def shared(i: int = i, j: int = j) -> list[Any]:
                    args = GOODS[name].args()
                    args[j] = args[i]
                    return args
                yield Bad(f"{name}: {second.name} is {first.name}", name, shared, ArgumentValueError,
                          f"{second.name}: expected memory of its own, because the kernel writes ")


def _pieces(first: slice, second: slice) -> Callable[[], list[Any]]:
    def args() -> list[Any]:
        whole = array((100,))
        return [whole[first], whole[second], 1.0]
    return args


def _read_only() -> np.ndarray:
    made = array((3, 8))
    made.flags.writeable = False
    return made


SINGLE = (
    Bad("scale: B begins in A's last element", "scale", _pieces(slice(0, 9), slice(8, 17)), ArgumentValueError, "B: expected memory of its own"),
    Bad("scale: A begins in B's last element", "scale", _pieces(slice(8, 17), slice(0, 9)), ArgumentValueError, "B: expected memory of its own"),
    Bad("k: B may not be written", "k", _with("k", 1, _read_only), ArgumentValueError, "B: expected a writable array"),
    Bad("offset: B begins elsewhere", "offset", _with("offset", 1, lambda: whole(128)[32:64].reshape(4, 8)), ArgumentValueError,
        "B.elem_offset: expected an array whose first element lies 64 elements into its storage, got one at 32"),
    Bad("rows: B is compact, and too small", "rows", _with("rows", 1, lambda: array((4, 8))), ArgumentValueError,
        "B.strides: expected (16, 1) elements, got (8, 1); the layout needs 56 elements, there are 32"),
    Bad("affine: no whole n", "affine", _with("affine", 0, lambda: array((8,))), ArgumentValueError, "A.shape[0]: expected n*2 + 1 = 9 with n = 4"),
    Bad("affine: an odd n", "affine", lambda: [array((7,)), array((3,)), 2.0], ArgumentValueError, "the assumption `n % 2 == 0` at kernels.py"),
    Bad("affine: a small x", "affine", _with("affine", 2, lambda: 0.5), ArgumentValueError, "the assumption `x > 0.5` at kernels.py"),
    Bad("stepping: no step", "stepping", _with("stepping", 1, lambda: 0), ArgumentValueError, "the assumption `step > 0` at bad_calls.py"),
    Bad("grid: too many blocks along y", "grid", _with("grid", 0, lambda: array((1, 65536), "int8")), LaunchError,
        "grid: expected from 0 to (2147483647, 65535, 65535), got (1, 65536, 1)"),
    Bad("line: too many threads", "line", _with("line", 0, lambda: array((1025,))), LaunchError,
        "block: expected from 1 to (1024, 1024, 64) and 1024 threads, got (1025, 1, 1)"),
    Bad("line: no threads", "line", _with("line", 0, lambda: array((0,))), LaunchError, "block: expected from 1 to "),
)
