"""Random programs of loads, stores, mutable scalars and instructions on the same memory, for one thread: the emitted source, compiled for the
host with instructions in C++, leaves what the simulator leaves, and the script traces back to the same program.
"""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.simulator.running import run
from tracer import T, trace

KERNELS = 40
GXX = shutil.which("g++")
HOST = """
#include <cstdint>
struct Index { int x, y, z; };
static const Index threadIdx{0, 0, 0}, blockIdx{0, 0, 0};
#define __device__
#define __global__
#define __shared__
#define __restrict__
#define __forceinline__ inline
#define __launch_bounds__(...)
"""
# What an instruction does, by a part of its function's name.
BODIES = {"_ld_": "d = *(unsigned int*)src;", "_st_": "*(unsigned int*)dst = value;",
          "_atom_": "const unsigned int old = *(unsigned int*)dst; *(unsigned int*)dst = old + value; d = old;"}


class Program:
    """Writes a random kernel over `r` (registers), `s` (shared), `U` (global) and two mutable scalars."""

    def __init__(self, seed: int, U: Any, tx: Any) -> None:
        self.choose = random.Random(seed)
        self.U = U
        self.r, self.s = T.alloc_local((4,), "uint32"), T.alloc_shared((4,), "uint32")
        self.cells = [T.local_scalar("uint32", 3), T.local_scalar("uint32", 5)]
        for i in range(4):
            self.r[i], self.s[i] = T.uint32(self.choose.randrange(100)), T.uint32(self.choose.randrange(100))
        self.kept = [T.uint32(1), self.r[0], U[tx]]

    def value(self) -> Any:
        number = self.choose.randrange
        return [lambda: self.r[number(4)], lambda: self.U[number(16)], lambda: self.s[number(4)], lambda: +self.choose.choice(self.cells),
                lambda: self.value() + self.value(), lambda: self.value() * T.uint32(3),
                lambda: T.if_then_else(self.value() > self.value(), self.value(), self.value()),
                lambda: self.choose.choice(self.kept)][number(8)]()

    def register(self) -> Any:
        return self.r[self.choose.randrange(4)] if self.choose.random() < 0.6 else self.choose.choice(self.cells)

    def statement(self, depth: int) -> None:
        number = self.choose.randrange
        kind = number(11 if depth < 2 else 10)
        match kind:
            case 0: self.r[number(4)] = self.value()
            case 1: self.U[number(16)] = self.value()
            case 2: self.s[number(4)] = self.value()
            case 3: self.choose.choice(self.cells).assign(self.value())
            case 4: T.ptx.ld.global_.u32(self.register(), self.U.ptr_to([number(16)]))
            case 5: T.ptx.ld.shared.u32(self.register(), self.s.ptr_to([number(4)]))
            case 6: T.ptx.st.global_.u32(self.U.ptr_to([number(16)]), self.value())
            case 7: T.ptx.st.shared.u32(self.s.ptr_to([number(4)]), self.value())
            case 8: T.ptx.atom.global_.add.u32(self.register(), self.U.ptr_to([number(16)]), self.value())
            case 9 if depth == 0: self.kept.append(self.value())
            case 10 if number(2):
                with T.If(self.value() > self.value()):
                    self.statements(number(1, 4), depth + 1)
            case 10:
                for _ in T.serial(2):
                    self.statements(number(1, 4), depth + 1)

    def statements(self, count: int, depth: int = 0) -> None:
        for _ in range(count):
            self.statement(depth)


def kernel(seed: int) -> Any:
    def program(U: T.Buffer((16,), "uint32"), V: T.Buffer((16,), "uint32")) -> None:
        T.device_entry()
        tx = T.thread_id([1])
        made = Program(seed, U, tx)
        made.statements(made.choose.randrange(4, 14))
        for i in range(4):
            V[i], V[4 + i] = made.r[i], made.s[i]
        V[8], V[9] = made.cells
        for i, value in enumerate(made.kept[-5:]):
            V[10 + i] = value

    program.__name__ = f"program_{seed}"
    return trace(program)


@cache
def kernels() -> list[Any]:
    return [kernel(seed) for seed in range(KERNELS)]


def memory() -> tuple[Any, Any]:
    return np.arange(16, dtype=np.uint32) * 7, np.zeros(16, np.uint32)


def test_scripts_trace_back() -> None:
    for made in kernels():
        namespace: dict[str, Any] = {}
        exec(made.script(), namespace)
        again = trace(namespace[made.__name__])
        assert again.script() == made.script()
        assert effects(again) == effects(made)


def effects(made: Any) -> list[str]:
    """What the program does in order, but for computing addresses and values."""
    return [node.op.name for node in made.function.device.walk() if not node.op.pure]


def on_host(source: str, number: int) -> str:
    """The kernel's source with instructions in C++."""
    def function(found: re.Match[str]) -> str:
        body = next(body for part, body in BODIES.items() if part in found[1])
        parameters = re.sub(r"unsigned int (dst|src)", r"uintptr_t \1", found[2])
        return f"static inline void {found[1]}({parameters}) {{ {body} }}\n"

    source = re.sub(r"__device__ .* shared_address\(.*", "static uintptr_t shared_address(const void* p) { return (uintptr_t)p; }", source)
    source = re.sub(r"__device__ __forceinline__ void (\w+)\(([^{]*)\) \{\n.*?\n\}\n", function, source, flags=re.S)
    return f"namespace n{number} {{\n{source}\n}}\n"


@pytest.mark.skipif(GXX is None, reason="g++ is not on PATH; the source cannot be compiled for the host")
def test_the_source_does_what_the_simulator_does(tmp_path: Path) -> None:
    (tmp_path / "programs.cpp").write_text(HOST + "".join(on_host(k.cuda_source(locations=False), n) for n, k in enumerate(kernels())))
    subprocess.run([str(GXX), "-w", "-shared", "-fPIC", "-o", "programs.so", "programs.cpp"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "programs.so"))
    for made in kernels():
        expected, got = memory(), memory()
        run(made, *expected)
        named = dict(zip(("U", "V"), got))
        library[f"{made.__name__}_kernel"](*(ctypes.c_void_p(named[a.buffer.name].ctypes.data) for a in made.half.arguments))
        np.testing.assert_array_equal(got, expected, err_msg=made.cuda_source(locations=False))
