"""Values: proxies whose operators record nodes, mutable scalars, and the elementary functions of `T`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from symbolic import integers as si
from symbolic.integers import Int
from symbolic.layout.values import is_sympy
from tracer import operations as ops
from tracer.dtypes import DType, can_store, check_literal, dtype, literal_dtype, promote
from tracer.errors import DTypeError
from tracer.ir import Buffer, Node, Region
from tracer.operations import Effect, Operation
from tracer.recorder import BOOL, Nameable, Recorder, current
from tracer.spelling import describe

Literal = (bool, int, float, np.generic)


class Value(Nameable):
    """What an expression of the kernel is while tracing: a handle on one node. Operators record new nodes.

    It has a `dtype`. Nothing about its run-time value is known while tracing, so Python's own `if`, `range`, `int()` and the
    like raise `TraceError`, except where the ranges decide the value.
    """

    __slots__ = ("_node", "recorder")
    __hash__ = object.__hash__

    def __init__(self, node: Node, recorder: Recorder) -> None:
        self._node = node
        self.recorder = recorder

    # -- what it is

    def read(self) -> Node:
        """The node of its present value (for a mutable scalar: a load)."""
        return self._node

    @property
    def dtype(self) -> DType:
        """Its dtype, e.g. float32."""
        assert self._node.dtype is not None
        return self._node.dtype

    def learn_name(self, name: str) -> Node | None:
        node = self._node
        if node.name is not None or node.op is ops.CONST:
            return None
        node.name = name
        if node.op is ops.EXTENT:
            self._node = self.recorder.name_extent(node)
        return node

    @property
    def made_in(self) -> Region | None:
        return self._node.parent

    def __repr__(self) -> str:
        return f"<{self.dtype} value `{describe(self._node)}`>"

    # -- arithmetic

    def __add__(self, other: Any) -> Any: return binary(ops.ADD, self, other)
    def __radd__(self, other: Any) -> Any: return binary(ops.ADD, other, self)
    def __sub__(self, other: Any) -> Any: return binary(ops.SUB, self, other)
    def __rsub__(self, other: Any) -> Any: return binary(ops.SUB, other, self)
    def __mul__(self, other: Any) -> Any: return binary(ops.MUL, self, other)
    def __rmul__(self, other: Any) -> Any: return binary(ops.MUL, other, self)
    def __truediv__(self, other: Any) -> Any: return binary(ops.DIV, self, other)
    def __rtruediv__(self, other: Any) -> Any: return binary(ops.DIV, other, self)
    def __floordiv__(self, other: Any) -> Any: return binary(ops.FLOORDIV, self, other)
    def __rfloordiv__(self, other: Any) -> Any: return binary(ops.FLOORDIV, other, self)
    def __mod__(self, other: Any) -> Any: return binary(ops.FLOORMOD, self, other)
    def __rmod__(self, other: Any) -> Any: return binary(ops.FLOORMOD, other, self)
    def __pow__(self, other: Any) -> Any: return binary(_MATH["pow"], self, other)
    def __rpow__(self, other: Any) -> Any: return binary(_MATH["pow"], other, self)
    def __and__(self, other: Any) -> Any: return binary(ops.AND, self, other)
    def __rand__(self, other: Any) -> Any: return binary(ops.AND, other, self)
    def __or__(self, other: Any) -> Any: return binary(ops.OR, self, other)
    def __ror__(self, other: Any) -> Any: return binary(ops.OR, other, self)
    def __xor__(self, other: Any) -> Any: return binary(ops.XOR, self, other)
    def __rxor__(self, other: Any) -> Any: return binary(ops.XOR, other, self)
    def __lshift__(self, other: Any) -> Any: return binary(ops.SHL, self, other)
    def __rlshift__(self, other: Any) -> Any: return binary(ops.SHL, other, self)
    def __rshift__(self, other: Any) -> Any: return binary(ops.SHR, self, other)
    def __rrshift__(self, other: Any) -> Any: return binary(ops.SHR, other, self)
    def __lt__(self, other: Any) -> Any: return binary(ops.LT, self, other)
    def __le__(self, other: Any) -> Any: return binary(ops.LE, self, other)
    def __gt__(self, other: Any) -> Any: return binary(ops.GT, self, other)
    def __ge__(self, other: Any) -> Any: return binary(ops.GE, self, other)
    def __eq__(self, other: Any) -> Any: return binary(ops.EQ, self, other)
    def __ne__(self, other: Any) -> Any: return binary(ops.NE, self, other)
    def __neg__(self) -> Any: return unary(ops.NEG, self)
    def __pos__(self) -> Any: return self
    def __abs__(self) -> Any: return unary(ops.ABS, self)
    def __invert__(self) -> Any: return unary(ops.NOT, self)

    def astype(self, target: Any) -> Value:
        """The value converted to dtype `target` as CUDA converts: float to int truncates and saturates, NaN gives 0."""
        return Value(cast(as_node(self), self.recorder.dtype(target)), self.recorder)

    def __getitem__(self, lane: int) -> Value:
        """Lane `lane` of a vector value."""
        node = as_node(self)
        assert node.dtype is not None
        if node.dtype.lanes == 1:
            self.recorder.fail(f"a {node.dtype} value cannot be indexed: only buffers (A[i]) and vector values (v[0]) can", node)
        if isinstance(lane, Value):
            self.recorder.fail("a lane of a vector is chosen by a Python int; store the vector into a local buffer to index it at run time",
                               as_node(lane))
        if not 0 <= int(lane) < node.dtype.lanes:
            self.recorder.fail(f"lane {lane} of a {node.dtype} value; its lanes are 0 to {node.dtype.lanes - 1}", node)
        return Value(self.recorder.record(ops.LANE, [node], node.dtype.scalar, {"index": int(lane)}), self.recorder)

    # -- what Python would do silently wrong

    def __symbolic__(self) -> Int:
        """The value as an exact integer over the trace's symbols: what a layout's extents and strides are made of."""
        node = as_node(self, None, self.recorder)
        if node.sym is None or node.dtype is None or not node.dtype.is_integer:
            self.recorder.fail(f"a {node.dtype} value is used as an integer of a layout", node, kind=DTypeError)
        return node.sym

    def _constant(self) -> Any:
        """The constant that the ranges decided, or None."""
        node = self._node
        return node.attrs["value"] if node.op is ops.CONST else None

    def _refuse(self, what: str, instead: str) -> NoReturn:
        self.recorder.fail(f"{what} a value that is only known when the kernel runs. {instead}", self._node)

    def __bool__(self) -> bool:
        if (value := self._constant()) is not None:
            return bool(value)
        return self._refuse(
            "Python asked for the truth (`if`, `while`, `and`, `or`, `not`, `assert`, or a chained comparison) of",
            "Write `with T.If(condition):`, `with T.While(lambda: condition):`, `&`, `|`, `~` with parentheses around each comparison, "
            "or T.select(condition, a, b)")

    def __index__(self) -> int:
        if isinstance(value := self._constant(), int):
            return int(value)
        return self._refuse("Python needs an int (`range(n)`, `list[n]`, `hex(n)`, a repetition or a slice of a list), and this is",
                            "Write `for i in T.serial(n):` for a loop, or index a buffer")

    def __int__(self) -> int:
        if (value := self._constant()) is not None:
            return int(value)
        return self._refuse("int() was called on", "Write x.astype('int32') to convert it in the kernel")

    def __float__(self) -> float:
        if (value := self._constant()) is not None:
            return float(value)
        return self._refuse("float() was called on", "Write x.astype('float32') to convert it in the kernel; for math.exp(x) and the like "
                                                     "write T.exp(x)")

    def __round__(self, digits: int | None = None) -> Any:
        return self._refuse("round() was called on", "Write T.round(x)")

    def __len__(self) -> int:
        if self.dtype.lanes > 1:
            return self.dtype.lanes
        return self._refuse("len() was called on", "The extents of a buffer are in its .shape")

    def __iter__(self) -> Iterator[Any]:
        if self.dtype.lanes > 1:
            return iter([self[lane] for lane in range(self.dtype.lanes)])
        return self._refuse("Python iterates over", "Write `for i in T.serial(n):`")

    def __contains__(self, _: Any) -> bool:
        return self._refuse("`in` was used on", "Compare element by element")

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self._refuse("NumPy was given", "Use T.* functions and operators on values; NumPy arrays are arguments of the kernel")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """`np.float32(2) * value` comes here; so does `np.exp(value)`, which is refused."""
        row = _UFUNCS.get(ufunc.__name__)
        if method == "__call__" and row is not None and not keywords and not any(isinstance(i, np.ndarray) for i in inputs):
            return binary(row, *inputs)
        name = _NUMPY_NAMES.get(ufunc.__name__, ufunc.__name__)
        return self._refuse(f"numpy.{ufunc.__name__} was called on", f"Write T.{name}(...) or an operator on values; NumPy arrays are arguments "
                                                                     "of the kernel")


_UFUNCS = {
    "add": ops.ADD, "subtract": ops.SUB, "multiply": ops.MUL, "divide": ops.DIV, "true_divide": ops.DIV, "floor_divide": ops.FLOORDIV,
    "remainder": ops.FLOORMOD, "bitwise_and": ops.AND, "bitwise_or": ops.OR, "bitwise_xor": ops.XOR, "left_shift": ops.SHL,
    "right_shift": ops.SHR, "less": ops.LT, "less_equal": ops.LE, "greater": ops.GT, "greater_equal": ops.GE, "equal": ops.EQ,
    "not_equal": ops.NE,
}
_NUMPY_NAMES = {"absolute": "abs", "maximum": "max", "minimum": "min", "rint": "round", "power": "pow"}


class Cell(Value):
    """A mutable scalar: reading its name reads the cell, `x += 1` and `x.assign(v)` store into it."""

    __slots__ = ("buffer", "alloc")

    def __init__(self, buffer: Buffer, alloc: Node, recorder: Recorder) -> None:
        super().__init__(alloc, recorder)
        self.buffer = buffer
        self.alloc = alloc

    def read(self) -> Node:
        return self._usable().record(ops.LOAD, (), self.buffer.dtype, {"buffer": self.buffer})

    def _usable(self) -> Recorder:
        recorder = current()
        if self.recorder is not recorder:
            recorder.fail(f"the mutable scalar {self.buffer.name!r} belongs to another trace; each trace makes its own")
        if not recorder.is_open(self.home):
            recorder.fail(f"the mutable scalar {self.buffer.name!r} is used after the If, loop or While in which it was made has closed; "
                          "make it before")
        return recorder

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    def learn_name(self, name: str) -> Node | None:
        if not self.buffer.name:
            self.buffer.name = self.buffer.storage.name = name
        return None

    @property
    def home(self) -> Region | None:
        return self.alloc.parent

    def __pos__(self) -> Any:
        """`+x`: the value that the cell has now."""
        return wrap(self.read(), self.recorder)

    def _constant(self) -> Any:
        return None

    def _refuse(self, what: str, instead: str) -> NoReturn:
        self.recorder.fail(f"{what} the mutable scalar {self.buffer.name or ''!r}, whose value is only known when the kernel runs. {instead}")

    def __repr__(self) -> str:
        return f"<{self.dtype} mutable scalar {self.buffer.name!r}>"

    def assign(self, value: Any) -> None:
        """Store `value`, which must promote to the cell's dtype."""
        recorder = self._usable()
        node = convert_for_store(value, self.buffer.dtype, repr(self.buffer.name) if self.buffer.name else "a mutable scalar", recorder)
        recorder.record(ops.STORE, [node], None, {"buffer": self.buffer})

    def _update(self, op: Operation, value: Any) -> Cell:
        self.assign(binary(op, self, value))
        return self

    def __iadd__(self, other: Any) -> Any: return self._update(ops.ADD, other)
    def __isub__(self, other: Any) -> Any: return self._update(ops.SUB, other)
    def __imul__(self, other: Any) -> Any: return self._update(ops.MUL, other)
    def __itruediv__(self, other: Any) -> Any: return self._update(ops.DIV, other)
    def __ifloordiv__(self, other: Any) -> Any: return self._update(ops.FLOORDIV, other)
    def __imod__(self, other: Any) -> Any: return self._update(ops.FLOORMOD, other)
    def __iand__(self, other: Any) -> Any: return self._update(ops.AND, other)
    def __ior__(self, other: Any) -> Any: return self._update(ops.OR, other)
    def __ixor__(self, other: Any) -> Any: return self._update(ops.XOR, other)
    def __ilshift__(self, other: Any) -> Any: return self._update(ops.SHL, other)
    def __irshift__(self, other: Any) -> Any: return self._update(ops.SHR, other)


# ---------------------------------------------------------------------- from Python objects to nodes

def as_node(value: Any, like: DType | None = None, recorder: Recorder | None = None) -> Node:
    """The node of a value, or a constant from a Python or NumPy literal (of dtype `like` where the literal is a Python one)."""
    recorder = recorder or current()
    if isinstance(value, Value):
        if value.recorder is not recorder and not isinstance(value, Cell):      # a cell complains by its name
            recorder.fail("a value of another trace is used here; each trace makes its own values, pass data through buffers", value._node)
        if value._node.op is ops.EXTENT and value._node.name is None:
            recorder.observe()      # its name may make it another extent's equal
        return value.read()
    if isinstance(value, np.generic):
        return recorder.constant(value.item(), dtype(value.dtype))
    if isinstance(value, (bool, int, float)):
        target = like.scalar if like is not None else literal_dtype(value)
        try:
            return recorder.constant(check_literal(value, target), target)
        except DTypeError as error:
            recorder.fail(str(error), kind=DTypeError)
    if is_sympy(value):
        from tracer.extents import over_extents, value_of
        return as_node(value_of(over_extents(value, recorder), recorder), like, recorder)
    if isinstance(value, np.ndarray):
        recorder.fail("a NumPy array is used as a value; pass it as an argument and declare it with T.Buffer or T.match_buffer")
    return recorder.fail(f"{value!r} (a {type(value).__name__}) is not a value of the kernel; write a number, a T.* value or a buffer element")


def wrap(node: Node, recorder: Recorder | None = None) -> Value:
    """The proxy of a node."""
    return Value(node, recorder or current())


def cast(node: Node, target: DType) -> Node:
    """`node` converted to `target`; a scalar spreads over a vector's lanes; itself where it has that type already."""
    recorder = current()
    if node.dtype is target:
        return node
    assert node.dtype is not None
    if "handle" in (node.dtype.kind, target.kind):
        recorder.fail(f"{node.dtype} does not convert to {target}", node, kind=DTypeError)
    if node.dtype.lanes not in (1, target.lanes):
        recorder.fail(f"{node.dtype} does not convert to {target}: the lanes differ", node, kind=DTypeError)
    if node.op is ops.CONST and target.lanes == 1 and _exact_constant(node, target):
        return recorder.constant(_converted(_held(node), target), target)
    return recorder.record(ops.CAST, [node], target)


def _held(node: Node) -> bool | int | float:
    """The number that a constant is: a float is rounded to its type."""
    value, held = node.attrs["value"], node.dtype
    assert held is not None
    return float(np.asarray(value).astype(held.storage)) if held.is_float else value


def _exact_constant(node: Node, target: DType) -> bool:
    try:
        check_literal(_converted(node.attrs["value"], target), target)
    except DTypeError:
        return False
    value = node.attrs["value"]
    return not (isinstance(value, float) and not target.is_float)   # a float constant is converted at run time, by CUDA's rule


def _converted(value: Any, target: DType) -> bool | int | float:
    if target.is_float:
        return float(value)
    return bool(value) if target.kind == "bool" else int(value)


def _operands(op: Operation, values: list[Any], recorder: Recorder) -> list[Node]:
    """Nodes for `values`, promoted to one dtype; Python literals take the dtype of the typed operands."""
    nodes: list[Node | None] = [as_node(v, recorder=recorder) if not _is_literal(v) else None for v in values]
    typed = [n.dtype for n in nodes if n is not None and n.dtype is not None]
    if typed:
        common = typed[0]
        for other in typed[1:]:
            common = _promote(op, common, other, [n for n in nodes if n is not None], recorder)
    else:
        common = _literal_common(values)
    return [cast(n, common) if n is not None else cast(as_node(v, common, recorder), common) for n, v in zip(nodes, values)]


def _is_literal(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def _literal_common(values: list[Any]) -> DType:
    common = literal_dtype(values[0])
    for value in values[1:]:
        common = promote(common, literal_dtype(value))
    return common


def _promote(op: Operation, a: DType, b: DType, nodes: list[Node], recorder: Recorder) -> DType:
    try:
        return promote(a, b)
    except DTypeError as error:
        recorder.fail(f"`{op.name}`: {error}", *nodes, kind=DTypeError)


_FLOAT_ONLY = {ops.DIV}
_INTEGER_ONLY = {ops.SHL, ops.SHR, ops.TRUNCDIV, ops.TRUNCMOD}
_BITS = {ops.AND, ops.OR, ops.XOR, ops.NOT}
_ANY_COMPARABLE = {ops.EQ, ops.NE}
_ARITHMETIC_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _check_kind(op: Operation, result: DType, nodes: list[Node], recorder: Recorder) -> None:
    """Refuse an operator on a dtype that it does not exist for, saying what to write."""
    def fail(message: str) -> NoReturn:
        recorder.fail(message, *nodes, kind=DTypeError)

    if result.kind == "handle":
        fail(f"`{op.name}` on a pointer; use A.ptr_to([i, j]) to point at another element")
    if result.kind == "float" and result.scalar.name not in _ARITHMETIC_FLOATS:
        fail(f"`{op.name}` on {result}: the hardware has no arithmetic for it; convert with .astype('float16') or .astype('float32') first")
    if op in _FLOAT_ONLY and not result.is_float:
        fail("`/` on integers: write `//` for floor division, T.truncdiv(a, b) for C's, or .astype('float32') first")
    if op in _INTEGER_ONLY and not result.is_integer:
        fail(f"`{op.name}` needs integers, not {result}")
    if op is _MATH["pow"] and not result.is_float:
        fail("`**` on integers; write x * x, or convert with .astype('float32')")
    if op in _BITS and result.is_float:
        fail(f"`{op.name}` needs integers or bools, not {result}; T.reinterpret gives a float's bits")
    if result.kind == "bool" and op not in _BITS and op not in _ANY_COMPARABLE:
        fail(f"`{op.name}` on bools; use `&`, `|`, `~`, or .astype('int32') first")


def binary(op: Operation, a: Any, b: Any) -> Any:
    """`a op b`, both promoted to one dtype (a shift keeps the first operand's)."""
    recorder = current()
    for operand in (a, b):
        if not (isinstance(operand, (Value, *Literal)) or is_sympy(operand)):
            if op in _ANY_COMPARABLE:      # Python would answer by identity, which is never meant
                recorder.fail(f"a value is compared with {operand!r} (a {type(operand).__name__}); compare it with a number or a value")
            return NotImplemented
    if op.result == "first":
        left = as_node(a, None, recorder)
        right = as_node(b, left.dtype if left.dtype is not None and left.dtype.is_integer else None, recorder)
        nodes = [left, right]
    else:
        nodes = _operands(op, [a, b], recorder)
    common = nodes[0].dtype
    assert common is not None
    _check_kind(op, common, nodes, recorder)
    if op.result == "first":
        _check_kind(op, nodes[1].dtype or common, nodes, recorder)
    if op in _DIVISIONS and nodes[1].op is ops.CONST and nodes[1].attrs["value"] == 0 and common.is_integer:
        recorder.fail(f"`{op.name}` by the constant 0", nodes[0])
    if op in (ops.SHL, ops.SHR):
        _check_shift(op, nodes, common, recorder)
    result = BOOL.vector(common.lanes) if op.result == "bool" else common
    return wrap(recorder.record(op, nodes, result), recorder)


def _check_shift(op: Operation, nodes: list[Node], common: DType, recorder: Recorder) -> None:
    """A shift by a negative amount or by the width or more has no result."""
    amount = nodes[1].sym
    if amount is None:
        return
    inside = si.land(si.ge(amount, si.const(0)), si.lt(amount, si.const(common.bits)))
    if recorder.always_known.prove(inside) is False:
        recorder.fail(f"`{op.name}` of {common} by {describe(nodes[1])}: the amount must lie in [0, {common.bits})", nodes[0])


_DIVISIONS = {ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV, ops.TRUNCMOD}


def unary(op: Operation, a: Any) -> Value:
    """`op a`."""
    recorder = current()
    node = as_node(a, None, recorder)
    assert node.dtype is not None
    _check_kind(op, node.dtype, [node], recorder)
    return wrap(recorder.record(op, [node], node.dtype), recorder)


def convert_for_store(value: Any, target: DType, what: str, recorder: Recorder) -> Node:
    """`value` as something that may be stored where dtype `target` is kept; `what` names the place for the message."""
    node = as_node(value, target, recorder)
    assert node.dtype is not None
    if not can_store(node.dtype, target):
        recorder.fail(f"a {node.dtype} value is stored into {what} of dtype {target}, to which it does not promote; "
                      f"write .astype({target.name!r}) if the conversion is meant", node, kind=DTypeError)
    return cast(node, target)


# ---------------------------------------------------------------------- functions of T

_MATH = {row.name: row for row in ops.MATH}


def _float_function(op: Operation, values: tuple[Any, ...]) -> Value:
    recorder = current()
    if len(values) != len(op.operands):
        recorder.fail(f"T.{op.name}({', '.join(op.operands)}) takes {len(op.operands)} operand(s), got {len(values)}")
    nodes = _operands(op, list(values), recorder)
    common = nodes[0].dtype
    assert common is not None
    if not common.is_float or common.scalar.name not in _ARITHMETIC_FLOATS:
        recorder.fail(f"T.{op.name} needs float16, bfloat16, float32 or float64, not {common}; convert with .astype('float32')",
                      *nodes, kind=DTypeError)
    return wrap(recorder.record(op, nodes, BOOL.vector(common.lanes) if op.result == "bool" else common), recorder)


def float_function(op: Operation) -> Any:
    """`T.<name>` for a row of elementary functions."""
    def function(*values: Any) -> Value:
        return _float_function(op, values)

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = f"{op.name}({', '.join(op.operands)}) of floats, element-wise on vectors ({op.source})."
    return function


def minimum(a: Any, b: Any) -> Any:
    """The lesser of two values; on floats `fmin`: the other one where one is NaN."""
    return binary(ops.MIN, a, b)


def maximum(a: Any, b: Any) -> Any:
    """The greater of two values; on floats `fmax`: the other one where one is NaN."""
    return binary(ops.MAX, a, b)


def absolute(a: Any) -> Value:
    """|a|."""
    return unary(ops.ABS, a)


def truncdiv(a: Any, b: Any) -> Any:
    """C's integer division: the quotient rounded toward zero."""
    return binary(ops.TRUNCDIV, a, b)


def truncmod(a: Any, b: Any) -> Any:
    """C's `%`: the remainder with the sign of `a`."""
    return binary(ops.TRUNCMOD, a, b)


def ceildiv(a: Any, b: Any) -> Any:
    """The integer quotient rounded up. Written (a + b - 1) // b where b > 0 and the sum fits its dtype."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    recorder = current()
    left, right = _operands(ops.FLOORDIV, [a, b], recorder)
    if left.sym is None or right.sym is None or left.dtype is None:
        recorder.fail(f"T.ceildiv needs integers, not {left.dtype}", left, kind=DTypeError)
    low, high = recorder.known.bounds(left.sym + right.sym - 1)
    least, greatest = left.dtype.limits
    fits = low is not None and high is not None and least <= low and high <= greatest
    if recorder.known.prove(si.gt(right.sym, si.const(0))) is True and (fits or recorder.is_launch_arithmetic(left.sym)):
        return (wrap(left, recorder) + (wrap(right, recorder) - 1)) // wrap(right, recorder)
    whole = wrap(left, recorder) // wrap(right, recorder)
    return whole + (wrap(left, recorder) % wrap(right, recorder) != 0).astype(left.dtype)


def as_condition(condition: Any, what: str, recorder: Recorder) -> Node:
    """`condition` as a bool node; anything but a bool is refused."""
    node = as_node(condition, None, recorder)
    if node.dtype is not BOOL:
        recorder.fail(f"{what} needs a bool, not {node.dtype}; write a comparison such as `x != 0`", node, kind=DTypeError)
    return node


def select(condition: Any, a: Any, b: Any) -> Value:
    """`a` where `condition` holds, else `b`; both are computed."""
    recorder = current()
    chosen = as_condition(condition, "T.select", recorder)
    nodes = _operands(ops.SELECT, [a, b], recorder)
    if chosen.op is ops.CONST:
        return wrap(nodes[0] if chosen.attrs["value"] else nodes[1], recorder)
    return wrap(recorder.record(ops.SELECT, [chosen, *nodes], nodes[0].dtype), recorder)


def if_then_else(condition: Any, a: Any, b: Any) -> Value:
    """`a` where `condition` holds, else `b`; the loads written inside the call are performed only where they are chosen."""
    recorder = current()
    recorder.observe()
    chosen = as_condition(condition, "T.if_then_else", recorder)
    nodes = _operands(ops.IF_THEN_ELSE, [a, b], recorder)
    if chosen.op is ops.CONST:
        return wrap(nodes[0] if chosen.attrs["value"] else nodes[1], recorder)
    _refuse_writes(nodes, recorder)
    branches = (Region(), Region())
    shared = set(slice_of([chosen], recorder))
    for branch, node in zip(branches, nodes):
        private = [n for n in slice_of([node], recorder) if n not in shared]
        branch.result = recorder.copy(private, branch).get(node, node)
    return wrap(recorder.record(ops.IF_THEN_ELSE, [chosen], nodes[0].dtype, regions=branches), recorder)


def _refuse_writes(roots: list[Node], recorder: Recorder) -> None:
    """An atomic written inside a guarded value would be performed by every thread: Python evaluates arguments first."""
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node.parent is not recorder.region or recorder.held_by_name(node):
            continue
        if node.op.effect & Effect.WRITE:
            recorder.fail(f"`{node.op.name}` inside T.if_then_else would be performed whether it is chosen or not; put it into a T.If that assigns "
                          "a mutable scalar, or give its result a name before if every thread is meant", node)
        pending.extend(node.operands)


def slice_of(roots: list[Node], recorder: Recorder) -> list[Node]:
    """The pure nodes and loads at the end of the innermost region that `roots` need and no running frame's variable holds, in order.

    They are what the author wrote inside the call at hand. A store or another effect between such a load and here would change
    what it reads, so the slice ends there; what a variable holds was written before, and stays where it is.
    """
    needed, slice_ = set(roots), []
    for node in reversed(recorder.region.nodes):      # users come before what they use
        if node.op is ops.DECL:
            continue
        if not (node.op.pure or node.op in (ops.LOAD, ops.IF_THEN_ELSE)):
            break
        if node in needed and not recorder.held_by_name(node):
            slice_.append(node)
            needed.update(node.operands)
            for inner in (r for r in node.regions):
                needed.update(o for n in inner.walk() for o in n.operands)
                needed.update([inner.result] if inner.result is not None else [])
    return slice_[::-1]


def let(value: Any, dtype_: Any = None) -> Value:
    """A named immutable binding: `half = T.let(n // 2)`; what is known of the value flows to its uses."""
    recorder = current()
    target = None if dtype_ is None else recorder.dtype(dtype_)
    node = as_node(value, target, recorder)
    if target is not None:
        node = convert_for_store(value, target, "a let binding", recorder)
    return wrap(recorder.record(ops.LET, [node], node.dtype), recorder)


def reinterpret(target: Any, value: Any) -> Value:
    """The bits of `value` read as dtype `target`, which must be as wide."""
    recorder = current()
    node, wanted = as_node(value, None, recorder), recorder.dtype(target)
    assert node.dtype is not None
    if node.dtype.width * node.dtype.lanes != wanted.width * wanted.lanes:
        recorder.fail(f"T.reinterpret of {node.dtype} ({node.dtype.width * node.dtype.lanes} bits) as {wanted} "
                      f"({wanted.width * wanted.lanes} bits): the widths differ", node, kind=DTypeError)
    return wrap(recorder.record(ops.REINTERPRET, [node], wanted), recorder)


class ScalarType:
    """`T.int32`, `T.float32`, ...: a parameter annotation; called, a typed constant or a cast; `T.int32()`: a free extent."""

    def __init__(self, target: DType) -> None:
        self.dtype = target

    def __repr__(self) -> str:
        return f"T.{self.dtype}"

    def __call__(self, value: Any = None) -> Value:
        """`T.float32(2.0)` a constant, `T.float32(x)` a cast, `T.int32()` a symbolic extent read off the arguments' shapes."""
        recorder = current()
        if value is None:
            if self.dtype.name not in ("int32", "int64"):
                recorder.fail(f"T.{self.dtype}() declares a symbolic extent, which is int32 or int64; write T.{self.dtype}(value) for a constant")
            recorder.observe()
            return wrap(recorder.extent(None, self.dtype), recorder)
        if isinstance(value, Value):
            return value.astype(self.dtype)
        return wrap(as_node(value, self.dtype, recorder) if not isinstance(value, np.generic)
                    else cast(as_node(value, None, recorder), self.dtype), recorder)


