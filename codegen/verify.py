"""What a well-formed function is, as named checks. A violation is a bug of ours, not of the author: the message says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tracer import operations as ops
from tracer.dtypes import dtype
from tracer.errors import KernelwrightError
from tracer.instructions import REGISTER_ROLES, is_instruction, roles
from tracer.ir import Function, Node, Region


class MalformedError(KernelwrightError):
    """A function that no author's program can give: a bug in the tracer. The message names the check and the node."""


def verify(function: Function) -> None:
    """Raise `MalformedError` for the first check that `function` fails."""
    for check in CHECKS:
        for problem in check(function):
            raise MalformedError(f"{function.name}: {check.__name__}: {problem} (please report this: it is a bug of kernelwright)")


def operands_are_defined_before_use(function: Function) -> Iterator[str]:
    """Every operand is a leaf, or stands earlier in the same region or in one that encloses it."""
    defined: set[Node] = set()

    def region(r: Region) -> Iterator[str]:
        inside = [*r.arguments]
        defined.update(r.arguments)
        for node in r.nodes:
            for operand in node.operands:
                if operand.parent is not None and operand not in defined:
                    yield f"{node!r} at {node.location} uses {operand!r} before it is defined"
            for inner in node.regions:
                yield from region(inner)
            defined.add(node)
            inside.append(node)
        if r.result is not None and r.result.parent is not None and r.result not in defined:
            yield f"the result {r.result!r} is not defined"
        defined.difference_update(inside)

    yield from region(function.host)
    defined.update(function.host.nodes)
    yield from region(function.device)


def nodes_know_their_region(function: Function) -> Iterator[str]:
    """`parent` is the region in whose list the node stands."""
    def region(r: Region) -> Iterator[str]:
        for node in r.nodes:
            if node.parent is not r:
                yield f"{node!r} stands in a region that is not its parent"
            for inner in node.regions:
                yield from region(inner)

    yield from region(function.host)
    yield from region(function.device)


def binary_operands_agree(function: Function) -> Iterator[str]:
    """The recorder promotes: both operands of an arithmetic operation have the result's dtype."""
    for node in function.device.walk():
        if node.op.result == "promote" and len({o.dtype for o in node.operands}) > 1:
            yield f"{node!r} has operands of {[str(o.dtype) for o in node.operands]}"


def stores_have_the_buffers_dtype(function: Function) -> Iterator[str]:
    """A stored value is of the buffer's dtype, or a vector of it."""
    for node in function.device.walk():
        if node.op is ops.STORE:
            value, target = node.operands[-1].dtype, node.attrs["buffer"].dtype
            if value is None or value.scalar is not target.scalar:
                yield f"{node!r} stores {value} into {target}"


def conditions_are_bool(function: Function) -> Iterator[str]:
    """If, select and While test bools."""
    for node in function.device.walk():
        tested = node.operands[:1] if node.op in (ops.IF, ops.IF_THEN_ELSE, ops.SELECT) else ()
        if node.op is ops.WHILE and node.regions[0].result is not None:
            tested = (node.regions[0].result,)
        if any(t.dtype is not dtype("bool") for t in tested):
            yield f"{node!r} tests a value that is not a bool"


def instructions_have_their_operands(function: Function) -> Iterator[str]:
    """As many operands as `counts` says; what an instruction writes as a register is an element of a thread's own memory, and no address is."""
    for node in function.device.walk():
        if not is_instruction(node.op):
            continue
        counts = node.attrs["counts"]
        if len(counts) != len(node.op.operands) or sum(counts) != len(node.operands):
            yield f"{node!r} has {len(node.operands)} operands, counted as {counts}"
            continue
        for role, operand in roles(node):
            own = operand.op is ops.ADDRESS_OF and operand.attrs["buffer"].scope == "local"
            if role in REGISTER_ROLES and not own:
                yield f"{node!r} writes {operand!r}, which is no register"
            if role not in REGISTER_ROLES and own:
                yield f"{node!r} takes the address of {operand!r}, a register"


CHECKS: tuple[Callable[[Function], Iterator[str]], ...] = (
    operands_are_defined_before_use, nodes_know_their_region, binary_operands_agree, stores_have_the_buffers_dtype, conditions_are_bool,
    instructions_have_their_operands,
)
