"""The forms of the matrix instructions, as data: which shapes go with which types, and in what registers.

Sources: PTX ISA 9.7.14.5 (mma), 9.7.15.5 (wgmma), 9.7.16.4.2 (the instruction descriptor of tcgen05); each form was put to ptxas 13.0.
Not built, and refused by name: the quarter-warp m8n8k4 of f16, four-bit and one-bit elements, sparse and block-scaled forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from symbolic.layout import Fragment, fragment, wgmma_accumulator

# The register that holds elements of a type: PTX's .f32, .f64, .s32 and, for everything that is packed, .b32.
REGISTER: Final = {"f32": "float32", "f64": "float64", "s32": "int32"}
PACKED: Final = "uint32"
BITS: Final = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f32": 32, "f64": 64, "s32": 32}


def register_of(kind: str) -> str:
    """The dtype of the register that holds elements of a PTX type."""
    return REGISTER.get(kind, PACKED)


def registers_of(elements: int, kind: str) -> int:
    """How many registers hold so many elements of a PTX type."""
    return elements if kind in REGISTER else elements * BITS[kind] // 32


# ---- mma.sync ----------------------------------------------------------------------------------------------------------

class MmaForm(NamedTuple):
    """One form of mma.sync. `family` names its rows in `symbolic.layout.FRAGMENTS`; `saturates`: .satfinite may be asked for."""

    shape: str
    d: str
    a: str
    b: str
    since: str
    family: str
    saturates: bool = False

    def fragment(self, operand: str) -> Fragment:
        """The map of operand "A", "B", "C" or "D"."""
        return fragment(f"mma.{self.shape}.{self.family}", "C" if operand == "D" else operand)

    def counts(self) -> tuple[int, int, int, int]:
        """Registers of d, a, b and c."""
        d = registers_of(self.fragment("C").elements, self.d)
        return d, registers_of(self.fragment("A").elements, self.a), registers_of(self.fragment("B").elements, self.b), d


def _mma_forms() -> Iterator[MmaForm]:
    for shape, since in (("m16n8k8", "sm_75"), ("m16n8k16", "sm_80")):
        yield from (MmaForm(shape, d, "f16", "f16", since, "f16") for d in ("f16", "f32"))
        yield MmaForm(shape, "f32", "bf16", "bf16", "sm_80", "f16")
    yield from (MmaForm(shape, "f32", "tf32", "tf32", "sm_80", "tf32") for shape in ("m16n8k4", "m16n8k8"))
    for shape in ("m16n8k16", "m16n8k32"):
        yield from (MmaForm(shape, d, a, b, "sm_89", "b8") for d in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2"))
    for shape, since in (("m8n8k16", "sm_75"), ("m16n8k16", "sm_80"), ("m16n8k32", "sm_80")):
        yield from (MmaForm(shape, "s32", a, b, since, "b8", True) for a in ("s8", "u8") for b in ("s8", "u8"))
    yield from (MmaForm(shape, "f64", "f64", "f64", since, "f64")
                for shape, since in (("m8n8k4", "sm_80"), ("m16n8k4", "sm_90"), ("m16n8k8", "sm_90"), ("m16n8k16", "sm_90")))


# (shape, type of d and c, of a, of b)
MMA_FORMS: Final = {(f.shape, f.d, f.a, f.b): f for f in _mma_forms()}


# ---- wgmma -------------------------------------------------------------------------------------------------------------

class WgmmaForm(NamedTuple):
    """One form of wgmma.mma_async, m64nNk`k`: `scales`, it has imm-scale-a and b; `transposes`, it has imm-trans-a and b."""

    d: str
    a: str
    b: str
    k: int
    family: str
    scales: bool = True
    transposes: bool = False

    @property
    def widths(self) -> tuple[int, ...]:
        """The Ns that there are."""
        return tuple(n for n in range(8, 257, 8) if self.d != "s32" or n <= 32 or n % 16 == 0)

    def accumulator(self, n: int) -> Fragment:
        """The map of D."""
        return wgmma_accumulator(n, BITS[self.d])

    def a_fragment(self) -> Fragment:
        """The map of A in registers."""
        return fragment(f"wgmma.m64k{self.k}.{self.family}", "A")


def _wgmma_forms() -> Iterator[WgmmaForm]:
    yield from (WgmmaForm(d, "f16", "f16", 16, "f16", transposes=True) for d in ("f16", "f32"))
    yield WgmmaForm("f32", "bf16", "bf16", 16, "f16", transposes=True)
    yield WgmmaForm("f32", "tf32", "tf32", 8, "tf32")
    yield from (WgmmaForm(d, a, b, 32, "b8") for d in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2"))
    yield from (WgmmaForm("s32", a, b, 32, "b8", scales=False) for a in ("s8", "u8") for b in ("s8", "u8"))


WGMMA_FORMS: Final = {(f.d, f.a, f.b): f for f in _wgmma_forms()}


# ---- tcgen05.mma -------------------------------------------------------------------------------------------------------

class Tcgen05Kind(NamedTuple):
    """One `.kind` of tcgen05.mma: its K, and the codes of its operands' and its results' types in the instruction descriptor."""

    k: int
    inputs: dict[str, int]
    outputs: dict[str, int]


TCGEN05_KINDS: Final = {
    "f16": Tcgen05Kind(16, {"f16": 0, "bf16": 1}, {"f16": 0, "f32": 1}),
    "tf32": Tcgen05Kind(8, {"tf32": 2}, {"f32": 1}),
}


@dataclass(frozen=True)
class InstructionDescriptor:
    """What tcgen05.mma is to do, as the 32 bits of PTX ISA 9.7.16.4.2 say it: types, negations, majors and shape."""

    kind: str
    d: str
    a: str
    b: str
    m: int
    n: int
    negate_a: bool = False
    negate_b: bool = False
    transpose_a: bool = False       # MN-major
    transpose_b: bool = False

    def problem(self) -> str | None:
        """Why cta_group::1 has no such instruction, or None."""
        kind = TCGEN05_KINDS[self.kind]
        if self.d not in kind.outputs or self.a not in kind.inputs or self.b not in kind.inputs:
            return (f"kind::{self.kind} multiplies {', '.join(kind.inputs)} into {', '.join(kind.outputs)}, not {self.a} by {self.b} into {self.d}")
        step = {64: 8, 128: 16}.get(self.m)
        if step is None:
            return f"cta_group::1 has M = 64 and 128, not {self.m}"
        if self.n % step or not step <= self.n <= 256:
            return f"M = {self.m} has N = {step}, {2 * step}, .., 256, not {self.n}"
        if self.kind == "tf32" and (self.transpose_a or self.transpose_b):
            return "MN-major tf32 operands (the 128-byte swizzle with 32-byte atoms) are not built yet"
        return None

    def encode(self) -> int:
        """The 32 bits."""
        kind = TCGEN05_KINDS[self.kind]
        return (kind.outputs[self.d] << 4 | kind.inputs[self.a] << 7 | kind.inputs[self.b] << 10 | self.negate_a << 13 | self.negate_b << 14
                | self.transpose_a << 15 | self.transpose_b << 16 | self.n >> 3 << 17 | self.m >> 4 << 24)

    @staticmethod
    def decode(bits: int, kind: str) -> InstructionDescriptor | str:
        """What the bits say to an instruction of this kind, or why they say nothing."""
        row = TCGEN05_KINDS[kind]
        if bits & (0b1111 | 1 << 6 | 1 << 23 | 7 << 29):
            return f"{bits:#010x} sets bits of sparse, saturating or other forms (0-3, 6, 23, 29-31), which are not built"
        names = [{code: name for name, code in codes.items()}.get(bits >> low & mask)
                 for codes, low, mask in ((row.outputs, 4, 3), (row.inputs, 7, 7), (row.inputs, 10, 7))]
        if None in names:
            return (f"{bits:#010x} has the type codes d {bits >> 4 & 3}, a {bits >> 7 & 7}, b {bits >> 10 & 7}; kind::{kind} has d {row.outputs} "
                    f"and a, b {row.inputs}")
        d, a, b = (str(name) for name in names)
        flags = (bool(bits >> k & 1) for k in (13, 14, 15, 16))
        made = InstructionDescriptor(kind, d, a, b, (bits >> 24 & 31) << 4, (bits >> 17 & 63) << 3, *flags)
        return made.problem() or made
