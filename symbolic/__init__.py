"""Integer expressions, what is known of them, and their simplest form. Nothing here knows of kernels."""

from symbolic.evaluate import evaluate
from symbolic.facts import Facts
from symbolic.integers import (
    Int,
    Symbol,
    absolute,
    bitand,
    bitnot,
    bitor,
    bitxor,
    const,
    eq,
    floordiv,
    floormod,
    free_symbols,
    ge,
    gt,
    is_const,
    land,
    le,
    lnot,
    lor,
    lt,
    maximum,
    minimum,
    named,
    ne,
    operations_count,
    select,
    shl,
    shr,
    substitute,
    to_int,
    truncdiv,
    truncmod,
)
from symbolic.simplify import simplify
from symbolic.text import Printer, text
