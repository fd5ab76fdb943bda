"""`trace`, `specialize`, and the kernel object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tracer import control, launch
from tracer import operations as ops
from tracer.addressing import axis_strides, first_element
from tracer.cleanup import remove_unused
from tracer.errors import SpecializeError, TraceError
from tracer.intrinsics.cached import check_read_only
from tracer.intrinsics.ptx.registers import check_registers
from tracer.ir import Function
from tracer.recorder import Recorder, in_trace
from tracer.signature import Signature, bind_parameters, caller_locals, function_location, read_signature


def trace(fn: Callable[..., Any]) -> Any:
    """Record the plain Python function `fn` by running it once against proxies.

    Returns a `Kernel`, or, where `fn` has `T.constexpr` parameters, a `Template` whose `specialize(N=256)` gives one. Works as
    the decorator `@trace`; `fn` may come from `exec`, a REPL, a closure, a lambda or a method: its source is never read.
    Raises `TraceError`.
    """
    if not callable(fn):
        raise TraceError(f"trace takes a function, not {fn!r}")
    signature = read_signature(fn, caller_locals(1))
    template = Template(fn, signature)
    return template if signature.constexprs else template.specialize()


class Template:
    """A function with constexpr parameters: `specialize(...)` gives a kernel for their values."""

    def __init__(self, fn: Callable[..., Any], signature: Signature) -> None:
        self._fn = fn
        self._signature = signature
        self._kernels: dict[tuple[tuple[str, type, Any], ...], Kernel] = {}
        self._default: Kernel | None = None
        self.__doc__ = fn.__doc__
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)

    def __repr__(self) -> str:
        return f"<template {self.__name__}: specialize({', '.join(self._signature.constexprs)})>"

    def specialize(self, **constants: Any) -> Kernel:
        """The kernel for these constexpr values; the same values of the same types give the same object.

        Raises `SpecializeError` for missing, unknown or unhashable ones.
        """
        values = self._complete(constants)
        key = tuple((name, *_typed(value)) for name, value in values.items())
        try:
            hash(key)
        except TypeError:
            unhashable = [name for name, value in values.items() if not _hashable(value)]
            raise SpecializeError(f"{self.__name__}: constexpr {', '.join(unhashable)} cannot be hashed, so it cannot key a kernel; "
                                  "pass a tuple instead of a list, or a frozen dataclass") from None
        if key not in self._kernels:
            self._kernels[key] = Kernel(_run(self._fn, self.__name__, self._signature, values))
        return self._kernels[key]

    def _complete(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        known = self._signature.constexprs
        listed = f"{self.__name__} has the constexprs {', '.join(known)}"
        if unknown := [name for name in constants if name not in known]:
            raise SpecializeError(f"{self.__name__}: unknown constexpr {', '.join(unknown)}; {listed}")
        values = {name: constants.get(name, default) for name, default in known.items()}
        if missing := [name for name, value in values.items() if value is inspect.Parameter.empty]:
            example = ", ".join(f"{name}=..." for name in missing)
            raise SpecializeError(f"{self.__name__}: missing constexpr {', '.join(missing)}; write specialize({example})")
        return values

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the kernel of the defaults. Raises `SpecializeError` where a constexpr has none."""
        if self._default is None:
            self._default = self.specialize()
        return self._default(*args, **keywords)


def _typed(value: Any) -> tuple[type, Any]:
    """1, 1.0 and True are equal and hash alike, so the types (of a tuple's elements too) are part of the key."""
    if isinstance(value, tuple):
        return type(value), tuple(_typed(element) for element in value)
    if isinstance(value, float):
        return float, value.hex()      # tells -0.0 from 0.0, and a NaN equals itself
    return type(value), value


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _run(fn: Callable[..., Any], name: str, signature: Signature, constants: Mapping[str, Any]) -> Function:
    if (outer := in_trace()) is not None:
        outer.fail("trace(...) was called inside another trace; a helper function is called as it is, without trace")
    recorder = Recorder("kernel" if not name.isidentifier() else name)     # a lambda's name is no identifier
    function = recorder.function
    function.location = function_location(fn)
    try:
        with recorder.tracing():
            arguments = bind_parameters(signature, constants, recorder)
            positional = [arguments[n] for n in signature.names if n not in signature.keyword_only]
            result = fn(*positional, **{n: arguments[n] for n in signature.keyword_only})
            recorder.raise_late_error()
            for complain in recorder.unfinished.values():
                complain()
            if result is not None:
                recorder.fail(f"the kernel function returned {result!r}; a kernel returns nothing: store results into buffers",
                              at=function.location)
            if recorder.on_host:
                recorder.fail("T.device_entry() was never called; write it between the parameters and the kernel's body",
                              at=function.location)
            launch.finish(function, recorder)
    finally:
        control.forget(recorder)
    remove_unused(function)
    check_registers(function, recorder)
    _finish_names(function)
    check_read_only(function)
    _check_extents(function)
    return function


def _finish_names(function: Function) -> None:
    """Buffers and storages that no variable held get names of their own."""
    for index, parameter in enumerate(function.parameters):
        if parameter.buffer is not None:
            parameter.buffer.name = parameter.buffer.name or parameter.name.removesuffix("_ptr") or f"arg{index}"
            parameter.buffer.storage.name = parameter.buffer.name
    declared = (node.attrs["buffer"] for region in (function.host, function.device) for node in region.walk()
                if node.op in (ops.ALLOC, ops.DECL))
    for number, buffer in enumerate(declared):
        buffer.name = buffer.name or f"buffer{number}"
        buffer.storage.name = buffer.storage.name or buffer.name


def _check_extents(function: Function) -> None:
    """Every extent must be determined by the arguments' shapes, offsets or strides."""
    from symbolic.integers import free_symbols, named
    from symbolic.solve import solve
    scalars = {p.name for p in function.parameters if p.kind == "scalar"}
    for node in function.extents:
        if node.name in scalars:
            raise TraceError(f"{node.location or function.location}: {node.name!r} is the name of an extent and of a scalar parameter; equal names "
                             "are equal, and an extent is read off the shapes: drop the parameter, or rename one")
    symbols = [node.sym for node in function.extents if node.sym is not None]
    equations = []
    for buffer in (p.buffer for p in function.parameters if p.buffer is not None):
        equations += [(entry, named(f"{buffer.name}.shape[{axis}]")) for axis, entry in enumerate(buffer.shape)]
        equations.append((first_element(buffer), named(f"{buffer.name}.elem_offset")))
        if buffer.layout is not None:
            steps = axis_strides(buffer.shape, buffer.layout) or ()
            equations += [(step, named(f"{buffer.name}.strides[{axis}]")) for axis, step in enumerate(steps)]
    solution = solve(symbols, [(known, leaf) for known, leaf in equations if free_symbols(known)])
    if solution.unsolved:
        names = [function.atoms[s].name or s.name for s in solution.unsolved]
        node = function.atoms[solution.unsolved[0]]
        raise TraceError(f"{node.location or function.location}: the extent {', '.join(map(repr, names))} is determined by no argument's shape; "
                         "use it in the shape of a buffer parameter, or make it a scalar parameter")


def _never(*_: Any, stream: Any = None) -> bool:
    return False


class Kernel:
    """A traced function: it can be printed, inspected, simulated, compiled and called."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.memo: dict[Any, Any] = {}       # what the runtime keeps for this kernel (compiled modules, launchers)
        self.again: Callable[..., bool] = _never     # the short way of a call like an earlier one; the runtime sets it
        self.__name__ = function.name

    def __repr__(self) -> str:
        return f"<kernel {self.function.name}>"

    def specialize(self, **constants: Any) -> Kernel:
        """The kernel itself, so that functions with and without constexprs are used alike. Raises `SpecializeError` for any constexpr."""
        if constants:
            raise SpecializeError(f"{self.__name__}: unknown constexpr {', '.join(constants)}; "
                                  f"{self.__name__} is a kernel, with nothing to specialise")
        return self

    # -- as text

    def script(self) -> str:
        """Python that traces back to an equal function."""
        from tracer.script import script
        return script(self.function)

    def cuda_source(self, *, locations: bool = True) -> str:
        """The device half as CUDA C++; `locations=False` leaves out the comments that name Python lines."""
        if locations:
            return str(self.cuda.text)
        from codegen.cuda import emit
        return str(emit(self.half, locations=False).text)

    def host_source(self) -> str:
        """The host half as Python: unpack, solve the extents, check, launch."""
        from codegen.host import host_source
        return host_source(self.half)

    # -- lowered

    @cached_property
    def half(self) -> Any:
        """The device half: the lowered body and its arguments."""
        from codegen.split import device_half
        return device_half(self.function)

    @cached_property
    def cuda(self) -> Any:
        """The emitted CUDA source with its line table."""
        from codegen.cuda import emit
        return emit(self.half)

    def split(self) -> Any:
        """The two halves; `.host` and `.device` are printable."""
        from codegen.split import split
        return split(self.function, self.half)

    @property
    def device(self) -> Any:
        """The device half: `.attrs["tirx.kernel_launch_params"]` lists the launch parameters by name."""
        return self.split().device

    @cached_property
    def launch(self) -> Any:
        """`grid`, `block`, `cluster`, `preferred_cluster` and `dynamic_shared_bytes`, as ints or SymPy expressions."""
        from codegen.split import public_launch
        return public_launch(self.function)

    @cached_property
    def wide(self) -> Any:
        """The same kernel with 64-bit indices, for arrays of more than 2**31 elements; a call takes it where it needs it."""
        from codegen.wide import widened
        return Kernel(widened(self.function))

    @property
    def minimum_arch(self) -> str:
        """The first architecture that has every operation of the kernel: "sm_75" where nothing asks for more."""
        from codegen.architecture import minimum
        return str(minimum(self.half))

    def accesses(self) -> list[Any]:
        """Each load, store and atomic in program order, with its simplified index and whether it is proved in bounds."""
        from codegen.addresses import public_accesses
        return public_accesses(self.half.lowered)

    def check(self) -> Any:
        """What is proved safe, what is proved wrong and what is left to the run, each with the reason; and what accesses cost."""
        from codegen.check import check
        return check(self.half)

    # -- running: the one arrow that runs up the house

    def compile(self, arch: str | None = None, options: Sequence[str] = ()) -> Any:
        """The kernel as an `Executable` for `arch` ("sm_90a"; the present device's by default); `options` go to the CUDA compiler."""
        import runtime
        return runtime.compile(self, arch, options)

    def __call__(self, *args: Any, stream: Any = None) -> None:
        """Run on the arguments: NumPy arrays on the simulator, CUDA arrays on their GPU."""
        if not (self.again(*args) if stream is None else self.again(*args, stream=stream)):
            import runtime
            runtime.call(self, args, stream)

    def as_torch_op(self, name: str, outputs: Sequence[str] = ()) -> Any:
        """Register the kernel as the PyTorch operation `name` ("library::operation"), which makes `outputs` itself and returns them."""
        from runtime.torch_op import as_torch_op
        return as_torch_op(self, name, outputs)

    def simulate(self, *args: Any, checks: Any = True, grid: Any = None, seed: int | None = None) -> Any:
        """Run on the simulator and return its report: what it executed, moved and waited for, by Python line.

        `grid` runs a sample of so many blocks along each axis; `checks` says what is looked for (`runtime.Checks`); `seed` chooses another
        legal order of warps that wait for each other, and of asynchronous operations.
        """
        import runtime
        return runtime.simulate(self, *args, checks=checks, grid=grid, seed=seed)


