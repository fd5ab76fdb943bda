"""Other ways to look at a buffer's memory: aliases, reshapes, permutations, windows. None of them moves data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symbolic import integers as si
from symbolic.integers import Int
from symbolic.layout.errors import LayoutError
from symbolic.layout.notation import S
from symbolic.layout.tile import TileLayout
from symbolic.simplify import simplify
from tracer import ir
from tracer import operations as ops
from tracer.addressing import elements_in, in_bytes, least, product, row_major, span
from tracer.dtypes import DType
from tracer.extents import extent, extents, symbolic_text, value_of
from tracer.ir import Node, Window
from tracer.recorder import Recorder
from tracer.spelling import quoted
from tracer.values import as_node


def declare(view: ir.Buffer, source: ir.Buffer, spelling: str, recorder: Recorder, operands: Sequence[Node] = ()) -> ir.Buffer:
    """Record that `view` looks at `source`. `spelling` is how Python makes it, with {source}, and {0}... for the operands."""
    recorder.record(ops.DECL, list(operands), None, {"buffer": view, "source": source, "spelling": spelling})
    return view


def spelled_layout(layout: Any) -> str:
    """`layout=...` as an argument behind others, or nothing; the script fills in the view's layout."""
    return "" if layout is None else ", layout={layout}"


def dense_layout(decl: ir.Buffer) -> TileLayout:
    """The buffer's layout with strides written out."""
    if decl.layout is not None:
        layout: TileLayout = decl.layout
        return layout
    return TileLayout(S[tuple(decl.shape):tuple(row_major(decl.shape))])


def reshaped(decl: ir.Buffer, sizes: Sequence[Any], layout: Any, recorder: Recorder) -> ir.Buffer:
    """The same elements under another shape, of which one extent may be -1, or under another layout of that shape."""
    refuse_window(decl, "view", recorder)
    shape = _filled(decl, sizes, recorder)
    if layout is None:
        if recorder.known.prove(si.eq(product(shape), product(decl.shape))) is not True:
            recorder.fail(f"{decl.name}.view{_text(shape, recorder)} has {symbolic_text(product(shape), recorder)} elements; {decl.name!r} has "
                          f"{symbolic_text(product(decl.shape), recorder)}")
        layout = decl.layout
    else:
        check_layout_size(shape, layout, recorder)
        check_span(decl, span(shape, layout), recorder)
    view = ir.Buffer("", shape, decl.dtype, decl.scope, layout, decl.elem_offset, decl.storage, decl.align, location=recorder.location())
    given = spelled_layout(layout) if layout is not decl.layout else ""
    return declare(view, decl, f"{{source}}.view({', '.join(_plain(shape, recorder))}{given})", recorder)


def _filled(decl: ir.Buffer, sizes: Sequence[Any], recorder: Recorder) -> tuple[Int, ...]:
    open_ = [axis for axis, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    if not open_:
        return extents(sizes, recorder, "the view")
    if len(open_) > 1:
        recorder.fail(f"{decl.name}.view({', '.join(map(str, sizes))}): only one extent may be -1")
    known = extents([1 if axis in open_ else size for axis, size in enumerate(sizes)], recorder, "the view")
    rest = product(known)
    total = product(decl.shape)
    if recorder.known.prove(si.eq(si.floormod(total, rest), si.const(0))) is not True:
        recorder.fail(f"{decl.name}.view({', '.join(map(str, sizes))}): {symbolic_text(total, recorder)} elements do not divide into "
                      f"{symbolic_text(rest, recorder)}")
    filled = simplify(si.floordiv(total, rest), recorder.known)
    return tuple(filled if axis in open_ else size for axis, size in enumerate(known))


def retyped(decl: ir.Buffer, wanted: DType, recorder: Recorder) -> ir.Buffer:
    """The same bytes as elements of another dtype: the last extent grows or shrinks by the ratio of the widths."""
    refuse_window(decl, "view", recorder)
    old, new = decl.dtype.width * decl.dtype.lanes, wanted.width * wanted.lanes
    what = f"{decl.name}.view({quoted(wanted)})"
    if not decl.shape:
        recorder.fail(f"{what}: a buffer without axes has no last extent to scale")
    if new < old:
        ratio, exact = old // new, old % new == 0
        layout = decl.layout if decl.layout is None else decl.layout.unpack(ratio)
        last, offset = decl.shape[-1] * ratio, decl.elem_offset * ratio
    else:
        ratio, exact = new // old, new % old == 0
        exact = exact and all(recorder.known.prove(si.eq(si.floormod(value, si.const(ratio)), si.const(0))) is True
                              for value in (decl.shape[-1], decl.elem_offset))
        last, offset = si.floordiv(decl.shape[-1], si.const(ratio)), si.floordiv(decl.elem_offset, si.const(ratio))
        try:
            layout = decl.layout if decl.layout is None else decl.layout.pack(ratio)
        except LayoutError as error:
            recorder.fail(f"{what}: {error}")
    if not exact:
        recorder.fail(f"{what}: rows of {symbolic_text(decl.shape[-1], recorder)} {decl.dtype} do not divide into whole {wanted}")
    view = ir.Buffer("", (*decl.shape[:-1], last), wanted, decl.scope, layout, offset, decl.storage, decl.align, location=recorder.location())
    return declare(view, decl, f"{{source}}.view({quoted(wanted)})", recorder)


def permuted(decl: ir.Buffer, order: Sequence[int], recorder: Recorder) -> ir.Buffer:
    """Axis k of the view is axis order[k] of the buffer."""
    refuse_window(decl, "permute", recorder)
    if not all(isinstance(axis, int) for axis in order) or sorted(order) != list(range(len(decl.shape))):
        recorder.fail(f"{decl.name}.permute({', '.join(map(str, order))}): write each of the axes 0 to {len(decl.shape) - 1} once")
    try:
        layout = dense_layout(decl).permute(decl.shape, order)
    except LayoutError as error:
        recorder.fail(f"{decl.name}.permute({', '.join(map(str, order))}): {error}")
    shape = tuple(decl.shape[axis] for axis in order)
    view = ir.Buffer("", shape, decl.dtype, decl.scope, layout, decl.elem_offset, decl.storage, decl.align, location=recorder.location())
    return declare(view, decl, f"{{source}}.permute({', '.join(map(str, order))})", recorder)


def flat(decl: ir.Buffer, recorder: Recorder) -> ir.Buffer:
    """The buffer's storage from its first element on, as one axis."""
    refuse_window(decl, "access_ptr", recorder)
    whole = span(decl.shape, decl.layout)
    view = ir.Buffer("", (whole,), decl.dtype, decl.scope, None, decl.elem_offset, decl.storage, decl.align, location=recorder.location())
    offset = "" if decl.elem_offset is si.const(0) else f", elem_offset={symbolic_text(decl.elem_offset, recorder)}"
    return declare(view, decl, f"T.decl_buffer(({symbolic_text(whole, recorder)},), {quoted(decl.dtype)}, data={{source}}.data{offset})", recorder)


def thread_private(decl: ir.Buffer, sizes: Sequence[Any], layout: Any, recorder: Recorder) -> ir.Buffer:
    """A thread's own storage behind a buffer whose layout spreads it over threads: flat, or in the shape that is asked for."""
    if decl.scope != "local":
        recorder.fail(f"{decl.name}.local(): {decl.name!r} is in {decl.scope} memory; only local buffers have a part for each thread")
    whole = span(decl.shape, decl.layout)
    shape = extents(sizes, recorder, "the view") if sizes else (whole,)
    if layout is None and recorder.known.prove(si.eq(product(shape), whole)) is not True:
        recorder.fail(f"{decl.name}.local{_text(shape, recorder)} has {symbolic_text(product(shape), recorder)} elements; each thread's storage of "
                      f"{decl.name!r} has {symbolic_text(whole, recorder)}")
    if layout is not None:
        check_span(decl, span(shape, layout), recorder)
    view = ir.Buffer("", shape, decl.dtype, decl.scope, layout, decl.elem_offset, decl.storage, decl.align, location=recorder.location())
    return declare(view, decl, f"{{source}}.local({', '.join(_plain(shape, recorder))}{spelled_layout(layout)})", recorder)


def window(decl: ir.Buffer, entries: Sequence[Any], starts: Sequence[Node], recorder: Recorder) -> ir.Buffer:
    """`A[m0:m0+BM, i, 0:BK]`: a slice keeps its axis, an index drops it. `starts` are the first coordinates along each axis."""
    sizes, kept, texts = [], [], []
    for axis, (entry, start, size) in enumerate(zip(entries, starts, decl.shape)):
        assert start.sym is not None
        if not isinstance(entry, slice):
            texts.append(f"{{{axis}}}")
            continue
        if entry.step not in (None, 1):
            recorder.fail(f"axis {axis} of {decl.name!r} is sliced with step {entry.step}; only steps of 1 are possible")
        stop = size if entry.stop is None else extent(entry.stop, recorder, f"the stop of axis {axis}")
        length = simplify(stop - start.sym, recorder.known)
        _check_slice(decl, axis, start.sym, stop, length, recorder)
        sizes.append(length)
        kept.append(axis)
        texts.append(f"{{{axis}}}:{{{axis}}} + {symbolic_text(length, recorder)}")
    base = Window(decl, tuple(start.sym for start in starts if start.sym is not None), tuple(kept))
    part = ir.Buffer("", tuple(sizes), decl.dtype, decl.scope, None, decl.elem_offset, decl.storage, None, window=base, location=recorder.location())
    return declare(part, decl, f"{{source}}[{', '.join(texts)}]", recorder, starts)


def _check_slice(decl: ir.Buffer, axis: int, start: Int, stop: Int, length: Int, recorder: Recorder) -> None:
    size = decl.shape[axis]
    known = recorder.known
    for symbol in si.free_symbols(length):
        node = recorder.function.atoms[symbol]
        if node.op not in (ops.EXTENT, ops.SCALAR):
            recorder.fail(f"the length of the slice of axis {axis} of {decl.name!r}, {symbolic_text(length, recorder)}, differs from thread to "
                          "thread; write start:start + length")
    if known.prove(si.ge(start, si.const(0))) is False or known.prove(si.le(stop, size)) is False or known.prove(si.ge(length, si.const(0))) is False:
        recorder.fail(f"the slice {symbolic_text(start, recorder)}:{symbolic_text(stop, recorder)} of axis {axis} of {decl.name!r} is out of bounds: "
                      f"the extent is {symbolic_text(size, recorder)}")


def alias(source: ir.Buffer, shape: Any, element: DType, layout: Any, elem_offset: Int, align: int | None, recorder: Recorder) -> ir.Buffer:
    """`T.decl_buffer`: a buffer over memory that is there already, `elem_offset` elements of its own dtype into it."""
    data = source.storage
    sizes = extents(shape, recorder, "the buffer")
    check_layout_size(sizes, layout, recorder)
    view = ir.Buffer("", sizes, element, data.scope, layout, elem_offset, data, align, location=recorder.location())
    end = in_bytes(elem_offset + span(sizes, layout), element)
    room = in_bytes(data.size, data.dtype)
    if recorder.known.prove(si.le(end, room)) is False:
        recorder.fail(f"the buffer ends {symbolic_text(end, recorder)} bytes into {data.name!r}, which has {symbolic_text(room, recorder)}")
    needed = max(align or 1, element.alignment)
    bits = elem_offset * (element.width * element.lanes)
    if recorder.known.prove(si.eq(si.floormod(bits, si.const(8 * needed)), si.const(0))) is False:
        halves = element.packed and element.lanes == 1
        start = f"{symbolic_text(elem_offset, recorder)}/2" if halves else symbolic_text(elem_offset * element.bytes, recorder)
        recorder.fail(f"the buffer starts {start} bytes into {data.name!r}, which is no multiple of {needed}")
    data.align = max(data.align, needed)
    options = [f"({', '.join(_plain(sizes, recorder))}{',' if len(sizes) == 1 else ''})", quoted(element), "data={source}.data"]
    operands = []
    if not si.is_const(elem_offset):
        operands.append(as_node(value_of(elem_offset, recorder), None, recorder))
        options.append("elem_offset={0}")
    elif elem_offset.value:
        options.append(f"elem_offset={elem_offset.value}")
    if align is not None:
        options.append(f"align={align}")
    return declare(view, source, f"T.decl_buffer({', '.join(options)}{spelled_layout(layout)})", recorder, operands)


def check_layout_size(shape: Sequence[Int], layout: Any, recorder: Recorder) -> None:
    """A layout maps as many elements as the shape has, and none of them to a place before the first."""
    if layout is None:
        return
    lowest = least(layout)
    if recorder.known.prove(si.ge(lowest, si.const(0))) is False:
        recorder.fail(f"the layout {layout!r} reaches {symbolic_text(-lowest, recorder)} elements below the buffer's first one; add an offset, "
                      f"+ {symbolic_text(-lowest, recorder)}")
    size = si.to_int(layout.size())
    if recorder.known.prove(si.eq(size, product(shape))) is not True:
        recorder.fail(f"the layout {layout!r} maps {symbolic_text(size, recorder)} elements; the shape {_text(shape, recorder)} has "
                      f"{symbolic_text(product(shape), recorder)}")


def check_span(decl: ir.Buffer, wanted: Int, recorder: Recorder) -> None:
    """A view with a layout of its own must lie within the buffer's storage."""
    room = elements_in(in_bytes(decl.storage.size, decl.storage.dtype), decl.dtype)
    if recorder.known.prove(si.le(decl.elem_offset + wanted, room)) is False:
        recorder.fail(f"the view of {decl.name!r} reaches {symbolic_text(decl.elem_offset + wanted, recorder)} elements into its storage, which has "
                      f"{symbolic_text(room, recorder)}")


def refuse_window(decl: ir.Buffer, what: str, recorder: Recorder) -> None:
    """A window's elements do not lie in one run, so it cannot be reshaped."""
    if decl.window is not None:
        recorder.fail(f".{what}(...) of a slice of a buffer; take the view first, then the slice")


def _plain(shape: Sequence[Int], recorder: Recorder) -> list[str]:
    return [symbolic_text(size, recorder) for size in shape]


def _text(shape: Sequence[Int], recorder: Recorder) -> str:
    return f"({', '.join(_plain(shape, recorder))})"
