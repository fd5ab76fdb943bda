"""Which lane holds which element in which register: the fragments of the matrix instructions, as data.

A row of `FRAGMENTS` gives the logical shape of an operand, (rows, columns) as the instruction's mathematics has them (A is M by K, B is
K by N, C and D are M by N), and the layout that sends an element to `laneid` (and `wid_in_wg` within a warpgroup) and to `m`, the
element's place among those that the thread holds, counted in elements: element e of `bits` bits lies in 32-bit register
e * bits // 32. Sections are those of the PTX ISA 9.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from symbolic.layout.axes import laneid, tid_in_wg, wid_in_wg
from symbolic.layout.banks import bits_of
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import S, Spec
from symbolic.layout.tile import TileLayout


@dataclass(frozen=True)
class Fragment:
    """One operand of an instruction: `layout` over `shape`, elements of `bits` bits; `source` is where the manual draws it."""

    instruction: str
    operand: str
    shape: tuple[int, int]
    bits: int
    layout: TileLayout
    source: str

    @property
    def elements(self) -> int:
        """How many elements a thread holds."""
        return int(self.layout.size("m"))

    @property
    def registers(self) -> int:
        """How many 32-bit registers that is."""
        return max(1, self.elements * self.bits // 32)


_Row = tuple[str, str, tuple[int, int], int, Spec, str]

_MMA: Final[tuple[_Row, ...]] = (
    # instruction          operand shape    bits layout over the shape                                           section
    ("mma.m16n8k4.tf32",    "A", (16, 4),   32, S[(2, 8, 4):(1, 4@laneid, 1@laneid)],                             "9.7.14.5.6"),
    ("mma.m16n8k4.tf32",    "B", (4, 8),    32, S[(4, 8):(1@laneid, 4@laneid)],                                   "9.7.14.5.6"),
    ("mma.m16n8k4.tf32",    "C", (16, 8),   32, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.6"),
    ("mma.m16n8k8.f16",     "A", (16, 8),   16, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.7"),
    ("mma.m16n8k8.f16",     "B", (8, 8),    16, S[(4, 2, 8):(1@laneid, 1, 4@laneid)],                             "9.7.14.5.7"),
    ("mma.m16n8k8.f16",     "C", (16, 8),   32, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.7"),
    ("mma.m16n8k8.tf32",    "A", (16, 8),   32, S[(2, 8, 2, 4):(1, 4@laneid, 2, 1@laneid)],                       "9.7.14.5.7"),
    ("mma.m16n8k8.tf32",    "B", (8, 8),    32, S[(2, 4, 8):(1, 1@laneid, 4@laneid)],                             "9.7.14.5.7"),
    ("mma.m16n8k8.tf32",    "C", (16, 8),   32, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.7"),
    ("mma.m16n8k16.f16",    "A", (16, 16),  16, S[(2, 8, 2, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)],                 "9.7.14.5.8"),
    ("mma.m16n8k16.f16",    "B", (16, 8),   16, S[(2, 4, 2, 8):(2, 1@laneid, 1, 4@laneid)],                       "9.7.14.5.8"),
    ("mma.m16n8k16.f16",    "C", (16, 8),   32, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.8"),
    ("mma.m16n8k16.b8",     "A", (16, 16),   8, S[(2, 8, 4, 4):(4, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.9"),
    ("mma.m16n8k16.b8",     "B", (16, 8),    8, S[(4, 4, 8):(1@laneid, 1, 4@laneid)],                             "9.7.14.5.9"),
    ("mma.m16n8k16.b8",     "C", (16, 8),   32, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.9"),
    ("mma.m16n8k32.b8",     "A", (16, 32),   8, S[(2, 8, 2, 4, 4):(4, 4@laneid, 8, 1@laneid, 1)],                 "9.7.14.5.10"),
    ("mma.m16n8k32.b8",     "B", (32, 8),    8, S[(2, 4, 4, 8):(4, 1@laneid, 1, 4@laneid)],                       "9.7.14.5.10"),
    ("mma.m16n8k32.b8",     "C", (16, 8),   32, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.10"),
    ("mma.m8n8k16.b8",      "A", (8, 16),    8, S[(8, 4, 4):(4@laneid, 1@laneid, 1)],                             "9.7.14.5.3"),
    ("mma.m8n8k16.b8",      "B", (16, 8),    8, S[(4, 4, 8):(1@laneid, 1, 4@laneid)],                             "9.7.14.5.3"),
    ("mma.m8n8k16.b8",      "C", (8, 8),    32, S[(8, 4, 2):(4@laneid, 1@laneid, 1)],                             "9.7.14.5.3"),
    ("mma.m8n8k4.f64",      "A", (8, 4),    64, S[(8, 4):(4@laneid, 1@laneid)],                                   "9.7.14.5.2"),
    ("mma.m8n8k4.f64",      "B", (4, 8),    64, S[(4, 8):(1@laneid, 4@laneid)],                                   "9.7.14.5.2"),
    ("mma.m8n8k4.f64",      "C", (8, 8),    64, S[(8, 4, 2):(4@laneid, 1@laneid, 1)],                             "9.7.14.5.2"),
    ("mma.m16n8k4.f64",     "A", (16, 4),   64, S[(2, 8, 4):(1, 4@laneid, 1@laneid)],                             "9.7.14.5.6"),
    ("mma.m16n8k4.f64",     "B", (4, 8),    64, S[(4, 8):(1@laneid, 4@laneid)],                                   "9.7.14.5.6"),
    ("mma.m16n8k4.f64",     "C", (16, 8),   64, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.6"),
    ("mma.m16n8k8.f64",     "A", (16, 8),   64, S[(2, 8, 2, 4):(1, 4@laneid, 2, 1@laneid)],                       "9.7.14.5.7"),
    ("mma.m16n8k8.f64",     "B", (8, 8),    64, S[(2, 4, 8):(1, 1@laneid, 4@laneid)],                             "9.7.14.5.7"),
    ("mma.m16n8k8.f64",     "C", (16, 8),   64, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.7"),
    ("mma.m16n8k16.f64",    "A", (16, 16),  64, S[(2, 8, 4, 4):(1, 4@laneid, 2, 1@laneid)],                       "9.7.14.5.8"),
    ("mma.m16n8k16.f64",    "B", (16, 8),   64, S[(4, 4, 8):(1, 1@laneid, 4@laneid)],                             "9.7.14.5.8"),
    ("mma.m16n8k16.f64",    "C", (16, 8),   64, S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)],                       "9.7.14.5.8"),
)

# ldmatrix gives, stmatrix takes: `num` matrices of 8 by 8 16-bit elements, one below the other. Row r of matrix q is at the address
# that lane 8*q + r gives.
_MATRIX: Final[tuple[_Row, ...]] = tuple(
    (f"{name}.x{num}{trans}", "D" if name == "ldmatrix" else "A", (8 * num, 8), 16, spec, section)
    for name, section in (("ldmatrix", "9.7.14.5.15"), ("stmatrix", "9.7.14.5.16")) for num in (1, 2, 4)
    for trans, spec in (("", S[(num, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)]),
                        (".trans", S[(num, 4, 2, 8):(2, 1@laneid, 1, 4@laneid)]))
)

# A from registers; the shared-memory operands are `mma_shared_layout`.
_WGMMA: Final[tuple[_Row, ...]] = (
    ("wgmma.m64k16.f16", "A", (64, 16), 16, S[(4, 2, 8, 2, 4, 2):(1@wid_in_wg, 2, 4@laneid, 4, 1@laneid, 1)], "9.7.15.5.1.1.1"),
    ("wgmma.m64k8.tf32", "A", (64, 8),  32, S[(4, 2, 8, 2, 4):(1@wid_in_wg, 1, 4@laneid, 2, 1@laneid)],       "9.7.15.5.1.1.2"),
    ("wgmma.m64k32.b8",  "A", (64, 32),  8, S[(4, 2, 8, 2, 4, 4):(1@wid_in_wg, 4, 4@laneid, 8, 1@laneid, 1)], "9.7.15.5.1.1.3"),
)


def _row(instruction: str, operand: str, shape: tuple[int, int], bits: int, spec: Spec, section: str) -> Fragment:
    return Fragment(instruction, operand, shape, bits, TileLayout(spec), f"PTX ISA 9.1, {section}")


FRAGMENTS: Final[dict[tuple[str, str], Fragment]] = {
    (r[0], r[1]): _row(*r) for r in (*_MMA, *_MATRIX, *_WGMMA)}


def fragment(instruction: str, operand: str) -> Fragment:
    """The row of FRAGMENTS: `fragment("mma.m16n8k16.f16", "A")`. D of an mma is as C. Raises LayoutError, listing them, for others."""
    found = FRAGMENTS.get((instruction, "C" if operand == "D" and instruction.startswith("mma.") else operand))
    if found is None:
        raise LayoutError(f"no fragment {operand} of {instruction!r} is known; known are "
                          + ", ".join(f"{i} {o}" for i, o in FRAGMENTS))
    return found


def matrix_addresses(num: int) -> TileLayout:
    """Which lane of ldmatrix or stmatrix gives the address of each row, over (8 * num,): lane 8*q + r for row r of matrix q."""
    return TileLayout(S[8 * num:1@laneid])


def wgmma_accumulator(n: int, bits: int = 32) -> Fragment:
    """D of wgmma.m64n{n}, over (64, n): n / 2 elements a thread. Raises LayoutError unless n is a multiple of 8 from 8 to 256."""
    if n % 8 or not 8 <= n <= 256:
        raise LayoutError(f"wgmma has n = 8, 16, .., 256, not {n}")
    spec = S[(4, 2, 8, n // 8, 4, 2):(1@wid_in_wg, 2, 4@laneid, 4, 1@laneid, 1)]
    return Fragment(f"wgmma.m64n{n}", "D", (64, n), bits, TileLayout(spec), "PTX ISA 9.1, 9.7.15.5.1.1")


# ---- tcgen05.ld and st: (rows of the warp's lanes, columns of 32 bits) to lanes and registers ----------------------------

@dataclass(frozen=True)
class TmemShape:
    """A shape of tcgen05.ld / st: `rows` TMEM lanes by `columns` 32-bit columns for each repetition; `layout` of x repetitions."""

    name: str
    rows: int
    columns: int
    layout: Callable[[int], TileLayout]
    source: str = "PTX ISA 9.1, 9.7.16.2.3.1"


TMEM_SHAPES: Final[dict[str, TmemShape]] = {s.name: s for s in (
    TmemShape("32x32b", 32, 1, lambda x: TileLayout(S[(32, x):(1@laneid, 1)])),
    TmemShape("16x64b", 16, 2, lambda x: TileLayout(S[(2, 8, x, 2):(1@laneid, 4@laneid, 1, 2@laneid)])),
    TmemShape("16x128b", 16, 4, lambda x: TileLayout(S[(2, 8, x, 4):(1, 4@laneid, 2, 1@laneid)])),
    TmemShape("16x256b", 16, 8, lambda x: TileLayout(S[(2, 8, x, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)])),
    # Two column ranges, the second one `immHalfSplitoff` columns on, here adjacent: lanes 16 to 31 hold it.
    TmemShape("16x32bx2", 16, 2, lambda x: TileLayout(S[(16, 2, x):(1@laneid, 16@laneid, 1)])),
)}


def tmem_registers(shape: str, repeat: int) -> TileLayout:
    """The registers of a warp after tcgen05.ld.{shape}.x{repeat}, over (rows, columns * repeat) 32-bit cells.

    Raises LayoutError for an unknown shape, and unless `repeat` is a power of two up to 128 and at most 128 registers a thread.
    """
    if shape not in TMEM_SHAPES:
        raise LayoutError(f"tcgen05.ld has the shapes {', '.join(TMEM_SHAPES)}, not {shape!r}")
    row = TMEM_SHAPES[shape]
    registers = repeat * row.rows * row.columns // 32
    if repeat < 1 or repeat & (repeat - 1) or registers > 128:
        raise LayoutError(f"tcgen05.ld.{shape} has a power of two of repetitions and at most 128 registers, not x{repeat}")
    return row.layout(repeat)


def tcgen05_atom_layout(instr_shape: str, shape: tuple[int, int], dtype: str) -> TileLayout:
    """The registers of a warpgroup that holds (rows, columns) elements after tcgen05.ld of this shape, warp w having its own lanes.

    64 rows: 16 lanes a warp; 128 rows: 32 lanes, a 16-lane shape being issued twice. 16-bit elements are packed two to a register.
    Over `wid_in_wg`, `laneid` and `m`; for "32x32b" over `tid_in_wg` and `m`. Raises LayoutError for what the instruction has not.
    """
    rows, columns = shape
    if instr_shape not in TMEM_SHAPES or instr_shape == "16x32bx2":
        raise LayoutError(f"a warpgroup reads with one of {[s for s in TMEM_SHAPES if s != '16x32bx2']}, not {instr_shape!r}")
    if rows not in (64, 128):
        raise LayoutError(f"a warpgroup reads 64 or 128 rows, not {rows}")
    bits = bits_of(dtype)
    if bits not in (16, 32):
        raise LayoutError(f"the registers of tcgen05.ld hold elements of 16 or 32 bits, {dtype} has {bits}")
    if instr_shape == "32x32b":
        if rows == 128:
            return TileLayout(S[(128, columns):(1@tid_in_wg, 1)])
        if columns % 2:
            raise LayoutError(f"64 rows of 32x32b are two halves of the columns, {columns} is odd")
        return TileLayout(S[(64, 2, columns // 2):(1@tid_in_wg, 64@tid_in_wg, 1)])
    packed = 32 // bits
    step = TMEM_SHAPES[instr_shape].columns * packed
    if columns % step:
        raise LayoutError(f"{columns} columns of {dtype} are no multiple of {step}, what {instr_shape} moves at once")
    atom = tmem_registers(instr_shape, columns // step)
    if packed > 1:
        atom = atom.unpack(packed)
    if rows == 128:
        atom = atom.tile(TileLayout(S[2, 1]), (2, 1), (16, columns))
    return atom.tile(TileLayout(S[(4, 1):(1@wid_in_wg, 1@wid_in_wg)]), (4, 1), (rows // 4, columns))


def wg_local_layout(columns: int, rows: int = 128) -> TileLayout:
    """A row for each thread of a warpgroup: (rows, columns) over `tid_in_wg` and `m`. Raises LayoutError for more than 128 rows."""
    if not 0 < rows <= 128:
        raise LayoutError(f"a warpgroup has 128 threads, not {rows}")
    return TileLayout(S[(rows, columns):(1@tid_in_wg, 1)])

