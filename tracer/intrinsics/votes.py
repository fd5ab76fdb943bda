"""`T.cuda`: what the lanes of a warp know of each other. Votes, matches, reductions in one instruction, and one lane elected.

`mask` names the lanes that take part (bit k: lane k). Each of them must come to the same call with the same mask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import operations as ops
from tracer.dtypes import dtype
from tracer.intrinsics.operands import FULL_MASK, UINT32, exactly, lane_mask, one_of
from tracer.ir import Node
from tracer.operations import Operation
from tracer.recorder import BOOL, Recorder, current
from tracer.values import Value, as_node, binary, wrap

MATCHED = ("int32", "uint32", "int64", "uint64", "float32", "float64")
_REDUCED = {"u32": UINT32, "i32": dtype("int32")}


def _predicate(value: Any, recorder: Recorder) -> Node:
    """A bool; an integer counts as true where it is not 0, as in CUDA."""
    node = as_node(value, None, recorder)
    if node.dtype is not None and node.dtype.is_integer and node.dtype.lanes == 1:
        node = as_node(binary(ops.NE, wrap(node, recorder), 0), None, recorder)
    return exactly(wrap(node, recorder), BOOL, "a vote's predicate", recorder)


def ballot_sync(mask: Any, predicate: Any) -> Value:
    """uint32 with bit k set where lane k is in `mask` and its `predicate` holds (`__ballot_sync`)."""
    recorder = current()
    return wrap(recorder.record(ops.BALLOT, [lane_mask(mask, recorder), _predicate(predicate, recorder)], UINT32), recorder)


def any_sync(mask: Any, predicate: Any) -> Value:
    """Whether the predicate holds for some lane of `mask`: a bool (`__any_sync`)."""
    recorder = current()
    return wrap(recorder.record(ops.ANY, [lane_mask(mask, recorder), _predicate(predicate, recorder)], BOOL), recorder)


def all_sync(mask: Any, predicate: Any) -> Value:
    """Whether the predicate holds for every lane of `mask`: a bool (`__all_sync`)."""
    recorder = current()
    return wrap(recorder.record(ops.ALL, [lane_mask(mask, recorder), _predicate(predicate, recorder)], BOOL), recorder)


def match_any_sync(mask: Any, value: Any) -> Value:
    """uint32: the lanes of `mask` whose `value` has the same bits as this one's (`__match_any_sync`)."""
    recorder = current()
    operands = [lane_mask(mask, recorder), one_of(value, MATCHED, ops.MATCH_ANY.name, recorder)]
    return wrap(recorder.record(ops.MATCH_ANY, operands, UINT32), recorder)


def match_all_sync(mask: Any, value: Any) -> Value:
    """uint32: the lanes of `mask` where all of them have the same bits, else 0 (`__match_all_sync`)."""
    recorder = current()
    operands = [lane_mask(mask, recorder), one_of(value, MATCHED, ops.MATCH_ALL.name, recorder)]
    return wrap(recorder.record(ops.MATCH_ALL, operands, UINT32), recorder)


def activemask() -> Value:
    """uint32: the lanes that run this statement together now (`__activemask`). It promises nothing about the next one."""
    recorder = current()
    return wrap(recorder.record(ops.ACTIVEMASK, [], UINT32), recorder)


def elect_sync(mask: Any = FULL_MASK) -> Value:
    """True for one lane of `mask`, the same at every call, and False for the others (`elect.sync`). sm_90 and later.

    PTX does not say which lane; the simulator takes the lowest.
    """
    recorder = current()
    return wrap(recorder.record(ops.ELECT, [lane_mask(mask, recorder)], BOOL), recorder)


def _reduction(op: Operation) -> Callable[[Any, Any], Value]:
    wanted = _REDUCED[op.name.rsplit("_", 1)[1]]

    def reduce(mask: Any, value: Any) -> Value:
        recorder = current()
        operands = [lane_mask(mask, recorder), exactly(value, wanted, op.name, recorder)]
        return wrap(recorder.record(op, operands, wanted), recorder)

    reduce.__name__ = reduce.__qualname__ = op.name.removeprefix("cuda.")
    reduce.__doc__ = f"The {op.name.split('_')[1]} of the {wanted} values of the lanes of `mask` ({op.source}). {op.since} and later."
    return reduce


REDUCTIONS = {op.name.removeprefix("cuda."): _reduction(op) for op in ops.REDUCE}
