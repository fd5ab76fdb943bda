"""Every planted bug is found, by class, buffer and line; no corrected twin raises an alarm."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sanitizer import arithmetic, asynchronous, bounds, flags, races, synchronisation, tensor_cores  # noqa: F401  (they fill the corpus)
from tests.sanitizer.corpus import CORPUS, Planted
from tracer.errors import ArgumentError


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_the_bug_is_found(case: Planted) -> None:
    with pytest.raises(case.error) as caught:
        case.run(fixed=False)
    message = str(caught.value)
    assert type(caught.value) in (case.error if isinstance(case.error, tuple) else (case.error,)), message
    assert case.buffer in message.split("\n")[0], message
    assert isinstance(caught.value, ArgumentError) or case.lines() or not case.marks        # what is wrong with a call has no line in the kernel
    assert all(line in message for line in case.lines()), (case.lines(), message)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_the_corrected_twin_passes(case: Planted, seed: int | None) -> None:
    case.run(fixed=True, seed=seed)


def test_names_are_unique() -> None:
    assert max(Counter(case.name for case in CORPUS).values()) == 1
