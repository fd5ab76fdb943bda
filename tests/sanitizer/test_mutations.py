"""Every barrier matters: a kernel of the tables without one of its barriers races, and the detector says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from examples import block_sum, matmul, transpose
from tests.buffers import kernels as buffer_kernels
from tests.kernels import CASES, Case
from tracer import operations as op
from tracer import trace
from tracer.errors import DataRaceError
from tracer.ir import Node, Region

BARRIERS = (op.CTA_SYNC, op.WARP_SYNC)
# The barrier at the end of cta_sum frees its scratch, which this kernel does not use again.
FOR_NOTHING = {("sum_by_the_last_block", 1)}


def barriers(region: Region) -> Iterator[tuple[Region, Node]]:
    """Each barrier, with the region that it stands in."""
    for node in region.nodes:
        if node.op in BARRIERS:
            yield region, node
        for inner in node.regions:
            yield from barriers(inner)


def tables() -> Iterator[tuple[str, int, Case]]:
    for case in (*CASES, *buffer_kernels.CASES):
        for number, _ in enumerate(barriers(case.kernel().half.body)):
            if (case.name, number) not in FOR_NOTHING:
                yield case.name, number, case


@pytest.mark.parametrize(("name", "number", "case"), [pytest.param(*each, id=f"{each[0]}-{each[1]}") for each in tables()])
def test_a_kernel_without_one_of_its_barriers_races(name: str, number: int, case: Case) -> None:
    kernel = case.kernel()
    region, node = list(barriers(kernel.half.body))[number]
    region.nodes.remove(node)
    with pytest.raises(DataRaceError), np.errstate(all="ignore"):
        kernel.simulate(*case.inputs(np.random.default_rng(5)), np.full(case.output[0], 77, case.output[1]), *case.scalars)


def f32(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


EXAMPLES = {        # a kernel of its own for each number, and its arguments
    "block_sum": (lambda k: trace(block_sum.block_sum), lambda k: (f32(1024), f32(4)), 2),
    "transpose": (lambda k: trace(transpose.transpose), lambda k: (f32(64, 64), f32(64, 64)), 1),
    "matmul": (lambda k: matmul.matmul.specialize(M=64, N=64, K=32 + 16 * k), lambda k: (f32(64, 32 + 16 * k), f32(32 + 16 * k, 64), f32(64, 64)), 2),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_without_one_of_its_barriers_races(name: str) -> None:
    made, arguments, count = EXAMPLES[name]
    for number in range(count):
        kernel = made(number)
        places = list(barriers(kernel.half.body))
        assert len(places) == count
        region, node = places[number]
        region.nodes.remove(node)
        with pytest.raises(DataRaceError):
            kernel.simulate(*arguments(number))
