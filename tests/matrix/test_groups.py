"""Several wgmma groups under way: what a wait frees, and what it leaves to the tensor core."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from symbolic.layout import mma_shared_layout
from tests.matrix.compiled import report
from tests.nvcc import needs_nvcc
from tests.simulator.running import run
from tracer import T, errors, trace

SS = RS = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"      # A in shared memory, and in registers


def chained(wait_for_scores: int = 1, fence: bool = True):
    """O = (Q K0') K0 + (Q K1') K1 for 64 x 64 tiles, as attention does: the second scores are computed while the first ones are used."""
    layout = mma_shared_layout("bfloat16", "128B", (64, 64))

    def kernel(Q: T.Buffer((64, 64), "bfloat16"), K: T.Buffer((2, 64, 64), "bfloat16"), O: T.Buffer((64, 64), "float32")):
        T.device_entry()
        tx = T.thread_id([128])
        q, k0, k1 = (T.alloc_shared((64, 64), "bfloat16", layout=layout, align=1024) for _ in range(3))
        for i in T.serial(32):
            row, column = i * 2 + tx // 64, tx % 64
            q[row, column] = Q[row, column]
            k0[row, column] = K[0, row, column]
            k1[row, column] = K[1, row, column]
        T.ptx.fence.proxy.async_.shared__cta()
        T.cuda.cta_sync()
        scores = [T.alloc_local((32,), "float32") for _ in range(2)]
        out = T.alloc_local((32,), "float32")
        p = T.alloc_local((16,), "uint32")

        def score(n, k):
            for step in range(4):
                T.ptx[SS](scores[n], T.cuda.wgmma.descriptor(q.ptr_to([0, 16 * step])), T.cuda.wgmma.descriptor(k.ptr_to([0, 16 * step])), step > 0)
            T.ptx.wgmma.commit_group.sync.aligned()

        def weigh(n, k):
            """A fragment of 16 columns is the accumulator's registers of these columns, two by two."""
            for i in range(16):
                T.ptx.cvt.rn.bf16x2.f32(p[i], scores[n][2 * i + 1], scores[n][2 * i])
            if fence:
                T.ptx.wgmma.fence.sync.aligned()
            for step in range(4):
                T.ptx[RS](out, [p[4 * step + i] for i in range(4)], T.cuda.wgmma.descriptor(k.ptr_to([16 * step, 0]), major="MN"),
                          (n > 0) or (step > 0), trans_b=1)
            T.ptx.wgmma.commit_group.sync.aligned()

        T.ptx.wgmma.fence.sync.aligned()
        score(0, k0)
        score(1, k1)
        T.ptx.wgmma.wait_group.sync.aligned(wait_for_scores)    # the first scores are there, the second ones under way
        weigh(0, k0)
        T.ptx.wgmma.wait_group.sync.aligned(0)                  # p may be written again
        weigh(1, k1)
        T.ptx.wgmma.wait_group.sync.aligned(0)
        for i in range(32):
            O[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2] = out[i]

    return trace(kernel)


def given():
    rng = np.random.default_rng(2)
    q, k = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((64, 64), (2, 64, 64)))
    return q, k, np.zeros((64, 64), np.float32)


def test_a_chain_of_groups():
    q, k, out = given()
    run(chained(), q, k, out)
    wide = [x.astype(np.float64) for x in (q, k[0], k[1])]
    expected = sum((wide[0] @ x.T).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64) @ x for x in wide[1:])
    np.testing.assert_allclose(out, expected, rtol=1e-2, atol=0.5)


def test_a_wait_that_does_not_cover():
    with pytest.raises(errors.AsyncError, match="is still writing; commit it and wait for its group first"):
        run(chained(wait_for_scores=2), *given())


def test_a_fragment_written_without_a_fence():
    with pytest.raises(errors.AsyncError, match="registers of p were used by other instructions, and no wgmma.fence stands between"):
        run(chained(fence=False), *given())


@needs_nvcc
def test_ptxas_serialises_nothing(tmp_path):
    report(chained().cuda_source(), tmp_path, "sm_90a")
