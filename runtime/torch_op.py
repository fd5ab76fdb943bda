"""A kernel as an operation of PyTorch: eager code calls it on tensors anywhere, and `torch.compile` sees through to it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from codegen.host.shapes import shapes_name, shapes_source
from runtime.hosting import truncdiv, truncmod
from tracer.errors import ArgumentTypeError, ArgumentValueError
from tracer.ir import Parameter

# How PyTorch's schemas call the numbers of each kind.
_NUMBERS = {"bool": "bool", "int": "int", "uint": "int", "float": "float"}


def as_torch_op(kernel: Any, name: str, outputs: Sequence[str] = ()) -> Any:
    """Register `kernel` as the custom operation `name` ("library::operation") and return it, as `torch.ops.library.operation` does.

    The operation takes the kernel's parameters in order, but for those named in `outputs`: it makes these anew, as the
    shapes of the others say, on their device, and returns them (one tensor, or a tuple). Every other array that the kernel
    writes is declared as mutated. Tensors on the CPU run on the simulator. It has no derivative; `register_autograd` adds one.

    Raises `ArgumentValueError` for an output that is none or whose shape the rest does not determine, and `ArgumentTypeError` for a
    dtype that PyTorch does not have.
    """
    torch = importlib.import_module("torch")
    outputs = [outputs] if isinstance(outputs, str) else list(outputs)
    scope: dict[str, Any] = {"truncdiv": truncdiv, "truncmod": truncmod}
    exec(shapes_source(kernel.half, outputs), scope)
    shapes = scope[shapes_name(kernel.half)]
    parameters: list[Parameter] = kernel.function.parameters
    made = {_output(parameters, wanted): index for index, wanted in enumerate(outputs)}
    given = [i for i in range(len(parameters)) if i not in made]
    dtypes = [_dtype(torch, parameters[place]) for place in made]
    first = next((position for position, i in enumerate(given) if parameters[i].node is None), None)
    if first is None:
        raise ArgumentValueError(f"{name}: an operation needs a tensor among its arguments, which says where it runs")
    written = {a.buffer for a in kernel.half.arguments if a.buffer is not None and not a.read_only}
    unwritten = [outputs[index] for place, index in made.items() if parameters[place].buffer not in written]
    if unwritten:
        raise ArgumentValueError(f"{name}: the kernel does not write {', '.join(unwritten)}, which can be no output of it")

    def allocate(arguments: Sequence[Any]) -> list[Any]:
        place = arguments[first].device
        return [torch.empty(shape, dtype=dtype, device=place) for shape, dtype in zip(shapes(*arguments), dtypes)]

    def result(tensors: list[Any]) -> Any:
        return None if not tensors else tensors[0] if len(tensors) == 1 else tuple(tensors)

    def run(*arguments: Any) -> Any:
        tensors = allocate(arguments)
        rest = iter(arguments)
        kernel(*(tensors[made[i]] if i in made else next(rest) for i in range(len(parameters))))
        return result(tensors)

    mutated = [parameters[i].name for i in given if parameters[i].buffer in written]
    schema = _schema(parameters, given, mutated, len(outputs))
    operation = torch.library.custom_op(name, run, mutates_args=tuple(mutated), schema=schema)
    operation.register_fake(lambda *arguments: result(allocate(arguments)))
    return operation


def _output(parameters: Sequence[Parameter], name: str) -> int:
    """The parameter that `name` means: its own name, or its buffer's."""
    return next(i for i, p in enumerate(parameters) if p.buffer is not None and name in (p.name, p.buffer.name))


def _dtype(torch: Any, parameter: Parameter) -> Any:
    assert parameter.buffer is not None
    name = parameter.buffer.dtype.scalar.name
    if not hasattr(torch, name):
        raise ArgumentTypeError(f"{parameter.buffer.name}: PyTorch has no dtype {name}")
    return getattr(torch, name)


def _schema(parameters: Sequence[Parameter], given: Sequence[int], mutated: Sequence[str], outputs: int) -> str:
    """`(Tensor A, Tensor(a1!) B, float s) -> Tensor`."""
    told = []
    for i in given:
        parameter = parameters[i]
        if parameter.node is not None:
            told.append(f"{_NUMBERS[parameter.dtype.kind]} {parameter.name}")
        else:
            told.append(f"Tensor{f'(a{i}!)' if parameter.name in mutated else ''} {parameter.name}")
    results = "()" if not outputs else "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    return f"({', '.join(told)}) -> {results}"
