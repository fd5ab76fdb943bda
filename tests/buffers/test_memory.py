"""The simulator's account of memory: sizes from the launch, aliases of several dtypes, and what must be found in each of them."""

import numpy as np
import pytest

import runtime
from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from tests.runtime.calls import recorded
from tracer import T, trace
from tracer.errors import ArgumentValueError, LaunchError, OutOfBoundsError, UninitializedReadError


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


def message(error, kernel, *args):
    """The first line of the error that running `kernel` raises."""
    with pytest.raises(error) as caught:
        kernel(*args)
    return str(caught.value).split("\n")[0]


# ---- sizes from the launch --------------------------------------------------------------------------------------------

@trace
def reversed_by_halves(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), extra: T.int32):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([3])
    tx = T.thread_id([64])
    smem = T.alloc_buffer((n + extra,), "float32", scope="shared.dyn")
    with T.If(tx < n):
        smem[tx] = A[tx] + bx.astype("float32")
    T.cuda.cta_sync()
    with T.If((tx < n) & (bx == 2)):
        B[tx] = smem[n - 1 - tx]


def test_a_size_that_extents_and_scalars_give():
    a, b = np.arange(50, dtype="float32"), zeros(50)
    reversed_by_halves(a, b, 0)
    assert np.array_equal(b, a[::-1] + 2)
    assert recorded(reversed_by_halves, a, b, 14).shape.shared == 256


def test_a_size_that_is_too_small_is_found():
    assert message(OutOfBoundsError, reversed_by_halves, zeros(50), zeros(50), -2) == (
        "store of smem[48] is outside smem's shape (48,): index 0 is 48, not in [0, 48)")
    assert message(OutOfBoundsError, lambda *a: runtime.simulate(reversed_by_halves, *a, checks=False), zeros(50), zeros(50), -2) == (
        "store of smem touches element 48 of smem, which has 48")


@pytest.mark.parametrize("extra, shared", [(-51, -4), (60000, 240200)])
def test_a_size_that_no_block_can_have_is_refused_before_the_launch(extra, shared):
    assert message(LaunchError, reversed_by_halves, zeros(50), zeros(50), extra) == (
        f"dynamic shared memory: expected from 0 to 232448 bytes, got {shared} with extra = {extra}, n = 50 (A.shape[0]), when calling "
        "`reversed_by_halves(A: Tensor([n], float32), B: Tensor([n], float32), extra: int32)`")


def test_a_view_beyond_memory_of_symbolic_size_is_refused_before_the_launch():
    @trace
    def views(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
        n = A.shape[0]
        T.device_entry()
        tx = T.thread_id([32])
        smem = T.alloc_buffer((n,), "float32", scope="shared.dyn")
        halves = T.decl_buffer((32,), "float16", data=smem.data, elem_offset=32)
        halves[tx] = 1.0
        B[tx] = halves[tx].astype("float32")

    b = zeros(40)
    views(zeros(40), b)
    assert b[:32].all()
    with pytest.raises(LaunchError, match=r"halves at test_memory.py:\d+: ends 128 bytes into smem, which has 124, with n = 31"):
        views(zeros(31), zeros(31))


# ---- several dtypes over one storage ---------------------------------------------------------------------------------------

def aliases(scope, write, read, words=8):
    """A kernel of one thread in which `write` stores through views of one array and B gets what `read` loads."""
    def kernel(B: T.Buffer((1,), "uint32"), i: T.int32):
        T.device_entry()
        T.thread_id([1])
        store = T.alloc_buffer((words,), "uint32", scope=scope)
        views = {"u32": store, "u16": store.view("uint16"), "u8": store.view("uint8"),
                 "f32": T.decl_buffer((words,), "float32", data=store.data), "u32x2": T.decl_buffer((words // 2,), "uint32x2", data=store.data)}
        write(views, i)
        B[0] = read(views, i).astype("uint32")
    return kernel


@pytest.mark.parametrize("scope", ["shared", "shared.dyn", "local"])
def test_bytes_are_shared_little_endian(scope):
    def write(views, i):
        views["u8"][i] = T.uint8(0x11)
        views["u8"][i + 1] = T.uint8(0x22)
        views["u16"][1] = T.uint16(0x4433)

    b = zeros(1, dtype="uint32")
    trace(aliases(scope, write, lambda views, i: views["u32"][i]))(b, 0)
    assert b[0] == 0x44332211
    trace(aliases(scope, lambda views, i: views["f32"].__setitem__(2, 1.0), lambda views, i: views["u16"][5]))(b, 0)
    assert b[0] == 0x3F80


@pytest.mark.parametrize("scope", ["shared", "shared.dyn", "local"])
def test_an_unwritten_byte_is_found_through_any_view(scope):
    def three_bytes(views, i):
        for k in range(3):
            views["u8"][k] = T.uint8(1)

    b = zeros(1, dtype="uint32")
    trace(aliases(scope, three_bytes, lambda views, i: views["u16"][i]))(b, 0)
    assert b[0] == 0x0101
    assert message(UninitializedReadError, trace(aliases(scope, three_bytes, lambda views, i: views["u32"][i])), b, 0) == (
        f"load of store[0] reads {scope} memory that nothing has written")
    unwritten = trace(aliases(scope, three_bytes, lambda views, i: views["u32x2"][i][1]))
    assert "memory that nothing has written" in message(UninitializedReadError, unwritten, b, 0)


@pytest.mark.parametrize("scope", ["shared", "shared.dyn", "local"])
def test_the_end_of_the_storage_is_found_through_any_view(scope):
    write = lambda views, i: views["u32"].__setitem__(0, T.uint32(1))   # noqa: E731
    b = zeros(1, dtype="uint32")
    for name, count in [("u32", 8), ("u16", 16), ("u8", 32)]:
        text = message(OutOfBoundsError, trace(aliases(scope, write, lambda views, i, name=name: views[name][i])), b, count)
        assert text.endswith(f"'s shape ({count},): index 0 is {count}, not in [0, {count})")


def test_a_view_of_an_argument_ends_where_the_argument_ends():
    @trace
    def kernel(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), i: T.int32):
        T.device_entry()
        tx = T.thread_id([8])
        part = T.decl_buffer((8, 4), "float32", data=A.data, layout=TileLayout(S[(8, 4):(4, 1)]))
        B[tx] = part[tx, i]

    a, b = np.arange(32, dtype="float32"), zeros(32)
    kernel(a, b, 3)
    assert np.array_equal(b[:8], a[3::4])
    assert message(OutOfBoundsError, kernel, a, b, 4) == "load of part[0, 4] is outside part's shape (8, 4): index 1 is 4, not in [0, 4)"


# ---- parts of buffers ---------------------------------------------------------------------------------------------------

@trace
def parts(A: T.Buffer(("n", 8), "float32"), B: T.Buffer((4,), "float32"), row: T.int32, i: T.int32):
    T.device_entry()
    tx = T.thread_id([4])
    part = A[row:row + 4, 2:6]
    inner = part[1:3, 0:4]
    B[tx] = inner[i, tx]


def test_a_part_of_a_part():
    a, b = np.arange(80, dtype="float32").reshape(10, 8), zeros(4)
    parts(a, b, 5, 1)
    assert np.array_equal(b, a[7, 2:6])


def test_a_part_is_checked_against_its_own_shape_and_those_behind_it():
    a, b = np.arange(80, dtype="float32").reshape(10, 8), zeros(4)
    assert message(OutOfBoundsError, parts, a, b, 0, 2) == "load of inner[2, 0] is outside inner's shape (2, 4): index 0 is 2, not in [0, 2)"
    # rows 6 to 9 of eight: the part itself has four, of which the argument has two
    assert message(OutOfBoundsError, parts, a[:8], b, 6, 1) == "load of inner[1, 0] is outside A's shape (8, 8): index 0 is 8, not in [0, 8)"
    assert message(OutOfBoundsError, parts, a, b, -2, 0) == "load of inner[0, 0] is outside A's shape (10, 8): index 0 is -1, not in [0, 10)"


# ---- padding -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("scope", ["shared", "shared.dyn", "local"])
def test_an_allocation_holds_the_whole_span_of_its_layout(scope):
    """W1: the reference allocates 16 elements for rows of 8, and writes element 27 of them."""
    @trace
    def kernel(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
        T.device_entry()
        T.thread_id([1])
        r = T.alloc_buffer((4, 4), "float32", scope=scope, layout=TileLayout(S[(4, 4):(8, 1)]))
        for i in T.serial(4):
            for j in T.serial(4):
                r[i, j] = A[i, j]
        for i in T.serial(4):
            for j in T.serial(4):
                B[i, j] = r[i, j]

    a, b = np.arange(16, dtype="float32").reshape(4, 4), zeros(4, 4)
    kernel(a, b)
    assert np.array_equal(a, b)
    size = kernel.launch.dynamic_shared_bytes // 4 if scope == "shared.dyn" else int(kernel.cuda_source().split(" r[")[1].split("]")[0])
    assert size == 28


def test_arrays_that_a_layout_does_not_fit_are_not_touched():
    """W2, W3: the reference takes a compact array for padded rows, and a padded one for a dense kernel."""
    @trace
    def dense(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        T.device_entry()
        i, j = T.thread_id([4, 8])
        B[i, j] = A[i, j]

    base = zeros(4, 16)
    with pytest.raises(ArgumentValueError, match=r"B.strides: expected \(8, 1\) elements \(compact, row-major\), got \(16, 1\)"):
        dense(np.ones((4, 8), "float32"), base[:, :8])
    assert not base.any()


def test_a_view_that_moves_with_a_loop():
    @trace
    def kernel(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32")):
        T.device_entry()
        tx = T.thread_id([32])
        smem = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        for k in T.serial(4):
            stage = T.decl_buffer((32,), "float32", data=smem.data, elem_offset=(k % 2) * 32)
            stage[tx] = A[k, tx]
            T.cuda.cta_sync()
            B[k, tx] = stage[31 - tx] + smem[(k % 2) * 32]
            T.cuda.cta_sync()

    assert "smem[k % 2 * 32 + tx] = A_ptr[k * 32 + tx];" in kernel.cuda_source(locations=False)
    a, b = np.arange(128, dtype="float32").reshape(4, 32), zeros(4, 32)
    kernel(a, b)
    assert np.array_equal(b, a[:, ::-1] + a[:, :1])


def test_a_view_that_leaves_its_memory_in_some_iteration_is_found():
    @trace
    def kernel(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32")):
        T.device_entry()
        tx = T.thread_id([32])
        smem = T.alloc_buffer((96,), "float32", scope="shared.dyn")
        for k in T.serial(4):
            stage = T.decl_buffer((32,), "float32", data=smem.data, elem_offset=k * 32)
            stage[tx] = A[k, tx]
        B[0, tx] = smem[tx]

    assert message(OutOfBoundsError, kernel, zeros(4, 32), zeros(4, 32)) == "store of stage[0] touches element 96 of smem, which has 96"
