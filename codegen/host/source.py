"""The host half put together, as text."""

from __future__ import annotations

from codegen.host import again, arguments, extents, geometry, memory, scalars
from codegen.host.call import Call, Section
from codegen.host.names import Names
from codegen.lowered import DeviceHalf

# The order in which a call is checked. Nothing is launched or written before all have passed.
SECTIONS: tuple[tuple[str, Section], ...] = (
    ("number of arguments", arguments.count),
    ("kinds", arguments.kinds),
    ("dtypes", arguments.dtypes),
    ("ranks", arguments.ranks),
    ("devices", arguments.devices),
    ("extents", extents.extents),
    ("strides", memory.strides),
    ("storage", memory.storage),
    ("tensor maps", memory.tensor_maps),
    ("alignment", memory.alignment),
    ("written arrays", memory.overlaps),
    ("scalar ranges", scalars.scalar_ranges),
    ("assumptions", scalars.assumptions),
    ("launch", geometry.geometry),
    ("index ranges", geometry.index_ranges),
    ("views of memory", geometry.views),
    ("launch limits", geometry.limits),
    ("empty arrays", memory.described),
    ("run", geometry.run),
)


def host_source(half: DeviceHalf) -> str:
    """The host half of a kernel as Python source, the same to the byte for the same kernel.

    Raises `NotSupportedError` for an assumption that the host cannot evaluate.
    """
    call, name = Call(half), entry_name(half)
    lines = [
        f'"""Host half of `{name}`: checks the arguments of one call, then launches `{half.name}`."""',
        "",
        f'SIGNATURE = "{call.signature()}"',
        "",
        "",
        "def refuse(error, position, problem):",
        '    return error(f"{problem} (argument {position} of `{SIGNATURE}`)")',
        "",
        "",
        f"def {name}(array, launch, *arguments):",
    ]
    for title, section in SECTIONS:
        body = list(section(call))
        if body:
            lines += [f"    # {title}", *(f"    {line}" for line in body), ""]
    return "\n".join(lines).rstrip() + "\n" + "\n".join(again.function(call, again_name(half)))


def entry_name(half: DeviceHalf) -> str:
    """The name of the function that `host_source` defines."""
    return Names().unique(half.lowered.function.name)


def again_name(half: DeviceHalf) -> str:
    """The name of the second function, where there is one."""
    return f"{entry_name(half)}_again"


def signature(half: DeviceHalf) -> str:
    """The call as messages quote it: `k(A: Tensor([n, 8], float32), s: float32)`."""
    return Call(half).signature()
