"""Bounds of index arithmetic for the extents of one call: conditions, loops, guards and what is never reached count."""

from codegen.host import index_symbols
from runtime import indices
from runtime.indices import index_check, index_problems
from tracer import T, trace

LIMIT = 2**31 - 1


def checked(kernel, values, grid, block):
    """None where the indices of this call fit; else the text of the refusal."""
    assert kernel.function.assumed_exact, "the kernel has nothing to check"
    assert len(index_symbols(kernel.half)) == len(values)
    launch = (values, (*grid, 1, 1)[:3], (*block, 1, 1)[:3])
    problem = next(index_problems(kernel.half)(*launch), None)
    assert index_check(kernel.half)(*launch) is (problem is None)
    return None if problem is None else problem.partition(", outside")[0]


def test_the_conditions_around_an_index_narrow_it():
    @trace
    def guarded(A: T.Buffer(("n",), "float32"), limit: T.int32):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        with T.If(bx < limit):
            A[bx * 8 // 8] = 0.0

    assert checked(guarded, (LIMIT, 2**28), (LIMIT,), (1,)) is None
    assert checked(guarded, (LIMIT, 2**28 + 1), (LIMIT,), (1,)) is not None

    @trace
    def otherwise(A: T.Buffer(("n",), "float32"), limit: T.int32):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        with T.If(bx >= limit):
            A[bx] = 0.0
        with T.Else():
            A[bx * 8 // 8] = 0.0

    assert checked(otherwise, (LIMIT, 2**28), (LIMIT,), (1,)) is None
    assert checked(otherwise, (LIMIT, 2**28 + 1), (LIMIT,), (1,)) is not None


def test_a_guard_that_returns_narrows_what_follows():
    @trace
    def returns(A: T.Buffer(("n",), "float32"), limit: T.int32):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        with T.If(bx >= limit):
            T.return_()
        A[bx * 8 // 8] = 0.0

    assert checked(returns, (LIMIT, 2**28), (LIMIT,), (1,)) is None
    assert checked(returns, (LIMIT, 2**28 + 1), (LIMIT,), (1,)) is not None


def test_a_loop_is_bounded_by_its_own_range():
    @trace
    def loops(A: T.Buffer(("n",), "float32"), steps: T.int32):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([1])
        tx = T.thread_id([1])
        for i in T.serial(steps):
            A[i * 4 // 4] = 0.0

    assert checked(loops, (10, 2**29), (1,), (1,)) is None
    assert checked(loops, (10, 2**29 + 1), (1,), (1,)) == (
        f"the index arithmetic `i*4` at test_indices.py:{loops.function.location.line + 7} can reach 2147483648 with n = 10, "
        "steps = 536870913")


def test_grid_and_block_bound_the_hardware_indices():
    @trace
    def threads(A: T.Buffer(("n",), "float32"), pitch: T.int32):
        n = A.shape[0]
        T.device_entry()
        bx, by = T.cta_id([n, n])
        tx = T.thread_id([32])
        A[(by * pitch + tx) // 64] = bx.astype("float32")

    assert checked(threads, (10, 1000), (10, 10), (32,)) is None
    assert checked(threads, (10, 2**28), (10, 10), (32,)) == (
        f"the index arithmetic `by*pitch` at test_indices.py:{threads.function.location.line + 6} can reach 2415919104 with n = 10, "
        "pitch = 268435456")
    assert checked(threads, (10, 2**28), (10, 0), (32,)) is None      # no block runs
    assert checked(threads, (10, -2**29), (10, 10), (32,)) == (
        f"the index arithmetic `by*pitch` at test_indices.py:{threads.function.location.line + 6} can reach -4831838208 with n = 10, "
        "pitch = -536870912")


def test_what_is_never_reached_is_not_checked():
    @trace
    def dead(A: T.Buffer(("n",), "float32"), on: T.int32):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        with T.If(on > 0):
            A[bx * 8 // 8] = 0.0

    assert checked(dead, (LIMIT, 0), (LIMIT,), (1,)) is None
    assert checked(dead, (LIMIT, 1), (LIMIT,), (1,)) is not None


def test_what_passed_is_remembered_and_the_memory_is_bounded(monkeypatch):
    @trace
    def rows(A: T.Buffer(("n",), "float32")):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        A[bx * 8 // 8] = 0.0

    counted = []
    monkeypatch.setattr(indices, "_problem", lambda *_: counted.append(1) or iter(()))
    monkeypatch.setattr(indices, "_REMEMBERED", 3)
    check = index_check(rows.half)
    for n in (1, 1, 2, 3, 3, 4, 1):
        assert check((n,), (n, 1, 1), (1, 1, 1))
    assert len(counted) == 5 * len(rows.function.assumed_exact)


def test_a_refusal_is_not_remembered():
    @trace
    def rows(A: T.Buffer(("n",), "float32")):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        A[bx * 8 // 8] = 0.0

    check = index_check(rows.half)
    for _ in range(2):
        assert check((LIMIT,), (LIMIT, 1, 1), (1, 1, 1)) is False
