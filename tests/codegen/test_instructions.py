"""`T.ptx`: every modifier of every form compiles, traces back and is written; what is not legal is refused with what is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from codegen.cuda.statements import STATEMENTS
from codegen.cuda.templates import TEMPLATES
from tests.codegen import instruction_kernels
from tests.codegen.every_instruction import kernels, matches, unreached
from tests.nvcc import cubin, needs_nvcc, one_unit
from tracer import T, trace
from tracer.errors import CompileError, DTypeError, TraceError
from tracer.instructions import is_instruction, operand_role
from tracer.intrinsics.ptx.grammar import FORMS
from tracer.operations import OPERATIONS

ROLES = {"", "out", "inout", "read", "write", "update", "barrier", "tensormap", "address"}


def kernel_with(body: Any, threads: int = 128) -> Any:
    """A kernel around `body(memory)`."""
    def kernel(A: T.Buffer((1024,), "float32"), U: T.Buffer((1024,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([threads])
        bar = T.alloc_shared((4,), "uint64")
        tile = T.alloc_shared((1024,), "float32", align=16)
        r = T.alloc_local((8,), "uint32")
        f = T.alloc_local((8,), "float32")
        d = T.alloc_local((4,), "uint64")
        body(Memory(A, U, tx, bar, tile, r, f, d))

    return trace(kernel)


class Memory(NamedTuple):
    """What instructions work on in these tests: memory of every kind."""

    A: Any
    U: Any
    tx: Any
    bar: Any
    tile: Any
    r: Any
    f: Any
    d: Any


def lines(kernel: Any) -> list[str]:
    """The statements of the kernel."""
    body = kernel.cuda_source(locations=False).rpartition("{\n  const int tx")[2]
    return [line.strip() for line in body.rstrip("}\n").split("\n")][1:]


def functions(kernel: Any) -> str:
    """What stands before the kernel."""
    return str(kernel.cuda_source(locations=False).partition("extern \"C\"")[0])


# ---- the tables

def test_every_row_has_a_form_or_a_function_and_is_written() -> None:
    rows = {row for row in OPERATIONS.values() if is_instruction(row)}
    assert {row.name for row in rows - {form.op for form in FORMS} if row.name.startswith("ptx.")} == set()
    assert {row.name for row in rows - TEMPLATES.keys() - STATEMENTS.keys()} == set()
    for row in rows:
        assert row.source.startswith("PTX ISA 9.7."), row
        assert {operand_role(entry) for entry in row.operands} <= ROLES, row


def test_every_modifier_is_reached() -> None:
    assert len(matches()) > 500
    assert [(form.source, word) for form, word in unreached] == []


@needs_nvcc
def test_the_kernels_that_are_run_compile(tmp_path: Path) -> None:
    cubin(one_unit(k.cuda_source(locations=False) for k in instruction_kernels.kernels().values()), tmp_path, ["sm_90a"])


@needs_nvcc
@pytest.mark.parametrize("architecture", sorted({k.minimum_arch for k in kernels().values()}))
def test_every_modifier_compiles_for_its_first_architecture(architecture: str, tmp_path: Path) -> None:
    able = [k for k in kernels().values() if k.minimum_arch == architecture]
    made = cubin(one_unit(k.cuda_source(locations=False) for k in able), tmp_path, [architecture])
    assert made[architecture].stat().st_size > 0


@pytest.mark.parametrize("name", kernels())
def test_scripts_trace_back(name: str) -> None:
    kernel = kernels()[name]
    namespace: dict[str, Any] = {}
    exec(kernel.script(), namespace)
    again = trace(namespace[name])
    assert again.script() == kernel.script()
    assert instructions(again) == instructions(kernel)
    assert all(f"\"{text};" in kernel.cuda_source() or f"\"{text} " in kernel.cuda_source() for text, *_ in instructions(kernel))


def instructions(kernel: Any) -> list[tuple[Any, ...]]:
    """The instructions of a kernel with the dtypes of their operands."""
    return [(node.attrs["instruction"], node.attrs["counts"], *(operand.dtype for operand in node.operands))
            for node in kernel.function.device.walk() if "form" in node.attrs]


# ---- how they are written

def test_text_of_an_instruction() -> None:
    kernel = kernel_with(lambda m: (
        T.ptx.mbarrier.init.shared.b64(m.bar.ptr_to([0]), 1),
        T.ptx.mbarrier.try_wait.parity.shared__cta.b64(m.r[0], m.bar.ptr_to([m.tx % 4]), 0),
        T.ptx["cp.async.cg.shared.global"](m.tile.ptr_to([m.tx * 4]), m.A.ptr_to([m.tx * 4]), 16),
        T.ptx.st.shared.v4.b32(m.tile.ptr_to([0]), m.f[0], m.r[1], m.r[2], m.r[3]),
        T.ptx.ld.acquire.gpu.global_.b32(m.f[0], m.U.ptr_to([0])),
    ))
    assert lines(kernel)[-5:] == [
        "ptx_mbarrier_init_shared_b64(shared_address(bar), 1u);",
        "ptx_mbarrier_try_wait_parity_shared_cta_b64(r[0], shared_address(&bar[tx % 4]), 0u);",
        "ptx_cp_async_cg_shared_global_16(shared_address(&tile[tx * 4]), &A_ptr[tx * 4]);",
        "ptx_st_shared_v4_b32(shared_address(tile), f[0], r[1], r[2], r[3]);",
        "ptx_ld_acquire_gpu_global_b32(f[0], U_ptr);",
    ]
    assert functions(kernel) == '''\
// The address of something in shared memory, as instructions take it.
__device__ __forceinline__ unsigned int shared_address(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void ptx_cp_async_cg_shared_global_16(unsigned int dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(dst), "l"(src) : "memory");
}

__device__ __forceinline__ void ptx_ld_acquire_gpu_global_b32(float& d, const void* src) {
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=f"(d) : "l"(src) : "memory");
}

__device__ __forceinline__ void ptx_mbarrier_init_shared_b64(unsigned int bar, unsigned int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void ptx_mbarrier_try_wait_parity_shared_cta_b64(unsigned int& done,
    unsigned int bar, unsigned int phase) {
  asm volatile("{\\n"
               ".reg .pred done;\\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\\n"
               "selp.b32 %0, 1, 0, done;\\n"
               "}" : "=r"(done) : "r"(bar), "r"(phase) : "memory");
}

__device__ __forceinline__ void ptx_st_shared_v4_b32(unsigned int dst, float value0, unsigned int value1,
    unsigned int value2, unsigned int value3) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" : : "r"(dst), "f"(value0), "r"(value1),
               "r"(value2), "r"(value3) : "memory");
}

'''


def test_registers_of_types_that_assembly_lacks_go_by_their_bits() -> None:
    def body(m: Memory) -> None:
        half, byte, flag = T.alloc_local((2,), "float16"), T.alloc_local((2,), "int8"), T.local_scalar("bool")
        T.ptx.ld.global_.b16(half[0], m.U.ptr_to([0]))
        T.ptx.ld.global_.b8(byte[0], m.U.ptr_to([0]))
        T.ptx.bar.red["and"].pred(flag, 1, m.tx < 3)
        T.ptx.st.global_.b8(m.U.ptr_to([1]), byte[0])
        m.A[m.tx] = T.select(flag, half[0].astype("float32"), 0.0)

    source = functions(kernel_with(body))
    assert "(half& d, const void* src) {\n  unsigned short d_bits;\n" in source and "  d = bit_cast<half>(d_bits);\n" in source
    assert "  unsigned int d_bits;\n" in source and "  d = (signed char)d_bits;\n" in source and "  d = (bool)d_bits;\n" in source
    assert '"setp.ne.b32 p, %2, 0;\\n"' in source and '"selp.b32 %0, 1, 0, d;\\n"' in source and '"r"((unsigned int)p)' in source
    assert '"r"((unsigned int)(unsigned char)value)' in source


def test_what_an_instruction_writes_is_read_behind_it() -> None:
    def body(m: Memory) -> None:
        x = T.local_scalar("uint32", 5)
        before = m.r[0] + x
        T.ptx.ld.relaxed.gpu.global_.u32(m.r[0], m.U.ptr_to([0]))
        T.ptx.ld.relaxed.gpu.global_.u32(x, m.U.ptr_to([1]))
        m.U[m.tx] = m.r[0] + x + before

    assert lines(kernel_with(body))[-5:] == [
        "unsigned int x = 5;",
        "const unsigned int before = r[0] + x;",
        "ptx_ld_relaxed_gpu_global_u32(r[0], U_ptr);",
        "ptx_ld_relaxed_gpu_global_u32(x, &U_ptr[1]);",
        "U_ptr[tx] = r[0] + x + before;",
    ]


def test_pointers_that_are_only_read_stay_const() -> None:
    kernel = kernel_with(lambda m: T.ptx["cp.async.ca.shared.global"](m.tile.ptr_to([m.tx]), m.A.ptr_to([m.tx]), 4))
    assert "(const float* __restrict__ A_ptr)" in kernel.cuda_source()
    kernel = kernel_with(lambda m: (T.ptx["cp.async.ca.shared.global"](m.tile.ptr_to([m.tx]), m.A.ptr_to([m.tx]), 4),
                                    T.ptx.st.global_.f32(m.A.ptr_to([m.tx]), m.f[0])))
    assert "(float* __restrict__ A_ptr)" in kernel.cuda_source()


def test_computing_instructions_may_be_moved_by_the_compiler() -> None:
    source = functions(kernel_with(lambda m: (T.ptx.fma.rn.f32x2(m.d[0], m.d[1], m.d[2], m.d[3]), T.ptx.mapa.u64(m.d[0], m.bar.ptr_to([0]), 1))))
    assert 'asm("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(d) : "l"(a), "l"(b), "l"(c));' in source
    assert 'asm("mapa.u64 %0, %1, %2;" : "=l"(d) : "l"(a), "r"(rank));' in source


def test_two_instructions_with_the_same_words_and_types() -> None:
    """The fourth operand is how many bytes there are to copy, or whether to copy none."""
    def body(m: Memory) -> None:
        n = m.U[0]
        T.ptx.cp.async_.ca.shared.global_(m.tile.ptr_to([0]), m.A.ptr_to([0]), 4, n)
        T.ptx.cp.async_.ca.shared.global_(m.tile.ptr_to([0]), m.A.ptr_to([0]), 4, ignore_src=n)
        T.ptx.cp.async_.ca.shared.global_(m.tile.ptr_to([0]), m.A.ptr_to([0]), 4, m.tx < 3)

    kernel = kernel_with(body)
    assert [line.partition("(")[0] for line in lines(kernel)[-3:]] == [
        "ptx_cp_async_ca_shared_global_4", "ptx_cp_async_ca_shared_global_4_", "ptx_cp_async_ca_shared_global_4"]
    source = " ".join(functions(kernel).split())
    assert "(unsigned int dst, const void* src, unsigned int src_size) {" in source and "unsigned int ignore_src) {" in source
    assert "bool ignore_src) {" in source


def test_names_of_instructions_are_taken() -> None:
    def body(m: Memory) -> None:
        ptx_bar_sync = m.U[0] + 1
        T.ptx.bar.sync(1, 64)
        m.U[m.tx] = ptx_bar_sync

    assert lines(kernel_with(body))[-2:] == ["ptx_bar_sync(1u, 64u);", "U_ptr[tx] = ptx_bar_sync_;"]


def test_setmaxnreg_fixes_the_registers_at_entry() -> None:
    def body(m: Memory) -> None:
        with T.If(m.tx < 128):
            T.ptx["setmaxnreg.dec.sync.aligned.u32"](24)
        with T.Else():
            T.ptx.setmaxnreg.inc(240)

    source = kernel_with(body, threads=384).cuda_source()
    assert "__launch_bounds__(384, 1)" in source and '"setmaxnreg.inc.sync.aligned.u32 240;"' in source


@needs_nvcc
def test_setmaxnreg_compiles(tmp_path: Path) -> None:
    def body(m: Memory) -> None:
        with T.If(m.tx < 128):
            T.ptx.setmaxnreg.dec(24)
        with T.Else():
            T.ptx.setmaxnreg.inc(240)
        m.A[m.tx] = 1.0

    cubin(kernel_with(body, threads=384).cuda_source(), tmp_path, ["sm_90a", "sm_100a"])


# ---- spellings

def test_chains_and_indices_are_the_same() -> None:
    def body(m: Memory) -> None:
        T.ptx.cp.async_.bulk.wait_group.read(0)
        T.ptx["cp.async.bulk.wait_group.read"](0)
        T.ptx.cp["async.bulk"].wait_group["read"](0)
        T.ptx.cp.async_.bulk.wait_group(0, read=True)
        T.ptx.cp.async_.bulk.wait_group(n=0, read=True)

    kernel = kernel_with(body)
    assert [i[0] for i in instructions(kernel)] == ["cp.async.bulk.wait_group.read"] * 5
    assert kernel.script().count("T.ptx.cp.async_.bulk.wait_group.read(0)\n") == 5


def test_keywords_fill_what_the_chain_leaves_open() -> None:
    def body(m: Memory) -> None:
        T.ptx.mbarrier.init(m.bar.ptr_to([0]), count=2)
        T.ptx.mbarrier.init(bar=m.bar.ptr_to([0]), count=2, space="shared")
        T.ptx.mbarrier.arrive(m.bar.ptr_to([0]), tx=64, expect_tx=True, space="shared", sem="release", scope="cta")
        T.ptx.fence(sem="acq_rel", scope="gpu")
        T.ptx.barrier.cluster.arrive(aligned=True)

    assert [i[0] for i in instructions(kernel_with(body))] == [
        "mbarrier.init.b64", "mbarrier.init.shared.b64", "mbarrier.arrive.expect_tx.release.cta.shared.b64", "fence.acq_rel.gpu",
        "barrier.cluster.arrive.aligned"]


def test_tensor_memory_as_the_seed_writes_it() -> None:
    def body(m: Memory) -> None:
        addr = T.alloc_shared((1,), "uint32")
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=512, cta_group=1)
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(addr[0], n_cols=512, cta_group=1)

    assert [i[0] for i in instructions(kernel_with(body))] == [
        "tcgen05.alloc.cta_group::1.sync.aligned.b32", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32"]


def test_an_address_in_a_mutable_scalar_and_its_own() -> None:
    def kernel(U: T.Buffer((128,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([128])
        tile, r = T.alloc_shared((128,), "uint32"), T.alloc_local((4,), "uint32")
        place, bar = T.shared_scalar("uint32"), T.shared_scalar("uint64")
        place.assign(T.cuda.cvta_generic_to_shared(tile.ptr_to([0])))
        T.ptx.mbarrier.init.shared.b64(bar, 1)
        r[1] = T.cuda.cvta_generic_to_shared(T.address_of(bar))
        T.ptx.ld.shared.u32(r[0], +place)
        T.ptx.ld.shared.u32(r[2], place)
        T.ptx.mbarrier.arrive.shared.b64(r[1], 1)
        U[tx] = r[0] + r[2]

    made = trace(kernel)
    assert lines(made)[-4:] == ["ptx_ld_shared_u32(r[0], place);", "ptx_ld_shared_u32(r[2], shared_address(&place));",
                                "ptx_mbarrier_arrive_shared_b64(r[1], 1u);", "U_ptr[tx] = r[0] + r[2];"]
    namespace: dict[str, Any] = {}
    exec(made.script(), namespace)
    assert lines(trace(namespace["kernel"])) == lines(made)


def test_lists_of_registers_are_taken_apart() -> None:
    kernel = kernel_with(lambda m: T.ptx.ld.global_.v4.b32([m.r[i] for i in range(4)], m.A.ptr_to([m.tx * 4])))
    assert lines(kernel)[-1] == "ptx_ld_global_v4_b32(r[0], r[1], r[2], r[3], &A_ptr[tx * 4]);"


def test_completion_of_names() -> None:
    assert dir(T.ptx.mbarrier) == ["arrive", "arrive_drop", "complete_tx", "expect_tx", "init", "inval", "pending_count", "test_wait", "try_wait"]
    assert dir(T.ptx.cp.async_)[:3] == ["bulk", "ca", "cg"]
    assert "mbarrier" in dir(T.ptx) and repr(T.ptx.fence.proxy.async_) == "<instruction T.ptx.fence.proxy.async>"


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


# ---- refusals

def message(body: Any, kind: type[Exception] = TraceError) -> str:
    """The error of a kernel around `body`, without its line."""
    with pytest.raises(kind) as found:
        kernel_with(body)
    text = str(found.value)
    assert re.match(r".*test_instructions\.py:\d+: ", text)
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
    line = r" at .*test_instructions.py:\d+ needs "
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


# ---- alignment

def test_what_instructions_move_is_aligned() -> None:
    def kernel(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([128])
        tile = T.alloc_shared((1024,), "float32")
        box = T.alloc_shared((64,), "float32")
        T.ptx.cp.async_.cg.shared.global_(tile.ptr_to([tx * 4]), A.ptr_to([tx * 4]), 16)
        T.ptx.cp.async_.ca.shared.global_(box.ptr_to([tx % 32 * 2]), B.ptr_to([tx]), 8)

    made = trace(kernel)
    source = made.cuda_source(locations=False)
    assert "__shared__ __align__(16) float tile[1024];" in source and "__shared__ __align__(8) float box[64];" in source
    assert made.cuda.alignment == {"A_ptr": 16}
    host = made.host_source()
    assert re.search(r"A.data: expected an address that is a multiple of 16 \(`cp.async.cg.shared.global` at test_instructions.py:\d+\)", host)
    assert "B.data: expected an address that is a multiple of 4 (float32)" in host       # for an odd thread nothing is proved


# ---- what is known of them

def test_accesses_list_what_instructions_touch() -> None:
    kernel = kernel_with(lambda m: (
        T.ptx.cp.async_.cg.shared.global_(m.tile.ptr_to([m.tx * 4]), m.A.ptr_to([m.tx * 4]), 16),
        T.ptx.ld.global_.u32(m.r[0], m.U.ptr_to([m.tx * 8])),
        T.ptx.red.global_.add.u32(m.U.ptr_to([m.tx]), m.r[0])))
    assert [(str(a), a.kind, a.in_bounds) for a in kernel.accesses()] == [
        ("tile[tx*4] store  tx*4", "store", None), ("A[tx*4] load  tx*4", "load", None), ("U[tx*8] load  tx*8", "load", True),
        ("r[0] load  0", "load", True), ("U[tx] atomic  tx", "atomic", True)]


def test_the_read_only_cache_and_an_instruction_that_writes() -> None:
    with pytest.raises(TraceError, match=r"`cuda.ldg` reads 'U', which the kernel writes at .*test_instructions.py:\d+; the read-only cache"):
        kernel_with(lambda m: (T.ptx.st.global_.u32(m.U.ptr_to([m.tx]), T.cuda.ldg(m.U.ptr_to([m.tx]), "uint32"))))
