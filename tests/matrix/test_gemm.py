"""The GEMMs of the examples: right on the simulator in any legal order, compiled without spills; and what is said of broken ones."""

from __future__ import annotations

import inspect
import re
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from examples import ampere_gemm, blackwell_gemm, hopper_gemm
from tests.matrix.compiled import report
from tests.nvcc import needs_nvcc
from tests.simulator.running import run
from tracer import errors, trace


def sizes(m: int, n: int, k: int, **others: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k, **others}


BF16, F16 = ml_dtypes.bfloat16, np.float16
# The module, the dtypes of operands and result, a small problem that goes round its stages more than once.
SMALL: dict[str, tuple[Any, Any, Any, dict[str, int]]] = {
    "ampere": (ampere_gemm, F16, F16, sizes(64, 64, 320, BM=64, BN=64)),
    "hopper": (hopper_gemm, BF16, BF16, sizes(256, 256, 192, BN=128, STAGES=2, BLOCKS=2)),
    "blackwell": (blackwell_gemm, BF16, np.float32, sizes(128, 64, 320, BN=64, STAGES=2)),
}
MORE = [("ampere", sizes(256, 128, 64)), ("hopper", sizes(256, 256, 256)), ("hopper", sizes(256, 64, 192, BN=64, STAGES=4, CLUSTER=1)),
        ("hopper", sizes(512, 192, 128, BN=192, STAGES=3, CLUSTER=4)), ("blackwell", sizes(256, 256, 128, BN=128, STAGES=4))]


@pytest.mark.parametrize("name", SMALL)
def test_scripts_trace_back(name: str) -> None:
    module, _, _, size = SMALL[name]
    text = module.gemm.specialize(**size).script()
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    assert trace(namespace["gemm"]).script() == text


def multiplied(gemm: Any, given: Any, made: Any, size: dict[str, int], **how: Any) -> None:
    """Run it, and compare with float64."""
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((size[x], size["K"])).astype(given) for x in "MN")
    c = np.full((size["M"], size["N"]), 77, made)
    run(gemm.specialize(**size), a, b, c, **how)
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=float(ml_dtypes.finfo(made).eps), atol=1e-4 * np.sqrt(size["K"]))


@pytest.mark.parametrize("name, size", [(name, case[3]) for name, case in SMALL.items()] + MORE, ids=str)
def test_right(name, size):
    module, given, made, _ = SMALL[name]
    multiplied(module.gemm, given, made, size)


@pytest.mark.parametrize("name", ["hopper", "blackwell"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_legal_order(name, seed):
    module, given, made, size = SMALL[name]
    multiplied(module.gemm, given, made, size, seed=seed)


def test_quick():
    """256 x 256 x 256 through TMA, wgmma and mbarriers, all checks on: asked for are 20 s."""
    begin = time.process_time()
    multiplied(hopper_gemm.gemm, BF16, BF16, sizes(256, 256, 256))
    assert time.process_time() - begin < 15


@needs_nvcc
@pytest.mark.parametrize("name, architecture", [("ampere", "sm_80"), ("hopper", "sm_90a"), ("blackwell", "sm_100a")])
def test_compiled_without_spills(name, architecture, tmp_path):
    kernel = SMALL[name][0].gemm.specialize(M=4096, N=4096, K=4096)
    told = report(kernel.cuda_source(), tmp_path, architecture)
    assert kernel.minimum_arch == architecture
    if name == "hopper":        # setmaxnreg is heeded: the entry has what 384 threads may have
        assert "Used 168 registers" in told


@pytest.mark.parametrize("name", SMALL)
def test_the_example_runs(name, capsys):
    SMALL[name][0].main()
    assert "simulator: right" in capsys.readouterr().out


# ---- broken ones: what is written instead of what, and the error with its line ----------------------------------------------------

BROKEN = [
    # a missing fence, commit or wait
    ("hopper", "                T.ptx.wgmma.fence.sync.aligned()\n", "", errors.AsyncError, "no wgmma.fence stands between", "wgmma.mma_async"),
    ("hopper", "                T.ptx.wgmma.commit_group.sync.aligned()\n", "", errors.DataRaceError,
     "load of smem (byte 0) by ptx.wgmma.mma_async", "wgmma.mma_async"),
    ("hopper", "            T.ptx.wgmma.wait_group.sync.aligned(0)\n", "", errors.AsyncError, "is still writing; commit it and wait for its group",
     "cvt.rn"),
    ("hopper", "                T.ptx.wgmma.wait_group.sync.aligned(1) ", "                #", errors.DataRaceError,
     "load of smem (byte 0) by ptx.wgmma.mma_async", "T.tma.load(a"),
    ("hopper", "                T.ptx.fence.proxy.async_.shared__cta() ", "                #", errors.DataRaceError, "goes through another proxy",
     "stmatrix"),
    ("hopper", "T.tma.wait(SLABS - 1, read=True)    ", "pass  ", errors.DataRaceError, "by ptx.cp.async.bulk.tensor.store", "stmatrix"),
    ("hopper", "                T.cuda.warpgroup_sync(1 + worker)\n                with", "                with", errors.UninitializedReadError,
     "cp.async.bulk.tensor.store", "T.tma.store"),
    # a wrong phase
    ("hopper", "(step // STAGES % 2) ^ 1", "step // STAGES % 2", errors.DeadlockError, "cuda.mbarrier_wait waits for empty[0]",
     "empty.wait"),
    ("hopper", "full.wait(s, step // STAGES % 2)", "full.wait(s, (step // STAGES + 1) % 2)", errors.DataRaceError,
     "by ptx.wgmma.mma_async", "wgmma.mma_async"),
    ("hopper", "step = turn * steps + k\n                s = step", "step = k\n                s = step", errors.SimulationError, "full[", ""),
    # a wrong count of arrivals or bytes
    ("hopper", "WORKERS * CLUSTER, ", "WORKERS * CLUSTER + 1, ", errors.DeadlockError, "it waits for 1 of 5 arrivals", "empty.wait"),
    ("hopper", "WORKERS * CLUSTER, ", "WORKERS * CLUSTER - 1, ", errors.MBarrierError, "more threads arrive than the 3 that mbarrier.init counts",
     "empty.arrive"),
    ("hopper", "(BM + BN) * BK * 2)", "(BM + BN) * BK * 2 + 16)", errors.DeadlockError, "waits for full[0]", "full.wait"),
    ("hopper", "cta_mask=(1 << CLUSTER) - 1", "cta_mask=1", errors.DeadlockError, "waits for full[0]", "full.wait"),
    ("hopper", "            with T.If(thread < CLUSTER):\n", "            with T.If(thread < 0):\n", errors.DeadlockError, "waits for empty[",
     "empty.wait"),
    # a wrong descriptor, a barrier that is not there yet
    ("hopper", "(BM * BK * 2 // 16) + 2 * i)", "(BM * BK * 2 // 16) + 8 * i)", errors.DescriptorError,
     "A: the descriptor starts at shared address 0x80, 1 row(s) of 128 bytes into a pattern of the 128B swizzle", "wgmma.mma_async"),
    ("hopper", "    ring.init()\n", "", errors.MBarrierError, "is no mbarrier", ""),
    # a block that ends while others still tell it something
    ("hopper", "    T.cuda.cluster_sync()         ", "    #", errors.ClusterError, "which may have ended by then", "empty.arrive"),
    # tensor memory
    ("blackwell", "            T.ptx.tcgen05.wait__ld.sync.aligned()\n", "", errors.AsyncError,
     "is still writing; wait first (tcgen05.wait::ld)", "C.vstore"),
    ("blackwell", "        T.ptx.tcgen05.fence__after_thread_sync()\n        r =", "        r =", errors.TensorMemoryError,
     "the warp ran no tcgen05.fence::after_thread_sync behind its wait", "tcgen05.ld"),
    ("blackwell", "        done.wait(0, 0)\n", "", errors.UninitializedReadError, "which nothing has written",
     "tcgen05.ld"),
    ("blackwell", "        commit(done.ptr(0))\n", "", errors.DeadlockError, "waits for done[0]", "done.wait"),
    ("blackwell", "            commit(ring.empty.ptr(s)) ", "            #", errors.DeadlockError, "waits for empty[0]", "empty.wait"),
    ("blackwell", "T.MBarriers(1, 1, ", "T.MBarriers(1, 2, ", errors.DeadlockError, "it waits for 1 of 2 arrivals", "done.wait"),
    ("blackwell", "(warp == MULTIPLIER) & T.cuda.elect_sync()", "warp == MULTIPLIER", errors.TensorMemoryError,
     "32 threads of a warp issue it, so that it would happen 32 times", "tcgen05.mma"),
    ("blackwell", "acc.tmem_address(warp * 32, j)", "acc.tmem_address(0, j)", errors.TensorMemoryError,
     "lane 0, column 0 is outside lanes 32 to 63, which are all that warp 1 reaches", "tcgen05.ld"),
    ("blackwell", "(k > 0) | (step > 0))", "True)", errors.UninitializedReadError, "the first mma on an accumulator has enable-input-d false",
     "tcgen05.mma"),
    ("blackwell", "full.wait(s, k // STAGES % 2)", "full.wait(s, 0)", errors.DataRaceError, "by ptx.tcgen05.mma", "T.tma.load(a"),
    # groups of copies
    ("ampere", "        T.cuda.cta_sync()  ", "        #", errors.DataRaceError, "by ptx.cp.async", "ldmatrix"),
    ("ampere", "wait_group(STAGES - 2)", "wait_group(STAGES - 1)", errors.DataRaceError, "by ptx.cp.async", "ldmatrix"),
    ("ampere", "        T.ptx.cp.async_.commit_group()\n        for kk", "        for kk", errors.DataRaceError, "by ptx.cp.async", "ldmatrix"),
]


@pytest.mark.parametrize("name, old, new, error, message, line", BROKEN, ids=lambda x: str(x).strip()[:40] if isinstance(x, str) else "")
def test_broken(name, old, new, error, message, line):
    module, given, made, size = SMALL[name]
    source = inspect.getsource(module)
    assert source.count(old) == 1
    source = source.replace(old, new)
    scope: dict[str, Any] = {"__name__": "broken"}
    exec(compile(source, "broken.py", "exec"), scope)
    with pytest.raises(error) as caught:
        multiplied(scope["gemm"], given, made, size)
    told = str(caught.value)
    assert message in told
    lines = [source.split("\n")[int(number) - 1:int(number) + 2] for number in re.findall(r"broken\.py:(\d+)", told)]
    assert any(line in "\n".join(near) for near in lines), told
