"""The parameter list: annotations, `T.match_buffer`, and how a Python signature becomes the kernel's parameters."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tracer import buffers, ir
from tracer import operations as ops
from tracer.dtypes import dtype
from tracer.errors import TraceError
from tracer.ir import Location, Parameter
from tracer.recorder import Recorder, current
from tracer.values import ScalarType, wrap


@dataclass(frozen=True)
class BufferAnnotation:
    """`T.Buffer(shape, dtype, ...)`: a parameter that takes an array."""

    shape: Any
    dtype: Any
    options: dict[str, Any] = field(default_factory=dict)


def Buffer(shape: Any, dtype: Any = "float32", *, layout: Any = "default", elem_offset: Any = 0, scope: str = "global",  # noqa: N802
           align: int | None = None, strides: Any = None) -> BufferAnnotation:
    """The annotation of an array parameter: extents are ints, names, SymPy expressions or constexpr parameters."""
    return BufferAnnotation(shape, dtype, {"layout": layout, "elem_offset": elem_offset, "scope": scope, "align": align, "strides": strides})


class _Marker:
    """An annotation without arguments."""

    def __init__(self, name: str, meaning: str) -> None:
        self.name = name
        self.__doc__ = meaning

    def __repr__(self) -> str:
        return f"T.{self.name}"


handle = _Marker("handle", "The annotation of a pointer parameter, bound to an array by T.match_buffer.")
constexpr = _Marker("constexpr", "The annotation of a compile-time parameter, given to specialize(...).")


class Handle:
    """A pointer parameter inside the function, to be bound with `T.match_buffer`."""

    def __init__(self, parameter: Parameter, recorder: Recorder) -> None:
        self.parameter = parameter
        self.recorder = recorder

    def __repr__(self) -> str:
        return f"<handle {self.parameter.name}>"

    def __getitem__(self, *_: Any) -> NoReturn:
        self.recorder.fail(f"the handle {self.parameter.name!r} is indexed; bind it first: A = T.match_buffer({self.parameter.name}, shape, dtype)")

    __setitem__ = __getitem__


def match_buffer(pointer: Any, shape: Any, dtype: Any = "float32", *, layout: Any = "default", strides: Any = None, elem_offset: Any = 0,
                 scope: str = "global", align: int | None = None) -> buffers.Buffer:
    """Bind the array that comes for `pointer` (a `T.handle` parameter) as a buffer of `shape` and `dtype`.

    Raises `TraceError` for anything but a handle parameter of this function, for one bound twice, and below `T.device_entry()`.
    """
    recorder = current()
    recorder.observe()
    if not isinstance(pointer, Handle):
        recorder.fail(f"T.match_buffer binds a parameter annotated T.handle, not {pointer!r}")
    if pointer.recorder is not recorder:
        recorder.fail(f"the handle {pointer.parameter.name!r} belongs to another trace")
    parameter = pointer.parameter
    if parameter.buffer is not None:
        recorder.fail(f"the handle {parameter.name!r} is bound already, as buffer {parameter.buffer.name or '?'!r}")
    if not recorder.on_host:
        recorder.fail("T.match_buffer stands before T.device_entry(): arguments are bound on the host")
    options = {"layout": layout, "elem_offset": elem_offset, "scope": scope, "align": align, "strides": strides}
    return buffers.Buffer(_bind("", parameter, shape, dtype, options, recorder), recorder)


def _bind(name: str, parameter: Parameter, shape: Any, element: Any, options: Mapping[str, Any], recorder: Recorder) -> ir.Buffer:
    index = recorder.function.parameters.index(parameter)
    parameter.buffer = buffers.declare_parameter(name, index, shape, element, recorder, **options)
    parameter.dtype = parameter.buffer.dtype
    return parameter.buffer


# ---------------------------------------------------------------------- from the Python signature

@dataclass(frozen=True)
class Signature:
    """A kernel function's parameters: the names and raw annotations in order, and which are constexprs with their defaults."""

    names: tuple[str, ...]
    annotations: Mapping[str, Any]
    constexprs: Mapping[str, Any]        # name -> default, or inspect.Parameter.empty
    scope: Mapping[str, Any]             # where annotations written as text are evaluated
    keyword_only: frozenset[str]

    @property
    def missing(self) -> list[str]:
        """The constexprs without a default."""
        return [name for name, default in self.constexprs.items() if default is inspect.Parameter.empty]


def read_signature(fn: Callable[..., Any], caller_locals: Mapping[str, Any]) -> Signature:
    """The parameters of `fn` without calling it. Raises `TraceError` for a parameter that has no annotation or is starred."""
    from tracer.dialect import T
    inner = inspect.unwrap(fn)
    scope: dict[str, Any] = {"T": T, **caller_locals, **getattr(inner, "__globals__", {}), **_closure(inner)}
    names, annotations, constexprs, keyword_only = [], {}, {}, set()
    for name, parameter in inspect.signature(fn).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TraceError(f"{_where(inner)}: parameter *{name}: a kernel's parameters are named one by one")
        if parameter.annotation is parameter.empty:
            raise TraceError(f"{_where(inner)}: parameter {name!r} has no annotation; write one of T.Buffer(shape, dtype), T.handle, a scalar "
                             "type such as T.float32, or T.constexpr")
        if _is_constexpr(parameter.annotation, scope):
            constexprs[name] = parameter.default
        elif parameter.default is not parameter.empty:
            raise TraceError(f"{_where(inner)}: parameter {name!r} has a default; only T.constexpr parameters may have one")
        names.append(name)
        annotations[name] = parameter.annotation
        if parameter.kind is parameter.KEYWORD_ONLY:
            keyword_only.add(name)
    return Signature(tuple(names), annotations, constexprs, scope, frozenset(keyword_only))


def _is_constexpr(annotation: Any, scope: Mapping[str, Any]) -> bool:
    if not isinstance(annotation, str):
        return annotation is constexpr
    try:
        return eval(annotation, dict(scope)) is constexpr       # an annotation may be written as text (PEP 563)
    except Exception:  # noqa: BLE001  it mentions a constexpr parameter, whose value is only known when specialising
        return False


def _closure(fn: Any) -> dict[str, Any]:
    cells = getattr(fn, "__closure__", None) or ()
    names = fn.__code__.co_freevars if cells else ()
    return {name: cell.cell_contents for name, cell in zip(names, cells) if _filled(cell)}


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _where(fn: Any) -> str:
    code = getattr(fn, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(fn)


def function_location(fn: Any) -> Location | None:
    """The line where `fn` is defined."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno, code.co_name)


def bind_parameters(signature: Signature, constants: Mapping[str, Any], recorder: Recorder) -> dict[str, Any]:
    """The objects to call the function with; declares its parameters in `recorder`."""
    arguments: dict[str, Any] = {}
    scope = {**signature.scope, **constants}
    for name in signature.names:
        if name in signature.constexprs:
            arguments[name] = constants[name]
            continue
        arguments[name] = _bind_parameter(name, _evaluate(name, signature.annotations[name], scope, recorder), constants, recorder)
    return arguments


def _evaluate(name: str, annotation: Any, scope: Mapping[str, Any], recorder: Recorder) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(scope))
    except Exception as error:
        raise TraceError(f"{recorder.function.location}: the annotation of parameter {name!r}, {annotation}, cannot be evaluated: "
                         f"{type(error).__name__}: {error}") from error


def _bind_parameter(name: str, annotation: Any, constants: Mapping[str, Any], recorder: Recorder) -> Any:
    function = recorder.function
    parameter = Parameter(name, "handle", dtype("handle"), location=function.location)
    function.parameters.append(parameter)
    if annotation is handle:
        return Handle(parameter, recorder)
    if isinstance(annotation, BufferAnnotation):
        parameter.kind = "buffer"
        shape = annotation.shape if isinstance(annotation.shape, (tuple, list)) else (annotation.shape,)
        entries = tuple(constants.get(entry, entry) if isinstance(entry, str) else entry for entry in shape)
        return buffers.Buffer(_bind(name, parameter, entries, annotation.dtype, annotation.options, recorder), recorder)
    if isinstance(annotation, ScalarType):
        parameter.kind, parameter.dtype = "scalar", annotation.dtype
        if annotation.dtype.bits < 8 or annotation.dtype.name.startswith("float8"):
            recorder.fail(f"parameter {name!r}: a {annotation.dtype} scalar cannot be passed; pass it in an array", at=function.location)
        parameter.node = recorder.leaf(ops.SCALAR, annotation.dtype, {"parameter": name}, name)
        return wrap(parameter.node, recorder)
    recorder.fail(f"parameter {name!r} is annotated {annotation!r}; write T.Buffer(shape, dtype), T.handle, a scalar type such as T.float32, "
                  "or T.constexpr", at=function.location)


def caller_locals(depth: int) -> Mapping[str, Any]:
    """The local names of the frame `depth` above this function's caller: what an annotation written as text may mention."""
    frame = sys._getframe(depth + 1)
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
