"""Warpgroups: the wgmma instructions that four warps have issued together, and what each warp has yet to wait for. PTX ISA 9.7.15.

An instruction is one operation of four warps: it begins when the fourth of them has issued it, and happens as late as a wait allows. It
reads its operands through their descriptors then, and A and the accumulator from registers, which nobody may touch meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from runtime.simulator.agent import Agent, line
from runtime.simulator.events import AsyncOperation, Touch
from runtime.simulator.frames import Array, Frame
from runtime.simulator.operands import Bad, Operand, operand
from runtime.simulator.register_operands import Registers
from runtime.simulator.registers import to_matrix, to_registers
from runtime.simulator.resident import WARP, Block
from runtime.simulator.tensor_cores import multiply, numbers
from tracer.errors import AsyncError, BarrierDivergenceError, DescriptorError, UninitializedReadError
from tracer.ir import Node
from tracer.matrix import WGMMA_FORMS, WgmmaForm

WARPS = 4       # of a warpgroup
ROWS = 64


class Part(NamedTuple):
    """What one warp brings: its registers and the values of its operands. `a` is A in registers, (32, 4) words, or a descriptor."""

    agent: Agent
    frame: Frame
    d: Registers
    held: Registers | None      # the registers of A where it was passed as they stand
    a: Any
    b: int
    scale_d: bool


@dataclass(eq=False)
class Product(AsyncOperation):
    """One wgmma.mma_async of a warpgroup of `block`."""

    block: Block | None = None
    parts: dict[int, Part] = field(default_factory=dict)        # by the warp's number in the warpgroup
    operands: list[tuple[str, Operand]] = field(default_factory=list)

    @property
    def form(self) -> WgmmaForm:
        attrs = self.node.attrs
        return WGMMA_FORMS[attrs["d_type"], attrs["a_type"], attrs["b_type"]]

    @property
    def n(self) -> int:
        return int(re.fullmatch(r"m64n(\d+)k\d+", self.node.attrs["shape"])[1])      # type: ignore[index]

    @property
    def complete(self) -> bool:
        """All four warps have issued it."""
        return len(self.parts) == WARPS

    def begin(self) -> None:
        """The fourth warp has come: find the operands, tell what is read."""
        assert self.block is not None
        parts = [self.parts[w] for w in range(WARPS)]
        first = parts[0]
        for w, part in enumerate(parts):
            if (part.b, part.scale_d) != (first.b, first.scale_d) or (isinstance(part.a, int) and part.a != first.a):
                raise DescriptorError(f"{self.node.op.name}: the warps of a warpgroup pass different operands: warp 0 {_passed(first)}, warp {w} "
                                      f"{_passed(part)}\n  in {self.block.text()}{line(self.node)}")
        form, attrs = self.form, self.node.attrs
        wanted = [("B", first.b, self.n, attrs.get("trans_b"), form.b)]
        if isinstance(first.a, int):
            wanted.insert(0, ("A", first.a, ROWS, attrs.get("trans_a"), form.a))
        size = self.block.cluster.space.pitch
        for name, bits, mn, transposed, kind in wanted:
            try:
                found = operand(bits, "wgmma", "MN" if transposed else "K", mn, form.k, kind, size)
            except Bad as bad:
                raise DescriptorError(f"{self.node.op.name}: {name}: {bad}\n  in {self.block.text()}{line(self.node)}") from None
            self.operands.append((name, found))
        self.threads = np.concatenate([part.agent.numbers(part.frame) for part in parts])
        space, base = self.block.cluster.space, self.block.rank * size
        self.touches = [Touch(self.node, None, space, "load", self.threads[:1], base + found.chunks()[None, :], 16, proxy="async", actor=self)
                        for _, found in self.operands]

    def land(self) -> None:
        assert self.block is not None
        form, attrs = self.form, self.node.attrs
        parts = [self.parts[w] for w in range(WARPS)]
        read = {name: self._read(name, found) for name, found in self.operands}
        if "A" not in read:
            words = np.concatenate([part.a for part in parts])
            read["A"] = numbers(to_matrix(words, form.a_fragment(), form.a), form.a)
        a, b = read["A"] * attrs.get("scale_a", 1), read["B"] * attrs.get("scale_b", 1)
        accumulator = None
        if parts[0].scale_d:
            words = np.concatenate([part.d.read(part.agent, part.frame, track=False) for part in parts])
            accumulator = numbers(to_matrix(words, form.accumulator(self.n), form.d), form.d)
        made = to_registers(multiply(a, b.T, accumulator, form.d, bool(attrs.get("satfinite"))), form.accumulator(self.n))
        for part, words in zip(parts, np.split(made, WARPS)):
            part.d.write(part.agent, part.frame, words, track=False)

    def _read(self, name: str, found: Operand) -> Array:
        assert self.block is not None
        space, size = self.block.cluster.space, self.block.cluster.space.pitch
        base = self.block.rank * size
        if space.written is not None:
            bad = space.unwritten(base + found.addresses, 1)
            if bad.any():
                raise UninitializedReadError(
                    f"{self.node.op.name}: operand {name}, which its descriptor puts at shared addresses {int(found.addresses.min()):#x} to "
                    f"{int(found.addresses.max()):#x}, has bytes that nothing has written, the first at {int(found.addresses[bad].min()):#x}\n"
                    f"  in {self.block.text()}{line(self.node)}")
        return found.read(space.viewed(np.dtype(np.uint8))[base:base + size])


def _passed(part: Part) -> str:
    a = f"a={part.a:#x}, " if isinstance(part.a, int) else ""
    return f"{a}b={part.b:#x}, scale-d={int(part.scale_d)}"


@dataclass(eq=False)
class Queue:
    """What one warp has issued: how many instructions, those not committed yet, and its groups, oldest first."""

    issued: int = 0
    open: list[Product] = field(default_factory=list)
    groups: list[list[Product]] = field(default_factory=list)

    def pending(self) -> list[Product]:
        """Everything that the warp has not waited for."""
        return [product for group in self.groups for product in group] + self.open


class Ended(NamedTuple):
    """Tells all who wait for a product that it has ended, whichever of the warpgroup's threads they are."""

    product: Product

    @property
    def key(self) -> Hashable:
        return ("wgmma", self.product)

    def complete(self, operation: AsyncOperation) -> None:
        """There is no barrier to tell it to."""


class Warpgroup:
    """Four warps of a block that issue wgmma together."""

    def __init__(self, block: Block, number: int) -> None:
        self.block = block
        self.agents = block.agents[number * WARPS:(number + 1) * WARPS]
        self.queues = {agent: Queue() for agent in self.agents}
        self.products: dict[int, Product] = {}      # by their number in order of issue, from when the first warp comes until all have
        self.last: Product | None = None

    def issue(self, agent: Agent, node: Node, part: Part) -> Product:
        """A warp issues one instruction; the product begins with the last of the four."""
        queue = self.queues[agent]
        product = self.products.get(queue.issued)
        if product is None:
            product = self.products[queue.issued] = Product(node, np.empty(0, np.int64), block=self.block)
        elif product.node is not node:
            other = next(iter(product.parts.values())).agent
            raise BarrierDivergenceError(
                f"wgmma: the four warps of a warpgroup issue the same instructions in the same order; warp {other.first // WARP} is at "
                f"{product.node.location}, warp {agent.first // WARP} at another\n  in {self.block.text()}{line(node)}")
        product.parts[self.agents.index(agent)] = part
        queue.open.append(product)
        if product.complete:
            del self.products[queue.issued]
            product.begin()
            product.after = () if self.last is None or self.last.landed else (self.last,)
            product.completions = (Ended(product),)
            self.last = product
            self.block.cluster.engines.issue(product)
        queue.issued += 1
        return product

    def missing(self, product: Product) -> str:
        """Whose turn it is, for messages."""
        absent = [str(agent.first // WARP) for w, agent in enumerate(self.agents) if w not in product.parts]
        return f"warps {', '.join(absent)} of its warpgroup to issue the wgmma of {product.node.location}"

    def warp_ended(self, agent: Agent) -> None:
        """Raise AsyncError where a warp ends with work under way."""
        queue = self.queues.get(agent)
        if queue is not None and (pending := queue.pending()):
            why = "its group was not committed" if pending[0] in queue.open else "nobody waited for its group"
            raise AsyncError(f"{pending[0].node.op.name}: the kernel ends while it is under way: {why}. Write wgmma.commit_group and "
                             f"wgmma.wait_group behind it\n  in {self.block.text()}, warp {agent.first // WARP}{line(pending[0].node)}")


def warpgroup_of(agent: Agent, node: Node) -> Warpgroup:
    """The warpgroup of a warp."""
    block = agent.resident
    assert block is not None
    number = agent.first // WARP // WARPS
    key = f"warpgroup {number}"
    if key not in block.state:
        if len(block.agents) < (number + 1) * WARPS or any(a.threads < WARP for a in block.agents[number * WARPS:(number + 1) * WARPS]):
            raise BarrierDivergenceError(f"{node.op.name} is for warpgroups of 128 threads; the last warps of a block of {block.launch.threads} "
                                         f"threads are none\n  in {block.text()}{line(node)}")
        block.state[key] = Warpgroup(block, number)
    found: Warpgroup = block.state[key]
    return found
