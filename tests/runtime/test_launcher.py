"""From the host half to a launch: parameter buffers, streams, executables; and what importing does not import."""

import ctypes
import struct
import subprocess
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import runtime
from codegen.host import LaunchShape
from runtime import arguments, compiler, device, driver
from runtime import gpu as running
from runtime.arguments import array_of
from runtime.compiler import Compiler
from runtime.executable import Executable
from runtime.loaded import Traits
from runtime.parameters import TENSOR_MAP, Packing
from runtime.scalars import held
from runtime.streams import current_stream, stream_handle
from tests.runtime.kernels import scale
from tracer import T, trace
from tracer.dtypes import dtype
from tracer.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CompileError,
    LaunchError,
)

# ---- parameters -----------------------------------------------------------------------------------------------------------


def test_parameters_are_aligned_each_to_its_size():
    packing = Packing([None, dtype("uint8"), dtype("float16"), dtype("bfloat16"), dtype("int64"), dtype("bool"), dtype("float32")])
    parameters = packing.filled([0x1000, np.uint8(7), np.float16(1.5), ml_dtypes.bfloat16(-2.0), np.int64(-1), np.True_,
                               np.float32(0.1)])
    assert packing.offsets == [0, 8, 10, 12, 16, 24, 28] and packing.size == 32
    assert pointers_of(parameters, 7) == [ctypes.addressof(parameters.memory) + offset for offset in packing.offsets]
    assert struct.unpack_from("<Q", parameters.memory, 0) == (0x1000,)
    assert struct.unpack_from("<B", parameters.memory, 8) == (7,)
    assert struct.unpack_from("<e", parameters.memory, 10) == (1.5,)
    assert struct.unpack_from("<H", parameters.memory, 12) == (0xC000,)
    assert struct.unpack_from("<q?", parameters.memory, 16) == (-1, True)
    assert struct.unpack_from("<f", parameters.memory, 28) == (float(np.float32(0.1)),)


def pointers_of(parameters, count):
    return list((ctypes.c_void_p * count).from_address(parameters.pointers))


def test_a_tensor_map_lies_at_a_multiple_of_64_bytes():
    packing = Packing([None, TENSOR_MAP, dtype("float32"), TENSOR_MAP])
    parameters = packing.filled([1, b"a" * 128, 2.0, b"b" * 128])
    assert packing.offsets == [0, 64, 192, 256] and packing.size == 384
    assert ctypes.addressof(parameters.memory) % 64 == 0
    assert parameters.memory[64:192] == b"a" * 128 and parameters.memory[256:384] == b"b" * 128


def test_launches_under_way_share_no_memory_and_later_ones_do():
    packing = Packing([None])
    first, second = packing.filled([1]), packing.filled([2])
    assert first.pointers != second.pointers
    packing.release(first)
    assert packing.filled([3]) is first


def test_every_scalar_that_a_kernel_can_take_can_be_packed():
    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"]
    for name in names:
        packing = Packing([dtype(name)])
        packed = packing.filled([held(name, 1)])
        assert packed.memory[:packing.size] == np.ones(1, dtype(name).storage).tobytes()


# ---- streams --------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("stream, handle", [
    (0, 0), (12345, 12345),
    (SimpleNamespace(cuda_stream=7), 7), (SimpleNamespace(ptr=8), 8), (SimpleNamespace(handle=9), 9),
    (SimpleNamespace(__cuda_stream__=lambda: (0, 10), ptr=8), 10), (SimpleNamespace(__cuda_stream__=(0, 11)), 11),
])
def test_what_a_stream_may_be(stream, handle):
    assert stream_handle(stream) == handle


@pytest.mark.parametrize("stream", [True, "stream", 1.0])
def test_what_a_stream_may_not_be(stream):
    with pytest.raises(ArgumentTypeError, match="stream: expected a CUDA stream .*, got "):
        stream_handle(stream)


def working_on(name, handle):
    """An array of a framework whose current stream is `handle`."""
    cls = type(f"Of{name}", (), {"__cuda_array_interface__": {"stream": handle}})
    return cls()


def test_the_stream_is_that_of_the_arrays_framework():
    assert current_stream([np.zeros(3), 1.0]) == 0
    assert current_stream([working_on("a", None), working_on("b", 7), 2]) == 7
    with pytest.raises(ArgumentValueError, match="the arrays' current streams differ .* on 0x7, .* on 0x8.*; say which one to launch on"):
        current_stream([working_on("a", 7), working_on("b", 8)])


def test_a_stream_that_is_none_is_refused_for_host_arrays_too():
    with pytest.raises(ArgumentTypeError, match="stream: expected a CUDA stream"):
        scale(np.zeros(3, "float32"), np.zeros(3, "float32"), 1.0, stream="fast")


# ---- launching, without a GPU ------------------------------------------------------------------------------------------------

class Recorder:
    """Stands for `runtime.device.device(ordinal)`."""

    arch = "sm_90a"

    def __init__(self):
        self.launches = []

    def load(self, code, entry):
        def launch(shape, traits, parameters, stream):
            self.launches.append((code, entry, shape, traits, bytes(parameters.memory), stream))
        return SimpleNamespace(launch=launch)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """Arrays look as if they lay on cuda:1, and launches are recorded."""
    def on_gpu(argument, stream=0):
        array = array_of(argument)
        array.device = 1
        return array

    recorder = Recorder()
    account = "Compiling entry function '{}'\n 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nUsed 8 registers\n"
    fake = Compiler("fake", "1", (), lambda source, name, options: (b"code for " + options[0].encode(), account.format(name[:-3])))
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(arguments, "array_of", on_gpu)
    monkeypatch.setattr(running, "device", lambda ordinal: {1: recorder}[ordinal])
    monkeypatch.setattr(compiler, "compiler", lambda: fake)
    scale.memo.clear()
    yield recorder
    scale.memo.clear()


def test_a_launch_on_a_gpu(gpu):
    a, b = np.zeros(1000, "float32"), np.zeros(1000, "float32")
    scale(a, b, 2.5, stream=5)
    (code, entry, shape, traits, parameters, stream), = gpu.launches
    assert (code, entry, shape, traits, stream) == (
        b"code for --gpu-architecture=sm_90a", "scale_kernel", LaunchShape((4, 1, 1), (256, 1, 1), 0), Traits(), 5)
    assert struct.unpack_from("@PPif", parameters) == (a.ctypes.data, b.ctypes.data, 1000, 2.5)


def test_an_executable_is_compiled_once_and_can_be_called(gpu):
    a, b = np.zeros(10, "float32"), np.zeros(10, "float32")
    executable = scale.compile("sm_100a")
    assert isinstance(executable, Executable) and scale.compile("sm_100a") is executable
    assert (executable.arch, executable.entry, executable.compiler, executable.resources.registers) == (
        "sm_100a", "scale_kernel", "fake 1", 8)
    assert executable.source == scale.cuda_source()
    assert repr(executable) == "<executable scale_kernel for sm_100a, 8 registers, by fake 1>"
    executable(a, b, 1.0)
    assert gpu.launches[0][0] == b"code for --gpu-architecture=sm_100a"


def test_an_empty_grid_compiles_and_launches_nothing(gpu):
    scale(np.zeros(0, "float32"), np.zeros(0, "float32"), 2.5)
    assert gpu.launches == [] and ("executable", "sm_90a") not in scale.memo


def test_a_refused_call_launches_nothing(gpu):
    with pytest.raises(ArgumentValueError):
        scale(np.zeros(3, "float32"), np.zeros(4, "float32"), 2.5)
    assert gpu.launches == []


def test_an_executable_takes_no_host_arrays():
    executable = Executable(scale, b"", "sm_90a", "", "scale_kernel", "", compiler.Resources(0, 0, 0, 0, 0), "")
    with pytest.raises(ArgumentValueError) as caught:
        executable(np.zeros(3, "float32"), np.zeros(3, "float32"), 1.0)
    assert str(caught.value) == "scale: an executable runs on CUDA arrays; these are in host memory"


def test_launch_attributes_reach_the_launch(gpu):
    @trace
    def alone(A: T.Buffer((8,), "float32")):
        T.device_entry()
        T.attr({"tirx.programmatic_dependent_launch": True, "tirx.cooperative_launch": True})
        tx = T.thread_id([8])
        A[tx] = 1.0

    alone(np.zeros(8, "float32"))
    assert gpu.launches[0][3] == Traits(programmatic=True, cooperative=True)


def test_compiling_for_the_present_device_needs_one(monkeypatch):
    def none(ordinal):
        raise LaunchError("CUDA cannot be initialised")
    monkeypatch.setattr("runtime.executable.device", none)
    with pytest.raises(CompileError) as caught:
        scale.compile()
    assert str(caught.value) == ('no GPU to take the architecture from (CUDA cannot be initialised); name one: compile(arch="sm_90a")')


# ---- what is there without a GPU ------------------------------------------------------------------------------------------------

PROBE = """
import sys
import numpy as np
from tracer import T, trace
import runtime

@trace
def double(A: T.Buffer(("n",), "float32")):
    n = A.shape[0]
    T.device_entry()
    bx = T.cta_id([n])
    tx = T.thread_id([1])
    A[bx] = A[bx] * 2.0

a = np.arange(4, dtype="float32")
double(a)
double.host_source(); double.cuda_source()
assert a.tolist() == [0, 2, 4, 6]
loaded = sorted(name for name in sys.modules if name.partition(".")[0] in ("pycuda", "cuda", "torch", "cupy"))
assert not loaded, loaded
"""


def test_tracing_printing_and_simulating_import_no_gpu_library():
    told = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr


def test_a_gpu_without_its_libraries_is_an_error_that_says_what_to_install(monkeypatch):
    def absent(name):
        raise ImportError(f"No module named {name!r}")
    monkeypatch.setattr(driver.importlib, "import_module", absent)
    monkeypatch.setattr(device, "_devices", {})
    driver.pycuda_driver.cache_clear()
    driver.bindings.cache_clear()
    with pytest.raises(LaunchError) as caught:
        device.device(0)
    assert str(caught.value) == ("a GPU launch needs PyCUDA and NVIDIA's driver: run pip install 'kernelwright[cuda]' "
                                 "(No module named 'pycuda.driver')")
    with pytest.raises(LaunchError, match="a GPU launch needs cuda-bindings: run pip install"):
        driver.bindings()


def test_a_forked_child_is_told_so(monkeypatch):
    monkeypatch.setattr(driver, "_process", [1])
    with pytest.raises(LaunchError, match="this process was forked from one that had initialised CUDA"):
        device.device(0)


def test_the_public_names():
    assert runtime.__all__ == ["Checks", "Executable", "Trial", "Tuned", "call", "compile", "compile_many", "pack_float4", "simulate",
                               "tune", "unpack_float4"]
    assert all(hasattr(runtime, name) for name in runtime.__all__)
