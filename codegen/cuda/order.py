"""How fences, pauses and the clock are written."""

from __future__ import annotations

from codegen.cuda.templates import calls, template
from tracer import operations as ops

for _row, _function in zip(ops.FENCES, ("__threadfence", "__threadfence_block", "__threadfence_system")):
    template(_row, calls(_function))
template(ops.NANO_SLEEP, calls("__nanosleep"))
template(ops.CLOCK64, calls("clock64"))
