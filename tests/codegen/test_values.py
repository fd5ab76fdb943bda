"""What emitted kernels compute, through the host's compiler, against the simulator: random kernels of mixed integer dtypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codegen.mixed_kernels import INPUTS, OUTPUTS, THREADS, arrays, kernel
from tests.nvcc import one_unit

# CUDA's `min`, `max` and `abs` of integers with its overloads for mixed operands (crt/math_functions.hpp), so that what is ambiguous
# there is ambiguous here.
_SHIM = """
#define __device__ static
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
extern "C" { struct { unsigned int x, y, z; } threadIdx; }
#define PAIR(R, A, B) __device__ R min(A a, B b) { return (R)a < (R)b ? a : b; } __device__ R max(A a, B b) { return (R)a > (R)b ? a : b; }
#define FAMILY(S, U) PAIR(S, S, S) PAIR(U, U, U) PAIR(U, S, U) PAIR(U, U, S)
FAMILY(int, unsigned int) FAMILY(long long, unsigned long long)
__device__ int abs(int x) { return x < 0 ? -x : x; }
__device__ long long abs(long long x) { return x < 0 ? -x : x; }
"""
_PTX = 'asm("neg.s32 %0, %1;" : "=r"(b) : "r"((int)a));'


def library(sources: list[str], directory: Path) -> ctypes.CDLL:
    """The kernels as functions of one thread, whose index is the variable `threadIdx`."""
    source, made = directory / "kernels.cpp", directory / "kernels.so"
    source.write_text(_SHIM + one_unit(sources).replace(_PTX, "b = -(int)a;"))
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    return ctypes.CDLL(str(made))


def run(found: ctypes.CDLL, made: Any, by_name: dict[str, np.ndarray]) -> None:
    """Run every thread of the kernel `made`."""
    function = getattr(found, made.cuda.entry)
    pointers = [ctypes.c_void_p(by_name[a.buffer.name].ctypes.data) for a in made.half.arguments]
    index = ctypes.c_uint.in_dll(found, "threadIdx")
    for thread in range(THREADS):
        index.value = thread
        function(*pointers)


NAMES = [f"i_{n}" for n in INPUTS] + [f"o_{n}" for n in OUTPUTS]
SEEDS = range(200)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no host compiler to run the kernels with")
def test_mixed_dtypes(tmp_path: Path) -> None:
    kernels = {seed: kernel(seed) for seed in SEEDS}
    found = library([k.cuda_source(locations=False) for k in kernels.values()], tmp_path)
    wrong = []
    for seed, made in kernels.items():
        expected, got = arrays(seed), arrays(seed)
        made(*expected)
        run(found, made, dict(zip(NAMES, got)))
        for name, e, g in zip(NAMES, expected, got):
            wrong += [f"kernel({seed}): {name}[{place}] is {g[place]}, not {e[place]}" for place in map(tuple, np.argwhere(e != g)[:1])]
    assert not wrong, "\n".join(wrong[:20])
