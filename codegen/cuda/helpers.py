"""Device functions and macros that the emitted source may need, each written once and only where used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from codegen.cuda.names import reserve_called


@dataclass(frozen=True, slots=True)
class Helper:
    """A piece of source that stands before the kernel, with the headers it needs."""

    text: str
    headers: tuple[str, ...] = ()


HELPERS: dict[str, Helper] = {}


def helper(key: str, text: str, headers: Iterable[str] = ()) -> str:
    """Add a helper to the library; the answer is `key`."""
    HELPERS[key] = Helper(text.strip("\n"), tuple(headers))
    reserve_called(text)
    return key


@dataclass(eq=False, slots=True)
class Needs:
    """What one source file turned out to need, filled while it is written."""

    headers: set[str] = field(default_factory=set)
    helpers: dict[str, Helper] = field(default_factory=dict)

    def helper(self, key: str, made: Helper | None = None) -> None:
        """Ask for the helper `key` of the library, or for `made`, a helper of this file alone."""
        found = made or HELPERS[key]
        self.helpers[key] = found
        self.headers.update(found.headers)

    def preamble(self) -> list[str]:
        """The lines before the kernel: headers in alphabetical order, then helpers by key."""
        lines = [f"#include <{header}>" for header in sorted(self.headers)]
        for key in sorted(self.helpers):
            lines += ["", *self.helpers[key].text.split("\n")]
        return lines


# NVRTC has no <math.h>; the patterns are IEEE 754's infinity and the canonical NaN of PTX.
for name, bits in (("INFINITY", "0x7f800000"), ("NAN", "0x7fffffff")):
    helper(name, f"""
#ifndef {name}
#define {name} __int_as_float({bits})
#endif""")

helper("bit_cast", """
// The bits of a value, read as another type of the same size.
template <typename To, typename From>
__device__ __forceinline__ To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast between types of different sizes");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}""")

# 4-bit floats, two a byte, the first in the low half.
helper("float4_half", """
__device__ __forceinline__ __nv_fp4_e2m1 float4_half(unsigned char pair, int which) {
  __nv_fp4_e2m1 x;
  x.__x = (pair >> 4 * which) & 15;
  return x;
}""")
helper("float4_pair", """
__device__ __forceinline__ unsigned char float4_pair(__nv_fp4_e2m1 low, __nv_fp4_e2m1 high) {
  return (unsigned char)((low.__x & 15) | high.__x << 4);
}""")
helper("float4_load", """
__device__ __forceinline__ __nv_fp4_e2m1 float4_load(const unsigned char* pairs, long long index) {
  __nv_fp4_e2m1 x;
  x.__x = (pairs[index >> 1] >> 4 * (int)(index & 1)) & 15;
  return x;
}""")
helper("float4_store", """
__device__ __forceinline__ void float4_store(unsigned char* pairs, long long index, __nv_fp4_e2m1 x) {
  const int shift = 4 * (int)(index & 1);
  pairs[index >> 1] = (unsigned char)((pairs[index >> 1] & 240 >> shift) | (x.__x & 15) << shift);
}""")

# As cuda.h has it, which not every compiler finds.
helper("CUtensorMap", """
#ifndef __cuda_cuda_h__
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
#endif""")

for dtype, c in (("int32", "int"), ("int64", "long long")):
    unsigned = f"unsigned {c}"
    helper(f"floordiv_{dtype}", f"""
// Division rounded down, for operands of any sign.
__device__ __forceinline__ {c} floordiv({c} a, {c} b) {{
  const {c} q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}}""")
    helper(f"floormod_{dtype}", f"""
// The remainder of division rounded down: it has the sign of b.
__device__ __forceinline__ {c} floormod({c} a, {c} b) {{
  const {c} r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}}""")
    # Signed overflow is undefined in C++ and compilers build on that; unsigned arithmetic wraps.
    for operation, sign in (("add", "+"), ("sub", "-"), ("mul", "*")):
        helper(f"wrap_{operation}_{dtype}", f"""
__device__ __forceinline__ {c} wrap_{operation}({c} a, {c} b) {{ return ({c})(({unsigned})a {sign} ({unsigned})b); }}""")
    helper(f"wrap_neg_{dtype}", f"""
__device__ __forceinline__ {c} wrap_neg({c} a) {{ return ({c})(0 - ({unsigned})a); }}""")

# Measured on an H200: ptxas 13.0 takes the 16-bit negation of -32768 for 32768 where the result is widened. In 32 bits, out of
# the compiler's sight, it is right.
helper("wrap_neg_int16", """
__device__ __forceinline__ short wrap_neg(short a) {
  int b;
  asm("neg.s32 %0, %1;" : "=r"(b) : "r"((int)a));
  return (short)b;
}""")

# Python's float // and %, by the method of CPython's float_divmod: fmod is exact, then the sign is mended.
for dtype, c, f in (("float32", "float", "f"), ("float64", "double", "")):
    zero = "0.0f" if f else "0.0"
    helper(f"floormod_{dtype}", f"""
// The remainder of division rounded down: it has the sign of b.
__device__ __forceinline__ {c} floormod({c} a, {c} b) {{
  const {c} r = fmod{f}(a, b);
  if (r == {zero}) return copysign{f}({zero}, b);
  return (r < {zero}) != (b < {zero}) ? r + b : r;
}}""")
    helper(f"floordiv_{dtype}", f"""
// Division rounded down; the quotient is rounded only once.
__device__ __forceinline__ {c} floordiv({c} a, {c} b) {{
  if (b == {zero}) return a / b;
  const {c} r = fmod{f}(a, b);
  const {c} q = (a - r) / b - (r != {zero} && (r < {zero}) != (b < {zero}) ? 1.0{f} : {zero});
  if (q == {zero}) return copysign{f}({zero}, a / b);
  const {c} whole = floor{f}(q);
  return q - whole > 0.5{f} ? whole + 1.0{f} : whole;
}}""")

# Float to integer. PTX ISA, cvt: the result is clamped to the destination's range, and NaN gives 0 unless the source is .f64 or
# the destination 64 bits wide; then it gives 1 << (bits - 1), so that NaN is told apart here. The instruction stops at 32
# bits, so narrower types are clamped here too.
for source, c, f in (("float32", "float", "float"), ("float64", "double", "double")):
    for target, c_target, instruction in (("int32", "int", "int"), ("uint32", "unsigned int", "uint"),
                                          ("int64", "long long", "ll"), ("uint64", "unsigned long long", "ull")):
        helper(f"to_{target}_{source}", f"""
// Truncates and saturates; NaN gives 0.
__device__ __forceinline__ {c_target} to_{target}({c} x) {{ return x == x ? __{f}2{instruction}_rz(x) : 0; }}""")
    for target, c_target, low, high in (("int8", "signed char", -128, 127), ("uint8", "unsigned char", 0, 255),
                                        ("int16", "short", -32768, 32767), ("uint16", "unsigned short", 0, 65535)):
        helper(f"to_{target}_{source}", f"""
// Truncates and saturates; NaN gives 0.
__device__ __forceinline__ {c_target} to_{target}({c} x) {{
  return x == x ? ({c_target})min(max(__{f}2int_rz(x), {low}), {high}) : 0;
}}""")
