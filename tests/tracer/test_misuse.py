"""Every misuse while tracing is refused with the line, the reason and what to write instead."""

import inspect
import math
import re

import numpy as np
import pytest
import sympy

from tracer import T, trace
from tracer.errors import DTypeError, NotSupportedError, TraceError

LEAKED = []


def refused(body, message, error=TraceError, setup=None):
    """Tracing a kernel whose body is `body(A, tx, bx)` raises `error`: `message` matches, and the text starts with a line of this file."""
    def kernel(A: T.Buffer((256, 8), "float32"), I: T.Buffer((256,), "int32")):  # noqa: E741
        T.device_entry()
        bx = T.cta_id([4])
        tx = T.thread_id([256])
        body(A, I, tx, bx)

    with pytest.raises(error) as caught:
        trace(kernel)
    text = str(caught.value)
    if "cluster" in message:
        assert re.search(message, text), text
        return text
    first, last = (lambda lines: (lines[1], lines[1] + len(lines[0]) - 1))(inspect.getsourcelines(body))
    line = re.match(re.escape(__file__) + r":(\d+): ", text)
    assert line and first <= int(line[1]) <= last, text
    assert re.search(message, text), text
    return text


def _if(A, I, tx, bx):
    if A[tx, 0] > 0:
        pass


def _while(A, I, tx, bx):
    while A[tx, 0] > 0:
        pass


def _and(A, I, tx, bx):
    _ = (A[tx, 0] > 0) and (tx < 3)


def _not(A, I, tx, bx):
    _ = not A[tx, 0] > 0


def _assert(A, I, tx, bx):
    assert A[tx, 0] > 0


def _chained(A, I, tx, bx):
    _ = 0 < A[tx, 0] < 1


@pytest.mark.parametrize("body", [_if, _while, _and, _not, _assert, _chained], ids=lambda b: b.__name__)
def test_the_truth_of_a_value(body):
    text = refused(body, r"`if`, `while`, `and`, `or`, `not`, `assert`, or a chained comparison")
    assert "with T.If(condition)" in text
    assert re.search(r"the value is `A\[tx, 0\] > 0.0` \(bool, made at .*test_misuse.py:\d+\)|the value is `\S* (>|<) ", text), text


MISUSES = {
    "range": (lambda A, I, tx, bx: range(tx), r"Python needs an int.*for i in T.serial\(n\)"),
    "list": (lambda A, I, tx, bx: [1, 2, 3][tx], r"Python needs an int"),
    "len": (lambda A, I, tx, bx: len(tx), r"len\(\) was called on"),
    "int": (lambda A, I, tx, bx: int(tx), r"int\(\) was called on.*astype\('int32'\)"),
    "float": (lambda A, I, tx, bx: float(A[tx, 0]), r"float\(\) was called on.*T.exp"),
    "math": (lambda A, I, tx, bx: math.exp(A[tx, 0]), r"float\(\) was called on.*T.exp"),
    "iterate": (lambda A, I, tx, bx: list(iter(tx)), r"Python iterates over"),
    "numpy": (lambda A, I, tx, bx: np.asarray(tx), r"NumPy was given"),
    "round": (lambda A, I, tx, bx: round(A[tx, 0]), r"T.round"),
    "integer division": (lambda A, I, tx, bx: tx / 2, r"`/` on integers: write `//`"),
    "float literal": (lambda A, I, tx, bx: tx * 2.5, r"literal 2.5 is a float and int32 cannot hold it"),
    "big literal": (lambda A, I, tx, bx: tx + 2**40, r"1099511627776 is outside int32's range"),
    "divide by zero": (lambda A, I, tx, bx: tx // 0, r"`floordiv` by the constant 0"),
    "float bits": (lambda A, I, tx, bx: A[tx, 0] & 1.0, r"`and` needs integers or bools"),
    "bool arithmetic": (lambda A, I, tx, bx: (tx < 3) + (tx < 5), r"`add` on bools"),
    "index of a scalar": (lambda A, I, tx, bx: tx[0], r"a int32 value cannot be indexed"),
    "not a value": (lambda A, I, tx, bx: A.__setitem__((tx, 0), "text"), r"'text' \(a str\) is not a value"),
    "array as value": (lambda A, I, tx, bx: A.__setitem__((tx, 0), np.zeros(3)), r"NumPy array is used as a value"),
    "float index": (lambda A, I, tx, bx: A[A[tx, 0], 0], r"index 0 of 'A' is a float32 value; an index must be an integer"),
    "python float index": (lambda A, I, tx, bx: A[1.0, 0], r"index 0 of 'A' is a float32 value"),
    "bool index": (lambda A, I, tx, bx: A[tx < 3, 0], r"index 0 of 'A' is a bool value"),
    "too few indices": (lambda A, I, tx, bx: A[tx], r"A\[\?\] has 1 index\(es\), but 'A' has 2 axis\(es\): shape \(256, 8\)"),
    "too many indices": (lambda A, I, tx, bx: A[tx, 0, 0], r"has 3 index\(es\)"),
    "constant out of bounds": (lambda A, I, tx, bx: A[tx, 8], r"index 1 of 'A' is 8, which is out of bounds for every thread: the extent is 8"),
    "negative constant": (lambda A, I, tx, bx: A[tx, -1], r"index 1 of 'A' is -1, which is negative for every thread; indices do not wrap around"),
    "provably out": (lambda A, I, tx, bx: A[tx + 256, 0], r"index 0 of 'A' is tx \+ 256, which is out of bounds for every thread"),
    "narrowing store": (lambda A, I, tx, bx: I.__setitem__(tx, A[tx, 0]), r"float32 value is stored into 'I' of dtype int32.*astype\('int32'\)"),
    "mixed": (lambda A, I, tx, bx: A[tx, 0].astype("float16") + A[tx, 0].astype("bfloat16"), r"float16 and bfloat16 do not promote"),
    "narrow float arithmetic": (lambda A, I, tx, bx: A[tx, 0].astype("float8_e4m3fn") * 2, r"the hardware has no arithmetic for it"),
    "unknown dtype": (lambda A, I, tx, bx: A[tx, 0].astype("float31"), r"unknown dtype 'float31'"),
    "if on int": (lambda A, I, tx, bx: T.If(tx), r"T.If needs a bool, not int32; write a comparison"),
    "while on value": (lambda A, I, tx, bx: T.While(tx < 3), r"T.While needs a function"),
    "else alone": (lambda A, I, tx, bx: T.Else(), r"T.Else without a T.If"),
    "elif alone": (lambda A, I, tx, bx: T.Elif(tx < 3), r"T.Elif without a T.If"),
    "break outside": (lambda A, I, tx, bx: T.break_(), r"T.break_\(\) outside a loop"),
    "continue outside": (lambda A, I, tx, bx: T.continue_(), r"T.continue_\(\) outside a loop"),
    "zero step": (lambda A, I, tx, bx: list(T.serial(0, 8, 0)), r"step of a loop must be a constant other than 0"),
    "float bound": (lambda A, I, tx, bx: list(T.serial(A[tx, 0])), r"a loop bound is a float32 value"),
    "unknown scope": (lambda A, I, tx, bx: T.alloc_buffer((4,), "float32", scope="sharde"), r"unknown scope 'sharde'; scopes are global, shared"),
    "global allocation": (lambda A, I, tx, bx: T.alloc_buffer((4,), "float32", scope="global"), r"cannot allocate global memory"),
    "symbolic allocation": (lambda A, I, tx, bx: T.alloc_local((tx,), "float32"), r"only known at run time; its size must be constant"),
    "negative extent": (lambda A, I, tx, bx: T.alloc_local((-1,), "float32"), r"extent 0 of the allocation is -1, which is negative"),
    "too much shared": (lambda A, I, tx, bx: T.alloc_shared((16000,), "float32"), r"64000 bytes of static shared memory; .* 49152"),
    "odd align": (lambda A, I, tx, bx: T.alloc_shared((4,), "float32", align=3), r"align=3: an alignment is a power of two"),
    "reinterpret": (lambda A, I, tx, bx: T.reinterpret("uint16", A[tx, 0]), r"float32 \(32 bits\) as uint16 \(16 bits\): the widths differ"),
    "math on int": (lambda A, I, tx, bx: T.exp(tx), r"T.exp needs float16, bfloat16, float32 or float64, not int32"),
    "operands": (lambda A, I, tx, bx: T.pow(A[tx, 0]), r"T.pow\(a, b\) takes 2 operand\(s\), got 1"),
    "address of a sum": (lambda A, I, tx, bx: T.address_of(A[tx, 0] + 1.0), r"T.address_of needs a buffer element"),
    "shuffle of bool": (lambda A, I, tx, bx: T.cuda.shfl_xor_sync(1, tx < 3, 1), r"moves int32, uint32.*not bool"),
    "shuffle width": (lambda A, I, tx, bx: T.cuda.shfl_xor_sync(1, tx, 1, width=7), r"width=7; it is 1, 2, 4, 8, 16 or 32"),
    "vload type": (lambda A, I, tx, bx: A.vload([tx, 0], "float16x4"), r"a float16x4 vector of 'A', whose elements are float32"),
    "vload past the end": (lambda A, I, tx, bx: A.vload([tx, 5], "float32x4"), r"index 1 of 'A' is 8, which is out of bounds"),
    "lane": (lambda A, I, tx, bx: A.vload([tx, 0], "float32x4")[4], r"lane 4 of a float32x4 value; its lanes are 0 to 3"),
    "scope id in a loop": (lambda A, I, tx, bx: [T.warp_id([8]) for _ in T.serial(2)], r"T.warp_id inside an If or a loop"),
    "device entry twice": (lambda A, I, tx, bx: T.device_entry(), r"T.device_entry\(\) was called twice"),
    "assume below": (lambda A, I, tx, bx: T.assume(tx < 3), r"T.assume stands before T.device_entry"),
    "unknown attribute": (lambda A, I, tx, bx: T.attr({"tirx.fast": 1}), r"unknown attribute 'tirx.fast'; the attributes are tirx.launch_bounds"),
    "attributes that are no dict": (lambda A, I, tx, bx: T.attr("fast"), r"T.attr takes a dict of attributes, such as T.attr"),
    "axes of another kind": (lambda A, I, tx, bx: A.permute("x", 0), r"A.permute\(x, 0\): write each of the axes 0 to 1 once"),
    "too much local memory": (lambda A, I, tx, bx: T.alloc_local((1 << 20,), "float32"), r"4194304 bytes of local memory; a thread has at most"),
    "bad attribute": (lambda A, I, tx, bx: T.attr({"tirx.cooperative_launch": 1}), r"must be True or False"),
    "compared with None": (lambda A, I, tx, bx: A[tx, 0] == None, r"a value is compared with None \(a NoneType\)"),  # noqa: E711
    "numpy function": (lambda A, I, tx, bx: np.exp(A[tx, 0]), r"numpy.exp was called on.*Write T.exp\(...\)"),
    "numpy maximum": (lambda A, I, tx, bx: np.maximum(A[tx, 0], 0), r"numpy.maximum was called on.*Write T.max\(...\)"),
    "numpy array times": (lambda A, I, tx, bx: A[tx, 0] * np.ones(3), r"numpy.multiply was called on"),
    "shift by the width": (lambda A, I, tx, bx: I[tx] << 32, r"`shl` of int32 by 32: the amount must lie in \[0, 32\)"),
    "shift by less than 0": (lambda A, I, tx, bx: I[tx] >> -1, r"`shr` of int32 by -1: the amount must lie in"),
    "shift always too far": (lambda A, I, tx, bx: I[tx] << (tx + 40), r"the amount must lie in \[0, 32\)"),
    "power of integers": (lambda A, I, tx, bx: I[tx]**2, r"`\*\*` on integers; write x \* x"),
    "buffer as iterable": (lambda A, I, tx, bx: list(I), r"Python iterates over the buffer 'I'"),
    "buffer as truth": (lambda A, I, tx, bx: bool(I), r"Python asked for the truth of the buffer 'I'"),
    "buffer arithmetic": (lambda A, I, tx, bx: I + 1, r"arithmetic on the buffer 'I'. Index it"),
    "length of a buffer": (lambda A, I, tx, bx: len(I), r"len\(\) was called on the buffer 'I'. Its extents are in .shape"),
    "if without with": (lambda A, I, tx, bx: T.If(tx < 3), r"T.If was made and never entered; write `with T.If\(condition\):`"),
    "unknown intrinsic": (lambda A, I, tx, bx: T.cuda.cta_synk(), r"T.cuda.cta_synk does not exist in this version; did you mean T.cuda.cta_sync"),
    "cluster too large": (lambda A, I, tx, bx: T.cta_id_in_cluster([32]), r"a cluster of 32 blocks; the limit is 16"),
    "cluster does not divide": (lambda A, I, tx, bx: T.cta_id_in_cluster([3]), r"grid is 4, which is not a multiple of the cluster"),
    "unhashable extents": (lambda A, I, tx, bx: T.alloc_local((2.5,), "float32"), r"extent 0 of the allocation is 2.5; it must be an integer"),
    "sympy function": (lambda A, I, tx, bx: T.alloc_local((sympy.sqrt(sympy.Symbol("q")),), "float32"), r"SymPy expression sqrt\(q\)"),
    "trace inside": (lambda A, I, tx, bx: trace(lambda: None), r"trace\(...\) was called inside another trace"),
    "another call text": (lambda A, I, tx, bx: [T.cuda.func_call("f", source_code="__device__ void f() {}"),
                                                T.cuda.func_call("f", source_code="__device__ void f() { }")],
                          r"T.cuda.func_call\('f'\) was given another source_code"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuse(name):
    body, message = MISUSES[name]
    refused(body, message)


def test_dtype_errors_are_type_errors():
    refused(MISUSES["mixed"][0], "do not promote", DTypeError)
    assert issubclass(DTypeError, TypeError)


def test_not_supported_says_so():
    def kernel(A: T.Buffer((8, 8), "float32")):
        T.tensor_map(A, (8, 8), interleave="16B")
        T.device_entry()
        T.thread_id([8])

    with pytest.raises(NotSupportedError, match=r"test_misuse.py:\d+: T.tensor_map with interleave='16B' is not supported in this version"):
        trace(kernel)


# ---------------------------------------------------------------------- leaving loops, closed regions, other traces

def test_python_break_out_of_a_loop():
    def body(A, I, tx, bx):
        for _ in T.serial(8):
            break
        A[tx, 0] = 0.0
    refused(body, r"Python left a T.serial loop early .*T.break_\(\)")


def test_python_return_out_of_a_loop():
    def body(A, I, tx, bx):
        for _ in T.unroll(8):
            return
    refused(body, r"Python left a T.unroll loop early")


def test_value_used_after_its_loop():
    def body(A, I, tx, bx):
        total = 0.0
        for k in T.serial(8):
            total = total + A[tx, k]
        A[tx, 0] = total
    refused(body, r"used after the If, loop or While in which it was made has closed; keep it in a mutable scalar")


def test_loop_variable_used_after_its_loop():
    def body(A, I, tx, bx):
        for k in T.serial(8):
            A[tx, k] = 0.0
        A[tx, 0] = A[tx, k]
    refused(body, r"used after the If, loop or While")


def test_value_used_after_its_if():
    def body(A, I, tx, bx):
        with T.If(A[tx, 0] > 0.0):
            x = A[tx, 1] * 2.0
        A[tx, 0] = x
    text = refused(body, r"used after the If")
    assert "the value is `x = A[tx, 1] * 2.0`" in text


def test_buffer_used_after_its_region():
    def body(A, I, tx, bx):
        with T.If(A[tx, 0] > 0.0):
            r = T.alloc_local((4,), "float32")
        r[0] = 1.0
    refused(body, r"buffer 'r' is used after the If, loop or While in which it was allocated")


def test_rebinding_a_cell_in_a_loop():
    def body(A, I, tx, bx):
        total = T.local_scalar("float32", 0.0)
        for k in T.serial(8):
            total = total + A[tx, k]
    text = refused(body, r"binds the Python name 'total' to a new value; the mutable scalar keeps its old one")
    assert "total += ..." in text


def test_else_not_right_behind():
    def body(A, I, tx, bx):
        with T.If(A[tx, 0] > 0.0):
            A[tx, 1] = 1.0
        A[tx, 2] = 2.0
        with T.Else():
            A[tx, 1] = 0.0
    refused(body, r"T.Else is not right behind its T.If")


def test_elif_not_right_behind():
    def body(A, I, tx, bx):
        with T.If(A[tx, 0] > 0.0):
            A[tx, 1] = 1.0
        A[tx, 2] = 2.0
        with T.Elif(A[tx, 1] > 0.0):
            A[tx, 1] = 0.0
    refused(body, r"T.Elif is not right behind its T.If")


def test_two_elses():
    def body(A, I, tx, bx):
        with T.If(A[tx, 0] > 0.0):
            A[tx, 1] = 1.0
        with T.Else():
            A[tx, 1] = 0.0
        with T.Else():
            A[tx, 1] = 0.0
    refused(body, r"T.Else without a T.If")


def test_value_of_another_trace():
    def first(A: T.Buffer((8,), "float32")):
        T.device_entry()
        LEAKED.append(T.thread_id([8]))

    trace(first)
    refused(lambda A, I, tx, bx: A[LEAKED[-1], 0], r"a value of another trace is used here")
    with pytest.raises(TraceError, match=r"outside a trace"):
        LEAKED[-1] + 1


def test_buffer_of_another_trace():
    kept = []

    def first(A: T.Buffer((8,), "float32")):
        T.device_entry()
        T.thread_id([8])
        kept.append(A)

    trace(first)
    refused(lambda A, I, tx, bx: kept[0][tx], r"buffer 'A' belongs to another trace")


def test_a_mutable_scalar_of_another_trace():
    kept = []

    def first(A: T.Buffer((8,), "int32")):
        T.device_entry()
        T.thread_id([8])
        kept.append(T.local_scalar("int32", 0))

    before = trace(first).script()
    refused(lambda A, I, tx, bx: kept[0].assign(3), r"the mutable scalar .* belongs to another trace")
    refused(lambda A, I, tx, bx: kept[0] + 3, r"the mutable scalar .* belongs to another trace")
    assert "assign(3)" not in before


def test_a_handle_that_is_not_bound():
    def kernel(A: T.handle):
        T.device_entry()
        A[T.thread_id([8])] = 0.0

    with pytest.raises(TraceError, match=r"the handle 'A' is indexed; bind it first: A = T.match_buffer\(A, shape, dtype\)"):
        trace(kernel)


def test_a_name_that_is_an_extent_and_a_scalar():
    def kernel(A: T.Buffer(("n",), "float32"), n: T.int32):
        T.device_entry()
        A[T.thread_id([1])] = 0.0

    with pytest.raises(TraceError, match=r"'n' is the name of an extent and of a scalar parameter"):
        trace(kernel)


def test_an_exception_that_is_caught_leaves_its_region():
    def kernel(A: T.Buffer((8,), "float32")):
        T.device_entry()
        tx = T.thread_id([8])
        try:
            with T.If(tx < 4):
                A[tx] = 1.0
                raise KeyError
        except KeyError:
            pass
        A[tx] = 2.0

    assert trace(kernel).script().endswith("        A[tx] = 1.0\n    A[tx] = 2.0\n")


def test_outside_a_trace():
    for call in (lambda: T.device_entry(), lambda: T.int32(), lambda: T.exp(1.0), lambda: T.alloc_shared((4,)), lambda: T.cuda.cta_sync(),
                 lambda: T.If(True), lambda: T.select(True, 1, 2)):
        with pytest.raises(TraceError, match=r"T\.\* was called outside a trace"):
            call()


def test_a_trace_that_failed_leaves_nothing_behind():
    def bad(A: T.Buffer((8,), "float32")):
        T.device_entry()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        trace(bad)
    with pytest.raises(TraceError, match="outside a trace"):
        T.device_entry()


def test_unknown_name_of_T():
    with pytest.raises(AttributeError, match=r"T.thread_idx does not exist in this version; did you mean .*T.thread_id"):
        T.thread_idx


def test_comparisons_that_ranges_decide_are_plain_bools():
    seen = []

    def kernel(A: T.Buffer((128,), "float32")):
        T.device_entry()
        tx = T.thread_id([128])
        if tx < 128:
            seen.append("yes")
        if tx >= 128:
            seen.append("no")
        assert not (tx < 0)
        A[tx] = 0.0

    trace(kernel)
    assert seen == ["yes"]


def test_dead_code_is_not_blamed():
    """Under a condition that is never true nothing runs, so nothing is out of bounds."""
    def kernel(A: T.Buffer((16,), "float32")):
        T.device_entry()
        tx = T.thread_id([8])
        with T.If(tx > 10):
            A[tx + 100] = 0.0
        A[tx] = 1.0

    assert "A[tx] = 1.0" in trace(kernel).script()
