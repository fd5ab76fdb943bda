"""Kernels that do one thing with tensor memory, with random operands and what NumPy makes of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.tensor_cores import STORED, multiply, numbers
from symbolic.layout import mma_shared_layout
from tests.matrix.kernels import DTYPES, named, random_matrix
from tracer import T

COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"


class TensorCase(NamedTuple):
    """A kernel, its arguments (the last one is the result, as float64 numbers once read by `read`), and what they should be."""

    kernel: Any
    arguments: list[np.ndarray]
    expected: np.ndarray
    kind: str

    def check(self) -> None:
        """D's rows in their lanes, one element a column."""
        words = self.arguments[-1]
        rows = self.expected.shape[0]
        lanes = np.arange(rows) if rows == 128 else np.arange(rows) // 16 * 32 + np.arange(rows) % 16
        got = words[lanes]
        got = got.view(np.float32) if self.kind == "f32" else (got & 0xFFFF).astype(np.uint16).view(np.float16)
        unit = {"f16": 2.0**-9, "f32": 2.0**-20}[self.kind]
        np.testing.assert_allclose(got.astype(np.float64), self.expected.astype(np.float64), rtol=unit, atol=unit * np.abs(self.expected).max())


def fill(tile, source, rows: int, columns: int, tx) -> None:
    """A tile of shared memory from global memory."""
    for i in T.serial(T.ceildiv(rows * columns, 128)):
        e = i * 128 + tx
        with T.If(e < rows * columns):
            tile[e // columns, e % columns] = source[e // columns, e % columns]


def product(m: int, n: int, d: str = "f32", ab: str = "bf16", mode: str = "128B", transposed: tuple[bool, bool] = (False, False),
            in_tensor: bool = False, negate: tuple[bool, bool] = (False, False), scale: int | None = None, masked: bool = False) -> TensorCase:
    """Two tcgen05.mma on one accumulator; `scale`: the second one scales the first one's by 2**-scale; `masked`: it leaves odd lanes."""
    kind, step = ("tf32", 8) if ab == "tf32" else ("f16", 16)
    k, bytes_ = 2 * step, 32 // step
    wide = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[mode] // bytes_
    shapes = [(k, -(-mn // wide) * wide) if t else (mn, -(-k // wide) * wide) for mn, t in zip((m, n), transposed)]
    element = DTYPES[ab]
    columns = max(32, 1 << (n - 1).bit_length())
    name = f"product_{m}_{n}_{d}_{ab}_{mode}_{transposed}_{in_tensor}_{negate}_{scale}_{masked}"
    text = f"tcgen05.mma.cta_group::1.kind::{kind}"

    def kernel(A: T.Buffer(shapes[0], element), B: T.Buffer(shapes[1], element), P: T.Buffer((128, 16), "uint32"), D: T.Buffer((128, n), "uint32")):
        T.device_entry()
        tx = T.thread_id([128])
        warp = tx // 32
        pool = T.SMEMPool()
        tiles = [pool.alloc(shape, element, layout=mma_shared_layout(element, mode, shape), align=1024) for shape in shapes]
        bar = pool.alloc((1,), "uint64")
        tensor = T.TMEMPool(pool, total_cols=min(512, 2 * columns))
        pool.commit()
        tensor.alloc((128, columns), "float32")
        tensor.alloc((128, 16), "float32")
        for tile, source, shape in zip(tiles, (A, B), shapes):
            fill(tile, source, *shape, tx)
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        T.ptx.fence.proxy.async_.shared__cta()
        tensor.commit()
        base = T.let(tensor.slot[0])
        left = T.cuda.get_tmem_addr(base, 0, columns)
        r = T.alloc_local((n,), "uint32")
        if in_tensor:
            for i in range(16):
                r[i] = P[tx, i]
            T.ptx["tcgen05.st.sync.aligned.32x32b.x16.b32"](T.cuda.get_tmem_addr(left, warp * 32, 0), [r[i] for i in range(16)])
            T.ptx.tcgen05.wait__st.sync.aligned()
            T.ptx.tcgen05.fence__before_thread_sync()
        T.cuda.cta_sync()
        with T.If(tx == 0):
            T.ptx.tcgen05.fence__after_thread_sync()
            what = T.cuda.tcgen05.instruction_descriptor(d, ab, ab, m, n, negate_a=negate[0], negate_b=negate[1], transpose_a=transposed[0],
                                                         transpose_b=transposed[1])
            for s in range(2):
                a, b = (T.cuda.tcgen05.descriptor(tile.ptr_to([s * step, 0] if t else [0, s * step]), major="MN" if t else "K", mn=mn)
                        for tile, t, mn in zip(tiles, transposed, (m, n)))
                given = T.cuda.get_tmem_addr(left, 0, s * 8) if in_tensor else a
                mask = [[T.uint32(0xAAAAAAAA)] * 4] if masked and s else []
                T.ptx[text](base, given, b, what, *mask, s > 0, *([scale] if scale is not None and s else []))
            T.ptx[COMMIT](bar.ptr_to([0]))
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
        T.ptx.tcgen05.fence__after_thread_sync()
        for first in range(0, n, 8):
            shape = "16x64b.x4" if m == 64 else "32x32b.x8"
            T.ptx[f"tcgen05.ld.sync.aligned.{shape}.b32"]([r[i] for i in range(first, first + (4 if m == 64 else 8))],
                                                          T.cuda.get_tmem_addr(base, warp * 32, first))
            T.ptx.tcgen05.wait__ld.sync.aligned()
            for i in range(4 if m == 64 else 8):
                row, column = (tx % 32 // 4 + 8 * (tx % 2), tx // 2 % 2 + 2 * i) if m == 64 else (tx % 32, i)
                D[warp * 32 + row, first + column] = r[first + i]
        tensor.dealloc()

    rng = np.random.default_rng(sum(map(ord, name)))
    a, b = random_matrix((m, k), ab, rng), random_matrix((n, k), ab, rng)
    given = []
    for matrix, t, shape in zip((a, b), transposed, shapes):
        whole = np.zeros(shape, STORED[ab])
        placed = matrix.T if t else matrix
        whole[:placed.shape[0], :placed.shape[1]] = placed
        given.append(whole.view(np.float32) if element == "float32" else whole)
    lanes = np.zeros((128, 16), np.uint32)
    where = np.arange(m) if m == 128 else np.arange(m) // 16 * 32 + np.arange(m) % 16
    lanes[where] = np.ascontiguousarray(a).view(np.uint32).reshape(m, -1)
    sign = (-1.0) ** (negate[0] + negate[1])
    x, y = numbers(a, ab), numbers(b, ab).T
    first = multiply(sign * x[:, :step], y[:step], None, d)
    expected = multiply(sign * x[:, step:], y[step:], first.astype(np.float64) * 2.0 ** -(scale or 0), d)
    if masked:
        expected = np.where(where[:, None] % 2 == 1, first, expected)
    return TensorCase(named(name, kernel), [*given, lanes, np.zeros((128, n), np.uint32)], expected, d)


def product_cases() -> dict[str, TensorCase]:
    """Types, shapes, majors, modes, A in tensor memory, and every modifier."""
    cases = {f"{d} {ab}": product(128, 64, d, ab) for d, ab in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32"))}
    cases |= {f"{m} x {n}": product(m, n) for m, n in ((64, 8), (64, 72), (128, 16), (128, 48), (128, 256))}
    cases |= {f"{mode} {t}": product(128, 64, mode=mode, transposed=t) for mode in ("none", "32B", "64B") for t in ((False, False), (True, True))}
    cases |= {f"tf32 {mode}": product(128, 32, ab="tf32", mode=mode) for mode in ("none", "32B", "64B")}
    cases["MN K"] = product(128, 64, transposed=(True, False))
    cases |= {f"A in tensor memory {m} {ab}": product(m, 32, ab=ab, in_tensor=True) for m, ab in ((128, "bf16"), (64, "bf16"), (128, "tf32"))}
    cases |= {"negated": product(128, 16, negate=(True, False)), "twice": product(128, 32, negate=(True, True)),
              "scaled": product(128, 16, scale=3), "masked": product(128, 16, masked=True), "both": product(128, 32, scale=15, masked=True)}
    return cases


# ---- between registers and tensor memory --------------------------------------------------------------------------------

def moved(shape: str, num: int, registers: int, packed: bool = False, offset: int = 40) -> Any:
    """st in one shape, then ld in the same, and of 64 columns as they lie: (values in, values out, cells)."""
    extra = [offset] if shape == "16x32bx2" else []
    names = f"sync.aligned.{shape}.x{num}"

    def kernel(V: T.Buffer((32, registers), "uint32"), W: T.Buffer((32, registers), "uint32"), Z: T.Buffer((32, 128), "uint32")):
        T.device_entry()
        lane = T.thread_id([32])
        tensor = T.TMEMPool(None, total_cols=128, tmem_addr=T.alloc_shared((1,), "uint32"))
        tensor.alloc((128, 128), "float32")
        tensor.commit()
        base = T.let(tensor.slot[0])
        r, z = T.alloc_local((registers,), "uint32"), T.alloc_local((128,), "uint32")
        for i in range(128):
            z[i] = T.uint32(0)
        T.ptx["tcgen05.st.sync.aligned.32x32b.x128.b32"](base, z)
        T.ptx.tcgen05.wait__st.sync.aligned()
        for i in range(registers):
            r[i] = V[lane, i]
        T.ptx[f"tcgen05.st.{names}{'.unpack::16b' * packed}.b32"](base, *extra, r)
        T.ptx.tcgen05.wait__st.sync.aligned()
        T.ptx[f"tcgen05.ld.{names}{'.pack::16b' * packed}.b32"](r, base, *extra)
        T.ptx["tcgen05.ld.sync.aligned.32x32b.x128.b32"](z, base)
        T.ptx.tcgen05.wait__ld.sync.aligned()
        for i in range(registers):
            W[lane, i] = r[i]
        for i in range(128):
            Z[lane, i] = z[i]
        tensor.dealloc()

    return named(f"moved_{shape}_{num}_{packed}", kernel)


# ---- from shared to tensor memory ----------------------------------------------------------------------------------------

def copied(shape: str, multicast: str, rows: int, words: int) -> Any:
    """tcgen05.cp of `rows` rows of `words` words, then all lanes of these columns."""
    def kernel(S: T.Buffer((rows, words), "uint32"), Z: T.Buffer((128, words), "uint32")):
        T.device_entry()
        tx = T.thread_id([128])
        tile = T.alloc_shared((rows, words), "float32", layout=mma_shared_layout("float32", "none", (rows, words)), align=1024)
        bar = T.alloc_shared((1,), "uint64")
        tensor = T.TMEMPool(None, total_cols=32, tmem_addr=T.alloc_shared((1,), "uint32"))
        tensor.alloc((128, 32), "float32")
        for i in T.serial(T.ceildiv(rows * words, 128)):
            e = i * 128 + tx
            with T.If(e < rows * words):
                tile[e // words, e % words] = T.reinterpret("float32", S[e // words, e % words])
        with T.If(tx == 0):
            T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
        T.ptx.fence.proxy.async_.shared__cta()
        tensor.commit()
        base = T.let(tensor.slot[0])
        with T.If(tx == 0):
            # Columns of 16 bytes lie one behind the other, 8 rows in a block of 128 bytes.
            desc = T.cuda.matrix_descriptor(tile.ptr_to([0, 0]), 1 << 46 | 8 << 32 | rows << 16)
            T.ptx[f"tcgen05.cp.cta_group::1.{shape}{f'.{multicast}' if multicast else ''}"](base, desc)
            T.ptx[COMMIT](bar.ptr_to([0]))
        T.cuda.mbarrier_wait(bar.ptr_to([0]), 0)
        T.ptx.tcgen05.fence__after_thread_sync()
        r = T.alloc_local((words,), "uint32")
        T.ptx[f"tcgen05.ld.sync.aligned.32x32b.x{words}.b32"](r, T.cuda.get_tmem_addr(base, tx // 32 * 32, 0))
        T.ptx.tcgen05.wait__ld.sync.aligned()
        for i in range(words):
            Z[tx, i] = r[i]
        tensor.dealloc()

    return named(f"copied_{shape}_{multicast}", kernel)
