"""What surrounds a kernel's text: Python lines, determinism, names, errors."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from codegen.cuda import emit
from codegen.cuda.names import Scopes, escape
from codegen.cuda.statements import STATEMENTS
from codegen.cuda.templates import TEMPLATES, form_of
from codegen.schedule import LEAVES
from tests.codegen.expecting import KERNELS
from tracer import T, trace
from tracer import operations as ops
from tracer.errors import NotSupportedError
from tracer.operations import OPERATIONS, Operation


def _scale(A: T.Buffer((256,), "float32"), s: T.float32):
    T.device_entry(); tx = T.thread_id([256])
    with T.If(tx > 3):
        A[tx] = A[tx] * s; A[0] = s


FIRST = _scale.__code__.co_firstlineno


def test_each_line_knows_its_python_line_and_says_it_once():
    source = trace(_scale).cuda
    assert source.text == f"""\
extern "C" __global__ void __launch_bounds__(256)
_scale_kernel(float* __restrict__ A_ptr, float s) {{
  const int tx = threadIdx.x;  // test_source.py:{FIRST + 1}
  if (tx > 3) {{  // test_source.py:{FIRST + 2}
    A_ptr[tx] *= s;  // test_source.py:{FIRST + 3}
    A_ptr[0] = s;
  }}
}}
"""
    assert source.entry == "_scale_kernel"
    assert {line: where.line - FIRST for line, where in source.lines.items()} == {1: 0, 2: 0, 3: 1, 4: 2, 5: 3, 6: 3, 7: 3}
    assert {where.file for where in source.lines.values()} == {__file__}
    plain = emit(trace(_scale).half, locations=False)
    assert plain.lines == source.lines
    assert plain.text == "".join(line.split("  //")[0] + "\n" for line in source.text.splitlines())


def test_lines_count_headers_and_helpers():
    def kernel(A: T.Buffer((8,), "float16")):
        T.device_entry(); tx = T.thread_id([8])
        A[tx] = A[tx] % 3.0

    source = trace(kernel).cuda
    text = source.text.splitlines()
    by_line = {text[line - 1].strip(): where.line - kernel.__code__.co_firstlineno for line, where in source.lines.items()}
    assert text[0] == "#include <cuda_fp16.h>"
    assert by_line[next(line for line in by_line if line.startswith("A_ptr[tx] = "))] == 2
    assert not any("fmodf" in line for line in by_line)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int64"])
@pytest.mark.parametrize("join", [lambda a, b: a + b, lambda a, b: T.max(a, b), lambda a, b: b - a * 3])
def test_deep_expressions_are_cut_into_variables(dtype, join):
    def kernel(A: T.Buffer((64,), dtype), B: T.Buffer((64,), dtype)):
        T.device_entry(); tx = T.thread_id([64])
        B[tx] = functools.reduce(join, [A[(tx + i) % 64] for i in range(330)])

    lines = trace(kernel).cuda_source().splitlines()
    reads = [line.count("A_ptr[") for line in lines]
    assert sum(reads) == 330
    assert max(reads) <= 60 or dtype != "float32"     # min and max of integers are one expression of many operands


def test_alignment_of_arguments_that_move_in_wide_accesses():
    def kernel(A: T.Buffer((1024,), "float16"), B: T.Buffer((1024,), "float16"), C: T.Buffer((1024,), "float32")):
        T.device_entry(); tx = T.thread_id([64])
        B.vstore([tx * 8], A.vload([tx * 8], dtype="float16x8"))
        C[tx] = C.vload([tx], dtype="float32x4")[1]

    assert trace(kernel).cuda.alignment == {"A_ptr": 16, "B_ptr": 16}


@pytest.mark.parametrize("seed", ["1", "77"])
def test_the_same_bytes_whatever_the_hash_seed(seed):
    program = ("import tests.codegen.test_text; from tests.codegen.expecting import KERNELS; from tracer import trace\n"
               "print(''.join(trace(k).cuda_source() for k in KERNELS.values()))")
    run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
    import tests.codegen.test_text  # noqa: F401
    assert run.stdout == "".join(trace(k).cuda_source() for k in KERNELS.values()) + "\n"


# ---- names

@pytest.mark.parametrize("name, expected", [
    ("acc", "acc"), ("threadIdx", "threadIdx_"), ("half", "half_"), ("new", "new_"), ("int", "int_"), ("float4", "float4_"),
    ("expf", "expf_"), ("__shfl_sync", "__shfl_sync_"), ("_A", "_A_"), ("_a", "_a"), ("floordiv", "floordiv_"), ("INFINITY", "INFINITY_"),
    ("M_PI", "M_PI_"), ("INT_MAX", "INT_MAX_"), ("linux", "linux_"),
    ("float16x8", "float16x8_"), ("\u03b1", "u03b1"), ("x\u00b2", "xu00b2"), ("N", "N"), ("int_", "int_"),
])
def test_escape(name, expected):
    assert escape(name) == expected


def test_scopes_never_hide_a_name():
    scopes = Scopes(["taken"])
    assert [scopes.declare("taken"), scopes.declare("x"), scopes.declare("x"), scopes.neutral()] == ["taken_1", "x", "x_1", "v0"]
    with scopes.block():
        assert [scopes.declare("x"), scopes.declare("y"), scopes.neutral()] == ["x_2", "y", "v1"]
    assert [scopes.declare("y"), scopes.neutral(), scopes.declare("int"), scopes.declare("int")] == ["y", "v1", "int_", "int_1"]


# ---- the table

def test_every_operation_has_one_way_to_be_written():
    """A leaf has a variable or a literal, a view is nothing of its own; every other operation is a row or a statement."""
    written_elsewhere = LEAVES | {ops.DECL}
    assert {row.name for row in OPERATIONS.values()} - {row.name for row in (*TEMPLATES, *STATEMENTS, *written_elsewhere)} == set()


def test_an_operation_without_a_row_is_refused_by_name():
    unknown = Operation("cuda.no_such_thing", (), "none", ops.Effect.OPAQUE, "T.cuda.no_such_thing")
    with pytest.raises(NotSupportedError, match=r"T\.cuda\.no_such_thing cannot be written in CUDA C\+\+ yet"):
        form_of(unknown)
