"""Which architectures a kernel can be compiled for: that of the most demanding operation in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codegen.lowered import DeviceHalf
from tracer import operations as ops
from tracer.errors import CompileError
from tracer.ir import Location

OLDEST = "sm_75"        # what CUDA 13 still compiles for


def minimum(half: DeviceHalf) -> str:
    """The first architecture that has every operation of `half`, as "sm_80"."""
    return max((since for since, _, _ in _needs(half)), key=number, default=OLDEST)


def check(half: DeviceHalf, arch: str) -> None:
    """Raise `CompileError`, naming operation and line, where `arch` ("sm_90a") lacks an operation of `half`."""
    given = number(arch)
    for since, what, location in _needs(half):
        if given < number(since):
            raise CompileError(f"{half.name} cannot be compiled for {arch}: {what}{f' at {location}' if location else ''} needs {since} or later")


def number(arch: str) -> int:
    """90 for "sm_90a". Raises `CompileError` for anything else than such a name."""
    found = re.fullmatch(r"(?:sm|compute)_(\d+)[af]?", arch)
    if found is None:
        raise CompileError(f"{arch!r} is not an architecture; write one such as \"sm_90a\"")
    return int(found[1])


def _needs(half: DeviceHalf) -> Iterator[tuple[str, str, Location | None]]:
    """(architecture, what needs it, where) for everything that not all architectures have."""
    launch = half.lowered.function.launch
    if launch.cluster is not None:
        yield ops.CTA_IN_CLUSTER.since, "a launch in clusters", half.lowered.function.location
    for node in half.body.walk():
        if node.op.since:
            yield node.op.since, f"T.{node.op.name}", node.location
