"""The race detector against plain vector clocks: random accesses and barriers, told to both."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from runtime.simulator.checks import Checks
from runtime.simulator.events import Touch
from runtime.simulator.memory import Memory
from runtime.simulator.races import Races
from tracer import T, trace
from tracer.errors import DataRaceError

THREADS, BLOCKS, BYTES = 64, 3, 12


def kernel(A: T.Buffer((BYTES,), "uint8")) -> None:
    """Lends its nodes to the events, of which it has nothing else: an array that is written, and barriers of every kind."""
    T.device_entry()
    T.cta_id([BLOCKS])
    tx = T.thread_id([THREADS])
    A[tx] = A[tx]
    T.cuda.warp_sync()
    T.cuda.cta_sync()


class Plain:
    """A clock of every thread for every thread; all accesses are kept."""

    def __init__(self) -> None:
        self.known = np.zeros((THREADS * BLOCKS, THREADS * BLOCKS), np.int64)
        self.done: dict[int, list[tuple[str, int, int]]] = {}
        self.kept: dict[Any, np.ndarray] = {}
        self.now = 0

    def races(self, kind: str, touched: list[tuple[int, range]]) -> bool:
        """True if one of the threads races, with what was before or with another of them."""
        for k, (thread, places) in enumerate(touched):
            for place in places:
                for before, other, when in self.done.get(place, []):
                    if (kind, before) not in (("load", "load"), ("atomic", "atomic")) and other != thread and self.known[thread, other] < when:
                        return True
                if kind == "store" and any(place in others for _, others in touched[:k]):
                    return True
        return False

    def access(self, kind: str, touched: list[tuple[int, range]]) -> None:
        self.now += 1
        for thread, places in touched:
            for place in places:
                self.done.setdefault(place, []).append((kind, thread, self.now))

    def join(self, groups: Any) -> None:
        for group in groups:
            self.known[group, group] = self.now
            self.known[group] = self.known[group].max(axis=0)

    def release(self, threads: Any, key: Any) -> None:
        self.known[threads, threads] = self.now
        self.kept[key] = np.maximum(self.kept.get(key, 0), self.known[threads].max(axis=0))

    def acquire(self, threads: Any, key: Any) -> None:
        if key in self.kept:
            self.known[threads] = np.maximum(self.known[threads], self.kept[key])


def history(random: Random, groups: bool) -> tuple[bool, bool]:
    """Whether the plain clocks and the detector find a race in one random history, which ends with the first. Most races are left out."""
    traced = trace(kernel)
    store = next(n for n in traced.half.body.walk() if n.op.name == "store")
    detector = Races(traced.half, (BLOCKS, 1, 1), (THREADS, 1, 1), (1, 1, 1), {}, Checks(), {})
    detector.warps = True
    detector.start(np.arange(BLOCKS))
    plain, memory = Plain(), Memory(np.zeros(BYTES, np.uint8), BYTES)
    buffer = store.attrs["buffer"]
    for _ in range(150):
        block = random.randrange(BLOCKS)
        r = random.random()
        everyone = np.arange(THREADS) + block * THREADS
        if r < 0.55:
            kind = random.choice(["load", "load", "store", "atomic"])
            size = random.choice([1, 1, 2, 4])
            count = random.choice([1, 1, 2, 4])
            threads = np.array(sorted(random.sample(range(THREADS * BLOCKS) if random.random() < 0.2 else everyone.tolist()[:34], count)))
            start = np.array([random.randrange(BYTES // size) * size for _ in threads])
            touched = [(int(t), range(s, s + size)) for t, s in zip(threads, start.tolist())]
            expected = plain.races(kind, touched)
            if expected and random.random() < 0.985:
                continue
            plain.access(kind, touched)
            try:
                detector.access(Touch(store, buffer, memory, kind, threads, start, size, order="relaxed" if kind == "atomic" else "", scope="gpu"
                                      if kind == "atomic" else ""))
                found = False
            except DataRaceError:
                found = True
            if expected or found:
                return expected, found
        elif r < 0.75:
            chosen = everyone[None, :]
            plain.join(chosen)
            detector.join(chosen, store)
        elif r < 0.9:
            chosen = everyone.reshape(2, 32)[random.choice([slice(0, 1), slice(1, 2), slice(0, 2)])]
            plain.join(chosen)
            detector.join(chosen, store)
        elif groups:
            threads, key = np.array(sorted(random.sample(everyone.tolist(), random.choice([1, 2, 32])))), random.randrange(3)
            step = random.choice(["join", "release", "acquire"])
            if step == "join":
                plain.join(threads[None, :])
                detector.join(threads[None, :], store)
            elif step == "release":
                plain.release(threads, key)
                detector.release(threads, key, store, "gpu")
            else:
                plain.acquire(threads, key)
                detector.acquire(threads, key, store, "gpu")
    return False, False


@pytest.mark.parametrize("groups", [False, True], ids=["blocks and warps", "any threads"])
def test_the_detector_finds_what_plain_clocks_find(groups: bool) -> None:
    verdicts = [history(Random(seed), groups) for seed in range(150)]
    assert all(expected == found for expected, found in verdicts)
    assert 50 < sum(expected for expected, _ in verdicts) < 120
