"""Generated bad calls on arrays in host memory: each is refused in its own words, no byte changes, and the next good call is right."""

import numpy as np
import pytest

from tests.runtime.bad_calls import GOODS, bad_calls, memory

CASES = list(bad_calls())


def good_call(name):
    good = GOODS[name]
    args = good.args()
    good.kernel(*args)
    for place, expected in good.results(args).items():
        np.testing.assert_array_equal(args[place], expected)


@pytest.mark.parametrize("name", GOODS)
def test_the_good_call(name):
    good_call(name)


def test_there_are_enough_and_they_have_names_of_their_own():
    assert len(CASES) >= 400
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("name", GOODS)
def test_bad_calls(name):
    for case in CASES:
        if case.good != name:
            continue
        args = case.args()
        before = [memory(a).copy() if isinstance(a, np.ndarray) else None for a in args]
        with pytest.raises(case.error) as caught:
            GOODS[name].kernel(*args)
        assert case.words in str(caught.value), case.name
        assert type(caught.value) is case.error, case.name
        assert f"`{GOODS[name].kernel.function.name}(" in str(caught.value), case.name      # the signature
        for array, held in zip(args, before):
            assert held is None or np.array_equal(memory(array), held), case.name
        good_call(name)
