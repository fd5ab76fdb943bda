"""Compiled kernels on disk: one file an entry, named by a full hash of what went into it.

An entry is written to a temporary file and moved into place, so a reader sees all of it or nothing, and two processes
that compile the same kernel may both write: the last one wins with equal bytes. Each entry carries a checksum; one that
does not match (a torn disk, an edited file) counts as absent and is written anew. A folder that cannot be written costs
one warning.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from pathlib import Path

_MAGIC = b"kernelwright cubin 1\n"
_DIGEST = hashlib.sha256().digest_size
_warned: set[Path] = set()


def folder() -> Path:
    """Where entries lie: `$KERNELWRIGHT_CACHE`, else `~/.cache/kernelwright`."""
    chosen = os.environ.get("KERNELWRIGHT_CACHE")
    return Path(chosen) if chosen else Path(os.path.expanduser("~/.cache/kernelwright"))


def key(*parts: str) -> str:
    """The name of an entry: SHA-256 over the parts and their lengths, in hex."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def load(name: str) -> bytes | None:
    """The payload stored under `name`, or None where there is none or its checksum does not match."""
    try:
        data = (folder() / name).read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST
    payload = data[start:]
    intact = data.startswith(_MAGIC) and data[len(_MAGIC):start] == hashlib.sha256(payload).digest()
    return payload if intact else None


def store(name: str, payload: bytes) -> None:
    """Put `payload` under `name`, atomically. A folder that cannot be written is a `RuntimeWarning`, once a folder."""
    where = folder()
    try:
        where.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f"{name}.", suffix=".tmp", dir=where)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, where / name)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as problem:
        if where not in _warned:
            _warned.add(where)
            warnings.warn(f"compiled kernels are not kept: the cache folder {where} cannot be written ({problem}); "
                          "set KERNELWRIGHT_CACHE to one that can", RuntimeWarning, stacklevel=2)
