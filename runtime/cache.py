"""Compiled kernels and tuning results on disk: one file an entry, named by a full hash of what went into it.

An entry is written to a temporary file and moved into place, so a reader sees all of it or nothing, and two processes
that compile the same kernel may both write: the last one wins with equal bytes. Each entry carries a checksum; one that
does not match (a torn disk, an edited file) counts as absent and is written anew. A folder that cannot be written costs
one warning. When the entries take more than `limit()` bytes, those that were used longest ago go. `python -m runtime` shows and
clears them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 512 * 2**20         # bytes, where $KERNELWRIGHT_CACHE_LIMIT does not say otherwise
STALE = 3600.0              # seconds after which a file that a killed process was writing is rubbish

MODULE = ".so"              # how the names of compiled Python modules end, which have no head

_MAGIC = b"kernelwright entry 2\n"
_USED_AGAIN = 60.0          # seconds after which a use is noted anew
_DIGEST = hashlib.sha256().digest_size
_warned: set[Path] = set()


def folder() -> Path:
    """Where entries lie: `$KERNELWRIGHT_CACHE`, else `~/.cache/kernelwright`."""
    chosen = os.environ.get("KERNELWRIGHT_CACHE")
    return Path(chosen) if chosen else Path(os.path.expanduser("~/.cache/kernelwright"))


def limit() -> int:
    """How many bytes the entries may take: `$KERNELWRIGHT_CACHE_LIMIT`, else 512 MiB."""
    chosen = os.environ.get("KERNELWRIGHT_CACHE_LIMIT", "")
    return int(chosen) if chosen.isdecimal() else LIMIT


def key(*parts: str) -> str:
    """The name of an entry: SHA-256 over the parts and their lengths, in hex."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the cache: its name, bytes, when it was used last (seconds since the epoch), and what its head tells of it."""

    name: str
    size: int
    used: float
    head: dict[str, Any] | None     # None: corrupt


def load(name: str) -> tuple[dict[str, Any], bytes] | None:
    """The head and the payload stored under `name`, or None where there is none or its checksum does not match."""
    path = folder() / name
    try:
        found = _read(path.read_bytes())
    except OSError:
        return None
    if found is not None:
        _note_use(path)
    return found


def _note_use(path: Path) -> None:
    """The time of last change stands for that of last use. A folder that may only be read keeps what it has."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _USED_AGAIN:
            os.utime(path)


def _read(data: bytes) -> tuple[dict[str, Any], bytes] | None:
    start = len(_MAGIC) + _DIGEST
    body = data[start:]
    if not data.startswith(_MAGIC) or data[len(_MAGIC):start] != hashlib.sha256(body).digest():
        return None
    head, _, payload = body.partition(b"\n")
    told: dict[str, Any] = json.loads(head)
    return told, payload


def store(name: str, head: dict[str, Any], payload: bytes = b"") -> None:
    """Put `payload` under `name`, atomically, with `head` saying what it is. A folder that cannot be written is a
    `RuntimeWarning`, once a folder.
    """
    where = folder()
    body = json.dumps(head, sort_keys=True).encode() + b"\n" + payload
    try:
        where.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f"{name}.", suffix=".tmp", dir=where)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(temporary, where / name)
        except BaseException:
            os.unlink(temporary)
            raise
        _make_room(where, limit())
    except OSError as problem:
        if where not in _warned:
            _warned.add(where)
            warnings.warn(f"compiled kernels are not kept: the cache folder {where} cannot be written ({problem}); "
                          "set KERNELWRIGHT_CACHE to one that can", RuntimeWarning, stacklevel=2)


def entries() -> list[Entry]:
    """Every entry, the one used last first."""
    found = []
    for path, size, used in _files(folder()):
        if path.suffix != ".tmp":
            try:
                held = _read(path.read_bytes()) if path.suffix != MODULE else ({"kind": "module", "name": "the short way of calls"}, b"")
            except OSError:     # another process has just removed it
                continue
            found.append(Entry(path.name, size, used, None if held is None else held[0]))
    return sorted(found, key=lambda entry: -entry.used)


def clear() -> int:
    """Remove every entry; how many there were."""
    return sum(_remove(path) for path, _, _ in _files(folder()))


def _files(where: Path) -> Iterator[tuple[Path, int, float]]:
    """The cache's files with bytes and time of last use; nothing else in the folder is looked at."""
    try:
        listed = list(os.scandir(where))
    except OSError:
        return
    for item in listed:
        hashed = item.name.partition(".")[0]
        if len(hashed) == 2 * _DIGEST and set(hashed) <= set("0123456789abcdef"):
            try:
                told = item.stat()
            except OSError:
                continue
            yield Path(item.path), told.st_size, told.st_mtime


def _make_room(where: Path, most: int) -> None:
    """Remove what was used longest ago, until the rest takes no more than `most` bytes; and what a killed process left behind."""
    files = sorted(_files(where), key=lambda file: file[2])
    total = sum(size for _, size, _ in files)
    now = time.time()
    for path, size, used in files:
        if total > most or (path.suffix == ".tmp" and now - used > STALE):
            if path.suffix == ".tmp" and now - used <= STALE:
                continue
            total -= size * _remove(path)


def _remove(path: Path) -> bool:
    """False where another process was first."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
