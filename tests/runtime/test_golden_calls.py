"""The reference's 47 executed calls: accepted and refused as there, except where it is silently wrong.

Of those that were accepted the values are compared too, with what the layout says: none writes outside its array (W2, W3).

Where it differs, `DIFFERENT` says how: what the reference took and wrapped, aliased or misread is refused here, and what it
refused for no reason is taken.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from tests.runtime.calls import recorded
from tests.runtime.kernels import k, offset, scalars, transposed
from tracer import T, trace
from tracer.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, TraceError

RECORDS = json.loads((Path(__file__).parent.parent / "data" / "host_calls.json").read_text())["records"]

DIFFERENT = {
    17: "aliased arguments of a kernel that writes one (W15)",
    19: "a misaligned address behind a declared align=16 (W14)",
    25: "a compact array of 32 elements for a layout that reaches 56 (W2)",
    26: "an array that lies as the layout says",
    34: "an int32 that wraps (W15)",
    35: "an int32, an uint8 and a bool that wrap (W15)",
    36: "an uint8 that wraps (W15)",
    40: "a float32 that overflows to infinity (W15)",
    45: "an empty array, whose strides do not matter, is taken",
}
# A layout of 16 elements for a shape of 32 is an error when the kernel is traced.
TOO_SMALL = (31, 32)
TRACED = "a layout of 16 elements for a shape of 32 is an error of the trace"
LAYOUTS = {
    "layout stride16": {"layout": TileLayout(S[(4, 8):(16, 1)])},
    "strides=[16,1]": {"strides": [16, 1]},
    "layout col-major": {"layout": TileLayout(S[(4, 8):(1, 4)])},
}


def floats(*shape):
    return np.zeros(shape, "float32")


def misaligned():
    raw = np.zeros(3 * 8 + 8, "float32")
    start = next(i for i in range(5) if (raw.ctypes.data + 4 * i) % 16 == 4)
    return raw[start:start + 24].reshape(3, 8)


def one_for_a(case):
    """The arguments of one case of `k(A: Tensor([n, 8]), B: Tensor([n, 8]), s)`."""
    a, b = floats(3, 8), floats(3, 8)
    return {
        "ok": (a, b, 3.0),
        "int for float": (a, b, 3),
        "bool for float": (a, b, True),
        "str for float": (a, b, "x"),
        "None for float": (a, b, None),
        "too few": (a, b),
        "too many": (a, b, 1.0, 2.0),
        "f64 tensor": (a.astype("float64"), b, 1.0),
        "i32 tensor": (a.astype("int32"), b, 1.0),
        "ndim 1": (floats(24), b, 1.0),
        "ndim 3": (floats(3, 8, 1), b, 1.0),
        "const dim 9": (floats(3, 9), b, 1.0),
        "const dim 4": (floats(3, 4), b, 1.0),
        "n mismatch": (a, floats(4, 8), 1.0),
        "n=0": (floats(0, 8), floats(0, 8), 1.0),
        "None tensor": (None, b, 1.0),
        "int tensor": (3, b, 1.0),
        "same tensor twice": (a, a, 1.0),
        "numpy arrays": (a, b, 1.0),
        "misaligned by 4 bytes (align=16 declared)": (misaligned(), b, 1.0),
        "transposed strides": (floats(8, 3).T, b, 1.0),
        "padded rows": (floats(3, 16)[:, :8], b, 1.0),
        "negative strides": (a[::-1], b, 1.0),
    }[case]


def call_of(record):
    sig, case = record["sig"], record["case"]
    if sig.startswith("A:(n,8)f32"):
        return k, one_for_a(case)
    if sig == "B:(4,8) elem_offset=64":
        return offset, (floats(4, 8), floats(4, 8) if case == "compact" else floats(4, 16)[:, :8])
    if sig.startswith("A:(5,)f32"):
        return scalars, (floats(5), *eval(case))
    if sig.startswith("B:(4,8)"):
        return placed(**LAYOUTS[sig.removeprefix("B:(4,8) ")]), (floats(4, 8), floats(4, 8) if case == "compact" else floats(4, 16)[:, :8])
    assert sig == "A:(n,m) B:(m,n)"
    first, second = case.split("x")
    return transposed, (floats(*eval(first)), floats(*eval(second)))


def placed(**options):
    """A copy into a (4, 8) buffer with a layout or strides."""
    def copy(A: T.Buffer((4, 8), "float32"), B_ptr: T.handle):
        B = T.match_buffer(B_ptr, (4, 8), "float32", **options)
        T.device_entry()
        bx = T.cta_id([4])
        tx = T.thread_id([8])
        B[bx, tx] = A[bx, tx]
    return trace(copy)


@pytest.mark.parametrize("record", [r for r in RECORDS if r["id"] not in TOO_SMALL], ids=lambda r: f"{r['id']}: {r['case']}")
def test_a_call_of_the_reference(record):
    kernel, args = call_of(record)
    accepted = record.get("result") == "ok"
    if record["id"] in DIFFERENT:
        accepted = not accepted
    if accepted:
        recorded(kernel, *args)
        return
    with pytest.raises(ArgumentError) as caught:
        recorded(kernel, *args)
    if record["id"] not in DIFFERENT and record["id"] != 41:     # 41: 2**63 for an int64 is an int, of a wrong value
        assert isinstance(caught.value, {"TypeError": TypeError, "ValueError": ValueError}[record["error"]])


def test_every_record_is_accounted_for():
    assert len(RECORDS) == 47
    assert [r["id"] for r in RECORDS if "too small" in r["sig"]] == list(TOO_SMALL)


def test_a_layout_smaller_than_the_shape_is_an_error_of_the_trace():
    with pytest.raises(TraceError, match=r"maps 16 elements; the shape \(4, 8\) has 32"):
        placed(layout=TileLayout(S[(2, 8):(8, 1)]))


@pytest.mark.parametrize("options", [LAYOUTS["layout stride16"], LAYOUTS["strides=[16,1]"]], ids=["layout", "strides"])
def test_padded_rows_are_written_where_they_lie_and_nowhere_else(options):
    a, base = np.arange(1, 33, dtype="float32").reshape(4, 8), floats(4, 16)
    placed(**options)(a, base[:, :8])
    assert np.array_equal(base[:, :8], a) and not base[:, 8:].any()
    memory = floats(64)         # the unchecked writes of the reference would reach elements 32 to 55
    with pytest.raises(ArgumentValueError, match=r"expected \(16, 1\) elements, got \(8, 1\); the layout needs 56 elements, there are 32"):
        placed(**options)(a, memory[:32].reshape(4, 8))
    assert not memory.any()


def test_a_column_major_layout_divides_up_a_compact_array():
    a, b, transposed_b = np.arange(32, dtype="float32").reshape(4, 8), floats(4, 8), floats(8, 4)
    placed(**LAYOUTS["layout col-major"])(a, b)
    assert np.array_equal(b.reshape(-1), a.T.reshape(-1))
    placed(**LAYOUTS["layout col-major"])(a, transposed_b.T)     # an array that is column-major itself
    assert np.array_equal(transposed_b, a.T)


def test_the_values_of_a_call_that_was_taken():
    a = floats(5)
    call = recorded(scalars, a, 1, 2, 3.5, 7, True)
    assert call.values == ((a.ctypes.data, 0, 5), 1, 2, 3.5, True, 7)
    assert [type(v).__name__ for v in call.values[1:]] == ["int", "int", "float32", "bool", "int"]


def test_elem_offset_takes_the_view_that_lies_there():
    base = np.zeros(128, "float32")
    call = recorded(offset, floats(4, 8), base[64:96].reshape(4, 8))
    assert call.values[1] == (base.ctypes.data, 64, 96)
    with pytest.raises(ArgumentValueError, match="got one at 32"):
        recorded(offset, floats(4, 8), base[32:64].reshape(4, 8))


def test_errors_are_pythons_own_too():
    assert issubclass(ArgumentTypeError, TypeError) and issubclass(ArgumentValueError, ValueError)


# ---- the table ------------------------------------------------------------------------------------------------------------

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "host_calls.md"
HEAD = """\
# The reference's calls, and ours

Each of the 47 calls of the reference that were recorded (`tests/data/host_calls.json`), whether it was taken there and is taken here, and the reason
where that differs: W2, W3, W14 and W15 are the reference's own weaknesses, silent wraps and unchecked writes. `python -m
tests.runtime.test_golden_calls` writes this page; the tests compare it with what is taken and refused.

| id | signature | call | there | here | because |
|---|---|---|---|---|---|
"""


def verdict(record):
    """Whether our host half takes the call, and the class of its refusal."""
    if record["id"] in TOO_SMALL:
        return "refused when traced"
    kernel, args = call_of(record)
    try:
        recorded(kernel, *args)
    except ArgumentError as refusal:
        return f"refused ({type(refusal).__name__})"
    return "taken"


def page():
    rows = []
    for record in RECORDS:
        there = "taken" if record.get("result") == "ok" else f"refused ({record['error']})" if "error" in record else "refused"
        reason = DIFFERENT.get(record["id"], TRACED if record["id"] in TOO_SMALL else "")
        cells = (record["id"], record["sig"], record["case"], there, verdict(record), reason)
        rows.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n")
    return HEAD + "".join(rows)


def test_the_page_says_what_is_taken():
    assert page() == DOCUMENT.read_text()


def test_what_differs_has_a_reason_and_what_has_one_differs():
    for record in RECORDS:
        differs = verdict(record).startswith("taken") != (record.get("result") == "ok")
        assert differs == (record["id"] in DIFFERENT or (record["id"] in TOO_SMALL and record.get("result") == "ok")), record


if __name__ == "__main__":
    DOCUMENT.write_text(page())
