"""An index over all threads of a block at once."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

import numpy as np

from codegen.lowered import Lowered
from symbolic import integers as si
from symbolic.evaluate import evaluate
from symbolic.facts import Facts
from symbolic.integers import Int
from tracer import operations as ops
from tracer.ir import Node

Array: TypeAlias = np.ndarray[Any, Any]

MANY = 1 << 20              # so many threads and turns of loops are tried one by one
_BLOCK_WIDE = frozenset({ops.BLOCK_INDEX, ops.CLUSTER_INDEX, ops.CTA_IN_CLUSTER, ops.EXTENT, ops.SCALAR})
_GRID_WIDE = frozenset({ops.EXTENT, ops.SCALAR})


class Threads:
    """The threads of a block, and which atoms differ between them. `known`: the block's extents are numbers."""

    def __init__(self, lowered: Lowered) -> None:
        self.function = lowered.function
        block = self.function.launch.block
        self.known = all(map(si.is_const, block)) and bool(block)
        x, y, z = (*(e.value for e in block if si.is_const(e)), 1, 1, 1)[:3]
        self.count = x * y * z if self.known else 0
        number = np.arange(self.count)
        along = (number % x, number // x % y, number // (x * y))
        self.indices = {symbol: along[node.attrs["axis"]] for symbol, node in self.function.atoms.items() if node.op is ops.THREAD_INDEX}
        self.loops = {node.regions[0].arguments[0].sym: node for node in self.function.device.walk() if node.op is ops.FOR}

    def node(self, symbol: Int) -> Node:
        return self.function.atoms[symbol]

    def is_thread(self, symbol: Int) -> bool:
        return symbol in self.indices

    def is_uniform(self, symbol: Int) -> bool:
        """The same for all threads of a block: a block index, an extent, a scalar, the variable of a loop that all run alike."""
        node = self.function.atoms.get(symbol)
        if node is not None and node.op in _BLOCK_WIDE:
            return True
        return symbol in self.loops and all(map(self.is_uniform, self.ends_of(symbol)))

    def is_constant(self, e: Int) -> bool:
        """The same for the whole grid."""
        return all(s in self.function.atoms and self.node(s).op in _GRID_WIDE for s in si.free_symbols(e))

    def ends_of(self, variable: Int) -> tuple[Int, ...]:
        """The atoms that decide the values of a loop's variable."""
        return tuple(s for o in self.loops[variable].operands if o.sym is not None for s in si.free_symbols(o.sym))

    def turned(self, index: Int, facts: Facts) -> tuple[Int, Facts, frozenset[Int]]:
        """`index`, multiplied out, with the variable of each loop that begins elsewhere for each thread as `start + step*turn`.

        Also what is known then, and the turns, new symbols that are the same for threads side by side.
        """
        turns = set()
        for variable in si.free_symbols(index):
            if variable in self.loops and not self.is_uniform(variable):
                start, stop, step = (o.sym for o in self.loops[variable].operands)
                if start is not None and stop is not None and step is not None and si.is_const(step) and step.value > 0:
                    turn = si.Symbol("turn")
                    value = start + step * turn
                    facts = facts.scope()
                    facts.bound(turn, 0, None)
                    facts.assume(si.lt(value, stop))
                    facts.assume(si.eq(variable, value))
                    index = si.substitute(index, {variable: value})
                    turns.add(turn)
        return expanded(facts.simplify(index) if turns else index), facts, frozenset(turns)

    def over_threads(self, e: Int, loops: dict[Int, range]) -> tuple[Array, Array]:
        """(thread, value of `e`) for every thread and every turn of the loops, whose variables may occur in `e`."""
        shape = [self.count, *map(len, loops.values())]
        values: dict[Int, Any] = {s: a.reshape(-1, *[1] * len(loops)) for s, a in self.indices.items()}
        for k, (variable, turns) in enumerate(loops.items(), 1):
            along = [1] * len(shape)
            along[k] = -1
            values[variable] = np.arange(turns.start, turns.stop, turns.step).reshape(along)
        found = np.broadcast_to(np.asarray(evaluate(e, values), np.int64), shape)
        threads = np.arange(self.count).reshape(-1, *[1] * len(loops))
        return np.broadcast_to(threads, shape).reshape(-1), found.reshape(-1)

    def points(self, loops: dict[Int, range]) -> int:
        """How many values `over_threads` would give."""
        return self.count * prod(map(len, loops.values()))


def expanded(e: Int) -> Int:
    """`e` with its products multiplied out, so that each term is a stride times what it is the stride of."""
    total = si.const(si.constant_of(e))
    for term, c in si.terms_of(e).items():
        made = si.const(c)
        for f in si.factors_of(term):
            made = _times(made, expanded(f) if f.op is si.SUM else f)
        total = si.add(total, made)
    return total


def _times(a: Int, b: Int) -> Int:
    total = si.ZERO
    for t, c in (*si.terms_of(a).items(), (si.ONE, si.constant_of(a))):
        for u, k in (*si.terms_of(b).items(), (si.ONE, si.constant_of(b))):
            total = si.add(total, si.scale(si.mul(t, u), c * k))
    return total


def turns_of(loop: Node, facts: Facts) -> range | None:
    """The values of a loop's variable, where its ends are numbers."""
    ends = [facts.simplify(o.sym) for o in loop.operands if o.sym is not None]
    if len(ends) == 3 and all(map(si.is_const, ends)):
        return range(*(e.value for e in ends))
    return None
