"""Compiling to a cubin, with each compiler that is there: figures, warnings, errors beside Python lines, the cache."""

import pytest

from runtime import cache, compiler
from runtime.compiler import Compiler, compile_cubin, remembered_compiler
from runtime.compiler_log import Resources, paired
from tracer.errors import CompileError, CompilerNotFoundError
from tracer.ir import Location

SOURCE = """\
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
extern "C" __global__ void k(half* a) {
    __shared__ float z[100];
    z[threadIdx.x] = a[3];
    __syncthreads();
    a[3] = z[(int)a[2]];
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture(params=[compiler.nvrtc, compiler.nvcc], ids=["NVRTC", "nvcc"])
def using(request):
    found = request.param()
    if not isinstance(found, Compiler):
        pytest.skip(found)
    return found


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_a_cubin_and_its_figures(using, arch):
    cubin = compile_cubin(SOURCE, "k", arch, using=using)
    assert cubin.code[:4] == b"\x7fELF"
    assert (cubin.arch, cubin.compiler, cubin.log) == (arch, str(using), "")
    assert 0 < cubin.resources.registers <= 32
    assert cubin.resources == Resources(cubin.resources.registers, 400, 0, 0, 0)


def test_local_memory_is_counted(using):
    body = "float z[100]; for (int i = 0; i < 100; i++) z[i] = i * a[1]; a[0] = z[(int)a[2]];"
    cubin = compile_cubin(f'extern "C" __global__ void k(float* a) {{ {body} }}', "k", "sm_90a", using=using)
    assert cubin.resources.local == 400


def test_warnings_are_kept(using):
    source = SOURCE.replace("    __syncthreads", "    int unused;\n    __syncthreads")
    cubin = compile_cubin(source, "k", "sm_90a", using=using)
    assert 'k.cu(7): warning #177-D: variable "unused" was declared but never referenced' in cubin.log
    assert "ptxas" not in cubin.log
    assert compile_cubin(source, "k", "sm_90a", using=using).log == cubin.log      # from the cache too


def test_an_error_shows_the_python_line_that_made_it(using, tmp_path):
    author = tmp_path / "author.py"
    author.write_text("def k(A):\n    A[3] = A[2]   # this one\n")
    with pytest.raises(CompileError) as caught:
        compile_cubin(SOURCE.replace("z[(int)", "zz[(int)"), "k", "sm_90a", {8: Location(str(author), 2, "k")}, using=using)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{using} refused k for sm_90a:"
    place = lines.index('k.cu(8): error: identifier "zz" is undefined')
    assert lines[place + 3] == f"    from {author}:2, in k: A[3] = A[2]   # this one"


def test_an_error_without_a_known_line_is_shown_as_it_is(using):
    with pytest.raises(CompileError, match=r'k\.cu\(8\): error: identifier "zz" is undefined') as caught:
        compile_cubin(SOURCE.replace("z[(int)", "zz[(int)"), "k", "sm_90a", using=using)
    assert "    from " not in str(caught.value)


def test_a_missing_header_is_an_error(using):
    with pytest.raises(CompileError, match=r"nowhere\.h"):
        compile_cubin("#include <nowhere.h>\n", "k", "sm_90a", using=using)


def test_an_unknown_architecture_is_an_error(using):
    with pytest.raises(CompileError, match=f"{using.name} .* refused k for sm_5000"):
        compile_cubin(SOURCE, "k", "sm_5000", using=using)


def test_a_source_without_the_kernel_is_an_error(using):
    with pytest.raises(CompileError, match="the source has no kernel other"):
        compile_cubin(SOURCE, "other", "sm_90a", using=using)


def counting(runs, code=b"\x7fELF"):
    account = ("ptxas info    : Compiling entry function 'k' for 'sm_90a'\n    0 bytes stack frame, 4 bytes spill stores, 8 bytes "
               "spill loads\nptxas info    : Used 16 registers, 128 bytes smem\n")

    def run(source, name, options):
        runs.append((source, name, options))
        return code, account

    return Compiler("fake", "1.0", ("-O3",), run)


def test_the_second_compilation_comes_from_the_cache(folder):
    runs = []
    first = compile_cubin("source", "k", "sm_90a", using=counting(runs))
    assert first.resources == Resources(16, 128, 0, 4, 8)
    assert compile_cubin("source", "k", "sm_90a", using=counting(runs)) == first
    assert runs == [("source", "k.cu", ["--gpu-architecture=sm_90a", "-O3"])]


def test_what_the_key_holds():
    runs = []
    compile_cubin("source", "k", "sm_90a", using=counting(runs))
    compile_cubin("source ", "k", "sm_90a", using=counting(runs))
    compile_cubin("source", "k", "sm_100a", using=counting(runs))
    for name, version, options in [("other", "1.0", ("-O3",)), ("fake", "1.1", ("-O3",)), ("fake", "1.0", ("-O2",))]:
        compile_cubin("source", "k", "sm_90a", using=Compiler(name, version, options, counting(runs).run))
    assert len(runs) == 6


def test_a_failure_is_not_cached(folder):
    runs = []
    for _ in range(2):
        with pytest.raises(CompileError):
            compile_cubin("source", "k", "sm_90a", using=counting(runs, code=None))
    assert len(runs) == 2 and list(folder.iterdir()) == []


def test_a_corrupt_entry_is_compiled_anew(folder):
    runs = []
    first = compile_cubin("source", "k", "sm_90a", using=counting(runs))
    entry, = folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    assert compile_cubin("source", "k", "sm_90a", using=counting(runs)) == first
    assert len(runs) == 2 and cache.load(entry.name) is not None


def test_no_compiler_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr(compiler, "nvrtc", lambda: "NVRTC: No module named 'cuda'")
    monkeypatch.setattr(compiler, "nvcc", lambda: "nvcc: not on PATH, nor under CUDA_HOME or CUDA_PATH")
    with pytest.raises(CompilerNotFoundError) as caught:
        compiler.compiler()
    assert str(caught.value) == (
        "no CUDA compiler: NVRTC: No module named 'cuda'; nvcc: not on PATH, nor under CUDA_HOME or CUDA_PATH. "
        "Run pip install 'kernelwright[nvrtc]', or put a CUDA toolkit's nvcc on PATH")


def test_both_styles_of_place_are_paired():
    lines = {3: Location("author.py", 30, "k")}
    assert paired("k.cu(3): error: first\n  code\n\n1 error detected.\n", lines) == (
        "k.cu(3): error: first\n  code\n    from author.py:30, in k\n1 error detected.")
    assert paired("k.cu:3:10: fatal error: second\n", lines) == "k.cu:3:10: fatal error: second\n    from author.py:30, in k"
    assert paired("nvcc fatal : third\n", lines) == "nvcc fatal : third"


# ---- the compiler's name without the compiler -------------------------------------------------------------------------------

def counted(monkeypatch, version="1"):
    """A compiler that is found by `compiler()`, with the list of what it was asked."""
    asked = []

    def run(source, name, options):
        asked.append(name)
        return b"code", ACCOUNT

    def find():
        asked.append("found")
        return Compiler("fake", version, ("--fast",), run)

    monkeypatch.setattr(compiler, "nvrtc", find)
    return asked


ACCOUNT = "Compiling entry function 'k'\n 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nUsed 8 registers\n"


def test_a_warm_cache_is_read_without_finding_the_compiler(monkeypatch):
    asked = counted(monkeypatch)
    first = compile_cubin("source", "k", "sm_90a")
    assert asked == ["found", "k.cu"]
    assert compile_cubin("source", "k", "sm_90a") == first
    assert asked == ["found", "k.cu"]
    found = remembered_compiler()
    assert (str(found), found.options) == ("fake 1", ("--fast",))


def test_another_compiler_on_the_machine_is_noticed(monkeypatch, tmp_path):
    asked = counted(monkeypatch)
    compile_cubin("source", "k", "sm_90a")
    newer = tmp_path / "nvcc"
    newer.write_text("a newer one")
    monkeypatch.setattr(compiler, "_nvcc_path", lambda: str(newer))
    assert remembered_compiler() is None
    counted(monkeypatch, "2")
    assert compile_cubin("source", "k", "sm_90a").compiler == "fake 2"
    assert asked == ["found", "k.cu"]


def test_a_failed_compilation_is_tried_again(monkeypatch):
    answers = [(None, "k.cu(1): error: no"), (b"code", ACCOUNT)]
    monkeypatch.setattr(compiler, "nvrtc", lambda: Compiler("fake", "1", (), lambda *_: answers.pop(0)))
    with pytest.raises(CompileError, match="fake 1 refused k for sm_90a"):
        compile_cubin("source", "k", "sm_90a")
    assert [entry.head["kind"] for entry in cache.entries()] == ["compiler"]
    assert compile_cubin("source", "k", "sm_90a").code == b"code"
