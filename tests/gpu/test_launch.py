"""Streams, graphs, threads, executables, the cache and the driver's own figures."""

import threading

import numpy as np
import pytest

from codegen.host import LaunchShape
from runtime import compiler
from runtime.compiler import Compiler
from runtime.device import device
from runtime.driver import pycuda_driver
from runtime.executable import never
from runtime.loaded import Traits
from runtime.parameters import Packing
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


def forget(kernel, monkeypatch):
    """As in a new process."""
    monkeypatch.setattr(kernel, "memo", {})
    monkeypatch.setattr(kernel, "again", never)


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


def test_a_launch_is_captured_in_a_graph_and_replayed(torch, monkeypatch):
    """Also the very first one of a kernel, whose code is loaded during the capture."""
    monkeypatch.setattr(device(0), "_loaded", {})
    forget(add_one, monkeypatch)
    tensor = torch.zeros(1000, device="cuda")
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
        figures = tuple(map(loaded.attribute, ("NUM_REGS", "SHARED_SIZE_BYTES", "LOCAL_SIZE_BYTES")))
        assert executable.arch == gpu.arch
        assert figures == (executable.resources.registers, executable.resources.shared, executable.resources.local)


@pytest.mark.parametrize("find", [compiler.nvrtc, compiler.nvcc], ids=["NVRTC", "nvcc"])
def test_either_compiler_makes_code_that_runs(torch, gpu, find, tmp_path, monkeypatch):
    found = find()
    if not isinstance(found, Compiler):
        pytest.skip(found)
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(compiler, "compiler", lambda: found)
    forget(scale, monkeypatch)
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
        forget(scale, monkeypatch)
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


def launched(gpu, *shape, **more):
    """A launch of `scale_kernel` without its host half, and without arguments: one that is refused reads none."""
    executable = scale.compile()
    gpu.load(executable.cubin, executable.entry).launch(LaunchShape(*shape), Traits(**more), Packing([]).filled([]), 0)


def test_the_report_of_a_launch_that_the_device_refuses(gpu):
    with pytest.raises(LaunchError, match=r"scale_kernel with grid \(1, 1, 1\), block \(2048, 1, 1\) and 0 bytes .*CUDA_ERROR_INVALID_VALUE"):
        launched(gpu, (1, 1, 1), (2048, 1, 1))
    with pytest.raises(LaunchError, match=f"asks for 10000000 bytes of dynamic shared memory; cuda:0 has {gpu.shared_limit} for a block"):
        launched(gpu, (1, 1, 1), (32, 1, 1), 10_000_000)
    with pytest.raises(LaunchError, match="cooperative launch: a cooperative launch runs all blocks at once; cuda:0 has room for"):
        launched(gpu, (10_000_000, 1, 1), (256, 1, 1), cooperative=True)


# ---- attributes -----------------------------------------------------------------------------------------------------------

def attributed(cluster=None, blocks=16, **attributes):
    """`A[block] = 1`, launched with these attributes."""
    @trace
    def marked(A: T.Buffer((blocks,), "float32")):
        T.device_entry()
        if cluster is None:
            bx = T.cta_id([blocks])
        else:
            c, r = T.cluster_id([blocks // cluster]), T.cta_id_in_cluster([cluster])
            bx = c * cluster + r
        if attributes:
            T.attr({f"tirx.{name}": True for name in attributes})
        tx = T.thread_id([32])
        with T.If(tx == 0):
            A[bx] = 1.0

    return marked


@pytest.mark.parametrize("kernel", [
    attributed(cluster=2), attributed(cluster=8), attributed(cluster=16), attributed(cooperative_launch=True),
    attributed(programmatic_dependent_launch=True), attributed(cluster=4, cooperative_launch=True, programmatic_dependent_launch=True),
], ids=["cluster of 2", "of 8", "of 16, not portable", "cooperative", "programmatic", "all"])
def test_launch_attributes(torch, gpu, kernel):
    if gpu.arch < "sm_90" and kernel.function.launch.cluster is not None:
        pytest.skip("clusters need sm_90")
    a = torch.zeros(16, device="cuda")
    for count in (1, 2, 3):        # the long way, then the short one
        a.zero_()
        kernel(a)
        assert bool((a == 1).all()), count
    assert kernel.again(a)


def test_a_cooperative_grid_that_does_not_fit_is_refused(torch, gpu):
    with pytest.raises(LaunchError) as caught:
        attributed(blocks=1_000_000, cooperative_launch=True)(torch.zeros(1_000_000, device="cuda"))
    assert "a cooperative launch runs all blocks at once; cuda:0 has room for" in str(caught.value)
    assert str(caught.value).endswith("of these, the grid has 1000000")


def test_a_preferred_cluster(torch, gpu):
    """Where the device has them the grid runs in either kind of cluster; else the launch says so, and nothing has run."""
    @trace
    def preferring(A: T.Buffer((16,), "float32")):
        T.device_entry()
        bx = T.cta_id([16], preferred=[4])
        T.cta_id_in_cluster([2])
        tx = T.thread_id([32])
        with T.If(tx == 0):
            A[bx] = 1.0

    if gpu.arch < "sm_90":
        pytest.skip("clusters need sm_90")
    a = torch.zeros(16, device="cuda")
    try:
        preferring(a)
    except LaunchError as refusal:
        assert "preferred cluster (4, 1, 1)" in str(refusal)
        torch.cuda.synchronize()
        assert not a.any()
        return
    assert bool((a == 1).all())
