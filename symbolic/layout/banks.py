"""What a warp's access to shared memory costs, in passes through the banks.

32 banks of 4 bytes, the bank of a byte being (byte / 4) % 32; lanes that touch one word share it. A warp whose lanes move 8 bytes
each is served in two halves, 16 bytes in four quarters: a pass moves at most 128 bytes. Source: CUDA C++ Programming Guide,
"Shared Memory" of compute capability 5.x and later; the vector widths as measured by profilers' wavefront counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symbolic.layout.errors import LayoutError

if TYPE_CHECKING:
    from symbolic.layout.swizzle import Layout

BANKS, WORD, PASS_BYTES = 32, 4, 128
BITS: dict[str, int] = {
    "bool": 8, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64,
    "float16": 16, "bfloat16": 16, "float32": 32, "float64": 64, "tfloat32": 32,
    "float8_e4m3fn": 8, "float8_e5m2": 8, "float8_e8m0fnu": 8, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4,
}


def bits_of(dtype: str) -> int:
    """The width of an element in bits. Raises LayoutError for an unknown dtype."""
    if dtype not in BITS:
        raise LayoutError(f"dtype {dtype!r} is not known here; known are {', '.join(BITS)}")
    return BITS[dtype]


@dataclass(frozen=True)
class BankConflicts:
    """`ways` is the greatest number of words that one bank serves in one part of the access; 1 is free of conflicts.

    `passes` is how often the banks are used in all, `ideal` how often without conflicts. `words[part][bank]` lists the distinct word
    addresses that each bank serves.
    """

    ways: int
    passes: int
    ideal: int
    words: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def free(self) -> bool:
        return self.passes == self.ideal

    def __str__(self) -> str:
        return f"conflict-free, {self.passes} pass{'es' * (self.passes != 1)}" if self.free else \
            f"{self.ways}-way conflict, {self.passes} passes instead of {self.ideal}"


def bank_conflicts(layout: Layout, access: Sequence[Any] | Callable[[int], Any], dtype: str,
                   shape: Sequence[int] | None = None, vector: int = 1) -> BankConflicts:
    """What it costs that each lane of a warp accesses `vector` neighbouring elements from its coordinate on.

    `access` gives the coordinate in `shape` of each lane, as `apply` takes it: a list of at most 32, or a function of the lane.
    `layout` must have a memory axis `m`, counting elements of `dtype` from a 128-byte boundary. Raises LayoutError when a lane's
    elements are not neighbours in memory, not aligned to their size, or not 1, 2, 4, 8 or 16 bytes.
    """
    coords = [access(lane) for lane in range(32)] if callable(access) else list(access)
    coords = [c if isinstance(c, (tuple, list)) else (c,) for c in coords]
    if not 0 < len(coords) <= 32:
        raise LayoutError(f"a warp has 32 lanes, the access has {len(coords)}")
    bits = bits_of(dtype)
    size = bits * vector // 8
    if bits * vector % 8 or size not in (1, 2, 4, 8, 16):
        raise LayoutError(f"an access of {vector} {dtype} is {bits * vector} bits; a lane moves 1, 2, 4, 8 or 16 bytes")
    starts = []
    for c in coords:
        addresses = [layout.apply(*c[:-1], c[-1] + k, shape=shape)["m"] for k in range(vector)]
        if addresses != list(range(addresses[0], addresses[0] + vector)):
            raise LayoutError(f"the {vector} elements from {tuple(c)} on are not neighbours in memory: {addresses}")
        if addresses[0] * bits % (size * 8):
            raise LayoutError(f"the {size} bytes at {tuple(c)} begin at bit {addresses[0] * bits}, not aligned to their size")
        starts.append(addresses[0] * bits // 8)
    together = min(32, PASS_BYTES // max(size, WORD))
    parts = [starts[k:k + together] for k in range(0, len(starts), together)]
    words = tuple(_by_bank({w for byte in part for w in range(byte // WORD, (byte + size - 1) // WORD + 1)}) for part in parts)
    most = [max(map(len, banks)) for banks in words]
    return BankConflicts(max(most), sum(most), len(parts), words)


def _by_bank(words: set[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(sorted(w for w in words if w % BANKS == bank)) for bank in range(BANKS))
