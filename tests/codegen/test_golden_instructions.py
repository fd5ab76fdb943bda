"""The 69 statements of the reference's record: each traces, round-trips, emits the PTX named there, and compiles for its architecture."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.nvcc import cubin, needs_nvcc, one_unit
from tracer import T, trace
from tracer.dialect import UnknownNameError
from tracer.errors import TraceError

RECORDS: list[dict[str, Any]] = json.loads((Path(__file__).parent.parent / "data" / "intrinsics.json").read_text())

# Statements that are not written as they stand, and why.
REWRITTEN = {
    # Nothing reads the source here, so Python's own `if` cannot be recorded.
    "if T.cuda.elect_sync():\n    A[tx] = T.float32(1)": "with T.If(T.cuda.elect_sync()):\n    A[tx] = T.float32(1)",
}
# PTX of the record that is not emitted, and why.
NOT_EMITTED = {
    "bra.uni": "lanes of one warp may leave the wait in different turns, so the branch is not uniform",
}
# Statements that the reference refuses, and that work here.
ACCEPTED = {"T.cuda.wgmma.noop_barrier(rf[0])"}
# What refusals say here.
REFUSED = {
    "T.ptx[\"mbarrier.init.shared.b63\"](sb.ptr_to([0]), T.uint32(1))": (
        TraceError, "`mbarrier.init.shared.b63`: 'b63' is not legal behind `mbarrier.init.shared`; what may follow: b64"),
    "T.cuda.no_such_thing()": (UnknownNameError, "T.cuda.no_such_thing does not exist in this version"),
}

PROLOGUE = '''
def kernel_{number}(A: T.Buffer((1024,), "float32"), U: T.Buffer((1024,), "uint32"), B: T.Buffer((1024,), "float32")):
    T.device_entry()
    w = T.warp_id([4])
    tx = T.thread_id([128])
    sb = T.alloc_shared((4,), "uint64", align=16)
    sf = T.alloc_shared((1024,), "float32", align=16)
    su = T.alloc_shared((16,), "uint32", align=16)
    sh = T.alloc_shared((1024,), "float16", align=1024)
    ru = T.alloc_local((8,), "uint32")
    rl = T.alloc_local((4,), "uint64")
    rf = T.alloc_local((8,), "float32")
    for k in range(8):
        ru[k] = U[k]
        rf[k] = B[k]
    for k in range(4):
        rl[k] = U[k].astype("uint64")
'''
EPILOGUE = '''
    for k in range(8):
        B[tx] = rf[k] + ru[k].astype("float32")
    for k in range(4):
        B[tx] = rl[k].astype("float32")
'''


def kernel(number: int) -> Any:
    """The kernel around a record's statement."""
    statement = RECORDS[number]["statement"]
    body = "".join(f"    {line}\n" for line in REWRITTEN.get(statement, statement).split("\n"))
    namespace: dict[str, Any] = {"T": T}
    exec(PROLOGUE.format(number=number) + body + EPILOGUE, namespace)
    return trace(namespace[f"kernel_{number}"])


@cache
def kernels() -> dict[int, Any]:
    return {number: kernel(number) for number, record in enumerate(RECORDS) if record["statement"] not in REFUSED}


def opcodes(text: str) -> set[str]:
    """The PTX opcodes in a piece of source: words with dots. A directive (`.reg`) is none."""
    return set(re.findall(r"(?<![\w.:])[a-z][a-z0-9_]*\d*(?:\.[\w:]+)+", text))


def test_all_are_there() -> None:
    assert len(RECORDS) == 69
    assert {r["statement"] for r in RECORDS if "error" in r} == {*REFUSED, *ACCEPTED}


@pytest.mark.parametrize("number", [n for n, r in enumerate(RECORDS) if r["statement"] not in REFUSED])
def test_the_ptx_of_the_record_is_emitted(number: int) -> None:
    record, source = RECORDS[number], kernels()[number].cuda_source(locations=False)
    assert opcodes(" ".join(record["ptx"])) - NOT_EMITTED.keys() <= opcodes(source)
    assert {name for name in record["builtins"] if name not in source} == set()


@pytest.mark.parametrize("number", [n for n, r in enumerate(RECORDS) if r["statement"] not in REFUSED])
def test_scripts_trace_back(number: int) -> None:
    made = kernels()[number]
    namespace: dict[str, Any] = {}
    exec(made.script(), namespace)
    again = trace(namespace[made.__name__])
    assert again.script() == made.script()
    assert [node.op for node in again.function.device.walk()] == [node.op for node in made.function.device.walk()]


@needs_nvcc
@pytest.mark.parametrize("architecture", sorted({record["arch"] for record in RECORDS}))
def test_all_compile_for_their_architecture(architecture: str, tmp_path: Path) -> None:
    able = [made.cuda_source(locations=False) for number, made in kernels().items() if RECORDS[number]["arch"] == architecture]
    made = cubin(one_unit(able), tmp_path, [architecture])
    assert made[architecture].stat().st_size > 0


@pytest.mark.parametrize("statement", REFUSED)
def test_refusals(statement: str) -> None:
    kind, message = REFUSED[statement]
    with pytest.raises(kind, match=re.escape(message)):
        kernel(next(n for n, record in enumerate(RECORDS) if record["statement"] == statement))
