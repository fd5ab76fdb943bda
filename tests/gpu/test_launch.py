"""Streams, graphs, threads, executables, the cache and the driver's own figures."""

import threading

import numpy as np
import pytest

import runtime
from runtime import compiler
from runtime.compiler import Compiler
from runtime.device import pycuda_driver
from tests.runtime.kernels import ALL, in_place, scale
from tracer import T, trace
from tracer.errors import ArgumentValueError, LaunchError

SPIN = 200_000_000     # cycles: about 0.1 s, long past any launch


@trace
def add_one(A: T.Buffer(("n",), "float32")):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([T.ceildiv(n, 256)])
    tx = T.thread_id([256])
    i = bx * 256 + tx
    with T.If(i < n):
        A[i] = A[i] + 1.0


def warm_stream(torch):
    """A stream, with the kernel compiled and loaded for launches on it before the clock matters."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        add_one(torch.zeros(10, device="cuda"))
    return stream


def late_fill(torch, stream, value):
    """A tensor that `stream` fills only after a while: who does not wait for the stream sees zeros."""
    tensor = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SPIN)
        tensor.fill_(value)
    return tensor


def test_the_launch_goes_to_torchs_current_stream(torch):
    stream = warm_stream(torch)
    tensor = late_fill(torch, stream, 5.0)
    with torch.cuda.stream(stream):
        add_one(tensor)
        assert not stream.query()                    # the call did not wait
    stream.synchronize()
    assert bool((tensor == 6).all())


@pytest.mark.parametrize("spelled", [lambda s: s, lambda s: s.cuda_stream], ids=["torch stream", "int"])
def test_an_explicit_stream(torch, spelled):
    stream = warm_stream(torch)
    tensor = late_fill(torch, stream, 5.0)
    add_one(tensor, stream=spelled(stream))
    stream.synchronize()
    assert bool((tensor == 6).all())


def test_a_cupy_stream(torch, cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    a, b = cupy.arange(1000, dtype="float32"), cupy.zeros(1000, "float32")
    cupy.cuda.Device().synchronize()
    scale(a, b, 2.0, stream=stream)
    with stream:
        scale(b, a, 2.0)
    stream.synchronize()
    assert np.array_equal(cupy.asnumpy(a), np.arange(1000, dtype="float32") * 4)


def test_a_pycuda_stream(gpu, gpuarray):
    driver = pycuda_driver()
    with gpu.current():
        stream = driver.Stream()
        a, b = gpuarray.to_gpu(np.arange(1000, dtype="float32")), gpuarray.to_gpu(np.zeros(1000, "float32"))
        driver.Context.synchronize()
    scale(a, b, 2.0, stream=stream)
    with gpu.current():
        stream.synchronize()
        assert np.array_equal(b.get(), np.arange(1000, dtype="float32") * 2)


def test_frameworks_on_different_streams_are_refused(torch, cupy):
    with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(ArgumentValueError, match="the arrays' current streams differ"):
        scale(torch.zeros(3, device="cuda"), cupy.zeros(3, "float32"), 1.0)


def test_a_launch_is_captured_in_a_graph_and_replayed(torch):
    tensor = torch.zeros(1000, device="cuda")
    add_one(tensor)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        add_one(tensor)                              # loads the kernel for foreign streams, which a capture may not do
    torch.cuda.synchronize()
    tensor.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add_one(tensor)
        add_one(tensor)
    assert bool((tensor == 0).all())
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert bool((tensor == 6).all())


def test_threads(torch):
    kernels = [in_place, add_one]
    tensors = [torch.zeros(1000, device="cuda") for _ in range(8)]
    torch.cuda.synchronize()
    problems = []

    def work(index):
        try:
            for _ in range(50):
                kernels[index % 2](tensors[index])
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    torch.cuda.synchronize()
    assert all(bool((tensor == 50).all()) for tensor in tensors)


def test_what_the_compiler_said_is_what_the_driver_loads(gpu):
    for kernel in ALL.values():
        executable = kernel.compile()
        loaded = gpu.load(executable.cubin, executable.entry)
        with gpu.current():
            figures = loaded.function.num_regs, loaded.function.shared_size_bytes, loaded.function.local_size_bytes
        assert executable.arch == gpu.arch
        assert figures == (executable.resources.registers, executable.resources.shared, executable.resources.local)


@pytest.mark.parametrize("find", [compiler.nvrtc, compiler.nvcc], ids=["NVRTC", "nvcc"])
def test_either_compiler_makes_code_that_runs(torch, gpu, find, tmp_path, monkeypatch):
    found = find()
    if not isinstance(found, Compiler):
        pytest.skip(found)
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(compiler, "compiler", lambda: found)
    monkeypatch.setattr(scale, "memo", {})
    a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    scale(a, b, 2.0)
    assert torch.equal(b, a * 2.0)
    assert scale.compile().compiler == str(found) and scale.compile().log == ""


def test_a_warm_cache_compiles_nothing(torch, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    runs, real = [], compiler.compiler()

    def run(*arguments):
        runs.append(arguments[1])
        return real.run(*arguments)

    monkeypatch.setattr(compiler, "compiler", lambda: Compiler(real.name, real.version, real.options, run))
    for expected in (1, 1):
        monkeypatch.setattr(scale, "memo", {})       # as in a new process
        a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
        scale(a, b, 2.0)
        assert torch.equal(b, a * 2.0)
        assert runs == ["scale_kernel.cu"] * expected


def test_an_executable_runs_and_one_for_another_gpu_does_not(torch, gpu):
    a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    scale.compile()(a, b, 2.0)
    assert torch.equal(b, a * 2.0)
    other = "sm_100a" if gpu.arch != "sm_100a" else "sm_90a"
    with pytest.raises(LaunchError, match=rf"scale_kernel cannot be loaded on cuda:0, an {gpu.arch}"):
        scale.compile(other)(a, b, 2.0)


def test_the_report_of_a_launch_that_the_driver_refuses(gpu):
    executable = scale.compile()
    loaded = gpu.load(executable.cubin, executable.entry)
    with pytest.raises(LaunchError, match=r"scale_kernel with grid \(1, 1, 1\), block \(2048, 1, 1\) and 0 bytes"):
        loaded.launch((1, 1, 1), (2048, 1, 1), 0, runtime.launcher.Packing([]).pack([]), 0)
    with pytest.raises(LaunchError, match=f"asks for 10000000 bytes of dynamic shared memory; cuda:0 has {gpu.shared_limit} for a block"):
        loaded.launch((1, 1, 1), (32, 1, 1), 10_000_000, runtime.launcher.Packing([]).pack([]), 0)
