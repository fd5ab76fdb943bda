"""y = a*x + y for arrays of any length: one kernel whose length is read off the arguments.

Run with `python -m examples.saxpy`.
"""

import numpy as np

from examples.common import run, show
from tracer import T, trace


def saxpy(X_ptr: T.handle, Y_ptr: T.handle, Z_ptr: T.handle, a: T.float32):
    n = T.int32()                                       # a free extent: whatever length comes
    X = T.match_buffer(X_ptr, (n,), "float32")
    Y = T.match_buffer(Y_ptr, (n,), "float32")
    Z = T.match_buffer(Z_ptr, (n,), "float32")
    T.device_entry()                                    # above: host; below: device
    bx = T.cta_id([T.ceildiv(n, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    with T.If(i < n):
        Z[i] = a * X[i] + Y[i]


def main() -> None:
    kernel = trace(saxpy)
    show("recorded", kernel.script())
    show("what each access comes to", "\n".join(f"{a}   in bounds: {a.in_bounds}" for a in kernel.accesses()))
    show("CUDA", kernel.cuda_source())
    show("results", "")
    rng = np.random.default_rng(0)
    for n in (1, 255, 1000, 2**20):
        x, y = rng.standard_normal((2, n), dtype=np.float32)
        print(f"n = {n}")
        run(kernel, [x, y], y, np.float32(2.5) * x + y, (2.5,))


if __name__ == "__main__":
    main()
