"""A CUDA program that asks the hardware for its fragments: registers and shared memory are filled by the layouts of the atoms, the
instruction runs, and what it leaves must be what the layouts say of the product. Small integers, so every comparison is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symbolic.layout import SWIZZLE_MODES, Fragment, fragment, matrix_addresses, mma_shared_layout, wgmma_accumulator

Array = Any

# How values of a kind are held: NumPy type, its bits as an unsigned type, the C type of an accumulator, its asm constraint
KINDS: dict[str, tuple[Any, Any]] = {"f16": (np.float16, np.uint16), "tf32": (np.float32, np.uint32), "f32": (np.float32, np.uint32),
                                     "s8": (np.int8, np.uint8), "s32": (np.int32, np.uint32)}
ACCUMULATOR = {"f32": ("float", "+f"), "s32": ("int", "+r")}

# instruction of FRAGMENTS: kind of A and B, kind of C, types as the instruction writes them
MMA = {
    "mma.m16n8k4.tf32": ("tf32", "f32", "f32.tf32.tf32.f32"),
    "mma.m16n8k8.f16": ("f16", "f32", "f32.f16.f16.f32"),
    "mma.m16n8k8.tf32": ("tf32", "f32", "f32.tf32.tf32.f32"),
    "mma.m16n8k16.f16": ("f16", "f32", "f32.f16.f16.f32"),
    "mma.m16n8k16.b8": ("s8", "s32", "s32.s8.s8.s32"),
    "mma.m16n8k32.b8": ("s8", "s32", "s32.s8.s8.s32"),
}
# instruction: kind of A and B, its dtype, kind of D, types, what follows scale-d
WGMMA = {
    "wgmma.m64k16.f16": ("f16", "float16", "f32", "f32.f16.f16", ", 1, 1, 0"),
    "wgmma.m64k8.tf32": ("tf32", "float32", "f32", "f32.tf32.tf32", ", 1, 1"),
    "wgmma.m64k32.b8": ("s8", "int8", "s32", "s32.s8.s8", ""),
}
N = 64


def bits(values: Array, kind: str) -> Array:
    real, unsigned = KINDS[kind]
    return values.astype(real).view(unsigned)


def registers(row: Fragment, values: Array, kind: str, threads: int) -> Array:
    """32-bit registers of each thread that hold `values`, by the fragment's layout."""
    rows, columns = np.indices(row.shape)
    place = {a: np.broadcast_to(v, row.shape) for a, v in row.layout.apply(rows, columns, shape=row.shape).items()}
    thread = place["laneid"] + 32 * place.get("wid_in_wg", 0)
    made = np.zeros((threads, row.elements), KINDS[kind][1])
    made[thread, np.broadcast_to(place.get("m", 0), row.shape)] = bits(values, kind)
    return made.view(np.uint32)


class Program:
    """The source as it grows: constant arrays, kernels, and a `main` that runs and compares them."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.calls: list[str] = []
        self.random = np.random.default_rng(0)

    def matrix(self, shape: tuple[int, int]) -> Array:
        return self.random.integers(-4, 5, shape)

    def array(self, name: str, values: Array) -> None:
        kind = {1: "unsigned char", 2: "unsigned short", 4: "unsigned"}[values.dtype.itemsize]
        self.parts.append(f"static const {kind} {name}[] = {{{','.join(map(str, values.ravel().tolist()))}}};")

    def source(self) -> str:
        return "\n".join([HEAD, *self.parts, "int main() {", *self.calls, 'printf("%d right, %d wrong\\n", good, bad); return bad != 0; }', ""])


HEAD = r"""#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
static int good, bad;
template <class T, size_t N> T* up(const T (&a)[N]) { T* p; cudaMalloc(&p, sizeof a); cudaMemcpy(p, a, sizeof a, cudaMemcpyHostToDevice); return p; }
template <class T, size_t N> T* empty(const T (&)[N]) { T* p; cudaMalloc(&p, N * sizeof(T)); cudaMemset(p, 0xff, N * sizeof(T)); return p; }
template <class T, size_t N> void check(const char* name, const T* found, const T (&wanted)[N]) {
    T* here = (T*)malloc(sizeof wanted);
    cudaError_t error = cudaDeviceSynchronize();
    cudaMemcpy(here, found, sizeof wanted, cudaMemcpyDeviceToHost);
    bool same = error == cudaSuccess && !memcmp(here, wanted, sizeof wanted);
    same ? good++ : bad++;
    printf("%s %s%s%s\n", same ? "right" : "WRONG", name, error ? ": " : "", error ? cudaGetErrorString(error) : "");
    free(here);
}"""


def braces(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{first + k}" for k in range(count)) + "}"


def operands(constraint: str, format: str, count: int) -> str:
    return ", ".join(f'"{constraint}"({format.format(k)})' for k in range(count))


def add_mma(p: Program, name: str) -> None:
    kind, of_c, types = MMA[name]
    a, b, c = (p.matrix(fragment(name, o).shape) for o in "ABC")
    id = name.replace(".", "_")
    for operand, values, of in (("A", a, kind), ("B", b, kind), ("C", c, of_c), ("D", a @ b + c, of_c)):
        p.array(f"{id}_{operand}", registers(fragment(name, operand), values, of, 32))
    na, nb = fragment(name, "A").registers, fragment(name, "B").registers
    ctype, constraint = ACCUMULATOR[of_c]
    p.parts.append(f"""__global__ void run_{id}(const unsigned* A, const unsigned* B, const unsigned* C, unsigned* D) {{
    {ctype} d[4];
    for (int x = 0; x < 4; x++) d[x] = ((const {ctype}*)C)[threadIdx.x * 4 + x];
    asm volatile("mma.sync.aligned.{name.split('.')[1]}.row.col.{types} {braces(0, 4)}, {braces(4, na)}, {braces(4 + na, nb)}, {braces(0, 4)};"
                 : {operands(constraint, 'd[{}]', 4)}
                 : {operands('r', f'A[threadIdx.x * {na} + {{}}]', na)}, {operands('r', f'B[threadIdx.x * {nb} + {{}}]', nb)});
    for (int x = 0; x < 4; x++) (({ctype}*)D)[threadIdx.x * 4 + x] = d[x];
}}""")
    p.calls.append(f'{{ auto D = empty({id}_D); run_{id}<<<1, 32>>>(up({id}_A), up({id}_B), up({id}_C), D); check("{name}", D, {id}_D); }}')


def add_matrix(p: Program, num: int, trans: str) -> None:
    """ldmatrix and stmatrix of distinct values, row r of matrix q at the address that `matrix_addresses` gives to its lane."""
    row = fragment(f"ldmatrix.x{num}{trans}", "D")
    values = np.arange(64 * num, dtype=np.float16).reshape(8 * num, 8)
    address = np.zeros(32, np.uint32)
    for r in range(8 * num):
        address[matrix_addresses(num).apply(r)["laneid"]] = 16 * r
    id = f"x{num}{trans.replace('.', '_')}"
    p.array(f"{id}_at", address)
    p.array(f"{id}_registers", registers(row, values, "f16", 32))
    p.array(f"{id}_memory", bits(values, "f16"))
    p.parts.append(f"""__global__ void load_{id}(const unsigned* at, const unsigned short* memory, unsigned* D) {{
    __shared__ __align__(128) unsigned short s[{64 * num}];
    for (int x = threadIdx.x; x < {64 * num}; x += 32) s[x] = memory[x];
    __syncwarp();
    unsigned d[{num}], a = (unsigned)__cvta_generic_to_shared(s) + at[threadIdx.x];
    asm volatile("ldmatrix.sync.aligned.m8n8.x{num}{trans}.shared.b16 {braces(0, num)}, [%{num}];"
                 : {operands('=r', 'd[{}]', num)} : "r"(a) : "memory");
    for (int x = 0; x < {num}; x++) D[threadIdx.x * {num} + x] = d[x];
}}
__global__ void store_{id}(const unsigned* at, const unsigned* R, unsigned short* memory) {{
    __shared__ __align__(128) unsigned short s[{64 * num}];
    unsigned a = (unsigned)__cvta_generic_to_shared(s) + at[threadIdx.x];
    asm volatile("stmatrix.sync.aligned.m8n8.x{num}{trans}.shared.b16 [%0], {braces(1, num)};"
                 :: "r"(a), {operands('r', f'R[threadIdx.x * {num} + {{}}]', num)} : "memory");
    __syncwarp();
    for (int x = threadIdx.x; x < {64 * num}; x += 32) memory[x] = s[x];
}}""")
    p.calls.append(f"""{{ auto D = empty({id}_registers); load_{id}<<<1, 32>>>(up({id}_at), up({id}_memory), D);
  check("ldmatrix {id}", D, {id}_registers); }}
{{ auto M = empty({id}_memory); store_{id}<<<1, 32>>>(up({id}_at), up({id}_registers), M);
  check("stmatrix {id}", M, {id}_memory); }}""")


def add_wgmma(p: Program, name: str, mode: str) -> None:
    """A from registers, B from shared memory laid out by `mma_shared_layout`, as many steps of K as a row of its atom holds."""
    kind, dtype, of_d, types, immediates = WGMMA[name]
    row, d = fragment(name, "A"), wgmma_accumulator(N)
    step = row.shape[1]
    width, _, code, _ = SWIZZLE_MODES[mode]
    steps = max(1, width * 8 // row.bits // step)
    depth = steps * step
    a, b = p.matrix((64, depth)), p.matrix((N, depth))
    layout = mma_shared_layout(dtype, mode, (N, depth))
    memory = np.zeros(layout.span(), KINDS[kind][1])
    memory[layout.apply(*np.indices(b.shape), shape=b.shape)["m"]] = bits(b, kind)
    id = f"{name.replace('.', '_')}_{mode}"
    p.array(f"{id}_A", np.concatenate([registers(row, a[:, s * step:(s + 1) * step], kind, 128) for s in range(steps)], axis=1))
    p.array(f"{id}_B", memory)
    p.array(f"{id}_D", registers(d, a @ b.T, of_d, 128))
    # Byte offsets between the two 16-byte columns of a step and between groups of eight rows.
    leading, stride = (16 * N, 128) if mode == "none" else (16, 8 * width)
    ctype, constraint = ACCUMULATOR[of_d]
    count = d.registers
    instructions = "\n".join(
        f'    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{count + 5}, 0; wgmma.mma_async.sync.aligned.m64n{N}k{step}.{types} {braces(0, count)}, '
        f'{braces(count, 4)}, %{count + 4}, p{immediates}; }}" : {operands(constraint, "d[{}]", count)} : '
        + ", ".join(f'"r"(a[{4 * s + k}])' for k in range(4)) + f', "l"(descriptor + {2 * s}), "r"({int(s > 0)}) : "memory");' for s in range(steps))
    p.parts.append(f"""__global__ void __launch_bounds__(128, 1) run_{id}(const unsigned* A, const unsigned char* B, unsigned* D) {{
    extern __shared__ __align__(1024) unsigned char s[];
    for (int x = threadIdx.x; x < (int)sizeof {id}_B; x += 128) s[x] = B[x];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    {ctype} d[{count}];
    unsigned a[{4 * steps}];
    for (int x = 0; x < {count}; x++) d[x] = 0;
    for (int x = 0; x < {4 * steps}; x++) a[x] = A[threadIdx.x * {4 * steps} + x];
    unsigned long long start = (__cvta_generic_to_shared(s) & 0x3FFFF) >> 4;
    unsigned long long descriptor = start | {leading >> 4}ull << 16 | {stride >> 4}ull << 32 | {code}ull << 62;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
{instructions}
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int x = 0; x < {count}; x++) (({ctype}*)D)[threadIdx.x * {count} + x] = d[x];
}}""")
    p.calls.append(f"""{{ auto D = empty({id}_D); run_{id}<<<1, 128, sizeof {id}_B>>>(up({id}_A), (const unsigned char*)up({id}_B), D);
  check("{name} {mode}", D, {id}_D); }}""")


def source() -> str:
    """The program: every mma fragment, ldmatrix and stmatrix, and wgmma in every swizzle mode."""
    p = Program()
    for name in MMA:
        add_mma(p, name)
    for num in (1, 2, 4):
        for trans in ("", ".trans"):
            add_matrix(p, num, trans)
    for name in WGMMA:
        for mode in SWIZZLE_MODES:
            add_wgmma(p, name, mode)
    return p.source()


if __name__ == "__main__":
    print(source())
