"""The simulator: what a kernel means, in NumPy. `simulate` runs a device half; `Report` is what it did."""

from runtime.simulator.machine import simulate
from runtime.simulator.report import AccessCount, Report

__all__ = ["AccessCount", "Report", "simulate"]
