"""Operands read through their descriptors."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.simulator.operands import Bad, operand
from symbolic.layout import mma_shared_layout
from symbolic.layout.descriptors import MatrixDescriptor, fitted


def placed(matrix, mode, base):
    """A shared memory that holds `matrix`, laid out by `mode`, from address `base` on."""
    space = np.zeros(16384, np.uint8)
    layout = mma_shared_layout("float16", mode, matrix.shape)
    where = layout.apply(*np.indices(matrix.shape), shape=matrix.shape)["m"]
    space.view(np.float16)[base // 2 + where] = matrix
    return space, layout


@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("base", [0, 2048])
def test_a_step_in_k(mode, base):
    a = np.arange(64 * 64, dtype=np.float16).reshape(64, 64)
    space, layout = placed(a, mode, base)
    made = fitted(layout, a.shape, "float16", "K", 64, 16)
    start = base + int(layout.apply(0, 16, shape=a.shape)["m"]) * 2
    bits = MatrixDescriptor(start, made.leading, made.stride, mode).encode("wgmma")
    assert np.array_equal(operand(bits, "wgmma", "K", 64, 16, "f16", len(space)).read(space), a[:, 16:32])


def test_transposed():
    b = np.arange(32 * 128, dtype=np.float16).reshape(32, 128)      # k by n
    space, layout = placed(b, "128B", 1024)
    made = fitted(layout, b.shape, "float16", "MN", 128, 16)
    bits = MatrixDescriptor(1024 + 2048, made.leading, made.stride, "128B").encode("tcgen05")
    assert np.array_equal(operand(bits, "tcgen05", "MN", 128, 16, "f16", len(space)).read(space), b[16:].T)


def test_wrong_strides_read_other_bytes():
    a = np.arange(64 * 64, dtype=np.float16).reshape(64, 64)
    space, _ = placed(a, "128B", 0)
    right, wrong = (operand(MatrixDescriptor(0, 16, s, "128B").encode("wgmma"), "wgmma", "K", 64, 16, "f16", len(space)).read(space)
                    for s in (1024, 512))
    assert np.array_equal(right, a[:, :16]) and not np.array_equal(wrong, a[:, :16])


@pytest.mark.parametrize("descriptor, message", [
    (MatrixDescriptor(0x480, 16, 1024, "128B"), "the descriptor starts at shared address 0x480, 1 row(s) of 128 bytes into a pattern of the 128B "
     "swizzle, and its base offset says 0. The hardware swizzles absolute addresses: align the buffer to 1024 bytes, and start operands at "
     "multiples of 8 rows"),
    (MatrixDescriptor(0x2400, 16, 1024, "128B"), "the descriptor (start 0x2400, leading 16, stride 1024, swizzle 128B) reaches shared address "
     "0x43fe; the block has 16384 bytes"),
])
def test_descriptors_that_cannot_be(descriptor, message):
    with pytest.raises(Bad) as caught:
        operand(descriptor.encode("wgmma"), "wgmma", "K", 64, 16, "f16", 16384)
    assert str(caught.value) == message
