"""One sum a block: a tree in shared memory, walked by a `While` over a mutable scalar.

Run with `python -m examples.block_sum`.
"""

import numpy as np

from examples.common import run, show
from tracer import T, trace

THREADS = 256


def block_sum(A: T.Buffer(("n",), "float32"), B: T.Buffer(("blocks",), "float32")):
    T.device_entry()
    bx = T.cta_id([B.shape[0]])
    tx = T.thread_id([THREADS])
    i = bx * THREADS + tx
    tree = T.alloc_shared((THREADS,), "float32")
    tree[tx] = T.if_then_else(i < A.shape[0], A[i], 0.0)        # the load happens only where i is in range
    T.cuda.cta_sync()
    stride = T.local_scalar("int32", THREADS // 2)
    with T.While(lambda: stride > 0):
        with T.If(tx < stride):
            tree[tx] += tree[tx + stride]
        T.cuda.cta_sync()                                       # outside the If: every thread comes here
        stride //= 2
    with T.If(tx == 0):
        B[bx] = tree[0]


def main() -> None:
    kernel = trace(block_sum)
    show("recorded", kernel.script())
    show("CUDA", kernel.cuda_source())
    show("results", "")
    a = np.random.default_rng(1).standard_normal(10_000, dtype=np.float32)
    blocks = -(-a.size // THREADS)
    padded = np.zeros(blocks * THREADS)
    padded[:a.size] = a
    run(kernel, [a], np.empty(blocks, np.float32), padded.reshape(blocks, THREADS).sum(1), tolerance=1e-5)


if __name__ == "__main__":
    main()
