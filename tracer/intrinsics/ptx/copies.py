"""How asynchronous copies are written: `cp.async`, bulk copies, tensor copies, and stores into other blocks. PTX ISA 9.7.9.25 to 9.7.9.27."""

from __future__ import annotations

from collections.abc import Callable

from tracer import instructions as ins
from tracer.intrinsics.ptx.grammar import Modifiers, form
from tracer.intrinsics.ptx.types import BITS

_HINT = "[cache_hint=L2::cache_hint]"
_POLICY = "policy:u64 if cache_hint"
_BY_BARRIER = "<completion=mbarrier::complete_tx::bytes>"
_BY_GROUP = "<completion=bulk_group>"
_MULTICAST = "[multicast=multicast::cluster]"
_MASK = "cta_mask:b16 if multicast"
_LETTER = {"multicast::cluster": "sm_90a+"}         # ptxas warns of it elsewhere


# ---- cp.async

def _whole_lines(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
    if modifiers["cache"] == "cg" and modifiers["size"] != 16:
        fail(f"`cg` copies 16 bytes at a time, not {modifiers['size']}; write `ca` for 4 and 8")


for _behind in ("src_size?:u32", "ignore_src:pred"):
    form(ins.CP_ASYNC, f"cp.async <cache=ca|cg> <space=shared|shared::cta> (global) {_HINT} [prefetch=L2::64B|L2::128B|L2::256B]",
         f"[dst], [src@global], size#, {_behind}, {_POLICY}", limits={"size": (4, 8, 16)}, check=_whole_lines)
form(ins.CP_ASYNC_COMMIT, "cp.async.commit_group")
form(ins.CP_ASYNC_WAIT_GROUP, "cp.async.wait_group", "n#", limits={"n": range(64)})
form(ins.CP_ASYNC_WAIT_ALL, "cp.async.wait_all")
form(ins.CP_ASYNC_MBARRIER_ARRIVE, "cp.async.mbarrier.arrive [noinc] [space=shared|shared::cta] (b64)", "[bar]")

# ---- bulk copies

def _pieces(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
    if modifiers.get("size", 0) % 16:
        fail(f"bulk copies move multiples of 16 bytes, not {modifiers['size']}")


_FROM_GLOBAL = "<src_space=global>"
_FROM_SHARED = "<src_space=shared::cta>"
form(ins.BULK, f"cp.async.bulk <dst_space=shared::cluster> {_FROM_GLOBAL} {_BY_BARRIER} {_MULTICAST} {_HINT}",
     f"[dst@dst_space], [src@src_space], size:u32, [bar@shared], {_MASK}, {_POLICY}", newer=_LETTER, check=_pieces)
form(ins.BULK, f"cp.async.bulk <dst_space=shared::cta> {_FROM_GLOBAL} {_BY_BARRIER} {_HINT}",
     f"[dst@dst_space], [src@src_space], size:u32, [bar@shared], {_POLICY}", check=_pieces)
form(ins.BULK, f"cp.async.bulk <dst_space=shared::cluster> {_FROM_SHARED} {_BY_BARRIER}",
     "[dst@dst_space], [src@src_space], size:u32, [bar@dst_space]", check=_pieces)
form(ins.BULK, f"cp.async.bulk <dst_space=global> {_FROM_SHARED} {_BY_GROUP} {_HINT}", f"[dst@dst_space], [src@src_space], size:u32, {_POLICY}",
     check=_pieces)
form(ins.BULK_PREFETCH, f"cp.async.bulk.prefetch <level=L2> {_FROM_GLOBAL} {_HINT}", f"[src@src_space], size:u32, {_POLICY}", check=_pieces)
form(ins.BULK_COMMIT, "cp.async.bulk.commit_group")
form(ins.BULK_WAIT_GROUP, "cp.async.bulk.wait_group [read]", "n#", limits={"n": range(64)})


# Which types each reduction has, in shared memory of the cluster and in global memory.
_IN_CLUSTER = {"add": "s32 u32 u64", "min": "s32 u32", "max": "s32 u32", "inc": "u32", "dec": "u32", "and": "b32", "or": "b32", "xor": "b32"}
_IN_GLOBAL = {"add": "u32 s32 u64 f32 f64 f16 bf16", "min": "u32 s32 u64 s64 f16 bf16", "max": "u32 s32 u64 s64 f16 bf16", "inc": "u32", "dec": "u32",
              "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64"}


def _reduces(table: dict[str, str]) -> Callable[[Modifiers, Callable[[str], None]], None]:
    def check(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
        _pieces(modifiers, fail)
        op, element = modifiers["op"], modifiers["type"]
        if element not in table[op].split():
            fail(f"`{op}` reduces {', '.join(table[op].split())}; not {element}")
        wanted = op == "add" and element in ("f16", "bf16")
        if bool(modifiers.get("noftz")) != wanted:
            fail(f"`.noftz` is written with `add` of f16 and bf16, and only there; this is `{op}` of {element}")
    return check


_OPS = "<op=add|min|max|inc|dec|and|or|xor>"
form(ins.BULK_REDUCE, f"cp.reduce.async.bulk <dst_space=shared::cluster> {_FROM_SHARED} {_BY_BARRIER} {_OPS} <type=s32|u32|u64|b32>",
     "[dst@dst_space], [src@src_space], size:u32, [bar@dst_space]", check=_reduces(_IN_CLUSTER))
form(ins.BULK_REDUCE, f"cp.reduce.async.bulk <dst_space=global> {_FROM_SHARED} {_BY_GROUP} {_HINT} {_OPS} [noftz] "
     "<type=f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64>", f"[dst@dst_space], [src@src_space], size:u32, {_POLICY}", check=_reduces(_IN_GLOBAL))

# ---- tensor copies

_DIM = "<dim=1d|2d|3d|4d|5d>"
_PAIR = "[cta_group=cta_group::1|cta_group::2]"
_PAIRED = {"cta_group::1": "sm_100a", "cta_group::2": "sm_100a"}
form(ins.TENSOR_LOAD, f"cp.async.bulk.tensor {_DIM} <dst_space=shared::cluster> {_FROM_GLOBAL} [tile] {_BY_BARRIER} {_MULTICAST} {_PAIR} {_HINT}",
     f"[dst@dst_space], [map, {{at:s32*dim}}], [bar@shared], {_MASK}, {_POLICY}", newer={**_PAIRED, **_LETTER})
form(ins.TENSOR_LOAD, f"cp.async.bulk.tensor {_DIM} <dst_space=shared::cta> {_FROM_GLOBAL} [tile] {_BY_BARRIER} {_PAIR} {_HINT}",
     f"[dst@dst_space], [map, {{at:s32*dim}}], [bar@shared], {_POLICY}", newer=_PAIRED)
form(ins.TENSOR_STORE, f"cp.async.bulk.tensor {_DIM} <dst_space=global> {_FROM_SHARED} [tile] {_BY_GROUP} {_HINT}",
     f"[map, {{at:s32*dim}}], [src@src_space], {_POLICY}")
form(ins.TENSOR_REDUCE, f"cp.reduce.async.bulk.tensor {_DIM} <dst_space=global> {_FROM_SHARED} {_OPS} [tile] {_BY_GROUP} {_HINT}",
     f"[map, {{at:s32*dim}}], [src@src_space], {_POLICY}")
form(ins.TENSOR_PREFETCH, f"cp.async.bulk.prefetch.tensor {_DIM} <level=L2> {_FROM_GLOBAL} [tile] {_HINT}", f"[map, {{at:s32*dim}}], {_POLICY}")
form(ins.PREFETCH_TENSORMAP, "prefetch.tensormap", "[map]")

# ---- other blocks of the cluster

_REMOTE = "<space=shared::cluster>"
_NUMBERS = "b32|b64|u32|u64|s32|s64|f32|f64"
def _sixteen_bytes(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
    vec, element = modifiers.get("vec", 1), modifiers["type"]
    if vec * BITS[element] > 128:
        fail(f"a vector has at most 16 bytes; .v{vec} of {element} has {vec * BITS[element] // 8}")


form(ins.ST_ASYNC, f"st.async [sem=weak] {_REMOTE} {_BY_BARRIER} [vec=v2|v4] <type={_NUMBERS}>", "[dst], {value:type*vec}, [bar]",
     check=_sixteen_bytes)
form(ins.RED_ASYNC, f"red.async <sem=relaxed> <scope=cluster> {_REMOTE} {_BY_BARRIER} {_OPS} <type=u32|s32|u64|b32>", "[dst], value:type, [bar]",
     check=_reduces(_IN_CLUSTER))
form(ins.MAPA, "mapa <space=shared::cluster> <type=u32>", "d:u32, a, rank:u32", computes=True)
form(ins.MAPA, "mapa <type=u64>", "d:u64, a, rank:u32", computes=True)
form(ins.GETCTARANK, "getctarank <space=shared::cluster> <type=u32>", "d:u32, a", computes=True)
form(ins.GETCTARANK, "getctarank <type=u64>", "d:u32, a", computes=True)
