"""Threads, streams of every library, events, graphs and contexts."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from runtime.driver import pycuda_driver
from tests.gpu.test_launch import add_one, late_fill
from tests.runtime.kernels import in_place, scale

LAUNCHES = 10_000


def test_eight_threads_with_two_kernels_and_ten_thousand_launches_each(torch):
    tensors = [[torch.zeros(64, device="cuda") for _ in range(2)] for _ in range(8)]
    torch.cuda.synchronize()
    problems = []

    def work(mine):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(LAUNCHES):
                    in_place(mine[0])
                    add_one(mine[1])
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    torch.cuda.synchronize()
    assert all(bool((tensor == LAUNCHES).all()) for mine in tensors for tensor in mine)


def test_a_thread_that_has_never_used_cuda(torch):
    a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    scale(a, b, 1.0)
    problems = []

    def work():
        try:
            for factor in (2.0, 3.0):
                scale(a, b, factor)
        except BaseException as problem:
            problems.append(problem)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert not problems and torch.equal(b, a * 3)


class Stream:
    """A stream of a library that follows the protocol."""

    def __init__(self, handle):
        self.handle_ = handle

    def __cuda_stream__(self):
        return 0, self.handle_


@pytest.mark.parametrize("kind", ["int", "torch", "cupy", "pycuda", "protocol", "cuda.core"])
def test_a_stream_of_every_kind(torch, gpu, kind):
    if kind == "int":
        stream = torch.cuda.Stream().cuda_stream
    elif kind == "torch":
        stream = torch.cuda.Stream()
    elif kind == "cupy":
        stream = pytest.importorskip("cupy").cuda.Stream(non_blocking=True)
    elif kind == "pycuda":
        with gpu.current():
            stream = pycuda_driver().Stream()
    elif kind == "protocol":
        held = torch.cuda.Stream()
        stream = Stream(held.cuda_stream)
    else:
        core = pytest.importorskip("cuda.core")
        device = core.Device(0) if hasattr(core, "Device") else pytest.importorskip("cuda.core.experimental").Device(0)
        device.set_current()
        stream = device.create_stream()
    a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    for factor in (2.0, 3.0):
        scale(a, b, factor, stream=stream)
    torch.cuda.synchronize()
    assert torch.equal(b, a * 3)


def test_events_order_streams(torch):
    """A launch on one stream waits for an event of another, and the event behind it is done when it is done."""
    producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    tensor = late_fill(torch, producer, 5.0)
    filled, added = torch.cuda.Event(), torch.cuda.Event(enable_timing=True)
    filled.record(producer)
    consumer.wait_event(filled)
    with torch.cuda.stream(consumer):
        add_one(tensor)
        add_one(tensor)
        added.record()
    assert not added.query()
    added.synchronize()
    assert bool((tensor == 7).all())


def test_pycudas_events(gpu, gpuarray):
    driver = pycuda_driver()
    with gpu.current():
        a, b = gpuarray.to_gpu(np.arange(1000, dtype="float32")), gpuarray.to_gpu(np.zeros(1000, "float32"))
        begin, end = driver.Event(), driver.Event()
        begin.record()
    scale(a, b, 2.0)
    with gpu.current():
        end.record()
        end.synchronize()
        assert end.time_since(begin) > 0
        assert np.array_equal(b.get(), np.arange(1000, dtype="float32") * 2)


def test_a_graph_with_new_inputs(torch):
    """Captured by the short way and by the long one, replayed on what is then in its tensors."""
    a, b = torch.zeros(1000, device="cuda"), torch.zeros(1000, device="cuda")
    scale(a, b, 2.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scale(a, b, 2.0)            # on the capture's stream: the long way
        scale(b, a, 3.0)            # and the short one
        add_one(b)
    for value in (1.0, 5.0):
        a.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert bool((b == value * 2 + 1).all()) and bool((a == value * 6).all())


ANOTHER_CONTEXT = """
import torch
from tests.runtime.kernels import scale
from runtime.driver import bindings, pycuda_driver
a, b = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
for _ in range(2):
    scale(a, b, 2.0)
torch.cuda.synchronize()
other = pycuda_driver().Device(0).make_context()            # current from here on
mine = int(bindings().cuCtxGetCurrent()[1])
for factor in (3.0, 4.0):
    scale(a, b, factor, stream=0)
    scale(a, b, factor)
assert int(bindings().cuCtxGetCurrent()[1]) == mine, "the caller's context is current again"
other.pop()
other.detach()
torch.cuda.synchronize()
assert torch.equal(b, a * 4.0)
print("right")
"""


def test_another_context_that_is_current(torch):
    told = subprocess.run([sys.executable, "-c", ANOTHER_CONTEXT], capture_output=True, text=True, timeout=300)
    assert told.stdout == "right\n", told.stderr


def test_the_second_gpu_while_the_first_is_current(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    pairs = [(torch.rand(1000, device=f"cuda:{k}"), torch.zeros(1000, device=f"cuda:{k}")) for k in (0, 1)]
    for factor in (2.0, 3.0, 4.0):
        for a, b in pairs:
            scale(a, b, factor)
    for a, b in pairs:
        torch.cuda.synchronize(a.device)
        assert torch.equal(b, a * 4)
    assert torch.cuda.current_device() == 0
