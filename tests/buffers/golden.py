"""The reference's buffer kernels in our language, and its indices as functions that can be compared with ours.

Its dialect is Python too, so that a record runs against `T` with a few names more; what our language writes in another way
is rewritten (`REWRITTEN`). Indices are C expressions over hardware registers, loop variables and scalars.
"""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sympy

from symbolic import integers as si
from symbolic.layout.axes import axis, laneid
from symbolic.layout.notation import S
from symbolic.layout.swizzle import ComposeLayout
from symbolic.layout.tile import TileLayout
from tracer import T, trace
from tracer import operations as ops
from tracer.ir import Node

RECORDS = {r["name"]: r for r in json.loads((Path(__file__).parent.parent / "data" / "buffers.json").read_text())["records"]}

# (what the reference writes, what we write)
REWRITTEN: dict[str, list[tuple[str, str]]] = {
    "sub_index": [("A.sub[bx, 2:6]", "A[bx, 2:6]")],
    "rearrange": [('A.rearrange("(x y) z -> y x z", x=4)', "A.view(4, 4, 8).permute(1, 0, 2)")],
    "tile_pick": [("A.tile(0, (4, -1))[bx, :]", "A.view(4, 16, 8)[bx, :, :]")],
    "chunk_pick": [("A.chunk((4, None))[bx, :]", "A[bx * 4:bx * 4 + 4, :]")],
    "scalar_sugar": [
        ("phase: T.int32 = 0", 'phase = T.local_scalar("int32", 0)'), ("acc: T.float32 = 0.0", 'acc = T.local_scalar("float32", 0.0)'),
        ("while phase < 4:", "with T.While(lambda: phase < 4):"), ("acc = acc + A", "acc += A")],
    "scalar_kinds": [
        ("s1 = tx + 1", "s1.assign(tx + 1)"), ("if tx == 0:", "with T.If(tx == 0):"), ("s2 = A[0, 0]", "s2.assign(A[0, 0])"),
        ('s3 = T.Cast("float16", s2)', 's3.assign(T.Cast("float16", s2))')],
    "let_binding": [("half: T.let = m_ * 2", "half = T.let(m_ * 2)"), ("q: T.let[T.int32] = half // 4", "q = T.let(half // 4)")],
    "local_bool": [("if r[0]:", "with T.If(r[0]):")],
    "access_ptr_extent": [(', ptr_type="float32"', ""), (", extent=8", "")],
    "local_strides": [("strides=[8, 1]", "layout=TileLayout(S[(4, 4):(8, 1)])")],
    "t_buffer_kwargs": [("strides=(16, 1)", "layout=TileLayout(S[(4, 8):(16, 1)])")],
    "sym_layout_tiled": [("S[(n, 8", 'S[(sympy.Symbol("n"), 8')],
    "strides_symbolic": [("B = T.match", "s0, s1 = T.int32(), T.int32()\n    B = T.match"), ('["s0", "s1"]', "[s0, s1]")],
}


class _Dialect:
    """`T`, and what only the reference calls by these names."""

    def __getattr__(self, name: str) -> Any:
        return getattr(T, name)

    @staticmethod
    def prim_func(fn: Any) -> Any:
        return fn

    @staticmethod
    def Cast(dtype: str, value: Any) -> Any:  # noqa: N802
        return value.astype(dtype)


def kernel_of(name: str) -> Any:
    """The record's kernel, traced in our language."""
    source: str = RECORDS[name]["src"]
    for old, new in REWRITTEN.get(name, []):
        assert old in source, (name, old)
        source = source.replace(old, new)
    names: dict[str, Any] = {"T": _Dialect(), "TileLayout": TileLayout, "ComposeLayout": ComposeLayout, "S": S, "laneid": laneid, "range": T.serial,
                             "Axis": SimpleNamespace(get=axis), "sympy": sympy}
    exec(source, names)
    return trace(names["k"])


Point = dict[str, int]
_REGISTERS = {ops.BLOCK_INDEX: ("bx", "by", "bz"), ops.THREAD_INDEX: ("tx", "ty", "tz")}


def points(kernel: Any) -> list[Point]:
    """Values of every register, loop variable, extent and scalar of a kernel: enough to tell two index expressions apart."""
    launch = kernel.function.launch
    steps = {"bx": 5, "by": 3, "tx": 7, "n": 1, "off": 9, "m_": 13}
    made = []
    for number in range(40):
        point = {name: number * step % 61 for name, step in steps.items()}
        for size, name in zip(launch.grid, ("bx", "by")):
            point[name] %= size.value if si.is_const(size) else 8
        point["tx"] %= launch.block[0].value
        made.append({**point, "loop": number % 4})
    return made


def _evaluated(index: si.Int, kernel: Any, point: Point, unrolled: Point) -> int | None:
    """The value of one of our indices; None where it depends on memory."""
    known = {}
    for symbol in si.free_symbols(index):
        node = kernel.function.atoms[symbol]
        value = _value(node, kernel, point, unrolled)
        if value is None:
            return None
        known[symbol] = value
    return int(si.substitute(index, known).value)


def _value(node: Node, kernel: Any, point: Point, unrolled: Point) -> int | None:
    if node.op in _REGISTERS:
        return point[_REGISTERS[node.op][node.attrs["axis"]]]
    if node.op is ops.LOOP_VAR:
        return unrolled.get(node.name or "", point["loop"])
    if node.op in (ops.EXTENT, ops.SCALAR):
        return point[node.name or ""]
    if node.op is ops.LET:
        return _value(node.operands[0], kernel, point, unrolled)
    if node.op.symbolic is None:
        return None
    operands = [_evaluated(operand.sym, kernel, point, unrolled) for operand in node.operands]      # a sum that may wrap
    return None if None in operands else int(node.op.symbolic(*map(si.const, operands)).value)


def our_indices(kernel: Any) -> dict[str, set[tuple[int | None, ...]]]:
    """For each storage, by the reference's name for it, our indices, each by its values at the points; unrolled loops written out."""
    loops = {n.regions[0].arguments[0].name: n.operands[1].attrs["value"] for n in kernel.function.device.walk()
             if n.op is ops.FOR and n.attrs["kind"] == "unroll"}
    found: dict[str, set[tuple[int | None, ...]]] = {}
    for access in kernel.half.lowered.accesses.values():
        for values in product(*map(range, loops.values())):
            at = [_evaluated(access.index, kernel, point, dict(zip(loops, values))) for point in points(kernel)]
            found.setdefault(storage_name(access.buffer.storage), set()).add(tuple(at))
    return found


def storage_name(storage: Any) -> str:
    """What the reference calls it: its parameters are A and B, whatever view of one has a name."""
    return storage.name if storage.parameter is None else "ABC"[storage.parameter]


def reference_indices(name: str, kernel: Any) -> list[tuple[str, str, tuple[int, ...]]]:
    """The indices of the record that are expressions over the points: (storage, text, values). Declarations are left out."""
    allocated = {node.attrs["buffer"].storage.name for node in kernel.function.device.walk() if node.op is ops.ALLOC}
    found = []
    for text in RECORDS[name]["indices"]:
        storage, index = re.fullmatch(r"(\w+?)_ptr\[(.*?)\]*", text).groups()
        if storage in allocated:
            allocated.remove(storage)       # its declaration, which gives the size
        elif re.search(r"compose_q|_ptr|\bv_\b", index) is None:      # those are names of what the record does not show
            found.append((storage, index, tuple(eval(_in_python(index), {}, point) for point in points(kernel))))
    return found


def _in_python(index: str) -> str:
    """A C expression of non-negative integers over the names of a point."""
    for pattern, ours in ((r"\(int(64_t)?\)", ""), ("/", "//"), (r"blockIdx\.", "b"), (r"threadIdx\.", "t"), (r"\b(k__1|k_|i)\b", "loop")):
        index = re.sub(pattern, ours, index)
    return index
