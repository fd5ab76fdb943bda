"""What a kernel looks like in CUDA C++: one small kernel for each rule, the whole text expected."""

from __future__ import annotations

import pytest

from tests.codegen.expecting import EXPECTED, KERNELS, emits
from tracer import T, trace

# ---- launch, arguments, names

@emits("""
extern "C" __global__ void __launch_bounds__(256)
scale_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr, int n, float s) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int i = bx * 256 + tx;
  if (i < n) {
    B_ptr[i] = A_ptr[i] * s;
  }
}
""")
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


@emits("""
extern "C" __global__ void __launch_bounds__(256, 2)
transpose_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr, int n, int m) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  __shared__ float tile[272];
  const int i = by * 16 + ty;
  const int j = bx * 16 + tx;
  if (i < n && j < m) {
    tile[ty * 17 + tx] = A_ptr[i * m + j];
  }
  __syncthreads();
  if (by * 16 + tx < n && bx * 16 + ty < m) {
    B_ptr[(bx * 16 + ty) * n + by * 16 + tx] = tile[tx * 17 + ty];
  }
}
""")
def transpose(a: T.handle, b: T.handle):
    """Two-dimensional blocks, symbolic strides behind what they scale, shared memory with padding, the second launch bound."""
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    T.device_entry()
    T.attr({"tirx.launch_bounds_min_blocks_per_sm": 2})
    bx, by = T.cta_id([T.ceildiv(m, 16), T.ceildiv(n, 16)])
    tx, ty = T.thread_id([16, 16])
    tile = T.alloc_shared((16, 17), "float32")
    i = by * 16 + ty
    j = bx * 16 + tx
    with T.If((i < n) & (j < m)):
        tile[ty, tx] = A[i, j]
    T.cuda.cta_sync()
    with T.If((by * 16 + tx < n) & (bx * 16 + ty < m)):
        B[bx * 16 + ty, by * 16 + tx] = tile[tx, ty]


@emits("""
extern "C" __global__ void __launch_bounds__(64)
reserved_names_kernel(const float* __restrict__ half_ptr, float* __restrict__ new_ptr) {
  const int threadIdx_ = threadIdx.x;
  const float int_ = half_ptr[threadIdx_];
  const float float4_ = int_ * 2.0f;
  const float sqrtf_ = sqrtf(float4_);
  const float NAN_ = sqrtf_ + float4_;
  const float u03bb = NAN_ * int_;
  new_ptr[threadIdx_] = u03bb;
}
""")
def reserved_names(half: T.Buffer((64,), "float32"), new: T.Buffer((64,), "float32")):
    T.device_entry()
    threadIdx = T.thread_id([64])
    int_ = half[threadIdx]
    float4 = int_ * 2.0
    sqrtf = T.sqrt(float4)
    NAN = sqrtf + float4
    λ = NAN * int_
    new[threadIdx] = λ


@emits("""
extern "C" __global__ void __launch_bounds__(8)
many_arguments_kernel(
    const float* __restrict__ first_ptr,
    double* __restrict__ second_ptr,
    const unsigned char* __restrict__ third_ptr,
    bool* __restrict__ fourth_ptr,
    double scale_by,
    bool flag) {
  const int tx = threadIdx.x;
  second_ptr[tx] = (double)first_ptr[tx] * scale_by;
  fourth_ptr[tx] = third_ptr[tx] > 3 && flag;
}
""")
def many_arguments(
    first: T.Buffer((8,), "float32"), second: T.Buffer((8,), "float64"), third: T.Buffer((8,), "uint8"), fourth: T.Buffer((8,), "bool"),
    scale_by: T.float64, flag: T.bool,
):
    T.device_entry()
    tx = T.thread_id([8])
    second[tx] = first[tx].astype("float64") * scale_by
    fourth[tx] = (third[tx] > 3) & flag


@emits("""
extern "C" __global__ void __launch_bounds__(256)
warps_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int tx = threadIdx.x;
  B_ptr[tx] = A_ptr[lane * 8 + warp];
}
""")
def warps(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    """Scope ids are read from the hardware's registers; `warp*32 + lane` is the thread index again."""
    T.device_entry()
    warp = T.warp_id([8])
    lane = T.lane_id([32])
    B[warp * 32 + lane] = A[lane * 8 + warp]


@emits("""
extern "C" __global__ void __launch_bounds__(64)
unnamed_ids_kernel(float* __restrict__ A_ptr) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  A_ptr[bx * 64 - tx + 63] = 1.0f;
}
""")
def unnamed_ids(A: T.Buffer((4, 64), "float32")):
    T.device_entry()
    A[T.cta_id([4]), 63 - T.thread_id([64])] = 1.0


# ---- which values are variables

@emits("""
extern "C" __global__ void __launch_bounds__(32)
swap_kernel(float* __restrict__ A_ptr) {
  const int tx = threadIdx.x;
  const float t = A_ptr[tx];
  A_ptr[tx] = A_ptr[tx + 32];
  A_ptr[tx + 32] = t;
}
""")
def swap(A: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    t = A[tx]
    A[tx] = A[tx + 32]
    A[tx + 32] = t


def _unnamed(*values):
    """Values that no variable of the author holds: a tuple in a dict has no name."""
    return {0: values}


@emits("""
extern "C" __global__ void __launch_bounds__(64)
loads_stay_before_stores_kernel(float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  const float v0 = A_ptr[tx];
  A_ptr[tx] = 5.0f;
  B_ptr[tx] += v0 * 2.0f;
  const float v1 = A_ptr[tx];
  __syncthreads();
  B_ptr[tx] = v1;
  const float v2 = B_ptr[tx] * 3.0f;
  for (int k = 0; k < 4; ++k) {
    A_ptr[k] += v2;
  }
}
""")
def loads_stay_before_stores(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """An unnamed load folds into its use, unless a store, a barrier or a loop lies between."""
    T.device_entry()
    tx = T.thread_id([64])
    held = _unnamed(A[tx] * 2.0, B[tx])
    A[tx] = 5.0
    B[tx] = held[0][0] + held[0][1]
    held = _unnamed(A[tx])
    T.cuda.cta_sync()
    B[tx] = held[0][0]
    held = _unnamed(B[tx] * 3.0)
    for k in T.serial(4):
        A[k] = held[0][0] + A[k]


@emits("""
extern "C" __global__ void __launch_bounds__(64)
used_twice_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  const float v0 = A_ptr[tx] + 1.0f;
  B_ptr[tx] = v0 * v0;
}
""")
def used_twice(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """A value that two statements use is computed once; one that nobody uses, not at all."""
    T.device_entry()
    tx = T.thread_id([64])
    held = _unnamed(A[tx] + 1.0, A[0] * 3.0)
    unused = A[1]
    B[tx] = held[0][0] * held[0][0]
    T.exp(unused)


@emits("""
extern "C" __global__ void __launch_bounds__(64)
nothing_unused_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  B_ptr[tx] = 1.0f;
  if (tx >= 7) {
    B_ptr[0] = 2.0f;
  }
  if (tx < 5) {
    return;
  }
}
""")
def nothing_unused(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """Memory that nobody reads, what computes it, empty branches and what stands behind a return are not written."""
    T.device_entry()
    tx = T.thread_id([64])
    x = A[tx]
    y = T.local_scalar("float32", 0.0)
    y += x
    z = T.alloc_local((4,), "float32")
    z[0] = y
    with T.If(tx > 3):
        z[1] = A[tx] * 2.0
    B[tx] = 1.0
    with T.If(tx < 7):
        pass
    with T.Else():
        B[0] = 2.0
    with T.If(tx < 5):
        T.return_()
        B[1] = 3.0


# ---- mutable scalars and arrays

@emits("""
extern "C" __global__ void __launch_bounds__(32)
accumulate_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  float acc = 0.0f;
  for (int k = 0; k < 64; ++k) {
    acc += A_ptr[tx * 64 + k] * A_ptr[tx * 64 + k];
  }
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    acc -= A_ptr[tx * 64 + k];
  }
  for (int k = 60; k > 0; k -= 4) {
    acc *= A_ptr[tx * 64 + k];
    acc = 1.0f - acc;
  }
  B_ptr[tx] = sqrtf(acc);
}
""")
def accumulate(A: T.Buffer((32, 64), "float32"), B: T.Buffer((32,), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    acc = T.local_scalar("float32", 0.0)
    for k in T.serial(64):
        acc += A[tx, k] * A[tx, k]
    for k in T.unroll(4):
        acc -= A[tx, k]
    for k in T.serial(60, 0, -4):
        acc.assign(A[tx, k] * acc)
        acc.assign(1.0 - acc)
    B[tx] = T.sqrt(acc)


@emits("""
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }

__device__ __forceinline__ int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }

__device__ __forceinline__ int wrap_sub(int a, int b) { return (int)((unsigned int)a - (unsigned int)b); }

extern "C" __global__ void __launch_bounds__(64)
scalars_kernel(int* __restrict__ A_ptr, bool* __restrict__ B_ptr, unsigned char* __restrict__ C_ptr) {
  const int tx = threadIdx.x;
  int x = 1;
  const int fixed = 7;
  bool p = false;
  __shared__ int flag;
  if (tx == 0) {
    flag = 5;
  }
  __syncthreads();
  x = wrap_add(x, flag);
  x = wrap_sub(x, 1);
  x <<= 2;
  x = wrap_mul(x, 3);
  x &= 3;
  x |= tx;
  x >>= 1;
  x = wrap_add(5, x);
  x = wrap_sub(7, x);
  int late = x;
  if (p) {
    late = wrap_add(late, wrap_mul(x, fixed));
  }
  p = !p;
  p = p != (late > 2);
  A_ptr[tx] = late;
  B_ptr[tx] = !p || late > 2 || x == 1;
  unsigned char small = 0;
  small += C_ptr[tx];
  C_ptr[tx] = small;
  A_ptr[tx] += 1;
  A_ptr[tx] *= 3;
}
""")
def scalars(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "bool"), C: T.Buffer((64,), "uint8")):
    T.device_entry()
    tx = T.thread_id([64])
    x = T.local_scalar("int32", 1)
    late = T.local_scalar("int32")
    fixed = T.local_scalar("int32", 7)
    p = T.local_scalar("bool", False)
    flag = T.shared_scalar("int32")
    with T.If(tx == 0):
        flag.assign(5)
    T.cuda.cta_sync()
    x += flag
    x -= 1
    x <<= 2
    x *= 3
    x &= 3
    x |= tx
    x >>= 1
    x.assign(5 + x)
    x.assign(7 - x)
    late.assign(x)
    with T.If(p):
        late += x * fixed
    p.assign(~p)
    p.assign(p ^ (late > 2))
    A[tx] = late
    B[tx] = ~(p & (late < 3)) | (x == 1)
    small = T.local_scalar("uint8", 0)
    small += C[tx]
    C[tx] = small
    A[tx] = A[tx] + 1
    A[tx] = 3 * A[tx]


@emits("""
extern "C" __global__ void __launch_bounds__(64)
local_array_kernel(float* __restrict__ A_ptr) {
  const int tx = threadIdx.x;
  float r[8];
  #pragma unroll
  for (int k = 0; k < 8; ++k) {
    r[k] = A_ptr[tx * 4 + k % 4];
  }
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    r[k] += r[k + 4];
  }
  A_ptr[tx] = r[0] + r[tx % 8];
}
""")
def local_array(A: T.Buffer((256,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    r = T.alloc_local((8,), "float32")
    for k in T.unroll(8):
        r[k] = A[tx * 4 + k % 4]
    for k in T.vectorized(4):
        r[k] += r[k + 4]
    A[tx] = r[0] + r[tx % 8]


# ---- control flow

@emits("""
extern "C" __global__ void __launch_bounds__(32)
branches_kernel(const float* __restrict__ A_ptr, int* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  const float x = A_ptr[tx];
  if (x > 1.0f) {
    B_ptr[tx] = 1;
  } else if (x < -1.0f) {
    B_ptr[tx] = -1;
  } else if (A_ptr[31 - tx] > 0.0f) {
    B_ptr[tx] = 7;
  } else {
    B_ptr[tx] = 0;
  }
  if (!(x > 3.0f)) {
    B_ptr[0] = 2;
  }
}
""")
def branches(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "int32")):
    T.device_entry()
    tx = T.thread_id([32])
    x = A[tx]
    with T.If(x > 1.0):
        B[tx] = 1
    with T.Elif(x < -1.0):
        B[tx] = -1
    with T.Elif(A[31 - tx] > 0):
        B[tx] = 7
    with T.Else():
        B[tx] = 0
    with T.If(x > 3.0):
        pass
    with T.Else():
        B[0] = 2


@emits("""
extern "C" __global__ void __launch_bounds__(256)
decided_kernel(float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  const float x = A_ptr[tx];
  B_ptr[tx] = x;
  if (tx < 5) {
    A_ptr[0] = 1.0f;
  } else {
    A_ptr[1] = 2.0f;
  }
  if (x > 2.0f) {
    return;
  } else {
    B_ptr[1] = A_ptr[tx];
    return;
  }
}
""")
def decided(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    """A guard that the ranges decide is not written, nor is what it leaves out or what stands behind the end."""
    T.device_entry()
    tx = T.thread_id([256])
    x = A[tx]
    only_else = A[0]
    with T.If(tx < 256):
        B[tx] = x
    with T.Else():
        B[tx] = only_else
    with T.If(tx < 5):
        A[0] = 1.0
    with T.Elif(tx >= 5):
        A[1] = 2.0
    with T.Else():
        A[2] = only_else
    with T.If(x > 2.0):
        T.return_()
    with T.Else():
        B[1] = T.if_then_else(tx >= 0, A[tx], 0.0)
        T.return_()
    B[2] = only_else


@emits("""
extern "C" __global__ void __launch_bounds__(64)
guarded_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr, int n) {
  const int tx = threadIdx.x;
  B_ptr[tx] = (tx < n ? A_ptr[tx + 1] : 0.0f) * 2.0f;
  float v0;
  if (tx < n) {
    const float v1 = A_ptr[tx + 1];
    v0 = v1 * v1;
  } else {
    v0 = 0.0f;
  }
  B_ptr[tx] = v0;
}
""")
def guarded(A: T.Buffer((65,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
    T.device_entry()
    tx = T.thread_id([64])
    B[tx] = T.if_then_else(tx < n, A[tx + 1], 0.0) * 2.0
    B[tx] = T.if_then_else(tx < n, _square(A[tx + 1]), 0.0)


def _square(x):
    return x * x


@emits("""
__device__ __forceinline__ int wrap_sub(int a, int b) { return (int)((unsigned int)a - (unsigned int)b); }

extern "C" __global__ void __launch_bounds__(32)
loops_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr, float s) {
  const int tx = threadIdx.x;
  const float v0 = s * 2.0f;
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 16; ++j) {
      B_ptr[i * 512 + j * 32 + tx] = A_ptr[i * 512 + j * 32 + tx] * v0;
    }
  }
  int limit = 3;
  const int v1 = limit;
  for (int i = 0; i < v1; ++i) {
    if (i == 2) {
      continue;
    }
    limit = wrap_sub(limit, 1);
    B_ptr[i * 512 + tx] = 0.0f;
  }
}
""")
def loops(A: T.Buffer((8, 16, 32), "float32"), B: T.Buffer((8, 16, 32), "float32"), s: T.float32):
    """A float computation stays before the loop, sums of indices go in; a bound that the body may change is read once."""
    T.device_entry()
    tx = T.thread_id([32])
    held = _unnamed(s * 2.0)
    for i, j in T.grid(8, 16):
        B[i, j, tx] = A[i, j, tx] * held[0][0]
    limit = T.local_scalar("int32", 3)
    for i in T.serial(limit):
        with T.If(i == 2):
            T.continue_()
        limit -= 1
        B[i, 0, tx] = 0.0


@emits("""
extern "C" __global__ void __launch_bounds__(32)
whiles_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr, int n) {
  const int tx = threadIdx.x;
  float acc = 0.0f;
  int phase = 0;
  while (phase < n) {
    acc += A_ptr[tx * 64 + phase];
    if (acc > 10.0f) {
      break;
    }
    phase += 1;
  }
  B_ptr[tx] = acc;
}
""")
def whiles(A: T.Buffer((32, 64), "float32"), B: T.Buffer((32,), "float32"), n: T.int32):
    T.device_entry()
    tx = T.thread_id([32])
    acc = T.local_scalar("float32", 0.0)
    phase = T.local_scalar("int32", 0)
    with T.While(lambda: phase < n):
        acc += A[tx, phase]
        with T.If(acc > 10.0):
            T.break_()
        phase += 1
    B[tx] = acc


@emits("""
extern "C" __global__ void __launch_bounds__(64)
while_with_statements_kernel(const float* __restrict__ A_ptr, int* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  int low = 0;
  while (true) {
    const float middle = A_ptr[low & 63];
    if (!(middle < A_ptr[tx] && middle > 0.0f)) {
      break;
    }
    low += 2;
  }
  B_ptr[tx] = low;
}
""")
def while_with_statements(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int32")):
    T.device_entry()
    tx = T.thread_id([64])
    low = T.local_scalar("int32", 0)

    def condition():
        middle = A[low & 63]
        return (middle < A[tx]) & (middle > 0)

    with T.While(condition):
        low += 2
    B[tx] = low


# ---- threads

@emits("""
extern "C" __global__ void __launch_bounds__(32)
warp_sum_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int lane = threadIdx.x;
  float acc = 0.0f;
  acc += A_ptr[lane];
  acc += __shfl_xor_sync(0xffffffff, acc, 16);
  acc += __shfl_xor_sync(0xffffffff, acc, 8);
  acc += __shfl_xor_sync(0xffffffff, acc, 4);
  acc += __shfl_xor_sync(0xffffffff, acc, 2);
  acc += __shfl_xor_sync(0xffffffff, acc, 1);
  if (lane == 0) {
    B_ptr[0] = acc;
  }
  __syncwarp();
  B_ptr[1] = __shfl_down_sync(0xffff, acc, 4, 16);
}
""")
def warp_sum(A: T.Buffer((32,), "float32"), B: T.Buffer((2,), "float32")):
    T.device_entry()
    lane = T.lane_id([32])
    acc = T.local_scalar("float32", 0.0)
    acc += A[lane]
    for step in (16, 8, 4, 2, 1):
        acc += T.cuda.shfl_xor_sync(0xFFFFFFFF, acc, step)
    with T.If(lane == 0):
        B[0] = acc
    T.cuda.warp_sync()
    B[1] = T.cuda.shfl_down_sync(0xFFFF, acc, 4, width=16)


_LOAD = """
__device__ float load_float(const float* p) { return *p; }
"""
_BUMP = """
__device__ void bump(float* p) { *p += 1.0f; }
"""


@emits("""
__device__ float load_float(const float* p) { return *p; }

__device__ void bump(float* p) { *p += 1.0f; }

extern "C" __global__ void __launch_bounds__(64)
own_functions_kernel(float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  const float bump_1 = load_float(&A_ptr[tx]);
  bump(&B_ptr[tx]);
  load_float(A_ptr);
  B_ptr[tx] = bump_1;
}
""")
def own_functions(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    """The author's device functions stand before the kernel, each once; a variable may not hide one."""
    T.device_entry()
    tx = T.thread_id([64])
    bump = T.cuda.func_call("load_float", A.ptr_to([tx]), source_code=_LOAD, return_type="float32")
    T.cuda.func_call("bump", B.ptr_to([tx]), source_code=_BUMP)
    T.cuda.func_call("load_float", A.data, source_code=_LOAD, return_type="float32")
    B[tx] = bump


_PAIR = """
__device__ float2 pair(const float* p, float* q) { q[0] = p[1]; return make_float2(p[0], p[1]); }
__device__ void* same(void* p) { return p; }
"""


@emits("""
__device__ float2 pair(const float* p, float* q) { q[0] = p[1]; return make_float2(p[0], p[1]); }
__device__ void* same(void* p) { return p; }

extern "C" __global__ void __launch_bounds__(32)
pointers_kernel(float* __restrict__ A_ptr) {
  const int tx = threadIdx.x;
  float r[2];
  r[1] = 2.0f;
  const float2 v = pair(&A_ptr[tx * 2], r);
  A_ptr[tx] = v.x + r[0] + r[1];
  void* const p = same(A_ptr);
  same(p);
}
""")
def pointers(A: T.Buffer((64,), "float32")):
    """A pointer that is returned is a constant pointer; memory whose address is taken counts as read."""
    T.device_entry()
    tx = T.thread_id([32])
    r = T.alloc_local((2,), "float32")
    r[1] = 2.0
    v = T.cuda.func_call("pair", A.ptr_to([tx * 2]), r.data, source_code=_PAIR, return_type="float32x2")
    A[tx] = v[0] + r[0] + r[1]
    p = T.cuda.func_call("same", A.data, source_code=_PAIR, return_type="handle")
    T.cuda.func_call("same", p, source_code=_PAIR, return_type="handle")


# ---- integers

@emits("""
// Division rounded down, for operands of any sign.
__device__ __forceinline__ int floordiv(int a, int b) {
  const int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// The remainder of division rounded down: it has the sign of b.
__device__ __forceinline__ int floormod(int a, int b) {
  const int r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

extern "C" __global__ void __launch_bounds__(1024)
divisions_kernel(const int* __restrict__ A_ptr, int* __restrict__ B_ptr, int n) {
  const int tx = threadIdx.x;
  const int a = A_ptr[tx];
  B_ptr[tx] = tx - tx / 3 * 2;
  B_ptr[tx] = ((tx - 5) >> 2) + (tx + 3) % 4;
  B_ptr[tx] = floordiv(a, 7) - floormod(a, 7);
  B_ptr[tx] = (a >> 3) - (a & 7);
  B_ptr[tx] = a / 5 + a % n;
  B_ptr[tx] = floormod(a, n);
}
""")
def divisions(A: T.Buffer((1024,), "int32"), B: T.Buffer((1024,), "int32"), n: T.int32):
    """C's operators for what cannot be negative and for powers of two, a helper for the rest."""
    T.device_entry()
    tx = T.thread_id([1024])
    a = A[tx]
    B[tx] = tx // 3 + tx % 3
    B[tx] = (tx - 5) // 4 + (tx - 5) % 4
    B[tx] = a // 7 - a % 7
    B[tx] = a // 8 - a % 8
    B[tx] = T.truncdiv(a, 5) + T.truncmod(a, n)
    B[tx] = a % n


@emits("""
extern "C" __global__ void __launch_bounds__(256)
wide_indices_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  for (int k = 0; k < 256; ++k) {
    B_ptr[(long long)bx * 65536 + k * 256 + tx + 64] = A_ptr[(long long)k * 16777216 + tx * 65536 + bx];
  }
}
""")
def wide_indices(A: T.Buffer((65536, 65536), "float32"), B: T.Buffer((65536, 65536), "float32", elem_offset=64)):
    """Offsets that do not fit 32 bits."""
    T.device_entry()
    bx = T.cta_id([65536])
    tx = T.thread_id([256])
    for k in T.serial(256):
        B[bx, k * 256 + tx] = A[k * 256 + tx, bx]


@emits("""
__device__ __forceinline__ long long wrap_add(long long a, long long b) { return (long long)((unsigned long long)a + (unsigned long long)b); }

extern "C" __global__ void __launch_bounds__(64)
mixed_integers_kernel(
    float* __restrict__ A_ptr,
    unsigned int* __restrict__ I_ptr,
    long long* __restrict__ J_ptr,
    unsigned long long* __restrict__ K_ptr,
    long long n) {
  const int tx = threadIdx.x;
  const unsigned int u = I_ptr[tx];
  const long long j = J_ptr[tx];
  A_ptr[u * 2 + 1] = 1.0f;
  A_ptr[(long long)u + tx] = 2.0f;
  A_ptr[j * 4 + tx] = 3.0f;
  I_ptr[tx] = u / 3 + u % 8;
  K_ptr[tx] /= 3;
  J_ptr[tx] = wrap_add(tx * n, min(j, 5LL));
  J_ptr[tx] = min(n, (long long)(tx * 2));
  if (u < 5) {
    I_ptr[tx] = u - 1;
  }
}
""")
def mixed_integers(
    A: T.Buffer((1024,), "float32"), I: T.Buffer((64,), "uint32"), J: T.Buffer((64,), "int64"), K: T.Buffer((64,), "uint64"), n: T.int64,
):
    T.device_entry()
    tx = T.thread_id([64])
    u = I[tx]
    j = J[tx]
    A[u * 2 + 1] = 1.0
    A[u + tx] = 2.0
    A[j * 4 + tx] = 3.0
    I[tx] = u // 3 + u % 8
    K[tx] = K[tx] // 3
    J[tx] = tx.astype("int64") * n + T.min(j, 5)
    J[tx] = T.min(n, tx.astype("int64") * 2)
    with T.If(u < 5):
        I[tx] = u - 1


@emits("""
extern "C" __global__ void __launch_bounds__(64)
unsigned_64_bits_kernel(
    unsigned long long* __restrict__ K_ptr,
    long long* __restrict__ J_ptr,
    int* __restrict__ I_ptr) {
  const int tx = threadIdx.x;
  const unsigned long long a = K_ptr[tx];
  const unsigned long long b = K_ptr[tx];
  I_ptr[tx] = a <= b ? 1 : 2;
  K_ptr[tx] = max(a / 3, a ^ b);
  K_ptr[tx] = min(a, (unsigned long long)(a == b ? 3 : 2));
  J_ptr[tx] &= -9223372036854775807LL - 1;
  J_ptr[tx] = ~J_ptr[tx];
}
""")
def unsigned_64_bits(K: T.Buffer((64,), "uint64"), J: T.Buffer((64,), "int64"), I: T.Buffer((64,), "int32")):
    """Exact expressions that no C type can compute are written by their operations."""
    T.device_entry()
    tx = T.thread_id([64])
    a = K[tx]
    b = K[tx + 1 - 1]
    I[tx] = T.select(a <= b, 1, 2)
    K[tx] = T.max(a // 3, a ^ b)
    K[tx] = T.min(T.select(a == b, T.uint64(3), T.uint64(2)), a)
    J[tx] = J[tx] & -(2**63)
    J[tx] = ~J[tx]


@emits("""
// Division rounded down, for operands of any sign.
__device__ __forceinline__ int floordiv(int a, int b) {
  const int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }

__device__ __forceinline__ int wrap_mul(int a, int b) { return (int)((unsigned int)a * (unsigned int)b); }

__device__ __forceinline__ int wrap_neg(int a) { return (int)(0 - (unsigned int)a); }

__device__ __forceinline__ int wrap_sub(int a, int b) { return (int)((unsigned int)a - (unsigned int)b); }

extern "C" __global__ void __launch_bounds__(64)
wrapping_kernel(int* __restrict__ A_ptr, long long* __restrict__ L_ptr, float* __restrict__ F_ptr) {
  const int tx = threadIdx.x;
  const int a = A_ptr[tx];
  A_ptr[tx] = wrap_add(wrap_mul(a, 3), 1);
  L_ptr[tx] = wrap_add(wrap_mul(a, 3), 1);
  if (a < wrap_add(a, 1)) {
    F_ptr[tx] = (float)wrap_sub(a, 5);
  }
  A_ptr[tx] = floordiv(wrap_add(a, 7), 3);
  A_ptr[tx] = min(wrap_mul(a, 5), 7);
  A_ptr[tx] = wrap_neg(a);
  A_ptr[a & 63] = wrap_mul(a, a) >> 3;
}
""")
def wrapping(A: T.Buffer((64,), "int32"), L: T.Buffer((64,), "int64"), F: T.Buffer((64,), "float32")):
    """Sums that may wrap go through unsigned arithmetic where the result is compared, divided, shifted or converted."""
    T.device_entry()
    tx = T.thread_id([64])
    a = A[tx]
    A[tx] = a * 3 + 1
    L[tx] = (a * 3 + 1).astype("int64")
    with T.If(a + 1 > a):
        F[tx] = (a - 5).astype("float32")
    A[tx] = (a + 7) // 3
    A[tx] = T.min(a * 5, 7)
    A[tx] = -a
    A[a & 63] = (a * a) >> 3


@emits("""
__device__ __forceinline__ short wrap_neg(short a) {
  int b;
  asm("neg.s32 %0, %1;" : "=r"(b) : "r"((int)a));
  return (short)b;
}

extern "C" __global__ void __launch_bounds__(64)
narrow_integers_kernel(
    signed char* __restrict__ S_ptr,
    int* __restrict__ R_ptr,
    unsigned char* __restrict__ Q_ptr,
    short* __restrict__ H_ptr) {
  const int tx = threadIdx.x;
  const signed char a = S_ptr[tx];
  const unsigned char q = Q_ptr[tx];
  R_ptr[tx] = (signed char)(a + a);
  S_ptr[tx] = a + a * a;
  Q_ptr[tx] = ~q;
  if ((unsigned char)(q - 1) > 200) {
    R_ptr[tx] = (signed char)-a + (unsigned char)(q << 1) + (a >> 1);
  }
  H_ptr[tx] = wrap_neg(H_ptr[tx]);
}
""")
def narrow_integers(
    S: T.Buffer((64,), "int8"), R: T.Buffer((64,), "int32"), Q: T.Buffer((64,), "uint8"), H: T.Buffer((64,), "int16"),
):
    """C computes in int: the result is cast back where more than its low bits are read."""
    T.device_entry()
    tx = T.thread_id([64])
    a = S[tx]
    q = Q[tx]
    R[tx] = (a + a).astype("int32")
    S[tx] = a + a * a
    Q[tx] = ~q
    with T.If(q - 1 > 200):
        R[tx] = (-a).astype("int32") + (q << 1).astype("int32") + (a >> 1).astype("int32")
    H[tx] = -H[tx]


@emits("""
extern "C" __global__ void __launch_bounds__(64)
mixed_signs_kernel(
    const int* __restrict__ A_ptr,
    const unsigned int* __restrict__ U_ptr,
    const signed char* __restrict__ H_ptr,
    long long* __restrict__ Q_ptr,
    float* __restrict__ F_ptr,
    bool* __restrict__ P_ptr) {
  const int tx = threadIdx.x;
  Q_ptr[tx] = (long long)U_ptr[tx] ^ A_ptr[tx];
  Q_ptr[tx] = ((long long)U_ptr[tx] | A_ptr[tx]) >> 1;
  Q_ptr[tx] = ((long long)U_ptr[tx] & H_ptr[tx]) + 1;
  P_ptr[tx] = ((long long)U_ptr[tx] ^ A_ptr[tx]) < 0;
  Q_ptr[tx] = ((long long)U_ptr[tx] ^ H_ptr[tx]) >> 1;
  F_ptr[tx] = (float)((long long)U_ptr[tx] | A_ptr[tx]);
  Q_ptr[tx] = tx < 3 ? (long long)U_ptr[tx] : A_ptr[tx];
  Q_ptr[tx] = A_ptr[tx] > 0 ? (long long)tx / U_ptr[tx] : -1;
  Q_ptr[tx] = ~((long long)tx / U_ptr[tx]);
  Q_ptr[tx] = min((long long)tx / U_ptr[tx], (long long)A_ptr[tx]);
  P_ptr[tx] = (long long)U_ptr[tx] < A_ptr[tx];
  Q_ptr[tx] = A_ptr[tx] ^ H_ptr[tx];
  Q_ptr[tx] = (A_ptr[tx] ^ H_ptr[tx]) | 7;
}
""")
def mixed_signs(
    A: T.Buffer((64,), "int32"), U: T.Buffer((64,), "uint32"), H: T.Buffer((64,), "int8"), Q: T.Buffer((64,), "int64"),
    F: T.Buffer((64,), "float32"), P: T.Buffer((64,), "bool"),
):
    """int32 and uint32 promote to int64, which C's conversions do not do: an operand is cast."""
    T.device_entry()
    tx = T.thread_id([64])
    Q[tx] = U[tx] ^ A[tx]
    Q[tx] = (U[tx] | A[tx]) >> 1
    Q[tx] = (U[tx] & H[tx]) + 1
    P[tx] = (U[tx] ^ A[tx]) < 0
    Q[tx] = (U[tx] ^ H[tx]) // 2
    F[tx] = (U[tx] | A[tx]).astype("float32")
    Q[tx] = T.if_then_else(tx < 3, U[tx], A[tx])
    Q[tx] = T.select(A[tx] > 0, tx // U[tx], -1)
    Q[tx] = ~(tx // U[tx])
    Q[tx] = T.min(tx // U[tx], A[tx])
    P[tx] = U[tx] < A[tx]
    Q[tx] = A[tx] ^ H[tx]
    Q[tx] = (A[tx] ^ H[tx]).astype("int64") | 7


@emits("""
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }

extern "C" __global__ void __launch_bounds__(64)
sums_by_way_of_memory_kernel(
    const int* __restrict__ A_ptr,
    bool* __restrict__ B_ptr,
    int* __restrict__ C_ptr,
    int n) {
  const int tx = threadIdx.x;
  int x = A_ptr[tx];
  const int before = x;
  x = wrap_add(x, 1073741824);
  B_ptr[tx] = before < x;
  int acc = 0;
  for (int k = 0; k < n; ++k) {
    acc += A_ptr[k];
  }
  acc *= 3;
  C_ptr[tx] = acc;
  __shared__ int tile[64];
  tile[tx] = wrap_add(A_ptr[tx], 1);
  __syncthreads();
  B_ptr[tx] = tile[63 - tx] > 0;
  const int i = A_ptr[tx];
  const int y = wrap_add(i, 7);
  C_ptr[y & 63] = y >> 2;
  C_ptr[(i + 9) & 63] = 5;
}
""")
def sums_by_way_of_memory(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "bool"), C: T.Buffer((64,), "int32"), n: T.int32):
    """A sum that is compared after it was stored wraps as well; one that nobody compares is left alone."""
    T.device_entry()
    tx = T.thread_id([64])
    x = T.local_scalar("int32", A[tx])
    before = +x
    x += 2**30
    B[tx] = x > before
    acc = T.local_scalar("int32", 0)
    for k in T.serial(n):
        acc += A[k]
    acc.assign(acc * 3)
    C[tx] = acc
    tile = T.alloc_shared((64,), "int32")
    tile[tx] = A[tx] + 1
    T.cuda.cta_sync()
    B[tx] = tile[63 - tx] > 0
    i = A[tx]
    y = i + 7
    C[y & 63] = y >> 2
    C[(i + 9) & 63] = 5


@emits("""
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }

extern "C" __global__ void __launch_bounds__(64)
counters_kernel(const int* __restrict__ A_ptr, int n) {
  int p = 0;
  while (p < n) {
    if (A_ptr[p] > 3) {
      p += 1;
    }
  }
  int q = n;
  while (q > 0 && A_ptr[1] > 2) {
    q -= 1;
  }
  int r = 0;
  while (r < n) {
    r = wrap_add(r, 2);
  }
  int s = 0;
  while (s < 100) {
    s += 2;
  }
  int u = 0;
  while (u < n) {
    u = wrap_add(u, 1);
    u = wrap_add(u, 1);
  }
  int v = 0;
  while (v <= n) {
    v = wrap_add(v, 1);
  }
  int w = 0;
  while (w < n) {
    for (int _ = 0; _ < 4; ++_) {
      w = wrap_add(w, 1);
    }
  }
}
""")
def counters(A: T.Buffer((64,), "int32"), n: T.int32):
    """The condition of a loop keeps a counter from overflowing, where it says enough."""
    T.device_entry()
    T.thread_id([64])
    p = T.local_scalar("int32", 0)
    with T.While(lambda: p < n):
        with T.If(A[p] > 3):
            p += 1
    q = T.local_scalar("int32", n)
    with T.While(lambda: (q > 0) & (A[1] > 2)):
        q -= 1
    r = T.local_scalar("int32", 0)
    with T.While(lambda: r < n):
        r += 2
    s = T.local_scalar("int32", 0)
    with T.While(lambda: s < 100):
        s += 2
    u = T.local_scalar("int32", 0)
    with T.While(lambda: u < n):
        u += 1
        u += 1
    v = T.local_scalar("int32", 0)
    with T.While(lambda: v <= n):
        v += 1
    w = T.local_scalar("int32", 0)
    with T.While(lambda: w < n):
        for _ in T.serial(4):
            w += 1


@emits("""
__device__ __forceinline__ short wrap_neg(short a) {
  int b;
  asm("neg.s32 %0, %1;" : "=r"(b) : "r"((int)a));
  return (short)b;
}

extern "C" __global__ void __launch_bounds__(64)
narrow_products_kernel(
    short* __restrict__ A_ptr,
    int* __restrict__ B_ptr,
    unsigned short* __restrict__ U_ptr) {
  const int tx = threadIdx.x;
  B_ptr[tx] = wrap_neg(A_ptr[tx]);
  B_ptr[tx] = wrap_neg(A_ptr[tx]);
  B_ptr[tx] = (unsigned short)((unsigned int)U_ptr[tx] * U_ptr[tx]);
  U_ptr[tx] = (unsigned short)(U_ptr[tx] * 3) + (unsigned short)((unsigned int)U_ptr[tx] * U_ptr[tx]);
  A_ptr[tx] = (short)(A_ptr[tx] * A_ptr[tx]) + (short)(A_ptr[tx] * A_ptr[tx]);
}
""")
def narrow_products(A: T.Buffer((64,), "int16"), B: T.Buffer((64,), "int32"), U: T.Buffer((64,), "uint16")):
    """Two 16-bit values fill or leave an `int`; a negative of 16 bits goes through the helper however it is written."""
    T.device_entry()
    tx = T.thread_id([64])
    B[tx] = (0 - A[tx]).astype("int32")
    B[tx] = (A[tx] * -1).astype("int32")
    B[tx] = (U[tx] * U[tx]).astype("int32")
    U[tx] = U[tx] * 3 + U[tx] * U[tx]
    A[tx] = A[tx] * A[tx] + A[tx] * A[tx]


@emits("""
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }

extern "C" __global__ void __launch_bounds__(64)
aliases_kernel(
    const float* __restrict__ A_ptr,
    float* __restrict__ B_ptr,
    long long* __restrict__ J_ptr,
    int n) {
  const int tx = threadIdx.x;
  B_ptr[tx] = A_ptr[tx];
  for (int k = 0; k < n; ++k) {
    J_ptr[tx] = k;
  }
  const float x = A_ptr[tx];
  const float y = x + 1.0f;
  B_ptr[tx] = x * y;
  int cell = n;
  const int old = cell;
  cell = 3;
  J_ptr[tx] = wrap_add(old, cell);
}
""")
def aliases(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), J: T.Buffer((64,), "int64"), n: T.int32):
    """A second name for a value that does not change is no variable."""
    T.device_entry()
    warp, lane = T.warp_id([2]), T.lane_id([32])
    tx = warp * 32 + lane
    i = tx
    m = n
    B[tx] = A[i]
    for k in T.serial(m):
        j = k
        J[i] = j
    x = A[i]
    y = x + 1.0
    B[i] = x * y
    cell = T.local_scalar("int32", n)
    old = +cell
    cell.assign(3)
    J[i] = old + cell


@emits("""
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }

extern "C" __global__ void __launch_bounds__(64)
joined_assignments_kernel(
    int* __restrict__ A_ptr,
    bool* __restrict__ P_ptr,
    unsigned int* __restrict__ U_ptr) {
  const int tx = threadIdx.x;
  int stride = 64;
  stride >>= 1;
  stride >>= 1;
  stride &= 7;
  stride = wrap_add(stride, tx);
  stride = (stride ^ 5) | 2;
  A_ptr[tx] = stride;
  U_ptr[tx] /= 7;
  U_ptr[tx] = (U_ptr[tx] + 3) * 5;
  bool f = false;
  f = !f;
  f = P_ptr[tx] != f;
  P_ptr[tx] = f;
}
""")
def joined_assignments(A: T.Buffer((64,), "int32"), P: T.Buffer((64,), "bool"), U: T.Buffer((64,), "uint32")):
    """`x = x op y` is `x op= y`, whatever made the operator."""
    T.device_entry()
    tx = T.thread_id([64])
    stride = T.local_scalar("int32", 64)
    stride.assign(stride // 2)
    stride.assign(stride >> 1)
    stride.assign(stride % 8)
    stride += tx
    stride.assign((stride ^ 5) | 2)
    A[tx] = stride
    U[tx] = U[tx] // 7
    U[tx] = (U[tx] + 3) * 5
    f = T.local_scalar("bool", False)
    f ^= True
    f ^= P[tx]
    P[tx] = f


# ---- floats

@emits("""
#include <cuda_fp16.h>

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

extern "C" __global__ void __launch_bounds__(64)
literals_kernel(
    float* __restrict__ A_ptr,
    double* __restrict__ D_ptr,
    int* __restrict__ I_ptr,
    half* __restrict__ H_ptr,
    long long* __restrict__ L_ptr,
    unsigned int* __restrict__ U_ptr) {
  const int tx = threadIdx.x;
  A_ptr[tx] = A_ptr[tx] * 1e-05f + 2.0f - 0.1f;
  A_ptr[0] = INFINITY;
  A_ptr[1] = -INFINITY;
  A_ptr[2] = NAN;
  A_ptr[3] = -0.0f;
  D_ptr[0] = (double)INFINITY;
  D_ptr[1] = 1e-300;
  D_ptr[2] = D_ptr[tx] + 3.0;
  I_ptr[0] = -2147483647 - 1;
  I_ptr[1] = I_ptr[tx] - (-2147483647 - 1);
  H_ptr[0] = half(1.5f);
  H_ptr[1] = half(65504.0f);
  H_ptr[2] = half(0.1f);
  H_ptr[3] = half(-INFINITY);
  L_ptr[0] = -9223372036854775807LL - 1;
  L_ptr[1] = 1099511627776LL;
  U_ptr[0] = 4294967295u;
}
""")
def literals(
    A: T.Buffer((64,), "float32"), D: T.Buffer((64,), "float64"), I: T.Buffer((64,), "int32"), H: T.Buffer((64,), "float16"),
    L: T.Buffer((64,), "int64"), U: T.Buffer((64,), "uint32"),
):
    T.device_entry()
    tx = T.thread_id([64])
    A[tx] = A[tx] * 1e-5 + 2.0 - 0.1
    A[0] = float("inf")
    A[1] = -float("inf")
    A[2] = float("nan")
    A[3] = -0.0
    D[0] = float("inf")
    D[1] = 1e-300
    D[2] = D[tx] + 3
    I[0] = -(2**31)
    I[1] = I[tx] - (-(2**31))
    H[0] = 1.5
    H[1] = 65504
    H[2] = 0.1
    H[3] = float("-inf")
    L[0] = -(2**63)
    L[1] = 2**40
    U[0] = 2**32 - 1


@emits("""
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern "C" __global__ void __launch_bounds__(64)
divisions_by_zero_kernel(float* __restrict__ A_ptr, double* __restrict__ D_ptr) {
  const int tx = threadIdx.x;
  A_ptr[tx] *= INFINITY;
  A_ptr[tx] = (A_ptr[tx] + 1.0f) * -INFINITY;
  D_ptr[tx] *= (double)INFINITY;
  D_ptr[tx] /= D_ptr[0] + 3.0;
}
""")
def divisions_by_zero(A: T.Buffer((64,), "float32"), D: T.Buffer((64,), "float64")):
    """Infinities and NaN, without a warning."""
    T.device_entry()
    tx = T.thread_id([64])
    A[tx] = A[tx] / 0.0
    A[tx] = (A[tx] + 1.0) / -0.0
    D[tx] = D[tx] / T.float64(0.0)
    D[tx] = D[tx] / (D[0] + 3.0)


@emits("""
__device__ __forceinline__ int wrap_neg(int a) { return (int)(0 - (unsigned int)a); }

extern "C" __global__ void __launch_bounds__(64)
constants_that_wrap_kernel(int* __restrict__ A_ptr, unsigned char* __restrict__ C_ptr) {
  const int tx = threadIdx.x;
  A_ptr[tx] = wrap_neg(-2147483647 - 1);
  const unsigned char low = (unsigned char)(2 << 7);
  C_ptr[tx] = low;
  C_ptr[tx + 1] = (unsigned char)((unsigned char)~3 * low);
}
""")
def constants_that_wrap(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "uint8")):
    """What compilers compute themselves, and would warn of."""
    T.device_entry()
    tx = T.thread_id([64])
    least = T.int32(-(2**31))
    A[tx] = -least
    low = T.uint8(2) << 7
    C[tx] = low
    C[tx + 1] = ~T.uint8(3) * low


@emits("""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The remainder of division rounded down: it has the sign of b.
__device__ __forceinline__ float floormod(float a, float b) {
  const float r = fmodf(a, b);
  if (r == 0.0f) return copysignf(0.0f, b);
  return (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

extern "C" __global__ void __launch_bounds__(64)
half_types_kernel(
    const half* __restrict__ A_ptr,
    half* __restrict__ B_ptr,
    __nv_bfloat16* __restrict__ C_ptr,
    float* __restrict__ D_ptr) {
  const int tx = threadIdx.x;
  const half x = A_ptr[tx];
  B_ptr[tx] = x * half(2.0f) + hexp(x) - half(tanhf((float)x));
  C_ptr[tx] = __hmax(C_ptr[tx], __nv_bfloat16(0.5f)) * C_ptr[tx] / __nv_bfloat16(3.0f);
  D_ptr[tx] = (float)x + (float)C_ptr[tx];
  B_ptr[tx] += hsqrt(x);
  B_ptr[tx] = half((float)C_ptr[tx]);
  D_ptr[tx] = floormod(__hisnan(x) ? 0.0f : fmaf(D_ptr[tx], 2.0f, 1.0f), 3.0f);
}
""")
def half_types(
    A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "float16"), C: T.Buffer((64,), "bfloat16"), D: T.Buffer((64,), "float32"),
):
    T.device_entry()
    tx = T.thread_id([64])
    x = A[tx]
    B[tx] = x * 2.0 + T.exp(x) - T.tanh(x)
    C[tx] = T.max(C[tx], 0.5) * C[tx] / 3.0
    D[tx] = x.astype("float32") + C[tx].astype("float32")
    B[tx] += T.sqrt(x)
    B[tx] = C[tx].astype("float16")
    D[tx] = T.select(T.isnan(x), 0.0, T.fma(D[tx], 2.0, 1.0)) % 3.0


@emits("""
#include <cuda_fp8.h>

extern "C" __global__ void __launch_bounds__(64)
eight_bit_floats_kernel(
    __nv_fp8_e4m3* __restrict__ A_ptr,
    __nv_fp8_e5m2* __restrict__ B_ptr,
    float* __restrict__ C_ptr,
    const __nv_fp8_e8m0* __restrict__ D_ptr) {
  const int tx = threadIdx.x;
  B_ptr[tx] = __nv_fp8_e5m2((float)A_ptr[tx]);
  C_ptr[tx] = (float)B_ptr[tx] + (float)D_ptr[tx];
  A_ptr[tx] = __nv_fp8_e4m3(C_ptr[tx]);
}
""")
def eight_bit_floats(
    A: T.Buffer((64,), "float8_e4m3fn"), B: T.Buffer((64,), "float8_e5m2"), C: T.Buffer((64,), "float32"),
    D: T.Buffer((64,), "float8_e8m0fnu"),
):
    T.device_entry()
    tx = T.thread_id([64])
    B[tx] = A[tx].astype("float32").astype("float8_e5m2")
    C[tx] = B[tx].astype("float32") + D[tx].astype("float32")
    A[tx] = C[tx].astype("float8_e4m3fn")


@emits("""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Truncates and saturates; NaN gives 0.
__device__ __forceinline__ int to_int32(double x) { return x == x ? __double2int_rz(x) : 0; }

// Truncates and saturates; NaN gives 0.
__device__ __forceinline__ long long to_int64(float x) { return x == x ? __float2ll_rz(x) : 0; }

// Truncates and saturates; NaN gives 0.
__device__ __forceinline__ long long to_int64(double x) { return x == x ? __double2ll_rz(x) : 0; }

// Truncates and saturates; NaN gives 0.
__device__ __forceinline__ signed char to_int8(float x) {
  return x == x ? (signed char)min(max(__float2int_rz(x), -128), 127) : 0;
}

// Truncates and saturates; NaN gives 0.
__device__ __forceinline__ unsigned short to_uint16(double x) {
  return x == x ? (unsigned short)min(max(__double2int_rz(x), 0), 65535) : 0;
}

__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }

__device__ __forceinline__ long long wrap_add(long long a, long long b) { return (long long)((unsigned long long)a + (unsigned long long)b); }

extern "C" __global__ void __launch_bounds__(64)
casts_kernel(
    float* __restrict__ A_ptr,
    double* __restrict__ D_ptr,
    int* __restrict__ I_ptr,
    long long* __restrict__ L_ptr,
    unsigned int* __restrict__ U_ptr,
    signed char* __restrict__ S_ptr,
    unsigned short* __restrict__ W_ptr,
    bool* __restrict__ P_ptr,
    half* __restrict__ H_ptr,
    __nv_bfloat16* __restrict__ G_ptr) {
  const int tx = threadIdx.x;
  const float x = A_ptr[tx];
  const double d = D_ptr[tx];
  const half h = H_ptr[tx];
  I_ptr[tx] = wrap_add(wrap_add(__float2int_rz(x), to_int32(d)), __float2int_rz((float)h));
  L_ptr[tx] = wrap_add(to_int64(x), to_int64(d));
  U_ptr[tx] = __float2uint_rz(x);
  S_ptr[tx] = to_int8(x);
  S_ptr[tx] = (signed char)I_ptr[tx];
  W_ptr[tx] = to_uint16(d);
  P_ptr[tx] = x != 0.0f;
  H_ptr[tx] = __ll2half_rn(L_ptr[tx]) + __int2half_rn(P_ptr[tx]) + half(d);
  G_ptr[tx] = __int2bfloat16_rn(I_ptr[tx]) + __nv_bfloat16((float)h);
  A_ptr[tx] = (float)S_ptr[tx] + (float)I_ptr[tx];
  D_ptr[tx] = (double)(float)h + (double)U_ptr[tx];
  U_ptr[tx] = __float_as_uint(x);
  W_ptr[tx] = __half_as_ushort(h);
}
""")
def casts(
    A: T.Buffer((64,), "float32"), D: T.Buffer((64,), "float64"), I: T.Buffer((64,), "int32"), L: T.Buffer((64,), "int64"),
    U: T.Buffer((64,), "uint32"), S: T.Buffer((64,), "int8"), W: T.Buffer((64,), "uint16"), P: T.Buffer((64,), "bool"),
    H: T.Buffer((64,), "float16"), G: T.Buffer((64,), "bfloat16"),
):
    T.device_entry()
    tx = T.thread_id([64])
    x = A[tx]
    d = D[tx]
    h = H[tx]
    I[tx] = x.astype("int32") + d.astype("int32") + h.astype("int32")
    L[tx] = x.astype("int64") + d.astype("int64")
    U[tx] = x.astype("uint32")
    S[tx] = x.astype("int8")
    S[tx] = I[tx].astype("int8")
    W[tx] = d.astype("uint16")
    P[tx] = x.astype("bool")
    H[tx] = L[tx].astype("float16") + P[tx].astype("float16") + d.astype("float16")
    G[tx] = I[tx].astype("bfloat16") + h.astype("bfloat16")
    A[tx] = S[tx].astype("float32") + I[tx].astype("float32")
    D[tx] = h.astype("float64") + U[tx].astype("float64")
    U[tx] = T.reinterpret("uint32", x)
    W[tx] = T.reinterpret("uint16", h)


# ---- vectors

@emits("""
extern "C" __global__ void __launch_bounds__(128)
vectors_kernel(const float* __restrict__ A_ptr, float* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  *(float4*)(B_ptr + tx * 4) = *(const float4*)(A_ptr + tx * 4);
  const float4 v = *(const float4*)(A_ptr + tx * 4 + 512);
  const float v0 = v.x;
  *(float4*)(B_ptr + tx * 4 + 512) = make_float4(v.x * v0 + 1.0f, v.y * v0 + 1.0f, v.z * v0 + 1.0f, v.w * v0 + 1.0f);
}
""")
def vectors(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    T.device_entry()
    tx = T.thread_id([128])
    B.vstore([tx * 4], A.vload([tx * 4], dtype="float32x4"))
    v = A.vload([tx * 4 + 512], dtype="float32x4")
    B.vstore([tx * 4 + 512], v * v[0] + 1.0)


@emits("""
#include <cuda_fp16.h>

struct __align__(16) float16x8 { half lane[8]; };

extern "C" __global__ void __launch_bounds__(128)
vectors_of_halves_kernel(const half* __restrict__ A_ptr, half* __restrict__ B_ptr) {
  const int tx = threadIdx.x;
  const float16x8 v = *(const float16x8*)(A_ptr + tx * 8);
  *(float16x8*)(B_ptr + tx * 8) = float16x8{
      v.lane[0] + v.lane[0],
      v.lane[1] + v.lane[1],
      v.lane[2] + v.lane[2],
      v.lane[3] + v.lane[3],
      v.lane[4] + v.lane[4],
      v.lane[5] + v.lane[5],
      v.lane[6] + v.lane[6],
      v.lane[7] + v.lane[7]};
  const half2 w = *(const half2*)(A_ptr + tx * 2);
  *(half2*)(B_ptr + tx * 2) = __hmax2(w, -w);
  *(half2*)(B_ptr + tx * 2 + 256) = w * w - *(const half2*)(A_ptr + tx * 2 + 512);
  B_ptr[tx] = (w + w).x;
}
""")
def vectors_of_halves(A: T.Buffer((1024,), "float16"), B: T.Buffer((1024,), "float16")):
    T.device_entry()
    tx = T.thread_id([128])
    v = A.vload([tx * 8], dtype="float16x8")
    B.vstore([tx * 8], v + v)
    w = A.vload([tx * 2], dtype="float16x2")
    B.vstore([tx * 2], T.max(w, -w))
    B.vstore([tx * 2 + 256], w * w - A.vload([tx * 2 + 512], dtype="float16x2"))
    B[tx] = (w + w)[0]


@emits("""
extern "C" __global__ void __launch_bounds__(64)
unaligned_vectors_kernel(float* __restrict__ A_ptr, signed char* __restrict__ C_ptr) {
  const int tx = threadIdx.x;
  const float2 v0 = make_float2(A_ptr[tx], A_ptr[tx + 1]);
  A_ptr[tx + 1] = v0.x;
  A_ptr[tx + 2] = v0.y;
  const char4 v1 = *(const char4*)(C_ptr + tx * 4);
  *(char4*)(C_ptr + tx * 4) = make_char4(
      (signed char)(v1.x * 3),
      (signed char)(v1.y * 3),
      (signed char)(v1.z * 3),
      (signed char)(v1.w * 3));
  __shared__ __align__(16) float tile[256];
  *(float4*)(tile + tx * 4) = *(const float4*)(A_ptr + tx * 4);
  A_ptr[tx] = tile[255 - tx];
}
""")
def unaligned_vectors(A: T.Buffer((1024,), "float32"), C: T.Buffer((1024,), "int8")):
    """Where the index is not proved a multiple of the lanes, they move one by one, all read before the first is written."""
    T.device_entry()
    tx = T.thread_id([64])
    A.vstore([tx + 1], A.vload([tx], dtype="float32x2"))
    C.vstore([tx * 4], C.vload([tx * 4], dtype="int8x4") * 3)
    tile = T.alloc_shared((256,), "float32")
    tile.vstore([tx * 4], A.vload([tx * 4], dtype="float32x4"))
    A[tx] = tile[255 - tx]


@pytest.mark.parametrize("name", KERNELS)
def test_text(name):
    assert trace(KERNELS[name]).cuda_source(locations=False) == EXPECTED[name]
