"""The launch: `T.device_entry()`, the scope ids that declare the thread hierarchy, `T.attr` and `T.assume`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from symbolic import integers as si
from symbolic.integers import Int
from tracer import operations as ops
from tracer.extents import extent, symbolic_text, thread_of_lanes, value_of
from tracer.ir import Function, Node
from tracer.recorder import INT32, Recorder, current
from tracer.values import Value, as_condition, wrap

# CUDA C++ Programming Guide, "Compute Capabilities": the limits that all supported devices share.
MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_CLUSTER = 16      # blocks; more than 8 is not portable (CUDA C++ Programming Guide, "Thread Block Clusters")
WARP = 32
WARPGROUP = 128


@dataclass(frozen=True)
class _Scope:
    """One scope id: how many extents it takes, and its value from the linear thread index (thread-level ids only)."""

    most: int
    thread_level: bool
    value: Callable[[Int], Int] | None = None      # of the linear thread index
    threads: int = 0                               # threads that one step of the id stands for; 0: no constraint on the block
    wraps: int = 0                                 # the extent that the id must have; 0: any


_SCOPES = {
    "cta_id": _Scope(3, False),
    "cluster_id": _Scope(3, False),
    "cta_id_in_cluster": _Scope(3, False),
    "thread_id": _Scope(3, True),
    "warp_id": _Scope(1, True, lambda t: si.floordiv(t, WARP), threads=WARP),
    "lane_id": _Scope(1, True, lambda t: si.floormod(t, WARP), wraps=WARP),
    "warpgroup_id": _Scope(1, True, lambda t: si.floordiv(t, WARPGROUP), threads=WARPGROUP),
    "warp_id_in_wg": _Scope(1, True, lambda t: si.floormod(si.floordiv(t, WARP), WARPGROUP // WARP), wraps=WARPGROUP // WARP),
    "thread_id_in_wg": _Scope(1, True, lambda t: si.floormod(t, WARPGROUP), wraps=WARPGROUP),
}


def device_entry() -> None:
    """The line between host and device: above, the parameters are bound; below, the kernel is written."""
    recorder = current()
    recorder.observe()
    if not recorder.on_host:
        recorder.fail("T.device_entry() was called twice; it stands once, between the parameters and the kernel's body")
    recorder.enter_device()


def assume(condition: Any) -> None:
    """A fact about the extents and scalar parameters: used by the simplifier, and checked at every call. Before `T.device_entry()`."""
    recorder = current()
    recorder.observe()
    node = as_condition(condition, "T.assume", recorder)
    if not recorder.on_host:
        recorder.fail("T.assume stands before T.device_entry(): it is checked on the host at every call")
    if node.op is ops.CONST:
        if not node.attrs["value"]:
            recorder.fail("T.assume of something that is never true for the extents at hand")
        return
    recorder.function.assumptions.append((node, recorder.location()))
    assert node.sym is not None
    recorder.known.assume(node.sym)


_ATTRS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "tirx.launch_bounds_min_blocks_per_sm": (lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 1, "an int of 1 or more"),
    "tirx.programmatic_dependent_launch": (lambda v: isinstance(v, bool), "True or False"),
    "tirx.cooperative_launch": (lambda v: isinstance(v, bool), "True or False"),
}


def attr(values: dict[str, Any]) -> None:
    """Launch attributes of the kernel, below `T.device_entry()`. Raises `TraceError` for an unknown key or value."""
    recorder = current()
    recorder.observe()
    if recorder.on_host:
        recorder.fail("T.attr stands below T.device_entry(): it describes the kernel")
    if not isinstance(values, dict):
        recorder.fail(f"T.attr takes a dict of attributes, such as T.attr({{\"{next(iter(_ATTRS))}\": 2}}), not {values!r}")
    for key, value in values.items():
        if key not in _ATTRS:
            recorder.fail(f"unknown attribute {key!r}; the attributes are {', '.join(_ATTRS)}")
        valid, expected = _ATTRS[key]
        if not valid(value):
            recorder.fail(f"attribute {key!r} is {value!r}; it must be {expected}")
        recorder.function.attrs[key] = value


# ---------------------------------------------------------------------- scope ids

def _scope(kind: str) -> Callable[..., Any]:
    def scope_id(extents: Sequence[Any], *, preferred: Sequence[Any] | None = None) -> Value | tuple[Value, ...]:
        return _declare(kind, extents, preferred)

    scope_id.__name__ = scope_id.__qualname__ = kind
    scope_id.__doc__ = f"Declare `{kind}` with its extents (a list); returns one value, or a tuple for several extents."
    return scope_id


def _declare(kind: str, sizes: Sequence[Any], preferred: Sequence[Any] | None) -> Value | tuple[Value, ...]:
    recorder = current()
    recorder.observe()
    scope = _SCOPES[kind]
    if recorder.on_host:
        recorder.fail(f"T.{kind} before T.device_entry(): threads exist only below it")
    if recorder.region is not recorder.function.device:
        recorder.fail(f"T.{kind} inside an If or a loop; declare scope ids right below T.device_entry()")
    entries = _sizes(kind, sizes, scope, recorder)
    if preferred is not None:
        _set_preferred(kind, _sizes(kind, preferred, scope, recorder), recorder)
    if kind == "thread_id" and len(entries) > 1 and (counting := [n for n in recorder.function.scope_ids if _counts_threads(n)]):
        recorder.fail(f"declare T.thread_id of several axes before T.{counting[0].attrs['kind']}, which counts the block's threads along them")
    declared = _earlier(kind, recorder)
    if declared:
        if [node.attrs["extent"] for node in declared] != entries:
            recorder.fail(f"T.{kind} was declared before with extents {_texts([n.attrs['extent'] for n in declared], recorder)}, "
                          f"now with {_texts(entries, recorder)}")
        nodes = declared
    else:
        nodes = [_scope_node(kind, axis, size, recorder) for axis, size in enumerate(entries)]
        recorder.function.scope_ids.extend(nodes)
    values = tuple(wrap(node, recorder) for node in nodes)
    return values[0] if len(values) == 1 else values


def _counts_threads(node: Node) -> bool:
    return _SCOPES[node.attrs["kind"]].value is not None


def _earlier(kind: str, recorder: Recorder) -> list[Node]:
    return [node for node in recorder.function.scope_ids if node.attrs["kind"] == kind]


def _texts(entries: Sequence[Int], recorder: Recorder) -> str:
    return "[" + ", ".join(symbolic_text(entry, recorder) for entry in entries) + "]"


def _sizes(kind: str, sizes: Any, scope: _Scope, recorder: Recorder) -> list[Int]:
    if not isinstance(sizes, Sequence) or isinstance(sizes, str):
        recorder.fail(f"T.{kind} takes a list of extents: T.{kind}([{sizes}])")
    if not 1 <= len(sizes) <= scope.most:
        recorder.fail(f"T.{kind} takes 1 to {scope.most} extents, got {len(sizes)}" if scope.most > 1 else
                      f"T.{kind} takes one extent, got {len(sizes)}")
    entries = [extent(size, recorder, f"extent {axis} of T.{kind}") for axis, size in enumerate(sizes)]
    least = 0 if kind in ("cta_id", "cluster_id") else 1
    for axis, entry in enumerate(entries):
        if recorder.known.prove(si.ge(entry, si.const(least))) is False:
            recorder.fail(f"extent {axis} of T.{kind} is {symbolic_text(entry, recorder)}; it must be at least {least}")
        if scope.wraps and not (si.is_const(entry) and entry.value <= scope.wraps):
            recorder.fail(f"T.{kind} has at most {scope.wraps} values: write T.{kind}([{scope.wraps}]), not {symbolic_text(entry, recorder)}")
    return entries


def _set_preferred(kind: str, entries: list[Int], recorder: Recorder) -> None:
    if kind not in ("cta_id", "cluster_id", "cta_id_in_cluster"):
        recorder.fail(f"T.{kind} takes no preferred=; it describes clusters")
    recorder.function.launch.preferred_cluster = tuple(entries)


# The register behind each id that hardware gives directly, and its limits by axis.
_REGISTERS = {
    "thread_id": (ops.THREAD_INDEX, MAX_BLOCK),
    "cta_id": (ops.BLOCK_INDEX, MAX_GRID),
    "cluster_id": (ops.CLUSTER_INDEX, MAX_GRID),
    "cta_id_in_cluster": (ops.CTA_IN_CLUSTER, (16, 16, 16)),
}


def _register(kind: str, axis: int, recorder: Recorder, size: Int | None) -> Int:
    """The atom of a hardware index along `axis`; below `size` where that is known."""
    op, limits = _REGISTERS[kind]
    for node in recorder.function.atoms.values():
        if node.op is op and node.attrs["axis"] == axis:
            break
    else:
        node = recorder.leaf(op, INT32, {"axis": axis}, low=si.const(0), high=size)
        assert node.sym is not None
        recorder.known.bound(node.sym, 0, limits[axis])
    assert node.sym is not None
    if size is not None:
        recorder.known.bound(node.sym, 0, size)
    return node.sym


def _scope_node(kind: str, axis: int, size: Int, recorder: Recorder) -> Node:
    scope = _SCOPES[kind]
    node = Node(ops.SCOPE_ID, (), INT32, {"kind": kind, "axis": axis, "extent": size}, (), recorder.location())
    if scope.value is None:
        node.sym = _register(kind, axis, recorder, size)
    else:
        node.sym = scope.value(_linear_thread(recorder, size * scope.threads if scope.threads else None))
        recorder.known.assume(si.lt(node.sym, size))
    return node


def _linear_thread(recorder: Recorder, threads: Int | None) -> Int:
    """threadIdx.x + threadIdx.y * X + threadIdx.z * X * Y, the order in which threads form warps (PTX ISA 2.2.1)."""
    declared = _earlier("thread_id", recorder)
    linear = _register("thread_id", 0, recorder, threads if not declared else None)
    step = si.const(1)
    for axis, node in enumerate(declared):
        if axis and node.sym is not None:
            linear = linear + node.sym * step
        step = step * node.attrs["extent"]
    return linear


def scope_value(kind: str, size: int) -> Value:
    """The thread-level id `kind` wherever the author is now; declared with extent `size` if it was not yet."""
    recorder = current()
    nodes = _earlier(kind, recorder)
    if not nodes:
        nodes = [_scope_node(kind, 0, si.const(size), recorder)]
        nodes[0].name = kind
        recorder.function.scope_ids.extend(nodes)
    elif nodes[0].attrs["extent"] is not si.const(size):
        recorder.fail(f"T.{kind} was declared with extent {_texts([nodes[0].attrs['extent']], recorder)}, and {size} is needed here")
    return wrap(nodes[0], recorder)


def present_warp() -> Value:
    """The number of the present warp in its block, from whichever thread-level ids are declared."""
    recorder = current()
    if (declared := _earlier("warp_id", recorder)):
        return wrap(declared[0], recorder)
    if not _earlier("thread_id", recorder):
        recorder.fail("which warp this is cannot be told yet; declare T.thread_id([...]) or T.warp_id([...]) first")
    warp: Value = present_thread() // WARP
    return warp


def present_thread() -> Value:
    """The number of the present thread in its block, from whichever thread-level ids are declared."""
    recorder = current()
    threads = _earlier("thread_id", recorder)
    linear: Value
    if not threads:
        found = thread_of_lanes(recorder)
        if found is None:
            recorder.fail("which thread this is cannot be told yet; declare T.thread_id([...]), or T.warp_id([...]) and T.lane_id([32]), first")
        return found
    linear, step = wrap(threads[0], recorder), threads[0].attrs["extent"]
    for node in threads[1:]:
        linear = linear + wrap(node, recorder) * value_of(step, recorder)
        step = step * node.attrs["extent"]
    return linear


SCOPE_IDS = {kind: _scope(kind) for kind in _SCOPES}

_THREAD_TAGS = {f"{kind}.{axis}": (scope, index) for kind, scope in (("threadIdx", "thread_id"), ("blockIdx", "cta_id"))
                for index, axis in enumerate("xyz")}


def launch_thread(tag: str, size: Any) -> Value:
    """The older spelling of one id: `T.launch_thread("threadIdx.x", 256)`."""
    recorder = current()
    recorder.observe()
    if tag not in _THREAD_TAGS:
        recorder.fail(f"unknown thread tag {tag!r}; the tags are {', '.join(_THREAD_TAGS)}")
    kind, axis = _THREAD_TAGS[tag]
    if recorder.on_host:
        recorder.fail(f"T.launch_thread({tag!r}, ...) before T.device_entry()")
    size_ = _sizes(kind, [size], _SCOPES[kind], recorder)[0]
    for node in _earlier(kind, recorder):
        if node.attrs["axis"] == axis:
            if node.attrs["extent"] is not size_:
                recorder.fail(f"{tag} was declared before with extent {symbolic_text(node.attrs['extent'], recorder)}, now with "
                              f"{symbolic_text(size_, recorder)}")
            return wrap(node, recorder)
    node = _scope_node(kind, axis, size_, recorder)
    recorder.function.scope_ids.append(node)
    return wrap(node, recorder)


# ---------------------------------------------------------------------- the whole

def finish(function: Function, recorder: Recorder) -> None:
    """Put the launch together from the declared ids; `TraceError` where they do not agree or pass a limit."""
    launch = function.launch
    launch.block = _block(recorder)
    grid = _by_axis("cta_id", recorder)
    in_cluster, clusters = _by_axis("cta_id_in_cluster", recorder), _by_axis("cluster_id", recorder)
    if clusters:
        product = tuple(c * s for c, s in zip(clusters, in_cluster))
        if grid and grid != product:
            recorder.fail(f"T.cta_id declares the grid {_texts(grid, recorder)}, but clusters x blocks in each are {_texts(product, recorder)}")
        grid = product
    launch.grid_asked = bool(grid)
    launch.grid = grid or (si.const(1),)
    launch.cluster = in_cluster or None
    _check_host_computable(recorder)
    _check_cluster(recorder)
    _check_limits(recorder)


def _by_axis(kind: str, recorder: Recorder) -> tuple[Int, ...]:
    found = {node.attrs["axis"]: node.attrs["extent"] for node in _earlier(kind, recorder)}
    return tuple(found.get(axis, si.const(1)) for axis in range(max(found, default=-1) + 1))


def _block(recorder: Recorder) -> tuple[Int, ...]:
    """The block: thread_id's extents, or one axis of as many threads as the other ids say. All must agree."""
    sizes = _by_axis("thread_id", recorder)
    threads = si.const(1)
    for size in sizes:
        threads = threads * size
    counts = {"thread_id": threads} if sizes else {}
    lane, warp, group = (_earlier(k, recorder) for k in ("lane_id", "warp_id", "warpgroup_id"))
    in_group = _earlier("warp_id_in_wg", recorder) or _earlier("thread_id_in_wg", recorder)
    if warp:
        counts["warp_id x 32"] = warp[0].attrs["extent"] * (lane[0].attrs["extent"] if lane else WARP)
    if group:
        counts["warpgroup_id x 128"] = group[0].attrs["extent"] * WARPGROUP
    if not counts and lane:
        counts["lane_id"] = lane[0].attrs["extent"]
    if not counts and in_group:
        counts["one warpgroup"] = si.const(WARPGROUP)
    if not counts:
        recorder.fail("the kernel declares no threads; write for instance tx = T.thread_id([128]) below T.device_entry()",
                      at=recorder.function.location)
    (first, total), *others = counts.items()
    for name, count in others:
        if recorder.known.prove(si.eq(count, total)) is not True:
            recorder.fail(f"the scope ids do not agree on the threads of a block: {first} gives {symbolic_text(total, recorder)}, "
                          f"{name} gives {symbolic_text(count, recorder)}", at=recorder.function.location)
    needs = [(WARP, warp or lane), (WARPGROUP, group or in_group)]
    for unit, asked in needs:
        if asked and not (lane and not warp and not sizes) and si.is_const(total) and total.value % unit:
            recorder.fail(f"T.{asked[0].attrs['kind']} needs a block of whole groups of {unit} threads; it has {total.value}",
                          at=recorder.function.location)
    return sizes or (total,)


def _check_host_computable(recorder: Recorder) -> None:
    """The host computes the launch, so it may depend on extents and scalar parameters alone."""
    for node in recorder.function.scope_ids:
        for symbol in si.free_symbols(node.attrs["extent"]):
            source = recorder.function.atoms[symbol]
            if source.op not in (ops.EXTENT, ops.SCALAR):
                recorder.fail(f"an extent of T.{node.attrs['kind']} depends on a value that only the kernel computes; the host must know it "
                              "before the launch", source, at=node.location)


def _check_cluster(recorder: Recorder) -> None:
    """A cluster has at most 16 blocks (8 where no more is asked for), and a grid is made of whole clusters."""
    launch, where = recorder.function.launch, recorder.function.location
    for what, sizes in (("cluster", launch.cluster), ("preferred cluster", launch.preferred_cluster)):
        blocks = si.const(1)
        for size in sizes or ():
            blocks = blocks * size
        if si.is_const(blocks) and blocks.value > MAX_CLUSTER:
            recorder.fail(f"a {what} of {blocks.value} blocks; the limit is {MAX_CLUSTER}", at=where)
    for axis, (size, cluster) in enumerate(zip(launch.grid, launch.cluster or ())):
        if recorder.known.prove(si.eq(si.floormod(size, cluster), si.const(0))) is False:
            recorder.fail(f"axis {'xyz'[axis]} of the grid is {symbolic_text(size, recorder)}, which is not a multiple of the cluster's "
                          f"{symbolic_text(cluster, recorder)}", at=where)


def _check_limits(recorder: Recorder) -> None:
    launch, where = recorder.function.launch, recorder.function.location
    if all(si.is_const(size) for size in launch.block):
        threads = 1
        for size in launch.block:
            threads *= size.value
        if threads > MAX_THREADS:
            recorder.fail(f"a block of {threads} threads; the limit is {MAX_THREADS}", at=where)
    for what, sizes, limits in (("block", launch.block, MAX_BLOCK), ("grid", launch.grid, MAX_GRID)):
        for axis, (size, limit) in enumerate(zip(sizes, limits)):
            if si.is_const(size) and size.value > limit:
                recorder.fail(f"axis {'xyz'[axis]} of the {what} is {size.value}; the limit is {limit}", at=where)


def parameter_names(function: Function) -> list[str]:
    """The launch parameters by name, in the reference's order: cluster, preferred cluster, grid, block, dynamic shared memory."""
    launch = function.launch
    groups = [("clusterCtaIdx", launch.cluster), ("preferredClusterCtaIdx", launch.preferred_cluster),
              ("blockIdx", launch.grid if launch.grid_asked else None), ("threadIdx", launch.block)]
    names = [f"{group}.{axis}" for group, sizes in groups if sizes for axis, _ in zip("xyz", sizes)]
    return names + (["tirx.use_dyn_shared_memory"] if launch.dynamic_shared_bytes is not None else [])


