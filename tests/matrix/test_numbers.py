"""Descriptors and addresses as numbers: by hand and from buffers, on the simulator and as CUDA."""

from __future__ import annotations

import numpy as np
import pytest

from symbolic.layout import mma_shared_layout
from symbolic.layout.descriptors import MatrixDescriptor
from tests.simulator.running import run
from tracer import T, trace
from tracer.matrix import InstructionDescriptor

SHAPE = (3, 64, 64)


@trace
def numbers(D: T.Buffer((8,), "uint64"), E: T.Buffer((4,), "uint32")):
    T.device_entry()
    T.thread_id([1])
    a = T.alloc_shared(SHAPE, "float16", layout=mma_shared_layout("float16", "128B", SHAPE), align=1024)
    d, e = T.alloc_local((3,), "uint64"), T.alloc_local((1,), "uint32")
    T.cuda.wgmma.encode_matrix_descriptor(d.ptr_to([0]), a.ptr_to([1, 0, 0]), ldo=1, sdo=64, swizzle=3)
    T.cuda.tcgen05.encode_matrix_descriptor(d[1], a.ptr_to([2, 8, 16]), 1, 64, 3)
    T.cuda.wgmma.encode_matrix_descriptor(d[2], T.cuda.cvta_generic_to_shared(a.ptr_to([0, 0, 0])), 8, 128, 0)
    T.cuda.tcgen05.encode_instr_descriptor(e.ptr_to([0]), "float32", "float16", "float16", 128, 64, trans_b=True)
    for i in range(3):
        D[i] = d[i]
    D[3] = T.cuda.wgmma.descriptor(a.ptr_to([1, 0, 0]))
    D[4] = T.cuda.tcgen05.descriptor(a.ptr_to([2, 8, 16]), mn=32)
    D[5] = T.cuda.wgmma.descriptor(a[1, 0:64, 0:64].ptr_to([0, 0]), major="MN") + T.uint64(2)
    D[6] = T.cuda.matrix_descriptor(a.ptr_to([0, 0, 0]), 1 << 62)
    E[0] = e[0]
    E[1] = T.cuda.tcgen05.instruction_descriptor("f16", "f16", "f16", 64, 8, negate_a=True)
    E[2] = T.cuda.get_tmem_addr(T.uint32(0x100), 32, 4)


def test_numbers():
    d, e = np.zeros(8, np.uint64), np.zeros(4, np.uint32)
    run(numbers, d, e)
    first, second = 64 * 128, 2 * 64 * 128 + 8 * 128 + 32
    assert [int(x) for x in d[:7]] == [
        MatrixDescriptor(first, 16, 1024, "128B").encode("wgmma"),
        MatrixDescriptor(second, 16, 1024, "128B").encode("tcgen05"),
        MatrixDescriptor(0, 128, 2048, "none").encode("wgmma"),
        MatrixDescriptor(first, 16, 1024, "128B").encode("wgmma"),
        MatrixDescriptor(second, 16, 1024, "128B").encode("tcgen05"),
        MatrixDescriptor(first + 32, 16, 1024, "128B").encode("wgmma"),
        1 << 62]
    assert e[:3].tolist() == [1 << 4 | 1 << 16 | 64 >> 3 << 17 | 128 >> 4 << 24, 1 << 13 | 8 >> 3 << 17 | 64 >> 4 << 24, 32 << 16 | 0x104]


def test_their_cuda():
    source = numbers.cuda_source(locations=False)
    for line in ("matrix_descriptor_of(d[0], shared_address(&a[4096]), 1u, 64u, 0x4000000000000000ull);",
                 "matrix_descriptor_of(d[1], shared_address(&a[8720]), 1u, 64u, 0x4000400000000000ull);",
                 "matrix_descriptor(shared_address(&a[4096]), 0x4000004000010000ull)",
                 "E_ptr[2] = tmem_address(256u, 32u, 4u);", "E_ptr[0] = e[0];", "e[0] = 135331856;"):
        assert line in source, source


def test_the_script_traces_back():
    assert trace_of(numbers.script()).cuda_source(locations=False) == numbers.cuda_source(locations=False)


def trace_of(script: str):
    scope: dict = {}
    exec(compile(script, "script.py", "exec"), scope)
    return trace(scope["numbers"])


@pytest.mark.parametrize("what", [
    InstructionDescriptor("f16", "f32", "bf16", "bf16", 128, 256), InstructionDescriptor("tf32", "f32", "tf32", "tf32", 64, 8),
    InstructionDescriptor("f16", "f16", "f16", "f16", 64, 248, True, False, True, True)])
def test_instruction_descriptors_are_read_back(what):
    assert InstructionDescriptor.decode(what.encode(), what.kind) == what


def test_the_known_instruction_descriptor():
    """128 x 256, bfloat16 into float32, both K-major: what CUTLASS makes."""
    assert InstructionDescriptor("f16", "f32", "bf16", "bf16", 128, 256).encode() == 0x08400490


@pytest.mark.parametrize("bits, kind, message", [
    (0x08400491, "f16", "0x08400491 sets bits of sparse, saturating or other forms (0-3, 6, 23, 29-31), which are not built"),
    (0x08400490, "tf32", "0x08400490 has the type codes d 1, a 1, b 1; kind::tf32 has d {'f32': 1} and a, b {'tf32': 2}"),
    (0x0C400490, "f16", "cta_group::1 has M = 64 and 128, not 192"),
])
def test_bits_that_are_no_instruction(bits, kind, message):
    assert InstructionDescriptor.decode(bits, kind) == message


def test_noop_barrier():
    """It is there for the compiler alone."""
    @trace
    def kernel(A: T.Buffer((32,), "float32")):
        T.device_entry()
        tx = T.thread_id([32])
        r = T.alloc_local((3,), "float32")
        for i in range(3):
            r[i] = A[tx]
        T.cuda.wgmma.noop_barrier(r[0])
        T.cuda.wgmma.noop_barrier(r)
        A[tx] = r[0] + r[1] + r[2]

    a = np.arange(32, dtype=np.float32)
    run(kernel, a)
    assert a.tolist() == [3.0 * i for i in range(32)]
    assert "hold_3f(r[0], r[1], r[2]);" in kernel.cuda_source()
