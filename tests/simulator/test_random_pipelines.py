"""Random pipelines give their result in every order; with one thing wrong they are reported, whatever it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.simulator.running import run
from tracer import T, trace
from tracer.errors import SimulationError

WIDTH = 64          # float32 a stage


class Plan(NamedTuple):
    """A ring of `stages`, filled `rounds` times in the `way` "threads", "cp.async" or "bulk", and emptied by `consumers` warps, of which every
    thread arrives, or one lane a warp. `wrong` is what is wrong."""

    stages: int
    rounds: int
    way: str
    consumers: int
    lanes: bool
    wrong: str = ""


def plan(seed: int, wrong: str = "") -> Plan:
    rng = np.random.default_rng(seed)
    stages = int(rng.integers(1, 5))
    return Plan(stages, int(rng.integers(2, 4)) * stages + int(rng.integers(0, 3)), ("threads", "cp.async", "bulk")[seed % 3],
                int(rng.integers(1, 4)), bool(rng.integers(2)), wrong)


def kernel(p: Plan) -> Any:
    def off(name: str, by: int = 1) -> int:
        return by if p.wrong == name else 0

    arrivals = {"threads": 64, "cp.async": 64, "bulk": 1}[p.way]
    releases = p.consumers * (32 if p.lanes else 1)

    def pipeline(A: T.Buffer((p.rounds, WIDTH), "float32"), B: T.Buffer((p.rounds, p.consumers * 32), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([64 + 32 * p.consumers])
        s = T.alloc_shared((p.stages, WIDTH), "float32")
        full, empty = T.alloc_shared((p.stages,), "uint64"), T.alloc_shared((p.stages,), "uint64")
        with T.If(tx == 0):
            for n in range(p.stages):
                T.ptx.mbarrier.init.shared.b64(full.ptr_to([n]), arrivals + off("more expected by full") - off("fewer expected by full"))
                T.ptx.mbarrier.init.shared.b64(empty.ptr_to([n]), releases + off("more expected by empty") - off("fewer expected by empty"))
            if p.wrong != "no fence":
                T.ptx.fence.mbarrier_init.release.cluster()
        if p.wrong != "no barrier":
            T.cuda.cta_sync()

        def fill(i: Any, stage: Any) -> None:
            bar = full.ptr_to([stage])
            if p.way == "threads":
                s[stage, tx] = A[i, tx] * 1.0
            elif p.way == "cp.async":
                T.ptx["cp.async.ca.shared.global"](s.ptr_to([stage, tx]), A.ptr_to([i, tx]), 4)
                T.ptx.cp.async_.mbarrier.arrive.noinc.shared.b64(bar)
            else:
                T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar, WIDTH * 4 + off("more bytes expected", 16) - off("fewer bytes expected", 16))
                T.ptx["cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"](s.ptr_to([stage, 0]), A.ptr_to([i, 0]), WIDTH * 4, bar)
            if p.way == "threads" and p.wrong != "no arrival":
                T.ptx.mbarrier.arrive.shared.b64(bar)

        with T.If(tx < 64):
            with T.If((tx == 0) if p.way == "bulk" else (tx >= 0)):
                for i in T.serial(p.rounds):
                    if p.wrong != "no wait for empty":
                        T.cuda.mbarrier_wait(empty.ptr_to([i % p.stages]), (i // p.stages + 1 + off("parity of empty")) % 2)
                    fill(i, i % p.stages)
        with T.Else():
            t = tx - 64
            for i in T.serial(p.rounds):
                if p.wrong != "no wait for full":
                    T.cuda.mbarrier_wait(full.ptr_to([i % p.stages]), (i // p.stages + off("parity of full")) % 2)
                B[i, t] = s[i % p.stages, t % 32] + s[i % p.stages, 63 - t % 32]
                if not p.lanes and p.wrong != "no warp_sync":
                    T.cuda.warp_sync()
                if p.wrong != "no release":
                    with T.If((t % 32 == 0) if not p.lanes else (t >= 0)):
                        T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([i % p.stages]))

    return trace(pipeline)


def outcome(p: Plan, seed: int | None = None) -> bool:
    """Whether the result is right."""
    a, b = np.random.default_rng(0).standard_normal((p.rounds, WIDTH), dtype=np.float32), np.zeros((p.rounds, p.consumers * 32), np.float32)
    run(kernel(p), a, b, seed=seed)
    return bool((b == np.tile(a[:, :32] + a[:, :31:-1], p.consumers)).all())


@pytest.mark.parametrize("number", range(9))
def test_right_in_every_order(number: int) -> None:
    assert all(outcome(plan(number), seed) for seed in (None, 1, 2))


EVERYWHERE = ("more expected by full", "more expected by empty", "parity of full", "parity of empty", "no wait for full", "no wait for empty",
              "no release", "no barrier")
ONLY = {"no arrival": ("threads",), "more bytes expected": ("bulk",), "fewer bytes expected": ("bulk",), "no fence": ("bulk",),
        "fewer expected by full": ("threads", "cp.async")}


@pytest.mark.parametrize("wrong", [*EVERYWHERE, *ONLY, "fewer expected by empty", "no warp_sync"])
@pytest.mark.parametrize("number", range(6))
def test_wrong(wrong: str, number: int) -> None:
    p = plan(number, wrong)
    if p.way not in ONLY.get(wrong, (p.way,)):
        p = p._replace(way=ONLY[wrong][0])
    if wrong == "no warp_sync":
        p = p._replace(lanes=False)
    if wrong == "fewer expected by empty":
        p = p._replace(lanes=True)      # at least one is left
    with pytest.raises(SimulationError):
        outcome(p)
