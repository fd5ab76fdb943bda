"""A kernel around an instruction or a few, with memory of every kind."""

from __future__ import annotations

from typing import Any, NamedTuple

from tracer import T, trace


def kernel_with(body: Any, threads: int = 128) -> Any:
    """A kernel around `body(memory)`."""
    def kernel(A: T.Buffer((1024,), "float32"), U: T.Buffer((1024,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([threads])
        bar = T.alloc_shared((4,), "uint64")
        tile = T.alloc_shared((1024,), "float32", align=16)
        r = T.alloc_local((8,), "uint32")
        f = T.alloc_local((8,), "float32")
        d = T.alloc_local((4,), "uint64")
        body(Memory(A, U, tx, bar, tile, r, f, d))

    return trace(kernel)


class Memory(NamedTuple):
    """What instructions work on in these tests: memory of every kind."""

    A: Any
    U: Any
    tx: Any
    bar: Any
    tile: Any
    r: Any
    f: Any
    d: Any


def lines(kernel: Any) -> list[str]:
    """The statements of the kernel."""
    body = kernel.cuda_source(locations=False).rpartition("{\n  const int tx")[2]
    return [line.strip() for line in body.rstrip("}\n").split("\n")][1:]


def functions(kernel: Any) -> str:
    """What stands before the kernel."""
    return str(kernel.cuda_source(locations=False).partition("extern \"C\"")[0])
