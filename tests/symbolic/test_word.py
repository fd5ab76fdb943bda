"""No value on the way leaves int32 when none of the expression as written does: what is left as it is, and what need not be."""

from __future__ import annotations

import pytest

from tests.symbolic.test_simplify import given


@pytest.mark.parametrize(("facts", "written"), [
    (("1 <= n",), "i + 1 <= i % n"),                    # n*(i//n) < 0 names less than the least int32
    ((), "(j + n ^ j//-3 - n//n*3)*31 + n % -4"),       # bits taken apart leave 31 * 2**30 as a coefficient
    ((), "k//6 < j - k*3 + 1"),                         # the 1 may be what keeps the right side in range
    ((), "(j*8 + k*n)//8 % 5"),                         # k*n alone may be too large where j is negative
])
def test_left_as_written(facts: tuple[str, ...], written: str) -> None:
    assert given(*facts)(written) == written


def test_a_branch_is_named_only_where_it_is_taken() -> None:
    """`min(x*5, y*7)` names `y*7` always, which may be larger by 5 than what the condition names."""
    assert given()("select(x*5 - 5 < y*7 - 5, x*5, y*7)") == "x*5 if x*5 - 5 < y*7 - 5 else y*7"


@pytest.mark.parametrize(("facts", "source", "want"), [
    ((), "(i*4 + j)//4 % 7", "(i + j//4) % 7"),                 # the value of (i*4 + j)//4, which is computed as written
    ((), "(i*4 + j*8)//4 % 7", "(j*2 + i) % 7"),
    ((), "(i*3 - j*3 + 7)//12", "(i - j + 2)//4"),              # a third of i*3 - j*3 + 7
    (("0 <= i", "0 <= j", "0 <= k"), "(i*8 + j*5 + k*3)//8 % 5", "(i + (j*5 + k*3)//8) % 5"),      # a share of what is not negative
    ((), "select(k == 5, (k*k*1000 + n*8)//8, k)", "n + 3125 if k == 5 else k"),
    (("0 <= j < 5",), "select(j < 7, (n*3 + k*3)//6, 0)", "(k + n)//2"),            # the branch that is always taken
    (("1 <= n",), "select(i + 1 <= i % n, (i*4 + 8)//4, i)", "i + 2 if i + 1 <= i % n else i"),    # the other operands all the same
])
def test_covered(facts: tuple[str, ...], source: str, want: str) -> None:
    assert given(*facts)(source) == want
