"""118 buffer kernels of the reference: the same indices, unless it is wrong, and what it takes in silence refused by name."""

import pytest

from tests.buffers.golden import RECORDS, kernel_of, our_indices, reference_indices, storage_name
from tests.nvcc import ARCHITECTURES, cubin, needs_nvcc, one_unit
from tracer.errors import DTypeError, KernelwrightError, TraceError

# Refused here; the reference takes what has no "error" in its record, and makes a kernel that is wrong of it.
REFUSED = {
    "thread_axis_global": (TraceError, "has the thread axes laneid; an argument is in global memory"),
    "unknown_axis": (KernelwrightError, "pid"),
    "index_neg_const": (TraceError, "index 0 of 'B' is -1, which is negative for every thread"),
    "index_oob_const": (TraceError, "index 0 of 'B' is 9, which is out of bounds for every thread: the extent is 4"),
    "index_oob_col": (TraceError, "index 1 of 'B' is 100, which is out of bounds for every thread: the extent is 8"),
    "float_index": (DTypeError, "index 0 of 'B' is a float32 value; an index must be an integer"),
    "layout_size_mismatch": (TraceError, r"maps 16 elements; the shape \(4, 8\) has 32"),
    "layout_bigger": (TraceError, r"maps 64 elements; the shape \(4, 8\) has 32"),
    "dtype_mismatch_store": (DTypeError, "a float32 value is stored into 'B' of dtype int32, to which it does not promote"),
    "neg_extent": (TraceError, "extent 0 of the buffer is -4, which is negative"),
    "view_bad_size": (TraceError, r"A.view\(64, 5\) has 320 elements; 'A' has 256"),
    "ptr_to_rank": (TraceError, r"A\[\?\] has 1 index\(es\), but 'A' has 2 axis\(es\)"),
    "slice_ramp": (TraceError, "a slice of 'B' is assigned; store element by element"),
    "slice_step2": (TraceError, "axis 0 of 'A' is sliced with step 2; only steps of 1 are possible"),
    "slice_region_use": (TraceError, "a slice of 'B' is assigned; store element by element"),
    "local_frag_badshape": (TraceError, r"Rg.local\(3, 3\) has 9 elements; each thread's storage of 'Rg' has 8"),
    "local_frag_direct_index": (TraceError, r"'Rg' is spread over the axes laneid; index this thread's part of it: Rg.local\(\)"),
    "shared_static_60k": (TraceError, "61440 bytes of static shared memory; a block has at most 49152"),
    "dyn_two_allocs": (TraceError, 'a second allocation in scope "shared.dyn": a kernel has one dynamic shared array'),
    "decl_beyond_size": (TraceError, "the buffer ends 512 bytes into 'arena', which has 128"),
    "decl_byte_offset_unaligned": (TraceError, "byte_offset=6 is not a multiple of the 4 bytes of a float32 element"),
    "decl_elem_and_byte_offset": (TraceError, "elem_offset= and byte_offset= both say where the buffer starts"),
    "decl_scope_mismatch": (TraceError, "scope='local': the memory of 'arena' is in 'shared.dyn'"),
    "raw_handle_param": (TraceError, "data= is the memory of a buffer"),
    "host_store_before_entry": (TraceError, r"before T.device_entry\(\): that part runs on the host"),
    "shared_before_entry": (TraceError, r"before T.device_entry\(\): that part runs on the host"),
    "pool_fp4_pair": (TraceError, "one element is stored into .* of float4_e2m1fn, two of which share a byte in shared.dyn memory"),
    "shared_elem_offset_alloc": (TypeError, "unexpected keyword argument 'elem_offset'"),
    "alloc_global": (TraceError, "a kernel cannot allocate global memory"),
    "bad_scope": (TraceError, "unknown scope 'sharedd'; scopes are global, shared, shared.dyn, local, tmem"),
    "shared_symbolic_size": (TraceError, "extent 0 of a shared allocation is n, which is only known at run time"),
    "local_symbolic_size": (TraceError, "extent 0 of a local allocation is n, which is only known at run time"),
    "vload_dtype_other": (DTypeError, "a int32 vector of 'A', whose elements are float32"),
    "match_scope_shared": (TraceError, "has scope 'shared'; an argument is in global memory"),
    "match_align_odd": (TraceError, "align=3: an alignment is a power of two of bytes"),
}
# Kernels that the reference cannot make and we can: W18 and its kin. Their indices, in our text, by the name of the storage.
ONLY_OURS = {
    "strides_arg16_nolayout": {"A": "bx*8 + tx", "B": "bx*16 + tx"},
    "layout_none": {"A": "bx*8 + tx", "B": "bx*8 + tx"},
    "strides_symbolic": {"A": "bx*8 + tx", "B": "bx*s0 + s1*tx"},
    "permute_nolayout": {"A": "tx*8 + bx", "B": "bx*4 + tx"},
    "sym_layout_tiled": {"A": "bx//8*256 + tx//8*64 + bx % 8 * 8 + tx % 8", "B": "bx*32 + tx"},
    "sym_expr_shape": {"A": "i*2", "B": "i"},
    "sym_strided": {"A": "bx*ld + tx", "B": "bx*32 + tx"},
    "vload_lanes_over": {"A": "tx*4", "B": "tx*4"},
    "swizzle_vec": {"s": "tx*64 + (tx % 8 ^ 1)*8", "r": "0", "B": "tx"},
}
# Where the reference's index is wrong: `strides=` and local strides are ignored (W3, W1), so are they in the index below.
OTHER_INDEX = {
    "strides_arg16": {"B": "bx*16 + tx"},
    "t_buffer_kwargs": {"A": "bx*16 + tx"},
    "local_strides": {"r": "10"},
}
SAME = [name for name in RECORDS if name not in REFUSED and name not in ONLY_OURS and name not in OTHER_INDEX]


def texts(kernel):
    return {storage_name(a.buffer.decl.storage): a.text.split("  ")[1] for a in kernel.accesses()}


@pytest.mark.parametrize("name", SAME)
def test_the_same_indices(name):
    kernel = kernel_of(name)
    ours = our_indices(kernel)
    for storage, text, values in reference_indices(name, kernel):
        assert values in ours[storage], (storage, text, texts(kernel))


def test_how_much_is_compared():
    compared = {name: len(reference_indices(name, kernel_of(name))) for name in SAME}
    assert len(RECORDS) == 118 and len(SAME) == 71
    assert sum(compared.values()) == 203
    # Vector accesses, whose indices the records do not give; their lanes are compared in test_vectors.
    assert [name for name, count in compared.items() if not count] == [
        "vload_vstore", "vload_2d", "vload_colmajor", "vload_misaligned", "vload_f16x8", "vload_x3", "vectorized_loop", "vload_x2_odd",
        "tile_region_assign"]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name):
    error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        kernel_of(name)


@pytest.mark.parametrize("name", ONLY_OURS)
def test_what_the_reference_cannot_make(name):
    assert "error" in RECORDS[name]
    found = texts(kernel_of(name))
    assert {storage: found[storage] for storage in ONLY_OURS[name]} == ONLY_OURS[name]


@pytest.mark.parametrize("name", OTHER_INDEX)
def test_where_the_reference_is_wrong(name):
    kernel = kernel_of(name)
    (storage, text), = OTHER_INDEX[name].items()
    assert texts(kernel)[storage] == text
    theirs = {values for s, _, values in reference_indices(name, kernel) if s == storage}
    assert theirs.isdisjoint(our_indices(kernel)[storage])


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_that_trace_compile(architecture, tmp_path):
    sources = [kernel_of(name).cuda_source(locations=False).replace("k_kernel", f"{name}_kernel") for name in RECORDS if name not in REFUSED]
    assert cubin(one_unit(sources), tmp_path, [architecture])[architecture].stat().st_size > 0
