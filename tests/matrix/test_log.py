"""What ptxas says of wgmma that it cannot run beside the warps stays in the executable's log."""

from __future__ import annotations

from runtime.compiler_log import without_account
from tests.matrix.test_groups import chained
from tests.nvcc import needs_nvcc
from tracer import T, trace


def touched(A: T.Buffer((128,), "float32"), D: T.Buffer((1,), "uint64")):
    """An accumulator that is used while wgmma works on it: the simulator refuses it, ptxas makes it slow."""
    T.device_entry()
    tx = T.thread_id([128])
    acc = T.alloc_local((8,), "float32")
    d = T.let(D[0])
    for _ in T.serial(4):
        T.ptx["wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16"](acc, d, d, True)
        T.ptx.wgmma.commit_group.sync.aligned()
        T.ptx.wgmma.wait_group.sync.aligned(1)
        acc[0] += 1.0
    T.ptx.wgmma.wait_group.sync.aligned(0)
    A[tx] = acc[0] + acc[7]


@needs_nvcc
def test_a_serialised_wgmma_is_told_of():
    log = trace(touched).compile("sm_90a").log
    assert "(C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized" in log
    assert "registers, used" not in log


@needs_nvcc
def test_nothing_is_told_of_a_sound_one():
    assert chained().compile("sm_90a").log == ""


def test_the_account_goes():
    log = ("ptxas info    : 0 bytes gmem\n"
           "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.\n"
           "ptxas info    : Used 34 registers, used 0 barriers\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n")
    assert without_account(log) == ("ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count "
                                    "at entry.")
