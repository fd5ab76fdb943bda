"""mma.sync, ldmatrix and stmatrix on the simulator: every form against NumPy, and compiled."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.simulator.registers import to_matrix, to_registers
from runtime.simulator.tensor_cores import STORED
from tests.matrix.compiled import report
from tests.matrix.kernels import mma_cases, moved, wgmma_cases
from tests.nvcc import needs_nvcc, one_unit
from tests.simulator.running import run
from tracer import T, trace
from tracer.matrix import MMA_FORMS

MMA, WGMMA = mma_cases(), wgmma_cases()


@pytest.mark.parametrize("case", MMA.values(), ids=MMA.keys())
def test_every_form_of_mma(case):
    run(case.kernel, *case.arguments)
    case.check(case.arguments[-1])


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("ld_trans", [False, True])
@pytest.mark.parametrize("st_trans", [False, True])
def test_matrices_to_registers_and_back(num, ld_trans, st_trans):
    a = np.arange(64 * num, dtype=np.float16).reshape(8 * num, 8)
    b, r = np.zeros_like(a), np.zeros((32, num), np.uint32)
    run(moved(num, ld_trans, st_trans), a, b, r)
    turned = a.reshape(num, 8, 8).swapaxes(1, 2).reshape(8 * num, 8)
    assert np.array_equal(b, a if ld_trans == st_trans else turned)
    lane, q = 13, num - 1       # register q of lane 13: row 3, columns 2 and 3 of matrix q
    assert r[lane, q:q + 1].view(np.float16).tolist() == (turned if ld_trans else a)[8 * q + 3, 2:4].tolist()


@pytest.mark.parametrize("case", WGMMA.values(), ids=WGMMA.keys())
def test_every_form_of_wgmma(case):
    run(case.kernel, *case.arguments)
    case.check(case.arguments[-1])


def test_the_types_are_those_of_the_tables():
    assert {kind for f in MMA for kind in f.split(".")[1:] if kind != "satfinite"} <= set(STORED)


@needs_nvcc
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89", "sm_90a"])
def test_every_form_compiles_for_its_first_architecture(architecture, tmp_path):
    kernels = [case.kernel for case in (MMA | WGMMA).values()]
    kernels += [moved(num, ld, st) for num in (1, 2, 4) for ld in (False, True) for st in (False, True)] if architecture == "sm_90a" else []
    chosen = [k.cuda_source() for k in kernels if k.minimum_arch.rstrip("a") == architecture.rstrip("a")]
    assert chosen
    report(one_unit(chosen), tmp_path, architecture)


def test_registers_of_pairs():
    """A local buffer of float16x2 has two elements in each register."""
    form = MMA_FORMS["m16n8k16", "f16", "f16", "f16"]

    @trace
    def kernel(A: T.Buffer((32, 4), "uint32"), B: T.Buffer((32, 2), "uint32"), C: T.Buffer((32, 2), "uint32")):
        T.device_entry()
        lane = T.lane_id([32])
        a, b, d = (T.alloc_local((n,), "float16x2") for n in (4, 2, 2))
        for i in range(4):
            a[i] = T.reinterpret("float16x2", A[lane, i])
        for i in range(2):
            b[i], d[i] = (T.reinterpret("float16x2", x) for x in (B[lane, i], T.uint32(0)))
        T.ptx["mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"](d, a, b, d)
        for i in range(2):
            C[lane, i] = T.reinterpret("uint32", d[i])

    rng = np.random.default_rng(9)
    a, b = rng.standard_normal((16, 16)).astype(np.float16), rng.standard_normal((16, 8)).astype(np.float16)
    c = np.zeros((32, 2), np.uint32)
    run(kernel, to_registers(a, form.fragment("A")), to_registers(b, form.fragment("B")), c)
    assert np.array_equal(to_matrix(c, form.fragment("D"), "f16"), (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16))
