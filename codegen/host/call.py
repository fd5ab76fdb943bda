"""What every section of a kernel's host half knows: its parameters, their variables in the source, and how a refusal is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from codegen.arrays import ArrayForm, array_form
from codegen.host.names import Names, escaped, quoted
from codegen.lowered import DeviceHalf
from symbolic import integers as si
from symbolic.integers import Int
from symbolic.text import text
from tracer.addressing import in_bytes
from tracer.ir import Buffer, Node, Parameter, TensorMap

Section = Callable[["Call"], Iterator[str]]
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """What one call launches: blocks in the grid, threads in a block, bytes of dynamic shared memory.

    `cluster` and `preferred` count the blocks of a cluster, None where the kernel has none. `wide`: 32-bit indices do not do.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int = 0
    cluster: tuple[int, int, int] | None = None
    preferred: tuple[int, int, int] | None = None
    wide: bool = False


class Call:
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
        self.python = Names()
        self._choose_names()

    def parameter_of(self, tensor_map: TensorMap) -> Parameter:
        """Whose array a tensor map describes."""
        index = tensor_map.buffer.storage.parameter
        assert index is not None
        return self.parameters[index]

    # ---- names ------------------------------------------------------------------------------------------------------

    def _choose_names(self) -> None:
        names = self.python
        for _, buffer in self.arrays:
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

    def signature(self) -> str:
        """The call as messages quote it."""
        return f"{self.function.name}({', '.join(map(self._described, self.parameters))})"

    def _described(self, parameter: Parameter) -> str:
        if parameter.buffer is None:
            return f"{parameter.name}: {'Tensor' if parameter.node is None else parameter.dtype}"
        form = self.forms[parameter.buffer]
        return f"{parameter.buffer.name}: Tensor([{', '.join(map(self.show, form.shape))}], {form.dtype})"

    @staticmethod
    def title(parameter: Parameter) -> str:
        """What a message calls a parameter: its buffer."""
        return parameter.buffer.name if parameter.buffer is not None else parameter.name

    # ---- values -----------------------------------------------------------------------------------------------------

    def show(self, value: Int) -> str:
        """As the author wrote it."""
        return text(value, self.shown)

    def code(self, value: Int) -> str:
        """As Python over the variables of the source."""
        return text(value, self.names)

    def knows(self, value: Int) -> bool:
        """Whether the host can compute it."""
        return all(s in self.names for s in si.free_symbols(value))

    def values(self, *expressions: Int) -> str:
        """For a message: `n = {n} (A.shape[0]), m = {m} (A.shape[1])` for the symbols of the expressions."""
        symbols = dict.fromkeys(s for e in expressions for s in si.free_symbols(e) if s in self.names)
        return ", ".join(f"{escaped(self.shown[s])} = {{{self.names[s]}}}{self.origin.get(s, '')}" for s in symbols)

    def computed(self, value: Int) -> str:
        """For a message: `8`, `n = {n} (A.shape[0])`, or `n*2 + 1 = {n*2 + 1} with n = {n} (A.shape[0])`."""
        if si.is_const(value):
            return str(value.value)
        if value in self.names:
            return self.values(value)
        return f"{escaped(self.show(value))} = {{{self.code(value)}}} with {self.values(value)}"

    def amount(self, value: Int) -> str:
        """For a message: the number."""
        return str(value.value) if si.is_const(value) else f"{{{self.code(value)}}}"

    def tuple_of(self, entries: Iterable[Int]) -> str:
        """A Python tuple of them."""
        return written_tuple([self.code(entry) for entry in entries])

    def address(self, buffer: Buffer, pointer: str) -> str:
        """The address of a parameter's storage: its offset before the first element of the array that came, at `pointer`."""
        form = self.forms[buffer]
        bytes_ = in_bytes(form.offset, form.dtype)
        if bytes_ is si.const(0):
            return pointer
        return f"{pointer} - {self.code(bytes_) if si.is_const(bytes_) else f'({self.code(bytes_)})'}"

    def scalar_code(self, node: Node) -> str:
        """The variable of a scalar parameter or an extent."""
        if node.sym is not None:
            return self.names[node.sym]
        return next(self.local[p] for p, scalar in self.scalars if scalar is node)

    def scalar_shown(self, node: Node) -> str:
        """What the author calls it."""
        if node.sym is not None:
            return self.shown[node.sym]
        return next(p.name for p, scalar in self.scalars if scalar is node)

    # ---- refusals ---------------------------------------------------------------------------------------------------

    def refuse(self, condition: str, error: str, parameter: Parameter, problem: str) -> Iterator[str]:
        """`problem` is the inside of an f-string: static parts escaped, values in braces."""
        index = self.parameters.index(parameter)
        alias = parameter.buffer is not None and parameter.buffer.name != parameter.name
        position = f'"{index}, {parameter.name},"' if alias else str(index)
        yield f"if {condition}:"
        raised = f"    raise refuse({error}, {position}, "
        if len(raised) + len(problem) < _WIDTH - 8:
            yield f"{raised}{quoted(problem)})"
        else:
            yield raised.rstrip()
            yield f"                 {quoted(problem)})"

    def refuse_call(self, condition: str, error: str, problem: str) -> Iterator[str]:
        """The same for what concerns no single argument."""
        yield f"if {condition}:"
        yield f"    raise {error}({quoted(problem + ', when calling `{SIGNATURE}`')})"


def written_tuple(codes: list[str]) -> str:
    """The codes as a Python tuple."""
    return f"({', '.join(codes)}{',' if len(codes) == 1 else ''})"


def known_nodes(half: DeviceHalf) -> list[Node]:
    """The extents, then the scalar parameters: what a call fixes, in the order in which the source gives their values."""
    function = half.lowered.function
    return [*function.extents, *(p.node for p in function.parameters if p.node is not None)]


def index_symbols(half: DeviceHalf) -> list[Int]:
    """The integers among them as symbols, in the order in which the source gives their values to `indices_fit`."""
    return [node.sym for node in known_nodes(half) if node.sym is not None]
