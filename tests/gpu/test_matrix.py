"""Every matrix instruction that this GPU has: what it gives, against NumPy and against the simulator."""

import numpy as np
import pytest

from codegen.architecture import number
from runtime.device import device
from tests.gpu.transfer import from_gpu, to_gpu
from tests.matrix.kernels import mma_cases, moved, wgmma_cases

CASES = mma_cases() | wgmma_cases()
# Of a sum of float8 products by wgmma: terms are cut off about 14 bits below the greatest (DeepSeek-V3 technical report, 3.3.2), and here
# there are 64 of them. Seen on an H200: up to 2**-11.5 of the greatest sum.
FLOAT8_DIGITS = 12


@pytest.mark.parametrize("name, case", CASES.items(), ids=CASES.keys())
def test_every_form(name, case, torch):
    least = case.kernel.minimum_arch
    if number(least) > number(device(0).arch) or least.endswith("a") and least != device(0).arch:
        pytest.skip(f"needs {least}")
    *given, result = case.arguments
    sent = [to_gpu(torch, a) for a in (*given, result)]
    case.kernel(*sent)
    words = from_gpu(torch, sent[-1], result.dtype)
    case.check(words, FLOAT8_DIGITS if "e4m3" in name or "e5m2" in name else 64)
    case.kernel(*given, result)                 # the simulator
    if case.kind == "s32":
        np.testing.assert_array_equal(words, result)


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("ld_trans", [False, True])
@pytest.mark.parametrize("st_trans", [False, True])
def test_matrices_to_registers_and_back(num, ld_trans, st_trans, torch):
    kernel = moved(num, ld_trans, st_trans)
    a = np.arange(64 * num, dtype=np.float16).reshape(8 * num, 8)
    here = [a, np.zeros_like(a), np.zeros((32, num), np.uint32)]
    there = [to_gpu(torch, x) for x in here]
    kernel(*here)
    kernel(*there)
    for mine, its in zip(here[1:], there[1:]):
        np.testing.assert_array_equal(from_gpu(torch, its, mine.dtype), mine)
