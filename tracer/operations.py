"""The table of operations: what each is, in one row. `codegen.cuda` says how a row is written, `runtime.simulator` what it does.

Columns: the operands (names that messages and tables use), the rule that gives the result's dtype, the effect, how Python
spells it (`script()` prints that), for integers the exact mathematics (`symbolic`), a function of the operands' `Int`s, and the
first architecture that has it (`since`), where that is not every supported one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, TypeVar

from symbolic import integers as si
from symbolic.integers import Int

Operand = TypeVar("Operand")


class Effect(Flag):
    """What executing an operation may do besides giving a value; no flag means pure."""

    PURE = 0
    READ = auto()         # reads the memory of `attrs["buffer"]`
    WRITE = auto()        # writes the memory of `attrs["buffer"]`
    SYNC = auto()         # orders memory between threads: no load may move across it
    CONVERGENT = auto()   # needs other threads of the warp or block to be there: may not move into or out of control flow
    CONTROL = auto()      # steers execution (if, loops, break)
    OPAQUE = auto()       # may read and write anything
    WAIT = auto()         # may not go on until another thread, or a copy or matrix engine, has done something


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One row of the table. See the module's docstring for the columns."""

    name: str
    operands: tuple[str, ...]
    result: str                                   # "same", "promote", "bool", "attr:dtype", "float", "none": see `dtype_rules`
    effect: Effect
    spelling: str                                 # "{0} + {1}" or a callable's name, "T.exp"
    symbolic: Callable[..., Int] | None = None
    source: str = ""                              # where its meaning is defined
    since: str = ""                               # the first architecture that has it, "sm_80"; "": all that are supported

    def __repr__(self) -> str:
        return self.name

    @property
    def pure(self) -> bool:
        return self.effect is Effect.PURE

    @property
    def accesses(self) -> bool:
        """True where the first operands are coordinates in `attrs["buffer"]`."""
        return self.operands[:1] == ("*coords",)

    def split(self, operands: Sequence[Operand]) -> tuple[Sequence[Operand], Sequence[Operand]]:
        """The operands of an access: its coordinates, and what follows them."""
        end = len(operands) - len(self.operands[1:])
        return operands[:end], operands[end:]


OPERATIONS: dict[str, Operation] = {}


def operation(name: str, operands: str = "", result: str = "none", effect: Effect = Effect.PURE, spelling: str = "",
              symbolic: Callable[..., Any] | None = None, source: str = "", since: str = "") -> Operation:
    """Add one row."""
    row = Operation(name, tuple(operands.split()), result, effect, spelling or f"T.{name}", symbolic, source, since)
    OPERATIONS[name] = row
    return row


# Leaves: values that are there without being computed.
CONST = operation("const", "", "attr:dtype")                                  # attrs: value
SCALAR = operation("scalar", "", "attr:dtype")                                # attrs: parameter
EXTENT = operation("extent", "", "attr:dtype")        # a free symbolic extent
THREAD_INDEX = operation("thread_index", "", "attr:dtype", source="threadIdx")  # attrs: axis 0..2
BLOCK_INDEX = operation("block_index", "", "attr:dtype", source="blockIdx")     # attrs: axis 0..2
CLUSTER_INDEX = operation("cluster_index", "", "attr:dtype", source="PTX ISA 10 %clusterid", since="sm_90")        # attrs: axis 0..2
CTA_IN_CLUSTER = operation("cta_in_cluster", "", "attr:dtype", source="PTX ISA 10 %cluster_ctaid", since="sm_90")  # attrs: axis 0..2
SCOPE_ID = operation("scope_id", "", "attr:dtype")                            # attrs: kind, axis, extent
LOOP_VAR = operation("loop_var", "", "attr:dtype")

# Arithmetic. `/` is for floats; `//` and `%` are floor division and modulo for every sign, truncdiv and truncmod are C's.
ADD = operation("add", "a b", "promote", spelling="{0} + {1}", symbolic=lambda a, b: a + b)
SUB = operation("sub", "a b", "promote", spelling="{0} - {1}", symbolic=lambda a, b: a - b)
MUL = operation("mul", "a b", "promote", spelling="{0} * {1}", symbolic=lambda a, b: a * b)
DIV = operation("div", "a b", "promote", spelling="{0} / {1}")
FLOORDIV = operation("floordiv", "a b", "promote", spelling="{0} // {1}", symbolic=si.floordiv)
FLOORMOD = operation("floormod", "a b", "promote", spelling="{0} % {1}", symbolic=si.floormod)
TRUNCDIV = operation("truncdiv", "a b", "promote", symbolic=si.truncdiv, source="C++ [expr.mul]")
TRUNCMOD = operation("truncmod", "a b", "promote", symbolic=si.truncmod, source="C++ [expr.mul]")
NEG = operation("neg", "a", "same", spelling="-{0}", symbolic=lambda a: -a)
MIN = operation("min", "a b", "promote", symbolic=si.minimum, source="CUDA Math API, fmin: the other operand where one is NaN")
MAX = operation("max", "a b", "promote", symbolic=si.maximum, source="CUDA Math API, fmax: the other operand where one is NaN")
ABS = operation("abs", "a", "same", symbolic=si.absolute)

# Bits of integers; the logic of bools.
AND = operation("and", "a b", "promote", spelling="{0} & {1}", symbolic=si.bitand)
OR = operation("or", "a b", "promote", spelling="{0} | {1}", symbolic=si.bitor)
XOR = operation("xor", "a b", "promote", spelling="{0} ^ {1}", symbolic=si.bitxor)
NOT = operation("not", "a", "same", spelling="~{0}", symbolic=si.bitnot)
SHL = operation("shl", "a b", "first", spelling="{0} << {1}", symbolic=si.shl)
SHR = operation("shr", "a b", "first", spelling="{0} >> {1}", symbolic=si.shr)

# Comparisons; the operands promote, the result is bool.
LT = operation("lt", "a b", "bool", spelling="{0} < {1}", symbolic=si.lt)
LE = operation("le", "a b", "bool", spelling="{0} <= {1}", symbolic=si.le)
GT = operation("gt", "a b", "bool", spelling="{0} > {1}", symbolic=si.gt)
GE = operation("ge", "a b", "bool", spelling="{0} >= {1}", symbolic=si.ge)
EQ = operation("eq", "a b", "bool", spelling="{0} == {1}", symbolic=si.eq)
NE = operation("ne", "a b", "bool", spelling="{0} != {1}", symbolic=si.ne)

SELECT = operation("select", "condition a b", "attr:dtype", symbolic=si.select)
CAST = operation("cast", "a", "attr:dtype", spelling="{0}.astype({dtype})", source="CUDA C++, conversions: truncate, saturate, NaN to 0")
REINTERPRET = operation("reinterpret", "a", "attr:dtype", spelling="T.reinterpret({dtype}, {0})", source="std::bit_cast")
LET = operation("let", "a", "same")                                           # a named immutable binding
LANE = operation("lane", "a", "attr:dtype", spelling="{0}[{index}]")          # attrs: index

# Elementary functions of floats: one row each. `T.<name>` is made from the row.
_CUDA_MATH = "CUDA Math API"      # but `round` takes ties to the even neighbour, as Python and NumPy do (CUDA's rint)
MATH = tuple(
    operation(name, operands, "float", source=_CUDA_MATH)
    for name, operands in [
        ("exp", "a"), ("exp2", "a"), ("exp10", "a"), ("log", "a"), ("log2", "a"), ("log10", "a"), ("log1p", "a"), ("expm1", "a"),
        ("sqrt", "a"), ("rsqrt", "a"), ("cbrt", "a"), ("sin", "a"), ("cos", "a"), ("tan", "a"), ("asin", "a"), ("acos", "a"), ("atan", "a"),
        ("sinh", "a"), ("cosh", "a"), ("tanh", "a"), ("erf", "a"), ("floor", "a"), ("ceil", "a"), ("round", "a"), ("trunc", "a"),
        ("pow", "a b"), ("atan2", "a b"), ("fmod", "a b"), ("copysign", "a b"), ("fma", "a b c"),
    ]
)
ISNAN = operation("isnan", "a", "bool", source=_CUDA_MATH)
ISINF = operation("isinf", "a", "bool", source=_CUDA_MATH)

# Memory. `attrs["buffer"]` is the buffer; the operands are its logical coordinates, then the value stored. A load or store with
# `attrs["cache"]` is told how to use the caches.
ALLOC = operation("alloc", "", "none", Effect.CONTROL)
DECL = operation("decl", "", "none", Effect.CONTROL)                          # a view: another buffer over a storage
LOAD = operation("load", "*coords", "attr:dtype", Effect.READ)                # a dtype wider than the buffer's: a vector load
STORE = operation("store", "*coords value", "none", Effect.WRITE)
ADDRESS_OF = operation("address_of", "*coords", "attr:dtype")                 # a pointer to one element
# A host value: a pointer to an encoded tensor map, which the launcher makes and the kernel gets as an argument. attrs: map
TENSOR_MAP = operation("tensor_map", "", "attr:dtype", source="CUDA driver API, cuTensorMapEncodeTiled", since="sm_90")

# Control flow. Regions: if (then, else), if_then_else (then, else; each yields), while (condition yields, body), for (body).
IF = operation("if", "condition", "none", Effect.CONTROL)
IF_THEN_ELSE = operation("if_then_else", "condition", "attr:dtype", Effect.CONTROL)
WHILE = operation("while", "", "none", Effect.CONTROL)
FOR = operation("for", "start stop step", "none", Effect.CONTROL)             # attrs: kind serial | unroll | vectorized
BREAK = operation("break", "", "none", Effect.CONTROL, spelling="T.break_")
CONTINUE = operation("continue", "", "none", Effect.CONTROL, spelling="T.continue_")
RETURN = operation("return", "", "none", Effect.CONTROL, spelling="T.return_")
LEAVING = (BREAK, CONTINUE, RETURN)      # nothing behind one of these runs in its region

# Threads.
CTA_SYNC = operation("cuda.cta_sync", "", "none", Effect.SYNC | Effect.CONVERGENT, source="__syncthreads, PTX ISA 9.7.13.1 barrier")
WARP_SYNC = operation("cuda.warp_sync", "mask", "none", Effect.SYNC | Effect.CONVERGENT, source="__syncwarp, PTX ISA 9.7.13.2 bar.warp.sync")
_SHFL = "PTX ISA 9.7.9.6 shfl.sync"
SHFL = operation("cuda.shfl_sync", "mask value lane", "attr:dtype", Effect.CONVERGENT, source=_SHFL)               # attrs: width
SHFL_UP = operation("cuda.shfl_up_sync", "mask value delta", "attr:dtype", Effect.CONVERGENT, source=_SHFL)        # attrs: width
SHFL_DOWN = operation("cuda.shfl_down_sync", "mask value delta", "attr:dtype", Effect.CONVERGENT, source=_SHFL)    # attrs: width
SHFL_XOR = operation("cuda.shfl_xor_sync", "mask value lane_mask", "attr:dtype", Effect.CONVERGENT, source=_SHFL)  # attrs: width
FUNC_CALL = operation("cuda.func_call", "*args", "attr:dtype", Effect.OPAQUE)  # attrs: name, source_code

# Votes: what all lanes of `mask` know of each other. The result is the same for each of them, except `match_any`'s and `elect`'s.
_VOTE, _MATCH = "PTX ISA 9.7.13.9 vote.sync", "PTX ISA 9.7.13.10 match.sync"
BALLOT = operation("cuda.ballot_sync", "mask predicate", "attr:dtype", Effect.CONVERGENT, source=_VOTE)
ANY = operation("cuda.any_sync", "mask predicate", "bool", Effect.CONVERGENT, source=_VOTE)
ALL = operation("cuda.all_sync", "mask predicate", "bool", Effect.CONVERGENT, source=_VOTE)
MATCH_ANY = operation("cuda.match_any_sync", "mask value", "attr:dtype", Effect.CONVERGENT, source=_MATCH)
MATCH_ALL = operation("cuda.match_all_sync", "mask value", "attr:dtype", Effect.CONVERGENT, source=_MATCH)
ACTIVEMASK = operation("cuda.activemask", "", "attr:dtype", Effect.CONVERGENT, source="PTX ISA 9.7.13.11 activemask")
ELECT = operation("cuda.elect_sync", "mask", "bool", Effect.CONVERGENT, source="PTX ISA 9.7.13.14 elect.sync", since="sm_90")
REDUCE = tuple(
    operation(f"cuda.reduce_{name}_sync_{suffix}", "mask value", "attr:dtype", Effect.CONVERGENT, source="PTX ISA 9.7.13.12 redux.sync",
              since="sm_80")
    for name, suffixes in [("add", "ui"), ("min", "ui"), ("max", "ui"), ("and", "u"), ("or", "u"), ("xor", "u")]
    for suffix in (f"{letter}32" for letter in suffixes)
)

# Bits of 32- and 64-bit words, and other arithmetic that has an instruction of its own.
_INTEGER_INTRINSICS = "CUDA Math API, Integer Intrinsics"
POPC = operation("cuda.popc", "a", "attr:dtype", source=_INTEGER_INTRINSICS)
CLZ = operation("cuda.clz", "a", "attr:dtype", source=_INTEGER_INTRINSICS)
FFS = operation("cuda.ffs", "a", "attr:dtype", source=_INTEGER_INTRINSICS)
BREV = operation("cuda.brev", "a", "same", source=_INTEGER_INTRINSICS)
BYTE_PERM = operation("cuda.byte_perm", "x y selector", "attr:dtype", source=_INTEGER_INTRINSICS)
FUNNEL = tuple(operation(f"cuda.funnelshift_{way}", "low high shift", "attr:dtype", source=_INTEGER_INTRINSICS)
               for way in ("l", "lc", "r", "rc"))
DP4A = operation("cuda.dp4a", "a b c", "attr:dtype", source=_INTEGER_INTRINSICS)
FDIVIDEF = operation("cuda.fdividef", "a b", "attr:dtype", source="CUDA Math API, Single Precision Intrinsics, __fdividef")

# Order and time. A clock is read, and a pause made, between the accesses before and those behind.
_FENCE = "PTX ISA 9.7.13.4 fence, membar"
FENCES = tuple(operation(f"cuda.{name}", "", "none", Effect.SYNC, source=_FENCE)
               for name in ("thread_fence", "thread_fence_block", "thread_fence_system"))
NANO_SLEEP = operation("cuda.nano_sleep", "nanoseconds", "none", Effect.SYNC, source="PTX ISA 9.7.19.2 nanosleep")
CLOCK64 = operation("cuda.clock64", "", "attr:dtype", Effect.SYNC, source="PTX ISA 10 %clock64")

# Atomics: read an element, write what the operation makes of it, give what was read. attrs: scope device | block | system.
_ATOM = "PTX ISA 9.7.13.5 atom"
ATOMICS = tuple(
    operation(f"cuda.atomic_{name}", f"*coords {operands}", "attr:dtype", Effect.READ | Effect.WRITE, source=_ATOM)
    for name, operands in [("add", "value"), ("sub", "value"), ("min", "value"), ("max", "value"), ("and", "value"), ("or", "value"),
                           ("xor", "value"), ("exch", "value"), ("cas", "compare value"), ("inc", "limit"), ("dec", "limit")]
)
