"""The floors of the house: each package imports only those below it, and importing the front door is cheap."""

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ["symbolic", "tracer", "codegen", "runtime"]
# The object that `trace` returns reaches up in its methods: to print (codegen) and to run (runtime).
UPWARDS = {"tracer/function.py": {"codegen", "runtime"}}
OUTSIDE = {"symbolic": {"sympy", "numpy"}, "tracer": {"numpy", "sympy", "ml_dtypes"}, "codegen": {"numpy", "sympy", "ml_dtypes"},
           "runtime": {"numpy", "sympy", "ml_dtypes", "pycuda", "cuda", "torch", "cupy"}}


def imports(path: Path):
    """(package, line, at the top of the module) of every import statement."""
    tree = ast.parse(path.read_text())
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else \
            [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
        for name in names:
            yield name.split(".")[0], node.lineno, id(node) in top


FILES = sorted(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    relative = str(path.relative_to(ROOT))
    floor = FLOORS.index(relative.split("/")[0])
    for package, line, at_top in imports(path):
        if package in FLOORS:
            below = FLOORS.index(package) <= floor
            allowed = not at_top and package in UPWARDS.get(relative, set())
            assert below or allowed, f"{relative}:{line} imports {package}, a floor above"
        elif package not in sys.stdlib_module_names:
            assert package in OUTSIDE[FLOORS[floor]], f"{relative}:{line} imports {package}"


def test_importing_the_tracer_is_cheap():
    def seconds() -> float:
        """Processor time of a fresh process: what a busy machine does beside it does not count."""
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import tracer"], check=True, cwd=ROOT)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime

    assert min(seconds() for _ in range(3)) < 1.0


def test_importing_loads_no_gpu_library():
    code = ("import sys, tracer, codegen, runtime; from tracer import T, trace\n"
            "print([m for m in ('pycuda', 'cuda', 'torch', 'cupy') if m in sys.modules])")
    out = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"
