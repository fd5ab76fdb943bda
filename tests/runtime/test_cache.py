"""The cubins on disk: full keys, atomic writes, corruption, an unwritable folder, two processes at once."""

import os
import subprocess
import sys
import time
import warnings

import pytest

from runtime import cache


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path


def test_the_folder_is_the_environment_variable_else_the_users_cache(monkeypatch, tmp_path):
    assert cache.folder() == tmp_path
    monkeypatch.delenv("KERNELWRIGHT_CACHE")
    monkeypatch.setenv("HOME", "/home/someone")
    assert str(cache.folder()) == "/home/someone/.cache/kernelwright"


ENTRY, OTHER = cache.key("entry"), cache.key("other")


def put(name=ENTRY, payload=b"payload", **head):
    cache.store(name, head, payload)


def payload_of(name=ENTRY):
    held = cache.load(name)
    return None if held is None else held[1]


def test_what_is_stored_is_loaded():
    put(payload=b"\x00payload\n", kind="cubin", number=7)
    assert cache.load(ENTRY) == ({"kind": "cubin", "number": 7}, b"\x00payload\n")
    assert cache.load(OTHER) is None


def test_a_key_tells_its_parts_apart():
    keys = {cache.key("a", "b"), cache.key("ab"), cache.key("ab", ""), cache.key("", "ab"), cache.key("b", "a")}
    assert len(keys) == 5
    assert cache.key("a", "bc") == "9a8acca1b6c6c0befd3fbc756aed625da998c998f7252e738c4ef061906b9b21"


@pytest.mark.parametrize("spoil", [
    lambda data: data[:-1],                                  # cut short
    lambda data: data[:-1] + bytes([data[-1] ^ 1]),          # one bit of the payload
    lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:],   # one bit of the checksum
    lambda data: b"",
    lambda data: b"something else",
])
def test_a_corrupt_entry_counts_as_absent_and_is_written_anew(folder, spoil):
    put()
    path = folder / ENTRY
    path.write_bytes(spoil(path.read_bytes()))
    assert cache.load(ENTRY) is None
    assert [entry.head for entry in cache.entries()] == [None]
    put()
    assert payload_of() == b"payload"


def test_no_temporary_file_stays_behind(folder):
    put()
    assert [path.name for path in folder.iterdir()] == [ENTRY]


def test_a_folder_that_cannot_be_written_is_one_warning(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(blocked / "below"))
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept: the cache folder .*file/below cannot be written"):
        put()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        put()
    assert cache.load(ENTRY) is None


def test_a_failed_write_leaves_nothing(folder, monkeypatch):
    def refuse(*_):
        raise OSError("disk full")
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(RuntimeWarning, match="disk full"):
        put()
    assert list(folder.iterdir()) == []


RACER = """
import sys
from runtime import cache
name, payload = cache.key("entry"), bytes(range(256)) * 4096
for _ in range(60):
    cache.store(name, {"kind": "test"}, payload)
    assert cache.load(name) == ({"kind": "test"}, payload), "a torn entry was read"
"""


def test_two_processes_may_write_one_entry(folder):
    racers = [subprocess.Popen([sys.executable, "-W", "error", "-c", RACER], stderr=subprocess.PIPE) for _ in range(2)]
    for racer in racers:
        _, told = racer.communicate(timeout=60)
        assert racer.returncode == 0, told.decode()
    assert [path.name for path in folder.iterdir()] == [ENTRY]


# ---- its size -------------------------------------------------------------------------------------------------------------

def used(folder, name, seconds_ago):
    """Make the entry look as if it was used last so long ago."""
    then = time.time() - seconds_ago
    os.utime(folder / name, (then, then))


def test_the_limit_is_the_environment_variable_else_half_a_gigabyte(monkeypatch):
    assert cache.limit() == 512 * 2**20
    monkeypatch.setenv("KERNELWRIGHT_CACHE_LIMIT", "1000")
    assert cache.limit() == 1000


def test_what_was_used_longest_ago_makes_room(folder, monkeypatch):
    names = [cache.key(str(k)) for k in range(4)]
    for age, name in zip((400, 100, 300, 200), names):
        put(name, b"x" * 1000)
        used(folder, name, age)
    size = (folder / names[0]).stat().st_size
    assert payload_of(names[0]) is not None                 # a use: no longer the oldest
    monkeypatch.setenv("KERNELWRIGHT_CACHE_LIMIT", str(3 * size))
    put(OTHER, b"x" * 1000)
    assert {path.name for path in folder.iterdir()} == {names[0], names[1], OTHER}
    assert [entry.name for entry in cache.entries()] == [OTHER, names[0], names[1]]


def test_an_entry_larger_than_the_limit_is_not_kept(folder, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE_LIMIT", "100")
    put(payload=b"x" * 1000)
    assert list(folder.iterdir()) == []


def test_what_a_killed_process_was_writing_goes_after_an_hour(folder):
    fresh, stale = (folder / f"{ENTRY}.{name}.tmp" for name in ("fresh", "stale"))
    for path in (fresh, stale):
        path.write_bytes(b"half an entry")
    used(folder, stale.name, 4000)
    put(OTHER)
    assert {path.name for path in folder.iterdir()} == {fresh.name, OTHER}


def test_other_files_are_nobodys_business(folder, monkeypatch):
    (folder / "notes.txt").write_text("mine")
    monkeypatch.setenv("KERNELWRIGHT_CACHE_LIMIT", "1")
    put()
    assert cache.entries() == [] and cache.clear() == 0
    assert (folder / "notes.txt").read_text() == "mine"
