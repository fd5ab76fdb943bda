"""How the matrix instructions are written: ldmatrix, stmatrix, mma, wgmma, tcgen05. PTX ISA 9.7.14 to 9.7.16."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tracer import instructions as ins
from tracer.intrinsics.ptx.grammar import NOT_BUILT, Modifiers, form
from tracer.matrix import MMA_FORMS, REGISTER, WGMMA_FORMS, MmaForm, WgmmaForm

_SHARED = "[space=shared|shared::cta]"


# ---- matrices of a warp

form(ins.LDMATRIX, f"ldmatrix.sync.aligned <shape=m8n8> <num=x1|x2|x4> [trans] {_SHARED} (b16)", "{d:b32*num}, [src]")
form(ins.STMATRIX, f"stmatrix.sync.aligned <shape=m8n8> <num=x1|x2|x4> [trans] {_SHARED} (b16)", "[dst], {value:b32*num}")


def _any(words: Iterable[str]) -> str:
    return "|".join(dict.fromkeys(words))


def _register(kind: str) -> str:
    """The type of the registers that hold elements of a type, for the operand text."""
    return kind if kind in REGISTER else "b32"


def _mma_groups() -> Iterator[list[MmaForm]]:
    """Forms that differ only in the types of a and b, which are chosen one without the other."""
    groups: dict[tuple[str, ...], list[MmaForm]] = {}
    for f in MMA_FORMS.values():
        free = f.family == "b8"
        groups.setdefault((f.shape, f.d, "b8" if free else f.a, str(f.saturates)), []).append(f)
    yield from groups.values()


for _group in _mma_groups():
    _one = _group[0]
    _d, _a, _b, _ = _one.counts()
    _satfinite = "[satfinite]" if _one.saturates else ""
    form(ins.MMA, f"mma.sync.aligned <shape={_one.shape}> row.col {_satfinite} <d_type={_one.d}> <a_type={_any(f.a for f in _group)}> "
         f"<b_type={_any(f.b for f in _group)}> <c_type={_one.d}>",
         f"{{d:{_register(_one.d)}*{_d}}}, {{a:{_register(_one.a)}*{_a}}}, {{b:{_register(_one.b)}*{_b}}}, {{c:{_register(_one.d)}*{_d}}}",
         since=_one.since, computes=True)


form(ins.CVT_PACK, "cvt.rn [relu] <type=f16x2|bf16x2> f32", "d:type, a:f32, b:f32", computes=True)


# ---- wgmma

form(ins.WGMMA_FENCE, "wgmma.fence.sync.aligned")
form(ins.WGMMA_COMMIT, "wgmma.commit_group.sync.aligned")
form(ins.WGMMA_WAIT, "wgmma.wait_group.sync.aligned", "n#", limits={"n": range(8)})

_SIGN = (1, -1)
_FLAG = (0, 1)


def _wgmma_groups() -> Iterator[list[WgmmaForm]]:
    groups: dict[tuple[object, ...], list[WgmmaForm]] = {}
    for f in WGMMA_FORMS.values():
        groups.setdefault((f.d, "b8" if f.family == "b8" else f.a, f.scales), []).append(f)
    yield from groups.values()


for _forms in _wgmma_groups():
    _w = _forms[0]
    _shapes = _any(f"m64n{n}k{_w.k}" for n in _w.widths)
    _words = (f"wgmma.mma_async.sync.aligned <shape={_shapes}> {'' if _w.scales else '[satfinite]'} <d_type={_w.d}> "
              f"<a_type={_any(f.a for f in _forms)}> <b_type={_any(f.b for f in _forms)}>")
    _accumulator = f"{{d:{_register(_w.d)}*{'n/4' if _w.d == 'f16' else 'n/2'}}}"
    _scales = ", scale_a#?=1, scale_b#?=1" if _w.scales else ""
    for _operand, _transposes in (("a:b64", ", trans_a#?=0, trans_b#?=0"), ("{a:b32*4}", ", trans_b#?=0")):
        form(ins.WGMMA, _words, f"{_accumulator}, {_operand}, b:b64, scale_d:pred{_scales}{_transposes if _w.transposes else ''}",
             limits={"scale_a": _SIGN, "scale_b": _SIGN, "trans_a": _FLAG, "trans_b": _FLAG})


# ---- tcgen05

def _alone(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
    if modifiers.get("cta_group") == 2:
        fail("cta_group::2 (pairs of blocks) is not built yet; write cta_group::1")


_CTA_GROUP = "<cta_group=cta_group::1|cta_group::2>"
_NUMS = "|".join(f"x{1 << k}" for k in range(8))

form(ins.TCGEN05_ALLOC, f"tcgen05.alloc {_CTA_GROUP} (sync) (aligned) [space=shared::cta] (b32)", "[dst], n_cols:u32", check=_alone)
form(ins.TCGEN05_DEALLOC, f"tcgen05.dealloc {_CTA_GROUP} (sync) (aligned) (b32)", "taddr:u32, n_cols:u32", check=_alone)
form(ins.TCGEN05_RELINQUISH, f"tcgen05.relinquish_alloc_permit {_CTA_GROUP} (sync) (aligned)", check=_alone)


def _few(registers: int) -> Callable[[Modifiers, Callable[[str], None]], None]:
    """A thread has at most 128 registers of one tcgen05.ld or st."""
    def check(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
        if modifiers["num"] * registers > 128:
            fail(f"{modifiers['shape']} has at most x{128 // registers}")
    return check


for _layout, _registers in (("32x32b", 1), ("16x64b", 1), ("16x128b", 2), ("16x256b", 4), ("16x32bx2", 1)):
    _count = f"{_registers}num" if _registers > 1 else "num"
    _offset = ", offset#" if _layout == "16x32bx2" else ""
    _start = f"sync.aligned <shape={_layout}> <num={_NUMS}>"
    form(ins.TCGEN05_LD, f"tcgen05.ld {_start} [pack=pack::16b] (b32)", f"{{d:b32*{_count}}}, [taddr:u32]{_offset}", check=_few(_registers))
    form(ins.TCGEN05_ST, f"tcgen05.st {_start} [unpack=unpack::16b] (b32)", f"[taddr:u32]{_offset}, {{value:b32*{_count}}}", check=_few(_registers))
form(ins.TCGEN05_WAIT, "tcgen05 <wait=wait::ld|wait::st> (sync) (aligned)")
form(ins.TCGEN05_FENCE, "tcgen05 <fence=fence::before_thread_sync|fence::after_thread_sync>")
form(ins.TCGEN05_CP, f"tcgen05.cp {_CTA_GROUP} <shape=128x256b|128x128b>", "[taddr:u32], desc:b64", check=_alone)
form(ins.TCGEN05_CP, f"tcgen05.cp {_CTA_GROUP} <shape=64x128b> <multicast=warpx2::02_13|warpx2::01_23>", "[taddr:u32], desc:b64", check=_alone)
form(ins.TCGEN05_CP, f"tcgen05.cp {_CTA_GROUP} <shape=32x128b> <multicast=warpx4>", "[taddr:u32], desc:b64", check=_alone)
_COMMIT = f"tcgen05.commit {_CTA_GROUP} (mbarrier::arrive::one)"
form(ins.TCGEN05_COMMIT, f"{_COMMIT} [space=shared::cluster] (b64)", "[bar]", check=_alone)
form(ins.TCGEN05_COMMIT, f"{_COMMIT} <space=shared::cluster> <multicast=multicast::cluster> (b64)", "[bar], cta_mask:u16", check=_alone)


def _dense(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
    _alone(modifiers, fail)
    if modifiers["kind"] not in ("f16", "tf32"):
        fail(f"kind::{modifiers['kind']} is not built yet; kind::f16 (f16 and bf16) and kind::tf32 are")


_KINDS = "<kind=kind::f16|kind::tf32|kind::f8f6f4|kind::i8>"
for _left in ("a:b64", "[a:u32]"):
    for _mask in ("", "{disable:b32*4}, "):
        for _scale in ("", ", scale_d#"):
            form(ins.TCGEN05_MMA, f"tcgen05.mma {_CTA_GROUP} {_KINDS}", f"[d:u32], {_left}, b:b64, idesc:u32, {_mask}enable_d:pred{_scale}",
                 check=_dense, limits={"scale_d": range(16)})


# ---- what there is not

_SCALED = "block-scaled kinds"
NOT_BUILT.update({
    "ws": "weight-stationary products", "sp": "sparse products", "sp::ordered_metadata": "sparse products", "block_scale": _SCALED,
    "kind::mxf8f6f4": _SCALED, "kind::mxf4": _SCALED, "kind::mxf4nvf4": _SCALED, "shift": "shifts of tensor memory",
    "4x256b": "copies of 4 rows into tensor memory", "m16n16": "matrices of 8-bit elements", "m8n16": "matrices of elements below 16 bits",
    "m16n8": "matrices of 8-bit elements", "s4": "products of 4-bit elements", "u4": "products of 4-bit elements", "b1": "products of bits",
    "collector::a::fill": "collector buffers", "collector::a::use": "collector buffers", "collector::a::lastuse": "collector buffers",
})
