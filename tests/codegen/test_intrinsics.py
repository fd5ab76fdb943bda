"""Every intrinsic: it compiles without a warning for each architecture that has it, its script traces back, its text is as expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codegen.architecture import number
from tests.codegen.every_intrinsic import kernels
from tests.kernels import clusters
from tests.nvcc import ARCHITECTURES, cubin, needs_nvcc, one_unit
from tracer import T, trace
from tracer import operations as ops
from tracer.errors import CompileError, TraceError
from tracer.instructions import is_instruction


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_intrinsic_compiles(architecture: str, tmp_path: Path) -> None:
    able = [k for k in kernels().values() if number(k.minimum_arch) <= number(architecture)]
    made = cubin(one_unit(k.cuda_source(locations=False) for k in able), tmp_path, [architecture])
    assert made[architecture].stat().st_size > 0


def test_every_row_of_cuda_is_used() -> None:
    used = {node.op for kernel in kernels().values() for node in kernel.function.device.walk()}
    barriers_and_calls = {ops.WARP_SYNC, ops.SHFL, ops.SHFL_UP, ops.SHFL_DOWN, ops.FUNC_CALL}       # in `every_operation` and `tests.kernels`
    rows = {row for row in ops.OPERATIONS.values() if row.name.startswith("cuda.") and not is_instruction(row)}
    assert rows - used == barriers_and_calls


def test_every_row_says_where_it_is_defined_and_since_when() -> None:
    for row in ops.OPERATIONS.values():
        assert row.since == "" or number(row.since.rstrip("+")) > 75, row
        assert row.source or not row.name.startswith("cuda.") or row is ops.FUNC_CALL, row


def accessed(access: Any) -> tuple[str, str, bool | None, str]:
    """An access without its coordinates, in which a script may have given a name to what had none."""
    return access.buffer, access.kind, access.in_bounds, str(access).rsplit("  ", 1)[1]


@pytest.mark.parametrize("name", kernels())
def test_scripts_trace_back(name: str) -> None:
    kernel = kernels()[name]
    namespace: dict[str, Any] = {}
    exec(kernel.script(), namespace)
    again = trace(namespace[name])
    assert again.script() == kernel.script()
    assert [node.op for node in again.function.device.walk()] == [node.op for node in kernel.function.device.walk()]
    assert [accessed(a) for a in again.accesses()] == [accessed(a) for a in kernel.accesses()]


def lines(kernel: Any) -> list[str]:
    return [line.strip() for line in kernel.cuda_source(locations=False).split("{\n", 1)[1].rstrip("}\n").split("\n")]


def test_text_of_atomics() -> None:
    def kernel(A: T.Buffer((64,), "int64"), B: T.Buffer((64,), "uint32"), C: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        cell = T.shared_scalar("uint32", 0)
        T.cuda.atomic_add(A.ptr_to([tx // 2]), -1)
        A[tx] = T.cuda.atomic_cas(A.ptr_to([0]), A[tx], 7, scope="system")
        place = T.cuda.atomic_inc(T.address_of(cell), 63, scope="block")
        C[place.astype("int32")] = T.cuda.atomic_exch(C.ptr_to([1]), 2.0)
        T.cuda.atomic_max(B.view("int32").ptr_to([tx]), tx - 1)

    traced = trace(kernel)
    assert lines(traced) == [
        "const int tx = threadIdx.x;",
        "__shared__ unsigned int cell;",
        "cell = 0;",
        "atomicAdd((unsigned long long*)&A_ptr[tx / 2], (unsigned long long)-1LL);",
        "A_ptr[tx] = (long long)atomicCAS_system((unsigned long long*)&A_ptr[0], (unsigned long long)A_ptr[tx], (unsigned long long)7LL);",
        "const unsigned int place = atomicInc_block(&cell, 63u);",
        "C_ptr[(int)place] = atomicExch(&C_ptr[1], 2.0f);",
        "atomicMax(&((int*)B_ptr)[tx], tx - 1);",
    ]
    assert [(str(a), a.kind, a.in_bounds) for a in traced.accesses() if a.kind == "atomic"] == [
        ("A[tx//2] atomic  tx//2", "atomic", True), ("A[0] atomic  0", "atomic", True), ("C[1] atomic  1", "atomic", True),
        ("buffer1[tx] atomic  tx", "atomic", True),
    ]


def test_a_load_stays_on_its_side_of_an_atomic() -> None:
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        before = A[0] + 1
        B[tx] = T.cuda.atomic_add(A.ptr_to([0]), 1) + A[0] * before

    source = lines(trace(kernel))
    assert source == [
        "const int tx = threadIdx.x;",
        "const int before = A_ptr[0] + 1;",
        "const int v0 = atomicAdd(&A_ptr[0], 1);",
        "B_ptr[tx] = v0 + A_ptr[0] * before;",
    ]


def test_text_of_votes_and_bits() -> None:
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        a = A[tx]
        votes = T.cuda.ballot_sync(0xFFFFFFFF, a > 3)
        with T.If(T.cuda.all_sync(0xFF, a == 0) & (tx < 8)):
            B[tx] = T.cuda.reduce_min_sync_u32(votes, 5)
        B[tx] = T.cuda.popc(a).astype("uint32") + T.cuda.funnelshift_lc(votes, 1, 3)
        A[tx] = T.cuda.brev(a)

    assert lines(trace(kernel)) == [
        "const int tx = threadIdx.x;",
        "const int a = A_ptr[tx];",
        "const unsigned int votes = __ballot_sync(0xffffffff, a > 3);",
        "const bool v0 = __all_sync(0xff, a == 0) != 0;",
        "if (v0 && tx < 8) {",
        "B_ptr[tx] = __reduce_min_sync(votes, 5u);",
        "}",
        "B_ptr[tx] = (unsigned int)__popc((unsigned int)a) + __funnelshift_lc(votes, 1u, 3u);",
        "A_ptr[tx] = (int)__brev((unsigned int)a);",
    ]


def test_text_of_cache_hints() -> None:
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        x = T.cuda.ldg(A.ptr_to([tx]), "float32")
        T.cuda.stcs(B.ptr_to([tx]), T.cuda.ldcg(B.ptr_to([tx]), "float32") + x)
        B[tx] = T.cuda.ldcv(B.ptr_to([tx]), "float32") + 1.0

    assert lines(trace(kernel)) == [
        "const int tx = threadIdx.x;",
        "const float x = __ldg(&A_ptr[tx]);",
        "__stcs(&B_ptr[tx], __ldcg(&B_ptr[tx]) + x);",
        "B_ptr[tx] = __ldcv(&B_ptr[tx]) + 1.0f;",
    ]


def test_text_of_vectors() -> None:
    def kernel(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32"), C: T.Buffer((64,), "float32x4")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        v = T.cuda.ldg(A.ptr_to([tx * 4]), "float32x4")
        w = T.cuda.ldcs(A.ptr_to([tx * 4 + 1]), "float32x2")
        T.cuda.stcs(B.ptr_to([tx * 4]), v)
        T.cuda.stwt(B.ptr_to([tx * 2 + 129]), w)
        T.cuda.stcg(C.ptr_to([tx]), T.cuda.atomic_add(C.ptr_to([tx]), v, scope="block"))

    made = trace(kernel)
    assert lines(made) == [
        "const int tx = threadIdx.x;",
        "const float4 v = __ldg((const float4*)(A_ptr + tx * 4));",
        "const float2 w = make_float2(__ldcs(&A_ptr[tx * 4 + 1]), __ldcs(&A_ptr[tx * 4 + 2]));",
        "__stcs((float4*)(B_ptr + tx * 4), v);",
        "__stwt(&B_ptr[tx * 2 + 129], w.x);",
        "__stwt(&B_ptr[tx * 2 + 130], w.y);",
        "__stcg(&C_ptr[tx], atomicAdd_block(&C_ptr[tx], v));",
    ]
    assert made.minimum_arch == "sm_90"


def refusal(body: Any) -> str:
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32x4")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        tile = T.alloc_shared((8,), "float32x4")
        body(A, B, tile, tx)

    with pytest.raises(TraceError) as found:
        trace(kernel)
    return str(found.value).partition(": ")[2].partition("\n")[0]


def test_refusals_of_vectors() -> None:
    assert refusal(lambda A, B, tile, tx: T.cuda.atomic_add(tile.ptr_to([0]), B[0])) == (
        "`cuda.atomic_add` of float32x4 on 'tile' in shared memory; vectors of float32 are added in global memory. Add its lanes one by one, "
        "through tile.view(\"float32\")")
    assert refusal(lambda A, B, tile, tx: T.cuda.ldg(A.ptr_to([tx]), "float16x2")) == (
        "`cuda.ldg` of float16x2 from 'A', whose elements are float32; the element types must agree")
    assert refusal(lambda A, B, tile, tx: T.cuda.ldg(A.ptr_to([61]), "float32x4")) == (
        "index 0 of 'A' is 64, which is out of bounds for every thread: the extent is 64")
    assert "`cuda.ldg` of float32x3; it moves int8, " in refusal(lambda A, B, tile, tx: T.cuda.ldg(A.ptr_to([0]), "float32x3"))


# ---- architectures

def test_minimum_architecture() -> None:
    assert kernels()["votes"].minimum_arch == "sm_75"
    assert kernels()["reduce_or_sync_u32"].minimum_arch == "sm_80"
    assert kernels()["elected"].minimum_arch == trace(clusters).minimum_arch == "sm_90"


def test_an_architecture_that_is_too_old_is_refused_by_name() -> None:
    with pytest.raises(CompileError, match=r"^reduce_add_sync_u32_kernel cannot be compiled for sm_75: T.cuda.reduce_add_sync_u32 at "
                                           r".*every_intrinsic.py:\d+ needs sm_80 or later$"):
        kernels()["reduce_add_sync_u32"].compile("sm_75")
    with pytest.raises(CompileError, match=r"clusters_kernel cannot be compiled for sm_80: a launch in clusters at .*kernels.py:\d+ needs sm_90"):
        trace(clusters).compile("sm_80")
    with pytest.raises(CompileError, match="'hopper' is not an architecture; write one such as \"sm_90a\""):
        kernels()["votes"].compile("hopper")
