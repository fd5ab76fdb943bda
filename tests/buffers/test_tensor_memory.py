"""Tensor memory through its whole life: allocated by one warp, written and read by four, freed; simulated, and compiled for sm_100a."""

import ml_dtypes
import numpy as np
import pytest

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


KERNELS = {kernel.__name__: trace(kernel) for kernel in (columns, by_hand)}


@pytest.mark.parametrize(("name", "dtype", "width", "turned"), [
    ("columns", np.float32, 16, [*range(8, 16), *range(8)]), ("by_hand", ml_dtypes.bfloat16, 8, [6, 7, 4, 5, 2, 3, 0, 1])])
def test_there_and_back(name, dtype, width, turned):
    a = np.random.default_rng(0).standard_normal((128, width)).astype(dtype)
    b = np.zeros_like(a)
    KERNELS[name].simulate(a, b)
    assert np.array_equal(b, a[:, turned])
    assert KERNELS[name].minimum_arch == "sm_100a"


@needs_nvcc
def test_they_compile(tmp_path):
    made = cubin(one_unit(kernel.cuda_source(locations=False) for kernel in KERNELS.values()), tmp_path, ["sm_100a"])
    assert made["sm_100a"].stat().st_size > 0
