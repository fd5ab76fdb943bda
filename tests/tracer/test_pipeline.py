"""Pipelines of mbarriers: how they are recorded and written, and that rings of buffers give the right values on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulator.running import run
from tracer import T, trace
from tracer.errors import DeadlockError, TraceError

ROUNDS, STAGES = 8, 3       # no multiple: the phases of the last turn differ between stages


def streamed(copy: str, *, fill: Any = None) -> Any:
    """A warp that fills a ring, and four that empty it. `copy`: with bulk copies, cp.async or plain stores."""
    bulk = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"

    def stream(A: T.Buffer((ROUNDS, 128), "float32", align=16), B: T.Buffer((ROUNDS, 128), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([160])
        ring = T.alloc_shared((STAGES, 128), "float32", align=128)
        pipe = T.Pipeline(STAGES, producers=1 if copy == "bulk" else 32, consumers=128)
        pipe.init()
        with T.If(tx >= 128):
            with T.If((tx == 128) if copy == "bulk" else (tx >= 128)):
                p = pipe.producer()
                for k in T.serial(ROUNDS):
                    p.acquire()
                    if copy == "bulk":
                        p.commit(tx=512)
                        T.ptx[bulk](ring.ptr_to([p.stage, 0]), A.ptr_to([k, 0]), 512, p.barrier)
                    elif copy == "cp.async":
                        T.ptx.cp.async_.cg.shared.global_(ring.ptr_to([p.stage, (tx - 128) * 4]), A.ptr_to([k, (tx - 128) * 4]), 16)
                        p.commit(copies=True)
                    else:
                        for i in T.unroll(4):
                            ring[p.stage, tx - 128 + 32 * i] = A[k, tx - 128 + 32 * i]
                        p.commit()
                    p.advance()
        with T.Else():
            c = pipe.consumer()
            for k in T.serial(ROUNDS):
                c.wait()
                B[k, tx] = ring[c.stage, tx] * 2.0
                c.release()
                c.advance()

    return trace(stream)


@pytest.mark.parametrize("copy", ["bulk", "cp.async", "stores"])
def test_a_ring_is_filled_and_emptied(copy: str) -> None:
    a = np.random.default_rng(0).standard_normal((ROUNDS, 128), dtype=np.float32)
    b = np.zeros_like(a)
    run(streamed(copy), a, b)
    np.testing.assert_array_equal(b, 2 * a)


def test_text_of_a_pipeline() -> None:
    source = streamed("bulk").cuda_source(locations=False)
    for line in ("__shared__ unsigned long long full[3];", "ptx_mbarrier_init_shared_cta_b64(shared_address(&empty[2]), 128u);",
                 "ptx_fence_mbarrier_init_release_cluster();", "unsigned int produced_phase = 1;",
                 "mbarrier_wait(shared_address(&empty[produced_stage]), produced_phase);",
                 "ptx_mbarrier_arrive_expect_tx_shared_cta_b64(shared_address(&full[produced_stage]), 512u);",
                 "mbarrier_wait(shared_address(&full[consumed_stage]), consumed_phase);",
                 "ptx_mbarrier_arrive_shared_cta_b64(shared_address(&empty[consumed_stage]));", "consumed_phase ^= 1;"):
        assert f"  {line}\n" in source, line
    assert streamed("bulk").minimum_arch == "sm_90"


def test_scripts_trace_back() -> None:
    kernel = streamed("bulk")
    namespace: dict[str, Any] = {}
    exec(kernel.script(), namespace)
    assert trace(namespace["stream"]).script() == kernel.script()


def test_a_pipeline_in_a_pool_and_over_a_cluster() -> None:
    """Each block fills its own stage and the other one reads it: it arrives at that block's barrier."""
    def exchange(A: T.Buffer((2, ROUNDS, 32), "float32"), B: T.Buffer((2, ROUNDS, 32), "float32")) -> None:
        T.device_entry()
        rank = T.cta_id_in_cluster([2])
        T.cta_id([2])
        tx = T.thread_id([64])
        pool = T.SMEMPool()
        ring = pool.alloc((2, 32), "float32")
        pipe = T.Pipeline(2, producers=32, consumers=32, pool=pool, cluster=True)
        pool.commit()
        address, value = T.local_scalar("uint32"), T.local_scalar("float32")
        pipe.init()
        with T.If(tx < 32):
            p = pipe.producer()
            for k in T.serial(ROUNDS):
                p.acquire()
                ring[p.stage, tx] = A[rank, k, tx]
                pipe.full.arrive(p.stage, rank=1 - rank)
                p.advance()
            p.finish()
        with T.Else():
            c = pipe.consumer()
            for k in T.serial(ROUNDS):
                pipe.full.wait(c.stage, c.phase, cluster=True)
                T.ptx.mapa.shared__cluster.u32(address, ring.ptr_to([c.stage, tx - 32]), 1 - rank)
                T.ptx.ld.shared__cluster.f32(value, +address)
                B[1 - rank, k, tx - 32] = value
                c.release(rank=1 - rank)
                c.advance()
        T.cuda.cluster_sync()

    kernel = trace(exchange)
    a = np.random.default_rng(0).standard_normal((2, ROUNDS, 32), dtype=np.float32)
    b = np.zeros_like(a)
    run(kernel, a, b)
    np.testing.assert_array_equal(b, a)
    source = kernel.cuda_source(locations=False)
    assert "mbarrier_wait_cluster(shared_address(" in source and "ptx_mbarrier_arrive_release_cluster_shared_cluster_b64(remote);" in source


def test_a_barrier_that_nobody_completes_is_a_deadlock() -> None:
    def kernel(A: T.Buffer((32,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        bars = T.MBarriers(1, 33)
        bars.init()
        bars.arrive(0)
        bars.wait(0, 0)
        A[tx] = 1.0

    with pytest.raises(DeadlockError):
        run(trace(kernel), np.zeros(32, np.float32))


def message(body: Any) -> str:
    def kernel(A: T.Buffer((32,), "float32")) -> None:
        T.device_entry()
        T.thread_id([32])
        body()

    with pytest.raises(TraceError) as found:
        trace(kernel)
    return str(found.value).partition(": ")[2]


def test_refusals() -> None:
    assert message(lambda: T.MBarriers(0, 1)) == "T.MBarriers: count=0; it is a Python int, 1 or more"
    assert message(lambda: T.MBarriers(2, 1 << 20)) == "T.MBarriers: arrivals=1048576; it is a Python int from 1 to 1048575"
    assert message(lambda: T.Pipeline(2, consumers=1).producer().commit(tx=4, copies=True)) == (
        "commit(tx=..., copies=True): a stage is filled by bulk copies, which announce bytes, or by cp.async; give one of them")
    assert message(lambda: T.MBarriers(2, 1).arrive(0, tx=4, rank=1)) == (
        "arrive: bytes are announced at the block's own barrier; leave out tx= or rank=")
    assert message(lambda: T.MBarriers(2, 1).ptr(2)) == "index 0 of 'barriers' is 2, which is out of bounds for every thread: the extent is 2"
