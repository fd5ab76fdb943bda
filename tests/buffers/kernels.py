"""Kernels that between them use every scope, view and vector width, each with the result that plain NumPy gives.

`CASES` is the table; `external` are kernels that call the author's own device functions, which only a GPU runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from symbolic.layout.axes import laneid
from symbolic.layout.notation import S
from symbolic.layout.swizzle import ComposeLayout
from symbolic.layout.tile import TileLayout
from tests.kernels import Case, floats, ints
from tracer import T

F16, F32, U32 = np.float16, np.float32, np.uint32
CASES: list[Case] = []
EXTERNAL: list[Case] = []


def case(inputs: Any, output: Any, expected: Callable[..., np.ndarray], table: list[Case] = CASES, name: str = "", **constants: Any) -> Any:
    """Add the decorated function to a table."""
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        table.append(Case(name or fn.__name__, fn, inputs, output, expected, (), tuple(constants.items())))
        return fn
    return add


# ---- scopes ------------------------------------------------------------------------------------------------------------

@case(floats((128,)), ((128,), F32), lambda a: a[::-1] * F32(2))
def static_shared(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    T.device_entry()
    tx = T.thread_id([128])
    sm = T.alloc_shared((128,), "float32")
    sm[tx] = A[tx]
    T.cuda.cta_sync()
    B[tx] = sm[127 - tx] * 2.0


@case(floats((64,), (64,)), ((64,), F32), lambda a, b: a + b[::-1])
def dynamic_shared_views(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    smem = T.alloc_buffer((128,), "float32", scope="shared.dyn")
    As = T.decl_buffer((64,), "float32", data=smem.data, scope="shared.dyn")
    Bs = T.decl_buffer((64,), "float32", data=smem.data, elem_offset=64, scope="shared.dyn")
    As[tx] = A[tx]
    Bs[tx] = B[tx]
    T.cuda.cta_sync()
    C[tx] = As[tx] + Bs[63 - tx]


@case(floats((100,)), ((100,), F32), lambda a: a[::-1] + a)
def dynamic_shared_of_symbolic_size(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
    n = A.shape[0]
    T.device_entry()
    tx = T.thread_id([128])
    smem = T.alloc_buffer((2 * n,), "float32", scope="shared.dyn")
    low = T.decl_buffer((n,), "float32", data=smem.data)
    high = T.decl_buffer((n,), "float32", data=smem.data, elem_offset=n)
    with T.If(tx < n):
        low[tx] = A[tx]
        high[tx] = A[tx]
    T.cuda.cta_sync()
    with T.If(tx < n):
        B[tx] = high[n - 1 - tx] + low[tx]


@case(floats((128, 160)), ((128, 160), F32), lambda a: a[:, ::-1])
def dynamic_shared_beyond_48_kib(A: T.Buffer((128, 160), "float32"), B: T.Buffer((128, 160), "float32")):
    T.device_entry()
    tx = T.thread_id([160])
    tile = T.alloc_buffer((128, 160), "float32", scope="shared.dyn")
    for row in T.serial(128):
        tile[row, tx] = A[row, tx]
    T.cuda.cta_sync()
    for row in T.serial(128):
        B[row, tx] = tile[row, 159 - tx]


@case(floats((64, 4)), ((64, 4), F32), lambda a: a[:, ::-1])
def registers(A: T.Buffer((64, 4), "float32"), B: T.Buffer((64, 4), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    r = T.alloc_local((4,), "float32")
    for k in T.unroll(4):
        r[k] = A[tx, k]
    for k in T.unroll(4):
        B[tx, k] = r[3 - k]


@case(floats((64, 4)), ((64,), F32), lambda a: ((a[:, 0] + a[:, 1]) + a[:, 2]) + a[:, 3])
def scalars(A: T.Buffer((64, 4), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    phase = T.local_scalar("int32", 0)
    total = T.alloc_local((1,), "float32")
    first = T.shared_scalar("float32")
    total[0] = 0.0
    with T.If(tx == 0):
        first.assign(A[0, 0])
    T.cuda.cta_sync()
    with T.While(lambda: phase < 4):
        total[0] = total[0] + T.select(phase == 0, A[tx, phase] + (first - first), A[tx, phase])
        phase += 1
    B[tx] = total[0]


@case(floats((32, 8)), ((32, 8), F32), lambda a: np.roll(a, 3, axis=1))
def register_fragment(A: T.Buffer((32, 8), "float32"), B: T.Buffer((32, 8), "float32")):
    T.device_entry()
    lane = T.lane_id([32])
    T.warp_id([1])
    R = T.alloc_buffer((32, 8), "float32", scope="local", layout=TileLayout(S[(32, 8):(1 @ laneid, 1)]))
    flat = R.local()
    rows = R.local(2, 4)
    for k in T.unroll(8):
        flat[k] = A[lane, k]
    for i in T.unroll(2):
        for j in T.unroll(4):
            B[lane, (i * 4 + j + 3) % 8] = rows[i, j]


@case(floats((64,)), ((64,), F32), lambda a: a)
def shared_scalar_in_the_dynamic_array(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    chosen = T.alloc_scalar("int32", scope="shared.dyn")
    with T.If(tx == 7):
        chosen.assign(tx)
    T.cuda.cta_sync()
    B[(tx + chosen) % 64] = A[(tx + chosen) % 64]


# ---- views -------------------------------------------------------------------------------------------------------------

@case(floats((256,)), ((4, 64), F32), lambda a: a.reshape(64, 4).T + (a[0::4] + a[3::4]))
def view_and_permute(A: T.Buffer((256,), "float32"), B: T.Buffer((4, 64), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    A2 = A.view(64, 4)
    At = A2.permute(1, 0)
    y = A2[tx, 0] + A2[tx, 3]
    for j in T.serial(4):
        B[j, tx] = At[j, tx] + y


@case(floats((16, 16)), ((16, 16), F32), lambda a: a.T)
def view_with_a_layout(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    T.device_entry()
    i, j = T.thread_id([16, 16])
    B[i, j] = A.view(16, 16, layout=TileLayout(S[(16, 16):(1, 16)]))[i, j]


@case(ints((64, 4), dtype=U32, low=0, high=2**32), ((64, 8), U32), lambda a: a.view(np.uint16).astype(U32))
def view_as_a_narrower_dtype(A: T.Buffer((64, 4), "uint32"), B: T.Buffer((64, 8), "uint32")):
    T.device_entry()
    tx = T.thread_id([64])
    halves = A.view("uint16")
    for k in T.serial(8):
        B[tx, k] = halves[tx, k].astype("uint32")


@case(floats((64, 8), dtype=F16), ((64, 4), U32), lambda a: a.view(U32))
def view_as_a_wider_dtype(A: T.Buffer((64, 8), "float16"), B: T.Buffer((64, 4), "uint32")):
    T.device_entry()
    tx = T.thread_id([64])
    s = T.alloc_shared((64, 8), "float16")
    for k in T.serial(8):
        s[tx, k] = A[tx, k]
    words = s.view("uint32")
    for k in T.serial(4):
        B[tx, k] = words[tx, k]


@case(floats((64,), dtype=F16), ((64,), F32), lambda a: a.astype(F32)[::-1])
def aliases_of_several_dtypes(A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([16])
    arena = T.alloc_buffer((512,), "uint8", scope="shared.dyn")
    h = T.decl_buffer((64,), "float16", data=arena.data, byte_offset=128, scope="shared.dyn")
    v = T.decl_buffer((16,), "float32x4", data=arena.data, elem_offset=16)
    f = T.decl_buffer((64,), "float32", data=arena.data, elem_offset=64)
    h.vstore([tx * 4], A.vload([tx * 4], "float16x4"))
    v[tx] = h.vload([tx * 4], "float16x4").astype("float32x4")
    T.cuda.cta_sync()
    for k in T.serial(4):
        B[tx * 4 + k] = f[63 - tx * 4 - k]


@case(floats((64, 64)), ((64, 64), F32), lambda a: a.T)
def regions(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    T.device_entry()
    bx, by = T.cta_id([4, 4])
    i, j = T.thread_id([16, 16])
    tile = T.alloc_shared((2, 16, 17), "float32")
    source = A[bx * 16:bx * 16 + 16, by * 16:by * 16 + 16]
    target = B[by * 16:by * 16 + 16, bx * 16:bx * 16 + 16]
    stage = tile[1, 0:16, 0:16]
    stage[i, j] = source[i, j]
    T.cuda.cta_sync()
    target[i, j] = stage[j, i]


@case(floats((64, 4)), ((64, 4), F32), lambda a: a * F32(2))
def buffers_of_vectors(A: T.Buffer((64,), "float32x4"), B: T.Buffer((64,), "float32x4")):
    T.device_entry()
    tx = T.thread_id([64])
    r = T.alloc_local((1,), "float32x4")
    s = T.alloc_shared((64,), "float32x4")
    s[tx] = A[tx]
    r[0] = s[tx] * 2.0
    B[tx] = r[0]


# ---- vectors: every width, and every way in which lanes can lie -----------------------------------------------------------

WIDTHS = [("float32", 2), ("float32", 3), ("float32", 4), ("float32", 8), ("float16", 2), ("float16", 4), ("float16", 8), ("bfloat16", 8),
          ("int8", 4), ("int8", 16), ("uint8", 16), ("int16", 8), ("uint32", 4), ("int64", 2), ("float64", 2), ("float64", 4)]


def _numbers(dtype: str, count: int) -> Callable[[np.random.Generator], list[np.ndarray]]:
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    return lambda rng: [rng.integers(0, 100, (count,)).astype(kind)]


def vector_width(A: T.Buffer((32 * LANES,), DTYPE), B: T.Buffer((32 * LANES,), DTYPE), *, DTYPE: T.constexpr, LANES: T.constexpr):  # noqa: F821
    T.device_entry()
    tx = T.thread_id([32])
    tile = T.alloc_shared((32 * LANES,), DTYPE)
    tile.vstore([tx * LANES], A.vload([tx * LANES], f"{DTYPE}x{LANES}"))
    T.cuda.cta_sync()
    B.vstore([tx * LANES], tile.vload([(31 - tx) * LANES], f"{DTYPE}x{LANES}"))


for _dtype, _lanes in WIDTHS:
    case(_numbers(_dtype, 32 * _lanes), ((32 * _lanes,), np.dtype(getattr(ml_dtypes, _dtype, None) or _dtype)),
         lambda a, lanes=_lanes: a.reshape(32, lanes)[::-1].reshape(-1), name=f"vector_{_dtype}x{_lanes}", DTYPE=_dtype, LANES=_lanes)(vector_width)

LAYOUTS = {
    "row_major": None,
    "column_major": TileLayout(S[(16, 8):(1, 16)]),
    "padded": TileLayout(S[(16, 8):(12, 1)]),
    "shifted": TileLayout(S[(16, 8):(8, 1)] + 4),
    "tiled_4": TileLayout(S[(16, 2, 4):(4, 64, 1)]),
    "tiled_2": TileLayout(S[(16, 4, 2):(2, 32, 1)]),
    "swizzled_4": ComposeLayout(2, 1, 2, TileLayout(S[(16, 8):(8, 1)])),
    "swizzled_2": ComposeLayout(1, 1, 1, TileLayout(S[(16, 8):(8, 1)])),
    "swizzled_1": ComposeLayout(0, 2, 2, TileLayout(S[(16, 8):(8, 1)])),
}


def vector_in_a_layout(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16, 8), "float32"), *, LAYOUT: T.constexpr):
    T.device_entry()
    tx = T.thread_id([16])
    tile = T.alloc_shared((16, 8), "float32", layout=LAYOUT)
    tile.vstore([tx, 0], A.vload([tx, 0], "float32x4"))
    tile.vstore([tx, 4], A.vload([tx, 4], "float32x4") * 2.0)
    T.cuda.cta_sync()
    B.vstore([tx, 0], tile.vload([15 - tx, 0], "float32x4"))
    B.vstore([tx, 4], tile.vload([15 - tx, 4], "float32x4"))


for _name, _layout in LAYOUTS.items():
    case(floats((16, 8)), ((16, 8), F32), lambda a: (a * np.repeat(np.array([1, 2], F32), 4))[::-1], name=f"lanes_{_name}",
         LAYOUT=_layout)(vector_in_a_layout)


@case(floats((64, 64), dtype=F16), ((64, 64), F16), lambda a: np.concatenate([a.T[:, :32], a.T[:, 32:]], axis=1))
def swizzled_tile(A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float16")):
    T.device_entry()
    tx = T.thread_id([64])
    tile = T.alloc_shared((64, 64), "float16", layout=ComposeLayout(3, 3, 3, TileLayout(S[(64, 64):(64, 1)])), align=1024)
    for k in T.serial(8):
        tile.vstore([tx, k * 8], A.vload([tx, k * 8], "float16x8"))
    T.cuda.cta_sync()
    columns = tile.permute(1, 0)
    upper = tile[0:32, 0:64]
    for k in T.serial(32):
        B[tx, k] = upper[k, tx]
        B[tx, k + 32] = columns[tx, k + 32]


# ---- pointers ----------------------------------------------------------------------------------------------------------

_LOAD = "__device__ __forceinline__ float load_float(const float* p) { return *p; }"


@case(floats((64,)), ((64,), F32), lambda a: a + a[0] + np.roll(a, -4), table=EXTERNAL)
def pointers(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    element = T.cuda.func_call("load_float", A.ptr_to([tx]), source_code=_LOAD, return_type="float32")
    first = T.cuda.func_call("load_float", A.data, source_code=_LOAD, return_type="float32")
    behind = T.cuda.func_call("load_float", A.access_ptr("r", offset=(tx + 4) % 64), source_code=_LOAD, return_type="float32")
    B[tx] = element + first + behind


@case(floats((8, 32)), ((8, 32), F32), lambda a: a, table=EXTERNAL)
def pointers_into_a_swizzled_tile(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32")):
    T.device_entry()
    i, j = T.thread_id([8, 32])
    arena = T.alloc_buffer((1536,), "uint8", scope="shared.dyn")
    tile = T.decl_buffer((8, 32), "float32", data=arena.data, byte_offset=512, layout=ComposeLayout(2, 3, 3, TileLayout(S[(8, 32):(32, 1)])))
    tile[i, j] = A[i, j]
    T.cuda.cta_sync()
    B[i, j] = T.cuda.func_call("load_float", T.address_of(tile[i, j]), source_code=_LOAD, return_type="float32")
