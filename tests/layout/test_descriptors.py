"""Matrix descriptors against the figures of the manual and against the layouts that they are made from."""

from __future__ import annotations

import numpy as np
import pytest

from symbolic.layout import LayoutError, S, TileLayout, mma_shared_layout
from symbolic.layout.descriptors import MatrixDescriptor, fitted, swizzled

MODES = ("none", "32B", "64B", "128B")


def test_the_fields_of_both_generations():
    d = MatrixDescriptor(0x12340, 16, 1024, "128B")
    assert d.encode("wgmma") == 0x1234 | 1 << 16 | 64 << 32 | 1 << 62
    assert d.encode("tcgen05") == 0x1234 | 1 << 16 | 64 << 32 | 1 << 46 | 2 << 61
    for mode in MODES:
        for generation in ("wgmma", "tcgen05"):
            made = MatrixDescriptor(0x400, 256, 512, mode, 3)
            assert MatrixDescriptor.decode(made.encode(generation), generation) == made


def test_the_address_field_keeps_eighteen_bits():
    assert MatrixDescriptor(0x1000400, 16, 16, "none").encode("wgmma") & 0x3FFF == 0x40


@pytest.mark.parametrize("bits, generation, message", [
    (1 << 50 | 1 << 46, "wgmma", "bits 46 are not as they must be"),
    (0, "tcgen05", "bits 46 are not as they must be"),
    (1 << 61 | 1 << 46, "tcgen05", "swizzle code 1 in bits 61-63 is none of 0 (none), 6 (32B), 4 (64B), 2 (128B)"),
])
def test_bits_that_are_no_descriptor(bits, generation, message):
    with pytest.raises(LayoutError) as caught:
        MatrixDescriptor.decode(bits, generation)
    assert message in str(caught.value)


def test_a_field_that_overflows():
    with pytest.raises(LayoutError, match="stride of a matrix descriptor is a multiple of 16 bytes below 262144, not 262144"):
        MatrixDescriptor(0, 16, 1 << 18, "none").encode("wgmma")


def test_swizzle_by_absolute_address():
    """Row 3 of the 128-byte pattern exchanges chunks by 3; with the base moved by a row, by 4."""
    chunk = np.arange(8) * 16
    assert (swizzled(3 * 128 + chunk, "128B") - 3 * 128).tolist() == [48, 32, 16, 0, 112, 96, 80, 64]
    assert (swizzled(4 * 128 + chunk, "128B") - 4 * 128).tolist() == [64, 80, 96, 112, 0, 16, 32, 48]
    assert (swizzled(4 * 128 + chunk, "128B", base=4) - 4 * 128).tolist() == chunk.tolist()
    assert (swizzled(3 * 128 + chunk, "64B") - 3 * 128).tolist() == [48, 32, 16, 0, 112, 96, 80, 64]
    assert (swizzled(2 * 128 + chunk, "32B") - 2 * 128).tolist() == chunk.tolist()


# What CUTLASS and the manual give for operands of bf16: (major, mode, shape of the buffer, leading, stride).
KNOWN = [
    ("K", "128B", (64, 64), 16, 1024), ("K", "64B", (64, 32), 16, 512), ("K", "32B", (64, 16), 16, 256),
    ("K", "none", (64, 16), 1024, 128),
    ("MN", "128B", (32, 128), 32 * 128, 1024), ("MN", "64B", (32, 64), 32 * 64, 512), ("MN", "32B", (32, 64), 32 * 32, 256),
    ("MN", "none", (32, 64), 128, 32 * 16),
]


@pytest.mark.parametrize("major, mode, shape, leading, stride", KNOWN)
def test_descriptors_of_layouts(major, mode, shape, leading, stride):
    mn = shape[0] if major == "K" else shape[1]
    made = fitted(mma_shared_layout("bfloat16", mode, shape), shape, "bfloat16", major, mn, 16)
    assert made == MatrixDescriptor(0, leading, stride, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype, k", [("float16", 16), ("float32", 8), ("int8", 32)])
def test_an_operand_in_the_middle_of_a_buffer(mode, dtype, k):
    """The second k step and the second 64 rows of the third tile: the descriptor of the first one, moved to that element's address."""
    bytes_ = 32 // k
    shape = (4, 128, 2 * k if mode == "none" else 128 // bytes_)
    layout = mma_shared_layout(dtype, mode, shape)
    made = fitted(layout, shape, dtype, "K", 64, k)
    rows, columns = np.indices((64, k))
    wanted = layout.apply(2, rows + 64, columns + k, shape=shape)["m"] * bytes_
    start = int(layout.apply(2, 64, k, shape=shape)["m"]) * bytes_
    moved = MatrixDescriptor(start, made.leading, made.stride, made.mode)
    assert np.array_equal(moved.addresses("K", 64, k, bytes_), wanted) and moved.misplaced == 0


def test_a_pattern_that_does_not_begin_at_its_alignment():
    assert MatrixDescriptor(0x480, 16, 1024, "128B").misplaced == 1
    assert MatrixDescriptor(0x480, 16, 1024, "128B", base=1).misplaced == 0
    assert MatrixDescriptor(0x480, 16, 1024, "none").misplaced == 0
    assert MatrixDescriptor(0x420, 16, 1024, "128B").misplaced == 0


@pytest.mark.parametrize("layout, shape, major, message", [
    (TileLayout(S[64, 64]), (64, 64), "K", "no matrix descriptor reads this layout as a K-major operand of bfloat16: with swizzle 'none', "
     "element (1, 0) is at byte 128, and the hardware would look at 16. Lay the buffer out by mma_shared_layout('bfloat16', \"128B\", shape), "
     "columns running along k"),
    (mma_shared_layout("bfloat16", "128B", (32, 64)), (32, 64), "K", "a K-major operand of 64 by 16 elements needs a buffer of (.., 64, 16), "
     "not (32, 64)"),
])
def test_layouts_that_no_descriptor_reads(layout, shape, major, message):
    with pytest.raises(LayoutError) as caught:
        fitted(layout, shape, "bfloat16", major, 64, 16)
    assert str(caught.value) == message
