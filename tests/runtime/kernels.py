"""The kernels that the tests of the host half call."""

from tracer import T, trace


@trace
def scale(A_ptr: T.handle, B_ptr: T.handle, s: T.float32):
    n = T.int32()
    A = T.match_buffer(A_ptr, (n,), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    with T.If(i < n):
        B[i] = A[i] * s


@trace
def k(A: T.Buffer(("n", 8), "float32", align=16), B: T.Buffer(("n", 8), "float32"), s: T.float32):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([n])
    tx = T.thread_id([8])
    B[bx, tx] = A[bx, tx] * s


@trace
def offset(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32", elem_offset=64)):
    T.device_entry()
    bx = T.cta_id([4])
    tx = T.thread_id([8])
    B[bx, tx] = A[bx, tx]


@trace
def scalars(A: T.Buffer((5,), "float32"), i: T.int32, u: T.uint8, s: T.float32, q: T.int64, bb: T.bool):
    T.device_entry()
    tx = T.thread_id([1])
    A[0] = i.astype("float32")
    A[1] = u.astype("float32")
    A[2] = s
    A[3] = bb.astype("float32")
    A[4] = q.astype("float32")


@trace
def transposed(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("m", "n"), "float32")):
    n, m = A.shape
    T.device_entry()
    bx, by = T.cta_id([n, m])
    tx = T.thread_id([1])
    B[by, bx] = A[bx, by]


@trace
def affine(A_ptr: T.handle, B_ptr: T.handle, x: T.float32):
    n = T.int32()
    T.assume(n % 2 == 0)
    T.assume(x > 0.5)
    A = T.match_buffer(A_ptr, (2 * n + 1,), "float32")
    B = T.match_buffer(B_ptr, (n,), "float32")
    T.device_entry()
    bx = T.cta_id([n])
    tx = T.thread_id([1])
    B[bx] = A[2 * bx + 1] * x


@trace
def vectors(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([16])
    B.vstore([tx * 4], A.vload([tx * 4], dtype="float32x4"))


@trace
def product(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n", "m"), "float32")):
    n, m = A.shape
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n * m, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    with T.If(i < n * m):
        B[i // m, i % m] = A[i // m, i % m]


@trace
def in_place(A: T.Buffer(("n",), "float32")):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([n])
    tx = T.thread_id([1])
    A[bx] += 1.0


ALL = {kernel.function.name: kernel for kernel in (scale, k, offset, scalars, transposed, affine, vectors, product, in_place)}
