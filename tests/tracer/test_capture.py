"""Recording: names and lines without reading source, values that keep their time, every kind of function."""

import re
import time

import numpy as np
import pytest
import sympy

from symbolic.layout import S, TileLayout
from tests.kernels import CASES, ONLY_PRINTED
from tracer import T, trace
from tracer import operations as ops
from tracer.errors import SpecializeError, TraceError


def body(kernel):
    """The lines of the script below T.device_entry()."""
    lines = kernel.script().split("T.device_entry()\n")[1].rstrip().split("\n")
    return [line.removeprefix("    ") for line in lines]


def simple(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    x = A[tx] * 2.0
    B[tx] = x + 1.0


SIMPLE = ["tx = T.thread_id([64])", "x = A[tx] * 2.0", "B[tx] = x + 1.0"]


def test_local_names_and_lines():
    kernel = trace(simple)
    assert body(kernel) == SIMPLE
    start = simple.__code__.co_firstlineno
    assert [n.location.line - start for n in kernel.function.device.nodes if n.op in (ops.LOAD, ops.STORE)] == [3, 4]
    assert all(n.location.file == __file__ for n in kernel.function.device.nodes)


def test_every_kind_of_function():
    text = ("def simple(A: T.Buffer((64,), 'float32'), B: T.Buffer((64,), 'float32')):\n"
            "    T.device_entry()\n    tx = T.thread_id([64])\n    x = A[tx] * 2.0\n    B[tx] = x + 1.0\n")
    namespace = {"T": T}
    exec(text, namespace)
    assert body(trace(namespace["simple"])) == SIMPLE

    size = 64

    def closure(A: T.Buffer((size,), "float32"), B: T.Buffer((size,), "float32")):
        T.device_entry()
        tx = T.thread_id([size])
        x = A[tx] * 2.0
        B[tx] = x + 1.0
    assert body(trace(closure)) == SIMPLE

    class Maker:
        factor = 2.0

        def simple(self, A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            T.device_entry()
            tx = T.thread_id([64])
            x = A[tx] * self.factor
            B[tx] = x + 1.0
    assert body(trace(Maker().simple)) == SIMPLE

    one_line = lambda A, B: (T.device_entry(), B.__setitem__(T.thread_id([64]), 0.0))  # noqa: E731
    one_line.__annotations__ = {"A": T.Buffer((64,), "float32"), "B": T.Buffer((64,), "float32")}
    with pytest.raises(TraceError, match=r"the kernel function returned \(None, None\)"):
        trace(one_line)
    one_line = lambda A: (T.device_entry(), A.__setitem__(T.thread_id([64]), 0.0))[1]  # noqa: E731
    one_line.__annotations__ = {"A": T.Buffer((64,), "float32")}
    assert body(trace(one_line)) == ["thread_id = T.thread_id([64])", "A[thread_id] = 0.0"]

    @trace
    def decorated(A: T.Buffer((64,), "float32")):
        T.device_entry()
        A[T.thread_id([64])] = 0.0
    assert decorated.__name__ == "decorated"


def test_plain_python_is_the_metaprogramming_language():
    class Accumulator:
        def __init__(self, init):
            self.cell = T.local_scalar("float32", init)

        def add(self, value):
            self.cell += value

    def relu(x):
        return T.max(x, 0.0)

    def kernel(A: T.Buffer((64, 4), "float32"), B: T.Buffer((64,), "float32"), *, deep: T.constexpr):
        T.device_entry()
        tx = T.thread_id([64])
        acc = Accumulator(1.0 if deep else 0.0)
        for k in range(4):
            acc.add(relu(A[tx, k]) if deep or k % 2 else A[tx, k])
        B[tx] = acc.cell

    kernels = trace(kernel)
    assert sum("T.max" in line for line in body(kernels.specialize(deep=True))) == 4
    assert sum("T.max" in line for line in body(kernels.specialize(deep=False))) == 2
    a = np.arange(256, dtype=np.float32).reshape(64, 4) - 100
    b = np.empty(64, np.float32)
    kernels.specialize(deep=True)(a, b)
    assert np.array_equal(b, 1 + np.maximum(a, 0).sum(1))


def test_a_helper_names_only_what_it_makes():
    def twice(argument):
        product = argument * 2.0
        return product + argument

    def kernel(A: T.Buffer((64,), "float32")):
        T.device_entry()
        tx = T.thread_id([64])
        A[tx] = twice(A[tx])

    assert body(trace(kernel)) == ["tx = T.thread_id([64])", "v0 = A[tx]", "product = v0 * 2.0", "A[tx] = product + v0"]


def test_lists_and_rebound_names():
    def kernel(A: T.Buffer((64,), "float32")):
        T.device_entry()
        tx = T.thread_id([64])
        pair = [A[tx] + 1.0, A[tx] + 2.0]
        x = pair[0] * pair[1]
        x = x * x
        A[tx] = x * x

    assert body(trace(kernel)) == ["tx = T.thread_id([64])", "pair_0 = A[tx] + 1.0", "pair_1 = A[tx] + 2.0", "x = pair_0 * pair_1",
                                   "x_1 = x * x", "A[tx] = x_1 * x_1"]


def test_loads_keep_their_time():
    def kernel(A: T.Buffer((64,), "float32")):
        T.device_entry()
        tx = T.thread_id([64])
        A[tx], A[63 - tx] = A[63 - tx], A[tx]

    nodes = [n.op.name for n in trace(kernel).function.device.nodes if n.op in (ops.LOAD, ops.STORE)]
    assert nodes == ["load", "load", "store", "store"]


def test_a_condition_of_elif_is_evaluated_in_the_else():
    case = next(c for c in CASES if c.name == "elif_chain")
    outer = next(n for n in case.kernel().function.device.nodes if n.op is ops.IF)
    assert [n.op.name for n in outer.regions[1].nodes] == ["load", "gt", "if"]


def test_a_value_made_before_elif_stands_in_the_else():
    """It may be used in the branches that follow, and not after them."""
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), *, after: T.constexpr):
        T.device_entry()
        tx = T.thread_id([64])
        with T.If(tx < 3):
            B[tx] = 0.0
        y = A[tx]
        with T.Elif(y < 3.0):
            B[tx] = y
        with T.Else():
            B[tx] = -y
        if after:
            B[tx] = y

    a, b = np.linspace(0, 6, 64, dtype=np.float32), np.empty(64, np.float32)
    trace(kernel).specialize(after=False)(a, b)
    assert np.array_equal(b, np.where(np.arange(64) < 3, 0, np.where(a < 3, a, -a)))
    with pytest.raises(TraceError, match="used after the If"):
        trace(kernel).specialize(after=True)


def round_trip(kernel):
    namespace = {}
    exec(kernel.script(), namespace)
    again = trace(namespace[kernel.__name__])
    assert again.script() == kernel.script()
    assert again.launch == kernel.launch
    return kernel.script()


def test_scripts_of_launches_and_assumptions():
    def assumed(A: T.Buffer(("n",), "float32")):
        n = T.int32()
        T.assume(n % 16 == 0)
        T.device_entry()
        bx, tx = T.cta_id([T.max(n, 1)]), T.thread_id([16])
        by = T.launch_thread("blockIdx.y", T.select(n > 10, n, 10))
        A[tx] = 1.0

    def lone_axis(A: T.Buffer((64,), "float32")):
        T.device_entry()
        ty = T.launch_thread("threadIdx.y", 64)
        A[ty] = 1.0

    def compared(A: T.Buffer((64,), "int32")):
        T.device_entry()
        tx = T.thread_id([64])
        c = T.local_scalar("int32", 3)
        A[tx] = T.select(T.max(tx, 3) >= +c, 1, 2)

    assert "T.assume(n % 16 == 0)" in round_trip(trace(assumed)) and "T.max(n, 1)" in round_trip(trace(assumed))
    assert 'T.launch_thread("threadIdx.y", 64)' in round_trip(trace(lone_axis))
    assert ">= +c" in round_trip(trace(compared))


def test_extents_in_layouts():
    def kernel(A_ptr: T.handle, B_ptr: T.handle):
        n, pitch = T.int32(), T.int32()
        A = T.match_buffer(A_ptr, (n, 8), "float32", layout=TileLayout(S[(n, 8):(pitch, 1)]))
        B = T.match_buffer(B_ptr, (n, 8), "float32", layout=TileLayout(S[(n, 8):(sympy.Symbol("pitch") + 8, 1)]))
        T.device_entry()
        i, j = T.cta_id([n]), T.thread_id([8])
        B[i, j] = A[i, j]

    kernel = trace(kernel)
    assert "layout=TileLayout(S[(n, 8):(pitch, 1)])" in round_trip(kernel)
    assert [str(a) for a in kernel.accesses()] == ["A[i, j] load  i*pitch + j", "B[i, j] store  i*(pitch + 8) + j"]
    a, b = np.random.default_rng(0).random((5, 12), np.float32), np.zeros((5, 20), np.float32)
    kernel(a[:, :8], b[:, :8])
    assert np.array_equal(a[:, :8], b[:, :8]) and not b[:, 8:].any()


def test_ceildiv_does_not_wrap():
    def kernel(A: T.Buffer((256,), "uint8"), B: T.Buffer((256,), "uint8")):
        T.device_entry()
        tx = T.thread_id([256])
        B[tx] = T.ceildiv(A[tx], 4)

    a, b = np.arange(256, dtype=np.uint8), np.empty(256, np.uint8)
    trace(kernel)(a, b)
    assert np.array_equal(b, -(-np.arange(256) // 4))


def test_values_that_feed_on_themselves():
    """Written out, such a chain doubles with every step; it is recorded in a moment all the same."""
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        T.device_entry()
        tx = T.thread_id([64])
        held = [A[tx]]
        for i in range(100):
            held.append(T.select(held.pop() < A[(tx + i) % 64], A[(tx + i) % 64], i))
        B[tx] = held.pop()

    begin = time.process_time()
    kernel = trace(kernel)
    kernel.cuda_source()
    assert time.process_time() - begin < 5
    a, b = np.random.default_rng(2).integers(-100, 100, 64).astype(np.int32), np.empty(64, np.int32)
    expected = a.copy()
    for i in range(100):
        other = np.roll(a, -i)
        expected = np.where(expected < other, other, i)
    kernel(a, b)
    assert np.array_equal(b, expected)


def test_a_kernel_that_does_nothing():
    def kernel(A: T.Buffer((8,), "float32")):
        T.device_entry()
        T.thread_id([1])

    a = np.ones(8, np.float32)
    trace(kernel)(a)
    assert np.all(a == 1)


def test_a_guarded_load_stands_in_its_branch():
    case = next(c for c in CASES if c.name == "guarded_load")
    node = next(n for n in case.kernel().function.device.nodes if n.op is ops.IF_THEN_ELSE)
    assert [n.op.name for n in node.regions[0].nodes] == ["load"]
    assert case.kernel().accesses()[0].in_bounds is True


def test_a_named_load_is_not_guarded():
    def kernel(A: T.Buffer((100,), "float32"), B: T.Buffer((128,), "float32")):
        T.device_entry()
        tx = T.thread_id([128])
        x = A[tx]
        B[tx] = T.if_then_else(tx < 100, x, 0.0)

    assert [n.op.name for n in trace(kernel).function.device.nodes][0] == "load"


def test_facts_after_a_guard():
    case = next(c for c in CASES if c.name == "early_return")
    assert [a.in_bounds for a in case.kernel().accesses()] == [True, True]


def plain(access):
    """The access without the numbers that tell equal names apart: two loops over `k` become `k` and `k_1` in a script."""
    return re.sub(r"_\d+\b", "", str(access))


@pytest.mark.parametrize("case", [*CASES, *ONLY_PRINTED], ids=lambda c: getattr(c, "name", None) or c.__name__)
def test_script_traces_back_to_an_equal_function(case):
    kernel = case.kernel() if hasattr(case, "kernel") else trace(case)
    text = kernel.script()
    namespace = {}
    exec(text, namespace)
    again = trace(namespace[kernel.__name__])
    assert again.script() == text
    assert [plain(a) for a in again.accesses()] == [plain(a) for a in kernel.accesses()]
    assert again.launch == kernel.launch


# ---------------------------------------------------------------------- specialise

@trace
def sized(A: T.Buffer((64,), "float32"), *, N: T.constexpr, scale: T.constexpr = 2.0):
    T.device_entry()
    tx = T.thread_id([N])
    A[tx] = A[tx] * scale


def test_specialise_gives_the_same_object_for_the_same_values():
    assert sized.specialize(N=32) is sized.specialize(N=32, scale=2.0)
    assert sized.specialize(N=32) is not sized.specialize(N=64)
    assert sized.specialize(N=32, scale=1) is not sized.specialize(N=32, scale=True)
    assert sized.specialize(N=32, scale=0.0) is not sized.specialize(N=32, scale=-0.0)
    assert sized.specialize(N=32, scale=2) is not sized.specialize(N=32, scale=2.0)


def test_specialise_errors_name_the_constexprs():
    with pytest.raises(SpecializeError, match=r"sized: missing constexpr N; write specialize\(N=...\)"):
        sized.specialize()
    with pytest.raises(SpecializeError, match=r"sized: unknown constexpr M; sized has the constexprs N, scale"):
        sized.specialize(N=1, M=2)
    with pytest.raises(SpecializeError, match=r"sized: constexpr N cannot be hashed.*pass a tuple"):
        sized.specialize(N=[1])
    with pytest.raises(SpecializeError, match=r"missing constexpr N"):
        sized(np.zeros(64, np.float32))
    with pytest.raises(TypeError):
        sized.specialize()
    assert trace(simple).__class__.__name__ == "Kernel"


def test_a_kernel_specialises_to_itself():
    kernel = trace(simple)
    assert kernel.specialize() is kernel
    with pytest.raises(SpecializeError, match=r"simple: unknown constexpr N; simple is a kernel, with nothing to specialise"):
        kernel.specialize(N=1)


# ---------------------------------------------------------------------- the parameter list

def test_signatures_that_are_refused():
    def no_annotation(A, B: T.handle):
        pass

    def starred(*A: T.handle):
        pass

    def with_default(A: T.handle = 3):
        pass

    def wrong(A: 3):
        pass

    def unknown_text(A: "T.Buffer((Q,), 'float32')"):  # noqa: F821
        pass

    for fn, message in [(no_annotation, "parameter 'A' has no annotation"), (starred, r"parameter \*A"),
                        (with_default, "parameter 'A' has a default"),
                        (wrong, "parameter 'A' is annotated 3"), (unknown_text, r"the annotation of parameter 'A'.*cannot be evaluated: NameError")]:
        with pytest.raises(TraceError, match=message):
            trace(fn)
    with pytest.raises(TraceError, match="trace takes a function"):
        trace(3)


def test_match_buffer_is_checked():
    def twice(A_ptr: T.handle):
        A = T.match_buffer(A_ptr, (8,), "float32")
        T.match_buffer(A_ptr, (8,), "float32")

    def not_a_handle(A_ptr: T.handle):
        T.match_buffer("A", (8,), "float32")

    def below(A_ptr: T.handle):
        T.device_entry()
        T.match_buffer(A_ptr, (8,), "float32")

    def in_shared(A_ptr: T.handle):
        T.match_buffer(A_ptr, (8,), "float32", scope="shared")

    def store_before(A_ptr: T.handle):
        A = T.match_buffer(A_ptr, (8,), "float32")
        A[0] = 1.0

    def alloc_before(A_ptr: T.handle):
        T.alloc_shared((8,), "float32")

    host = r"`store` before T.device_entry\(\): that part runs on the host"
    for fn, message in [(twice, "the handle 'A_ptr' is bound already, as buffer 'A'"), (not_a_handle, "binds a parameter annotated T.handle"),
                        (below, "T.match_buffer stands before T.device_entry"), (in_shared, "an argument is in global memory"),
                        (store_before, host), (alloc_before, "`alloc` before T.device_entry")]:
        with pytest.raises(TraceError, match=message):
            trace(fn)


def test_no_device_entry_and_no_threads():
    def no_entry(A: T.Buffer((8,), "float32")):
        pass

    def no_threads(A: T.Buffer((8,), "float32")):
        T.device_entry()
        T.cta_id([4])

    def returns(A: T.Buffer((8,), "float32")):
        T.device_entry()
        return T.thread_id([8])

    for fn, message in [(no_entry, r"T.device_entry\(\) was never called"), (no_threads, "the kernel declares no threads"),
                        (returns, "the kernel function returned")]:
        with pytest.raises(TraceError, match=message):
            trace(fn)


def test_extents_of_every_spelling_are_equal_by_name():
    n = sympy.Symbol("n", positive=True)

    def kernel(A: T.Buffer((n,), "float32"), B: T.Buffer(("n",), "float32"), C_ptr: T.handle):
        n = T.int32()
        C = T.match_buffer(C_ptr, (n,), "float32")
        T.device_entry()
        tx = T.thread_id([32])
        for i in T.serial(tx, n, 32):
            C[i] = A[i] + B[i]

    kernel = trace(kernel)
    assert len(kernel.function.extents) == 1
    assert [a.in_bounds for a in kernel.accesses()] == [True, True, True]
    assert "(n,)" in kernel.script() and 'T.Buffer(("n",), "float32")' in kernel.script()


def test_extents_that_no_argument_determines():
    def kernel(A: T.Buffer((8,), "float32")):
        n = T.int32()
        T.device_entry()
        T.thread_id([8])
        for i in T.serial(n):
            A[i] = 0.0

    with pytest.raises(TraceError, match=r"the extent 'n' is determined by no argument's shape"):
        trace(kernel)


def test_assume_gives_facts():
    def kernel(A: T.Buffer(("n",), "float32"), *, known: T.constexpr):
        n = T.int32()
        if known:
            T.assume(n % 16 == 0)
        T.device_entry()
        bx = T.cta_id([n // 16])
        tx = T.thread_id([16])
        A[(bx * 16 + tx) % (n // 16 * 16)] = 0.0

    kernels = trace(kernel)
    assert [str(a) for a in kernels.specialize(known=True).accesses()] == ["A[bx*16 + tx] store  bx*16 + tx"]
    assert kernels.specialize(known=True).accesses()[0].in_bounds is True


def test_accesses_have_coordinates_index_and_location():
    def kernel(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        T.device_entry()
        i = T.cta_id([4])
        j = T.thread_id([8])
        B[i, j] = A[i, j] + 1.0

    load, store = trace(kernel).accesses()
    assert str(load) == "A[i, j] load  i*8 + j"
    assert str(store) == "B[i, j] store  i*8 + j"
    i, j = sympy.symbols("i j", integer=True)
    assert store.buffer == "B" and store.kind == "store" and store.in_bounds is True
    assert sympy.simplify(store.index.subs({s: {"i": i, "j": j}[s.name] for s in store.index.free_symbols}) - (8 * i + j)) == 0
    assert [s.name for s in store.coords] == ["i", "j"]
    assert store.location.line == kernel.__code__.co_firstlineno + 4


def test_a_name_that_a_layout_needs_is_the_layouts():
    def copied(S: T.Buffer((4, 8), "float32", layout=TileLayout(S[(4, 8):(16, 1)])), m: T.Buffer((4, 8), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        S[t // 8, t % 8] = m[t // 8, t % 8]

    assert "def copied(S_: T.Buffer((4, 8), \"float32\", layout=TileLayout(S[(4, 8):(16, 1)])), m: T.Buffer" in round_trip(trace(copied))
