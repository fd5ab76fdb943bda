"""Which roof a kernel sits under: how long each unit of a GPU would need for what a run counted, were it alone.

The longest of these times is the roof: nothing can be faster than that, and only less of that work makes it faster. DRAM is charged
with every sector touched, once (as if caches kept everything), shared memory with a pass a clock in each SM, arithmetic with the rate of
its pipe. Rates are NVIDIA's data sheets', dense, at boost clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Machine:
    """A GPU: `sms`, `clock` in Hz, `dram` in bytes a second, `rates` in operations a second by pipe."""

    name: str
    sms: int
    clock: float
    dram: float
    rates: Mapping[str, float]


MACHINES: Final = {machine.name: machine for machine in (
    Machine("A100", 108, 1.41e9, 2.039e12, {"float64": 9.7e12, "float32": 19.5e12, "float16": 78e12, "matrix float64": 19.5e12,
                                            "matrix tf32": 156e12, "matrix float16": 312e12, "matrix int8": 624e12}),
    Machine("H100", 132, 1.98e9, 3.35e12, {"float64": 33.5e12, "float32": 67e12, "float16": 134e12, "matrix float64": 67e12,
                                           "matrix tf32": 494e12, "matrix float16": 989e12, "matrix float8": 1979e12, "matrix int8": 1979e12}),
    Machine("H200", 132, 1.98e9, 4.8e12, {"float64": 33.5e12, "float32": 67e12, "float16": 134e12, "matrix float64": 67e12,
                                          "matrix tf32": 494e12, "matrix float16": 989e12, "matrix float8": 1979e12, "matrix int8": 1979e12}),
    Machine("B200", 148, 1.965e9, 8e12, {"float64": 37e12, "float32": 75e12, "float16": 150e12, "matrix float64": 37e12,
                                         "matrix tf32": 1125e12, "matrix float16": 2250e12, "matrix float8": 4500e12, "matrix int8": 4500e12}),
)}


@dataclass(frozen=True, slots=True)
class Roof:
    """`limit` is the unit that needs longest and `seconds` how long; `times` those of all.

    `intensity` is the arithmetic operations for each byte of DRAM traffic, `ridge` where this machine's roofs meet for that arithmetic:
    below, memory limits. Both are 0 for a kernel without arithmetic.
    """

    machine: str
    limit: str
    seconds: float
    times: Mapping[str, float]
    intensity: float
    ridge: float

    def __str__(self) -> str:
        if not self.seconds:
            return f"{self.machine}: nothing to do"
        told = f"{self.machine}: under the roof of {self.limit}, {_time(self.seconds)} at least"
        if self.intensity:
            told += f"; {self.intensity:.3g} operations a byte, memory limits below {self.ridge:.3g}"
        return told


def roof(machine: Machine, dram_bytes: float, passes: float, operations: Mapping[str, float]) -> Roof:
    """The roof for so many bytes of DRAM traffic, passes through shared memory and operations by pipe."""
    times = {"memory": dram_bytes / machine.dram, "shared memory": passes / (machine.sms * machine.clock)}
    for pipe, count in operations.items():
        times[f"{pipe} arithmetic"] = count / machine.rates.get(pipe, machine.rates["float32"])
    limit = max(times, key=lambda unit: times[unit])
    intensity = sum(operations.values()) / dram_bytes if dram_bytes else 0.0
    main = max(operations, key=lambda pipe: times[f"{pipe} arithmetic"], default=None)
    ridge = machine.rates.get(main, machine.rates["float32"]) / machine.dram if main and intensity else 0.0
    return Roof(machine.name, limit, times[limit], {unit: time for unit, time in times.items() if time}, intensity, ridge)


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
