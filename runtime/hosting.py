"""The host half of a kernel made to run: Python source (`codegen.host`), executed once a kernel with what it may call.

It serves the simulator and the GPU alike, so that both refuse the same calls in the same words.
"""

from __future__ import annotations

import builtins
import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any

from codegen import host
from codegen.host import LaunchShape
from runtime import arguments, scalars
from runtime.indices import index_check, wide_index_check
from runtime.narrow import narrow
from tracer import errors


def host_function(kernel: Any) -> Callable[..., Any]:
    """The host half of `kernel`, compiled once. Tracebacks show its lines."""
    made: Callable[..., Any] | None = kernel.memo.get("host")
    if made is None:
        half = kernel.half
        helpers = {
            "number_of": scalars.number_of, "what": scalars.what, "held": scalars.held, "overlap": arguments.overlap,
            "narrow": narrow, "strides_differ": arguments.strides_differ, "indices_fit": index_check(half), "LaunchShape": LaunchShape,
            "check_wide_indices": wide_index_check(kernel), "truncdiv": truncdiv, "truncmod": truncmod,
            **{name: getattr(errors, name) for name in host.HELPERS if name.endswith("Error")},
        }
        exec(host_code(kernel), helpers)
        made = kernel.memo["host"] = helpers[host.entry_name(half)]
    return made


def host_code(kernel: Any) -> CodeType:
    """Its source, compiled once."""
    made: CodeType | None = kernel.memo.get("host code")
    if made is None:
        source = host.host_source(kernel.half)
        name = f"<host half of {kernel.function.name}, {id(kernel):x}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        made = kernel.memo["host code"] = builtins.compile(source, name, "exec")
    return made


def truncdiv(a: int, b: int) -> int:
    """C's division of ints."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def truncmod(a: int, b: int) -> int:
    """C's remainder of ints."""
    return a - b * truncdiv(a, b)
