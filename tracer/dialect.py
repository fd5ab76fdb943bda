"""`T`: every name that a kernel author writes, collected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tracer import buffers, control, launch, pools, signature, tensor_maps, tensor_pool, values
from tracer import operations as ops
from tracer.dtypes import SCALAR_NAMES, dtype
from tracer.errors import TraceError
from tracer.intrinsics import atomics, bits, cached, cuda, order, pipeline, spellings, sums, tma, votes
from tracer.intrinsics.ptx import PTX, calls, descriptors
from tracer.recorder import in_trace


class _Dialect(SimpleNamespace):
    """A namespace whose missing names are errors that say so."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        prefix = self.__dict__.get("_name", "T")
        near = [known for known in self.__dict__ if known.lower().startswith(name.lower()[:4])]
        hint = f"; did you mean {', '.join(f'{prefix}.{n}' for n in near[:4])}?" if near else ""
        message = f"{prefix}.{name} does not exist in this version{hint}"
        if (recorder := in_trace()) is not None:
            recorder.fail(message, kind=UnknownNameError)
        raise UnknownNameError(message)


class UnknownNameError(TraceError, AttributeError):
    """A name of `T` that does not exist."""


def _public(module: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names}


T: Any = _Dialect(
    # parameters and extents
    Buffer=signature.Buffer, handle=signature.handle, constexpr=signature.constexpr, match_buffer=signature.match_buffer,
    **{name: values.ScalarType(dtype(name)) for name in SCALAR_NAMES},
    # launch
    **_public(launch, "device_entry", "assume", "attr", "launch_thread"), **launch.SCOPE_IDS,
    # control flow
    **_public(control, "If", "Elif", "Else", "While", "serial", "unroll", "vectorized", "grid", "break_", "continue_", "return_"),
    # memory
    **_public(buffers, "alloc_buffer", "alloc_shared", "alloc_local", "decl_buffer", "alloc_scalar", "local_scalar", "shared_scalar", "address_of"),
    SMEMPool=pools.SMEMPool, tensor_map=tensor_maps.tensor_map, TMEMPool=tensor_pool.TMEMPool,
    # values
    min=values.minimum, max=values.maximum, abs=values.absolute,
    **_public(values, "let", "select", "if_then_else", "reinterpret", "truncdiv", "truncmod", "ceildiv"),
    **{row.name: values.float_function(row) for row in (*ops.MATH, ops.ISNAN, ops.ISINF)},
    # hardware
    cuda=_Dialect(_name="T.cuda",
        **_public(cuda, "cta_sync", "warp_sync", "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "func_call"),
        **_public(votes, "ballot_sync", "any_sync", "all_sync", "match_any_sync", "match_all_sync", "activemask", "elect_sync"),
        **votes.REDUCTIONS,
        **_public(sums, "warp_sum", "cta_sum"),
        **_public(bits, "popc", "clz", "ffs", "brev", "byte_perm", "dp4a", "float_as_uint", "uint_as_float", "fdividef"),
        **bits.FUNNEL_SHIFTS,
        **_public(order, "thread_fence", "thread_fence_block", "thread_fence_system", "nano_sleep", "clock64"),
        **atomics.ATOMICS, **cached.CACHED,
        wgmma=_Dialect(_name="T.cuda.wgmma", encode_matrix_descriptor=descriptors.encode_wgmma, descriptor=descriptors.wgmma_descriptor,
                       noop_barrier=descriptors.noop_barrier),
        tcgen05=_Dialect(_name="T.cuda.tcgen05", encode_matrix_descriptor=descriptors.encode_tcgen05, descriptor=descriptors.tcgen05_descriptor,
                         **_public(descriptors, "instruction_descriptor", "encode_instr_descriptor")),
        **_public(descriptors, "matrix_descriptor", "get_tmem_addr"),
        **_public(calls, "mbarrier_wait", "warpgroup_sync", "cluster_sync", "cvta_generic_to_shared"),
    ),
    ptx=PTX, MBarriers=pipeline.MBarriers, Pipeline=pipeline.Pipeline,
    tma=_Dialect(_name="T.tma", **_public(tma, "load", "store", "reduce", "prefetch", "commit", "wait")),
    **_public(spellings, "Cast", "evaluate", "tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "tvm_warp_shuffle_xor"),
)
