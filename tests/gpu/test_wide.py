"""Arrays of more than 2**31 elements on the GPU: the calls that take the build with 64-bit indices."""

import pytest

from tests.codegen.test_wide import BIG, last, striding
from tracer import T, trace


@pytest.fixture(autouse=True)
def room(torch):
    """Give the memory of earlier tests back; these need some GB."""
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("less than 12 GB of GPU memory are free")
    yield
    torch.cuda.empty_cache()


@trace
def fill(A: T.Buffer(("n",), "int8")):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    with T.If(i < n):
        A[i] = (i % 101).astype("int8")


@trace
def transpose(A: T.Buffer(("n", "m"), "int8"), B: T.Buffer(("m", "n"), "int8")):
    n, m = A.shape
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n * m, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    with T.If(i < n * m):
        B[i % m, i // m] = A[i // m, i % m]


def expected(torch, start, size):
    return (torch.arange(start, start + size, device="cuda") % 101).to(torch.int8)


def test_every_element_of_a_long_array(torch):
    a = torch.full((BIG,), -1, dtype=torch.int8, device="cuda")
    fill(a)
    for start in range(0, BIG, 2**26):
        piece = a[start:start + 2**26]
        assert torch.equal(piece, expected(torch, start, len(piece))), start
    short = torch.zeros(1000, dtype=torch.int8, device="cuda")
    fill(short)                               # and 32 bits again
    assert torch.equal(short, expected(torch, 0, 1000))


def test_the_last_element_is_written_and_read(torch):
    a, b = torch.zeros(BIG, dtype=torch.int8, device="cuda"), torch.zeros(256, dtype=torch.int8, device="cuda")
    last(a, b)
    assert bool((a[-256:] == 7).all()) and bool((b == 7).all()) and int(torch.count_nonzero(a)) == 256


def test_mutable_scalars_step_through_indices(torch):
    a = torch.zeros(BIG, dtype=torch.int8, device="cuda")
    striding(a, BIG - 700)
    assert bool((a[-700:] == 1).all()) and int(torch.count_nonzero(a)) == 700


def test_two_axes(torch):
    a = torch.randint(-128, 127, (70_001, 40_003), dtype=torch.int8, device="cuda")
    b = torch.zeros(40_003, 70_001, dtype=torch.int8, device="cuda")
    transpose(a, b)
    assert torch.equal(b, a.t())
