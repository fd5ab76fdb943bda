"""Every golden record that concerns layouts: reproduced, refused where it was refused, or listed here with the reason."""

from __future__ import annotations

import pytest

from symbolic.layout import LayoutError, mma_shared_layout
from tests.layout.golden import check_apply, check_op, check_pool, check_swizzle, layout_of, mma_allocations, records, same_map

NO_KIND = "span() has a value for axes that the reference has no kind for (pid, and axes of the user's own): W20"
NEGATIVE = "span() is one more than the greatest coordinate; the reference lets a negative stride take from it: W1, W2"
MISMATCH = "a shape of another size is refused"
SCOPES = "canonicalize rewrites the map and asks nothing of scopes; get_scope refuses: W20"
RENAMED = "wgid and wid_in_wg become warpid, one axis; the reference leaves 4@wgid beside it, two axes that count one thing"
GROUPED = "(6, 4):(4, 1) is 24 dense elements, which group in any way; the reference does not fuse first"
OUTSIDE = "a slice past the end is refused"
PERMUTATION = "[0, 0] is no permutation"
PACKED = "only the axis of the elements is rescaled, not the threads: W17"
REBASED = "the offset along the axis of the elements is rescaled too: W17"
TWO_AXES = "a swizzle permutes m; another axis beside it is refused when the layout is made, not when it is applied"
FALSE = "is_well_formed and is_trivial answer False where scopes do not chain, they do not raise: W20"
DROPPED = "columns that fill no atom are refused; the reference drops them"

APPLY = {
    **dict.fromkeys((19, 20, 21, 127, 132, 145, 156, 161, 169, 170, 177, 181, 182, 191, 196, 204, 210, 226, 227, 230, 231, 232, 245, 246,
                     249, 269, 270, 272, 274, 294, 295, 304, 305, 307, 320, 330, 334, 344, 355, 359, 360, 362, 366, 377, 379, 394, 415,
                     422, 426, 430, 434, 436, 449, 450), NO_KIND),
    **dict.fromkeys((34, 35, 36, 37), NEGATIVE),
    **dict.fromkeys((496, 497, 499), MISMATCH),
}
OPS = {
    30: RENAMED, 149: GROUPED, 354: OUTSIDE, 401: PERMUTATION, 479: TWO_AXES,
    **dict.fromkeys((37, 39, 60, 70, 75, 76, 77), SCOPES),
    **dict.fromkeys((416, 417, 419, 421, 427, 430, 432), PACKED),
    **dict.fromkeys((439, 440, 441), REBASED),
    **dict.fromkeys((536, 537, 539, 540, 566, 567, 569, 570, 572), FALSE),
}
SWIZZLE = dict.fromkeys((334, 429, 467, 506, 582, 639), DROPPED)


def report(name: str, total: int, exceptions: dict[int, str]) -> None:
    """The count, and each reason with its records, for `pytest -s`."""
    print(f"\n{name}: {total - len(exceptions)} of {total} records reproduced, {len(exceptions)} listed")
    for reason in dict.fromkeys(exceptions.values()):
        print(f"  {[i for i, r in exceptions.items() if r == reason]}: {reason}")


def test_apply() -> None:
    found = records("layout_apply")
    wrong = {r["id"]: differences for r in found if (differences := check_apply(r))}
    report("layout_apply", len(found), APPLY)
    assert sum(len(r["values"]) for r in found) == 9631
    assert set(wrong) == set(APPLY), {i: w for i, w in wrong.items() if i not in APPLY}
    for i, differences in wrong.items():        # the exceptions are about what they say, values are never wrong
        kind = {NO_KIND: "span", NEGATIVE: "span", MISMATCH: "refused"}[APPLY[i]]
        assert all(d.startswith(kind) for d in differences)


def test_operations() -> None:
    found = records("layout_ops")
    wrong = {r["id"]: difference for r in found if (difference := check_op(r))}
    report("layout_ops", len(found), OPS)
    assert set(wrong) == set(OPS), {i: w for i, w in wrong.items() if i not in OPS}


@pytest.mark.parametrize("id, answer", [
    (30, "TileLayout(S[8:1@warpid])"),
    (427, "TileLayout(S[(8, 4, 1):(4@laneid, 1@laneid, 1)])"),
    (430, "TileLayout(S[(8, 4, 2, 4):(4@laneid, 1@laneid, 4, 1)])"),
    (439, "TileLayout(S[(4, 8, 2):(16, 2, 1)] + 8)"),
    (440, "TileLayout(S[(4, 2):(2, 1)] + 1)"),
])
def test_what_the_exceptions_answer(id: int, answer: str) -> None:
    record, = [r for r in records("layout_ops") if r["id"] == id]
    assert check_op(record) == f"answered: {answer}"


def test_swizzles() -> None:
    found = records("swizzle")
    wrong = {r["id"]: difference for r in found if (difference := check_swizzle(r))}
    report("swizzle", len(found), SWIZZLE)
    assert set(wrong) == set(SWIZZLE), {i: w for i, w in wrong.items() if i not in SWIZZLE}
    for r in found:
        if r["id"] in SWIZZLE:                  # the reference's layout is smaller than the shape: elements were lost
            assert r["size"] < r["shape"][0] * r["shape"][1]


def test_tensor_memory_and_registers() -> None:
    found = [r for r in records("pools") if r["kind"] in ("tmem_datapath", "tcgen05_atom", "wg_local")]
    report("pools (tensor memory, registers)", len(found), {})
    assert {r["id"]: difference for r in found if (difference := check_pool(r))} == {}


def test_the_pools_mma_layouts() -> None:
    """What a shared-memory pool allots for an MMA operand is `mma_shared_layout`. Ranks and rows are the pool's to check."""
    count = 0
    for id, shape, dtype, mode, allotted in mma_allocations():
        if allotted is not None:
            assert same_map(mma_shared_layout(dtype, mode, shape), layout_of(allotted)), id
            count += 1
        elif len(shape) > 1 and min(shape) > 0 and shape[-2] % 8 == 0:
            with pytest.raises(LayoutError):
                mma_shared_layout(dtype, mode, shape)
            count += 1
    print(f"\npools (MMA operands): {count} allocations")
    assert count == 43
