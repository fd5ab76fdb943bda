"""The GEMMs of the examples on a GPU, on large and on odd sizes, against float64."""

import ml_dtypes
import numpy as np
import pytest

from examples import ampere_gemm, blackwell_gemm, hopper_gemm
from runtime.device import device
from tests.gpu.transfer import from_gpu, to_gpu


def sizes(m, n, k, **others):
    return {"M": m, "N": n, "K": k, **others}


HOPPER = [sizes(4096, 4096, 4096), sizes(256, 256, 192, STAGES=3), sizes(1024, 512, 8192), sizes(384, 256, 64, CLUSTER=1),
          sizes(256, 128, 256, BN=128, CLUSTER=1), sizes(512, 384, 320, BN=192), sizes(8192, 8192, 512, GROUP=16),
          sizes(2048, 2048, 448, BLOCKS=16)]
AMPERE = [sizes(4096, 4096, 4096), sizes(128, 128, 64), sizes(256, 384, 1024)]


def check(torch, kernel, size, dtype):
    """64 rows against float64, all of them against float32 on the GPU."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((size[x], size["K"]), np.float32).astype(dtype) for x in "MN")
    c = np.full((size["M"], size["N"]), 77, dtype)
    sent = [to_gpu(torch, x) for x in (a, b, c)]
    kernel(*sent)
    got = from_gpu(torch, sent[-1], c.dtype).astype(np.float64)
    rows = rng.choice(size["M"], min(64, size["M"]), replace=False)
    wanted = a[rows].astype(np.float64) @ b.astype(np.float64).T
    unit = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(got[rows], wanted, rtol=unit, atol=unit * 2**-3 * np.sqrt(size["K"]))
    whole = torch.matmul(sent[0].float(), sent[1].float().T)
    assert float((sent[2].float() - whole).abs().max()) <= 2 * unit * float(whole.abs().max())


@pytest.mark.parametrize("size", HOPPER, ids=str)
def test_hopper(size, torch):
    if device(0).arch != "sm_90a":
        pytest.skip("needs sm_90a")
    check(torch, hopper_gemm.gemm.specialize(**size), size, ml_dtypes.bfloat16)


@pytest.mark.parametrize("size", AMPERE, ids=str)
def test_ampere(size, torch):
    check(torch, ampere_gemm.gemm.specialize(**size), size, np.float16)


def test_a_hundred_runs_give_the_same(torch):
    """Races of the copy engine with the consumers would show as differences now and then."""
    if device(0).arch != "sm_90a":
        pytest.skip("needs sm_90a")
    kernel = hopper_gemm.gemm.specialize(M=2048, N=2048, K=2048)
    a, b = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    first, other = (torch.zeros(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    kernel(a, b, first)
    for _ in range(100):
        other.fill_(7)
        kernel(a, b, other)
        assert torch.equal(first, other)


@pytest.mark.parametrize("example", [ampere_gemm, hopper_gemm, blackwell_gemm], ids=lambda m: m.__name__)
def test_examples_run_on_the_gpu(example, torch, capsys):
    """Those for another architecture say so."""
    example.main()
    out = capsys.readouterr().out
    assert "WRONG" not in out and ("through PyTorch: right" in out or "through PyTorch: needs sm_" in out)
