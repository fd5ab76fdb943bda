"""Functions of `T.cuda` that are instructions, or a few of them: they bind their operands as `T.ptx` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracer import instructions as ins
from tracer.dtypes import DType, dtype
from tracer.intrinsics.ptx.chain import Bound
from tracer.intrinsics.ptx.grammar import Check, described
from tracer.intrinsics.ptx.matching import Match
from tracer.intrinsics.ptx.sync import numbered
from tracer.operations import Operation
from tracer.recorder import current
from tracer.values import Value, wrap

UINT32 = dtype("uint32")


def call(op: Operation, operands: str, doc: str, *, modifiers: str = "", result: DType | None = None,
         limits: Mapping[str, Sequence[int]] | None = None, check: Check | None = None) -> Callable[..., Any]:
    """The function `T.<name of the row>`; `operands` and `modifiers`, which come as keywords, as in `grammar`.

    It gives a value of dtype `result`, or nothing.
    """
    form = described(op, modifiers, operands, limits or {}, check)

    def function(*given: Any, **keywords: Any) -> Value | None:
        recorder = current()
        recorder.observe()
        chosen = {}
        for slot in form.slots:
            word = slot.word(keywords.get(slot.name))
            if word is None:
                recorder.fail(f"`{op.name}`: {slot.name}={keywords[slot.name]!r} is not legal; write one of {', '.join(slot.choices)}")
            if word:
                chosen[slot.name] = slot.value(word)
        bound = Bound(Match(form, (op.name,), chosen, True), given, keywords)
        if bound.problem:
            recorder.fail(bound.problem)
        node = bound.record(recorder, result)
        return None if result is None else wrap(node, recorder)

    function.__name__ = function.__qualname__ = op.name.rpartition(".")[2]
    function.__doc__ = f"{doc} ({op.source})."
    return function


_WAIT = """Wait until the phase of that parity of the mbarrier is over; with scope="cluster" what other blocks of the cluster wrote before they
arrived is seen too"""
mbarrier_wait = call(ins.MBARRIER_WAIT, "[bar@shared], phase:u32", _WAIT, modifiers="[scope=cta|cluster]")
warpgroup_sync = call(ins.WARPGROUP_SYNC, "id:u32", "Barrier of four warps, with the named barrier `id` (0 to 15), for 128 threads", check=numbered)
cluster_sync = call(ins.CLUSTER_SYNC, "", "Barrier of all threads of the cluster; what they wrote before is seen behind it")
cvta_generic_to_shared = call(ins.CVTA_SHARED, "ptr@shared", "The address of an element of shared memory, a uint32", result=UINT32)
