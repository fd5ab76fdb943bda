"""Tensor memory through its whole life: allocated by one warp, written and read by four, freed; simulated, and compiled for sm_100a."""

import ml_dtypes
import numpy as np
import pytest

from symbolic.layout import tmem_datapath_layout, tmem_registers
from tests.nvcc import cubin, needs_nvcc, one_unit
from tracer import T, trace


def columns(A: T.Buffer((128, 16), "float32"), B: T.Buffer((128, 16), "float32")):
    """Rows of A go to lanes, and come back with their halves exchanged."""
    T.device_entry()
    tx = T.thread_id([128])
    pool = T.SMEMPool()
    tensors = T.TMEMPool(pool, total_cols=64, dealloc_warp=2)
    tensors.alloc((128, 16))
    acc = tensors.alloc((128, 16), "float32")
    pool.commit()
    tensors.commit()
    row, half = T.alloc_local((16,), "float32"), T.alloc_local((8,), "float32")
    for k in T.unroll(16):
        row[k] = A[tx, k]
    acc.store(row)
    T.ptx.tcgen05.wait__st.sync.aligned()
    for part in range(2):
        acc.load(half, 8 * (1 - part))
        T.ptx.tcgen05.wait__ld.sync.aligned()
        for k in T.unroll(8):
            B[tx, 8 * part + k] = half[k]
    tensors.dealloc()


def by_hand(A: T.Buffer((128, 8), "bfloat16"), B: T.Buffer((128, 8), "bfloat16")):
    """The same without the pool: an allocation of everything, its address in a slot; two elements of 16 bits a column."""
    T.device_entry()
    tx, warp = T.thread_id([128]), T.warp_id([4])
    slot = T.alloc_shared((1,), "uint32")
    with T.If(warp == 1):
        T.ptx.tcgen05.alloc(T.address_of(slot), n_cols=512, cta_group=1)
    T.cuda.cta_sync()
    tensor = T.decl_buffer((128, 1024), "bfloat16", scope="tmem", allocated_addr=slot)
    pairs = T.alloc_local((4,), "uint32")
    for k in T.unroll(4):
        pairs[k] = T.reinterpret("uint32", A.vload([tx, 2 * k], "bfloat16x2"))
    tensor.store(pairs, 40)
    T.ptx.tcgen05.wait__st.sync.aligned()
    back = T.alloc_local((4,), "uint32")
    T.ptx["tcgen05.ld.sync.aligned.32x32b.x4.b32"](back, tensor.tmem_address(warp * 32, 40))
    T.ptx.tcgen05.wait__ld.sync.aligned()
    for k in T.unroll(4):
        B.vstore([tx, 6 - 2 * k], T.reinterpret("bfloat16x2", back[k]))
    T.ptx.tcgen05.fence__before_thread_sync()
    T.cuda.cta_sync()
    with T.If(warp == 1):
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(slot[0], n_cols=512, cta_group=1)


CTA_M, ALLOC_WARP = 128, 0


def seed_by_hand(A: T.Buffer((128,), "uint32"), *, cta_group: T.constexpr = 1):
    """The allocation of the reference's pages, step by step; the addresses that it gives go to A."""
    T.device_entry()
    tx, warp_id = T.thread_id([128]), T.warp_id([4])
    tmem_layout = tmem_datapath_layout("D", CTA_M, 512)
    addr = T.alloc_shared((1,), "uint32")
    with T.If(warp_id == ALLOC_WARP):
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=512, cta_group=cta_group)
    acc = T.decl_buffer((CTA_M, 512), "float32", scope="tmem", allocated_addr=0, layout=tmem_layout)
    T.cuda.cta_sync()
    A[tx] = addr[0] + acc.tmem_address(warp_id * 32, 5)
    T.cuda.cta_sync()
    with T.If(warp_id == ALLOC_WARP):
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=cta_group)
        T.ptx.tcgen05.dealloc(addr[0], n_cols=512, cta_group=cta_group)


def seed_pool(A: T.Buffer((128,), "uint32"), *, cta_group: T.constexpr = 1):
    """The same by its pool."""
    T.device_entry()
    tx, warp_id = T.thread_id([128]), T.warp_id([4])
    pool = T.SMEMPool()
    tmem_addr = pool.alloc((1,), "uint32")
    tmem_pool = T.TMEMPool(pool, total_cols=512, cta_group=cta_group, tmem_addr=tmem_addr)
    acc = tmem_pool.alloc((CTA_M, 512), "float32")
    pool.commit()
    tmem_pool.commit()
    A[tx] = acc.tmem_address(warp_id * 32, 5)
    tmem_pool.dealloc()


def fragments(A: T.Buffer((128, 16), "float32"), B: T.Buffer((128, 16), "float32")):
    """Registers as the instruction's own layout names them: 16 lanes of 8 columns at a time."""
    T.device_entry()
    tx = T.thread_id([128])
    lane, warp = tx % 32, tx // 32
    pool = T.SMEMPool()
    tensors = T.TMEMPool(pool, total_cols=32)
    acc = tensors.alloc((128, 16))
    pool.commit()
    tensors.commit()
    row = T.alloc_local((16,), "float32")
    for k in T.unroll(16):
        row[k] = A[tx, k]
    acc.store(row)
    T.ptx.tcgen05.wait__st.sync.aligned()
    held = T.alloc_buffer((16, 16), "float32", scope="local", layout=tmem_registers("16x256b", 2))
    acc.load(held.local(), shape="16x256b")
    T.ptx.tcgen05.wait__ld.sync.aligned()
    mine = held.local(2, 2, 2)          # columns + 8, rows + 8, column pairs: PTX ISA 9.7.16.2.3.4
    for block, below, k in T.grid(2, 2, 2):
        B[warp * 32 + lane // 4 + 8 * below, lane % 4 * 2 + k + 8 * block] = mine[block, below, k]
    tensors.dealloc()


KERNELS = {kernel.__name__: trace(kernel) for kernel in (columns, by_hand, fragments)}
KERNELS |= {kernel.__name__: trace(kernel).specialize() for kernel in (seed_by_hand, seed_pool)}


@pytest.mark.parametrize(("name", "dtype", "width", "turned"), [
    ("columns", np.float32, 16, [*range(8, 16), *range(8)]), ("by_hand", ml_dtypes.bfloat16, 8, [6, 7, 4, 5, 2, 3, 0, 1])])
def test_there_and_back(name, dtype, width, turned):
    a = np.random.default_rng(0).standard_normal((128, width)).astype(dtype)
    b = np.zeros_like(a)
    KERNELS[name].simulate(a, b)
    assert np.array_equal(b, a[:, turned])
    assert KERNELS[name].minimum_arch == "sm_100a"


@pytest.mark.parametrize("name", ["seed_by_hand", "seed_pool"])
def test_the_allocations_of_the_seed(name):
    a = np.zeros(128, np.uint32)
    KERNELS[name].simulate(a)
    assert np.array_equal(a, (np.arange(128) // 32 * 32 << 16) + 5)


def test_registers_by_the_instructions_layout():
    a = np.random.default_rng(1).standard_normal((128, 16)).astype(np.float32)
    b = np.zeros_like(a)
    KERNELS["fragments"].simulate(a, b)
    halves = np.arange(128) % 32 < 16          # the instruction reaches 16 lanes
    assert np.array_equal(b[halves], a[halves]) and not b[~halves].any()


@needs_nvcc
def test_they_compile(tmp_path):
    made = cubin(one_unit(kernel.cuda_source(locations=False) for kernel in KERNELS.values()), tmp_path, ["sm_100a"])
    assert made["sm_100a"].stat().st_size > 0
