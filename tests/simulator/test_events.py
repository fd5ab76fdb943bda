"""What observers are told, in the order in which it happens."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.simulator.events import Observer, Touch
from tests.simulator.running import run
from tracer import T, trace


class Recorder(Observer):
    """Everything as short tuples."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.touches: list[Touch] = []

    def access(self, touch: Touch) -> None:
        self.touches.append(touch)
        self.told.append((touch.kind, touch.buffer and touch.buffer.name, touch.threads.tolist(), touch.start.tolist(), touch.size))

    def join(self, threads: Any, node: Any) -> None:
        self.told.append(("join", node.op.name, threads.tolist()))

    def fence(self, threads: Any, node: Any, scope: str, proxy: str) -> None:
        self.told.append(("fence", threads.tolist(), scope, proxy))

    def start(self, blocks: Any) -> None:
        self.told.append(("start", blocks.tolist()))

    def end(self) -> None:
        self.told.append(("end",))


def told(kernel: Any, *args: Any) -> Recorder:
    recorder = Recorder()
    run(kernel, *args, observers=[recorder])
    return recorder


def test_accesses_barriers_and_fences() -> None:
    def k(A: T.Buffer((2, 4), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([4])
        s = T.alloc_shared((4,), "float32")
        s[tx] = A[bx, tx] * 2.0
        T.cuda.cta_sync()
        with T.If(tx < 1):
            B[bx] = s[3 - tx]
        T.cuda.thread_fence_block()

    b = np.zeros(8, np.float32)
    seen = told(trace(k), np.arange(8, dtype=np.float32).reshape(2, 4), b)
    threads = list(range(8))
    s = [0, 4, 8, 12, 16, 20, 24, 28]
    assert seen.told == [
        ("start", [0, 1]),
        ("load", "A", threads, [0, 4, 8, 12, 16, 20, 24, 28], 4),
        ("store", "s", threads, s, 4),
        ("join", "cuda.cta_sync", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("load", "s", [0, 4], [12, 28], 4),
        ("store", "B", [0, 4], [0, 4], 4),
        ("fence", threads, "cta", "generic"),
        ("end",),
    ]
    assert seen.touches[1].values.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert seen.touches[3].values.tolist() == [6, 14]
    assert seen.touches[1].memory is seen.touches[2].memory


def test_vector_accesses_are_pieces() -> None:
    def k(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        T.device_entry()
        tx = T.thread_id([2])
        B.vstore([tx * 4], A.vload([tx * 4], "float32x4"))

    seen = told(trace(k), np.arange(8, dtype=np.float32), np.zeros(8, np.float32))
    assert seen.told[1:3] == [("load", "A", [0, 1], [0, 16], 16), ("store", "B", [0, 1], [0, 16], 16)]
    assert seen.touches[1].values.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_atomics_have_order_and_scope_and_one_address_stands_for_each_thread() -> None:
    def k(A: T.Buffer((8,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([3])
        T.cuda.atomic_add(A.ptr_to([2]), tx, scope="block")

    seen = told(trace(k), np.zeros(8, np.int32))
    assert seen.told[1] == ("atomic", "A", [0, 1, 2], [8, 8, 8], 4)
    assert (seen.touches[0].order, seen.touches[0].scope) == ("relaxed", "cta")


def test_groups_of_lanes_join() -> None:
    def k(A: T.Buffer((64,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([64])
        T.cuda.warp_sync()
        T.cuda.warp_sync(T.select(tx % 32 < 16, T.uint32(0x0000FFFF), T.uint32(0xFFFF0000)))

    seen = told(trace(k), np.zeros(64, np.int32))
    assert seen.told[1] == ("join", "cuda.warp_sync", [list(range(32)), list(range(32, 64))])
    assert seen.told[2] == ("join", "cuda.warp_sync", [list(range(k, k + 16)) for k in (0, 16, 32, 48)])


def test_local_memory_is_not_told() -> None:
    def k(A: T.Buffer((4,), "int32")) -> None:
        T.device_entry()
        tx = T.thread_id([4])
        r = T.alloc_local((2,), "int32")
        r[0] = tx
        A[tx] = r[0]

    assert [t[0] for t in told(trace(k), np.zeros(4, np.int32)).told] == ["start", "store", "end"]


def test_threads_that_have_returned_do_not_join() -> None:
    def k(A: T.Buffer((8,), "int32")) -> None:
        T.device_entry()
        bx, tx = T.cta_id([2]), T.thread_id([4])
        with T.If(tx > bx + 1):
            T.return_()
        T.cuda.cta_sync()
        A[bx * 4 + tx] = 1

    seen = told(trace(k), np.zeros(8, np.int32))
    assert seen.told[1:3] == [("join", "cuda.cta_sync", [0, 1]), ("join", "cuda.cta_sync", [4, 5, 6])]
