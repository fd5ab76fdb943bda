"""Loads, stores and atomics as instructions, fences, elected lanes, registers given and taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulator.running import ALONE, fails, run
from tracer import T, trace
from tracer.errors import BarrierDivergenceError, BarrierError, DeadlockError, OutOfBoundsError

SEEDS = (None, 1, 2, 3)


# ---- loads and stores ------------------------------------------------------------------------------------------------------------

def test_vectors_and_types() -> None:
    @trace
    def k(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), C: T.Buffer((32,), "uint8")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        f, u, h = T.alloc_local((4,), "float32"), T.alloc_local((2,), "uint64"), T.alloc_local((1,), "uint8")
        s = T.alloc_shared((128,), "float32")
        T.ptx.ld["global"].v4.f32(f[0], f[1], f[2], f[3], A.ptr_to([tx * 4]))
        T.ptx.st.shared.v4.f32(s.ptr_to([tx * 4]), f[3], f[2], f[1], f[0])
        T.ptx.ld.shared.v2.b64(u[0], u[1], s.ptr_to([tx * 4]))
        T.ptx.st["global"].v2.b64(B.ptr_to([tx * 4]), u[0], u[1])
        T.ptx.ld.volatile["global"].u8(h[0], C.ptr_to([tx]))
        T.ptx.st["global"].u8(C.ptr_to([tx]), h[0] * 2)

    a, b, c = np.arange(128, dtype=np.float32), np.zeros(128, np.float32), np.arange(100, 132, dtype=np.uint8)
    run(k, a, b, c)
    assert (b.reshape(-1, 4) == a.reshape(-1, 4)[:, ::-1]).all()
    assert (c == (np.arange(100, 132) * 2).astype(np.uint8)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flag_between_blocks(seed: int | None) -> None:
    """Block 1 waits for what block 0 releases; block 0 starts first, and with a seed it still does."""
    @trace
    def k(flag: T.Buffer((1,), "uint32"), data: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([32])
        r = T.alloc_local((1,), "uint32")
        with T.If(bx == 1):
            data[tx] = tx * 3
            T.cuda.cta_sync()
            with T.If(tx == 0):
                T.ptx.st.release.gpu["global"].u32(flag.ptr_to([0]), 7)
        with T.Else():
            with T.If(tx == 0):
                r[0] = 0
                with T.While(lambda: r[0] != 7):
                    T.ptx.ld.acquire.gpu["global"].u32(r[0], flag.ptr_to([0]))
            T.cuda.cta_sync()
            B[tx] = data[tx]

    b = np.zeros(32, np.int32)
    run(k, np.zeros(1, np.uint32), np.zeros(32, np.int32), b, seed=seed)
    assert (b == 3 * np.arange(32)).all()


def test_a_flag_of_another_value_is_a_deadlock_that_names_it() -> None:
    @trace
    def k(flag: T.Buffer((4,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        r = T.alloc_local((1,), "uint32")
        r[0] = 0
        with T.While(lambda: r[0] != 7):
            T.ptx.ld.acquire.gpu["global"].u32(r[0], flag.ptr_to([2]))

    assert fails(DeadlockError, k, np.zeros(4, np.uint32)) == (
        "deadlock: every thread that has not ended waits for what nobody left can bring\n"
        "  (0, 0, 0) warp 0: the loop polls: ptx.ld of flag[2], which nobody changes\n    at +5")


def test_addresses_as_numbers() -> None:
    """A pointer may be a value: into global memory, where it stays inside its array."""
    @trace
    def k(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), step: T.int32) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        r = T.alloc_local((1,), "int32")
        s = T.alloc_shared((64,), "int32")
        s[tx] = tx
        s[tx + 32] = tx + 32
        T.cuda.warp_sync()
        T.ptx.ld.shared.s32(r[0], T.cuda.cvta_generic_to_shared(s.ptr_to([0])) + (tx * step * 4).astype("uint32"))
        B[tx] = r[0]

    b = np.zeros(64, np.int32)
    run(k, np.zeros(64, np.int32), b, 2)
    assert b[:32].tolist() == list(range(0, 64, 2))
    text = fails(OutOfBoundsError, k, np.zeros(64, np.int32), b, 3)
    assert text == ("ptx.ld: load of 4 bytes at shared address 0x108 (byte 264), but the block has 256 bytes of shared memory\n"
                    "  in block (0, 0, 0), thread (22, 0, 0) and 9 more\n  at +8")


def test_what_is_beyond_the_buffer() -> None:
    @trace
    def k(A: T.Buffer((6,), "float32"), n: T.int32) -> None:
        T.device_entry()
        T.thread_id([1])
        f = T.alloc_local((2,), "float32")
        T.ptx.ld["global"].v2.f32(f[0], f[1], A.ptr_to([n]))

    assert fails(OutOfBoundsError, k, np.zeros(6, np.float32), 6) == (
        "load of A[6] is outside A's shape (6,): index 0 is 6, not in [0, 6)\n  in block (0, 0, 0), thread (0, 0, 0)\n  at +4")


# ---- atomics ---------------------------------------------------------------------------------------------------------------------

def test_atomics() -> None:
    @trace
    def k(A: T.Buffer((8,), "uint32"), F: T.Buffer((4,), "float32"), old: T.Buffer((32,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        r, f = T.alloc_local((1,), "uint32"), T.alloc_local((1,), "float32")
        T.ptx.atom["global"].add.u32(r[0], A.ptr_to([0]), 2)
        old[tx] = r[0]
        T.ptx.red.relaxed.gpu["global"].max.u32(A.ptr_to([1]), (tx + 5).astype("uint32"))
        T.ptx.atom.acq_rel.gpu["global"].cas.b32(r[0], A.ptr_to([2]), tx.astype("uint32"), (tx + 1).astype("uint32"))
        T.ptx.red["global"]["or"].b32(A.ptr_to([3]), T.uint32(1) << tx.astype("uint32"))
        T.ptx.red["global"].inc.u32(A.ptr_to([4]), 9)
        T.ptx.atom["global"].exch.b32(r[0], A.ptr_to([5]), tx.astype("uint32"))
        T.ptx.red["global"].add.f32(F.ptr_to([0]), 0.5)
        T.ptx.atom.relaxed.cta["global"].add.f32(f[0], F.ptr_to([1]), 1.0)

    a, f, old = np.zeros(8, np.uint32), np.zeros(4, np.float32), np.zeros(32, np.uint32)
    run(k, a, f, old)
    assert a.tolist() == [64, 36, 32, 0xFFFFFFFF, 2, 31, 0, 0]
    assert f.tolist() == [16, 32, 0, 0] and old.tolist() == list(range(0, 64, 2))


def test_atomics_of_vectors_and_pairs() -> None:
    @trace
    def k(F: T.Buffer((8,), "float32"), H: T.Buffer((4,), "float16")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        r = T.alloc_local((1,), "uint32")
        T.ptx.red["global"].add.v2.f32(F.ptr_to([tx % 2 * 2]), 1.0, 2.0)
        T.ptx.atom["global"].add.noftz.f16x2(r[0], H.ptr_to([2]), 0x40003C00)        # (1, 2)

    f, h = np.zeros(8, np.float32), np.zeros(4, np.float16)
    run(k, f, h)
    assert f.tolist() == [16, 32, 16, 32, 0, 0, 0, 0] and h.tolist() == [0, 0, 32, 64]


# ---- fences and hints change nothing -----------------------------------------------------------------------------------------------

def test_fences_and_hints() -> None:
    @trace
    def k(A: T.Buffer((32,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([32])
        p = T.alloc_local((1,), "uint64")
        T.ptx.fence.acq_rel.gpu()
        T.ptx.fence.sc.sys()
        T.ptx.fence.proxy.async_.shared__cta()
        T.ptx.fence.proxy.alias()
        T.ptx.fence.mbarrier_init.release.cluster()
        T.ptx.createpolicy.fractional.L2__evict_last.b64(p[0], 0.5)
        T.ptx.prefetch["global"].L2(A.ptr_to([tx]))
        T.ptx.griddepcontrol.launch_dependents()
        T.ptx.griddepcontrol.wait()
        A[tx] = 1

    a = np.zeros(32, np.int32)
    run(k, a)
    assert a.all()


def test_an_elected_lane() -> None:
    @trace
    def k(A: T.Buffer((2, 64), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        leader, elected = T.alloc_local((1,), "uint32"), T.alloc_local((1,), "uint32")
        with T.If(tx % 32 >= 4):
            T.ptx.elect.sync(leader[0], elected[0], 0xFFFFFFF0)
            A[0, tx] = leader[0]
            A[1, tx] = elected[0]

    a = np.zeros((2, 64), np.uint32)
    run(k, a)
    lane = np.arange(64) % 32
    assert (a[0] == np.where(lane >= 4, 4, 0)).all() and (a[1] == (lane == 4)).all()


# ---- registers -------------------------------------------------------------------------------------------------------------------

def registers(body: Any) -> Any:
    """384 threads, which have 168 registers each."""
    @trace
    def k(A: T.Buffer((384,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([384])
        body(tx)
        A[tx] = 1
    return k


def roles(producer: int, consumer: int) -> Any:
    def body(tx: Any) -> None:
        with T.If(tx < 128):
            T.ptx.setmaxnreg.dec.sync.aligned.u32(producer)
        with T.Else():
            T.ptx.setmaxnreg.inc.sync.aligned.u32(consumer)
    return body


@pytest.mark.parametrize("seed", SEEDS)
def test_registers_go_from_producers_to_consumers(seed: int | None) -> None:
    a = np.zeros(384, np.int32)
    run(registers(roles(24, 240)), a, seed=seed)
    assert a.all()


def test_more_registers_than_there_are() -> None:
    assert fails(DeadlockError, registers(roles(40, 240)), np.zeros(384, np.int32)).startswith(
        "deadlock: every thread that has not ended waits for what nobody left can bring\n"
        "  (0, 0, 0) warp 11: ptx.setmaxnreg waits for 2304 more registers for the warp (240 a thread); the block's pool has 256, and other warps "
        "free theirs with setmaxnreg.dec\n    at ")


def test_registers_the_wrong_way_and_by_a_part_of_a_warpgroup() -> None:
    def one(tx: Any) -> None:
        with T.If(tx < 32):
            T.ptx.setmaxnreg.dec.sync.aligned.u32(40)

    assert fails(BarrierError, registers(roles(240, 24)), np.zeros(384, np.int32)).startswith(
        "ptx.setmaxnreg: .dec to 240 registers a thread from 168; dec goes down\n  in block (0, 0, 0), warp 0")
    assert fails(BarrierDivergenceError, registers(one), np.zeros(384, np.int32)).partition("\n  at ")[0] == (
        "setmaxnreg: the warps of a warpgroup ended with different numbers of registers (warp 0: 40, warp 1: 168, warp 2: 168, warp 3: 168); all "
        "four run it\n  in block (0, 0, 0)")


def test_checks_off_runs_the_same() -> None:
    a = np.zeros(384, np.int32)
    run(registers(roles(24, 240)), a, checks=False)
    assert a.all() and ALONE.races is False
