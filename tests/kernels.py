"""Small kernels that between them use every construct, each with data and the result that plain NumPy gives.

One collection for every property that must hold of all kernels: they trace back from their script, they simulate right,
their source compiles, a GPU agrees. `CASES` is the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import sympy

from tracer import T, trace

F32 = np.float32


@dataclass(frozen=True)
class Case:
    """`kernel(*inputs, output, *scalars)` must give `expected(*inputs, *scalars)`."""

    name: str
    fn: Callable[..., Any]
    inputs: Callable[[np.random.Generator], list[np.ndarray]]
    output: tuple[tuple[int, ...], Any]
    expected: Callable[..., np.ndarray]
    scalars: tuple[Any, ...] = ()
    constants: tuple[tuple[str, Any], ...] = ()
    tolerance: float = 0.0

    def kernel(self) -> Any:
        """The traced kernel."""
        traced = trace(self.fn)
        return traced.specialize(**dict(self.constants)) if self.constants else traced


CASES: list[Case] = []


def case(inputs: Callable[[np.random.Generator], list[np.ndarray]], output: tuple[tuple[int, ...], Any], expected: Callable[..., np.ndarray],
         scalars: tuple[Any, ...] = (), tolerance: float = 0.0, **constants: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the decorated function to `CASES`."""
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(fn.__name__, fn, inputs, output, expected, scalars, tuple(constants.items()), tolerance))
        return fn
    return add


def floats(*shapes: tuple[int, ...], dtype: Any = F32) -> Callable[[np.random.Generator], list[np.ndarray]]:
    return lambda rng: [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def ints(*shapes: tuple[int, ...], dtype: Any = np.int32, low: int = -1000, high: int = 1000) -> Callable[[np.random.Generator], list[np.ndarray]]:
    return lambda rng: [rng.integers(low, high, shape).astype(dtype) for shape in shapes]


# ---------------------------------------------------------------------- values and dtypes

@case(floats((1000,)), ((1000,), F32), lambda a, s: a * F32(s), scalars=(3.0,))
def scale(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    with T.If(i < n):
        B[i] = A[i] * s


@case(ints((256,), (256,)), ((256,), np.int32), lambda a, b: (a // b) * 7 + a % b - np.minimum(a, b) + np.maximum(a, -b))
def floor_arithmetic(A: T.Buffer((256,), "int32"), D: T.Buffer((256,), "int32"), B: T.Buffer((256,), "int32")):
    T.device_entry()
    tx = T.thread_id([256])
    a, d = A[tx], D[tx]
    B[tx] = (a // d) * 7 + a % d - T.min(a, d) + T.max(a, -d)


@case(ints((256,), (256,), low=1, high=1000), ((256,), np.int32),
      lambda a, b: np.trunc((a - 500) / b).astype(np.int32) + np.fmod(a - 500, b))
def c_division(A: T.Buffer((256,), "int32"), D: T.Buffer((256,), "int32"), B: T.Buffer((256,), "int32")):
    T.device_entry()
    tx = T.thread_id([256])
    B[tx] = T.truncdiv(A[tx] - 500, D[tx]) + T.truncmod(A[tx] - 500, D[tx])


@case(ints((128,), dtype=np.uint8, low=0, high=256), ((128,), np.uint8), lambda a: (a * np.uint8(3) + np.uint8(200)) ^ (a >> np.uint8(2)))
def narrow_wraps(A: T.Buffer((128,), "uint8"), B: T.Buffer((128,), "uint8")):
    T.device_entry()
    tx = T.thread_id([128])
    B[tx] = (A[tx] * 3 + 200) ^ (A[tx] >> 2)


@case(ints((128,), dtype=np.uint32, low=0, high=2**32), ((128,), np.uint32),
      lambda a: (a * np.uint32(1664525) + np.uint32(1013904223)) % np.uint32(1000))
def hash_wraps(A: T.Buffer((128,), "uint32"), B: T.Buffer((128,), "uint32")):
    T.device_entry()
    tx = T.thread_id([128])
    h = A[tx] * 1664525 + 1013904223
    B[tx] = h % 1000


@case(ints((128,), low=-2**31, high=2**31 - 1), ((128,), np.bool_), lambda a: a + np.int32(2**30) > a)
def signed_overflow_wraps(A: T.Buffer((128,), "int32"), B: T.Buffer((128,), "bool")):
    T.device_entry()
    tx = T.thread_id([128])
    B[tx] = A[tx] + 2**30 > A[tx]


@case(ints((64,), dtype=np.int64, low=-2**40, high=2**40), ((64,), np.int64), lambda a: (a << 3) | (a & 0xFF) ^ ~a)
def bits(A: T.Buffer((64,), "int64"), B: T.Buffer((64,), "int64")):
    T.device_entry()
    tx = T.thread_id([64])
    a = A[tx]
    B[tx] = (a << 3) | (a & 0xFF) ^ ~a


def _casts(a: np.ndarray) -> np.ndarray:
    return np.clip(np.trunc(np.nan_to_num(a.astype(np.float64) * 100, nan=0.0)), -128, 127).astype(np.int8)


@case(lambda rng: [np.concatenate([rng.standard_normal(125), [np.nan, np.inf, -np.inf]]).astype(F32)], ((128,), np.int8), _casts)
def casts_saturate(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "int8")):
    T.device_entry()
    tx = T.thread_id([128])
    B[tx] = (A[tx] * 100.0).astype("int8")


@case(floats((128,), dtype=np.float16), ((128,), np.float16), lambda a: a * np.float16(0.5) + a, tolerance=2e-3)
def half_precision(A: T.Buffer((128,), "float16"), B: T.Buffer((128,), "float16")):
    T.device_entry()
    tx = T.thread_id([128])
    B[tx] = A[tx] * 0.5 + A[tx]


@case(floats((128,), dtype=ml_dtypes.bfloat16), ((128,), ml_dtypes.bfloat16),
      lambda a: (a.astype(F32) * F32(1.5)).astype(ml_dtypes.bfloat16), tolerance=1e-2)
def brain_float(A: T.Buffer((128,), "bfloat16"), B: T.Buffer((128,), "bfloat16")):
    T.device_entry()
    tx = T.thread_id([128])
    x = A[tx].astype("float32")
    B[tx] = (x * 1.5).astype("bfloat16")


@case(floats((128,)), ((128,), F32), lambda a: np.exp(a) + np.sqrt(np.abs(a)) + np.tanh(a) + np.log(np.abs(a) + 1) + np.sin(a) * np.cos(a),
      tolerance=1e-5)
def math_functions(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    T.device_entry()
    tx = T.thread_id([128])
    x = A[tx]
    B[tx] = T.exp(x) + T.sqrt(T.abs(x)) + T.tanh(x) + T.log(T.abs(x) + 1.0) + T.sin(x) * T.cos(x)


@case(floats((128,)), ((128,), F32), lambda a: np.where((a > 0) & (a < 1) | ~(a > -1), a, -a))
def logic(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    T.device_entry()
    tx = T.thread_id([128])
    x = A[tx]
    B[tx] = T.select((x > 0.0) & (x < 1.0) | ~(x > -1.0), x, -x)


@case(floats((128,)), ((128,), np.uint32), lambda a: a.view(np.uint32) >> np.uint32(23))
def reinterpret_bits(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "uint32")):
    T.device_entry()
    tx = T.thread_id([128])
    B[tx] = T.reinterpret("uint32", A[tx]) >> 23


@case(floats((64,)), ((64,), np.float64), lambda a, i, q, u, b: a.astype(np.float64) * i + q + u if b else a.astype(np.float64),
      scalars=(-3, 2**33, 200, True))
def scalar_parameters(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float64"), i: T.int32, q: T.int64, u: T.uint8, flag: T.bool):
    T.device_entry()
    tx = T.thread_id([64])
    x = A[tx].astype("float64")
    with T.If(flag):
        B[tx] = x * i + q + u
    with T.Else():
        B[tx] = x


# ---------------------------------------------------------------------- values are what they were when written

def _reversed_pairs(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1, 2)[:, ::-1].reshape(-1)


@case(ints((256,)), ((256,), np.int32), _reversed_pairs)
def swap(A: T.Buffer((256,), "int32"), B: T.Buffer((256,), "int32")):
    T.device_entry()
    tx = T.thread_id([128])
    r = T.alloc_local((2,), "int32")
    r[0] = A[2 * tx]
    r[1] = A[2 * tx + 1]
    r[0], r[1] = r[1], r[0]
    B[2 * tx] = r[0]
    B[2 * tx + 1] = r[1]


@case(ints((64,)), ((64,), np.int32), lambda a: a * 2 + 1)
def old_value_of_a_cell(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    T.device_entry()
    tx = T.thread_id([64])
    x = T.local_scalar("int32", A[tx])
    before = x + 0
    x += 1
    B[tx] = before + x


# ---------------------------------------------------------------------- control flow

@case(floats((256,)), ((256,), F32), lambda a: np.where(np.arange(256) % 4 == 0, a, np.where(a > 0, a * 2, np.where(a < -1, F32(-1), F32(0)))))
def elif_chain(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    T.device_entry()
    tx = T.thread_id([256])
    with T.If(tx % 4 == 0):
        B[tx] = A[tx]
    with T.Elif(A[tx] > 0.0):
        B[tx] = A[tx] * 2.0
    with T.Elif(A[tx] < -1.0):
        B[tx] = -1.0
    with T.Else():
        B[tx] = 0.0


@case(ints((32,), low=0, high=100), ((32,), np.int32), lambda a: np.array([sum(k for k in range(0, x, 3) if k != 6) for x in a], np.int32))
def loops_and_continue(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    T.device_entry()
    tx = T.thread_id([32])
    total = T.local_scalar("int32", 0)
    for k in T.serial(0, A[tx], 3):
        with T.If(k == 6):
            T.continue_()
        total += k
    B[tx] = total


@case(ints((32,), low=1, high=60), ((32,), np.int32), lambda a: np.array([next(k for k in range(100) if k * k > x) for x in a], np.int32))
def search_and_break(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    T.device_entry()
    tx = T.thread_id([32])
    B[tx] = -1
    for k in T.serial(100):
        with T.If(k * k > A[tx]):
            B[tx] = k
            T.break_()


@case(ints((64,)), ((64,), np.int32), lambda a: np.array([a[63 - i] + sum(range(10, 0, -3)) for i in range(64)], np.int32))
def downwards(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    T.device_entry()
    tx = T.thread_id([64])
    total = T.local_scalar("int32", 0)
    for k in T.serial(10, 0, -3):
        total += k
    B[tx] = A[63 - tx] + total


@case(ints((300,)), ((300,), np.int32), lambda a: np.where(np.arange(300) < 300, -a, 0))
def early_return(A: T.Buffer((300,), "int32"), B: T.Buffer((300,), "int32")):
    T.device_entry()
    bx = T.cta_id([3])
    tx = T.thread_id([128])
    i = bx * 128 + tx
    with T.If(i >= 300):
        T.return_()
    B[i] = -A[i]


def _collatz(a: np.ndarray) -> np.ndarray:
    def steps(x: int) -> int:
        count = 0
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            count += 1
        return count
    return np.array([steps(int(x)) for x in a], np.int32)


@case(ints((64,), low=1, high=500), ((64,), np.int32), _collatz)
def collatz(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    T.device_entry()
    tx = T.thread_id([64])
    x = T.local_scalar("int32", A[tx])
    count = T.local_scalar("int32", 0)
    with T.While(lambda: x != 1):
        with T.If(x % 2 == 0):
            x //= 2
        with T.Else():
            x.assign(3 * x + 1)
        count += 1
    B[tx] = count


@case(ints((4, 8)), ((8, 4), np.int32), lambda a: a.T)
def grid_loops(A: T.Buffer((4, 8), "int32"), B: T.Buffer((8, 4), "int32")):
    T.device_entry()
    T.thread_id([1])
    for i, j in T.grid(4, 8):
        B[j, i] = A[i, j]


@case(floats((100,)), ((128,), F32), lambda a: np.concatenate([a, np.full(28, F32(0.5))]))
def guarded_load(A: T.Buffer((100,), "float32"), B: T.Buffer((128,), "float32")):
    T.device_entry()
    tx = T.thread_id([128])
    B[tx] = T.if_then_else(tx < 100, A[tx], 0.5)


# ---------------------------------------------------------------------- memory

@case(floats((4, 128)), ((4, 128), F32), lambda a: a[:, ::-1])
def reverse_in_shared(A: T.Buffer((4, 128), "float32"), B: T.Buffer((4, 128), "float32")):
    T.device_entry()
    bx = T.cta_id([4])
    tx = T.thread_id([128])
    tile = T.alloc_shared((128,), "float32")
    tile[tx] = A[bx, tx]
    T.cuda.cta_sync()
    B[bx, tx] = tile[127 - tx]


@case(floats((64, 4)), ((64, 4), F32), lambda a: a[:, ::-1])
def registers(A: T.Buffer((64, 4), "float32"), B: T.Buffer((64, 4), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    r = T.alloc_local((4,), "float32")
    for k in T.unroll(4):
        r[k] = A[tx, k]
    for k in T.unroll(4):
        B[tx, k] = r[3 - k]


@case(floats((256,)), ((256,), F32), lambda a: a * F32(2) + F32(1))
def vector_moves(A: T.Buffer((256,), "float32", align=16), B: T.Buffer((256,), "float32", align=16)):
    T.device_entry()
    tx = T.thread_id([64])
    v = A.vload([tx * 4], dtype="float32x4")
    B.vstore([tx * 4], v * 2.0 + 1.0)


@case(floats((256,)), ((64,), F32), lambda a: a.reshape(64, 4)[:, 0] + a.reshape(64, 4)[:, 3])
def vector_lanes(A: T.Buffer((256,), "float32", align=16), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    v = A.vload([tx * 4], dtype="float32x4")
    B[tx] = v[0] + v[3]


@case(floats((256,)), ((256,), F32), lambda a: a + a)
def vectorized_loop(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    for k in T.vectorized(4):
        B[tx * 4 + k] = A[tx * 4 + k] + A[tx * 4 + k]


@case(floats((64,)), ((64,), F32), lambda a: a + a[0])
def shared_scalar(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    first = T.shared_scalar("float32")
    with T.If(tx == 0):
        first.assign(A[0])
    T.cuda.cta_sync()
    B[tx] = A[tx] + first


@case(ints((64,), (64,), low=0, high=64), ((64,), np.int32), lambda a, i: a[i])
def gather(A: T.Buffer((64,), "int32"), I: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):  # noqa: E741
    T.device_entry()
    tx = T.thread_id([64])
    B[tx] = A[I[tx]]


# ---------------------------------------------------------------------- threads

@case(floats((64,)), ((64,), F32), lambda a: np.repeat(a.reshape(2, 32).max(1), 32))
def warp_max(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    value = A[tx]
    for distance in (16, 8, 4, 2, 1):
        value = T.max(value, T.cuda.shfl_xor_sync(0xFFFFFFFF, value, distance))
    B[tx] = value


@case(ints((32,)), ((32,), np.int32), lambda a: np.cumsum(a).astype(np.int32))
def warp_scan(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    T.device_entry()
    lane = T.lane_id([32])
    x = T.local_scalar("int32", A[lane])
    for distance in (1, 2, 4, 8, 16):
        below = T.cuda.shfl_up_sync(0xFFFFFFFF, x, distance)
        with T.If(lane >= distance):
            x += below
    B[lane] = x


@case(ints((128,)), ((128,), np.int32), lambda a: a.reshape(4, 32)[:, np.arange(32) // 8 * 8 + 3].reshape(-1) + np.repeat(np.arange(4), 32))
def warps_and_lanes(A: T.Buffer((128,), "int32"), B: T.Buffer((128,), "int32")):
    T.device_entry()
    warp = T.warp_id([4])
    lane = T.lane_id([32])
    x = T.cuda.shfl_sync(0xFFFFFFFF, A[warp * 32 + lane], 3, width=8)
    B[warp * 32 + lane] = x + warp


@case(ints((2, 3, 4, 5)), ((2, 3, 4, 5), np.int32), lambda a: a + 1)
def three_dimensions(A: T.Buffer((2, 3, 4, 5), "int32"), B: T.Buffer((2, 3, 4, 5), "int32")):
    T.device_entry()
    bx, by = T.cta_id([3, 2])
    tx, ty = T.thread_id([5, 4])
    B[by, bx, ty, tx] = A[by, bx, ty, tx] + 1


# ---------------------------------------------------------------------- atomics, votes, bits

@case(ints((4, 64), low=0, high=16), ((16,), np.int32), lambda a: np.bincount(a.reshape(-1), minlength=16).astype(np.int32))
def histogram(A: T.Buffer((4, 64), "int32"), B: T.Buffer((16,), "int32")):
    T.device_entry()
    tx = T.thread_id([64])
    counts = T.alloc_shared((16,), "int32")
    with T.If(tx < 16):
        counts[tx] = 0
        B[tx] = 0
    T.cuda.cta_sync()
    for row in T.serial(4):
        T.cuda.atomic_add(counts.ptr_to([A[row, tx]]), 1)
    T.cuda.cta_sync()
    with T.If(tx < 16):
        T.cuda.atomic_add(B.ptr_to([tx]), counts[tx])


@case(ints((256,), dtype=np.uint32, low=0, high=2**32), ((8,), np.uint32), lambda a: np.array(
    [a.sum(dtype=np.uint32), -a.sum(dtype=np.uint32), a.min(), a.max(), np.bitwise_and.reduce(a | 1), np.bitwise_or.reduce(a & 0xFFFF),
     np.bitwise_xor.reduce(a), 256 % 7]))
def atomics(A: T.Buffer((256,), "uint32"), B: T.Buffer((8,), "uint32")):
    T.device_entry()
    tx = T.thread_id([256])
    with T.If(tx < 8):
        B[tx] = T.select((tx == 2) | (tx == 4), T.uint32(0xFFFFFFFF), T.uint32(0))
    T.cuda.cta_sync()
    a = A[tx]
    T.cuda.atomic_add(B.ptr_to([0]), a)
    T.cuda.atomic_sub(B.ptr_to([1]), a, scope="block")
    T.cuda.atomic_min(B.ptr_to([2]), a)
    T.cuda.atomic_max(B.ptr_to([3]), a, scope="system")
    T.cuda.atomic_and(B.ptr_to([4]), a | 1)
    T.cuda.atomic_or(B.ptr_to([5]), a & 0xFFFF)
    T.cuda.atomic_xor(B.ptr_to([6]), a)
    T.cuda.atomic_inc(B.ptr_to([7]), 6)


@case(ints((128,), dtype=np.int64, low=-2**62, high=2**62), ((6,), np.int64), lambda a: np.array(
    [a.sum(), a.min(), a.max(), np.bitwise_and.reduce(a), np.bitwise_or.reduce(a), np.bitwise_xor.reduce(a)]))
def wide_atomics(A: T.Buffer((128,), "int64"), B: T.Buffer((6,), "int64")):
    T.device_entry()
    tx = T.thread_id([128])
    with T.If(tx < 6):
        B[tx] = T.select((tx == 1) | (tx == 2), A[0], T.select(tx == 3, T.int64(-1), T.int64(0)))
    T.cuda.cta_sync()
    for k, name in enumerate(("add", "min", "max", "and", "or", "xor")):
        getattr(T.cuda, f"atomic_{name}")(B.ptr_to([k]), A[tx])


def _float_atomics(dtype: str) -> Any:
    """Sums of whole numbers, which every order gives exactly."""
    def float_atomics(A: T.Buffer((64,), dtype), B: T.Buffer((2,), dtype)):
        T.device_entry()
        tx = T.thread_id([64])
        total = T.shared_scalar(dtype)
        with T.If(tx == 0):
            total.assign(0.0)
            B[1] = 0.0
        T.cuda.cta_sync()
        T.cuda.atomic_add(T.address_of(total), A[tx])
        T.cuda.atomic_add(B.ptr_to([1]), A[tx])
        T.cuda.cta_sync()
        with T.If(tx == 0):
            B[0] = total
    float_atomics.__name__ = f"{dtype}_atomics"
    return float_atomics


for _dtype, _storage in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16), ("float32", F32), ("float64", np.float64)):
    case(ints((64,), dtype=_storage, low=-2, high=3), ((2,), _storage), lambda a: np.full(2, a.astype(F32).sum()))(_float_atomics(_dtype))


@case(floats((3,)), ((2,), np.uint32), lambda a: np.array([0, 1024], np.uint32))
def subnormal_sums(A: T.Buffer((3,), "float32"), bits: T.Buffer((2,), "uint32")):
    """float32 sums flush subnormals in global memory, and do not in shared memory."""
    T.device_entry()
    T.thread_id([1])
    total = T.shared_scalar("float32", 0.0)
    tiny = T.cuda.uint_as_float(T.cuda.float_as_uint(A[0]) * 0 + 512)       # 2**-140, unknown to the compiler
    B = bits.view("float32")
    B[0] = tiny
    for _ in T.serial(2):
        T.cuda.atomic_add(T.address_of(total), tiny)
        T.cuda.atomic_add(B.ptr_to([0]), tiny)
    B[1] = total


@case(ints((256,)), ((257,), np.int32), lambda a: np.concatenate([np.ones(256), [256]]).astype(np.int32))
def slots(A: T.Buffer((256,), "int32"), B: T.Buffer((257,), "int32")):
    """Each thread draws a number of its own."""
    T.device_entry()
    tx = T.thread_id([256])
    drawn = T.shared_scalar("int32")
    with T.If(tx == 0):
        drawn.assign(0)
    B[tx] = A[tx] * 0
    T.cuda.cta_sync()
    slot = T.cuda.atomic_add(T.address_of(drawn), 1)
    T.cuda.atomic_add(B.ptr_to([slot]), 1)
    T.cuda.cta_sync()
    with T.If(tx == 0):
        B[256] = drawn


@case(ints((64,)), ((2,), np.uint32), lambda a, n: np.array([n + 64, a[np.arange(n) % 64].sum()]).astype(np.uint32), scalars=(200,))
def work_queue(A: T.Buffer((64,), "int32"), B: T.Buffer((2,), "uint32"), n: T.uint32):
    """Threads draw numbers below n until there are none; who draws which is not said, the sum of what they stand for is."""
    T.device_entry()
    tx = T.thread_id([64])
    with T.If(tx < 2):
        B[tx] = 0
    T.cuda.cta_sync()
    drawn = T.local_scalar("uint32", T.cuda.atomic_add(B.ptr_to([0]), 1))
    with T.While(lambda: drawn < n):
        T.cuda.atomic_add(B.ptr_to([1]), A[(drawn % 64).astype("int32")].astype("uint32"))
        drawn.assign(T.cuda.atomic_add(B.ptr_to([0]), 1))


@case(floats((128,)), ((), F32), lambda a: a.max())
def maximum_by_exchange(A: T.Buffer((128,), "float32"), B: T.Buffer((), "float32")):
    """A float maximum, for which there is no instruction: compare and swap until it holds."""
    T.device_entry()
    tx = T.thread_id([128])
    best = T.shared_scalar("uint32")
    with T.If(tx == 0):
        best.assign(T.cuda.float_as_uint(A[0]))
    T.cuda.cta_sync()
    seen = T.local_scalar("uint32", T.cuda.atomic_add(T.address_of(best), 0))      # a plain load would race with the exchanges
    mine = A[tx]
    with T.While(lambda: T.cuda.uint_as_float(+seen) < mine):
        found = T.cuda.atomic_cas(T.address_of(best), seen, T.cuda.float_as_uint(mine))
        with T.If(found == seen):
            T.break_()
        seen.assign(found)
    T.cuda.cta_sync()
    with T.If(tx == 0):
        B[()] = T.cuda.uint_as_float(best)


@case(ints((8, 64)), ((10,), np.int32), lambda a: np.concatenate([a.sum(1), [7, a.sum()]]).astype(np.int32))
def sum_by_the_last_block(A: T.Buffer((8, 64), "int32"), B: T.Buffer((10,), "int32")):
    """B[8] counts blocks, whatever it held before; the last one to come adds the sums of all."""
    T.device_entry()
    bx, tx = T.cta_id([8]), T.thread_id([64])
    scratch = T.alloc_shared((2,), "int32")
    arrived = T.shared_scalar("uint32")
    total = T.cuda.cta_sum(A[bx, tx], 2, scratch.ptr_to([0]))
    with T.If(tx == 0):
        B[bx] = total
        T.cuda.thread_fence()
        arrived.assign(T.cuda.atomic_inc(B.view("uint32").ptr_to([8]), 7))
    T.cuda.cta_sync()
    with T.If((arrived == 6) & (tx == 0)):
        T.cuda.thread_fence()
        whole = T.local_scalar("int32", 0)
        for block in T.serial(8):
            whole += T.cuda.ldcg(B.ptr_to([block]), "int32")
        B[9] = whole


@case(ints((64,), low=-5, high=5), ((64,), np.int32), lambda a: np.concatenate([
    np.concatenate([w[w > 0], np.zeros((w <= 0).sum())]) for w in a.reshape(2, 32)]).astype(np.int32))
def compaction(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    """The positive values of each warp, in order."""
    T.device_entry()
    warp, lane = T.warp_id([2]), T.lane_id([32])
    value = A[warp * 32 + lane]
    chosen = T.cuda.ballot_sync(0xFFFFFFFF, value > 0)
    B[warp * 32 + lane] = 0
    T.cuda.warp_sync()
    below = T.cuda.popc(chosen & ((T.uint32(1) << lane) - 1))
    with T.If(value > 0):
        B[warp * 32 + below] = value


@case(ints((64,), low=0, high=4), ((64, 5), np.uint32), lambda a: np.stack([
    np.concatenate([[sum(1 << int(k) for k in np.flatnonzero(w == x)) for x in w] for w in a.reshape(2, 32)]),
    np.where(np.repeat((a.reshape(2, 32) == a.reshape(2, 32)[:, :1]).all(1), 32), 0xFFFFFFFF, 0),
    np.repeat((a.reshape(2, 32) == 3).any(1), 32), np.repeat((a.reshape(2, 32) < 4).all(1), 32), np.full(64, 0xFFFFFFFF)], axis=1))
def votes(A: T.Buffer((64,), "int32"), B: T.Buffer((64, 5), "uint32")):
    T.device_entry()
    tx = T.thread_id([64])
    a = A[tx]
    B[tx, 0] = T.cuda.match_any_sync(0xFFFFFFFF, a)
    B[tx, 1] = T.cuda.match_all_sync(0xFFFFFFFF, a)
    B[tx, 2] = T.cuda.any_sync(0xFFFFFFFF, a == 3).astype("uint32")
    B[tx, 3] = T.cuda.all_sync(0xFFFFFFFF, a < 4).astype("uint32")
    B[tx, 4] = T.cuda.activemask()


@case(ints((64,), low=-2**31, high=2**31), ((8, 2), np.int32), lambda a: np.stack([np.array(
    [w.sum(dtype=np.int32), w.min(), w.max(), w.view(np.uint32).min().view(np.int32), w.view(np.uint32).max().view(np.int32),
     np.bitwise_and.reduce(w | 5), np.bitwise_or.reduce(w & 10), np.bitwise_xor.reduce(w)]) for w in a.reshape(2, 32)], axis=1))
def warp_reductions(A: T.Buffer((64,), "int32"), B: T.Buffer((8, 2), "int32")):
    T.device_entry()
    warp, lane = T.warp_id([2]), T.lane_id([32])
    a = A[warp * 32 + lane]
    u = a.astype("uint32")
    everyone = 0xFFFFFFFF
    found = [T.cuda.reduce_add_sync_i32(everyone, a), T.cuda.reduce_min_sync_i32(everyone, a), T.cuda.reduce_max_sync_i32(everyone, a),
             T.cuda.reduce_min_sync_u32(everyone, u), T.cuda.reduce_max_sync_u32(everyone, u), T.cuda.reduce_and_sync_u32(everyone, u | 5),
             T.cuda.reduce_or_sync_u32(everyone, u & 10), T.cuda.reduce_xor_sync_u32(everyone, u)]
    with T.If(lane == 3):
        for k, value in enumerate(found):
            B[k, warp] = value.astype("int32")


@case(ints((96,)), ((96, 2), np.int32), lambda a: np.stack([a, np.where(np.arange(96) % 32 < 5, 0, a)], axis=1))
def elected(A: T.Buffer((96,), "int32"), B: T.Buffer((96, 2), "int32")):
    """Of each group of lanes one is elected, whichever it is: times the number of those elected is times 1."""
    T.device_entry()
    tx = T.thread_id([96])
    B[tx, 0] = A[tx] * T.cuda.popc(T.cuda.ballot_sync(0xFFFFFFFF, T.cuda.elect_sync()))
    B[tx, 1] = 0
    with T.If(tx % 32 >= 5):
        B[tx, 1] = A[tx] * T.cuda.popc(T.cuda.ballot_sync(0xFFFFFFE0, T.cuda.elect_sync(0xFFFFFFE0)))


def _words_expected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of uint32 `a` and `b`, one thread at a time."""
    rows = []
    for x, y in zip(a.tolist(), b.tolist()):
        eight, both, by = x.to_bytes(4, "little") + y.to_bytes(4, "little"), y << 32 | x, y % 37
        dot = sum(p * q for p, q in zip(x.to_bytes(4, "little"), y.to_bytes(4, "little")))
        signed = sum(((p ^ 128) - 128) * ((q ^ 128) - 128) for p, q in zip(x.to_bytes(4, "little"), y.to_bytes(4, "little")))
        rows.append([x.bit_count(), 32 - x.bit_length(), (x & -x).bit_length(), int(f"{x:032b}"[::-1], 2),
                     int.from_bytes(bytes(eight[y >> 4 * k & 7] for k in range(4)), "little"),
                     both << (by & 31) >> 32, both << min(by, 32) >> 32, both >> (by & 31), both >> min(by, 32), dot + y, signed + y,
                     both.bit_count(), 64 - both.bit_length(), (both & -both).bit_length(), int(f"{both:064b}"[::-1], 2) >> 32])
    return (np.array(rows, object) & 0xFFFFFFFF).astype(np.uint32)


@case(lambda rng: [rng.integers(0, 2**32, 64).astype(np.uint32) >> rng.integers(0, 32, 64).astype(np.uint32) for _ in range(2)],
      ((64, 15), np.uint32), _words_expected)
def words(A: T.Buffer((64,), "uint32"), B: T.Buffer((64,), "uint32"), C: T.Buffer((64, 15), "uint32")):
    T.device_entry()
    tx = T.thread_id([64])
    x, y = A[tx], B[tx]
    both, by = y.astype("uint64") << 32 | x.astype("uint64"), y % 37
    found = [T.cuda.popc(x), T.cuda.clz(x), T.cuda.ffs(x), T.cuda.brev(x), T.cuda.byte_perm(x, y, y),
             T.cuda.funnelshift_l(x, y, by), T.cuda.funnelshift_lc(x, y, by), T.cuda.funnelshift_r(x, y, by), T.cuda.funnelshift_rc(x, y, by),
             T.cuda.dp4a(x, y, y), T.cuda.dp4a(x.astype("int32"), y.astype("int32"), y.astype("int32")),
             T.cuda.popc(both), T.cuda.clz(both), T.cuda.ffs(both.astype("int64")), T.cuda.brev(both) >> 32]
    for k, value in enumerate(found):
        C[tx, k] = value.astype("uint32")


@case(floats((64,), (64,)), ((64,), F32), lambda a, b: a / b, tolerance=1e-6)
def fast_division(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    C[tx] = T.cuda.fdividef(A[tx], B[tx])


@case(floats((64,)), ((64,), F32), lambda a: (a + a + a + a + a + a) * F32(-2))
def cache_hints(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    place = A.ptr_to([tx])
    total = T.cuda.ldg(place, "float32")
    for load in (T.cuda.ldca, T.cuda.ldcg, T.cuda.ldcs, T.cuda.ldlu, T.cuda.ldcv):
        total = total + load(place, "float32")
    for store in (T.cuda.stwb, T.cuda.stcg, T.cuda.stcs, T.cuda.stwt):
        store(B.ptr_to([tx]), total)
        total = T.cuda.ldcv(B.ptr_to([tx]), "float32") * (-2.0 if store is T.cuda.stcs else 1.0)


@case(ints((64,), dtype=np.int64), ((64,), np.int64), lambda a: a + 1)
def clocks_and_fences(A: T.Buffer((64,), "int64"), B: T.Buffer((64,), "int64")):
    """Time does not run backwards."""
    T.device_entry()
    tx = T.thread_id([64])
    start = T.cuda.clock64()
    T.cuda.nano_sleep(20)
    B[tx] = A[tx]
    T.cuda.thread_fence_block()
    T.cuda.thread_fence_system()
    B[tx] = B[tx] + T.select(T.cuda.clock64() >= start, T.int64(1), T.int64(0))


# ---------------------------------------------------------------------- extents

@case(floats((11,)), ((5,), F32), lambda a: a[1::2])
def affine_extents(A: T.Buffer((2 * sympy.Symbol("n") + 1,), "float32"), B: T.Buffer(("n",), "float32")):
    n = T.int32()
    T.device_entry()
    tx = T.thread_id([1])
    for i in T.serial(n):
        B[i] = A[2 * i + 1 + tx]


@case(floats((3, 64)), ((64, 3), F32), lambda a: a.T)
def two_extents(A_ptr: T.handle, B_ptr: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(A_ptr, (n, m), "float32")
    B = T.match_buffer(B_ptr, (m, n), "float32")
    T.assume(m % 16 == 0)
    T.device_entry()
    bx = T.cta_id([m // 16])
    tx = T.thread_id([16])
    col = T.let(bx * 16 + tx)
    for row in T.serial(n):
        B[col, row] = A[row, col]


@case(floats((1000,)), ((1000,), F32), lambda a: a * F32(2))
def wide_extent(A_ptr: T.handle, B_ptr: T.handle):
    n = T.int64()
    A = T.match_buffer(A_ptr, (n,), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    T.device_entry()
    tx = T.thread_id([32])
    for i in T.serial(tx, n, 32):
        B[i] = A[i] * 2.0


@case(floats((192,)), ((192,), F32), lambda a: a * F32(2), N=192)
def compile_time(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32"), *, N: T.constexpr):  # noqa: F821
    T.device_entry()
    tx = T.thread_id([N])
    B[tx] = A[tx] * 2.0


@case(floats((7,)), ((), F32), lambda a: a.sum(dtype=F32), tolerance=1e-6)
def zero_dimensions(A: T.Buffer((7,), "float32"), B: T.Buffer((), "float32")):
    T.device_entry()
    T.thread_id([1])
    total = T.local_scalar("float32", 0.0)
    for i in T.serial(7):
        total += A[i]
    B[()] = total


# Kernels that are printed and compiled but that the simulator or a plain launch does not run.

def external_function(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    B[tx] = T.cuda.func_call("twice", A.ptr_to([tx]), 1.5, return_type="float32",
                             source_code="__device__ __forceinline__ float twice(const float* p, float s) { return 2.0f * *p * s; }")


def clusters(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    T.device_entry()
    cid = T.cluster_id([8])
    rank = T.cta_id_in_cluster([2])
    tx = T.thread_id([64])
    B[(cid * 2 + rank) * 64 + tx] = A[tx]


ONLY_PRINTED = [external_function, clusters]
