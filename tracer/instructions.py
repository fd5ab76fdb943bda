"""Rows of the hardware's own instructions, `T.ptx` and what stands beside them in `T.cuda`: one row a meaning, not a spelling.

A row's operands say what happens to each: `name:role`, with `*` for several and `?` for one that may be missing.

| role | what is passed, and what becomes of it |
|---|---|
| `out`, `inout` | a register: a pointer (`ADDRESS_OF`) to an element of a thread's own memory, written, or read and written |
| `read`, `write`, `update` | memory: a pointer, or an address as an integer, that is read, written, or both |
| `barrier` | memory: an mbarrier |
| `tensormap` | the descriptor of a tensor |
| `address` | memory: only its address is used |
| none | a value |

`attrs["instruction"]` of a node is the PTX text that was asked for ("mbarrier.arrive.expect_tx.shared.b64"); the modifiers in it
and immediate operands are attributes too, named in the comment behind each row. `attrs["counts"]` says how many operands each
name of the row has. Which modifiers there are, in which order, is told in `tracer.intrinsics.ptx`.
"""

from __future__ import annotations

from tracer.ir import Node
from tracer.operations import Effect, Operation, operation

REGISTER_ROLES = frozenset({"out", "inout"})
WRITTEN_ROLES = frozenset({"out", "inout", "write", "update", "barrier"})       # what the operand points to is written
READ_ROLES = frozenset({"inout", "read", "update", "barrier", "tensormap"})     # ... is read

_ACTS = Effect.OPAQUE
_TOGETHER = Effect.OPAQUE | Effect.CONVERGENT
_WAITS = Effect.OPAQUE | Effect.WAIT
_BESIDE = _TOGETHER | Effect.WAIT       # work beside the warps: each of them has to run on its own


def _row(name: str, operands: str = "", effect: Effect = _ACTS, section: str = "", since: str = "", result: str = "none") -> Operation:
    return operation(name, operands, result, effect, source=f"PTX ISA {section}", since=since)


# ---- mbarrier. attrs: space, sem, scope where written; parity, expect_tx, drop (True or absent)
_MBARRIER = "9.7.13.15 mbarrier"
MBARRIER_INIT = _row("ptx.mbarrier.init", "bar:barrier count", _ACTS, _MBARRIER, "sm_80")
MBARRIER_INVAL = _row("ptx.mbarrier.inval", "bar:barrier", _ACTS, _MBARRIER, "sm_80")
MBARRIER_EXPECT_TX = _row("ptx.mbarrier.expect_tx", "bar:barrier tx", _ACTS, _MBARRIER, "sm_90")
MBARRIER_COMPLETE_TX = _row("ptx.mbarrier.complete_tx", "bar:barrier tx", _ACTS, _MBARRIER, "sm_90")
# arrive: `tx` with expect_tx only; noComplete wants `count`. drop: arrive_drop.
MBARRIER_ARRIVE = _row("ptx.mbarrier.arrive", "?state:out bar:barrier ?tx ?count", _ACTS, _MBARRIER, "sm_80")
# `done` becomes 1 or 0. With parity: `phase`, else `state`.
MBARRIER_TEST_WAIT = _row("ptx.mbarrier.test_wait", "done:out bar:barrier ?state ?phase", _WAITS, _MBARRIER, "sm_80")
MBARRIER_TRY_WAIT = _row("ptx.mbarrier.try_wait", "done:out bar:barrier ?state ?phase ?hint", _WAITS, _MBARRIER, "sm_90")
MBARRIER_PENDING_COUNT = _row("ptx.mbarrier.pending_count", "count:out state", _ACTS, _MBARRIER, "sm_80")
MBARRIER_WAIT = _row("cuda.mbarrier_wait", "bar:barrier phase", _WAITS, _MBARRIER, "sm_90")     # spins on try_wait.parity

# ---- fences
_FENCE = "9.7.13.4 fence"
FENCE = _row("ptx.fence", "", _ACTS, _FENCE)                                       # attrs: sem sc|acq_rel|acquire|release, scope
FENCE_MBARRIER_INIT = _row("ptx.fence.mbarrier_init", "", _ACTS, _FENCE, "sm_90")  # attrs: sem release, scope cluster
FENCE_PROXY = _row("ptx.fence.proxy", "", _ACTS, _FENCE)                           # attrs: proxy alias|async, space where written
# attrs: sem acquire|release, scope, size (bytes, with acquire)
FENCE_PROXY_TENSORMAP = _row("ptx.fence.proxy.tensormap", "?map:tensormap", _ACTS, _FENCE, "sm_90")

# ---- barriers of the block, the warpgroup and the cluster
_BARRIER = "9.7.13.1 bar, barrier"
BAR_SYNC = _row("ptx.bar.sync", "id ?threads", _TOGETHER | Effect.WAIT, _BARRIER)  # attrs: aligned
BAR_ARRIVE = _row("ptx.bar.arrive", "id threads", _TOGETHER, _BARRIER)             # attrs: aligned
BAR_RED = _row("ptx.bar.red", "d:out id ?threads p", _TOGETHER | Effect.WAIT, _BARRIER)  # attrs: aligned, op popc|and|or
_CLUSTER = "9.7.13.3 barrier.cluster"
CLUSTER_ARRIVE = _row("ptx.barrier.cluster.arrive", "", _TOGETHER, _CLUSTER, "sm_90")             # attrs: sem release|relaxed, aligned
CLUSTER_WAIT = _row("ptx.barrier.cluster.wait", "", _TOGETHER | Effect.WAIT, _CLUSTER, "sm_90")   # attrs: sem acquire, aligned
WARPGROUP_SYNC = _row("cuda.warpgroup_sync", "id", _TOGETHER | Effect.WAIT, _BARRIER)              # bar.sync id, 128
CLUSTER_SYNC = _row("cuda.cluster_sync", "", _TOGETHER | Effect.WAIT, _CLUSTER, "sm_90")           # arrive.release, wait.acquire

# ---- cp.async: groups are a thread's own. attrs: cache ca|cg, size (bytes: 4, 8 or 16), cache_hint, prefetch 64B|128B|256B
_CP_ASYNC = "9.7.9.25.3 cp.async"
CP_ASYNC = _row("ptx.cp.async", "dst:write src:read ?src_size ?ignore_src ?policy", _ACTS, _CP_ASYNC, "sm_80")
CP_ASYNC_COMMIT = _row("ptx.cp.async.commit_group", "", _ACTS, _CP_ASYNC, "sm_80")
CP_ASYNC_WAIT_GROUP = _row("ptx.cp.async.wait_group", "", _WAITS, _CP_ASYNC, "sm_80")               # attrs: n
CP_ASYNC_WAIT_ALL = _row("ptx.cp.async.wait_all", "", _WAITS, _CP_ASYNC, "sm_80")
CP_ASYNC_MBARRIER_ARRIVE = _row("ptx.cp.async.mbarrier.arrive", "bar:barrier", _ACTS, _CP_ASYNC, "sm_80")      # attrs: noinc, space

# ---- bulk copies. attrs: dst_space, src_space, completion mbarrier|bulk_group, multicast, cache_hint; op and type of a reduction
_BULK = "9.7.9.25.4 cp.async.bulk"
BULK = _row("ptx.cp.async.bulk", "dst:write src:read size ?bar:barrier ?cta_mask ?policy", _ACTS, _BULK, "sm_90")
BULK_REDUCE = _row("ptx.cp.reduce.async.bulk", "dst:update src:read size ?bar:barrier ?policy", _ACTS, _BULK, "sm_90")
BULK_PREFETCH = _row("ptx.cp.async.bulk.prefetch", "src:read size ?policy", _ACTS, _BULK, "sm_90")
BULK_COMMIT = _row("ptx.cp.async.bulk.commit_group", "", _ACTS, _BULK, "sm_90")
BULK_WAIT_GROUP = _row("ptx.cp.async.bulk.wait_group", "", _WAITS, _BULK, "sm_90")                  # attrs: n, read

# ---- tensor copies. attrs: as for bulk, and dim (1..5), cta_group (1|2). `at`: the box's first coordinates, innermost first.
_TENSOR = "9.7.9.27.1 cp.async.bulk.tensor"
TENSOR_LOAD = _row("ptx.cp.async.bulk.tensor.load", "dst:write map:tensormap *at bar:barrier ?cta_mask ?policy", _ACTS, _TENSOR, "sm_90")
TENSOR_STORE = _row("ptx.cp.async.bulk.tensor.store", "map:tensormap *at src:read ?policy", _ACTS, _TENSOR, "sm_90")
TENSOR_REDUCE = _row("ptx.cp.reduce.async.bulk.tensor", "map:tensormap *at src:read ?policy", _ACTS, _TENSOR, "sm_90")   # attrs: op
TENSOR_PREFETCH = _row("ptx.cp.async.bulk.prefetch.tensor", "map:tensormap *at ?policy", _ACTS, _TENSOR, "sm_90")
PREFETCH_TENSORMAP = _row("ptx.prefetch.tensormap", "map:tensormap", _ACTS, "9.7.9.15 prefetch", "sm_90")

# ---- memory of other blocks of the cluster
ST_ASYNC = _row("ptx.st.async", "dst:write *value bar:barrier", _ACTS, "9.7.9.12 st.async", "sm_90")             # attrs: type, vec
RED_ASYNC = _row("ptx.red.async", "dst:update value bar:barrier", _ACTS, "9.7.13.7 red.async", "sm_90")          # attrs: op, type
MAPA = _row("ptx.mapa", "d:out a:address rank", _ACTS, "9.7.9.23 mapa", "sm_90")                                  # attrs: space, type
GETCTARANK = _row("ptx.getctarank", "d:out a:address", _ACTS, "9.7.9.24 getctarank", "sm_90")                     # attrs: space, type

# ---- loads, stores and atomics with order. attrs: sem, scope, space, cop, nc, L1, prefetch, cache_hint, vec, type, op, noftz
LD = _row("ptx.ld", "*d:out src:read ?policy", _ACTS, "9.7.9.8 ld")
ST = _row("ptx.st", "dst:write *value ?policy", _ACTS, "9.7.9.11 st")
RED = _row("ptx.red", "dst:update *value ?policy", _ACTS, "9.7.13.6 red")
ATOM = _row("ptx.atom", "*d:out dst:update ?compare *value ?policy", _ACTS, "9.7.13.5 atom")
PREFETCH = _row("ptx.prefetch", "src:read", _ACTS, "9.7.9.15 prefetch")                                        # attrs: space, level
CREATE_POLICY = _row("ptx.createpolicy", "policy:out ?fraction", _ACTS, "9.7.9.18 createpolicy", "sm_80")         # attrs: primary, secondary

# ---- arithmetic on pairs of float32. attrs: rounding, ftz
_F32X2 = "9.7.3 add, sub, mul, fma .f32x2"
ADD_F32X2 = _row("ptx.add.f32x2", "d:out a b", _ACTS, _F32X2, "sm_100")
SUB_F32X2 = _row("ptx.sub.f32x2", "d:out a b", _ACTS, _F32X2, "sm_100")
MUL_F32X2 = _row("ptx.mul.f32x2", "d:out a b", _ACTS, _F32X2, "sm_100")
FMA_F32X2 = _row("ptx.fma.f32x2", "d:out a b c", _ACTS, _F32X2, "sm_100")

# Two floats rounded into one register: `a` above, `b` below. attrs: type f16x2|bf16x2, relu
CVT_PACK = _row("ptx.cvt", "d:out a b", _ACTS, "9.7.9.22 cvt", "sm_80")

# ---- the thread's own state
SETMAXNREG = _row("ptx.setmaxnreg", "", _TOGETHER | Effect.WAIT, "9.7.19.5 setmaxnreg", "sm_90a+")              # attrs: action inc|dec, n
LAUNCH_DEPENDENTS = _row("ptx.griddepcontrol.launch_dependents", "", _ACTS, "9.7.13.13 griddepcontrol", "sm_90")
GRID_WAIT = _row("ptx.griddepcontrol.wait", "", _WAITS, "9.7.13.13 griddepcontrol", "sm_90")
ELECT_SYNC = _row("ptx.elect.sync", "leader:out elected:out mask", _TOGETHER, "9.7.13.14 elect.sync", "sm_90")
CVTA_SHARED = _row("cuda.cvta_generic_to_shared", "ptr:address", Effect.PURE, "9.7.9.20 cvta", result="attr:dtype")       # a uint32

# ---- matrices of a warp. attrs: shape, num, trans, space; of mma d_type, a_type, b_type, c_type, satfinite
LDMATRIX = _row("ptx.ldmatrix", "*d:out src:read", _TOGETHER, "9.7.14.5.15 ldmatrix")
STMATRIX = _row("ptx.stmatrix", "dst:write *value", _TOGETHER, "9.7.14.5.16 stmatrix", "sm_90")
MMA = _row("ptx.mma", "*d:out *a *b *c", _TOGETHER, "9.7.14.5 mma")

# ---- wgmma. attrs: shape, d_type, a_type, b_type, satfinite, scale_a, scale_b, trans_a, trans_b; `a` is a descriptor or four registers
_WGMMA = "9.7.15 wgmma"
WGMMA_FENCE = _row("ptx.wgmma.fence", "", _BESIDE, _WGMMA, "sm_90a")
WGMMA_COMMIT = _row("ptx.wgmma.commit_group", "", _BESIDE, _WGMMA, "sm_90a")
WGMMA_WAIT = _row("ptx.wgmma.wait_group", "", _BESIDE, _WGMMA, "sm_90a")  # attrs: n
WGMMA = _row("ptx.wgmma.mma_async", "*d:inout *a b scale_d", _BESIDE, _WGMMA, "sm_90a")
WGMMA_NOOP_BARRIER = _row("cuda.wgmma.noop_barrier", "*reg:inout", _ACTS, _WGMMA)
WGMMA_DESCRIPTOR = _row("cuda.wgmma.encode_matrix_descriptor", "desc:out ptr:address ldo sdo", _ACTS, "9.7.15.5.1.2 matrix descriptor")  # swizzle

# ---- tcgen05. attrs: cta_group, and as commented; `a` of mma is a descriptor (uint64) or an address in tensor memory (uint32)
_TCGEN05 = "9.7.16 tcgen05"
TCGEN05_ALLOC = _row("ptx.tcgen05.alloc", "dst:write n_cols", _BESIDE, _TCGEN05, "sm_100a")
TCGEN05_DEALLOC = _row("ptx.tcgen05.dealloc", "taddr n_cols", _BESIDE, _TCGEN05, "sm_100a")
TCGEN05_RELINQUISH = _row("ptx.tcgen05.relinquish_alloc_permit", "", _BESIDE, _TCGEN05, "sm_100a")
TCGEN05_LD = _row("ptx.tcgen05.ld", "*d:out taddr", _BESIDE, _TCGEN05, "sm_100a")  # shape, num, pack, offset
TCGEN05_ST = _row("ptx.tcgen05.st", "taddr *value", _BESIDE, _TCGEN05, "sm_100a")  # shape, num, unpack, offset
TCGEN05_WAIT = _row("ptx.tcgen05.wait", "", _BESIDE, _TCGEN05, "sm_100a")  # wait ld|st
TCGEN05_CP = _row("ptx.tcgen05.cp", "taddr desc", _WAITS, _TCGEN05, "sm_100a")  # shape, multicast
TCGEN05_MMA = _row("ptx.tcgen05.mma", "d a b idesc *disable enable_d", _WAITS, _TCGEN05, "sm_100a")  # kind, scale_d
TCGEN05_COMMIT = _row("ptx.tcgen05.commit", "bar:barrier ?cta_mask", _WAITS, _TCGEN05, "sm_100a")  # multicast, space
TCGEN05_FENCE = _row("ptx.tcgen05.fence", "", _WAITS, _TCGEN05, "sm_100a")  # fence before_thread_sync|after_thread_sync
TMEM_ADDRESS = _row("cuda.get_tmem_addr", "addr row col", Effect.PURE, "9.7.16.1 tensor memory addressing", result="attr:dtype")  # uint32
TCGEN05_DESCRIPTOR = _row("cuda.tcgen05.encode_matrix_descriptor", "desc:out ptr:address ldo sdo", _ACTS, "9.7.16.4.1 matrix descriptor")  # swizzle

# The descriptor of the operand that starts at `ptr`, a uint64; attrs: fields, the bits beside the address.
MATRIX_DESCRIPTOR = _row("cuda.matrix_descriptor", "ptr:address", Effect.PURE, "9.7.15.5.1.2 matrix descriptor", result="attr:dtype")


def is_instruction(op: Operation) -> bool:
    """True for a row of this module: its operands have roles and its nodes `attrs["counts"]`."""
    return op in _ROWS


def operand_name(entry: str) -> str:
    """ "bar" of "?bar:barrier". """
    return entry.lstrip("*?").partition(":")[0]


def operand_role(entry: str) -> str:
    """ "barrier" of "?bar:barrier"; "" for a value. """
    return entry.partition(":")[2]


def roles(node: Node) -> list[tuple[str, Node]]:
    """(role, operand) for every operand of an instruction's node, in order."""
    entries = (entry for entry, count in zip(node.op.operands, node.attrs["counts"]) for _ in range(count))
    return [(operand_role(entry), operand) for entry, operand in zip(entries, node.operands, strict=True)]


def arguments(node: Node) -> dict[str, tuple[Node, ...]]:
    """The operands of an instruction's node by their name in the row: `arguments(node)["bar"]`; empty where left out."""
    found, start = {}, 0
    for entry, count in zip(node.op.operands, node.attrs["counts"], strict=True):
        found[operand_name(entry)] = node.operands[start:start + count]
        start += count
    return found


_ROWS = frozenset(value for value in list(globals().values()) if isinstance(value, Operation))
