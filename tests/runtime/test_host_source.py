"""The host half as text: exact, runnable as it stands, and the same in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codegen.host import signature
from tests.runtime.kernels import ALL
from tracer import T, trace

EXPECTED = Path(__file__).parent.parent / "data" / "host_source"


@pytest.mark.parametrize("name", ["scale", "k", "offset", "scalars", "affine"])
def test_the_exact_text(name):
    assert ALL[name].host_source() == (EXPECTED / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", ALL)
def test_it_is_python_that_calls_nothing_but_its_helpers(name):
    from codegen.host import HELPERS
    code = compile(ALL[name].host_source(), name, "exec")
    function = next(c for c in code.co_consts if hasattr(c, "co_code") and c.co_name == name)
    allowed = {*HELPERS, "refuse", "SIGNATURE", "len", "isinstance", "str", "int", "bool", "float"}
    attributes = {"shape", "strides", "dtype", "device", "place", "pointer", "empty", "offset", "read_only"}
    assert set(function.co_names) <= allowed | attributes


def test_it_is_the_same_in_every_process():
    program = "from tests.runtime.kernels import ALL; print(''.join(k.host_source() for k in ALL.values()), end='')"
    texts = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                            env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("1", "2")}
    assert texts == {"".join(kernel.host_source() for kernel in ALL.values())}


def test_signatures():
    assert signature(ALL["scale"].half) == "scale(A: Tensor([n], float32), B: Tensor([n], float32), s: float32)"
    assert signature(ALL["affine"].half) == "affine(A: Tensor([n*2 + 1], float32), B: Tensor([n], float32), x: float32)"


def test_names_that_the_source_uses_itself_are_given_away():
    @trace
    def array(launch: T.Buffer(("len",), "float32"), grid: T.float32, refuse: T.int32, number_of: T.handle):
        n = launch.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        tx = T.thread_id([1])
        launch[bx] = grid + refuse.astype("float32")

    source = array.host_source()
    assert "    launch_, grid_, refuse_, number_of_ = arguments\n" in source
    assert 'SIGNATURE = "array(launch: Tensor([len], float32), grid: float32, refuse: int32, number_of: Tensor)"' in source
    assert "    len_ = launch_.shape[0]\n" in source

    import numpy as np
    out = np.zeros(3, "float32")
    array(out, 1.5, 2, np.zeros(1))
    assert out.tolist() == [3.5, 3.5, 3.5]


def test_a_kernel_may_be_named_as_a_helper():
    @trace
    def overlap(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.device_entry()
        tx = T.thread_id([4])
        B[tx] = A[tx] + 1.0

    import numpy as np
    out = np.zeros(4, "float32")
    overlap(np.zeros(4, "float32"), out)
    assert out.tolist() == [1, 1, 1, 1]
    assert "def overlap_(array, launch, *arguments):" in overlap.host_source()


def test_a_lambda_has_a_host_half_too():
    import numpy as np

    def body(A):
        T.device_entry()
        tx = T.thread_id([4])
        A[tx] = 1.0

    fill = lambda A: body(A)  # noqa: E731
    fill.__annotations__ = {"A": T.Buffer((4,), "float32")}
    kernel, out = trace(fill), np.zeros(4, "float32")
    kernel(out)
    assert out.tolist() == [1, 1, 1, 1]
