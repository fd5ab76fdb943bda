"""Which architectures a kernel can be compiled for: that of the most demanding operation in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codegen.lowered import DeviceHalf
from tracer import operations as ops
from tracer.errors import CompileError
from tracer.ir import Location, Node

OLDEST = "sm_75"        # what CUDA 13 still compiles for


# What is in one architecture, or one family, and in no later one; "+": in all later ones too, but with the letter only. PTX ISA,
# "Target ISA Notes" of setmaxnreg, wgmma and tcgen05.
_SPECIFIC = {"sm_90a": range(90, 91), "sm_90a+": range(90, 1000), "sm_100a": range(100, 120)}


def minimum(half: DeviceHalf) -> str:
    """The first architecture that has every operation of `half`, as "sm_80"."""
    asked = max((since for since, _, _ in _needs(half)), key=_rank, default=OLDEST)
    return asked.rstrip("+")


def _rank(since: str) -> tuple[int, bool]:
    return number(since.rstrip("+")), since in _SPECIFIC


def check(half: DeviceHalf, arch: str) -> None:
    """Raise `CompileError`, naming operation and line, where `arch` ("sm_90a") lacks an operation of `half`."""
    number(arch)
    for since, what, location in _needs(half):
        if not has(arch, since):
            where = f" at {location}" if location else ""
            raise CompileError(f"{half.name} cannot be compiled for {arch}: {what}{where} needs {_named(since)}")


def has(arch: str, since: str) -> bool:
    """Whether `arch` has what came with `since`."""
    specific = _SPECIFIC.get(since)
    if specific is None:
        return number(arch) >= number(since)
    return number(arch) in specific and arch[-1] in "af"


def _named(since: str) -> str:
    specific = _SPECIFIC.get(since)
    if specific is None:
        return f"{since} or later"
    name = since.rstrip("+")
    return name if len(specific) == 1 else f"{name}, or a later one with the letter a or f" if since.endswith("+") else f"{name} or one of its family"


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
        for since in filter(None, node.attrs.get("architecture", (node.op.since,))):
            yield since, _written(node), node.location


def _written(node: Node) -> str:
    """The instruction as it was asked for, or the operation's name."""
    return f"`{node.attrs['instruction']}`" if node.op.name.startswith("ptx.") else f"T.{node.op.name}"
