"""Which loops wait for what another thread writes, and so which kernels need an agent a warp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tracer import instructions as ins
from tracer import operations as op
from tracer.ir import Node, Region, Storage
from tracer.operations import Effect

# These wait for what the thread itself began.
_OWN = frozenset({ins.CP_ASYNC_WAIT_GROUP, ins.CP_ASYNC_WAIT_ALL, ins.BULK_WAIT_GROUP, ins.GRID_WAIT})
# These concern other warps, or other blocks of the cluster, which must run at the same time; so does what has an mbarrier for an operand.
_OTHERS = frozenset({ins.BAR_ARRIVE, ins.MAPA, ins.GETCTARANK, ins.CLUSTER_ARRIVE})
_MEMORY_ROLES = (ins.READ_ROLES | ins.WRITTEN_ROLES) - ins.REGISTER_ROLES


def needs_warps(body: Region) -> bool:
    """True where threads wait for others in any way but at barriers of the block, or poll what others write."""
    shared = _written(body)
    for node in body.walk():
        if (node.op.effect & Effect.WAIT and node.op not in _OWN) or node.op in _OTHERS or "barrier" in _roles(node):
            return True
        if node.op is op.WHILE and polling(node, shared).polls:
            return True
    return False


@dataclass(slots=True)
class Polling:
    """What decides whether a loop goes on: `polls`, memory that other threads may write; `state`, the thread's own variables that change
    in the loop; `timed`, the clock."""

    polls: bool = False
    timed: bool = False
    state: dict[Storage, None] = field(default_factory=dict)


def polling_of(node: Node, body: Region) -> Polling:
    """Of a loop in the kernel `body`."""
    return polling(node, _written(body))


def polling(loop: Node, written: frozenset[Storage]) -> Polling:
    """A backward slice of the loop's condition, and of the conditions under which it is left, through the thread's own variables."""
    around = dict(_around(loop))
    writers: dict[Storage, list[Node]] = {}
    for node in around:
        for storage in _own_written(node):
            writers.setdefault(storage, []).append(node)
    assert loop.regions[0].result is not None
    pending = [loop.regions[0].result]
    for node in around:
        if node.op in op.LEAVING:
            pending += around[node]
    found, seen, counters = Polling(), set[Node](), _counters(loop, around)
    while pending:
        node = pending.pop()
        if node in seen or node not in around:
            continue        # or computed before the loop: it does not change
        seen.add(node)
        pending += node.operands
        pending += around[node]
        pending += [region.result for region in node.regions if region.result is not None]
        if node.op is op.CLOCK64:
            found.timed = True
        elif node.op in op.ATOMICS or _touches_memory(node):
            found.polls = True
        elif node.op is op.LOAD and node.attrs["buffer"].scope == "local":
            storage = node.attrs["buffer"].storage
            found.state[storage] = None
            pending += writers.get(storage, ())
        elif node.op is op.LOAD and node.attrs["buffer"].storage in written and not any(_moves(c, around, counters) for c in node.operands):
            found.polls = True
    return found


def _counters(loop: Node, around: dict[Node, list[Node]]) -> frozenset[Storage]:
    """The thread's own variables to which every turn of the loop adds the same number."""
    if any(node.op is op.CONTINUE for node in around):
        return frozenset()      # which may leave the addition out
    return frozenset(node.attrs["buffer"].storage for node in loop.regions[1].nodes
                     if node.op is op.STORE and _counts(node.operands[-1], node.attrs["buffer"].storage))


def _counts(value: Node, storage: Storage) -> bool:
    if value.op not in (op.ADD, op.SUB):
        return False
    first, second = value.operands
    return (first.op is op.LOAD and first.attrs["buffer"].storage is storage and not first.operands
            and second.op is op.CONST and second.attrs["value"] != 0)


def _moves(coordinate: Node, around: dict[Node, list[Node]], counters: frozenset[Storage]) -> bool:
    """Whether it differs from turn to turn: a counter, times and plus what does not change. Who reads there goes on, and does not wait."""
    if coordinate.op is op.LOAD:
        return coordinate.attrs["buffer"].storage in counters
    if coordinate.op in (op.CAST, op.LET, op.NEG):
        return _moves(coordinate.operands[0], around, counters)
    if coordinate.op in (op.ADD, op.SUB):
        first, second = coordinate.operands
        return any(_moves(a, around, counters) and _stays(b, around) for a, b in ((first, second), (second, first)))
    if coordinate.op is op.MUL:
        first, second = coordinate.operands
        return any(_moves(a, around, counters) and b.op is op.CONST and b.attrs["value"] != 0 for a, b in ((first, second), (second, first)))
    return False


def _stays(value: Node, around: dict[Node, list[Node]]) -> bool:
    """Whether it is the same in every turn, as nothing that it is made of is read in the loop."""
    return value not in around or (value.op.pure and all(_stays(operand, around) for operand in value.operands))


def _around(loop: Node) -> Iterator[tuple[Node, list[Node]]]:
    """Every node in the loop, with the conditions of the branches around it there. What iterates an inner loop counts as one."""
    def walk(region: Region, conditions: list[Node]) -> Iterator[tuple[Node, list[Node]]]:
        for node in region.nodes:
            yield node, conditions
            inner = conditions
            if node.op in (op.IF, op.IF_THEN_ELSE, op.FOR):
                inner = [*conditions, *node.operands]
            elif node.op is op.WHILE and node.regions[0].result is not None:
                inner = [*conditions, node.regions[0].result]
            for part in node.regions:
                yield from walk(part, inner)
    for region in loop.regions:
        yield from walk(region, [])


def _own_written(node: Node) -> list[Storage]:
    """The thread's own storages that a node writes."""
    if node.op is op.STORE:
        return [node.attrs["buffer"].storage] if node.attrs["buffer"].scope == "local" else []
    if ins.is_instruction(node.op):
        return [operand.attrs["buffer"].storage for role, operand in ins.roles(node)
                if role in ins.REGISTER_ROLES and operand.op is op.ADDRESS_OF]
    return []


def _roles(node: Node) -> set[str]:
    return {role for role, _ in ins.roles(node)} if ins.is_instruction(node.op) else set()


def _touches_memory(node: Node) -> bool:
    return bool(_roles(node) & _MEMORY_ROLES)


def _written(body: Region) -> frozenset[Storage]:
    """The storages of several threads that the kernel writes, or may."""
    found = set()
    for node in body.walk():
        if node.op is op.STORE or node.op in op.ATOMICS or node.op is op.ADDRESS_OF:
            found.add(node.attrs["buffer"].storage)
        elif node.op is op.TENSOR_MAP:
            found.add(node.attrs["map"].buffer.storage)
    return frozenset(found)
