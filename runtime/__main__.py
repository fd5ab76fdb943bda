"""`python -m runtime`: what the cache of compiled kernels holds, and how it works."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from runtime import cache, short
from runtime.cache import Entry
from runtime.compiler import compiler
from tracer.errors import CompilerNotFoundError

EXPLANATION = """\
Compiled kernels are kept in {folder}
($KERNELWRIGHT_CACHE chooses another folder), in at most {limit} ($KERNELWRIGHT_CACHE_LIMIT, in bytes); those used longest ago
go first. An entry is named by the SHA-256 of all that went into it: the CUDA source, the kernel's name, the architecture, every
option, and the compiler with its version. So a changed kernel, option or compiler is a new entry, and nothing is ever out of
date. Entries are written to a temporary file and moved into place, each with a checksum; a corrupt one is made anew. Failed
compilations are not kept. Results of runtime.tune are kept beside them.

Compiler in use: {compiler}
The short way of calls like an earlier one: {short}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m runtime", description="The cache of compiled kernels.")
    commands = parser.add_subparsers(dest="command", metavar="command")
    for name, (_, help_) in COMMANDS.items():
        command = commands.add_parser(name, help=help_, description=help_)
        if name == "explain":
            command.add_argument("entry", nargs="?", help="the first characters of an entry's name; none: how the cache works")
    chosen = parser.parse_args(arguments)
    return COMMANDS[chosen.command or "show"][0](chosen)


def show(_: argparse.Namespace) -> int:
    """List the entries, the one used last first."""
    entries = cache.entries()
    rows = [(entry.name[:12], *_told(entry), _bytes(entry.size), _age(entry.used)) for entry in entries]
    for row in [("entry", "kind", "what", "for", "size", "last used"), *rows] if rows else []:
        print("{:12}  {:8}  {:24}  {:10}  {:>9}  {}".format(*row))
    total = sum(entry.size for entry in entries)
    print(f"{len(entries)} entries, {_bytes(total)} of {_bytes(cache.limit())}, in {cache.folder()}")
    return 0


def clear(_: argparse.Namespace) -> int:
    """Remove every entry."""
    print(f"{cache.clear()} entries removed from {cache.folder()}")
    return 0


def explain(chosen: argparse.Namespace) -> int:
    """Say how the cache works, or all about one entry."""
    if chosen.entry is None:
        try:
            found = str(compiler())
        except CompilerNotFoundError as problem:
            found = f"none ({problem})"
        made = short.compiled()
        print(EXPLANATION.format(folder=cache.folder(), limit=_bytes(cache.limit()), compiler=found,
                                 short=f"in Python ({made})" if isinstance(made, str) else "compiled"))
        return 0
    matching = [entry for entry in cache.entries() if entry.name.startswith(chosen.entry)]
    if len(matching) != 1:
        print(f"{len(matching)} entries begin with {chosen.entry!r}; `python -m runtime show` lists them", file=sys.stderr)
        return 1
    entry, = matching
    print(f"{entry.name}: {_bytes(entry.size)}, last used {_age(entry.used)}")
    for name, value in (entry.head or {"corrupt": "made anew when it is asked for"}).items():
        print(f"  {name}: {' '.join(value) if name == 'options' else value}")
    return 0


COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "show": (show, "list the entries, the one used last first"),
    "clear": (clear, "remove every entry"),
    "explain": (explain, "how the cache works, or all about one entry"),
}


def _told(entry: Entry) -> tuple[str, str, str]:
    head = entry.head or {"kind": "corrupt"}
    what = head.get("entry") or " ".join(str(head[k]) for k in ("name", "version") if k in head)
    return head["kind"], what, head.get("arch", "")


def _bytes(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size / 1024:.1f} KiB" if size < 2**20 else f"{size / 2**20:.1f} MiB"


def _age(used: float) -> str:
    seconds = max(time.time() - used, 0)
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' * (count != 1)} ago"
    return "just now"


if __name__ == "__main__":
    sys.exit(main())
