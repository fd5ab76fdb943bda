"""Buffers: what `T.match_buffer` and the allocations return, and what indexing them records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from symbolic import integers as si
from symbolic.integers import Int
from symbolic.layout.notation import S
from symbolic.layout.swizzle import ComposeLayout
from symbolic.layout.tile import TileLayout
from tracer import ir, views
from tracer import operations as ops
from tracer.addressing import elements_in, flat_index, in_bytes, span, thread_axes
from tracer.dtypes import SCALAR_NAMES, VECTOR_LANES, DType, dtype
from tracer.errors import DTypeError, NotSupportedError
from tracer.extents import extent, extents, over_function, symbolic_text, value_of
from tracer.ir import Node, Region
from tracer.recorder import Nameable, Recorder, current
from tracer.values import Cell, Value, as_node, convert_for_store, wrap

SCOPES = ("global", "shared", "shared.dyn", "local", "tmem")
# CUDA C++ Programming Guide, "Compute Capabilities": static shared memory of a block, and the most that sm_90 and sm_100 give one.
STATIC_SHARED_LIMIT = 48 * 1024
DYNAMIC_SHARED_LIMIT = 227 * 1024
LOCAL_LIMIT = 512 * 1024            # bytes a thread
HANDLE = dtype("handle")


class Buffer(Nameable):
    """Logical coordinates over memory. `A[i, j]` loads, `A[i, j] = v` stores; `shape`, `dtype`, `layout` and `scope` describe it."""

    __slots__ = ("decl", "recorder", "home_region")

    def __init__(self, decl: ir.Buffer, recorder: Recorder, home_region: Region | None = None) -> None:
        self.decl = decl
        self.recorder = recorder
        self.home_region = home_region

    def __repr__(self) -> str:
        return f"<buffer {self.decl.name}: {shape_text(self.decl, self.recorder)} {self.decl.dtype}, {self.decl.scope}>"

    def learn_name(self, name: str) -> Node | None:
        decl = self.decl
        if not decl.name:
            decl.name = name
            decl.storage.name = decl.storage.name or name
        return None

    # -- what it is

    @property
    def shape(self) -> tuple[Value | int, ...]:
        """The logical extents: ints, or values where they are symbolic."""
        return tuple(value_of(entry, self.recorder) for entry in self.decl.shape)

    @property
    def dtype(self) -> DType:
        """The dtype of an element."""
        return self.decl.dtype

    @property
    def layout(self) -> Any:
        """The `TileLayout` that maps coordinates to addresses; None for dense row-major."""
        return self.decl.layout

    @property
    def scope(self) -> str:
        """The memory it lives in: global, shared, shared.dyn, local or tmem."""
        return self.decl.scope

    @property
    def data(self) -> Value:
        """A pointer to the storage's first element (`elem_offset` not counted), for intrinsics and `T.decl_buffer`."""
        return wrap(self._usable().record(ops.ADDRESS_OF, (), HANDLE, {"buffer": self.decl, "data": True}), self.recorder)

    # -- what a buffer is not: an array that Python could compute with while tracing

    def _refuse(self, what: str, instead: str) -> NoReturn:
        self.recorder.fail(f"{what} the buffer {self.decl.name!r}. {instead}")

    def __iter__(self) -> NoReturn: self._refuse("Python iterates over", "Write `for i in T.serial(extent):` and index it")
    def __len__(self) -> int: return self._refuse("len() was called on", "Its extents are in .shape")
    def __bool__(self) -> bool: return self._refuse("Python asked for the truth of", "Compare an element of it")
    def __contains__(self, _: Any) -> bool: return self._refuse("`in` was used on", "Compare element by element")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("NumPy was given", "Its data is known only when the kernel runs; index it")

    def _arithmetic(self, *_: Any) -> NoReturn:
        self._refuse("arithmetic on", "Index it: operators work on elements, such as A[i]")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = _arithmetic
    __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = __pow__ = __matmul__ = _arithmetic
    __array_ufunc__ = None

    # -- access

    def __getitem__(self, index: Any) -> Any:
        entries = tuple(index) if isinstance(index, (tuple, list)) else (index,)
        if any(isinstance(entry, slice) for entry in entries):
            return self._window(entries)
        return wrap(self._usable().record(ops.LOAD, self._coordinates(index), self.decl.dtype, {"buffer": self.decl}), self.recorder)

    def __setitem__(self, index: Any, value: Any) -> None:
        recorder = self._usable()
        entries = tuple(index) if isinstance(index, (tuple, list)) else (index,)
        if any(isinstance(entry, slice) for entry in entries):
            recorder.fail(f"a slice of {self.decl.name!r} is assigned; store element by element, in a loop over T.serial or T.unroll")
        node = convert_for_store(value, self.decl.dtype, repr(self.decl.name), recorder)
        self._check_half_byte()
        recorder.record(ops.STORE, [*self._coordinates(index), node], None, {"buffer": self.decl})

    def _check_half_byte(self) -> None:
        """Only its own thread may write half of a byte: whoever writes it writes the whole byte, and with it another's half."""
        decl = self.decl
        if decl.dtype.packed and decl.dtype.lanes == 1 and decl.storage.scope != "local" and not decl.cell:
            self.recorder.fail(f"one element is stored into {decl.name!r} of {decl.dtype}, two of which share a byte in {decl.scope} memory: the "
                               "store would overwrite its neighbour, which another thread may be storing. Store whole bytes: "
                               f"{decl.name}.vstore(index, values) with a {decl.dtype}x2, x4, x8 or x16 at an even index, or elements of "
                               f"{decl.name}.view(\"{decl.dtype}x2\")")

    def _check_whole_bytes(self, coords: Sequence[Node], what: str, lanes: int = 1) -> None:
        """The element at `coords` begins a byte, and what lies behind it is its neighbour: whoever writes or points there needs both."""
        recorder, decl = self.recorder, self.decl
        if not decl.dtype.packed or decl.dtype.lanes > 1 or recorder.dead:
            return
        place, *others = (flat_index(decl, [*(node.sym for node in coords[:-1] if node.sym is not None), coords[-1].sym + k], recorder.known)
                          for k in range(lanes) if coords[-1].sym is not None)
        for k, other in enumerate(others, 1):
            if recorder.known.prove(si.eq(other, place + k)) is not True:
                recorder.fail(f"{what} of {decl.name!r}: its lanes are not proved to be neighbours in memory, and two {decl.dtype} share a byte")
        if recorder.known.prove(si.eq(si.floormod(place, si.const(2)), si.const(0))) is not True:
            recorder.fail(f"{what} of {decl.name!r} begins at element {symbolic_text(place, recorder)}, which is not proved to be even: two "
                          f"{decl.dtype} share a byte, and it must begin one. Multiply an index by 2, or assume of an extent that it is even "
                          "(T.assume(n % 2 == 0))")

    def _window(self, entries: tuple[Any, ...]) -> BufferRegion:
        recorder = self._usable()
        recorder.observe()
        padded = (*entries, *(slice(None),) * (len(self.decl.shape) - len(entries)))
        starts = self._coordinates(tuple((0 if e.start is None else e.start) if isinstance(e, slice) else e for e in padded), bounds=False)
        for axis, (entry, node) in enumerate(zip(padded, starts)):
            if not isinstance(entry, slice):
                self.check_bounds(node, axis, 1)
        return BufferRegion(views.window(self.decl, padded, starts, recorder), recorder, recorder.region)

    # -- other ways to look at it

    def view(self, *shape: Any, layout: Any = None) -> Buffer:
        """The same memory under another shape (one extent may be -1) or layout; or, for one dtype, as elements of that dtype."""
        recorder = self._usable()
        recorder.observe()
        if len(shape) == 1 and isinstance(shape[0], (str, DType)) and str(shape[0]) in ALL_DTYPES:
            return self._look(views.retyped(self.decl, recorder.dtype(shape[0]), recorder))
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return self._look(views.reshaped(self.decl, sizes, resolve_layout(layout, recorder), recorder))

    def permute(self, *order: int) -> Buffer:
        """The same memory with its axes in another order: axis k of the view is axis order[k]."""
        recorder = self._usable()
        recorder.observe()
        axes = order[0] if len(order) == 1 and isinstance(order[0], (tuple, list)) else order
        return self._look(views.permuted(self.decl, axes, recorder))

    def local(self, *shape: Any, layout: Any = None) -> Buffer:
        """This thread's own part of a local buffer whose layout has thread axes; flat, or in `shape`."""
        recorder = self._usable()
        recorder.observe()
        return self._look(views.thread_private(self.decl, shape, resolve_layout(layout, recorder), recorder))

    def access_ptr(self, mode: str, *, offset: Any = 0) -> Value:
        """A pointer `offset` elements behind the buffer's first one; `mode` ("r", "w" or "rw") says what it is for: nothing
        may be written through one of "r"."""
        recorder = self._usable()
        if mode not in ("r", "w", "rw"):
            recorder.fail(f"{self.decl.name}.access_ptr({mode!r}): write \"r\", \"w\" or \"rw\"")
        flat = self._look(views.flat(self.decl, recorder))
        pointer = flat.ptr_to([offset])
        if mode == "r":
            pointer.read().attrs["reads"] = self.decl
        return pointer

    def _look(self, decl: ir.Buffer) -> Buffer:
        return Buffer(decl, self.recorder, self.recorder.region)

    def ptr_to(self, index: Sequence[Any]) -> Value:
        """A pointer to the element at `index`, for intrinsics and `T.cuda.func_call`."""
        coords = self._coordinates(tuple(index) if isinstance(index, (list, tuple)) else index)
        self._check_whole_bytes(coords, "a pointer into an array")
        return wrap(self._usable().record(ops.ADDRESS_OF, coords, HANDLE, {"buffer": self.decl}), self.recorder)

    def vload(self, index: Sequence[Any], dtype: Any) -> Value:
        """The vector of `dtype` (say float32x4) that starts at `index` and runs along the last axis."""
        wanted = self._vector(dtype)
        return wrap(self._usable().record(ops.LOAD, self._coordinates(index, wanted.lanes), wanted, {"buffer": self.decl}), self.recorder)

    def vstore(self, index: Sequence[Any], value: Any) -> None:
        """Store the vector `value` from `index` on along the last axis."""
        recorder = self._usable()
        node = as_node(value, self.decl.dtype, recorder)
        assert node.dtype is not None
        wanted = self.decl.dtype.scalar.vector(node.dtype.lanes)
        coords = self._coordinates(index, wanted.lanes)
        if wanted.lanes == 1:
            self._check_half_byte()
        if self.decl.storage.scope != "local":
            self._check_whole_bytes(coords, "a vector store", wanted.lanes)
        node = convert_for_store(value, wanted, repr(self.decl.name), recorder)
        recorder.record(ops.STORE, [*coords, node], None, {"buffer": self.decl})

    def _vector(self, spec: Any) -> DType:
        wanted = self.recorder.dtype(spec)
        if wanted.scalar is not self.decl.dtype.scalar or self.decl.dtype.lanes not in (1, wanted.lanes):
            self.recorder.fail(f"a {wanted} vector of {self.decl.name!r}, whose elements are {self.decl.dtype}; the element types must agree",
                               kind=DTypeError)
        return wanted

    def _usable(self) -> Recorder:
        recorder = current()
        if self.recorder is not recorder:
            recorder.fail(f"buffer {self.decl.name!r} belongs to another trace; each trace declares its own buffers")
        if not recorder.is_open(self.home_region):
            recorder.fail(f"buffer {self.decl.name!r} is used after the If, loop or While in which it was allocated has closed; allocate it before")
        return recorder

    # -- coordinates

    def _coordinates(self, index: Any, lanes: int = 1, bounds: bool = True) -> list[Node]:
        recorder = self.recorder
        recorder.observe()
        decl = self.decl
        entries = tuple(index) if isinstance(index, (tuple, list)) else (index,)
        if spread := thread_axes(decl.layout):
            recorder.fail(f"{decl.name!r} is spread over the axes {', '.join(spread)}; index this thread's part of it: {decl.name}.local()[...]")
        if len(entries) != len(decl.shape):
            recorder.fail(f"{decl.name}{index_text(entries)} has {len(entries)} index(es), but {decl.name!r} has {len(decl.shape)} "
                          f"axis(es): shape {shape_text(decl, recorder)}")
        nodes = [self._coordinate(entry, axis) for axis, entry in enumerate(entries)]
        if bounds and not recorder.dead:
            for axis, node in enumerate(nodes):
                self.check_bounds(node, axis, lanes if axis == len(nodes) - 1 and decl.dtype.lanes == 1 else 1)
        return nodes

    def _coordinate(self, entry: Any, axis: int) -> Node:
        recorder = self.recorder
        node = as_node(entry, None, recorder)
        if node.dtype is None or not node.dtype.is_integer or node.dtype.lanes != 1:
            recorder.fail(f"index {axis} of {self.decl.name!r} is a {node.dtype} value; an index must be an integer "
                          "(write .astype('int32') if the conversion is meant)", node, kind=DTypeError)
        assert node.sym is not None
        for symbol in si.free_symbols(node.sym):
            source = recorder.function.atoms[symbol]
            if source in recorder.function.overflowing:
                low, high = recorder.function.overflowing[source]
                recorder.fail(f"index {axis} of {self.decl.name!r} overflows {source.dtype}: a part of it lies in [{low}, {high}]; compute it in "
                              "int64 (.astype('int64') on an operand), or in uint32 if it is meant to wrap", source)
        return node

    def check_bounds(self, node: Node, axis: int, lanes: int) -> None:
        """Refuse the index `node` of `axis` where it, or one of the `lanes` from it on, is out of bounds for every thread."""
        assert node.sym is not None
        recorder, decl, size = self.recorder, self.decl, self.decl.shape[axis]
        last = node.sym + (lanes - 1)
        if recorder.known.prove(si.ge(node.sym, si.const(0))) is False:
            recorder.fail(f"index {axis} of {decl.name!r} is {symbolic_text(node.sym, recorder)}, which is negative for every thread; "
                          "indices do not wrap around: write extent - 1 for the last element", *_unless_constant(node))
        if recorder.known.prove(si.lt(last, size)) is False:
            recorder.fail(f"index {axis} of {decl.name!r} is {symbolic_text(last, recorder)}, which is out of bounds for every thread: "
                          f"the extent is {symbolic_text(size, recorder)}", *_unless_constant(node))


def _unless_constant(node: Node) -> tuple[Node, ...]:
    return () if node.op is ops.CONST else (node,)


def index_text(entries: Sequence[Any]) -> str:
    """`[?, ?]`: the form of an index in a message."""
    return "[" + ", ".join(str(e) if isinstance(e, int) else "?" for e in entries) + "]"


def shape_text(decl: ir.Buffer, recorder: Recorder) -> str:
    """`(n, 8)`."""
    entries = [symbolic_text(entry, recorder) for entry in decl.shape]
    return f"({', '.join(entries)}{',' if len(entries) == 1 else ''})"


class BufferRegion(Buffer):
    """A part of a buffer, `A[m0:m0+BM, 0:BK]`: indexed from its own corner, it loads and stores in the buffer."""

    __slots__ = ()

    @property
    def buffer(self) -> str:
        """The name of the buffer that it is a part of."""
        assert self.decl.window is not None
        return self.decl.window.base.name


ALL_DTYPES = frozenset(SCALAR_NAMES) | frozenset(f"{name}x{lanes}" for name in SCALAR_NAMES for lanes in VECTOR_LANES)


def resolve_layout(layout: Any, recorder: Recorder) -> Any:
    """A layout as the author gave it, with its symbols as the function's extents; None for dense row-major."""
    if layout is None or (isinstance(layout, str) and layout == "default"):
        return None
    if not isinstance(layout, (TileLayout, ComposeLayout)):
        recorder.fail(f"layout={layout!r}: write a TileLayout or a ComposeLayout")
    return over_function(layout, recorder)


def strided_layout(shape: Sequence[Int], strides: Any, recorder: Recorder) -> TileLayout:
    """The layout that `strides=` is short for: one stride, in elements, for each axis."""
    if len(strides) != len(shape):
        recorder.fail(f"strides={strides!r} for {len(shape)} axes; write one stride for each")
    steps = [extent(step, recorder, f"stride {axis}") for axis, step in enumerate(strides)]
    return TileLayout(S[tuple(shape):tuple(steps)])


def declare_parameter(name: str, index: int, shape: Any, element: Any, recorder: Recorder, *, layout: Any = "default", strides: Any = None,
                      elem_offset: Any = 0, scope: str = "global", align: int | None = None) -> ir.Buffer:
    """The buffer over the array that comes as parameter `index`."""
    wanted = recorder.dtype(element)
    if scope != "global":
        recorder.fail(f"buffer parameter {name!r} has scope {scope!r}; an argument is in global memory" if scope in SCOPES else
                      f"unknown scope {scope!r}; scopes are {', '.join(SCOPES)}")
    check_align(align, wanted, recorder)
    sizes = extents(shape, recorder, f"buffer {name!r}" if name else "the buffer")
    if wanted.packed and wanted.lanes == 1 and (not sizes or recorder.known.prove(si.eq(si.floormod(sizes[-1], si.const(2)), si.const(0))) is False):
        recorder.fail(f"an argument of {wanted} comes as bytes of two elements each, so its last extent is even; this one has the shape "
                      f"({', '.join(symbolic_text(size, recorder) for size in sizes)})")
    placed = resolve_layout(layout, recorder)
    if strides is not None:
        if placed is not None:
            recorder.fail("strides= and layout= both say where elements lie; give one of them")
        placed = strided_layout(sizes, strides, recorder)
    views.check_layout_size(sizes, placed, recorder)
    if spread := thread_axes(placed):
        recorder.fail(f"the layout of an argument has the thread axes {', '.join(spread)}; an argument is in global memory")
    offset = extent(elem_offset, recorder, "elem_offset")
    storage = ir.Storage(name, wanted, "global", offset + span(sizes, placed), align or wanted.alignment, index)
    return ir.Buffer(name, sizes, wanted, "global", placed, offset, storage, align, location=recorder.location())


def check_align(align: int | None, element: DType, recorder: Recorder) -> None:
    """`align=` is a power of two of bytes, at least the element's own alignment."""
    if align is None:
        return
    if not isinstance(align, int) or align <= 0 or align & (align - 1):
        recorder.fail(f"align={align!r}: an alignment is a power of two of bytes, such as 16 or 128")
    if align < element.bytes and element.lanes == 1:
        recorder.fail(f"align={align} is less than the {element.bytes} bytes of a {element} element")


def alloc_buffer(shape: Any, dtype: Any = "float32", scope: str = "global", layout: Any = "default", align: int | None = None) -> Buffer:
    """New memory of `shape` in scope "shared" (one a block) or "local" (one a thread: registers).

    Raises `TraceError` for an unknown scope, extents that are not constant, or more static shared memory than a block can have.
    """
    return Buffer(*_allocate(shape, dtype, scope, layout, align))


def alloc_shared(shape: Any, dtype: Any = "float32", layout: Any = "default", align: int | None = None) -> Buffer:
    """A static shared array, one a block: `__shared__`."""
    return alloc_buffer(shape, dtype, "shared", layout, align)


def alloc_local(shape: Any, dtype: Any = "float32", layout: Any = "default", align: int | None = None) -> Buffer:
    """An array of each thread's own; registers where every index is a constant."""
    return alloc_buffer(shape, dtype, "local", layout, align)


def _allocate(shape: Any, element: Any, scope: str, layout: Any, align: int | None, cell: bool = False) -> tuple[ir.Buffer, Recorder, Region]:
    recorder = current()
    recorder.observe()
    wanted = recorder.dtype(element)
    if scope not in SCOPES:
        recorder.fail(f"unknown scope {scope!r}; scopes are {', '.join(SCOPES)}")
    if scope == "global":
        recorder.fail("a kernel cannot allocate global memory; pass an array as an argument")
    if scope == "tmem":
        recorder.fail("tensor memory is allocated with T.TMEMPool, or with T.ptx.tcgen05.alloc and T.decl_buffer(shape, dtype, scope=\"tmem\", "
                      "allocated_addr=...)")
    check_align(align, wanted, recorder)
    if wanted.kind == "handle":
        raise NotSupportedError(f"{recorder.location()}: a {scope} buffer of {wanted} is not supported in this version")
    sizes = extents(shape, recorder, "the allocation")
    placed = resolve_layout(layout, recorder)
    views.check_layout_size(sizes, placed, recorder)
    whole = span(sizes, placed)
    if scope != "shared.dyn":
        _check_constant(sizes, whole, scope, recorder)
    if scope == "local" and in_bytes(whole, wanted).value > LOCAL_LIMIT:
        recorder.fail(f"{in_bytes(whole, wanted).value} bytes of local memory; a thread has at most {LOCAL_LIMIT} (512 KiB)")
    storage = ir.Storage("", wanted, scope, whole, align or wanted.alignment)
    decl = ir.Buffer("", sizes, wanted, scope, placed, si.const(0), storage, align, cell, location=recorder.location())
    if scope == "shared.dyn":
        _claim_arena(storage, recorder)
    recorder.record(ops.ALLOC, (), None, {"buffer": decl})
    if scope == "shared":
        _check_shared(recorder)
    return decl, recorder, recorder.region


def _check_constant(sizes: Sequence[Int], whole: Int, scope: str, recorder: Recorder) -> None:
    for axis, size in enumerate(sizes):
        if not si.is_const(size):
            recorder.fail(f"extent {axis} of a {scope} allocation is {symbolic_text(size, recorder)}, which is only known at run time; "
                          "its size must be constant (make it a T.constexpr parameter)")
        if size.value == 0:
            recorder.fail(f"extent {axis} of a {scope} allocation is 0")
    if not si.is_const(whole):
        recorder.fail(f"a {scope} allocation spans {symbolic_text(whole, recorder)} elements, which is only known at run time; its layout must "
                      "be constant")


def _claim_arena(storage: ir.Storage, recorder: Recorder) -> None:
    """A kernel has one dynamic shared array; its size goes on the launch."""
    function = recorder.function
    if function.launch.dynamic_shared_bytes is not None:
        recorder.fail("a second allocation in scope \"shared.dyn\": a kernel has one dynamic shared array. Allocate it once and declare buffers in "
                      "it with T.decl_buffer(..., data=arena.data, elem_offset=...), or use T.SMEMPool()")
    for symbol in si.free_symbols(storage.size):
        source = function.atoms[symbol]
        if source.op not in (ops.EXTENT, ops.SCALAR):
            recorder.fail("the size of a \"shared.dyn\" allocation depends on a value that only the kernel computes", source)
    set_arena_size(storage, storage.size, recorder)


def set_arena_size(storage: ir.Storage, size: Int, recorder: Recorder) -> None:
    """The dynamic shared array holds `size` elements."""
    storage.size = size
    recorder.function.launch.dynamic_shared_bytes = in_bytes(size, storage.dtype)
    _check_shared(recorder)


def _check_shared(recorder: Recorder) -> None:
    """What a block may have: of static shared memory, and of static and dynamic together."""
    static = 0
    for node in recorder.function.device.walk():
        if node.op is ops.ALLOC and (storage := node.attrs["buffer"].storage).scope == "shared":
            static = -(-static // storage.align) * storage.align + in_bytes(storage.size, storage.dtype).value
    if static > STATIC_SHARED_LIMIT:
        recorder.fail(f"{static} bytes of static shared memory; a block has at most {STATIC_SHARED_LIMIT} (48 KiB). Use smaller tiles")
    dynamic = recorder.function.launch.dynamic_shared_bytes
    if dynamic is not None and recorder.known.prove(si.gt(dynamic + static, si.const(DYNAMIC_SHARED_LIMIT))) is True:
        beside = f" beside {static} of static" if static else ""
        recorder.fail(f"{symbolic_text(dynamic, recorder)} bytes of dynamic shared memory{beside}; a block has at most {DYNAMIC_SHARED_LIMIT} "
                      "(227 KiB)")


def decl_buffer(shape: Any, dtype: Any = "float32", data: Any = None, *, scope: str | None = None, layout: Any = "default", elem_offset: Any = None,
                byte_offset: Any = None, allocated_addr: Any = None, align: int | None = None) -> Buffer:
    """Declare a buffer over memory that is there already: `data` is the `.data` of a buffer, or a buffer.

    It starts `elem_offset` elements of its own dtype, or `byte_offset` bytes, into that memory. Without `data`, new memory is allocated.
    Raises `TraceError` where it would reach past the memory's end, is misaligned, or has another scope.
    """
    recorder = current()
    recorder.observe()
    if allocated_addr is not None or scope == "tmem":
        from tracer.tensor_memory import declare  # which is built on this module
        if scope != "tmem":
            recorder.fail(f"allocated_addr= is for scope=\"tmem\", not {scope!r}")
        return declare(shape, dtype, allocated_addr, layout, recorder, data=data, elem_offset=elem_offset, byte_offset=byte_offset, align=align)
    if data is None:
        if elem_offset is not None or byte_offset is not None:
            recorder.fail("an offset without data=: new memory is used from its start")
        return alloc_buffer(shape, dtype, scope or "global", layout, align)
    source = _source(data, recorder)
    if scope is not None and scope != source.storage.scope:
        recorder.fail(f"scope={scope!r}: the memory of {source.name!r} is in {source.storage.scope!r}")
    wanted = recorder.dtype(dtype)
    check_align(align, wanted, recorder)
    offset = _offset(elem_offset, byte_offset, wanted, recorder)
    return Buffer(views.alias(source, shape, wanted, resolve_layout(layout, recorder), offset, align, recorder), recorder, recorder.region)


def _source(data: Any, recorder: Recorder) -> ir.Buffer:
    if isinstance(data, Buffer):
        return data.decl
    node = data.read() if isinstance(data, Value) else None
    if node is None or node.op is not ops.ADDRESS_OF or not node.attrs.get("data"):
        recorder.fail("data= is the memory of a buffer: write another_buffer.data")
    decl: ir.Buffer = node.attrs["buffer"]
    return decl


def _offset(elem_offset: Any, byte_offset: Any, element: DType, recorder: Recorder) -> Int:
    if elem_offset is not None and byte_offset is not None:
        recorder.fail("elem_offset= and byte_offset= both say where the buffer starts; give one of them")
    if byte_offset is None:
        return extent(0 if elem_offset is None else elem_offset, recorder, "elem_offset")
    size = element.bytes
    start = extent(byte_offset, recorder, "byte_offset")
    if recorder.known.prove(si.eq(si.floormod(start, si.const(size)), si.const(0))) is not True:
        recorder.fail(f"byte_offset={symbolic_text(start, recorder)} is not a multiple of the {size} bytes of a {element} element")
    return elements_in(start, element)


def alloc_scalar(dtype: Any, scope: str = "local", init: Any = None) -> Cell:
    """A mutable scalar in `scope`; `init` is stored at once where given."""
    decl, recorder, region = _allocate((), dtype, scope, "default", None, cell=True)
    cell = Cell(decl, region.nodes[-1], recorder)
    if init is not None:
        cell.assign(init)
    return cell


def local_scalar(dtype: Any, init: Any = None) -> Cell:
    """A mutable scalar of each thread's own: `x = T.local_scalar("int32", 0); x += 1`."""
    return alloc_scalar(dtype, "local", init)


def shared_scalar(dtype: Any, init: Any = None) -> Cell:
    """A mutable scalar that the block's threads share. With `init`, every thread stores it."""
    return alloc_scalar(dtype, "shared", init)


def address_of(place: Any) -> Value:
    """A pointer to `A[i, j]`, to a mutable scalar, or to a buffer's first element."""
    recorder = current()
    if isinstance(place, Cell):
        return wrap(recorder.record(ops.ADDRESS_OF, (), HANDLE, {"buffer": place.buffer}), recorder)
    if isinstance(place, Buffer):
        return place.ptr_to([0] * len(place.decl.shape))
    node = as_node(place, None, recorder)
    if node.op is not ops.LOAD:
        recorder.fail("T.address_of needs a buffer element such as A[i, j], a mutable scalar or a buffer", node)
    Buffer(node.attrs["buffer"], recorder)._check_whole_bytes(node.operands, "a pointer into an array")
    if node.parent is not None and node.parent.nodes[-1:] == [node]:
        node.parent.nodes.pop()      # the element itself is not read
    return wrap(recorder.record(ops.ADDRESS_OF, node.operands, HANDLE, {"buffer": node.attrs["buffer"]}), recorder)
