"""What `T.ptx` refuses, with the message that says what is legal; and the architectures that an instruction needs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.codegen.one_instruction import Memory, kernel_with
from tracer import T, trace
from tracer.errors import CompileError, DTypeError, TraceError


def message(body: Any, kind: type[Exception] = TraceError) -> str:
    """The error of a kernel around `body`, without its line."""
    with pytest.raises(kind) as found:
        kernel_with(body)
    text = str(found.value)
    assert re.match(r".*test_instruction_refusals\.py:\d+: ", text)
    return text.partition(": ")[2]


REFUSED: dict[str, tuple[Any, str]] = {
    "a modifier": (
        lambda m: T.ptx.mbarrier.init.shared.b63(m.bar.ptr_to([0]), 1),
        "`mbarrier.init.shared.b63`: 'b63' is not legal behind `mbarrier.init.shared`; what may follow: b64"),
    "a slot": (
        lambda m: T.ptx.fence.acq_rel.block(),
        "`fence.acq_rel.block`: 'block' is not legal behind `fence.acq_rel`; what may follow: scope: cta, cluster, gpu, sys"),
    "the order": (
        lambda m: T.ptx.ld.global_.acquire.gpu.b32(m.r[0], m.U.ptr_to([0])),
        "`ld.global.acquire.gpu.b32`: 'acquire' is not legal behind `ld.global`; what may follow: cop: ca, cg, cs, lu, cv; nc; "
        "L1: L1::evict_normal, L1::evict_unchanged, L1::evict_first, L1::evict_last, L1::no_allocate; cache_hint: "
        "L2::cache_hint; prefetch: L2::64B, L2::128B, L2::256B; vec: v2, v4; type: b8, b16, b32, b64, u8, u16, u32, u64, s8, "
        "s16, s32, s64, f32, f64"),
    "the end": (
        lambda m: T.ptx.fence.acq_rel(),
        "`fence.acq_rel` is not complete; what may follow: scope: cta, cluster, gpu, sys"),
    "a keyword": (
        lambda m: T.ptx.fence(sem="acq_rel", scope="block"),
        "`fence`: scope='block' is not legal; write one of cta, cluster, gpu, sys"),
    "a keyword's name": (
        lambda m: T.ptx.mbarrier.init.shared.b64(m.bar.ptr_to([0]), cont=1),
        "`mbarrier.init.shared.b64` has no 'cont'; it has space, bar, count"),
    "the first word": (
        lambda m: T.ptx.mbarier.init(m.bar.ptr_to([0]), 1),
        "`mbarier` is not the first word of an instruction that T.ptx has; it has "),
    "no call": (
        lambda m: (T.ptx.griddepcontrol.wait, m.r[0])[1],
        "`griddepcontrol.wait` was written, but not called; write the parentheses: T.ptx[\"griddepcontrol.wait\"](...)"),
    "too few": (
        lambda m: T.ptx.mbarrier.init.shared.b64(m.bar.ptr_to([0])),
        "`mbarrier.init.shared.b64` takes 2 operands: [bar], count; got 1"),
    "too many": (
        lambda m: T.ptx.griddepcontrol.wait(1),
        "`griddepcontrol.wait` takes no operands: ; got 1"),
    "an order without scope": (
        lambda m: T.ptx.ld.acquire.global_.b32(m.r[0], m.U.ptr_to([0])),
        "`ld.acquire.global.b32`: a scope (.cta, .cluster, .gpu, .sys) is written with .relaxed and .acquire, and only there"),
    "a size": (
        lambda m: T.ptx.cp.async_.cg.shared.global_(m.tile.ptr_to([0]), m.A.ptr_to([0]), 8),
        "`cp.async.cg.shared.global`: `cg` copies 16 bytes at a time, not 8; write `ca` for 4 and 8"),
    "an immediate": (
        lambda m: T.ptx.cp.async_.ca.shared.global_(m.tile.ptr_to([0]), m.A.ptr_to([0]), 12),
        "`cp.async.ca.shared.global`: 'size' is part of the instruction: 12 is not one of 4, 8, 16"),
    "a step": (
        lambda m: T.ptx.setmaxnreg.inc(250),
        "`setmaxnreg.inc.sync.aligned.u32`: 'n' is part of the instruction: 250 is not one of 24 to 256 in steps of 8"),
    "a value as immediate": (
        lambda m: T.ptx.cp.async_.wait_group(m.r[0]),
        "`cp.async.wait_group`: 'n' is part of the instruction: write a Python int, not <uint32 value `r[0]`>"),
    "a global register": (
        lambda m: T.ptx.ld.global_.b32(m.U[0], m.U.ptr_to([0])),
        "`ld.global.b32`: operand 'd' is a register that the instruction writes; pass an element of a local buffer, r[0] of r "
        "= T.alloc_local(...), or a local mutable scalar, not <uint32 value `U[0]`>"),
    "a computed register": (
        lambda m: T.ptx.ld.global_.b32(m.r[0] + 1, m.U.ptr_to([0])),
        "`ld.global.b32`: operand 'd' is a register that the instruction writes; pass an element of a local buffer, r[0] of r "
        "= T.alloc_local(...), or a local mutable scalar, not <uint32 value `r[0] + T.uint32(1)`>"),
    "an element for an address": (
        lambda m: T.ptx.mbarrier.init.shared.b64(m.bar[0], 1),
        "`mbarrier.init.shared.b64`: operand 'bar' is an address in shared memory: a pointer, A.ptr_to([i]) or "
        "T.address_of(x), or an integer of type uint32; not <uint64 value `bar[0]`>"),
    "a buffer for an address": (
        lambda m: T.ptx.mbarrier.init.shared.b64(m.bar, 1),
        "`mbarrier.init.shared.b64`: operand 'bar' is an address in shared memory: a pointer, A.ptr_to([i]) or "
        "T.address_of(x), or an integer of type uint32; not the buffer 'bar'"),
    "another space": (
        lambda m: T.ptx.ld.shared.b32(m.r[0], m.U.ptr_to([0])),
        "`ld.shared.b32`: operand 'src' is an address in shared memory; 'U' is in global memory"),
    "a register's address": (
        lambda m: T.ptx.ld.b32(m.r[0], m.r.ptr_to([0])),
        "`ld.b32`: operand 'src' is an address in global or shared memory; 'r' is each thread's own registers, which have none"),
    "a barrier of floats": (
        lambda m: T.ptx.mbarrier.init.shared.b64(m.tile.ptr_to([0]), 1),
        "`mbarrier.init.shared.b64`: operand 'bar' is an mbarrier, which is one uint64; 'tile' holds float32"),
    "a float for an integer": (
        lambda m: T.ptx.mbarrier.init.shared.b64(m.bar.ptr_to([0]), m.f[0]),
        "`mbarrier.init.shared.b64`: operand 'count' is of type u32: uint32, int32; not float32. Write .astype('uint32') if "
        "the conversion is meant\n  the value is `f[0]` (float32, made at "),
    "a literal": (
        lambda m: T.ptx.mbarrier.init.shared.b64(m.bar.ptr_to([0]), 1.5),
        "`mbarrier.init.shared.b64`: operand 'count' is of type u32: uint32, int32; not 1.5"),
    "a narrow register": (
        lambda m: T.ptx.ld.global_.b64(m.r[0], m.U.ptr_to([0])),
        "`ld.global.b64`: operand 'd' is of type b64: uint64, int64, float64, float32x2, uint32x2, int32x2; 'r' holds uint32"),
    "a count": (
        lambda m: T.ptx.mbarrier.init.shared.b64(m.bar.ptr_to([0]), 0),
        "`mbarrier.init.shared.b64`: count is 0; an mbarrier counts 1 to 1048575 arrivals"),
    "bytes of a phase": (
        lambda m: T.ptx.mbarrier.arrive.expect_tx.shared.b64(m.bar.ptr_to([0]), 1 << 20),
        "`mbarrier.arrive.expect_tx.shared.b64`: tx is 1048576; a phase of an mbarrier takes 0 to 1048575 bytes"),
    "a named barrier": (
        lambda m: T.ptx.bar.sync(16, 64),
        "`bar.sync`: there is no barrier 16; a block has those from 0 to 15"),
    "a warpgroup's barrier": (
        lambda m: T.cuda.warpgroup_sync(16),
        "`cuda.warpgroup_sync`: there is no barrier 16; a block has those from 0 to 15"),
    "half a warp": (
        lambda m: T.ptx.bar.arrive(1, 48),
        "`bar.arrive`: a barrier counts whole warps, a multiple of 32 threads, not 48"),
    "half a piece": (
        lambda m: T.ptx["cp.async.bulk.prefetch.L2.global"](m.A.ptr_to([0]), 40),
        "`cp.async.bulk.prefetch.L2.global`: bulk copies move multiples of 16 bytes, not 40"),
    "a type of an atomic": (
        lambda m: T.ptx.red.global_.add.s64(m.U.ptr_to([0]), m.d[0]),
        "`red.global.add.s64`: `add` is there for u32, s32, u64, f32, f64, f16, f16x2, bf16, bf16x2; not s64"),
    "a hint on shared memory": (
        lambda m: T.ptx["ld.shared.L2::128B.b32"](m.r[0], m.tile.ptr_to([0])),
        "`ld.shared.L2::128B.b32`: hints on L1 and L2 are for global memory"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: str) -> None:
    body, expected = REFUSED[what]
    assert message(body).startswith(expected)


def test_dtypes_are_dtype_errors() -> None:
    assert "not float32" in message(lambda m: T.ptx.bar.sync(m.f[0], 64), DTypeError)


def test_a_tensor_map_has_as_many_axes_as_the_instruction() -> None:
    def kernel(A: T.Buffer((64, 64), "float32")) -> None:
        tensor = T.tensor_map(A, (8, 8))
        T.device_entry()
        T.thread_id([32])
        bar, tile = T.alloc_shared((1,), "uint64"), T.alloc_shared((8, 8), "float32", align=128)
        T.ptx["cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes"](tile.ptr_to([0, 0]), tensor, 0, 0, 0, bar.ptr_to([0]))

    with pytest.raises(TraceError, match=r"operand 'map' has 2 axes; write \.2d and one coordinate for each, innermost first"):
        trace(kernel)


def test_what_was_read_before_is_not_what_was_written() -> None:
    def behind(m: Memory) -> None:
        x = m.r[0]
        T.ptx.ld.global_.u32(x, m.U.ptr_to([0]))
        m.U[m.tx] = x

    def around(m: Memory) -> None:
        sums = [m.f[i] for i in range(4)]
        for _ in T.serial(3):
            T.ptx["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"](sums, [m.r[i] for i in range(4)], [m.r[4], m.r[5]], sums)

    def right(m: Memory) -> None:
        for _ in T.serial(3):
            sums = [m.f[i] for i in range(4)]
            T.ptx["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"](sums, [m.r[i] for i in range(4)], [m.r[4], m.r[5]], sums)
        m.A[m.tx] = m.f[0]

    assert re.match(r"`x = r\[0\]` was read at .*:\d+, before `ld.global.u32` wrote it at .*:\d+, and a value stays what it was when it was read. "
                    r"Write the element again where its new value is meant", message(behind))
    assert message(around).startswith("`sums_0 = f[0]` was read at ")
    kernel_with(right)


# ---- architectures

def test_minimum_architectures() -> None:
    bodies = {
        "sm_75": lambda m: T.ptx.fence.acq_rel.gpu(), "sm_80": lambda m: T.ptx.cp.async_.commit_group(), "sm_90": lambda m: T.cuda.cluster_sync(),
        "sm_90a": lambda m: T.ptx.setmaxnreg.inc(64), "sm_100": lambda m: T.ptx.add.f32x2(m.d[0], m.d[1], m.d[2]),
        "sm_100a": lambda m: T.ptx.tcgen05.wait__ld.sync.aligned(),
    }
    assert {kernel_with(body).minimum_arch for body in bodies.values()} == set(bodies)
    assert all(kernel_with(body).minimum_arch == wanted for wanted, body in bodies.items())
    assert kernel_with(lambda m: T.ptx.fence.acq_rel.cluster()).minimum_arch == "sm_90"      # the modifier's, not the row's


def test_architectures_with_a_letter() -> None:
    registers = kernel_with(lambda m: T.ptx.setmaxnreg.inc(64))
    matrices = kernel_with(lambda m: T.ptx.wgmma.fence.sync.aligned())
    tensor = kernel_with(lambda m: T.ptx.tcgen05.wait__ld.sync.aligned())
    line = r" at .*test_instruction_refusals.py:\d+ needs "
    for kernel, arch, text in [
        (registers, "sm_90", r"`setmaxnreg.inc.sync.aligned.u32`" + line + r"sm_90a, or a later one with the letter a or f$"),
        (matrices, "sm_90", r"`wgmma.fence.sync.aligned`" + line + r"sm_90a$"),
        (matrices, "sm_100a", r"`wgmma.fence.sync.aligned`" + line + r"sm_90a$"),
        (tensor, "sm_90a", r"`tcgen05.wait::ld.sync.aligned`" + line + r"sm_100a or one of its family$"),
        (tensor, "sm_120a", r"`tcgen05.wait::ld.sync.aligned`" + line + r"sm_100a or one of its family$"),
        (tensor, "sm_100", r"`tcgen05.wait::ld.sync.aligned`" + line + r"sm_100a or one of its family$"),
    ]:
        with pytest.raises(CompileError, match=r"^kernel_kernel cannot be compiled for " + arch + ": " + text):
            kernel.compile(arch)
