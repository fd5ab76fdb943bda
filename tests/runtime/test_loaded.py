"""A kernel on a device that is none: configurations and their attributes, limits that are raised, and what is refused before the driver is asked."""

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from codegen.host import LaunchShape
from runtime import driver, loaded, tensor_maps
from runtime.loaded import Loaded, Traits, configuration
from runtime.parameters import Packing
from tests.runtime.fake_driver import FakeDriver, Status
from tracer import T, trace
from tracer.errors import LaunchError

PLAIN, NONE = LaunchShape((4, 1, 1), (256, 1, 1)), Traits()


@pytest.fixture
def fake(monkeypatch):
    """The driver of these tests."""
    made = FakeDriver(cuModuleLoadData="module", cuModuleGetFunction="function", cuFuncGetAttribute=1024, cuOccupancyMaxActiveClusters=10,
                      cuOccupancyMaxActiveBlocksPerMultiprocessor=2)
    for module in (driver, loaded, tensor_maps):
        monkeypatch.setattr(module, "bindings", lambda: made)
    return made


@pytest.fixture
def kernel(fake):
    device = SimpleNamespace(ordinal=3, arch="sm_90a", shared_limit=232448, processors=132, current=nullcontext)
    return Loaded(device, b"code", "k")


def launch(kernel, shape=PLAIN, traits=NONE, stream=7):
    kernel.launch(shape, traits, Packing([]).filled([]), stream)


# ---- configurations -------------------------------------------------------------------------------------------------------

def test_a_configuration(fake):
    config = configuration(LaunchShape((1, 2, 3), (4, 5, 6), 100), Traits(), 0x77)
    assert (config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY, config.blockDimZ) == (1, 2, 3, 4, 5, 6)
    assert (config.sharedMemBytes, config.hStream, config.attrs, config.numAttrs) == (100, 0x77, [], 0)


def test_attributes(fake):
    config = configuration(LaunchShape((8, 8, 1), (32, 1, 1), 0, (2, 1, 1), (4, 2, 1)), Traits(True, True), 0)
    assert config.numAttrs == 4
    assert [a.id for a in config.attrs] == [f"CU_LAUNCH_ATTRIBUTE_{name}" for name in (
        "CLUSTER_DIMENSION", "PREFERRED_CLUSTER_DIMENSION", "PROGRAMMATIC_STREAM_SERIALIZATION", "COOPERATIVE")]
    cluster, preferred, programmatic, cooperative = (a.value for a in config.attrs)
    assert (cluster.clusterDim.x, cluster.clusterDim.y, cluster.clusterDim.z) == (2, 1, 1)
    assert (preferred.preferredClusterDim.x, preferred.preferredClusterDim.y, preferred.preferredClusterDim.z) == (4, 2, 1)
    assert (programmatic.programmaticStreamSerializationAllowed, cooperative.cooperative) == (1, 1)


def test_a_launch_and_its_configuration_are_made_once(fake, kernel):
    for stream in (7, 7, 8):
        launch(kernel, stream=stream)
    configs = [arguments[0] for arguments in fake.called("cuLaunchKernelEx")]
    assert configs[0] is configs[1] and configs[2].hStream == 8
    assert {arguments[1] for arguments in fake.called("cuLaunchKernelEx")} == {"function"}


# ---- limits ---------------------------------------------------------------------------------------------------------------

def attributes_set(fake):
    return [(name.removeprefix("CU_FUNC_ATTRIBUTE_"), value) for _, name, value in fake.called("cuFuncSetAttribute")]


def test_shared_memory_is_allowed_where_it_takes_more_than_every_launch_has(fake, kernel):
    for shared in (0, 48 * 1024 - 1024, 60_000, 50_000, 100_000):
        launch(kernel, LaunchShape((1, 1, 1), (32, 1, 1), shared))
    assert attributes_set(fake) == [("MAX_DYNAMIC_SHARED_SIZE_BYTES", 60_000), ("MAX_DYNAMIC_SHARED_SIZE_BYTES", 100_000)]


def test_more_shared_memory_than_there_is(fake, kernel):
    with pytest.raises(LaunchError) as caught:
        launch(kernel, LaunchShape((1, 1, 1), (32, 1, 1), 232_000))
    assert str(caught.value) == "k asks for 232000 bytes of dynamic shared memory; cuda:3 has 231424 for a block beside the 1024 static ones"
    assert fake.called("cuLaunchKernelEx") == []


@pytest.mark.parametrize("shape, asked", [
    (LaunchShape((16, 1, 1), (32, 1, 1), 0, (8, 1, 1)), []),
    (LaunchShape((16, 1, 1), (32, 1, 1), 0, (16, 1, 1)), [("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)]),
    (LaunchShape((16, 2, 1), (32, 1, 1), 0, (4, 1, 1), (8, 2, 1)), [("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)]),
])
def test_large_clusters_are_asked_for(fake, kernel, shape, asked):
    launch(kernel, shape)
    launch(kernel, shape, stream=8)
    assert attributes_set(fake) == asked


def test_a_cluster_that_fits_nowhere(fake, kernel):
    fake.answers["cuOccupancyMaxActiveClusters"] = 0
    with pytest.raises(LaunchError) as caught:
        launch(kernel, LaunchShape((16, 1, 1), (1024, 1, 1), 200_000, (8, 1, 1)))
    assert str(caught.value) == (
        "k with grid (16, 1, 1), block (1024, 1, 1), cluster (8, 1, 1) and 200000 bytes of dynamic shared memory: cuda:3 has no room for a "
        "cluster of 8 such blocks; take a smaller cluster, or less shared memory or fewer threads a block")
    assert fake.called("cuLaunchKernelEx") == []


@pytest.mark.parametrize("shape, room", [
    (LaunchShape((264, 1, 1), (256, 1, 1)), None), (LaunchShape((265, 1, 1), (256, 1, 1)), 264),
    (LaunchShape((80, 1, 1), (256, 1, 1), 0, (8, 1, 1)), None), (LaunchShape((88, 1, 1), (256, 1, 1), 0, (8, 1, 1)), 80),
])
def test_a_cooperative_grid_must_fit_at_once(fake, kernel, shape, room):
    if room is None:
        launch(kernel, shape, Traits(cooperative=True))
        return
    with pytest.raises(LaunchError) as caught:
        launch(kernel, shape, Traits(cooperative=True))
    assert str(caught.value).endswith(f", cooperative launch: a cooperative launch runs all blocks at once; cuda:3 has room for {room} of these, "
                                      f"the grid has {shape.grid[0]}")
    launch(kernel, shape)


# ---- the driver's own refusals ----------------------------------------------------------------------------------------------

def test_a_launch_that_the_driver_refuses(fake, kernel):
    fake.answers["cuLaunchKernelEx"] = Status("CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(LaunchError) as caught:
        launch(kernel, traits=Traits(programmatic=True))
    assert str(caught.value) == ("k with grid (4, 1, 1), block (256, 1, 1) and 0 bytes of dynamic shared memory, programmatic dependent launch: "
                                 "cuLaunchKernelEx failed: CUDA_ERROR_ILLEGAL_ADDRESS (a kernel that was enqueued before accessed memory that is "
                                 "not there, and the context is lost; run it on NumPy arrays, and the simulator says where)")


def test_code_of_another_architecture(fake):
    fake.answers["cuModuleLoadData"] = Status("CUDA_ERROR_NO_BINARY_FOR_GPU")
    with pytest.raises(LaunchError) as caught:
        Loaded(SimpleNamespace(ordinal=0, arch="sm_90a"), b"", "k")
    assert str(caught.value) == ("k cannot be loaded on cuda:0, an sm_90a: cuModuleLoadData failed: CUDA_ERROR_NO_BINARY_FOR_GPU (the code was "
                                 "compiled for another architecture)")


def test_a_function_of_the_driver(fake):
    fake.cuGetProcAddress = lambda name, version, flags: (fake.CUresult.CUDA_SUCCESS, 0x1234 if name == b"cuLaunchKernelEx" else 0, 0)
    assert driver.driver_function("cuLaunchKernelEx") == 0x1234
    with pytest.raises(LaunchError, match="this driver has no cuNothing"):
        driver.driver_function("cuNothing")


# ---- tensor maps -----------------------------------------------------------------------------------------------------------

def declared(shape, box, **options):
    """The tensor map of a kernel that loads boxes of `box` from a float32 array."""
    def load(A: T.Buffer(shape, "float32")):
        tensor_map = T.tensor_map(A, box, **options)
        T.device_entry()
        tx = T.thread_id([32])
        s = T.alloc_shared(box, "float32", align=1024)
        bar = T.alloc_shared((1,), "uint64")
        with T.If(tx == 0):
            T.tma.load(s.ptr_to([0] * len(box)), tensor_map, [0] * len(shape), bar.ptr_to([0]))
    return next(a.tensor_map for a in trace(load).half.arguments if a.tensor_map is not None)


class Encoded:
    def __init__(self, number):
        self.held = ctypes.create_string_buffer(bytes([number]) * 128, 128)

    def getPtr(self):
        return ctypes.addressof(self.held)


def test_what_the_driver_is_told_of_a_tensor_map(fake):
    kept = []

    def encode(*arguments):
        kept.append(Encoded(len(kept) + 1))
        return kept[-1]
    fake.answers["cuTensorMapEncodeTiled"] = encode
    encode_at = tensor_maps.encoder(declared((64, 32), (8, 16), swizzle="64B", l2_promotion="128B", oob_fill="nan"), 0, (32, 64), (128,))
    assert encode_at(0x10000) == b"\1" * 128 and encode_at(0x20000) == b"\2" * 128 and encode_at(0x10000) == b"\1" * 128
    first, second = fake.called("cuTensorMapEncodeTiled")
    assert first == ["CU_TENSOR_MAP_DATA_TYPE_FLOAT32", 2, 0x10000, [32, 64], [128], [16, 8], [1, 1], "CU_TENSOR_MAP_INTERLEAVE_NONE",
                     "CU_TENSOR_MAP_SWIZZLE_64B", "CU_TENSOR_MAP_L2_PROMOTION_L2_128B", "CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA"]
    assert second[2] == 0x20000


def test_a_tensor_map_of_one_axis_has_a_stride_that_nobody_reads(fake):
    kept = Encoded(1)
    fake.answers["cuTensorMapEncodeTiled"] = lambda *arguments: kept
    tensor_maps.encoder(declared((1024,), (256,)), 64, (1024,), ())(0x10000)
    told, = fake.called("cuTensorMapEncodeTiled")
    assert told[1:6] == [1, 0x10040, [1024], [16], [256]] and told[8:] == [
        "CU_TENSOR_MAP_SWIZZLE_NONE", "CU_TENSOR_MAP_L2_PROMOTION_NONE", "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"]


def test_a_tensor_map_that_the_driver_refuses(fake):
    fake.answers["cuTensorMapEncodeTiled"] = Status("CUDA_ERROR_INVALID_VALUE")
    with pytest.raises(LaunchError, match="cuTensorMapEncodeTiled failed: CUDA_ERROR_INVALID_VALUE"):
        tensor_maps.encoder(declared((64, 32), (8, 16)), 0, (32, 64), (128,))(0x10000)
