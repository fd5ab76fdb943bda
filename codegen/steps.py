"""Mutable scalars that step through indices: `i = T.local_scalar("int32", tx)`, then `i += 256` while `i < n`.

The algebra sees a fresh value in each load of one. What is stored tells that it holds an index nevertheless: an index, or such a scalar
plus or minus, limited by, or divided by one. Products are left out: those that wrap are how random numbers are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from tracer import operations as ops
from tracer.dtypes import dtype
from tracer.ir import Function, Node, Storage

INT32 = dtype("int32")
RELATIONS = frozenset({ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE})
_STEPS = frozenset({ops.ADD, ops.SUB, ops.MIN, ops.MAX, ops.FLOORDIV, ops.LET, ops.SELECT})


def stepping(function: Function, indices: Set[Node], leaves: Set[Node]) -> tuple[set[Storage], set[Node]]:
    """The memory of such scalars of int32, and the int32 nodes that are made of their loads. One that is used as data too is data.

    `indices` are the nodes that hold indices, `leaves` the int32 values that are there without being computed.
    """
    nodes = [node for node in function.device.walk() if "buffer" in node.attrs and node.attrs["buffer"].cell]
    cells = {node.attrs["buffer"].storage for node in nodes
             if node.attrs["buffer"].dtype is INT32 and node.attrs["buffer"].scope == "local"}
    cells -= {node.attrs["buffer"].storage for node in nodes if node.op not in (ops.ALLOC, ops.LOAD, ops.STORE)}
    while True:
        kept = _Kept(function, indices, leaves, cells)
        data = set(kept.data())
        if not data:
            return cells, {node for node in function.device.walk() if node.dtype is INT32 and node not in indices and kept.steps(node)}
        cells -= data


class _Kept:
    """What holds indices while `cells` are taken to hold them."""

    def __init__(self, function: Function, indices: Set[Node], leaves: Set[Node], cells: Set[Storage]) -> None:
        self.function, self.indices, self.leaves, self.cells = function, indices, leaves, cells
        self.known: dict[Node, bool] = {}

    def holds(self, node: Node) -> bool:
        """Whether the value is an index."""
        return node.op is ops.CONST or node in self.indices or node in self.leaves or self.steps(node)

    def steps(self, node: Node) -> bool:
        """Whether it is a load of such a scalar, or made of one."""
        if node not in self.known:
            self.known[node] = self._steps(node)
        return self.known[node]

    def _steps(self, node: Node) -> bool:
        if node.op is ops.LOAD:
            return node.attrs["buffer"].storage in self.cells
        values = node.operands[1:] if node.op is ops.SELECT else node.operands
        return (node.op in _STEPS and node.dtype is INT32 and node not in self.function.overflowing
                and all(map(self.holds, values)) and any(map(self.steps, values)))

    def data(self) -> Iterator[Storage]:
        """The cells that hold something else, or whose value is used as something else."""
        for node in self.function.device.walk():
            if node.op is ops.STORE and node.attrs["buffer"].storage in self.cells and not self.holds(node.operands[-1]):
                yield node.attrs["buffer"].storage
            for position, operand in enumerate(node.operands):
                if self.steps(operand) and not self._is_index_use(node, position):
                    yield from self._behind(operand)
            for region in node.regions:
                if region.result is not None and self.steps(region.result):
                    yield from self._behind(region.result)

    def _is_index_use(self, node: Node, position: int) -> bool:
        if node.op.accesses and position < len(node.op.split(node.operands)[0]):
            return True
        if node.op is ops.STORE:
            return node.attrs["buffer"].storage in self.cells
        if node.op is ops.FOR:
            return node.regions[0].arguments[0] in self.indices
        if node.op in RELATIONS:
            return all(operand.dtype is not INT32 or self.holds(operand) or operand.op is ops.LOAD for operand in node.operands)
        return node.op is ops.CAST or self.steps(node)

    def _behind(self, node: Node) -> Iterator[Storage]:
        """The cells whose loads a value is made of."""
        if node.op is ops.LOAD:
            yield node.attrs["buffer"].storage
        else:
            for operand in node.operands:
                if self.steps(operand):
                    yield from self._behind(operand)
