"""How long `simplify` takes on the golden expressions: `python -m benchmarks.simplify`.

First call: a fresh set of facts, nothing remembered but the interned nodes. Repeated call: the same expression again, as when
a kernel has the same access in many places. Both in microseconds, the median over the expressions of the median over rounds.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time

from symbolic import operations_count, simplify
from tests.symbolic.golden import Case, cases

ROUNDS = 5
REPEATS = 50


def measure(case: Case) -> tuple[float, float]:
    """(first, repeated) microseconds of one expression."""
    facts = case.facts()
    facts.prove(1)                       # the engine of these facts exists; its memos are empty
    start = time.perf_counter()
    simplify(case.expr, facts)
    first = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(REPEATS):
        simplify(case.expr, facts)
    return first * 1e6, (time.perf_counter() - start) / REPEATS * 1e6


def main() -> None:
    golden = cases()
    gc.disable()
    rounds = [[measure(case) for case in golden] for _ in range(ROUNDS)]
    gc.enable()
    first = {c.id: statistics.median(r[k][0] for r in rounds) for k, c in enumerate(golden)}
    repeated = {c.id: statistics.median(r[k][1] for r in rounds) for k, c in enumerate(golden)}
    after = {c.id: operations_count(c.facts().simplify(c.expr)) for c in golden}
    print(f"{len(golden)} expressions, Python {sys.version.split()[0]}")
    print(f"first call     median {statistics.median(first.values()):7.2f} us   mean {statistics.mean(first.values()):7.2f}"
          f"   slowest {max(first.values()):8.2f}")
    print(f"repeated call  median {statistics.median(repeated.values()):7.2f} us   mean {statistics.mean(repeated.values()):7.2f}")
    print(f"operators      {sum(operations_count(c.expr) for c in golden)} -> {sum(after.values())}"
          f"   (reference {sum(c.reference_operations for c in golden)})")
    print(f"{'by kind':20}{'count':>6}{'first us':>10}{'operators':>11}{'reference':>11}{'wins':>6}{'ties':>6}{'losses':>8}")
    for tag in dict.fromkeys(c.tag for c in golden):
        group = [c for c in golden if c.tag == tag]
        won = [(after[c.id] > c.reference_operations) - (after[c.id] < c.reference_operations) for c in group]
        print(f"{tag:20}{len(group):6}{statistics.median(first[c.id] for c in group):10.1f}{sum(after[c.id] for c in group):11}"
              f"{sum(c.reference_operations for c in group):11}{won.count(-1):6}{won.count(0):6}{won.count(1):8}")
    for case in golden:
        if after[case.id] > case.reference_operations:
            print(f"loss: {case.source} -> {case.facts().simplify(case.expr)}   reference: {case.reference}")


if __name__ == "__main__":
    main()
