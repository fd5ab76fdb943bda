"""Many kernels compiled side by side, on threads, processes and any other executor; tuning, and its results in the cache."""

import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import runtime
from runtime import cache, compiler, many
from runtime.compiler import Compiler
from runtime.many import compile_many
from runtime.simulator import progress
from runtime.tuning import Trial, tune
from tracer import T, trace
from tracer.errors import ArgumentValueError, CompileError, LaunchError, SpecializeError, TraceError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    return tmp_path


@trace
def scaled(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), BLOCK: T.constexpr, FACTOR: T.constexpr = 2.0):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n, BLOCK)])
    tx = T.thread_id([BLOCK])
    i = bx * BLOCK + tx
    with T.If(i < n):
        B[i] = A[i] * FACTOR


@pytest.fixture
def compiled(monkeypatch):
    """A compiler that notes what it compiles."""
    seen = []

    def run(source, name, options):
        seen.append(source)
        account = f"Compiling entry function '{name[:-3]}'\n0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nUsed 8 registers\n"
        return (None, "k.cu(1): error: no") if "* 13.0f" in source else (source.encode(), account)
    monkeypatch.setattr(compiler, "nvrtc", lambda: Compiler("fake", "1", (), run))
    return seen


def kernels(*factors):
    return [scaled.specialize(BLOCK=64, FACTOR=factor) for factor in factors]


class Sent(Executor):
    """Takes only what can be sent to another machine, and answers at once."""

    def submit(self, function, /, *args, **keywords):
        function, args = pickle.loads(pickle.dumps((function, args)))
        future = Future()
        try:
            future.set_result(pickle.loads(pickle.dumps(function(*args, **keywords))))
        except Exception as problem:
            future.set_exception(problem)
        return future


@pytest.mark.parametrize("executor", [lambda: None, lambda: ThreadPoolExecutor(2), Sent], ids=["threads of its own", "threads", "sent"])
def test_many_kernels(compiled, executor):
    made = compile_many(kernels(1.0, 3.0, 1.0), executor(), arch="sm_90a")
    assert [e.arch for e in made] == ["sm_90a"] * 3 and [e.kernel for e in made] == kernels(1.0, 3.0, 1.0)
    assert made[0].source != made[1].source and made[0].cubin == made[2].cubin == made[0].source.encode()
    assert len(compiled) == 2
    assert kernels(3.0)[0].compile("sm_90a") is made[1] and len(compiled) == 2


def test_the_first_error_is_raised_and_what_did_compile_stays(compiled):
    with pytest.raises(CompileError, match="fake 1 refused scaled_kernel for sm_90a"):
        compile_many(kernels(5.0, 13.0, 7.0), arch="sm_90a")
    assert len(compiled) == 3
    compile_many(kernels(5.0, 7.0), arch="sm_90a")
    assert len(compiled) == 3
    assert sorted(entry.head["kind"] for entry in cache.entries()) == ["compiler", "cubin", "cubin"]


def test_an_architecture_that_lacks_an_operation_is_an_error_before_anything_is_sent(compiled):
    @trace
    def clustered(A: T.Buffer((16,), "float32")):
        T.device_entry()
        c, r = T.cluster_id([8]), T.cta_id_in_cluster([2])
        T.thread_id([32])
        A[c * 2 + r] = 1.0

    with pytest.raises(CompileError, match="cannot be compiled for sm_80: a launch in clusters"):
        compile_many([clustered], arch="sm_80")
    assert compiled == []


@pytest.mark.skipif(not isinstance(compiler.nvcc(), Compiler), reason="nvcc is not on PATH")
def test_processes_with_a_real_compiler():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        made = compile_many(kernels(17.0, 19.0), pool, arch="sm_90a")
    assert all(e.cubin[:4] == b"\x7fELF" for e in made) and made[0].cubin != made[1].cubin
    assert len([entry for entry in cache.entries() if entry.head["kind"] == "cubin"]) == 2


def test_what_another_machine_compiled_is_kept_here(compiled, tmp_path, monkeypatch):
    class Remote(Sent):
        def submit(self, *args, **keywords):
            with monkeypatch.context() as there:
                there.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "remote"))
                return super().submit(*args, **keywords)
    compile_many(kernels(23.0), Remote(), arch="sm_90a")
    assert [entry.head["kind"] for entry in cache.entries()] == ["cubin"]


def test_a_bar_counts_them(compiled, monkeypatch):
    bars = []

    class Bar(progress.Progress):
        def __init__(self, *args, **named):
            super().__init__(*args, **named)
            bars.append(self)
    monkeypatch.setattr(many, "Progress", Bar)
    compile_many(kernels(1.0, 3.0, 1.0), arch="sm_90a")
    bar, = bars
    assert (bar.started, bar._text(1)) == (2, "compiling [####################....................] 1/2 kernels")


# ---- tuning ---------------------------------------------------------------------------------------------------------------

def arrays():
    return np.ones(100, "float32"), np.zeros(100, "float32")


def measured(times):
    """Pretends that blocks of so many threads take so long."""
    asked = []

    def measure(executable, args):
        threads = executable.kernel.launch.block[0]
        asked.append(threads)
        args[1][:] = 7
        if times[threads] is None:
            raise LaunchError("too much\nof it")
        return times[threads]
    return measure, asked


def test_the_fastest_configuration(compiled, monkeypatch):
    monkeypatch.setattr("runtime.many.default_arch", lambda: "sm_90a")
    a, b = arrays()
    measure, asked = measured({32: 3e-6, 64: 1e-6, 128: None})
    found = tune(scaled, {"BLOCK": [32, 64, 128, 2048], "FACTOR": [2.0]}, (a, b), measure=measure)
    assert found.kernel is scaled.specialize(BLOCK=64, FACTOR=2.0) and found.constants == {"BLOCK": 64, "FACTOR": 2.0}
    assert found.seconds == 1e-6 and asked == [32, 64, 128]
    assert [t.seconds for t in found.trials] == [1e-6, 3e-6, None, None]
    assert str(found.trials[0]) == "BLOCK=64, FACTOR=2.0: 1.0 us"
    assert str(found.trials[2]) == "BLOCK=128, FACTOR=2.0: too much"
    assert "a block of 2048 threads; the limit is 1024" in str(found.trials[3])
    assert not b.any(), "the kernels got copies"
    again = tune(scaled, {"BLOCK": [32, 64, 128, 2048], "FACTOR": [2.0]}, (a, b), measure=measure)
    assert again == found and len(asked) == 3                     # from the cache
    tune(scaled, {"BLOCK": [32, 64, 128, 2048], "FACTOR": [2.0]}, (a[:50], b[:50]), measure=measure)
    assert len(asked) == 6                                          # another form
    assert [e.head["name"] for e in cache.entries() if e.head["kind"] == "tuning"] == ["scaled", "scaled"]


def test_configurations_one_by_one_and_a_function_that_makes_kernels(compiled, monkeypatch):
    monkeypatch.setattr("runtime.many.default_arch", lambda: "sm_90a")
    measure, asked = measured({32: 2e-6, 64: 1e-6})

    def make(threads):
        if threads == 1:
            raise TraceError("no such kernel")
        return scaled.specialize(BLOCK=threads)
    found = tune(make, [{"threads": 32}, {"threads": 64}, {"threads": 1}], arrays(), measure=measure)
    assert found.constants == {"threads": 64} and found.trials[-1] == Trial({"threads": 1}, None, "no such kernel")


def test_no_configuration_that_works(compiled, monkeypatch):
    monkeypatch.setattr("runtime.many.default_arch", lambda: "sm_90a")
    measure, _ = measured({})
    with pytest.raises(SpecializeError) as caught:
        tune(scaled, {"BLOCK": [64], "FACTOR": [13.0]}, arrays(), measure=measure)
    assert str(caught.value).startswith("no configuration works:\n  BLOCK=64, FACTOR=13.0: fake 1 refused scaled_kernel for sm_90a:")


def test_arrays_in_host_memory_have_no_time():
    with pytest.raises(ArgumentValueError) as caught:
        tune(scaled, {"BLOCK": [64]}, arrays())
    assert str(caught.value) == "tune measures on a GPU: pass CUDA arrays, or say how to measure with measure="


def test_the_public_names():
    assert runtime.compile_many is compile_many and runtime.tune is tune
