"""What the instructions on bits compute. CUDA Math API, "Integer Intrinsics" and "Single Precision Intrinsics"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from runtime.simulator.frames import Array, Value
from runtime.simulator.semantics import Function, semantics
from tracer import operations as op
from tracer.ir import Node


def _bits(x: Value) -> Value:
    """The bits of an integer, lowest first, along one more axis."""
    x = np.asarray(x)
    width = 8 * x.dtype.itemsize
    return (x[..., None] >> np.arange(width, dtype=x.dtype) & x.dtype.type(1)).astype(np.bool_)


def _popc(bits: Array) -> Value:
    return bits.sum(axis=-1)


def _clz(bits: Array) -> Value:
    return np.where(bits.any(axis=-1), bits[..., ::-1].argmax(axis=-1), bits.shape[-1])


def _ffs(bits: Array) -> Value:
    return np.where(bits.any(axis=-1), bits.argmax(axis=-1) + 1, 0)


_COUNTS: dict[op.Operation, Callable[[Array], Value]] = {op.POPC: _popc, op.CLZ: _clz, op.FFS: _ffs}


@semantics(*_COUNTS)
def count(node: Node) -> Function:
    counted = _COUNTS[node.op]
    return lambda x: counted(_bits(x)).astype(np.int32)[()]


@semantics(op.BREV)
def reverse(node: Node) -> Function:
    def reversed_(x: Value) -> Value:
        bits = _bits(x)
        return np.packbits(bits[..., ::-1], axis=-1, bitorder="little").view(np.asarray(x).dtype)[..., 0]
    return reversed_


@semantics(op.BYTE_PERM)
def byte_perm(node: Node) -> Function:
    def permute(x: Value, y: Value, selector: Value) -> Value:
        eight = _long(y) << np.uint64(32) | _long(x)
        result = np.uint64(0)
        for k in range(4):
            chosen = _long(selector) >> np.uint64(4 * k) & np.uint64(7)
            result = result | (eight >> chosen * np.uint64(8) & np.uint64(0xFF)) << np.uint64(8 * k)
        return result.astype(np.uint32)
    return permute


def _long(x: Value) -> Value:
    return np.asarray(x).astype(np.uint64)


@semantics(*op.FUNNEL)
def funnel(node: Node) -> Function:
    way = node.op.name.rsplit("_", 1)[1]
    left, clamped = way[0] == "l", way.endswith("c")

    def shift(low: Value, high: Value, amount: Value) -> Value:
        whole = _long(high) << np.uint64(32) | _long(low)
        by = np.minimum(_long(amount), 32) if clamped else _long(amount) & np.uint64(31)
        return ((whole << by) >> np.uint64(32) if left else whole >> by).astype(np.uint32)
    return shift


@semantics(op.DP4A)
def dp4a(node: Node) -> Function:
    assert node.dtype is not None
    wide, narrow, storage = (np.int64, np.int8, np.int32) if node.dtype.kind == "int" else (np.uint64, np.uint8, np.uint32)

    def bytes_of(x: Value) -> Array:
        return np.ascontiguousarray(np.asarray(x)[..., None]).view(narrow).astype(wide)

    return lambda a, b, c: (np.asarray(c).astype(wide) + (bytes_of(a) * bytes_of(b)).sum(axis=-1, dtype=wide)).astype(storage)


@semantics(op.FDIVIDEF)
def fdividef(node: Node) -> Function:
    """Exact where the hardware may be off by 2 units; like it, 0 where the reciprocal of the divisor would be denormal."""
    beyond = np.float32(2.0**126)

    def divide(a: Value, b: Value) -> Value:
        reciprocal_is_zero = (np.abs(b) > beyond) & np.isfinite(b)
        return np.where(reciprocal_is_zero, a * np.copysign(np.float32(0), b), a / b)
    return divide
