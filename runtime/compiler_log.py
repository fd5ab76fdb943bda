"""What NVRTC and nvcc print: messages put beside the Python lines that they come from, and ptxas's account of a kernel."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tracer.errors import CompileError
from tracer.ir import Location


@dataclass(frozen=True, slots=True)
class Resources:
    """What one thread and one block of a kernel take, as ptxas reports it: registers a thread, the rest in bytes.

    `shared` is the static shared memory of a block, `local` the stack frame of a thread.
    """

    registers: int
    shared: int
    local: int
    spill_stores: int
    spill_loads: int


_PLACE = re.compile(r"^[^\s():]+\.cu(?:\((\d+)\)|:(\d+):\d+):", re.M)


def paired(log: str, lines: Mapping[int, Location]) -> str:
    """The compiler's messages, each followed by the Python line that its CUDA line comes from."""
    places = list(_PLACE.finditer(log))
    if not places:
        return log.strip()
    shown = [log[:places[0].start()].strip()]
    for place, following in zip(places, [*places[1:], None]):
        message = log[place.start():following.start() if following else len(log)].rstrip()
        said, _, rest = message.partition("\n\n")   # the message itself, then what closes the log
        location = lines.get(int(place[1] or place[2]))
        code = linecache.getline(location.file, location.line).strip() if location else ""
        origin = f"    from {location}, in {location.function}" + (f": {code}" if code else "") if location else ""
        shown += [said, origin, rest]
    return "\n".join(filter(None, shown))


def without_account(log: str) -> str:
    """The log without ptxas's `-v` lines: warnings, or nothing.

    What ptxas calls information but gives a number, (C7510) and the like, is no account: wgmma is serialised, setmaxnreg is ignored.
    """
    kept = [line for line in log.splitlines()
            if not re.match(r"ptxas info(?!\s*:\s*\(C7)|ptxas\s+\.\s|\s+\d+ bytes stack frame", line) and line.strip(" \0")]
    return "\n".join(kept)


def resources(log: str, entry: str) -> Resources:
    """ptxas's figures for `entry`. Raises `CompileError` where the log does not have them."""
    account = log.partition(f"Compiling entry function '{entry}'")[2]

    def figure(pattern: str, otherwise: int | None = None) -> int:
        found = re.search(pattern, account)
        if found is None and otherwise is None:
            raise CompileError(f"the source has no kernel {entry}, or ptxas did not report on it:\n{log}")
        return int(found[1]) if found else int(otherwise or 0)

    return Resources(
        registers=figure(r"Used (\d+) registers"),
        shared=figure(r"(\d+) bytes smem", 0),
        local=figure(r"(\d+) bytes stack frame"),
        spill_stores=figure(r"(\d+) bytes spill stores"),
        spill_loads=figure(r"(\d+) bytes spill loads"),
    )
