"""How a dtype goes through inline assembly: the constraint of its register, and what C++ passes for it."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.cuda.helpers import Needs
from codegen.cuda.types import c_type
from tracer.dtypes import DType

# CUDA C++, "Inline PTX Assembly", constraints: these types go through as they are.
_CONSTRAINTS = {"int16": "h", "uint16": "h", "int32": "r", "uint32": "r", "float32": "f", "int64": "l", "uint64": "l", "float64": "d"}
# All others by their bits, in a word of their size; there is no 8-bit register.
_WORDS = {8: ("r", "unsigned int"), 16: ("h", "unsigned short"), 32: ("r", "unsigned int"), 64: ("l", "unsigned long long")}


@dataclass(frozen=True, slots=True)
class Register:
    """A dtype in assembly. `word` is what its bits are passed as; "" where it is passed itself."""

    constraint: str
    c_type: str
    word: str
    bits: int
    number: bool = False       # C++ converts it to the word: an integer or a bool

    def given(self, name: str, needs: Needs) -> str:
        """The expression for `name` as an input."""
        if not self.word:
            return name
        if self.bits == 8:
            return f"(unsigned int){f'(unsigned char){name}' if self.number else _cast('unsigned char', name, needs)}"
        return _cast(self.word, name, needs)

    def taken(self, word: str, needs: Needs) -> str:
        """The expression that makes a value of the dtype from the `word` that the assembly wrote."""
        if self.bits == 8:
            return f"({self.c_type}){word}" if self.number else _cast(self.c_type, f"(unsigned char){word}", needs)
        return _cast(self.c_type, word, needs)


def register(dtype: DType, needs: Needs) -> Register:
    """The register of `dtype`."""
    bits = dtype.bits * dtype.lanes
    constraint = _CONSTRAINTS.get(dtype.name)
    if constraint is not None:
        return Register(constraint, c_type(dtype, needs), "", bits)
    constraint, word = _WORDS[bits]
    return Register(constraint, c_type(dtype, needs), word, bits, dtype.lanes == 1 and not dtype.is_float)


def _cast(target: str, text: str, needs: Needs) -> str:
    needs.helper("bit_cast")
    return f"bit_cast<{target}>({text})"
