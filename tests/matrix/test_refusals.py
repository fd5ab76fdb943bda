"""What is refused about matrix instructions, in which words: at tracing, and by the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from symbolic.layout import mma_shared_layout
from tests.simulator.running import run
from tracer import T, errors, trace

WGMMA = "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16"


def registers(count=8, dtype="uint32"):
    return T.alloc_local((count,), dtype)


def tile(rows=64, columns=64, mode="128B"):
    layout = mma_shared_layout("bfloat16", mode, (rows, columns)) if mode else "default"
    return T.alloc_shared((rows, columns), "bfloat16", layout=layout, align=1024)


# ---- at tracing ------------------------------------------------------------------------------------------------------------------

def _mma_shape():
    T.ptx["mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"](*[registers()[0]] * 14)


def _mma_count():
    r, f = registers(), registers(4, "float32")
    T.ptx["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"](f, [r[i] for i in range(3)], [r[0], r[1]], f)


def _wgmma_int_width():
    T.ptx["wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8"](registers(20, "int32"), T.uint64(0), T.uint64(0), True)


def _wgmma_scale():
    T.ptx[WGMMA](registers(8, "float32"), T.uint64(0), T.uint64(0), True, 2)


def _wgmma_accumulator():
    T.ptx[WGMMA](registers(8, "uint32"), T.uint64(0), T.uint64(0), True)


def _wait_depth():
    T.ptx.wgmma.wait_group.sync.aligned(8)


def _pairs():
    T.ptx["tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32"](T.alloc_shared((1,), "uint32").ptr_to([0]), 32)


def _kind():
    r = registers()
    T.ptx["tcgen05.mma.cta_group::1.kind::f8f6f4"](r[0], T.uint64(0), T.uint64(0), r[1], True)


def _scaled_blocks():
    r = registers()
    T.ptx["tcgen05.mma.cta_group::1.kind::mxf4.block_scale"](r[0], T.uint64(0), T.uint64(0), r[1], True)


def _weight_stationary():
    T.ptx["tcgen05.mma.ws.cta_group::1.kind::f16"](registers()[0], T.uint64(0), T.uint64(0), T.uint32(0), True)


def _sparse():
    T.ptx["wgmma.mma_async.sp.sync.aligned.m64n16k32.f32.bf16.bf16"]()


def _no_width():
    T.ptx["wgmma.mma_async.sync.aligned.m64n260k16.f32.bf16.bf16"]()


def _half_an_accumulator():
    T.ptx["wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"](registers(64, "float32"), T.uint64(0), T.uint64(0), True)


def _many_registers():
    T.ptx["tcgen05.ld.sync.aligned.16x256b.x64.b32"](registers(256), registers(1)[0])


def _unswizzled():
    T.cuda.wgmma.descriptor(tile(mode=None).ptr_to([0, 0]))


def _wrong_major():
    T.cuda.wgmma.descriptor(tile(128, 128).ptr_to([0, 0]), major="M")


def _not_shared():
    T.cuda.wgmma.descriptor(T.alloc_local((64, 64), "bfloat16").ptr_to([0, 0]))


def _odd_row():
    T.cuda.wgmma.descriptor(tile().ptr_to([4, 0]), mn=32)


def _short():
    T.cuda.wgmma.descriptor(tile(32, 64).ptr_to([0, 0]), mn=64)


def _instruction_shape():
    T.cuda.tcgen05.instruction_descriptor("f32", "bf16", "bf16", 96, 64)


def _instruction_width():
    T.cuda.tcgen05.instruction_descriptor("f32", "bf16", "bf16", 128, 72)


def _instruction_types():
    T.cuda.tcgen05.instruction_descriptor("f16", "tf32", "tf32", 128, 64)


def _instruction_eight_bits():
    T.cuda.tcgen05.instruction_descriptor("f32", "e4m3", "e4m3", 128, 64)


def _transposed_tf32():
    T.cuda.tcgen05.instruction_descriptor("f32", "tf32", "tf32", 128, 64, transpose_b=True)


TRACED = [
    (_mma_shape, "'f16' is not legal behind `mma.sync.aligned.m16n8k32.row.col.f32`; what may follow: a_type: e4m3, e5m2"),
    (_mma_count, "takes 14 operands: {d0, d1, d2, d3}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3}; got 13"),
    (_wgmma_int_width, "'s32' is not legal behind `wgmma.mma_async.sync.aligned.m64n40k32`"),
    (_wgmma_scale, "'scale_a' is part of the instruction: 2 is not one of 1, -1"),
    (_wgmma_accumulator, "operand 'd' is of type f32: float32"),
    (_wait_depth, "'n' is part of the instruction: 8 is not one of 0 to 7"),
    (_pairs, "cta_group::2 (pairs of blocks) is not built yet; write cta_group::1"),
    (_kind, "kind::f8f6f4 is not built yet; kind::f16 (f16 and bf16) and kind::tf32 are"),
    (_scaled_blocks, "'kind::mxf4' is not legal behind `tcgen05.mma.cta_group::1` (block-scaled kinds are not built yet); what may follow"),
    (_weight_stationary, "'ws' is not legal behind `tcgen05.mma` (weight-stationary products are not built yet); what may follow: cta_group"),
    (_sparse, "'sp' is not legal behind `wgmma.mma_async` (sparse products are not built yet); what may follow: sync"),
    (_no_width, "'m64n260k16' is not legal behind `wgmma.mma_async.sync.aligned`; what may follow: shape: m64n8k16, m64n16k16, .., m64n256k16; "),
    (_half_an_accumulator, "takes 131 to 135 operands: {d0, d1, .., d127}, a, b, scale_d, scale_a (optional), scale_b (optional), "
     "trans_a (optional), trans_b (optional); got 67"),
    (_many_registers, "16x256b has at most x32"),
    (_unswizzled, "no matrix descriptor reads this layout as a K-major operand of bfloat16: "
     "with swizzle 'none', element (1, 0) is at byte 128, and the hardware would look at 16"),
    (_wrong_major, "T.cuda.wgmma.descriptor: major='M'; it is \"K\" (rows are m or n, columns k) or \"MN\" (rows are k)"),
    (_not_shared, "is in local memory; operands lie in shared memory"),
    (_odd_row, "the operand starts in the middle of the 128B pattern"),
    (_short, "a K-major operand of 64 by 16 elements needs a buffer of (.., 64, 16), not (32, 64)"),
    (_instruction_shape, "cta_group::1 has M = 64 and 128, not 96"),
    (_instruction_width, "M = 128 has N = 16, 32, .., 256, not 72"),
    (_instruction_types, "kind::tf32 multiplies tf32 into f32, not tf32 by tf32 into f16"),
    (_instruction_eight_bits, "operands are f16, bf16 or tf32, not e4m3"),
    (_transposed_tf32, "MN-major tf32 operands (the 128-byte swizzle with 32-byte atoms) are not built yet"),
]


@pytest.mark.parametrize("body, message", TRACED, ids=lambda x: getattr(x, "__name__", ""))
def test_traced(body, message):
    def kernel(A: T.Buffer((8,), "float32")):
        T.device_entry()
        T.thread_id([128])
        body()

    with pytest.raises(errors.TraceError) as caught:
        trace(kernel)
    assert message in str(caught.value)
    assert __file__ in str(caught.value)


# ---- on the simulator --------------------------------------------------------------------------------------------------------------

FULL_TILE = 64 * 64


def wgmma_start():
    """A filled tile, its descriptor, an accumulator, and a fence."""
    tx = T.thread_id([128])
    a = tile()
    for i in T.serial(FULL_TILE // 128):
        a[i * 2 + tx // 64, tx % 64] = T.bfloat16(1)
    T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    acc = registers(8, "float32")
    T.ptx.wgmma.fence.sync.aligned()
    return tx, T.cuda.wgmma.descriptor(a.ptr_to([0, 0])), acc


def finish():
    T.ptx.wgmma.commit_group.sync.aligned()
    T.ptx.wgmma.wait_group.sync.aligned(0)


def _half_a_warp(A):
    tx = T.thread_id([32])
    r, f = registers(), registers(4, "float32")
    for i in range(8):
        r[i] = T.uint32(0)
    for i in range(4):
        f[i] = 0.0
    with T.If(tx < 16):
        T.ptx["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"](f, [r[i] for i in range(6)], f)


def _two_warps(A):
    T.thread_id([64])
    T.ptx.wgmma.fence.sync.aligned()


def _only_two_issue(A):
    tx, a, acc = wgmma_start()
    with T.If(tx < 64):
        T.ptx[WGMMA](acc, a, a, False)
        finish()


def _two_places(A):
    tx, a, acc = wgmma_start()
    with T.If(tx < 64):
        T.ptx[WGMMA](acc, a, a, False)
    with T.Else():
        T.ptx[WGMMA](acc, a, a, False)
    finish()


def _other_operands(A):
    tx, a, acc = wgmma_start()
    T.ptx[WGMMA](acc, a + T.uint64(tx // 32 * 2), a, False)
    finish()


def _lanes_differ(A):
    tx, a, acc = wgmma_start()
    T.ptx[WGMMA](acc, a + T.uint64(tx % 2 * 2), a, False)
    finish()


def _fragment_overwritten(A):
    tx, a, acc = wgmma_start()
    r = registers(4)
    for i in range(4):
        r[i] = T.uint32(0)
    T.ptx.wgmma.fence.sync.aligned()
    T.ptx[WGMMA](acc, r, a, False)
    r[0] = T.uint32(1)
    finish()


def _touched_without_a_fence(A):
    tx, a, acc = wgmma_start()
    acc[3] = 0.0
    T.ptx[WGMMA](acc, a, a, True)
    finish()


def _never_committed(A):
    tx, a, acc = wgmma_start()
    T.ptx[WGMMA](acc, a, a, False)
    T.ptx.wgmma.wait_group.sync.aligned(0)


def _never_waited(A):
    tx, a, acc = wgmma_start()
    T.ptx[WGMMA](acc, a, a, False)
    T.ptx.wgmma.commit_group.sync.aligned()


def _one_group_left(A):
    tx, a, acc = wgmma_start()
    T.ptx[WGMMA](acc, a, a, False)
    T.ptx.wgmma.commit_group.sync.aligned()
    T.ptx.wgmma.wait_group.sync.aligned(1)
    A[tx % 8] = acc[0]


def _reserved_bits(A):
    tx, a, acc = wgmma_start()
    T.ptx[WGMMA](acc, a | T.uint64(1 << 46), a, False)
    finish()


def _beyond(A):
    tx, a, acc = wgmma_start()
    T.ptx[WGMMA](acc, a + T.uint64(64 * 8), a, False)
    finish()


def _empty_operand(A):
    tx, a, acc = wgmma_start()
    T.ptx[WGMMA](acc, T.cuda.wgmma.descriptor(tile().ptr_to([0, 0])), a, False)
    finish()


def allocated(columns=32, threads=128, free=True):
    """(thread, base address): `columns` of tensor memory, freed at the end by whoever calls the third."""
    tx = T.thread_id([threads])
    slot = T.alloc_shared((1,), "uint32")
    with T.If(tx < 32):
        T.ptx.tcgen05.alloc(slot.ptr_to([0]), n_cols=columns, cta_group=1)
    T.cuda.cta_sync()
    base = T.let(slot[0])

    def end(count=columns):
        with T.If(tx < 32):
            T.ptx.tcgen05.dealloc(base, n_cols=count, cta_group=1)
    return tx, base, end


LD, ST = (T.ptx[f"tcgen05.{way}.sync.aligned.32x32b.x1.b32"] for way in ("ld", "st"))
MMA = T.ptx["tcgen05.mma.cta_group::1.kind::f16"]


def stored(tx, base):
    """A column of ones."""
    ST(T.cuda.get_tmem_addr(base, tx // 32 * 32, 0), T.uint32(1))
    T.ptx.tcgen05.wait__st.sync.aligned()


def _odd_size(A):
    allocated(48)


def _grown(A):
    tx, base, end = allocated(32)
    with T.If(tx < 32):
        T.ptx.tcgen05.alloc(T.alloc_shared((1,), "uint32").ptr_to([0]), n_cols=64, cta_group=1)


def _full(A):
    tx, base, end = allocated(512)
    with T.If(tx < 32):
        T.ptx.tcgen05.alloc(T.alloc_shared((1,), "uint32").ptr_to([0]), n_cols=32, cta_group=1)


def _after_relinquishing(A):
    tx, base, end = allocated(32)
    with T.If(tx < 32):
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.alloc(T.alloc_shared((1,), "uint32").ptr_to([0]), n_cols=32, cta_group=1)


def _not_freed(A):
    allocated(64)


def _freed_in_part(A):
    tx, base, end = allocated(64)
    end(32)


def _not_allocated(A):
    tx, base, end = allocated(32)
    LD(registers(1)[0], T.cuda.get_tmem_addr(base, tx // 32 * 32, 40))


def _foreign_lanes(A):
    tx, base, end = allocated(32)
    LD(registers(1)[0], base)


def _store_not_waited(A):
    tx, base, end = allocated(32)
    ST(T.cuda.get_tmem_addr(base, tx // 32 * 32, 0), T.uint32(1))
    LD(registers(1)[0], T.cuda.get_tmem_addr(base, tx // 32 * 32, 0))


def _load_left(A):
    tx, base, end = allocated(32)
    stored(tx, base)
    LD(registers(1)[0], T.cuda.get_tmem_addr(base, tx // 32 * 32, 0))


def multiplying(A, then, before_fence=True, after_fence=True, what=None, store=True):
    tx, base, end = allocated(64)
    a = tile(128, 64)
    bar = T.alloc_shared((1,), "uint64")
    for i in T.serial(64):
        a[tx, i] = T.bfloat16(1)
    with T.If(tx == 0):
        T.ptx.mbarrier.init.shared.b64(bar.ptr_to([0]), 1)
    if store:
        stored(tx, base)
    if before_fence:
        T.ptx.tcgen05.fence__before_thread_sync()
    T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    with T.If(tx == 32):
        if after_fence:
            T.ptx.tcgen05.fence__after_thread_sync()
        desc = T.cuda.tcgen05.descriptor(a.ptr_to([0, 0]))
        idesc = T.cuda.tcgen05.instruction_descriptor("f32", "bf16", "bf16", 128, 16) if what is None else what
        MMA(base, desc, desc, idesc, False)
        then(base, desc, bar)
    return tx, base, end


def _fence_missing_before(A):
    multiplying(A, lambda *_: None, before_fence=False)


def _fence_missing_behind(A):
    multiplying(A, lambda *_: None, after_fence=False)


def _another_shape(A):
    multiplying(A, lambda base, desc, bar: MMA(base, desc, desc, T.cuda.tcgen05.instruction_descriptor("f32", "bf16", "bf16", 128, 32), True))


def _no_instruction(A):
    multiplying(A, lambda *_: None, what=T.uint32(0x8040499))


def _never_committed_mma(A):
    tx, base, end = multiplying(A, lambda *_: None)


def _freed_too_early(A):
    tx, base, end = multiplying(A, lambda *_: None)
    T.cuda.cta_sync()
    end()


def _read_too_early(A):
    tx, base, end = multiplying(A, lambda *_: None)
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence__after_thread_sync()
    LD(registers(1)[0], T.cuda.get_tmem_addr(base, tx // 32 * 32, 3))


RUN = [
    (_half_a_warp, errors.BarrierDivergenceError, "all 32 threads of a warp run it together; of warp 0 of block (0, 0, 0) there are lanes 0-15"),
    (_two_warps, errors.BarrierDivergenceError, "is for warpgroups of 128 threads; the last warps of a block of 64 threads are none"),
    (_only_two_issue, errors.DeadlockError, "warps 2, 3 of its warpgroup to issue the wgmma of"),
    (_two_places, errors.BarrierDivergenceError, "the four warps of a warpgroup issue the same instructions in the same order"),
    (_other_operands, errors.DescriptorError, "the warps of a warpgroup pass different operands: warp 0 a=0x4000004000010000, b=0x4000004000010000, "
     "scale-d=0, warp 1 a=0x4000004000010002, b=0x4000004000010000, scale-d=0"),
    (_lanes_differ, errors.DescriptorError, "the threads of a warp pass different values for a: 0x4000004000010000 and 0x4000004000010002"),
    (_fragment_overwritten, errors.AsyncError, "store of r touches registers that ptx.wgmma.mma_async, issued at"),
    (_touched_without_a_fence, errors.AsyncError, "registers of acc were used by other instructions, and no wgmma.fence stands between"),
    (_never_committed, errors.AsyncError, "the kernel ends while it is under way: its group was not committed"),
    (_never_waited, errors.AsyncError, "the kernel ends while it is under way: nobody waited for its group"),
    (_one_group_left, errors.AsyncError, "load of acc touches registers that ptx.wgmma.mma_async, issued at"),
    (_reserved_bits, errors.DescriptorError, "A: 0x4000404000010000 is no wgmma descriptor: bits 46 are not as they must be"),
    (_beyond, errors.DescriptorError, "A: the descriptor (start 0x2000, leading 16, stride 1024, swizzle 128B) reaches shared address 0x3ffe; "
     "the block has 8192 bytes"),
    (_empty_operand, errors.UninitializedReadError, "operand A, which its descriptor puts at shared addresses 0x2000 to 0x3ffe, has bytes "
     "that nothing has written"),
    (_odd_size, errors.TensorMemoryError, "48 columns: an allocation is a power of two from 32 to 512"),
    (_grown, errors.TensorMemoryError, "64 columns after an allocation of 32: allocations of a block may not grow"),
    (_full, errors.DeadlockError, "32 columns of tensor memory; allocated are 512 at"),
    (_after_relinquishing, errors.TensorMemoryError, "the block gave up its permit to allocate at"),
    (_not_freed, errors.TensorMemoryError, "64 columns of tensor memory, at column 0, are still allocated when the block ends"),
    (_freed_in_part, errors.TensorMemoryError, "32 columns at lane 0, column 0 were not allocated; allocated are 64 at column 0"),
    (_not_allocated, errors.TensorMemoryError, "columns 40 to 40 are used, and column 40 is not allocated"),
    (_foreign_lanes, errors.TensorMemoryError, "the address lane 0, column 0 is outside lanes 96 to 127, which are all that warp 3 reaches"),
    (_store_not_waited, errors.TensorMemoryError, "still moves these cells: write tcgen05.wait::st behind it"),
    (_load_left, errors.AsyncError, "the kernel ends while it is under way: write T.ptx.tcgen05.wait__ld.sync.aligned() behind it"),
    (_fence_missing_before, errors.TensorMemoryError, "warp 0 moved the same cells by ld or st, and ran no tcgen05.fence::before_thread_sync since"),
    (_fence_missing_behind, errors.TensorMemoryError, "and this one ran no tcgen05.fence::after_thread_sync since"),
    (_another_shape, errors.TensorMemoryError, "still works on the same cells in another shape: only mma on the same accumulator"),
    (_no_instruction, errors.DescriptorError, "the instruction descriptor 0x08040499 sets bits of sparse, saturating or other forms"),
    (_never_committed_mma, errors.AsyncError, "the kernel ends while it is under way: commit it to an mbarrier (tcgen05.commit)"),
    (_freed_too_early, errors.TensorMemoryError, "the columns are still used by ptx.tcgen05.mma at"),
    (_read_too_early, errors.TensorMemoryError, "still works on these cells: wait for the mbarrier of a tcgen05.commit behind it"),
]


@pytest.mark.parametrize("body, error, message", RUN, ids=lambda x: getattr(x, "__name__", "") if not isinstance(x, type) else "")
def test_run(body, error, message):
    def kernel(A: T.Buffer((8,), "float32")):
        T.device_entry()
        body(A)

    with pytest.raises(error) as caught:
        run(trace(kernel), np.zeros(8, np.float32))
    assert message in str(caught.value)
    assert __file__ in str(caught.value)
