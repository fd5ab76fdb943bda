"""The launch: scope ids, their agreement, limits, and what `kernel.launch` and the launch parameters say."""

import pytest
import sympy

from tracer import T, trace
from tracer.errors import TraceError


def launched(declare, *, extents=("n",)):
    """A kernel over A (n,) whose thread hierarchy `declare(n)` declares."""
    def kernel(A: T.Buffer(extents, "float32")):
        n = A.shape[0]
        T.device_entry()
        declare(n)
    return trace(kernel)


def refused(declare, message):
    with pytest.raises(TraceError, match=message):
        launched(declare)


def test_grid_and_block():
    launch = launched(lambda n: (T.cta_id([T.ceildiv(n, 256)]), T.thread_id([256]))).launch
    assert launch.block == (256,) and launch.block == (256, 1, 1) and launch.block[0] == 256
    n = next(iter(launch.grid[0].free_symbols))
    assert n.name == "n"
    assert [int(launch.grid[0].subs(n, value)) for value in (0, 1, 256, 257)] == [0, 1, 1, 2]
    assert launch.cluster is None and launch.preferred_cluster is None and launch.dynamic_shared_bytes == 0


def test_no_cta_id_is_one_block():
    kernel = launched(lambda n: T.thread_id([32, 4]))
    assert kernel.launch.grid == (1,) and kernel.launch.block == (32, 4)
    assert kernel.device.attrs["tirx.kernel_launch_params"] == ["threadIdx.x", "threadIdx.y"]


def test_parameter_names():
    def names(declare):
        return launched(declare).device.attrs["tirx.kernel_launch_params"]

    assert names(lambda n: (T.cta_id([n]), T.thread_id([8]))) == ["blockIdx.x", "threadIdx.x"]
    assert names(lambda n: (T.cta_id([2, 3, 4]), T.thread_id([8]))) == ["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x"]
    assert names(lambda n: (T.cluster_id([8]), T.cta_id_in_cluster([2], preferred=[4]), T.thread_id([8]))) == [
        "clusterCtaIdx.x", "preferredClusterCtaIdx.x", "blockIdx.x", "threadIdx.x"]


def test_clusters():
    launch = launched(lambda n: (T.cluster_id([8, 2]), T.cta_id_in_cluster([2, 2]), T.thread_id([64]))).launch
    assert launch.grid == (16, 4) and launch.cluster == (2, 2)


def test_warps_alone_make_the_block():
    assert launched(lambda n: (T.warp_id([4]), T.lane_id([32]))).launch.block == (128,)
    assert launched(lambda n: (T.warpgroup_id([2]), T.warp_id_in_wg([4]), T.lane_id([32]))).launch.block == (256,)
    assert launched(lambda n: T.lane_id([32])).launch.block == (32,)


def test_older_spelling():
    def declare(n):
        T.launch_thread("blockIdx.x", n)
        T.launch_thread("threadIdx.x", 256)
    launch = launched(declare).launch
    assert launch.block == (256,) and isinstance(launch.grid[0], sympy.Symbol)


def test_thread_index_from_warps():
    def kernel(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        T.device_entry()
        warp = T.warp_id([4])
        lane = T.lane_id([32])
        tx = T.thread_id([128])
        B[warp * 32 + lane] = A[tx]
    assert [str(a) for a in trace(kernel).accesses()] == ["A[tx] load  tx", "B[warp*32 + lane] store  tx"]


def test_two_dimensional_block_counts_x_first():
    def kernel(A: T.Buffer((128,), "float32")):
        T.device_entry()
        tx, ty = T.thread_id([16, 8])
        warp = T.warp_id([4])
        lane = T.lane_id([32])
        A[warp * 32 + lane] = 0.0
    assert str(trace(kernel).accesses()[0]) == "A[warp*32 + lane] store  ty*16 + tx"


@pytest.mark.parametrize(("declare", "message"), [
    (lambda n: (T.warp_id([4]), T.lane_id([32]), T.thread_id([256])),
     r"do not agree on the threads of a block: thread_id gives 256, warp_id x 32 gives 128"),
    (lambda n: (T.thread_id([64]), T.thread_id([128])), r"T.thread_id was declared before with extents \[64\], now with \[128\]"),
    (lambda n: (T.warp_id([4]), T.thread_id([16, 8])), r"declare T.thread_id of several axes before T.warp_id"),
    (lambda n: (T.thread_id([100]), T.lane_id([32])), r"T.lane_id needs a block of whole groups of 32 threads; it has 100"),
    (lambda n: T.lane_id([64]), r"T.lane_id has at most 32 values: write T.lane_id\(\[32\]\), not 64"),
    (lambda n: T.thread_id([2048]), r"a block of 2048 threads; the limit is 1024"),
    (lambda n: T.thread_id([2, 2, 128]), r"axis z of the block is 128; the limit is 64"),
    (lambda n: T.thread_id([0]), r"extent 0 of T.thread_id is 0; it must be at least 1"),
    (lambda n: (T.cta_id([2, 3, 4, 5]), T.thread_id([8])), r"T.cta_id takes 1 to 3 extents, got 4"),
    (lambda n: (T.cta_id([1, 70000]), T.thread_id([8])), r"axis y of the grid is 70000; the limit is 65535"),
    (lambda n: T.cta_id(4), r"T.cta_id takes a list of extents: T.cta_id\(\[4\]\)"),
    (lambda n: T.thread_id([8], preferred=[8]), r"T.thread_id takes no preferred="),
    (lambda n: T.launch_thread("threadIdx.w", 8), r"unknown thread tag 'threadIdx.w'; the tags are threadIdx.x"),
    (lambda n: T.cta_id([-1]), r"extent 0 of T.cta_id is -1; it must be at least 0"),
])
def test_disagreement_and_limits(declare, message):
    refused(declare, message)


def test_ids_before_device_entry():
    def kernel(A: T.Buffer((8,), "float32")):
        T.thread_id([8])
    with pytest.raises(TraceError, match=r"T.thread_id before T.device_entry\(\)"):
        trace(kernel)


def test_an_extent_that_only_the_kernel_knows():
    def kernel(A: T.Buffer((8,), "int32")):
        T.device_entry()
        T.cta_id([A[0]])
        T.thread_id([8])
    with pytest.raises(TraceError, match=r"depends on a value that only the kernel computes"):
        trace(kernel)


def test_scalar_parameters_may_size_the_launch():
    def kernel(A: T.Buffer((8,), "int32"), blocks: T.int32):
        T.device_entry()
        T.cta_id([blocks])
        tx = T.thread_id([8])
        A[tx] = 1
    assert str(trace(kernel).launch.grid[0]) == "blocks"


def test_attributes():
    def kernel(A: T.Buffer((8,), "int32")):
        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 2})
        tx = T.thread_id([8])
        A[tx] = 1
    kernel = trace(kernel)
    assert kernel.device.attrs["tirx.launch_bounds_min_blocks_per_sm"] == 2
    assert "__launch_bounds__(8, 2)" in kernel.cuda_source()
