"""The cubins on disk: full keys, atomic writes, corruption, an unwritable folder, two processes at once."""

import os
import subprocess
import sys
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


def test_what_is_stored_is_loaded():
    cache.store("entry", b"\x00payload\n")
    assert cache.load("entry") == b"\x00payload\n"
    assert cache.load("another") is None


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
    cache.store("entry", b"payload")
    path = folder / "entry"
    path.write_bytes(spoil(path.read_bytes()))
    assert cache.load("entry") is None
    cache.store("entry", b"payload")
    assert cache.load("entry") == b"payload"


def test_no_temporary_file_stays_behind(folder):
    cache.store("entry", b"payload")
    assert [path.name for path in folder.iterdir()] == ["entry"]


def test_a_folder_that_cannot_be_written_is_one_warning(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(blocked / "below"))
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept: the cache folder .*file/below cannot be written"):
        cache.store("entry", b"payload")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store("entry", b"payload")
    assert cache.load("entry") is None


def test_a_failed_write_leaves_nothing(folder, monkeypatch):
    def refuse(*_):
        raise OSError("disk full")
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(RuntimeWarning, match="disk full"):
        cache.store("entry", b"payload")
    assert list(folder.iterdir()) == []


RACER = """
import sys
from runtime import cache
payload = bytes(range(256)) * 4096
for _ in range(60):
    cache.store("entry", payload)
    assert cache.load("entry") == payload, "a torn entry was read"
"""


def test_two_processes_may_write_one_entry(folder):
    racers = [subprocess.Popen([sys.executable, "-W", "error", "-c", RACER], stderr=subprocess.PIPE) for _ in range(2)]
    for racer in racers:
        _, told = racer.communicate(timeout=60)
        assert racer.returncode == 0, told.decode()
    assert [path.name for path in folder.iterdir()] == ["entry"]
