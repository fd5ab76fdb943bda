"""Python names and literals of the host half's source."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field

# What the source may call; `runtime.launcher` gives each, the errors are those of `tracer.errors`.
HELPERS = (
    "number_of", "what", "held", "narrow", "strides_differ", "overlap", "indices_fit", "check_wide_indices", "truncdiv", "truncmod", "LaunchShape",
    "ArgumentCountError", "ArgumentTypeError", "ArgumentValueError", "LaunchError",
)
# What the second function may use beside them, where there is one; see `codegen.host.again`.
AGAIN = ("forms", "another", "current_stream", "enqueue", "SUCCESS", "PackError")
_OWN = ("array", "launch", "arguments", "grid", "block", "shared", "cluster", "preferred", "wide", "device", "refuse", "rounded", "SIGNATURE", "form",
        "status", "stream", "type", "len", "isinstance", "str", "int", "bool", "float", "min", "max", "abs", "IndexError", "OverflowError")


def identifier(name: str) -> str:
    """`name` as a Python identifier."""
    name = re.sub(r"\W", "_", name)
    return name if name[:1].isidentifier() and not keyword.iskeyword(name) else f"_{name}"


def escaped(static: str) -> str:
    """Static text inside an f-string in double quotes."""
    return static.replace("\\", "\\\\").replace('"', '\\"').replace("{", "{{").replace("}", "}}").replace("\n", "\\n")


def quoted(problem: str) -> str:
    """An f-string of this inside, or a plain string where it has no values."""
    plain = problem.replace("{{", "").replace("}}", "")
    return f'f"{problem}"' if "{" in plain else f'"{problem}"'.replace("{{", "{").replace("}}", "}")


@dataclass
class Names:
    """Python names that clash with nothing: a taken one gets an underscore."""

    taken: set[str] = field(default_factory=lambda: {*HELPERS, *AGAIN, *_OWN, *keyword.kwlist, "True", "False", "None"})

    def unique(self, wanted: str) -> str:
        """`wanted`, or as near to it as is free."""
        name = identifier(wanted)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name
