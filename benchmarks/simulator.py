"""How long the simulator takes: `python -m benchmarks.simulator` prints milliseconds, the best of five runs of each kernel.

* saxpy: 2**20 elements in blocks of 256, in lockstep.
* ring: one block of 12 warps; a thread copies 64 stages of 8 KiB into a ring of four, eight warps sum them up: an agent a warp.
* blocks: 256 blocks of 4 warps that meet at a named barrier.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from runtime import Checks
from tracer import T, trace

STAGES = 4


@trace
def saxpy(X_ptr: T.handle, Y_ptr: T.handle, a: T.float32) -> None:
    n = T.int32()
    X, Y = T.match_buffer(X_ptr, (n,), "float32"), T.match_buffer(Y_ptr, (n,), "float32")
    T.device_entry()
    i = T.cta_id([T.ceildiv(n, 256)]) * 256 + T.thread_id([256])
    with T.If(i < n):
        Y[i] = a * X[i] + Y[i]


@trace
def ring(A: T.Buffer((64, 2048), "float32"), B: T.Buffer((64, 256), "float32")) -> None:
    T.device_entry()
    tx = T.thread_id([384])
    s = T.alloc_shared((STAGES, 2048), "float32")
    full, empty = T.alloc_shared((STAGES,), "uint64"), T.alloc_shared((STAGES,), "uint64")
    with T.If(tx == 0):
        for n in range(STAGES):
            T.ptx.mbarrier.init.shared.b64(full.ptr_to([n]), 1)
            T.ptx.mbarrier.init.shared.b64(empty.ptr_to([n]), 8)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    with T.If(tx < 128), T.If(tx == 0):
        for i in T.serial(64):
            bar = full.ptr_to([i % STAGES])
            T.cuda.mbarrier_wait(empty.ptr_to([i % STAGES]), (i // STAGES + 1) % 2)
            T.ptx.mbarrier.arrive.expect_tx.shared.b64(bar, 8192)
            T.ptx["cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"](s.ptr_to([i % STAGES, 0]), A.ptr_to([i, 0]), 8192, bar)
    with T.If(tx >= 128):
        t = tx - 128
        for i in T.serial(64):
            T.cuda.mbarrier_wait(full.ptr_to([i % STAGES]), i // STAGES % 2)
            total = T.local_scalar("float32", 0.0)
            for j in range(8):
                total += s[i % STAGES, t + 256 * j]
            T.cuda.warp_sync()
            with T.If(t % 32 == 0):
                T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([i % STAGES]))
            B[i, t] = total


@trace
def blocks(A: T.Buffer((256, 128), "float32"), B: T.Buffer((256, 128), "float32")) -> None:
    T.device_entry()
    bx, tx = T.cta_id([256]), T.thread_id([128])
    s = T.alloc_shared((128,), "float32")
    s[tx] = A[bx, tx]
    T.ptx.bar.sync(1, 128)
    B[bx, tx] = s[127 - tx]


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    return [np.random.default_rng(0).standard_normal(shape, dtype=np.float32) for shape in shapes]


KERNELS: dict[str, tuple[Any, list[Any]]] = {
    "saxpy": (saxpy, [*arrays((1 << 20,), (1 << 20,)), 2.0]),
    "ring": (ring, arrays((64, 2048), (64, 256))),
    "blocks": (blocks, arrays((256, 128), (256, 128))),
}
# How it is run: a call makes all checks, `simulate` also a profile.
WAYS: dict[str, Callable[..., Any]] = {
    "no checks": lambda kernel, args: kernel.simulate(*args, checks=False),
    "without races": lambda kernel, args: kernel.simulate(*args, checks=Checks(races=False)),
    "a call": lambda kernel, args: kernel(*args),
    "simulate": lambda kernel, args: kernel.simulate(*args),
}


def best(run: Callable[[], Any], times: int = 5) -> float:
    """Milliseconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken) * 1e3


def main() -> None:
    print(f"{'ms':8}" + "".join(f"{name:>15}" for name in WAYS))
    for name, (kernel, args) in KERNELS.items():
        figures = [best(partial(way, kernel, args)) for way in WAYS.values()]
        print(f"{name:8}" + "".join(f"{figure:15.1f}" for figure in figures))


if __name__ == "__main__":
    main()
