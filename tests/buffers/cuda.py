"""The CUDA source of a kernel in tests: the statements of its body."""

from typing import Any


def body(kernel: Any) -> list[str]:
    """The lines between the kernel's signature and its closing brace, without indentation."""
    text: str = kernel.cuda_source(locations=False)
    _, found = text.split('extern "C"')
    return [line.strip() for line in found.split("{\n", 1)[1].rstrip().removesuffix("}").strip().split("\n")]
