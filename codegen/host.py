"""The host half as Python source: what one call of one kernel checks and computes before the kernel runs.

    def scale(array, launch, *arguments): ...

`array` reads an argument (`runtime.arguments.array_of`). `launch(device, grid, block, shared, arguments, known)` runs the
kernel: on the simulator for arrays in host memory, on a GPU for arrays there; checks and messages are the same. `arguments`
are the kernel's own, an array being (array, address, offset, size) of its storage, a tensor map (that of its array, extents,
strides in bytes), innermost axis first and its stride left out; `known` are the values of `known_nodes`.

The checks stand in one order for every kernel: number of arguments, kinds, dtypes, ranks, devices, extents, strides,
storage, alignment, overlap, scalar ranges, assumptions, index ranges, launch limits. Nothing is launched or written before
all have passed.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from codegen.arrays import ArrayForm, array_form
from codegen.lowered import DeviceHalf
from codegen.packets import is_packet, moved, moves_whole
from codegen.tensor_maps import requirements, tensor_form
from symbolic import integers as si
from symbolic.integers import Int
from symbolic.solve import solve
from symbolic.text import text
from tracer import operations as ops
from tracer.addressing import span
from tracer.buffers import DYNAMIC_SHARED_LIMIT
from tracer.errors import NotSupportedError, TraceError
from tracer.ir import Buffer, Node, Parameter, TensorMap
from tracer.launch import MAX_BLOCK, MAX_GRID, MAX_THREADS
from tracer.spelling import literal
from tracer.tensor_maps import UNIT

INDEX_LIMIT = 2**31 - 1     # the greatest int32: an element's offset must not pass it

# What the source may call; `runtime.launcher` gives each, the errors are those of `tracer.errors`.
HELPERS = (
    "number_of", "what", "held", "strides_differ", "overlap", "check_indices", "truncdiv", "truncmod",
    "ArgumentCountError", "ArgumentTypeError", "ArgumentValueError", "LaunchError",
)
_OWN = ("array", "launch", "arguments", "grid", "block", "shared", "device", "refuse", "SIGNATURE",
        "len", "isinstance", "str", "int", "bool", "float", "min", "max", "abs")

# What a scalar parameter of each kind takes: the Python types, and in words.
_SCALAR_KINDS = {"bool": ("(bool, int)", "a bool"), "int": ("(bool, int)", "an int"), "uint": ("(bool, int)", "an int"),
                 "float": ("(bool, int, float)", "a number")}
# How the bitwise operators are written where they mean logic: `~True` is -2 to Python.
_LOGIC = {ops.AND: "{0} and {1}", ops.OR: "{0} or {1}", ops.XOR: "{0} != {1}", ops.NOT: "not {0}"}
_WIDTH = 120


def host_source(half: DeviceHalf) -> str:
    """The host half of a kernel as Python source, the same to the byte for the same kernel.

    Raises `NotSupportedError` for what this version cannot check: elements that share a byte, or an assumption that the host
    cannot evaluate.
    """
    return _Host(half).source()


def entry_name(half: DeviceHalf) -> str:
    """The name of the function that `host_source` defines."""
    return _Names().unique(half.lowered.function.name)


def signature(half: DeviceHalf) -> str:
    """The call as messages quote it: `k(A: Tensor([n, 8], float32), s: float32)`."""
    return _Host(half).signature()


def _identifier(name: str) -> str:
    name = re.sub(r"\W", "_", name)
    return name if name[:1].isidentifier() and not keyword.iskeyword(name) else f"_{name}"


def _literal(static: str) -> str:
    """Static text inside an f-string in double quotes."""
    return static.replace("\\", "\\\\").replace('"', '\\"').replace("{", "{{").replace("}", "}}").replace("\n", "\\n")


def _quoted(problem: str) -> str:
    """An f-string of this inside, or a plain string where it has no values."""
    plain = problem.replace("{{", "").replace("}}", "")
    return f'f"{problem}"' if "{" in plain else f'"{problem}"'.replace("{{", "{").replace("}}", "}")


@dataclass
class _Names:
    """Python names that clash with nothing: a taken one gets an underscore."""

    taken: set[str] = field(default_factory=lambda: {*HELPERS, *_OWN, *keyword.kwlist, "True", "False", "None"})

    def unique(self, wanted: str) -> str:
        name = _identifier(wanted)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


class _Host:
    """One kernel's host half in the making. `names` holds the Python name, `shown` the author's, of each symbol known here."""

    def __init__(self, half: DeviceHalf) -> None:
        self.half = half
        self.function = half.lowered.function
        self.parameters = self.function.parameters
        self.arrays = [(p, p.buffer) for p in self.parameters if p.buffer is not None]
        self.forms: dict[Buffer, ArrayForm] = {b: array_form(b) for _, b in self.arrays}
        self.scalars = [(p, p.node) for p in self.parameters if p.node is not None]
        self.maps = {a.tensor_map: self.parameter_of(a.tensor_map) for a in half.arguments if a.tensor_map is not None}
        self.pointed: set[Buffer | None] = {a.buffer for a in half.arguments if a.buffer is not None}
        self.passed = self.pointed | {p.buffer for p in self.maps.values()}
        self.written = {self.maps[a.tensor_map].buffer if a.tensor_map is not None else a.buffer for a in half.arguments if not a.read_only}
        self.names: dict[Int, str] = {}
        self.shown: dict[Int, str] = {}
        self.origin: dict[Int, str] = {}       # where a message says that an extent was read
        self.local: dict[object, str] = {}     # Parameter or Buffer -> the variable that holds it
        self._choose_names()

    def parameter_of(self, tensor_map: TensorMap) -> Parameter:
        """Whose array a tensor map describes."""
        index = tensor_map.buffer.storage.parameter
        assert index is not None
        return self.parameters[index]

    # ---- names ------------------------------------------------------------------------------------------------------

    def _choose_names(self) -> None:
        names = _Names()
        for parameter, buffer in self.arrays:
            self._refuse_unsupported(parameter, buffer)
            self.local[buffer] = names.unique(buffer.name)
        for parameter in self.parameters:
            same = parameter.buffer is not None and parameter.buffer.name == parameter.name
            self.local[parameter] = self.local[parameter.buffer] if same else names.unique(parameter.name)
        for parameter, node in self.scalars:
            if node.sym is not None:
                self.names[node.sym], self.shown[node.sym] = self.local[parameter], parameter.name
        for node in self.function.extents:
            assert node.sym is not None
            self.shown[node.sym] = node.name or node.sym.name
            self.names[node.sym] = names.unique(self.shown[node.sym])

    def _refuse_unsupported(self, parameter: Parameter, buffer: Buffer) -> None:
        if buffer.dtype.bits < 8:
            raise NotSupportedError(f"{self.function.name}: parameter {parameter.name!r} has elements of {buffer.dtype}, several of "
                                    "which share a byte; packed arrays are not supported in this version: pass them as uint8")

    def signature(self) -> str:
        return f"{self.function.name}({', '.join(map(self.described, self.parameters))})"

    def described(self, parameter: Parameter) -> str:
        """One parameter in the signature."""
        if parameter.buffer is None:
            return f"{parameter.name}: {'Tensor' if parameter.node is None else parameter.dtype}"
        form = self.forms[parameter.buffer]
        return f"{parameter.buffer.name}: Tensor([{', '.join(map(self.show, form.shape))}], {form.dtype})"

    def show(self, value: Int) -> str:
        """As the author wrote it."""
        return text(value, self.shown)

    def code(self, value: Int) -> str:
        """As Python over the variables of the source."""
        return text(value, self.names)

    def values(self, *expressions: Int) -> str:
        """For a message: `n = {n} (A.shape[0]), m = {m} (A.shape[1])` for the symbols of the expressions."""
        symbols = dict.fromkeys(s for e in expressions for s in si.free_symbols(e) if s in self.names)
        return ", ".join(f"{_literal(self.shown[s])} = {{{self.names[s]}}}{self.origin.get(s, '')}" for s in symbols)

    def computed(self, value: Int) -> str:
        """For a message: `8`, `n = {n} (A.shape[0])`, or `n*2 + 1 = {n*2 + 1} with n = {n} (A.shape[0])`."""
        if si.is_const(value):
            return str(value.value)
        if value in self.names:
            return self.values(value)
        return f"{_literal(self.show(value))} = {{{self.code(value)}}} with {self.values(value)}"

    # ---- the source -------------------------------------------------------------------------------------------------

    def source(self) -> str:
        name = entry_name(self.half)
        lines = [
            f'"""Host half of `{name}`: checks the arguments of one call, then launches `{self.half.name}`."""',
            "",
            f'SIGNATURE = "{self.signature()}"',
            "",
            "",
            "def refuse(error, position, problem):",
            '    return error(f"{problem} (argument {position} of `{SIGNATURE}`)")',
            "",
            "",
            f"def {name}(array, launch, *arguments):",
        ]
        for title, section in self._sections():
            body = list(section())
            if body:
                lines += [f"    # {title}", *(f"    {line}" for line in body), ""]
        return "\n".join(lines).rstrip() + "\n"

    def _sections(self) -> list[tuple[str, Callable[[], Iterator[str]]]]:
        return [
            ("number of arguments", self._count),
            ("kinds", self._kinds),
            ("dtypes", self._dtypes),
            ("ranks", self._ranks),
            ("devices", self._devices),
            ("extents", self._extents),
            ("strides", self._strides),
            ("storage", self._storage),
            ("tensor maps", self._tensor_maps),
            ("alignment", self._alignment),
            ("written arrays", self._overlaps),
            ("scalar ranges", self._scalar_ranges),
            ("assumptions", self._assumptions),
            ("launch", self._geometry),
            ("index ranges", self._index_ranges),
            ("views of memory", self._views),
            ("launch limits", self._limits),
            ("run", self._run),
        ]

    def _refuse(self, condition: str, error: str, parameter: Parameter, problem: str) -> Iterator[str]:
        """`problem` is the inside of an f-string: static parts escaped, values in braces."""
        index = self.parameters.index(parameter)
        alias = parameter.buffer is not None and parameter.buffer.name != parameter.name
        position = f'"{index}, {parameter.name},"' if alias else str(index)
        yield f"if {condition}:"
        raised = f"    raise refuse({error}, {position}, "
        if len(raised) + len(problem) < _WIDTH - 8:
            yield f"{raised}{_quoted(problem)})"
        else:
            yield raised.rstrip()
            yield f"                 {_quoted(problem)})"

    def _refuse_call(self, condition: str, error: str, problem: str) -> Iterator[str]:
        """The same for what concerns no single argument."""
        yield f"if {condition}:"
        yield f"    raise {error}({_quoted(problem + ', when calling `{SIGNATURE}`')})"

    def _count(self) -> Iterator[str]:
        count = len(self.parameters)
        expected = f"{count} argument" + "s" * (count != 1)
        yield from self._refuse_call(f"len(arguments) != {count}", "ArgumentCountError",
                                     f"expected {expected}, got {{len(arguments)}}")
        if self.parameters:
            yield ", ".join(self.local[p] for p in self.parameters) + "," * (count == 1) + " = arguments"

    def _kinds(self) -> Iterator[str]:
        for parameter in self.parameters:
            raw = self.local[parameter]
            if parameter.node is not None:
                accepted, words = _SCALAR_KINDS[parameter.dtype.kind]
                yield from self._refuse(f"not isinstance(number_of({raw}), {accepted})", "ArgumentTypeError", parameter,
                                        f"{parameter.name}: expected {words} ({parameter.dtype}), got {{what({raw})}}")
                yield f"{raw} = number_of({raw})"
            else:
                held = self.local[parameter.buffer] if parameter.buffer is not None else raw
                yield f"{held} = array({raw})"
                yield from self._refuse(f"isinstance({held}, str)", "ArgumentTypeError", parameter,
                                        f"{self._title(parameter)}: expected an array, got {{{held}}}")

    @staticmethod
    def _title(parameter: Parameter) -> str:
        return parameter.buffer.name if parameter.buffer is not None else parameter.name

    def _dtypes(self) -> Iterator[str]:
        for parameter, buffer in self.arrays:
            a, wanted = self.local[buffer], self.forms[buffer].dtype
            yield from self._refuse(f'{a}.dtype != "{wanted}"', "ArgumentTypeError", parameter,
                                    f"{buffer.name}.dtype: expected {wanted}, got {{{a}.dtype}}")

    def _ranks(self) -> Iterator[str]:
        for parameter, buffer in self.arrays:
            a, sizes = self.local[buffer], self.forms[buffer].shape
            rank = len(sizes)
            shape = ", ".join(map(self.show, sizes)) + "," * (rank == 1)
            yield from self._refuse(f"len({a}.shape) != {rank}", "ArgumentValueError", parameter,
                                    f"{buffer.name}.ndim: expected {rank}, the shape ({_literal(shape)}), "
                                    f"got {{len({a}.shape)}}, the shape {{{a}.shape}}")

    def _devices(self) -> Iterator[str]:
        arrays = [(self.local[b], b.name) for _, b in self.arrays]
        arrays += [(self.local[p], p.name) for p in self.parameters if p.buffer is None and p.node is None]
        if len(arrays) > 1:
            places = ", ".join(f"{name} on {{{a}.place}}" for a, name in arrays)
            chain = f"not ({' == '.join(f'{a}.device' for a, _ in arrays)})" if len(arrays) > 2 else \
                f"{arrays[0][0]}.device != {arrays[1][0]}.device"
            yield from self._refuse_call(chain, "ArgumentValueError", f"the arrays are on different devices: {places}")
        yield f"device = {arrays[0][0]}.device" if arrays else "device = None"

    # ---- extents ----------------------------------------------------------------------------------------------------

    def _extents(self) -> Iterator[str]:
        for parameter, buffer in self.arrays:
            a = self.local[buffer]
            for axis in self._solved_strides(buffer):
                yield from self._refuse(f"not isinstance({a}.strides[{axis}], int)", "ArgumentValueError", parameter,
                                        f"{buffer.name}.strides[{axis}]: expected whole elements, got {{{a}.strides[{axis}]}}")
            if not si.is_const(self.forms[buffer].offset):
                yield from self._refuse(f"not isinstance({a}.offset, int)", "ArgumentValueError", parameter, f"{buffer.name}.elem_offset: "
                                        f"expected an array that tells where its storage starts, got one at {{{a}.offset}}")
        known = self._equations()
        solution = solve([n.sym for n in self.function.extents if n.sym is not None], [(e, leaf) for e, leaf, _ in known])
        if solution.unsolved:
            unsolved = ", ".join(self.show(s) for s in solution.unsolved)
            raise TraceError(f"{self.function.name}: no argument determines the extent {unsolved}")
        places = {leaf: parameter for _, leaf, parameter in known}
        defining = {leaf for value in solution.values.values() for leaf in si.free_symbols(value)}
        for node in self.function.extents:
            assert node.sym is not None
            value = solution.values[node.sym]
            for divisor in _divisors(value):
                yield from self._refuse(f"{self.code(divisor)} == 0", "ArgumentValueError", _whose(divisor, places),
                                        f"{self.shown[node.sym]}: cannot be told from {self._leaves_shown(value, places)}, because "
                                        f"{self._leaves_shown(divisor, places)} gives a product with 0")
            yield f"{self.names[node.sym]} = {self.code(value)}"
            if value in places:
                self.origin[node.sym] = f" ({self._leaf_shown(value, places[value])})"
        for entry, leaf, parameter in known:
            if si.substitute(entry, solution.values) is leaf or ".strides[" in leaf.name:
                continue     # true by the way in which the extents were found; strides are checked in a section of their own
            symbols = ", ".join(self.shown[s] for s in si.free_symbols(entry))
            expected = f"{_literal(self.show(entry))} for a whole {symbols}" if leaf in defining else self.computed(entry)
            yield from self._refuse(f"{leaf.name} != {self.code(entry)}", "ArgumentValueError", parameter,
                                    f"{self._leaf_shown(leaf, parameter)}: expected {expected}, got {{{leaf.name}}}")
        for node in self.function.extents:
            assert node.sym is not None
            yield from self._extent_range(node, solution.values[node.sym], places)

    def _equations(self) -> list[tuple[Int, Int, Parameter]]:
        """What the arguments tell: an expression over the extents, the value that comes for it, and whose it is."""
        known = []
        for parameter, buffer in self.arrays:
            a, form = self.local[buffer], self.forms[buffer]
            known += [(entry, si.named(f"{a}.shape[{axis}]"), parameter) for axis, entry in enumerate(form.shape)]
            if not si.is_const(form.offset):
                known.append((form.offset, si.named(f"{a}.offset"), parameter))
        for parameter, buffer in self.arrays:
            for axis, step in self._solved_strides(buffer).items():
                known.append((step, si.named(f"{self.local[buffer]}.strides[{axis}]"), parameter))
        return known

    def _solved_strides(self, buffer: Buffer) -> dict[int, Int]:
        """By axis, the strides from which extents can be told: those that a layout gives in terms of one."""
        if buffer.layout is None:
            return {}
        return {axis: step for axis, step in enumerate(self.forms[buffer].strides or ()) if not si.is_const(step)}

    def _leaf_shown(self, leaf: Int, parameter: Parameter) -> str:
        """`A.shape[0]` with the author's name for A."""
        return self._title(parameter) + leaf.name[leaf.name.index("."):]

    def _leaves_shown(self, value: Int, places: dict[Int, Parameter]) -> str:
        return " and ".join(self._leaf_shown(leaf, places[leaf]) for leaf in si.free_symbols(value) if leaf in places)

    def _extent_range(self, node: Node, value: Int, places: dict[Int, Parameter]) -> Iterator[str]:
        assert node.sym is not None and node.dtype is not None
        n, parameter = self.names[node.sym], _whose(value, places)
        from_shape = value in places and ".shape[" in value.name       # a length is never negative
        condition = f"{n} > {node.dtype.limits[1]}" if from_shape else f"not 0 <= {n} <= {node.dtype.limits[1]}"
        yield from self._refuse(condition, "ArgumentValueError", parameter,
                                f"{self.shown[node.sym]}: expected an extent from 0 to {node.dtype.limits[1]} ({node.dtype}), "
                                f"got {{{n}}} from {self._leaves_shown(value, places)}")

    # ---- memory -----------------------------------------------------------------------------------------------------

    def _strides(self) -> Iterator[str]:
        for parameter, buffer in self.arrays:
            form = self.forms[buffer]
            if form.shape:
                told = self._dense_strides if form.is_dense else self._placed_strides
                condition, problem = told(form, self.local[buffer])
                yield from self._refuse(condition, "ArgumentValueError", parameter, f"{buffer.name}.strides: expected {problem}")

    def _dense_strides(self, form: ArrayForm, a: str) -> tuple[str, str]:
        return (f"{self._differ(form.compact, a)}", f"{self._told(form.compact)} elements (compact, row-major), got {{{a}.strides}}; "
                "pass a contiguous copy")

    def _placed_strides(self, form: ArrayForm, a: str) -> tuple[str, str]:
        """An array that lies as the layout says, or a compact one that holds all it reaches."""
        needs = f"the layout needs {self._amount(form.reach)} elements, there are {{{a}.span}}"
        compact = self._differ(form.compact, a)
        if form.fits is not True:
            compact = f"({compact} or {self.code(form.reach)} > {self.code(form.count)})"
        if form.strides is None:
            return (f"not {a}.empty and {compact}", f"{self._told(form.compact)} elements (compact, row-major), whose memory "
                    f"{_literal(repr(form.layout))} divides up, got {{{a}.strides}}; {needs}")
        condition = self._differ(form.strides, a)
        if form.fits is False:
            return condition, f"{self._told(form.strides)} elements, got {{{a}.strides}}; {needs}"
        return (f"{condition} and {compact}", f"{self._told(form.strides)} elements, or {self._told(form.compact)} for a compact array whose "
                f"memory the layout divides up, got {{{a}.strides}}; {needs}")

    def _differ(self, strides: tuple[Int, ...], a: str) -> str:
        wanted = self._tuple(strides)
        return f"{a}.strides != {wanted} and strides_differ({a}, {wanted})"

    def _told(self, strides: tuple[Int, ...]) -> str:
        """For a message: the numbers."""
        wanted = self._tuple(strides)
        return wanted if all(map(si.is_const, strides)) else f"{{{wanted}}}"

    def _amount(self, value: Int) -> str:
        return str(value.value) if si.is_const(value) else f"{{{self.code(value)}}}"

    def _tuple(self, entries: Iterable[Int]) -> str:
        codes = [self.code(entry) for entry in entries]
        return f"({', '.join(codes)}{',' if len(codes) == 1 else ''})"

    def _storage(self) -> Iterator[str]:
        for parameter, buffer in self.arrays:
            a = self.local[buffer]
            yield from self._refuse(f"{a}.pointer == 0 and not {a}.empty", "ArgumentValueError", parameter,
                                    f"{buffer.name}.data: expected memory, got a null pointer")
            form = self.forms[buffer]
            if si.is_const(form.offset) and form.offset.value:     # a symbolic one is among the extents
                offset = form.offset.value
                yield from self._refuse(f"{a}.offset != {offset} and not {a}.empty", "ArgumentValueError", parameter,
                                        f"{buffer.name}.elem_offset: expected an array whose first element lies {offset} elements "
                                        f"into its storage, got one at {{{a}.offset}}")

    def _tensor_maps(self) -> Iterator[str]:
        """What the driver asks of an array that a map describes, as far as the trace could not tell."""
        facts = self.half.lowered.facts[self.function.host]
        told = set()
        for tensor_map, parameter in self.maps.items():
            for needed in requirements(tensor_map, facts):
                if (needed.told, needed.wanted) not in told:
                    told.add((needed.told, needed.wanted))
                    yield from self._refuse(f"not ({self.code(needed.relation)})", "ArgumentValueError", parameter,
                                            f"{_literal(needed.told)}: expected {needed.wanted}, got {{{self.code(needed.value)}}}")

    def _alignment(self) -> Iterator[str]:
        for parameter, buffer in self.arrays:
            bytes_, why = self._aligned_to(buffer)
            address = self._address(buffer)
            address = address if address.endswith(".pointer") else f"({address})"
            if bytes_ > 1:
                yield from self._refuse(f"{address} % {bytes_}", "ArgumentValueError", parameter,
                                        f"{buffer.name}.data: expected an address that is a multiple of {bytes_} ({_literal(why)}), "
                                        f"got {{{address}:#x}}, {{{address} % {bytes_}}} past one")

    def _aligned_to(self, buffer: Buffer) -> tuple[int, str]:
        """How many bytes the address of a parameter's storage must be a multiple of, and what asks for it."""
        wanted = [(buffer.dtype.alignment, str(buffer.dtype)), (buffer.storage.align, f"align={buffer.storage.align}")]
        for node, access in self.half.lowered.accesses.items():
            if access.buffer.storage is not buffer.storage:
                continue
            where = f" at {node.location.short}" if node.location else ""
            wanted.append((access.buffer.dtype.alignment, f"{access.buffer.dtype} elements{where}"))
            if node.op is not ops.ADDRESS_OF and is_packet(node) and moves_whole(node, self.half.lowered):
                wanted.append((moved(node).alignment, f"the {moved(node)} {node.op.name}{where}"))
        wanted += [(UNIT, "a tensor map") for tensor_map in self.maps if tensor_map.buffer.storage is buffer.storage]
        return max(wanted, key=lambda pair: pair[0])

    def _address(self, buffer: Buffer) -> str:
        """The address of a parameter's storage: its offset before the first element of the array that came."""
        form = self.forms[buffer]
        bytes_ = form.offset * form.dtype.bytes
        pointer = f"{self.local[buffer]}.pointer"
        if bytes_ is si.const(0):
            return pointer
        return f"{pointer} - {self.code(bytes_) if si.is_const(bytes_) else f'({self.code(bytes_)})'}"

    def _overlaps(self) -> Iterator[str]:
        written = self.written
        used = [(p, b) for p, b in self.arrays if b in self.passed]
        for parameter, buffer in used:
            if buffer in written:
                yield from self._refuse(f"{self.local[buffer]}.read_only", "ArgumentValueError", parameter,
                                        f"{buffer.name}: expected a writable array, which the kernel writes, got a read-only one")
        for position, (_, first) in enumerate(used):
            for parameter, second in used[position + 1:]:
                if first in written or second in written:
                    whose = first.name if first in written else second.name
                    yield from self._refuse(f"overlap({self.local[first]}, {self.local[second]})", "ArgumentValueError", parameter,
                                            f"{second.name}: expected memory of its own, because the kernel writes {whose}, "
                                            f"got an array that overlaps {first.name}")

    # ---- scalars ----------------------------------------------------------------------------------------------------

    def _scalar_ranges(self) -> Iterator[str]:
        for parameter, _ in self.scalars:
            s, kind = self.local[parameter], parameter.dtype
            if kind.kind == "float":
                yield from self._refuse(f'held("{kind}", {s}) is None', "ArgumentValueError", parameter,
                                        f"{parameter.name}: expected a number that {kind} can hold, got {{{s}}}, which overflows")
                yield f'{s} = held("{kind}", {s})'
            else:
                low, high = kind.limits
                yield from self._refuse(f"not {low} <= {s} <= {high}", "ArgumentValueError", parameter,
                                        f"{parameter.name}: expected {low} to {high} ({kind}), got {{{s}}}")

    def _assumptions(self) -> Iterator[str]:
        for node, location in self.function.assumptions:
            assert node.sym is not None
            if all(s in self.names for s in si.free_symbols(node.sym)):
                code, shown, values = self.code(node.sym), self.show(node.sym), self.values(node.sym)
            else:      # it compares floats, through which the algebra does not see
                code, shown = self._spelled(node, self._scalar_code), self._spelled(node, self._scalar_shown)
                leaves = dict.fromkeys(_leaves(node))
                values = ", ".join(f"{self._scalar_shown(leaf)} = {{{self._scalar_code(leaf)}}}" for leaf in leaves)
            where = f" at {location.short}" if location else ""
            yield from self._refuse_call(f"not ({code})", "ArgumentValueError",
                                         f"the assumption `{_literal(shown)}`{where} does not hold: {values}")

    def _spelled(self, node: Node, leaf: Callable[[Node], str]) -> str:
        """An expression over the parameters and extents as Python, every operand that is no leaf in parentheses."""
        if node.op is ops.LET:
            return self._spelled(node.operands[0], leaf)
        if node.op is ops.CONST:
            return literal(node.attrs["value"])
        if not node.op.operands:
            return leaf(node)
        template = _LOGIC.get(node.op, node.op.spelling) if node.dtype == "bool" else node.op.spelling
        if "." in template:
            raise NotSupportedError(f"{self.function.name}: T.assume with `{node.op.name}` cannot be checked on the host by this "
                                    "version; assume a comparison of parameters and constants")
        told = [self._spelled(operand, leaf) for operand in node.operands]
        return template.format(*(t if not _inner(o).op.operands else f"({t})" for t, o in zip(told, node.operands)))

    def _scalar_code(self, node: Node) -> str:
        if node.sym is not None:
            return self.names[node.sym]
        return next(self.local[p] for p, scalar in self.scalars if scalar is node)

    def _scalar_shown(self, node: Node) -> str:
        if node.sym is not None:
            return self.shown[node.sym]
        return next(p.name for p, scalar in self.scalars if scalar is node)

    # ---- the launch -------------------------------------------------------------------------------------------------

    def _geometry(self) -> Iterator[str]:
        for name, sizes in (("grid", self.function.launch.grid), ("block", self.function.launch.block)):
            yield f"{name} = {self._tuple([*sizes, *[si.const(1)] * (3 - len(sizes))])}"
        shared = self.function.launch.dynamic_shared_bytes
        yield f"shared = {self.code(shared) if shared is not None else 0}"

    def _index_ranges(self) -> Iterator[str]:
        if self.function.assumed_exact:
            yield f"check_indices({self._tuple(index_symbols(self.half))}, grid, block, SIGNATURE)"
        for parameter, buffer in self.arrays:
            size = self.forms[buffer].size
            if buffer in self.pointed and not self._fits_index(size):
                yield from self._refuse(f"{self.code(size)} > {INDEX_LIMIT}", "ArgumentValueError", parameter,
                                        f"{buffer.name}: expected at most {INDEX_LIMIT} elements, for which 32-bit indices do, got "
                                        f"{{{self.code(size)}}}; 64-bit index builds are not supported in this version")

    def _views(self) -> Iterator[str]:
        """Whether a view ends within its memory, where the trace could not tell. Views made under a condition are not asked here."""
        facts = self.half.lowered.facts[self.function.device]
        for node in self.function.device.nodes:
            if node.op is not ops.DECL or node.attrs["buffer"].window is not None:
                continue
            view, storage = node.attrs["buffer"], node.attrs["buffer"].storage
            end = (view.elem_offset + span(view.shape, view.layout)) * view.dtype.bytes
            room = storage.size * storage.dtype.bytes
            known = all(s in self.names for s in (*si.free_symbols(end), *si.free_symbols(room)))
            if known and facts.prove(si.le(end, room)) is not True:
                where = f" at {node.location.short}" if node.location else ""
                yield from self._refuse_call(f"{self.code(end)} > {self.code(room)}", "LaunchError",
                                             f"{view.name}{_literal(where)}: ends {{{self.code(end)}}} bytes into {storage.name}, which has "
                                             f"{{{self.code(room)}}}, with {self.values(end, room)}")

    def _fits_index(self, size: Int) -> bool:
        """True where a size is known to fit: a small constant, or an extent that was checked to be an int32."""
        if si.is_const(size):
            return size.value <= INDEX_LIMIT
        node = self.function.atoms.get(size)
        return size in self.names and node is not None and node.dtype is not None and node.dtype.limits[1] <= INDEX_LIMIT

    def _limits(self) -> Iterator[str]:
        launch = self.function.launch
        for name, sizes, limits, least in (("grid", launch.grid, MAX_GRID, 0), ("block", launch.block, MAX_BLOCK, 1)):
            checks = [f"not {least} <= {name}[{axis}] <= {limits[axis]}" for axis, size in enumerate(sizes) if not si.is_const(size)]
            if checks and name == "block":
                checks.append(f"block[0]*block[1]*block[2] > {MAX_THREADS}")
            if checks:
                most = f"{limits}" if name == "grid" else f"{limits} and {MAX_THREADS} threads"
                yield from self._refuse_call(" or ".join(checks), "LaunchError",
                                             f"{name}: expected from {least} to {most}, got {{{name}}} with {self.values(*sizes)}")
        dynamic = launch.dynamic_shared_bytes
        if dynamic is not None and not si.is_const(dynamic):
            yield from self._refuse_call(f"not 0 <= shared <= {DYNAMIC_SHARED_LIMIT}", "LaunchError",
                                         f"dynamic shared memory: expected from 0 to {DYNAMIC_SHARED_LIMIT} bytes, got {{shared}} "
                                         f"with {self.values(dynamic)}")
        if any(not si.is_const(size) or size.value == 0 for size in launch.grid):
            yield "if 0 in grid:"
            yield "    return None     # no block, nothing to run"

    def _run(self) -> Iterator[str]:
        yield "return launch(device, grid, block, shared, ("
        for argument in self.half.arguments:
            if argument.buffer is not None:
                yield f"    {self._stored(argument.buffer)},"
            elif argument.tensor_map is not None:
                buffer, form = self.maps[argument.tensor_map].buffer, tensor_form(argument.tensor_map)
                assert buffer is not None
                yield f"    ({self._stored(buffer)}, {self._tuple(form.dims)}, {self._tuple(form.strides)}),"
            else:
                assert argument.node is not None and argument.node.dtype is not None
                value, kind = self._scalar_code(argument.node), argument.node.dtype
                yield f"    {value}," if kind.is_float else f'    held("{kind}", {value}),'
        known = [self._scalar_code(node) for node in known_nodes(self.half)]
        yield f"), ({', '.join(known)}{',' if len(known) == 1 else ''}))"

    def _stored(self, buffer: Buffer) -> str:
        """An array of a parameter and its storage."""
        form = self.forms[buffer]
        size = self.code(form.size) if form.is_dense or si.is_const(form.size) else f"max({self.code(form.size)}, 0)"
        return f"({self.local[buffer]}, {self._address(buffer)}, {self.code(form.offset)}, {size})"


def known_nodes(half: DeviceHalf) -> list[Node]:
    """The extents, then the scalar parameters: what a call fixes, in the order in which the source gives their values."""
    function = half.lowered.function
    return [*function.extents, *(p.node for p in function.parameters if p.node is not None)]


def index_symbols(half: DeviceHalf) -> list[Int]:
    """The integers among them as symbols, in the order in which the source gives their values to `check_indices`."""
    return [node.sym for node in known_nodes(half) if node.sym is not None]


def _whose(value: Int, places: Mapping[Int, Parameter]) -> Parameter:
    """The parameter from which `value` is told first."""
    return next(places[leaf] for leaf in si.free_symbols(value) if leaf in places)


def _divisors(value: Int) -> Iterator[Int]:
    """What `value` divides by, apart from constants."""
    if value.op in (si.FLOORDIV, si.FLOORMOD, si.TRUNCDIV, si.TRUNCMOD) and not si.is_const(value.args[1]):
        yield value.args[1]
    for argument in value.args:
        yield from _divisors(argument)


def _inner(node: Node) -> Node:
    """What a named value stands for."""
    return _inner(node.operands[0]) if node.op is ops.LET else node


def _leaves(node: Node) -> Iterator[Node]:
    """The parameters and extents in an expression."""
    if not node.op.operands and node.op is not ops.CONST:
        yield node
    for operand in node.operands:
        yield from _leaves(operand)
