"""Fragments to matrices and back, and what the tensor core makes of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from runtime.simulator.registers import places, to_matrix, to_registers
from runtime.simulator.tensor_cores import STORED, bits_of, multiply, numbers
from symbolic.layout import FRAGMENTS, fragment, wgmma_accumulator

KINDS = {8: "s8", 16: "f16", 32: "f32", 64: "f64"}


@pytest.mark.parametrize("key", [k for k, f in FRAGMENTS.items() if f.shape[0] * f.shape[1] % 32 == 0], ids=" ".join)
def test_registers_and_matrices_are_inverse(key):
    f = fragment(*key)
    matrix = np.arange(f.shape[0] * f.shape[1]).reshape(f.shape).astype(STORED[KINDS[f.bits]])
    words = to_registers(matrix, f, "uint64" if f.bits == 64 else "uint32")
    assert words.shape[-1] == max(1, f.elements * f.bits // (64 if f.bits == 64 else 32))
    assert np.array_equal(to_matrix(words, f, KINDS[f.bits]), matrix)


def test_a_fragment_of_mma_lies_as_the_manual_draws_it():
    """m16n8k16, A: register 1 of lane 5 holds row 9, columns 2 and 3; register 2 row 1, columns 10 and 11."""
    matrix = np.arange(256, dtype=np.float16).reshape(16, 16)
    words = to_registers(matrix, fragment("mma.m16n8k16.f16", "A"))
    assert words[5, 1:3].view(np.float16).tolist() == [9 * 16 + 2, 9 * 16 + 3, 16 + 10, 16 + 11]


def test_the_accumulator_of_wgmma():
    """Register 5 of thread 77 (warp 2, lane 13) holds row 32 + 3, column 8 + 2 + 1."""
    matrix = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    words = to_registers(matrix, wgmma_accumulator(16))
    assert words[77, 5].view(np.float32) == (32 + 3) * 16 + 8 + 2 + 1
    assert places(wgmma_accumulator(16)).element.shape == (128, 8)


def test_several_warps_at_once():
    f = fragment("mma.m16n8k16.f16", "B")
    matrices = np.random.default_rng(1).standard_normal((3, 16, 8)).astype(np.float16)
    assert np.array_equal(to_matrix(to_registers(matrices, f), f, "f16"), matrices)


def test_tf32_is_truncated():
    x = np.array([1 + 2**-10 + 2**-11, -(1 + 2**-11), np.float32(np.inf)], np.float32)
    assert numbers(x.view(np.uint32), "tf32").tolist() == [1 + 2**-10, -1.0, np.inf]


def test_narrow_numbers():
    assert numbers(np.array([0x3F80], np.uint16), "bf16")[0] == 1.0
    assert numbers(np.array([0x7E, 0x7F], np.uint8), "e4m3").tolist()[0] == 448.0
    assert np.isnan(numbers(np.array([0x7F], np.uint8), "e4m3")[0])
    assert numbers(np.array([0x7C], np.uint8), "e5m2")[0] == np.inf
    assert numbers(np.array([0xFF], np.uint8), "s8")[0] == -1 and numbers(np.array([0xFF], np.uint8), "u8")[0] == 255
    assert STORED["bf16"] == ml_dtypes.bfloat16 and bits_of("tf32") == 32


def test_one_rounding_of_the_sum():
    """1 + 2**-24 + 2**-24 is 1 + 2**-23 where the sum is rounded once, 1 where each addition is."""
    a, b = np.array([[2.0**-12, 2.0**-12]]), np.array([[2.0**-12], [2.0**-12]])
    assert multiply(a, b, np.ones((1, 1)), "f32")[0, 0] == np.float32(1 + 2**-23)
    assert multiply(a, b, np.ones((1, 1)), "f16")[0, 0] == np.float16(1)
    assert multiply(np.full((1, 2), 300.0), np.full((2, 1), 300.0), None, "f16")[0, 0] == np.inf


def test_integers_wrap_or_saturate():
    a, b, c = np.full((1, 1), 127.0), np.full((1, 1), 127.0), np.full((1, 1), 2.0**31 - 1)
    assert multiply(a, b, c, "s32")[0, 0] == -(2**31) + 127 * 127 - 1
    assert multiply(a, b, c, "s32", saturate=True)[0, 0] == 2**31 - 1
    assert multiply(a, -b, -c, "s32", saturate=True)[0, 0] == -(2**31)
