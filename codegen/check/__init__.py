"""`kernel.check()`: what is known of a kernel before it runs.

Each subject is a function of the lowered kernel that yields findings: proved safe, proved wrong, or left to the run, with the reason.
Costs of accesses are derived from their indices in the same way.
"""

from __future__ import annotations

from codegen.check.barriers import barriers
from codegen.check.costs import costs
from codegen.check.findings import OPEN, SAFE, WRONG, Check, Cost, Finding
from codegen.check.memory import alignment, bounds
from codegen.check.names import names_of
from codegen.check.numbers import divisors, overflow, shifts
from codegen.check.races import races
from codegen.lowered import DeviceHalf

_SUBJECTS = (bounds, alignment, overflow, divisors, shifts, barriers, races)

__all__ = ["OPEN", "SAFE", "WRONG", "Check", "Cost", "Finding", "check"]


def check(half: DeviceHalf) -> Check:
    """Everything that can be said of the kernel `half` without running it."""
    lowered = half.lowered
    names = names_of(lowered)
    findings = tuple(finding for subject in _SUBJECTS for finding in subject(lowered, names))
    return Check(half.name, findings, tuple(costs(lowered, names)))
