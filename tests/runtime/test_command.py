"""`python -m runtime` shows, clears and explains the cache."""

import os
import subprocess
import sys

import pytest

from runtime import cache, short
from runtime.__main__ import main

CUBIN, TUNED, SPOILT = (cache.key(name) for name in ("cubin", "tuned", "spoilt"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    cache.store(SPOILT, {"kind": "cubin"}, b"x")
    (tmp_path / SPOILT).write_bytes(b"spoilt")
    cache.store(TUNED, {"kind": "tuning", "name": "scale"})
    cache.store(CUBIN, {"kind": "cubin", "entry": "scale_kernel", "arch": "sm_90a", "options": ["-a", "-b"], "log": ""}, bytes(3000))
    for age, name in ((0, CUBIN), (7300, TUNED), (90000, SPOILT)):
        then = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (then, then))
    return tmp_path


@pytest.mark.parametrize("arguments", [[], ["show"]])
def test_show(folder, capsys, arguments):
    assert main(arguments) == 0
    sizes = [(folder / name).stat().st_size for name in (CUBIN, TUNED, SPOILT)]
    row = "{:12}  {:8}  {:24}  {:10}  {:>9}  {}".format
    assert capsys.readouterr().out.splitlines() == [
        row("entry", "kind", "what", "for", "size", "last used"),
        row(CUBIN[:12], "cubin", "scale_kernel", "sm_90a", f"{sizes[0] / 1024:.1f} KiB", "just now"),
        row(TUNED[:12], "tuning", "scale", "", f"{sizes[1]} B", "2 hours ago"),
        row(SPOILT[:12], "corrupt", "", "", "6 B", "1 day ago"),
        f"3 entries, {sum(sizes) / 1024:.1f} KiB of 512.0 MiB, in {folder}",
    ]


def test_clear(folder, capsys):
    assert main(["clear"]) == 0
    assert capsys.readouterr().out == f"3 entries removed from {folder}\n"
    assert list(folder.iterdir()) == []
    main([])
    assert capsys.readouterr().out == f"0 entries, 0 B of 512.0 MiB, in {folder}\n"


def test_explain_how_it_works(folder, capsys):
    assert main(["explain"]) == 0
    told = capsys.readouterr().out
    assert f"Compiled kernels are kept in {folder}\n" in told and "in at most 512.0 MiB" in told and "Compiler in use: " in told
    made = short.compiled()
    assert told.splitlines()[-1] == f"The short way of calls like an earlier one: {f'in Python ({made})' if isinstance(made, str) else 'compiled'}"


def test_explain_one_entry(capsys):
    assert main(["explain", CUBIN[:8]]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(f"{CUBIN}: 3.") and told[0].endswith(" KiB, last used just now")
    assert told[1:] == ["  arch: sm_90a", "  entry: scale_kernel", "  kind: cubin", "  log: ", "  options: -a -b"]
    assert main(["explain", SPOILT]) == 0
    assert "corrupt: made anew when it is asked for" in capsys.readouterr().out


@pytest.mark.parametrize("prefix, count", [("", 3), ("nothing", 0)])
def test_explain_of_no_single_entry(capsys, prefix, count):
    assert main(["explain", prefix]) == 1
    assert capsys.readouterr().err == f"{count} entries begin with {prefix!r}; `python -m runtime show` lists them\n"


def test_as_a_command():
    told = subprocess.run([sys.executable, "-m", "runtime", "show"], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1].startswith("3 entries, ")
