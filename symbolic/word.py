"""Whether a simplified expression stays in int32 wherever the expression as written does.

A machine adds and multiplies modulo 2**32, so a sum or product of whatever depth is one value: only what is combined and what
comes out are looked at, in whatever order that is done. Such a value is *covered* when it is an int32 because

* its interval says so, or
* the expression as written computes the same value, or a larger one of which this is a quotient (`x//3` of `x`), or a sum
  of values of one sign of which this is a share (`a + b` of `a + b + c`).

Every other operator gives an int32 for operands that are some, but for `abs` and a division by -1, which count as values too.
Each row of the rule table keeps to this in itself (`fits` in its condition); here the result of all of them together is held
against the expression that came in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from symbolic import integers
from symbolic.integers import ABS, CONST, FLOORDIV, PRODUCT, SELECT, SHL, SUM, TRUNCDIV, Int, floordiv, terms_of
from symbolic.intervals import INT32, fits, fits_within

if TYPE_CHECKING:
    from symbolic.engine import Engine

_RING: Final = frozenset({SUM, PRODUCT})
_DIVISIONS: Final = frozenset({FLOORDIV, TRUNCDIV})
_LEAST, _GREATEST = INT32


def stays(S: Engine, written: Int, found: Int) -> bool:
    """Every value on the way to `found`, which is equal to `written`, is covered; so are the numbers in it."""
    return _are_covered(S, (written,), found, whole=True)


def _are_covered(S: Engine, written: tuple[Int, ...], found: Int, whole: bool) -> bool:
    """`whole`: `found` itself has the value of one of `written`, so that only what it is made of is asked for."""
    inner = found._inner
    if inner is None:
        inner = found._inner = _inner_of(found)
    if not inner.words:
        return False
    computed: list[Int] | None = None
    for x in inner.values if whole or not _is_value(found) else (*inner.values, found):
        if not fits(S, S.canon(x)):
            if computed is None:
                computed = [y for e in written for y in _computed(S, e)]
            if not any(_covers(S, y, x) for y in computed):
                return False
    return all(_branches_are_covered(S, written, e, whole and e is found) for e in inner.selects)


def _branches_are_covered(S: Engine, written: tuple[Int, ...], e: Int, whole: bool) -> bool:
    """What only the branches of a select compute: covered as all else, or by the same branch as written, under its condition."""
    condition, *branches = e.args
    for branch, holds in zip(branches, (condition, integers.lnot(condition))):
        if not branch.args or _are_covered(S, written, branch, whole):
            continue
        there = written + tuple(_branch(S, y, holds) for w in written for y in _computed(S, w) if y.op is SELECT)
        inside = S.facts.scope()
        inside.assume(holds)
        if not _are_covered(inside._engine(), there, branch, whole):
            return False
    return True


def _branch(S: Engine, e: Int, holds: Int) -> Int:
    """The branch of the select `e` that is taken where `holds`, if its condition says just that or the opposite."""
    condition, yes, no = e.args
    known = S.canon(holds)
    return yes if S.canon(condition) is known else no if S.canon(integers.lnot(condition)) is known else integers.ZERO


class Inner(NamedTuple):
    """What an expression is made of: whether every number in it is an int32 (`words`), the values to be asked for that it computes for
    certain, itself left out, and its selects."""

    words: bool
    values: tuple[Int, ...]
    selects: tuple[Int, ...]


def _inner_of(e: Int) -> Inner:
    values: dict[Int, None] = {}
    selects: dict[Int, None] = {}
    words = True
    pending = [(e, True)]
    seen = set(pending)
    while pending:
        x, free = pending.pop()
        op = x.op
        if op is CONST or op is SUM:
            words = words and all(_LEAST <= n <= _GREATEST for n in (x.value, *x.coefs))
        elif op is SELECT:
            selects[x] = None
        if not free and _is_value(x):
            values[x] = None
        inside = op in _RING
        for a in x.args[:1] if op is SELECT else x.args:
            if (a.args or a.op is CONST) and (a, inside) not in seen:
                seen.add((a, inside))
                pending.append((a, inside))
    return Inner(words, tuple(values), tuple(selects))


def _is_value(x: Int) -> bool:
    """Whether `x` may be no int32 although its operands are."""
    op = x.op
    return op in _RING or op is SHL or op is ABS or op in _DIVISIONS and _may_negate(x)


def _may_negate(e: Int) -> bool:
    d = e.args[1]
    return d.op is not CONST or d.value == -1


def _computed(S: Engine, e: Int) -> Iterator[Int]:
    """What `e` computes whatever its selects choose, where that is not known."""
    pending, seen = [e], {e}
    while pending:
        x = pending.pop()
        yield x
        taken = x.args
        if x.op is SELECT:
            value = S.canon(x)
            taken = (x.args[0], *[branch for branch in x.args[1:] if S.canon(branch) is value])
        for a in taken:
            if a not in seen:
                seen.add(a)
                pending.append(a)


def _covers(S: Engine, y: Int, x: Int) -> bool:
    """`x` is an int32 where `y` is."""
    if y is x:
        return True
    known, asked = S.canon(y), S.canon(x)
    if known is asked or _is_quotient(S, asked, known):
        return True
    return fits_within(S, x, y) or fits_within(S, asked, known)


def _is_quotient(S: Engine, q: Int, x: Int) -> bool:
    """`q` is `x // g` for a number g."""
    terms, divided = terms_of(x), terms_of(q)
    for t, c in divided.items():
        if t in terms:
            g = abs(terms[t]) // abs(c)
            return g > 1 and S.canon(floordiv(x, g)) is q
    return False
