"""`T.ptx`: every modifier of every form compiles, traces back and is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from codegen.cuda.statements import STATEMENTS
from codegen.cuda.templates import TEMPLATES
from codegen.verify import MalformedError, verify
from tests.codegen import instruction_kernels
from tests.codegen.every_instruction import kernels, matches, unreached
from tests.codegen.one_instruction import Memory, functions, kernel_with, lines
from tests.nvcc import cubin, needs_nvcc, one_unit
from tracer import T, trace
from tracer.errors import TraceError
from tracer.instructions import is_instruction, operand_role
from tracer.intrinsics.ptx.grammar import FORMS
from tracer.operations import OPERATIONS

ROLES = {"", "out", "inout", "read", "write", "update", "barrier", "tensormap", "address"}


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
    kernel = kernel_with(lambda m: (T.ptx.prefetch.global_.L2(m.A.ptr_to([0])),
                                    T.ptx["cp.async.ca.shared.global"](m.tile.ptr_to([m.tx]), m.A.ptr_to([m.tx]), 4)))
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


# ---- well-formed

def test_a_malformed_instruction_is_noticed() -> None:
    def load() -> tuple[Any, Any]:
        function = kernel_with(lambda m: T.ptx.ld.global_.u32(m.r[0], m.U.ptr_to([0]))).function
        return function, next(node for node in function.device.walk() if "form" in node.attrs)

    function, node = load()
    verify(function)
    node.attrs["counts"] = (1, 1, 1)
    with pytest.raises(MalformedError, match="instructions_have_their_operands: .* has 2 operands, counted as"):
        verify(function)
    function, node = load()
    node.operands = (node.operands[1], node.operands[1])
    with pytest.raises(MalformedError, match="which is no register"):
        verify(function)
    function, node = load()
    node.operands = (node.operands[0], node.operands[0])
    with pytest.raises(MalformedError, match="takes the address of .*, a register"):
        verify(function)
