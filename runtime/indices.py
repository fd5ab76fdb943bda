"""Whether index arithmetic stays within its dtype for the extents of one call.

Where the dtype of an index can hold it for some extents and not for others, the recorder takes it to be exact and notes the
node (`Function.assumed_exact`). Here the bounds of each such node are computed anew with the call's extents, the launch's
grid and block, and the conditions and loops around the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codegen.host import index_symbols
from codegen.lowered import DeviceHalf
from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from symbolic.text import text
from tracer import operations as ops
from tracer.errors import LaunchError
from tracer.ir import Function, Node, Region

_REMEMBERED = 256     # calls whose extents passed; a program with more shapes computes some again


@dataclass(frozen=True, slots=True)
class _Place:
    """An assumed node, the conditions under which it is reached, and the loops that its symbols count."""

    node: Node
    conditions: tuple[Int, ...]
    loops: Mapping[Int, Node]


def index_check(half: DeviceHalf) -> Callable[[tuple[int, ...], Sequence[int], Sequence[int]], bool]:
    """`fits(values of index_symbols(half), grid, block)`: whether no index of this launch leaves its dtype. Remembers what did not."""
    problems = index_problems(half)
    passed: set[Any] = set()

    def fits(values: tuple[int, ...], grid: Sequence[int], block: Sequence[int]) -> bool:
        launch = (values, tuple(grid), tuple(block))
        if launch in passed or 0 in grid:
            return True
        if next(problems(*launch), None) is not None:
            return False
        if len(passed) >= _REMEMBERED:
            passed.clear()
        passed.add(launch)
        return True

    return fits


def wide_index_check(kernel: Any) -> Callable[[tuple[int, ...], Sequence[int], Sequence[int], str], None]:
    """`check(values, grid, block, signature)` of the build with 64-bit indices: raises `LaunchError` where they do not do either.

    That is where a value beyond int32 is used as one: stored, or computed with data.
    """
    made: list[Callable[..., Iterator[str]]] = []

    def check(values: tuple[int, ...], grid: Sequence[int], block: Sequence[int], signature: str) -> None:
        if not made:
            made.append(index_problems(kernel.wide.half))
        for problem in made[0](values, grid, block):
            raise LaunchError(f"{problem}, when calling `{signature}`")

    return check


def index_problems(half: DeviceHalf) -> Callable[[tuple[int, ...], Sequence[int], Sequence[int]], Iterator[str]]:
    """`problems(values, grid, block)`: what can leave its dtype in one launch, in words, with the line of each."""
    function = half.lowered.function
    assumed = set(function.assumed_exact)
    places = [place for region in (function.host, function.device) for place in _places(region, assumed, (), {})]
    symbols = index_symbols(half)
    named = [*function.atoms.values(), *function.scope_ids]     # a hardware index goes by the author's name for it
    names = {node.sym: node.name for node in named if node.name and node.sym is not None}

    def problems(values: tuple[int, ...], grid: Sequence[int], block: Sequence[int]) -> Iterator[str]:
        fixed = dict(zip(symbols, values))
        for place in places:
            yield from _problem(place, _Launch(function, fixed, grid, block), names)

    return problems


def _places(region: Region, assumed: set[Node], conditions: tuple[Int, ...], loops: Mapping[Int, Node]) -> Iterator[_Place]:
    for node in region.nodes:
        if node in assumed:
            yield _Place(node, conditions, loops)
        if node.op in (ops.IF, ops.IF_THEN_ELSE):
            condition = node.operands[0].sym
            assert condition is not None
            then, otherwise = node.regions
            yield from _places(then, assumed, (*conditions, condition), loops)
            yield from _places(otherwise, assumed, (*conditions, si.lnot(condition)), loops)
            if then.leaves:
                conditions = (*conditions, si.lnot(condition))
            if otherwise.leaves:
                conditions = (*conditions, condition)
        elif node.op is ops.FOR:
            variable = node.regions[0].arguments[0].sym
            assert variable is not None
            yield from _places(node.regions[0], assumed, conditions, {**loops, variable: node})
        elif node.op is ops.WHILE:
            reached, body = node.regions
            yield from _places(reached, assumed, conditions, loops)
            holds = reached.result.sym if reached.result is not None else None
            yield from _places(body, assumed, conditions if holds is None else (*conditions, holds), loops)


class _Launch:
    """The bounds of atoms in one launch."""

    def __init__(self, function: Function, fixed: Mapping[Int, int], grid: Sequence[int], block: Sequence[int]) -> None:
        self.atoms, self.fixed = function.atoms, fixed
        self.extents = {ops.THREAD_INDEX: block, ops.BLOCK_INDEX: grid}
        # The ids that stand for a register of their own (those of clusters) are bounded by their declared extents.
        self.scopes = {node.sym: si.substitute(node.attrs["extent"], fixed) for node in function.scope_ids if node.sym is not None}

    def bound(self, facts: Facts, expression: Int, loops: Mapping[Int, Node], bounded: set[Int]) -> None:
        """Put the bounds of the expression's atoms into `facts`: of a loop's ends before those of its variable."""
        for symbol in si.free_symbols(expression):
            if symbol not in bounded:
                bounded.add(symbol)
                self._bound_atom(facts, symbol, loops, bounded)

    def _bound_atom(self, facts: Facts, symbol: Int, loops: Mapping[Int, Node], bounded: set[Int]) -> None:
        node = self.atoms[symbol]
        assert node.dtype is not None
        low, high = node.dtype.limits
        facts.bound(symbol, low, high + 1)
        if node.op in self.extents:
            facts.bound(symbol, 0, self.extents[node.op][node.attrs["axis"]])
        elif symbol in self.scopes:
            facts.bound(symbol, 0, self.scopes[symbol])
        elif symbol in loops:
            start, stop, step = (operand.sym for operand in loops[symbol].operands)
            assert start is not None and stop is not None and step is not None
            first, last = si.substitute(start, self.fixed), si.substitute(stop, self.fixed)
            self.bound(facts, first, loops, bounded)
            self.bound(facts, last, loops, bounded)
            # A step is a negative constant, or known to be positive (`tracer.control`).
            downwards = si.is_const(step) and step.value < 0
            facts.assume(si.land(si.le(symbol, first), si.lt(last, symbol)) if downwards else
                         si.land(si.le(first, symbol), si.lt(symbol, last)))


def _problem(place: _Place, launch: _Launch, names: Mapping[Int, str]) -> Iterator[str]:
    node, fixed = place.node, launch.fixed
    assert node.sym is not None and node.dtype is not None
    value = si.substitute(node.sym, fixed)
    conditions = [si.substitute(condition, fixed) for condition in place.conditions]
    facts, bounded = Facts(), set[Int]()
    for expression in (value, *conditions):
        launch.bound(facts, expression, place.loops, bounded)
    for condition in conditions:
        facts.assume(condition)
    if facts.contradictory:
        return      # never reached
    low, high = facts.bounds(value)
    least, greatest = node.dtype.limits
    if low is not None and high is not None and least <= low and high <= greatest:
        return
    reach = next(str(end) for end, out in ((high, high is None or high > greatest), (low, low is None or low < least)) if out)
    given = ", ".join(f"{names.get(symbol, symbol.name)} = {value}" for symbol, value in fixed.items())
    where = f" at {node.location.short}" if node.location else ""
    use = f", which is used as {'an' if node.dtype.name[0] in 'iu' else 'a'} {node.dtype}" if node.op is ops.CAST else f", outside {node.dtype}"
    yield f"the index arithmetic `{text(node.sym, names)}`{where} can reach {reach}{' with ' * bool(given)}{given}{use}"
