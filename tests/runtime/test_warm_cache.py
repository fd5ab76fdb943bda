"""A second process compiles nothing: it runs no compiler, loads none, and has the machine code from the cache."""

import os
import subprocess
import sys

import pytest

from runtime import compiler
from runtime.compiler import Compiler

PROGRAM = """
import subprocess, sys
from examples.demo import scale
from tracer import trace

def refuse(*arguments, **more):
    raise AssertionError(f"started {arguments}")
if sys.argv[1] == "warm":
    subprocess.run = subprocess.Popen = refuse
executable = trace(scale).compile("sm_90a")
print(executable.cubin.hex()[:8], len(executable.cubin), executable.resources.registers, "cuda.bindings.nvrtc" in sys.modules)
"""


@pytest.mark.skipif(all(isinstance(find(), str) for find in (compiler.nvrtc, compiler.nvcc)), reason="no CUDA compiler")
def test_a_second_process(tmp_path):
    assert isinstance(compiler.compiler(), Compiler)
    told = [subprocess.run([sys.executable, "-c", PROGRAM, state], env={**os.environ, "KERNELWRIGHT_CACHE": str(tmp_path)}, capture_output=True,
                           text=True, check=True).stdout.split() for state in ("cold", "warm")]
    assert told[0][:3] == told[1][:3] and told[1][0] == "7f454c46"
    assert told[1][3] == "False", "NVRTC was loaded"
