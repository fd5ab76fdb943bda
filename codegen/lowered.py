"""What lowering adds to a traced function: the form that the CUDA printer writes and the simulator runs. No behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field

from symbolic.facts import Facts
from symbolic.integers import Int
from tracer.ir import Buffer, Function, Location, Node, Region, TensorMap
from tracer.operations import TENSOR_MAP


@dataclass(eq=False, slots=True)
class FlatAccess:
    """One load, store or address: logical coordinates and the element offset into the buffer's storage that they come to.

    `index` is simplified over the hardware and loop atoms alone (what `accesses()` prints); `emitted` is the same number in
    whichever form is shorter, using the author's named values as atoms (what the CUDA source prints and the simulator runs).
    A vector access moves one element for each lane, along the last axis. `lanes` is empty where lane `k` is proved to lie `k`
    elements behind the first; else it has the emitted index of every lane.
    """

    node: Node
    buffer: Buffer
    coords: tuple[Int, ...]
    index: Int
    emitted: Int
    in_bounds: bool | None
    lanes: tuple[Int, ...] = ()

    def lane(self, number: int) -> Int:
        """The emitted index of one lane of a vector access."""
        return self.lanes[number] if self.lanes else self.emitted + number

    @property
    def written(self) -> tuple[Int, ...]:
        """The expressions that the code for this access is made of."""
        return self.lanes or (self.emitted,)


@dataclass(eq=False, slots=True)
class Lowered:
    """A function with its addresses computed.

    * `accesses`: for each load, store and address_of node, its flat access.
    * `integers`: for each integer or bool node that algebra sees through, the simplified expression that computes it, over
      atoms. A node without an entry is computed by its operation from its operands.
    * `atoms`: symbol -> the node whose value it is. Named values stand here too: an expression may mention `i` where the
      author wrote `i = bx*256 + tx`.
    * `facts`: what is known inside each region (bounds of atoms, the conditions around it).
    * `known`: what is known where a node stands: its region's facts, and the guards passed before it.
    """

    function: Function
    accesses: dict[Node, FlatAccess] = field(default_factory=dict)
    integers: dict[Node, Int] = field(default_factory=dict)
    atoms: dict[Int, Node] = field(default_factory=dict)
    facts: dict[Region, Facts] = field(default_factory=dict)
    known: dict[Node, Facts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One argument of the device function: a pointer to a buffer parameter's storage, a tensor map, or a scalar or extent by value.

    `read_only`: the kernel writes nothing through the pointer or the map.
    """

    name: str                  # as written in C, unique and not reserved
    node: Node | None          # the scalar, extent or tensor map; None for a pointer
    buffer: Buffer | None      # the parameter's buffer; None for a map and a value
    read_only: bool
    location: Location | None = None

    @property
    def tensor_map(self) -> TensorMap | None:
        """What the map describes, where it is one."""
        return self.node.attrs["map"] if self.node is not None and self.node.op is TENSOR_MAP else None


@dataclass(eq=False, slots=True)
class DeviceHalf:
    """What runs on the device: the kernel `name(arguments...)` with `body`, launched by `launch`.

    Arguments: pointers in parameter order, then tensor maps in the order of their declaration, then scalars and extents in order
    of first appearance in the kernel, so that renaming one changes no ABI.
    Values computed on the host side of `T.device_entry()` and used below it stand at the start
    of `body`.
    """

    name: str
    lowered: Lowered
    body: Region
    arguments: tuple[KernelArgument, ...]
