"""How loads, stores and atomics with an order, a scope or a cache policy are written, and arithmetic on pairs. PTX ISA 9.7.9, 9.7.13."""

from __future__ import annotations

from collections.abc import Callable

from tracer import instructions as ins
from tracer.intrinsics.ptx.grammar import Modifiers, form
from tracer.intrinsics.ptx.types import BITS

_SCOPE = "[scope=cta|cluster|gpu|sys]"
_SPACE = "[space=global|shared|shared::cta|shared::cluster]"
_L1 = "[L1=L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate]"
_HINT = "[cache_hint=L2::cache_hint]"
_POLICY = "policy:u64 if cache_hint"
_TYPES = "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
_NEWER = {"cluster": "sm_90", "shared::cluster": "sm_90", "L2::cache_hint": "sm_80", "L2::256B": "sm_80"}


def _ordered(*strong: str) -> Callable[[Modifiers, Callable[[str], None]], None]:
    """`strong` orders name a scope, others none; hints on caches are for weak accesses to global memory."""
    def check(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
        sem = modifiers.get("sem")
        if (sem in strong) != ("scope" in modifiers):
            fail(f"a scope (.cta, .cluster, .gpu, .sys) is written with {' and '.join(f'.{s}' for s in strong)}, and only there")
        if modifiers.get("nc") and (modifiers.get("space") != "global" or sem is not None):
            fail(".nc is for a weak load of global memory")
        if modifiers.get("nc") and modifiers.get("cop") in ("lu", "cv"):
            fail(f".nc goes with .ca, .cg or .cs, not with .{modifiers['cop']}")
        if sem == "volatile" and ("L1" in modifiers or "cache_hint" in modifiers):
            fail("a volatile access takes no hints on L1 and L2")
        if modifiers.get("cop") and (sem not in (None, "weak") or "L1" in modifiers):
            fail(f"the cache operator .{modifiers['cop']} stands for itself: without an order and without .L1::")
        if (vec := modifiers.get("vec")) and vec * BITS[modifiers["type"]] > 128:
            fail(f"a vector has at most 16 bytes; .v{vec} of {modifiers['type']} has {vec * BITS[modifiers['type']] // 8}")
        shared = str(modifiers.get("space", "")).startswith("shared")
        for hint in ("L1", "cache_hint", "prefetch"):
            if shared and hint in modifiers:
                fail("hints on L1 and L2 are for global memory")
    return check


form(ins.LD, f"ld [sem=weak|volatile|relaxed|acquire] {_SCOPE} {_SPACE} [cop=ca|cg|cs|lu|cv] [nc] {_L1} {_HINT} [prefetch=L2::64B|L2::128B|L2::256B] "
     f"[vec=v2|v4] <type={_TYPES}>", f"{{d:type*vec}}, [src], {_POLICY}", newer=_NEWER, check=_ordered("relaxed", "acquire"))
form(ins.ST, f"st [sem=weak|volatile|relaxed|release] {_SCOPE} {_SPACE} [cop=wb|cg|cs|wt] {_L1} {_HINT} [vec=v2|v4] <type={_TYPES}>",
     f"[dst], {{value:type*vec}}, {_POLICY}", newer=_NEWER, check=_ordered("relaxed", "release"))

# ---- atomics

_SCALARS = {"add": "u32 s32 u64 f32 f64 f16 f16x2 bf16 bf16x2", "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64", "inc": "u32", "dec": "u32",
            "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64", "exch": "b32 b64", "cas": "b16 b32 b64"}
_VECTORS = {"add": "f32 f16 bf16 f16x2 bf16x2", "min": "f16 bf16 f16x2 bf16x2", "max": "f16 bf16 f16x2 bf16x2"}
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def _atomic(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
    op, element, vec = modifiers["op"], modifiers["type"], modifiers.get("vec")
    table = _VECTORS if vec else _SCALARS
    if element not in table.get(op, "").split():
        fail(f"`{op}`{' of vectors' if vec else ''} is there for {', '.join(table.get(op, 'no type').split())}; not {element}")
    if vec and modifiers.get("space") != "global":
        fail("vectors are added in global memory: write .global")
    if vec and vec * BITS[element] > 128:
        fail(f"a vector has at most 16 bytes; .v{vec} of {element} has {vec * BITS[element] // 8}")
    if modifiers.get("cache_hint") and str(modifiers.get("space", "")).startswith("shared"):
        fail("hints on L2 are for global memory")
    if bool(modifiers.get("noftz")) != (element in _HALVES):
        fail(f"`.noftz` is written with {', '.join(_HALVES)}, and only there; this is {element}")


_ATOMIC = "[sem={}] {} {} <op={}> [noftz] {} [vec=v2|v4|v8] <type=b32|b64|u32|u64|s32|s64|f32|f64|f16|f16x2|bf16|bf16x2>"
_BINARY = "add|min|max|inc|dec|and|or|xor"
_LATER = {**_NEWER, "bf16": "sm_90", "bf16x2": "sm_90", "v2": "sm_90", "v4": "sm_90", "v8": "sm_90"}
form(ins.RED, f"red {_ATOMIC.format('relaxed|release', _SCOPE, _SPACE, _BINARY, _HINT)}", f"[dst], {{value:type*vec}}, {_POLICY}", newer=_LATER,
     check=_atomic)
form(ins.ATOM, f"atom {_ATOMIC.format('relaxed|acquire|release|acq_rel', _SCOPE, _SPACE, f'{_BINARY}|exch', _HINT)}",
     f"{{d:type*vec}}, [dst], {{value:type*vec}}, {_POLICY}", newer=_LATER, check=_atomic)
form(ins.ATOM, f"atom [sem=relaxed|acquire|release|acq_rel] {_SCOPE} {_SPACE} <op=cas> <type=b16|b32|b64>",
     "d:type, [dst], compare:type, value:type", newer=_NEWER, check=_atomic)

# ---- caches

form(ins.PREFETCH, "prefetch [space=global] <level=L1|L2>", "[src]")
form(ins.PREFETCH, "prefetch <space=global> <level=L2::evict_last|L2::evict_normal>", "[src]", since="sm_80")
form(ins.CREATE_POLICY, "createpolicy.fractional <primary=L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged> "
     "[secondary=L2::evict_first|L2::evict_unchanged] (b64)", "policy:u64, fraction?:f32", computes=True)

# ---- arithmetic on two float32 in a 64-bit register

_ROUNDING = "[rounding=rn|rz|rm|rp] [ftz] (f32x2)"
for _op, _word in ((ins.ADD_F32X2, "add"), (ins.SUB_F32X2, "sub"), (ins.MUL_F32X2, "mul")):
    form(_op, f"{_word} {_ROUNDING}", "d:f32x2, a:f32x2, b:f32x2", computes=True)
form(ins.FMA_F32X2, "fma <rounding=rn|rz|rm|rp> [ftz] (f32x2)", "d:f32x2, a:f32x2, b:f32x2, c:f32x2", computes=True)
