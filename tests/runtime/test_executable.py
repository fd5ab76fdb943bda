"""Real kernels through the real compiler to a cubin, without a GPU."""

import pytest

from runtime import compiler
from runtime.compiler import Compiler
from runtime.executable import Executable
from tests.runtime.kernels import ALL, scale
from tracer import T, trace
from tracer.errors import CompileError

pytestmark = pytest.mark.skipif(not any(isinstance(find(), Compiler) for find in (compiler.nvrtc, compiler.nvcc)),
                                reason="no CUDA compiler")


@pytest.mark.parametrize("name", ALL)
def test_a_kernel_compiles_without_a_warning(name):
    executable = ALL[name].compile("sm_90a")
    assert isinstance(executable, Executable)
    assert executable.cubin[:4] == b"\x7fELF"
    assert (executable.arch, executable.entry, executable.log) == ("sm_90a", f"{name}_kernel", "")
    assert executable.resources.spill_stores == executable.resources.spill_loads == executable.resources.local == 0


def test_the_architecture_is_part_of_what_is_remembered():
    assert scale.compile("sm_90a") is scale.compile("sm_90a")
    assert scale.compile("sm_100a").cubin != scale.compile("sm_90a").cubin


def test_a_compile_error_names_the_line_of_the_kernel():
    @trace
    def wrong(A: T.Buffer((8,), "float32")):
        T.device_entry()
        tx = T.thread_id([8])
        A[tx] = T.cuda.func_call("twice", A[tx], source_code="__device__ float twice(float x, float y) { return x * y; }", return_type="float32")

    with pytest.raises(CompileError) as caught:
        wrong.compile("sm_90a")
    text = str(caught.value)
    assert 'error: too few arguments in function call' in text
    assert f"    from {__file__}:{wrong.function.location.line + 4}, in wrong: A[tx] = T.cuda.func_call(" in text
