"""A piece of C++ with the precedence of its outermost operator, so that parentheses stand only where they are needed."""

from __future__ import annotations

from typing import NamedTuple

# C++20 [expr], tightest first; a larger number binds tighter.
PRIMARY, UNARY, MULTIPLICATIVE, ADDITIVE, SHIFT, RELATIONAL, EQUALITY, BIT_AND, BIT_XOR, BIT_OR, LOGICAL_AND, LOGICAL_OR, CONDITIONAL = (
    range(13, 0, -1))

PRECEDENCE = {
    "*": MULTIPLICATIVE, "/": MULTIPLICATIVE, "%": MULTIPLICATIVE, "+": ADDITIVE, "-": ADDITIVE, "<<": SHIFT, ">>": SHIFT,
    "<": RELATIONAL, "<=": RELATIONAL, ">": RELATIONAL, ">=": RELATIONAL, "==": EQUALITY, "!=": EQUALITY,
    "&": BIT_AND, "^": BIT_XOR, "|": BIT_OR, "&&": LOGICAL_AND, "||": LOGICAL_OR,
}
# a op (b op c) means the same as (a op b) op c in every type; not so for floats' + and *.
_ASSOCIATIVE = frozenset({"&", "^", "|", "&&", "||"})
# Where readers stumble over C's precedence, and compilers warn (-Wparentheses), an operand of another operator binds tighter
# than this or gets parentheses: `(a + b) >> 2`, `(a && b) || c`.
CLEAR = {"<<": UNARY, ">>": UNARY, "&": UNARY, "^": UNARY, "|": UNARY, "||": BIT_OR, "==": SHIFT, "!=": SHIFT}


class Fragment(NamedTuple):
    """An expression's text and how tightly its outermost operator binds."""

    text: str
    precedence: int

    def within(self, precedence: int) -> str:
        """The text as an operand of something that binds as tightly as `precedence`."""
        return self.text if self.precedence >= precedence else f"({self.text})"


def infix(a: Fragment, operator: str, b: Fragment) -> Fragment:
    """`a operator b`. C's binary operators group to the left, so an equal precedence on the right needs parentheses."""
    precedence = PRECEDENCE[operator]
    right = precedence if operator in _ASSOCIATIVE else precedence + 1
    return Fragment(f"{_operand(a, operator, precedence)} {operator} {_operand(b, operator, right)}", precedence)


def _operand(a: Fragment, operator: str, least: int) -> str:
    return a.within(least if a.precedence == PRECEDENCE[operator] else CLEAR.get(operator, least))


def prefix(operator: str, a: Fragment) -> Fragment:
    """`operator a`, with a space nowhere but between two signs."""
    text = a.within(UNARY)
    glue = "(" if text[0] == operator and operator in "+-" else ""
    return Fragment(f"{operator}({text})" if glue else f"{operator}{text}", UNARY)


def call(function: str, *arguments: Fragment) -> Fragment:
    """`function(arguments)`."""
    return Fragment(f"{function}({', '.join(a.text for a in arguments)})", PRIMARY)


def ternary(condition: Fragment, a: Fragment, b: Fragment) -> Fragment:
    """`condition ? a : b`."""
    return Fragment(f"{condition.within(CONDITIONAL + 1)} ? {a.within(CONDITIONAL)} : {b.within(CONDITIONAL)}", CONDITIONAL)


def cast(c_type: str, a: Fragment) -> Fragment:
    """`(type)a`."""
    return Fragment(f"({c_type}){a.within(UNARY)}", UNARY)
