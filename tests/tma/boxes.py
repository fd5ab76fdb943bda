"""Tensor copies of boxes: kernels that show shared memory as it lies there, and what they must give, element by element in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

from tracer import T, trace

MASKS = {"none": 0, "32B": 1, "64B": 3, "128B": 7}
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
TYPES = ("uint8", "int16", "float16", "bfloat16", "float32", "int32", "float64", "int64", "float8_e4m3fn")
PAGE = 1024             # what the largest swizzle repeats after


@dataclass(frozen=True)
class Case:
    """A box of `box` elements, `element_strides` apart, of an array of `shape`, that begins `offset` bytes into shared memory."""

    shape: tuple[int, ...]
    box: tuple[int, ...]
    dtype: str = "float32"
    swizzle: str = "none"
    offset: int = PAGE
    element_strides: tuple[int, ...] | None = None
    oob_fill: str = "zeros"
    row_pitch: int | None = None        # elements from row to row, where rows are padded
    at: tuple[tuple[int, ...], ...] = field(default=())

    @property
    def itemsize(self) -> int:
        return int(np.dtype(getattr(ml_dtypes, self.dtype, self.dtype)).itemsize)

    @property
    def steps(self) -> tuple[int, ...]:
        return self.element_strides or (1,) * len(self.shape)

    @property
    def moved(self) -> tuple[int, ...]:
        return tuple(-(-size // step) for size, step in zip(self.box, self.steps))

    @property
    def size(self) -> int:
        """Bytes of the box."""
        return prod(self.moved) * self.itemsize

    @property
    def pitch(self) -> int:
        """Bytes from row to row in shared memory: with a swizzle a row takes the whole of what it permutes within."""
        return SPANS[self.swizzle] or self.box[-1] * self.itemsize

    @property
    def room(self) -> int:
        """Bytes of shared memory, of which the box begins at `offset`."""
        return self.offset + -(-prod(self.moved[:-1]) * self.pitch // PAGE) * PAGE + PAGE

    @property
    def within(self) -> list[tuple[int, ...]]:
        """Where boxes may be written: none begins before the array."""
        return [where for where in dict.fromkeys((*self.at, *(tuple(map(abs, at)) for at in self.at))) if min(where) >= 0]

    def array(self, seed: int = 0) -> np.ndarray[Any, Any]:
        """A random array; with a row pitch, a part of a wider one. No NaNs, so that bytes tell."""
        rng = np.random.default_rng(seed)
        shape = (*self.shape[:-1], self.row_pitch or self.shape[-1])
        whole = rng.integers(1, 100, shape).astype(getattr(ml_dtypes, self.dtype, self.dtype))
        return whole[..., :self.shape[-1]]

    def place(self, index: int) -> int:
        """Where byte `index` of the box lies in shared memory: PTX ISA 5.5.7, by address."""
        row, column = divmod(index, self.box[-1] * self.itemsize)
        address = self.offset + row * self.pitch + column
        chunk, line = address >> 4 & 7, address >> 7 & 7
        return address & ~0x70 | (chunk ^ line & MASKS[self.swizzle]) << 4

    def elements(self, at: tuple[int, ...]) -> Any:
        """(number in the box, coordinates in the array, whether they are inside) of each element."""
        for number, k in enumerate(product(*map(range, self.moved))):
            coords = tuple(a + step * i for a, step, i in zip(at, self.steps, k))
            yield number, coords, all(0 <= c < size for c, size in zip(coords, self.shape))

    def loaded(self, array: np.ndarray[Any, Any], at: tuple[int, ...], before: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Shared memory, `before` a load, afterwards. Where NaN fills, 0xEE marks it."""
        memory = before.copy()
        fill = b"\0" * self.itemsize if self.oob_fill == "zeros" else b"\xEE" * self.itemsize
        for number, coords, inside in self.elements(at):
            for k, byte in enumerate(array[coords].tobytes() if inside else fill):
                memory[self.place(number * self.itemsize + k)] = byte
        return memory

    def stored(self, array: np.ndarray[Any, Any], at: tuple[int, ...], memory: np.ndarray[Any, Any], combine: Any = None) -> np.ndarray[Any, Any]:
        """The array after a store of shared memory."""
        result = array.copy()
        for number, coords, inside in self.elements(at):
            if inside:
                value = bytes(int(memory[self.place(number * self.itemsize + k)]) for k in range(self.itemsize))
                new = np.frombuffer(value, array.dtype)[0]
                result[coords] = new if combine is None else combine(array[coords], new)
        return result

    # ---- kernels

    def buffer(self) -> Any:
        """The annotation of the array."""
        strides = None
        if self.row_pitch is not None:
            strides, step = [1], self.row_pitch
            for size in reversed(self.shape[:-1]):
                strides.insert(0, step)
                step *= size
        return T.Buffer(self.shape, self.dtype, strides=strides)

    def load_kernel(self) -> Any:
        """load(A, coordinates, M): M comes in as shared memory before, and goes out as it is afterwards."""
        options = {"swizzle": self.swizzle, "element_strides": self.element_strides, "oob_fill": self.oob_fill}
        words = self.room // 4

        def load(A: self.buffer(), I: T.Buffer((len(self.shape),), "int32"), M: T.Buffer((words,), "uint32")):  # noqa: E741
            boxes = T.tensor_map(A, self.box, **options)
            assert boxes.box_bytes == self.size
            T.device_entry()
            tx = T.thread_id([64])
            bar, memory, whole = _arena(self)
            _fill(whole, M, tx, words)
            _open(bar, tx)
            with T.If(tx == 0):
                T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar.ptr_to([0]), boxes.box_bytes)
                T.tma.load(memory.ptr_to([0]), boxes, [I[k] for k in range(len(self.shape))], bar)
            T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
            for k in T.serial(tx, words, 64):
                M[k] = whole[k]

        return trace(load)

    def store_kernel(self, reduction: str | None = None) -> Any:
        """store(A, coordinates, M): M is shared memory; A is written."""
        words = self.room // 4

        def store(A: self.buffer(), I: T.Buffer((len(self.shape),), "int32"), M: T.Buffer((words,), "uint32")):  # noqa: E741
            boxes = T.tensor_map(A, self.box, swizzle=self.swizzle, element_strides=self.element_strides)
            T.device_entry()
            tx = T.thread_id([64])
            _, memory, whole = _arena(self)
            _fill(whole, M, tx, words)
            T.ptx.fence.proxy.async_()
            T.cuda.cta_sync()
            with T.If(tx == 0):
                at = [I[k] for k in range(len(self.shape))]
                T.tma.prefetch(boxes)
                if reduction is None:
                    T.tma.store(boxes, at, memory.ptr_to([0]))
                else:
                    T.tma.reduce(reduction, boxes, at, memory.ptr_to([0]))
                T.tma.commit()
                T.tma.wait(0)

        return trace(store)


def _arena(case: Case) -> tuple[Any, Any, Any]:
    """The mbarrier, the memory from the box on, and all but the mbarrier's page as words."""
    arena = T.alloc_buffer((PAGE + case.room,), "uint8", scope="shared.dyn", align=PAGE)
    bar = T.decl_buffer((1,), "uint64", data=arena.data)
    memory = T.decl_buffer((case.room - case.offset,), "uint8", data=arena.data, elem_offset=PAGE + case.offset)
    whole = T.decl_buffer((case.room // 4,), "uint32", data=arena.data, byte_offset=PAGE)
    return bar, memory, whole


def _fill(whole: Any, given: Any, tx: Any, words: int) -> None:
    for k in T.serial(tx, words, 64):
        whole[k] = given[k]


def _open(bar: Any, tx: Any) -> None:
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.ptx.fence.proxy.async_()
    T.cuda.cta_sync()


# ---- which boxes

def drawn(seed: int) -> Case:
    """A random one: 1 to 5 axes, any type and swizzle, boxes that hang over every edge of the array."""
    random = Random(seed)
    rank, dtype = random.randint(1, 5), random.choice(TYPES)
    swizzle = random.choice(list(MASKS))
    itemsize = Case((), (), dtype).itemsize
    row = random.randrange(16, (SPANS[swizzle] or 256) + 1, 16) // itemsize
    most = (256, 24, 8, 4, 3)[rank - 1]
    box = [random.randint(1, most) for _ in range(rank - 1)]
    steps = tuple(random.choice((1, 1, 2, 3)) for _ in range(rank - 1)) + (1,)
    unit = max(1, 16 // itemsize)
    shape = [random.randint(1, 2 * size) for size in box]
    last = random.randint(1, 3 * row)
    pitch = -(-last // unit) * unit + unit * random.randint(0, 2)
    offset = random.choice((0, 128, 256, 512, 640, PAGE))
    at = tuple((*(random.randint(-size, extent + 1) for size, extent in zip(box, shape)), random.randint(-row // unit, last // unit + 1) * unit)
               for _ in range(3))
    return Case((*shape, last), (*box, row), dtype, swizzle, offset, steps if any(s > 1 for s in steps) else None,
                row_pitch=pitch if rank > 1 and pitch != last else None, at=(*at, (0,) * rank))


CASES = [
    Case((64, 64), (8, 32), at=((0, 0), (8, 32), (60, 40), (-3, -4), (100, 0), (-100, -100))),
    *(Case((64, span // 2), (16, span // 2), "bfloat16", mode, at=((0, 0), (40, 0), (-1, -8), (63, 8)))
      for mode, span in SPANS.items() if mode != "none"),
    # A base that is no multiple of what the pattern repeats after: the permutation follows the address.
    *(Case((32, 64), (8, 64), "bfloat16", "128B", PAGE + shift, at=((0, 0),)) for shift in (128, 256, 512, 896)),
    # Rows shorter than what the swizzle permutes within: each begins a span.
    Case((16, 16), (8, 8), "bfloat16", "128B", at=((0, 0), (3, 8))), Case((16, 16), (4, 8), "bfloat16", "64B", at=((0, 0),)),
    Case((16, 32), (16, 32), "bfloat16", "128B", at=((0, 0),)), Case((3, 9, 48), (2, 4, 48), "bfloat16", "128B", 256, at=((1, 6, 0),)),
    Case((40, 24), (20, 8), "float32", element_strides=(3, 1), at=((0, 0), (-2, -4), (30, 20))),
    Case((1000,), (256,), "uint8", at=((0,), (912,), (-240,))),
    Case((4, 5, 6, 7, 16), (2, 2, 3, 2, 16), "float16", at=((0, 0, 0, 0, 0), (-1, 4, 5, -1, 8))),
    Case((12, 20), (8, 16), "float32", oob_fill="nan", at=((8, 8), (0, 0))),
]
RANDOM = [drawn(seed) for seed in range(40)]


def memory_of(case: Case, seed: int = 1) -> np.ndarray[Any, Any]:
    """Random bytes of shared memory, of small numbers in every type, so that sums are exact."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(getattr(ml_dtypes, case.dtype, case.dtype))
    return np.ascontiguousarray(rng.integers(1, 50, case.room // kind.itemsize).astype(kind)).view(np.uint8).copy()


def without_nan(case: Case, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As `Case.loaded` marks NaNs: whatever bits they have."""
    if case.oob_fill != "nan":
        return memory
    kind = np.dtype(getattr(ml_dtypes, case.dtype, case.dtype))
    values = memory.view(kind)
    marked: np.ndarray[Any, Any] = memory.reshape(-1, kind.itemsize).copy()
    marked[np.isnan(values.astype(np.float64))] = 0xEE
    return marked.reshape(-1)
