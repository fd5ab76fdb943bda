"""Every check of the host half, by the exact words of its refusal; nothing is launched or written before all have passed."""

import ml_dtypes
import numpy as np
import pytest

import runtime
from runtime import arguments
from runtime.arguments import Array, array_of
from tests.runtime.calls import recorded
from tests.runtime.kernels import affine, in_place, k, offset, product, scalars, scale, vectors
from tracer import T, trace
from tracer.errors import (
    ArgumentCountError,
    ArgumentError,
    ArgumentTypeError,
    ArgumentValueError,
    LaunchError,
    NotSupportedError,
)

K = "k(A: Tensor([n, 8], float32), B: Tensor([n, 8], float32), s: float32)"
SCALE = "scale(A: Tensor([n], float32), B: Tensor([n], float32), s: float32)"
SCALARS = "scalars(A: Tensor([5], float32), i: int32, u: uint8, s: float32, q: int64, bb: bool)"
AFFINE = "affine(A: Tensor([n*2 + 1], float32), B: Tensor([n], float32), x: float32)"
PRODUCT = "product(A: Tensor([n, m], float32), B: Tensor([n, m], float32))"
OFFSET = "offset(A: Tensor([4, 8], float32), B: Tensor([4, 8], float32))"


def floats(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


def at(position, signature):
    return f" (argument {position} of `{signature}`)"


def read_only(*shape):
    array = floats(*shape)
    array.flags.writeable = False
    return array


def on(device, array, pointer=None):
    """What an array on a GPU looks like to the host half; `pointer` is its address."""
    told = array_of(array)
    told.device = device
    told.pointer = told.pointer if pointer is None else pointer
    return told


def either(argument):
    return argument if isinstance(argument, Array) else array_of(argument)


X, Y = floats(3, 8), floats(3, 8)
ROW = floats(16)

REFUSED = [
    # number of arguments
    (k, (X, Y), ArgumentCountError, f"expected 3 arguments, got 2, when calling `{K}`"),
    (k, (X, Y, 1, 2), ArgumentCountError, f"expected 3 arguments, got 4, when calling `{K}`"),
    (in_place, (), ArgumentCountError, "expected 1 argument, got 0, when calling `in_place(A: Tensor([n], float32))`"),
    # kinds
    (k, (None, Y, 1.0), ArgumentTypeError, "A: expected an array, got None" + at(0, K)),
    (k, (X, 3, 1.0), ArgumentTypeError, "B: expected an array, got 3 (an int)" + at(1, K)),
    (k, ([1.0], Y, 1.0), ArgumentTypeError, "A: expected an array, got a list" + at(0, K)),
    (scale, ("text", X, 1.0), ArgumentTypeError, "A: expected an array, got a str" + at("0, A_ptr,", SCALE)),
    (k, (X, Y, "x"), ArgumentTypeError, "s: expected a number (float32), got a str" + at(2, K)),
    (k, (X, Y, X), ArgumentTypeError, "s: expected a number (float32), got a ndarray" + at(2, K)),
    (k, (X, Y, 1j), ArgumentTypeError, "s: expected a number (float32), got a complex" + at(2, K)),
    (scalars, (floats(5), 1.5, 2, 1.0, 7, True), ArgumentTypeError,
     "i: expected an int (int32), got 1.5 (a float)" + at(1, SCALARS)),
    (scalars, (floats(5), 1, 2, 1.0, np.float32(7), True), ArgumentTypeError,
     "q: expected an int (int64), got 7.0 (a float32)" + at(4, SCALARS)),
    (scalars, (floats(5), 1, 2, 1.0, 7, 1.0), ArgumentTypeError, "bb: expected a bool (bool), got 1.0 (a float)" + at(5, SCALARS)),
    # dtypes
    (k, (X, floats(3, 8, dtype="float64"), 1.0), ArgumentTypeError, "B.dtype: expected float32, got float64" + at(1, K)),
    (k, (X, floats(3, 8, dtype=ml_dtypes.bfloat16), 1.0), ArgumentTypeError, "B.dtype: expected float32, got bfloat16" + at(1, K)),
    (k, (X.astype(">f4"), Y, 1.0), ArgumentTypeError, "A.dtype: expected float32, got >f4" + at(0, K)),
    # ranks
    (k, (floats(24), Y, 1.0), ArgumentValueError,
     "A.ndim: expected 2, the shape (n, 8), got 1, the shape (24,)" + at(0, K)),
    # devices
    (k, (on(0, X), Y, 1.0), ArgumentValueError, f"the arrays are on different devices: A on cuda:0, B on cpu, when calling `{K}`"),
    (k, (on(0, X), on(1, Y), 1.0), ArgumentValueError,
     f"the arrays are on different devices: A on cuda:0, B on cuda:1, when calling `{K}`"),
    # extents
    (k, (floats(3, 9), Y, 1.0), ArgumentValueError, "A.shape[1]: expected 8, got 9" + at(0, K)),
    (k, (X, floats(4, 8), 1.0), ArgumentValueError, "B.shape[0]: expected n = 3 (A.shape[0]), got 4" + at(1, K)),
    (affine, (floats(8), floats(4), 1.0), ArgumentValueError,
     "A.shape[0]: expected n*2 + 1 = 9 with n = 4 (B.shape[0]), got 8" + at("0, A_ptr,", AFFINE)),
    # strides
    (k, (floats(3, 16)[:, :8], Y, 1.0), ArgumentValueError,
     "A.strides: expected (8, 1) elements (compact, row-major), got (16, 1); pass a contiguous copy" + at(0, K)),
    (k, (X, Y[::-1], 1.0), ArgumentValueError,
     "B.strides: expected (8, 1) elements (compact, row-major), got (-8, 1); pass a contiguous copy" + at(1, K)),
    (product, (floats(4, 3).T, floats(3, 4)), ArgumentValueError,
     "A.strides: expected (4, 1) elements (compact, row-major), got (1, 3); pass a contiguous copy" + at(0, PRODUCT)),
    (scale, (np.zeros(4, [("a", "f4"), ("b", "f2")])["a"], floats(4), 1.0), ArgumentValueError,
     "A.strides: expected (1,) elements (compact, row-major), got (1.5,); pass a contiguous copy" + at("0, A_ptr,", SCALE)),
    # storage
    (k, (on(0, X, 0), on(0, Y), 1.0), ArgumentValueError, "A.data: expected memory, got a null pointer" + at(0, K)),
    (offset, (floats(4, 8), floats(4, 8)), ArgumentValueError,
     "B.elem_offset: expected an array whose first element lies 64 elements into its storage, got one at 0" + at(1, OFFSET)),
    # alignment
    (k, (on(0, X, 0x7004), on(0, Y), 1.0), ArgumentValueError,
     "A.data: expected an address that is a multiple of 16 (align=16), got 0x7004, 4 past one" + at(0, K)),
    (scale, (on(0, ROW, 0x7000), on(0, ROW, 0x8002), 1.0), ArgumentValueError,
     "B.data: expected an address that is a multiple of 4 (float32), got 0x8002, 2 past one" + at("1, B_ptr,", SCALE)),
    (vectors, (on(0, floats(64), 0x7008), on(0, floats(64), 0x8000)), ArgumentValueError,
     "A.data: expected an address that is a multiple of 16 (the float32x4 load at kernels.py:73), got 0x7008, 8 past one"
     + at(0, "vectors(A: Tensor([64], float32), B: Tensor([64], float32))")),
    # written arrays
    (k, (X, read_only(3, 8), 1.0), ArgumentValueError,
     "B: expected a writable array, which the kernel writes, got a read-only one" + at(1, K)),
    (k, (X, X, 1.0), ArgumentValueError,
     "B: expected memory of its own, because the kernel writes B, got an array that overlaps A" + at(1, K)),
    (scale, (ROW[:9], ROW[7:], 1.0), ArgumentValueError,
     "B: expected memory of its own, because the kernel writes B, got an array that overlaps A" + at("1, B_ptr,", SCALE)),
    # scalar ranges
    (scalars, (floats(5), 2**31, 2, 1.0, 7, True), ArgumentValueError,
     "i: expected -2147483648 to 2147483647 (int32), got 2147483648" + at(1, SCALARS)),
    (scalars, (floats(5), 1, -1, 1.0, 7, True), ArgumentValueError, "u: expected 0 to 255 (uint8), got -1" + at(2, SCALARS)),
    (scalars, (floats(5), 1, 2, 1e300, 7, True), ArgumentValueError,
     "s: expected a number that float32 can hold, got 1e+300, which overflows" + at(3, SCALARS)),
    (scalars, (floats(5), 1, 2, 10**400, 7, True), ArgumentValueError,
     f"s: expected a number that float32 can hold, got {10**400}, which overflows" + at(3, SCALARS)),
    (scalars, (floats(5), 1, 2, 1.0, 2**63, True), ArgumentValueError,
     "q: expected -9223372036854775808 to 9223372036854775807 (int64), got 9223372036854775808" + at(4, SCALARS)),
    (scalars, (floats(5), 1, 2, 1.0, 7, 2), ArgumentValueError, "bb: expected 0 to 1 (bool), got 2" + at(5, SCALARS)),
    # assumptions
    (affine, (floats(7), floats(3), 1.0), ArgumentValueError,
     f"the assumption `n % 2 == 0` at kernels.py:59 does not hold: n = 3 (B.shape[0]), when calling `{AFFINE}`"),
    (affine, (floats(9), floats(4), 0.5), ArgumentValueError,
     f"the assumption `x > 0.5` at kernels.py:60 does not hold: x = 0.5, when calling `{AFFINE}`"),
]


@pytest.mark.parametrize("kernel, args, error, message", REFUSED, ids=[message[:60] for *_, message in REFUSED])
def test_a_refusal(kernel, args, error, message):
    with pytest.raises(error) as caught:
        recorded(kernel, *args, array=either)
    assert str(caught.value) == message
    assert isinstance(caught.value, ArgumentError)


@pytest.mark.parametrize("kernel, args, values", [
    (scale, (ROW, floats(16), np.float64(3)), (16, 3.0)),
    (scale, (ROW, floats(16), ml_dtypes.bfloat16(1.5)), (16, 1.5)),
    (scale, (read_only(16), floats(16), 2), (16, 2.0)),                      # read, not written
    (product, (floats(1, 8)[:, ::-1][:, ::-1], floats(1, 8)), (1, 8)),
    (product, (floats(3, 1)[::1], np.zeros((3, 7), "float32")[:, :1].copy()), (3, 1)),
])
def test_a_call_that_is_taken(kernel, args, values):
    assert recorded(kernel, *args).values[2:] == values


def test_an_axis_of_extent_one_may_have_any_stride():
    wide = np.zeros((1, 64), "float32")[:, :8]
    assert wide.strides == (256, 4)
    assert recorded(product, wide, floats(1, 8)).values[0] == (wide.ctypes.data, 0, 8)


def test_an_empty_array_may_have_any_strides_and_launches_nothing():
    assert recorded(k, floats(0, 8), floats(0, 8), 1.0) is None
    assert recorded(product, floats(0, 4).T.copy().T, floats(0, 4)) is None
    assert recorded(product, on(0, floats(0, 4), 0), on(0, floats(0, 4), 0), array=either) is None


def test_the_order_of_the_checks():
    """An argument list wrong in every way is refused for the first reason; mended, for the next."""
    def refusal(*args):
        with pytest.raises(ArgumentError) as caught:
            recorded(k, *args, array=either)
        return str(caught.value).partition(":")[0]

    bad = floats(24, dtype="float64")
    assert refusal(bad, Y) == "expected 3 arguments, got 2, when calling `k(A"
    assert refusal(bad, Y, "x") == "s"
    assert refusal(bad, Y, 1e300) == "A.dtype"
    assert refusal(floats(24), Y, 1e300) == "A.ndim"
    assert refusal(on(0, floats(4, 9)[:, ::-1]), Y, 1e300) == "the arrays are on different devices"
    assert refusal(floats(4, 9)[:, ::-1], Y, 1e300) == "A.shape[1]"
    assert refusal(floats(3, 8)[:, ::-1], Y, 1e300) == "A.strides"
    assert refusal(on(None, X, 0x7004), on(None, Y, 0x7004), 1e300) == "A.data"
    assert refusal(X, X, 1e300) == "B"
    assert refusal(X, Y, 1e300) == "s"


def test_a_shared_name_is_solved_whichever_argument_comes_first():
    def reads(A: T.Buffer((8,), "float32"), B: T.Buffer(("n", "m"), "float32"), C: T.Buffer(("m",), "float32")):
        n, m = B.shape
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        B[bx, 0] = A[0] * C[0]

    kernel = trace(reads)
    assert recorded(kernel, floats(8), floats(3, 5), floats(5)).shape.grid == (3, 1, 1)
    with pytest.raises(ArgumentValueError, match=r"C\.shape\[0\]: expected m = 5 \(B\.shape\[1\]\), got 6"):
        recorded(kernel, floats(8), floats(3, 5), floats(6))


def test_an_extent_that_must_be_halved():
    def halves(A: T.Buffer(("n",), "float32"), B_ptr: T.handle):
        m = T.int32()
        B = T.match_buffer(B_ptr, (2 * m + 1,), "float32")
        T.device_entry()
        bx = T.cta_id([m])
        tx = T.thread_id([1])
        B[bx] = A[0]

    kernel = trace(halves)
    assert recorded(kernel, floats(1), floats(9)).shape.grid == (4, 1, 1)
    with pytest.raises(ArgumentValueError, match=r"B\.shape\[0\]: expected m\*2 \+ 1 for a whole m, got 8 \(argument 1, B_ptr, of"):
        recorded(kernel, floats(1), floats(8))
    with pytest.raises(ArgumentValueError, match=r"B\.shape\[0\]: expected m\*2 \+ 1 for a whole m, got 0"):
        recorded(kernel, floats(1), floats(0))


def test_an_extent_that_is_a_factor():
    def factor(A: T.Buffer(("n",), "float32"), B_ptr: T.handle):
        n = A.shape[0]
        m = T.int32()
        B = T.match_buffer(B_ptr, (n * m,), "float32")
        T.device_entry()
        bx = T.cta_id([m])
        tx = T.thread_id([1])
        B[bx] = A[0]

    kernel = trace(factor)
    assert recorded(kernel, floats(3), floats(12)).shape.grid == (4, 1, 1)
    with pytest.raises(ArgumentValueError, match=r"B\.shape\[0\]: expected m\*n for a whole m, n, got 13"):
        recorded(kernel, floats(3), floats(13))
    with pytest.raises(ArgumentValueError, match=r"m: cannot be told from A\.shape\[0\] and B\.shape\[0\], because A\.shape\[0\] gives"):
        recorded(kernel, floats(0), floats(0))


def test_an_extent_solved_to_less_than_zero():
    def shorter(A_ptr: T.handle):
        n = T.int32()
        A = T.match_buffer(A_ptr, (n + 2,), "float32")
        T.device_entry()
        T.cta_id([1])
        tx = T.thread_id([1])
        A[n] = 0.0

    with pytest.raises(ArgumentValueError, match=r"n: expected an extent of 0 or more, got -1 from A\.shape\[0\]"):
        recorded(trace(shorter), floats(1))


def test_assumptions_about_floats_and_ints_together():
    def f(A: T.Buffer(("n",), "float32"), x: T.float32, y: T.float32, m: T.int32):
        n = A.shape[0]
        T.assume((x > 0.5) & (x < y * 2.0 - 1.0))
        T.assume(~(x == 3.0))
        T.assume((m > 2) | (n % 4 == 0))
        T.assume(-x < y)
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        A[bx] = x

    kernel = trace(f)
    recorded(kernel, floats(4), 1.0, 2.0, 0)
    recorded(kernel, floats(3), 1.0, 2.0, 3)
    line = kernel.function.location.line
    for args, told in [
        ((floats(3), 4.0, 2.0, 3), f"`(x > 0.5) and (x < ((y * 2.0) - 1.0))` at test_checks.py:{line + 2} does not hold: x = 4.0, y = 2.0"),
        ((floats(3), 3.0, 9.0, 3), f"`not (x == 3.0)` at test_checks.py:{line + 3} does not hold: x = 3.0"),
        ((floats(3), 1.0, 2.0, 0), f"`m > 2 or n % 4 == 0` at test_checks.py:{line + 4} does not hold: m = 0, n = 3 (A.shape[0])"),
    ]:
        with pytest.raises(ArgumentValueError) as caught:
            recorded(kernel, *args)
        assert str(caught.value) == (f"the assumption {told}, when calling "
                                     "`f(A: Tensor([n], float32), x: float32, y: float32, m: int32)`")


def test_an_assumption_that_the_host_cannot_evaluate_is_refused_by_name():
    def g(A: T.Buffer((4,), "float32"), x: T.float32):
        T.assume(T.exp(x) > 0.5)
        T.device_entry()
        T.thread_id([1])
        A[0] = x

    with pytest.raises(NotSupportedError, match="T.assume with `exp` cannot be checked on the host by this version"):
        trace(g).host_source()


def test_an_offset_that_is_an_extent():
    def shifted(A: T.Buffer(("n",), "float32"), P: T.handle):
        n = A.shape[0]
        B = T.match_buffer(P, (4,), "float32", elem_offset=n)
        T.device_entry()
        bx = T.cta_id([4])
        tx = T.thread_id([1])
        B[bx] = 1.0

    kernel, base = trace(shifted), floats(20)
    assert (base.ctypes.data, 5, 9) in recorded(kernel, floats(5), base[5:9]).values
    kernel(floats(5), base[5:9])
    assert base.nonzero()[0].tolist() == [5, 6, 7, 8]
    with pytest.raises(ArgumentValueError, match=r"B\.offset: expected n = 4 \(A\.shape\[0\]\), got 5 \(argument 1, P, of"):
        kernel(floats(4), base[5:9])


# ---- indices and limits --------------------------------------------------------------------------------------------------

def shaped(*shape):
    """An array on a GPU of a shape that need not fit anywhere."""
    strides = np.cumprod((1, *shape[:0:-1]), dtype=object)[::-1]
    return Array(4096, shape, tuple(map(int, strides)), "float32", 4, 0, False, arguments.NUMPY, None)


def far(array):
    array.pointer = 1 << 60
    return array


def test_index_arithmetic_that_leaves_its_dtype_takes_64_bits():
    @trace
    def doubled(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        B[bx] = A[(bx * 4 + tx) // 4]

    narrow = recorded(doubled, shaped(2**29), far(shaped(2**29)), array=either).shape
    assert (narrow.grid, narrow.wide) == ((2**29, 1, 1), False)
    assert recorded(doubled, shaped(2**29 + 1), far(shaped(2**29 + 1)), array=either).shape.wide


def test_a_product_of_extents_takes_64_bits():
    narrow = recorded(product, shaped(30000, 40000), far(shaped(30000, 40000)), array=either)
    assert (narrow.values[2:], narrow.shape.wide) == ((30000, 40000), False)
    assert recorded(product, shaped(70000, 40000), far(shaped(70000, 40000)), array=either).shape.wide


def test_a_buffer_of_more_elements_than_an_int32_counts_takes_64_bits():
    @trace
    def rows(A: T.Buffer(("n", 4), "float32")):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([4])
        A[bx, tx] = 0.0

    assert not recorded(rows, shaped(2**29 - 1, 4), array=either).shape.wide
    assert recorded(rows, shaped(2**29, 4), array=either).shape.wide
    assert recorded(scale, shaped(2**31), far(shaped(2**31)), 1.0, array=either).shape.wide


def test_an_index_that_is_used_as_an_int32_is_refused_where_it_is_none():
    @trace
    def numbered(A: T.Buffer(("n", "m"), "int32")):
        n, m = A.shape
        T.device_entry()
        bx, by = T.cta_id([n, m])
        tx = T.thread_id([1])
        A[bx, by] = bx * m + by

    assert not recorded(numbered, ints(shaped(30000, 40000)), array=either).shape.wide
    with pytest.raises(LaunchError) as caught:
        recorded(numbered, ints(shaped(70000, 40000)), array=either)
    assert str(caught.value) == (
        f"the index arithmetic `bx*m + by` at test_checks.py:{numbered.function.location.line + 6} can reach 2799999999 with n = 70000, "
        "m = 40000, which is used as an int32, when calling `numbered(A: Tensor([n, m], int32))`")


def ints(array):
    array.dtype = "int32"
    return array


def test_launch_limits():
    @trace
    def rows(A: T.Buffer(("n", "m"), "float32")):
        n, m = A.shape
        T.device_entry()
        bx, by = T.cta_id([n, m])
        tx = T.thread_id([1])
        A[bx, by] = 0.0

    assert recorded(rows, shaped(3, 65535), array=either).shape.grid == (3, 65535, 1)
    with pytest.raises(LaunchError) as caught:
        recorded(rows, shaped(3, 65536), array=either)
    assert str(caught.value) == (
        "grid: expected from 0 to (2147483647, 65535, 65535), got (3, 65536, 1) with n = 3 (A.shape[0]), m = 65536 (A.shape[1]), "
        "when calling `rows(A: Tensor([n, m], float32))`")


def test_a_symbolic_block_is_checked_at_the_call():
    @trace
    def line(A: T.Buffer(("n",), "float32")):
        n = A.shape[0]
        T.device_entry()
        T.cta_id([1])
        tx = T.thread_id([n])
        A[tx] = 0.0

    assert recorded(line, floats(1024)).shape.block == (1024, 1, 1)
    with pytest.raises(LaunchError) as caught:
        recorded(line, floats(1025))
    assert str(caught.value) == (
        "block: expected from 1 to (1024, 1024, 64) and 1024 threads, got (1025, 1, 1) with n = 1025 (A.shape[0]), "
        "when calling `line(A: Tensor([n], float32))`")


# ---- through the kernel ---------------------------------------------------------------------------------------------------

def test_a_kernel_call_runs_on_the_simulator_and_writes_through_views():
    base = np.arange(32, dtype="float32")
    out = np.zeros(64, "float32")
    assert scale(base[8:24], out[16:32], 2.0) is None
    assert np.array_equal(out[16:32], base[8:24] * 2) and not out[:16].any() and not out[32:].any()


def test_nothing_is_written_when_a_check_fails():
    out = np.full(8, 7.0, "float32")
    with pytest.raises(ArgumentValueError):
        scale(floats(8), out, 1e300)
    assert (out == 7).all()


def test_simulate_gives_a_report_and_takes_a_sample():
    """Two of the four blocks, spread over the grid; the report says that it is a sample."""
    out = floats(1024)
    report = runtime.simulate(scale, np.ones(1024, "float32"), out, 5.0, grid=(2,))
    assert (out.reshape(4, 256)[::2] == 5).all() and not out.reshape(4, 256)[1::2].any()
    assert report.sample == (2, 4) and "\nsampled: 2 of 4 blocks ran; these are their counts\n" in str(report)
    assert report.accesses[0].sectors == 64 and report.roof().times["memory"] == 4 * 256 * 8 / 4.8e12
    assert runtime.simulate(scale, floats(0), floats(0), 1.0) is None


@pytest.mark.parametrize("grid", [(5,), (0,), (1, 2), (1, 1, 1, 1), ()])
def test_a_sample_has_blocks_of_the_grid(grid):
    with pytest.raises(ArgumentValueError) as caught:
        runtime.simulate(scale, np.ones(1024, "float32"), floats(1024), 5.0, grid=grid)
    assert str(caught.value) == f"scale: grid={grid} asks for blocks that the launch does not have: its grid is (4, 1, 1)"


def test_simulate_refuses_arrays_on_a_gpu(monkeypatch):
    monkeypatch.setattr(arguments, "array_of", lambda argument, stream=0: on(0, argument))
    with pytest.raises(ArgumentValueError) as caught:
        runtime.simulate(scale, ROW, floats(16), 1.0)
    assert str(caught.value) == "scale: the simulator takes arrays in host memory, such as NumPy's; these are on cuda:0"


def test_an_error_in_the_host_half_shows_its_line():
    with pytest.raises(ArgumentTypeError) as caught:
        scale(None, ROW, 1.0)
    frame = caught.traceback[-1]
    assert str(frame.statement).strip() == 'raise refuse(ArgumentTypeError, "0, A_ptr,", f"A: expected an array, got {A}")'


def test_clusters_are_checked_at_the_call():
    @trace
    def pairs(A: T.Buffer(("n",), "float32"), c: T.int32):
        n = A.shape[0]
        T.device_entry()
        k, r = T.cluster_id([n]), T.cta_id_in_cluster([c])
        tx = T.thread_id([32])
        with T.If((tx == 0) & (r == c - 1)):
            A[k] = 1.0

    told = "pairs(A: Tensor([n], float32), c: int32)"
    for count in (1, 2, 16):
        shape = recorded(pairs, floats(3), count).shape
        assert (shape.grid, shape.cluster) == ((3 * count, 1, 1), (count, 1, 1))
        out = floats(3)
        pairs(out, count)
        assert out.tolist() == [1, 1, 1]
    for count in (0, 17):
        with pytest.raises(LaunchError) as caught:
            recorded(pairs, floats(3), count)
        assert str(caught.value) == f"cluster: expected 1 to 16 blocks, got ({count}, 1, 1) with c = {count}, when calling `{told}`"


def test_a_grid_of_broken_clusters():
    @trace
    def pairs(A: T.Buffer(("n",), "float32")):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n], preferred=[4])
        T.cta_id_in_cluster([2])
        T.thread_id([1])
        A[bx] = 1.0

    assert recorded(pairs, floats(8)).shape.preferred == (4, 1, 1)
    for n, part, size in ((7, "cluster", 2), (6, "preferred cluster", 4)):
        with pytest.raises(LaunchError) as caught:
            recorded(pairs, floats(n))
        assert str(caught.value) == (f"grid: expected whole multiples of the {part} ({size}, 1, 1), got ({n}, 1, 1) with n = {n} (A.shape[0]), "
                                     "when calling `pairs(A: Tensor([n], float32))`")
