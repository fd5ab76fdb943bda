"""Planted bugs of arithmetic: indices that overflow, divisions and shifts without a result, numbers that are none (rows 31 to 33)."""

# ruff: noqa: F821
from __future__ import annotations

import numpy as np

from runtime.simulator.checks import Checks
from tests.sanitizer.corpus import f32, i32, planted, zeros
from tracer import T
from tracer.errors import ArithmeticFault, IndexOverflowError, LaunchError, NonFiniteError, OutOfBoundsError

# Before the launch where the arguments tell, else in the run. What leaves int32 alone is computed in 64 bits (see `kernel.wide`).
_OVERFLOW = (IndexOverflowError, LaunchError)


@planted(31, _OVERFLOW, "int64", i32(64), zeros(64, dtype="int32"), 2**40)
def product_of_strides(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), stride: T.int64, *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    step = stride % 64 if fixed else stride
    B[tx] = A[(tx * step * step) % 64]          # BUG


@planted(32, ArithmeticFault, "floordiv", i32(8), zeros(8, dtype="int32"))
def division_by_data(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([8])
    d = A[tx]
    B[tx] = 100 // (T.max(d, 1) if fixed else d)        # BUG


@planted(32, ArithmeticFault, "floormod", i32(8), zeros(8, dtype="int32"), 0)
def modulo_by_a_parameter(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), m: T.int32, *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([8])
    B[tx] = A[tx] % (m + 1 if fixed else m)             # BUG


@planted(32, ArithmeticFault, "shl", i32(64), zeros(64, dtype="uint32"))
def shift_by_the_width(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "uint32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    by = A[tx]
    B[tx] = T.uint32(1) << (by % 32 if fixed else by).astype("uint32")      # BUG


@planted(32, ArithmeticFault, "truncdiv", np.array([-2**31, 5], np.int32), zeros(2, dtype="int32"), -1)
def least_integer_by_minus_one(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32"), d: T.int32, *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([2])
    B[tx] = T.truncdiv(T.max(A[tx], -100) if fixed else A[tx], d)       # BUG


@planted(32, ArithmeticFault, "shr", i32(64), zeros(64, dtype="int32"))
def shift_to_the_right_by_too_much(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([64])
    B[tx] = A[tx] >> (T.min(A[tx], 31) if fixed else A[tx])     # BUG


@planted(33, OutOfBoundsError, "table", f32(16) * 1e9, f32(64), zeros(16))
def index_from_a_float(A: T.Buffer((16,), "float32"), table: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([16])
    at = A[tx].astype("int32")
    B[tx] = table[T.min(at, 63) if fixed else at]       # BUG


_NAN = Checks(nan=True)


@planted(35, NonFiniteError, "div", f32(8), zeros(8), checks=_NAN)
def zero_over_zero(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([8])
    x = A[tx]
    B[tx] = x / (x + 1.0 if fixed else x)               # BUG


@planted(35, NonFiniteError, "exp", f32(8) * 100, zeros(8), checks=_NAN)
def softmax_without_the_maximum(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), *, fixed: T.constexpr):
    T.device_entry()
    tx = T.thread_id([8])
    top = A[7] if fixed else 0.0
    B[tx] = T.exp(A[tx] - top)                          # BUG
