"""The same kernel with 64-bit indices, for calls whose arrays have more than 2**31 elements.

Extents, and every int32 value that indices, extents and scalars alone make up, become int64, as do mutable scalars that step
through them (`codegen.steps`); the expressions behind them stay what they are. Data keeps its type: where such a value is used as an
int32 (stored, or computed with data), it is narrowed by a cast that is noted in `assumed_exact`, so that a call in which it does not
fit is refused. Lowering, printing and simulating then do with the copy what they do with a kernel whose author wrote int64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from codegen.steps import RELATIONS, stepping
from symbolic import integers as si
from tracer import operations as ops
from tracer.dtypes import DType, dtype
from tracer.ir import Buffer, Function, Node, Parameter, Region

INT32, INT64 = dtype("int32"), dtype("int64")
_INDEX_LEAVES = frozenset({ops.THREAD_INDEX, ops.BLOCK_INDEX, ops.CLUSTER_INDEX, ops.CTA_IN_CLUSTER, ops.EXTENT, ops.SCALAR})


def widened(function: Function) -> Function:
    """A copy of `function` whose index arithmetic has 64 bits. Symbols, buffers and the launch are shared with it."""
    return _Widening(function).run()


class _Widening:
    def __init__(self, function: Function) -> None:
        self.old = function
        self.made: dict[Node, Node] = {}
        self.narrowed: list[Node] = []
        self.index_atoms = {symbol for symbol, node in function.atoms.items() if node.op in _INDEX_LEAVES}
        for region in (function.host, function.device):
            self._add_loops(region)
        indices = {node for node in self._all_nodes() if self._is_index(node)}
        leaves = {node for node in function.atoms.values() if node.op in _INDEX_LEAVES} | set(function.scope_ids)
        cells, steps = stepping(function, indices, leaves)
        self.is_wide = indices | steps
        self.buffers: dict[Buffer, Buffer] = {}
        self.storages = {cell: replace(cell, dtype=INT64, align=max(cell.align, INT64.alignment)) for cell in cells}

    def run(self) -> Function:
        old = self.old
        new = Function(old.name, [], Region(), Region(), old.launch, attrs=old.attrs, location=old.location)
        self._fill(new.host, old.host)
        self._fill(new.device, old.device)
        new.parameters = [Parameter(p.name, p.kind, p.dtype, p.buffer, None if p.node is None else self.node(p.node), p.location)
                          for p in old.parameters]
        new.extents = [self.node(node) for node in old.extents]
        new.scope_ids = [self.node(node) for node in old.scope_ids]
        new.atoms = {symbol: self.node(node) for symbol, node in old.atoms.items()}
        new.assumptions = [(self.node(node), location) for node, location in old.assumptions]
        new.assumed_exact = [*(self.node(node) for node in old.assumed_exact), *self.narrowed]
        new.overflowing = {self.node(node): needed for node, needed in old.overflowing.items()}
        return new

    def _add_loops(self, region: Region) -> None:
        """The variable of a loop from index to index is one; that of a loop over a range of data is data."""
        for node in region.walk():
            if node.op is ops.FOR:
                ends = [symbol for operand in node.operands if operand.sym is not None for symbol in si.free_symbols(operand.sym)]
                variable = node.regions[0].arguments[0].sym
                if variable is not None and all(symbol in self.index_atoms for symbol in ends):
                    self.index_atoms.add(variable)

    def _all_nodes(self) -> Iterable[Node]:
        for region in (self.old.host, self.old.device):
            for node in region.walk():
                yield node
                for inner in node.regions:
                    yield from inner.arguments
        yield from self.old.extents

    def _is_index(self, node: Node) -> bool:
        """Whether a value is made of indices, extents and scalars alone, and the algebra sees all of it."""
        if node.dtype is not INT32 or node.sym is None or node.op is ops.SCOPE_ID or node.op is ops.CONST:
            return False
        own = self.old.atoms.get(node.sym) is node
        if own and not (node.op is ops.EXTENT or (node.op is ops.LOOP_VAR and node.sym in self.index_atoms)):
            return False
        return all(symbol in self.index_atoms for symbol in si.free_symbols(node.sym))

    # ---- nodes

    def node(self, node: Node) -> Node:
        """The copy of `node`: one that was made with its region, or a leaf."""
        made = self.made.get(node)
        if made is None:
            kind = INT64 if node in self.is_wide else node.dtype
            operands = tuple(map(self.node, node.operands))
            made = self.made[node] = Node(node.op, operands, kind, node.attrs, (), node.location, node.name, node.sym)
        return made

    def _fill(self, new: Region, old: Region) -> None:
        for argument in old.arguments:
            self.node(argument)
        new.arguments = tuple(self.node(argument) for argument in old.arguments)
        for node in old.nodes:
            self._copy(node, new)
        if old.result is not None:
            result = self.node(old.result)
            new.result = self._narrow(result, old.result, new) if old.result in self.is_wide else result

    def _copy(self, node: Node, region: Region) -> None:
        operands = tuple(self._operands(node, region))
        made = Node(node.op, operands, INT64 if node in self.is_wide else node.dtype, self._attrs(node), (), node.location, node.name, node.sym,
                    region)
        self.made[node] = made
        regions = []
        for old in node.regions:
            inner = Region()
            self._fill(inner, old)
            regions.append(inner)
        made.regions = tuple(regions)
        region.nodes.append(made)

    def _attrs(self, node: Node) -> dict[str, Any]:
        """A scalar that steps through indices is one of 64 bits."""
        buffer: Buffer | None = node.attrs.get("buffer")
        if buffer is None or buffer.storage not in self.storages:
            return node.attrs
        if buffer not in self.buffers:
            self.buffers[buffer] = replace(buffer, dtype=INT64, storage=self.storages[buffer.storage])
        return {**node.attrs, "buffer": self.buffers[buffer]}

    def _operands(self, node: Node, region: Region) -> Iterable[Node]:
        """The operands as the copy takes them: all of 64 bits, or as they are, or of 32 bits again."""
        wide = any(operand in self.is_wide for operand in node.operands)
        as_they_are = len(node.op.split(node.operands)[0]) if node.op.accesses else int(node.op is ops.CAST)     # so many, from the first on
        loop = node.op is ops.FOR and node.regions[0].arguments[0] in self.is_wide
        stepped = node.op is ops.STORE and node.attrs["buffer"].storage in self.storages
        together = node in self.is_wide or loop or stepped or (wide and node.op in RELATIONS and all(map(self._may_widen, node.operands)))
        for position, operand in enumerate(node.operands):
            if together:
                yield self._widen(operand, node, region)
            elif operand in self.is_wide and position >= as_they_are:
                yield self._narrow(self.node(operand), node, region)
            else:
                yield self.node(operand)

    def _may_widen(self, operand: Node) -> bool:
        """Whether an operand of a comparison means the same in 64 bits: an int32 that a thread computes in may have wrapped."""
        if operand in self.is_wide or operand.op in (ops.CONST, ops.SCOPE_ID) or operand.dtype is not INT32:
            return True
        return operand.op in _INDEX_LEAVES or operand.op is ops.LOOP_VAR or (operand.op is ops.LOAD and not operand.attrs["buffer"].cell)

    def _widen(self, operand: Node, user: Node, region: Region) -> Node:
        if operand.dtype is not INT32 or operand in self.is_wide:
            return self.node(operand)
        if operand.op is ops.CONST:
            return Node(ops.CONST, (), INT64, operand.attrs, (), operand.location, operand.name, operand.sym)
        return self._cast(self.node(operand), INT64, user, region)

    def _narrow(self, operand: Node, user: Node, region: Region) -> Node:
        made = self._cast(operand, INT32, user, region)
        self.narrowed.append(made)
        return made

    @staticmethod
    def _cast(operand: Node, kind: DType, user: Node, region: Region) -> Node:
        made = Node(ops.CAST, (operand,), kind, {}, (), user.location, None, operand.sym, region)
        region.nodes.append(made)
        return made

