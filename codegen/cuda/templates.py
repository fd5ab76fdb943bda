"""The table of how each operation is written: one row an operation, and the few shapes that rows are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from codegen.cuda import fragments as fr
from codegen.cuda.casts import convert
from codegen.cuda.fragments import Fragment
from codegen.cuda.helpers import Needs
from codegen.cuda.names import reserve_called
from codegen.cuda.types import c_type
from tracer.dtypes import DType, dtype
from tracer.errors import NotSupportedError
from tracer.ir import Node
from tracer.operations import Operation

if TYPE_CHECKING:
    from codegen.cuda.expressions import Expressions


@dataclass(frozen=True, slots=True)
class Site:
    """One operation being written: `node`, or lane `lane` of it. `modular`: what takes the result wraps it anyway."""

    printer: Expressions
    node: Node
    lane: int | None = None
    modular: bool = False

    @property
    def needs(self) -> Needs:
        """Headers and helpers of the file."""
        return self.printer.needs

    @property
    def dtype(self) -> DType:
        """The type of what is written: the node's, or that of one lane."""
        assert self.node.dtype is not None
        return self.node.dtype if self.lane is None else self.node.dtype.scalar

    def operand_dtype(self, position: int) -> DType:
        """The type of an operand, of one lane where lanes are written."""
        found = self.node.operands[position].dtype
        assert found is not None
        return found if self.lane is None else found.scalar

    def operand(self, position: int, *, modular: bool = False, typed: bool = False) -> Fragment:
        """An operand. `modular`: only its residue counts; `typed`: C must see exactly its type, as an overload's argument."""
        return self.printer.write(self.node.operands[position], self.lane, modular=modular, typed=typed)

    def operands(self, *, typed: bool = False) -> list[Fragment]:
        """All of them."""
        return [self.operand(i, typed=typed) for i in range(len(self.node.operands))]

    def pair(self, modular: Callable[[Node], bool] = lambda _: False) -> tuple[Fragment, Fragment]:
        """The (last) two operands, such that a C operator computes in their dtype; `modular` says of which the residue will do."""
        a, b = self.node.operands[-2:]
        return self.printer.write_pair(self.node.op, a, b, self.lane, modular)

    def c_type(self, dtype: DType | None = None) -> str:
        """The C++ type of `dtype`, of the result if none is given."""
        return c_type(dtype or self.dtype, self.needs)


FLOAT32 = dtype("float32")
HALVES = ("float16", "bfloat16")
PAIRS = ("float16x2", "bfloat16x2")

Form: TypeAlias = Callable[[Site], Fragment]
TEMPLATES: dict[Operation, Form] = {}


def template(operation: Operation, form: Form) -> None:
    """Add one row: how `operation` is written."""
    TEMPLATES[operation] = form


def form_of(operation: Operation) -> Form:
    """The row of `operation`. Raises NotSupportedError where there is none."""
    found = TEMPLATES.get(operation)
    if found is None:
        raise NotSupportedError(f"T.{operation.name} cannot be written in CUDA C++ yet")
    return found


# ---- shapes ------------------------------------------------------------------------------------------------------------

def infix(sign: str) -> Form:
    """`a sign b`."""
    def form(s: Site) -> Fragment:
        a, b = s.pair()
        return fr.infix(a, sign, b)
    return form


def prefix(sign: str) -> Form:
    """`sign a`."""
    return lambda s: fr.prefix(sign, s.operand(0))


def calls(function: str) -> Form:
    """`function(a, ...)`."""
    reserve_called(f"{function}(")
    return lambda s: fr.call(function, *s.operands(typed=True))


def through_float32(function: Callable[[Site, list[Fragment]], Fragment]) -> Form:
    """What `function` makes of the operands as float32, rounded to the half type that the operation is of."""
    def form(s: Site) -> Fragment:
        wide = [convert(a, s.dtype, FLOAT32, s.needs) for a in s.operands()]
        return convert(function(s, wide), FLOAT32, s.dtype, s.needs)
    return form


def result_dtype(s: Site) -> DType:
    """The type of the result."""
    return s.dtype


def first_dtype(s: Site) -> DType:
    """The type of the first operand."""
    return s.operand_dtype(0)


def by_dtype(rows: Mapping[str, Form], of: Callable[[Site], DType] = result_dtype) -> Form:
    """The row for a dtype's name, else for its kind."""
    def form(s: Site) -> Fragment:
        dtype = of(s)
        row = rows.get(dtype.name) or rows.get(dtype.kind)
        if row is None:
            raise NotSupportedError(f"T.{s.node.op.name} of {dtype} cannot be written in CUDA C++ yet; "
                                    "convert with .astype('float32') first")
        return row(s)
    return form
