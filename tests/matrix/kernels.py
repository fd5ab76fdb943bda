"""Kernels that do one matrix instruction, with random operands and what NumPy makes of them: for the simulator and for the GPU.

Registers come and go as they are, a row of words a thread; the maps of fragments are applied here, in NumPy.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.registers import to_matrix, to_registers
from runtime.simulator.tensor_cores import INTEGERS, STORED, multiply, numbers
from symbolic.layout import mma_shared_layout
from tracer import T, trace
from tracer.matrix import MMA_FORMS, WGMMA_FORMS, MmaForm, WgmmaForm, register_of

DTYPES = {"f16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "s8": "int8", "u8": "uint8"}


class Case(NamedTuple):
    """A kernel, its arguments (the last one is the result), what the result's matrix should be, and how to read it off the result."""

    kernel: Any
    arguments: list[np.ndarray]
    expected: np.ndarray
    fragment: Any
    kind: str

    def result(self, words: np.ndarray) -> np.ndarray:
        """The matrix in the registers."""
        return to_matrix(words, self.fragment, self.kind)

    def check(self, words: np.ndarray, digits: int = 64) -> None:
        """Integers agree; floats to the last bits of the largest sum. `digits`: how many bits the sum is kept in, where they are fewer."""
        got, wanted = (x.astype(np.float64) for x in (self.result(words), self.expected))
        if self.kind in INTEGERS:
            np.testing.assert_array_equal(got, wanted)
        else:
            unit = max({"f16": 2.0**-9, "f32": 2.0**-20, "f64": 2.0**-50}[self.kind], 2.0 ** (2 - digits))
            np.testing.assert_allclose(got, wanted, rtol=unit, atol=unit * np.abs(wanted).max())


def random_matrix(shape: tuple[int, int], kind: str, rng: np.random.Generator) -> np.ndarray:
    """Elements of `STORED[kind]`; for tf32 with bits that the tensor core does not look at."""
    if kind in ("s8", "u8", "s32"):
        low, high = np.iinfo(STORED[kind]).min, np.iinfo(STORED[kind]).max
        return rng.integers(low, high, shape, STORED[kind], endpoint=True)
    values = rng.standard_normal(shape)
    return values.astype(np.float32).view(np.uint32) if kind == "tf32" else values.astype(STORED[kind])


def named(name: str, function: Any) -> Any:
    """Kernels of one source file have names of their own."""
    function.__name__ = re.sub(r"\W+", "_", name)
    return trace(function)


# ---- mma ---------------------------------------------------------------------------------------------------------------

def mma(form: MmaForm, saturate: bool = False) -> Case:
    """One mma.sync of a warp."""
    types = [form.d, form.a, form.b, form.d]
    counts = form.counts()
    words = [register_of(kind) for kind in types]
    text = f"mma.sync.aligned.{form.shape}.row.col{'.satfinite' * saturate}.{'.'.join(types)}"

    def kernel(A: T.Buffer((32, counts[1]), words[1]), B: T.Buffer((32, counts[2]), words[2]), C: T.Buffer((32, counts[3]), words[3]),
               D: T.Buffer((32, counts[0]), words[0])):
        T.device_entry()
        lane = T.lane_id([32])
        d, a, b, c = (T.alloc_local((n,), word) for n, word in zip(counts, words))
        for registers, source in ((a, A), (b, B), (c, C)):
            for i in range(registers.decl.shape[0].value):
                registers[i] = source[lane, i]
        T.ptx[text](d, a, b, c)
        for i in range(counts[0]):
            D[lane, i] = d[i]

    rng = np.random.default_rng(sum(map(ord, text)))
    shapes = [form.fragment(name).shape for name in "ABC"]
    a, b, c = (random_matrix(shape, kind, rng) for shape, kind in zip(shapes, types[1:]))
    arguments = [to_registers(m, form.fragment(name), "u8" if kind == "f64" else "u4").view(word)
                 for m, name, kind, word in zip((a, b, c), "ABC", types[1:], words[1:])]
    expected = multiply(numbers(a, form.a), numbers(b, form.b), numbers(c, form.d), form.d, saturate)
    return Case(named(text, kernel), [*arguments, np.zeros((32, counts[0]), words[0])], expected, form.fragment("D"), form.d)


def mma_cases() -> dict[str, Case]:
    """Every form."""
    cases = {".".join((f.shape, f.d, f.a, f.b)): mma(f) for f in MMA_FORMS.values()}
    return cases | {".".join((f.shape, f.a, f.b, "satfinite")): mma(f, True) for f in MMA_FORMS.values() if f.saturates}


# ---- ldmatrix and stmatrix ---------------------------------------------------------------------------------------------

def moved(num: int, ld_trans: bool, st_trans: bool) -> Any:
    """`num` 8 x 8 matrices from shared memory to registers and back."""
    def kernel(A: T.Buffer((8 * num, 8), "float16"), B: T.Buffer((8 * num, 8), "float16"), R: T.Buffer((32, num), "uint32")):
        T.device_entry()
        lane = T.lane_id([32])
        tile, back = (T.alloc_shared((8 * num, 8), "float16", align=16) for _ in range(2))
        for i in T.unroll(2 * num):
            tile[i * 4 + lane // 8, lane % 8] = A[i * 4 + lane // 8, lane % 8]
        T.cuda.cta_sync()
        r = T.alloc_local((num,), "uint32")
        T.ptx[f"ldmatrix.sync.aligned.m8n8.x{num}{'.trans' * ld_trans}.shared.b16"](r, tile.ptr_to([lane % (8 * num), 0]))
        T.ptx[f"stmatrix.sync.aligned.m8n8.x{num}{'.trans' * st_trans}.shared.b16"](back.ptr_to([lane % (8 * num), 0]), r)
        T.cuda.cta_sync()
        for i in T.unroll(2 * num):
            B[i * 4 + lane // 8, lane % 8] = back[i * 4 + lane // 8, lane % 8]
        for i in range(num):
            R[lane, i] = r[i]

    return named(f"moved_{num}_{ld_trans}_{st_trans}", kernel)


# ---- wgmma -------------------------------------------------------------------------------------------------------------

STEPS = 2       # instructions along k


def wgmma(form: WgmmaForm, n: int, mode: str = "128B", in_registers: bool = False, transposed: tuple[bool, bool] = (False, False),
          signs: tuple[int, int] = (1, 1), saturate: bool = False) -> Case:
    """STEPS wgmma.mma_async on one accumulator, its operands laid out with a swizzle mode; the first one with scale-d 0."""
    k = form.k * STEPS
    bytes_ = 32 // form.k
    wide = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[mode] // bytes_      # a row of the pattern
    word, registers = register_of(form.d), n // 2 if form.d != "f16" else n // 4
    shapes = [(k, -(-mn // wide) * wide) if t else (mn, -(-k // wide) * wide) for mn, t in zip((64, n), transposed)]
    text = f"wgmma.mma_async.sync.aligned.m64n{n}k{form.k}{'.satfinite' * saturate}.{form.d}.{form.a}.{form.b}"
    name = f"{text}_{mode}_{in_registers}_{transposed}_{signs}".replace("-1", "minus")
    kinds = [DTYPES[kind] for kind in (form.a, form.b)]

    def kernel(A: T.Buffer(shapes[0], kinds[0]), B: T.Buffer(shapes[1], kinds[1]), R: T.Buffer((128, 4 * STEPS), "uint32"),
               D: T.Buffer((128, registers), word)):
        T.device_entry()
        tx = T.thread_id([128])
        tiles = [T.alloc_shared(shape, kind, layout=mma_shared_layout(kind, mode, shape), align=1024) for shape, kind in zip(shapes, kinds)]
        for tile, source, (rows, columns) in zip(tiles, (A, B), shapes):
            for i in T.serial(T.ceildiv(rows * columns, 128)):
                e = i * 128 + tx
                with T.If(e < rows * columns):
                    tile[e // columns, e % columns] = source[e // columns, e % columns]
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.cta_sync()
        acc, r = T.alloc_local((registers,), word), T.alloc_local((4 * STEPS,), "uint32")
        for i in range(4 * STEPS):
            r[i] = R[tx, i]
        T.ptx.wgmma.fence.sync.aligned()
        for step in range(STEPS):
            a, b = (T.cuda.wgmma.descriptor(tile.ptr_to([step * form.k, 0] if t else [0, step * form.k]), major="MN" if t else "K", mn=mn)
                    for tile, t, mn in zip(tiles, transposed, (64, n)))
            left = [r[4 * step + i] for i in range(4)] if in_registers else a
            flips = (signs if form.scales else ()) + (transposed[in_registers:] if form.transposes else ())
            T.ptx[text](acc, left, b, step > 0, *map(int, flips))
        T.ptx.wgmma.commit_group.sync.aligned()
        T.ptx.wgmma.wait_group.sync.aligned(0)
        for i in range(registers):
            D[tx, i] = acc[i]

    rng = np.random.default_rng(sum(map(ord, name)))
    a, b = random_matrix((64, k), form.a, rng), random_matrix((n, k), form.b, rng)
    given = []
    for matrix, t, shape, kind in zip((a, b), transposed, shapes, kinds):
        whole = np.zeros(shape, STORED[form.a if matrix is a else form.b])
        placed = matrix.T if t else matrix
        whole[:placed.shape[0], :placed.shape[1]] = placed
        given.append(whole.view(np.float32) if kind == "float32" else whole)
    steps = [to_registers(a[:, s * form.k:(s + 1) * form.k], form.a_fragment()) for s in range(STEPS)]
    expected = multiply(signs[0] * numbers(a, form.a), signs[1] * numbers(b, form.b).T, None, form.d, saturate)
    return Case(named(name, kernel), [*given, np.concatenate(steps, axis=1), np.zeros((128, registers), word)], expected, form.accumulator(n), form.d)


def wgmma_cases() -> dict[str, Case]:
    """Every combination of types with A in shared memory and in registers; every N; every swizzle mode and major of 16-bit elements."""
    cases = {}
    for f in WGMMA_FORMS.values():
        for in_registers in (False, True):
            cases[f"{f.d}.{f.a}.{f.b} {'registers' if in_registers else 'shared'}"] = wgmma(f, 32, in_registers=in_registers)
    half, signed = WGMMA_FORMS["f32", "bf16", "bf16"], WGMMA_FORMS["s32", "s8", "s8"]
    for n in half.widths:
        if n not in (32, 128):      # they are among the others
            cases[f"n{n}"] = wgmma(half, n)
    for n in (8, 24, 48, 256):
        cases[f"int n{n}"] = wgmma(signed, n, saturate=True)
    for mode in ("none", "32B", "64B", "128B"):
        for transposed in ((False, False), (True, False), (False, True), (True, True)):
            cases[f"{mode} {'MN' if transposed[0] else 'K'} {'MN' if transposed[1] else 'K'}"] = wgmma(half, 128, mode, transposed=transposed)
        for f in (WGMMA_FORMS["f32", "tf32", "tf32"], signed):
            cases[f"{mode} {f.a}"] = wgmma(f, 64, mode)
    for signs in ((-1, 1), (1, -1), (-1, -1)):
        cases[f"signs {signs}"] = wgmma(half, 16, signs=signs)
    return cases
