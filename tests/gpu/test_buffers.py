"""A kernel for every scope, view and vector width, and every form in which an array may come, against NumPy on the GPU."""

import numpy as np
import pytest

from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from tests.buffers.kernels import CASES, EXTERNAL
from tests.gpu.transfer import from_gpu, to_gpu
from tracer import T, trace
from tracer.errors import ArgumentValueError, LaunchError

A48 = np.arange(1, 33, dtype="float32").reshape(4, 8)


@pytest.mark.parametrize("case", [*CASES, *EXTERNAL], ids=lambda c: c.name)
def test_gpu_gives_numpys_result(case, torch):
    inputs = case.inputs(np.random.default_rng(7))
    expected = case.expected(*inputs)
    arrays = [to_gpu(torch, a) for a in inputs]
    output = to_gpu(torch, np.full(case.output[0], 77, case.output[1]))
    case.kernel()(*arrays, output)
    np.testing.assert_array_equal(from_gpu(torch, output, case.output[1]), expected)
    for array, before in zip(arrays, inputs):
        np.testing.assert_array_equal(from_gpu(torch, array, before.dtype), before)


def copy_into(**options):
    """Copies A into a (4, 8) buffer that is declared with `options`."""
    def copy(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32", **options)):
        T.device_entry()
        i, j = T.thread_id([4, 8])
        B[i, j] = A[i, j]
    return trace(copy)


def test_padded_rows_and_offsets(torch):
    """Nothing beside the elements is written, and a compact tensor is refused (W2 and W3 of the reference)."""
    a = to_gpu(torch, A48)
    for options in ({"layout": TileLayout(S[(4, 8):(16, 1)])}, {"elem_offset": 8, "layout": TileLayout(S[(4, 8):(16, 1)])}):
        start = options.get("elem_offset", 0)
        base = torch.zeros(4, 16, device="cuda")
        copy_into(**options)(a, base[:, start:start + 8])
        got = base.cpu().numpy()
        assert np.array_equal(got[:, start:start + 8], A48) and np.count_nonzero(got) == 32
        with pytest.raises(ArgumentValueError, match="the layout needs 56 elements, there are 32"):
            copy_into(**options)(a, torch.zeros(4, 8, device="cuda"))
    base = torch.zeros(128, device="cuda")
    copy_into(elem_offset=64)(a, base[64:96].reshape(4, 8))
    assert np.array_equal(base[64:96].cpu().numpy(), A48.reshape(-1)) and base.count_nonzero() == 32


def test_column_major_in_both_forms(torch):
    a, compact, columns = to_gpu(torch, A48), torch.zeros(4, 8, device="cuda"), torch.zeros(8, 4, device="cuda")
    kernel = copy_into(layout=TileLayout(S[(4, 8):(1, 4)]))
    kernel(a, compact)
    kernel(a, columns.T)
    assert np.array_equal(compact.cpu().numpy().reshape(8, 4), A48.T) and np.array_equal(columns.cpu().numpy(), A48.T)


def test_symbolic_strides(torch):
    @trace
    def kernel(A: T.Buffer(("n", 8), "float32"), b: T.handle):
        s = T.int32()
        B = T.match_buffer(b, (A.shape[0], 8), "float32", strides=(s, 1))
        T.device_entry()
        i, j = T.thread_id([4, 8])
        B[i, j] = A[i, j]

    for width in (8, 11, 16):
        base = torch.zeros(4, width, device="cuda")
        kernel(to_gpu(torch, A48), base[:, :8])
        assert np.array_equal(base[:, :8].cpu().numpy(), A48) and base.count_nonzero() == 32


def test_the_greatest_dynamic_shared_memory(torch):
    @trace
    def kernel(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
        n = A.shape[0]
        T.device_entry()
        tx = T.thread_id([256])
        smem = T.alloc_buffer((n,), "float32", scope="shared.dyn")
        for i in T.serial(tx, n, 256):
            smem[i] = A[i]
        T.cuda.cta_sync()
        for i in T.serial(tx, n, 256):
            B[i] = smem[n - 1 - i]

    for n in (100, 12288, 12289, 58112, 100):        # 48 KiB, one element more, 227 KiB
        a, b = torch.arange(n, device="cuda", dtype=torch.float32), torch.zeros(n, device="cuda")
        kernel(a, b)
        assert torch.equal(a.flip(0), b)
    with pytest.raises(LaunchError, match="expected from 0 to 232448 bytes, got 232452"):
        kernel(torch.zeros(58113, device="cuda"), torch.zeros(58113, device="cuda"))
