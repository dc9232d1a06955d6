"""Cases of which `make test` runs a few, and `make test-long` the others."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def some_now(cases: Iterable[Any], now: int = 1) -> list[Any]:
    """The cases for `pytest.mark.parametrize`, all but the first ones marked long.

    Args:
        cases: values, or a tuple for several parameters.
        now: how many are run by `make test`.
    """
    listed = list(cases)
    return listed[:now] + [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
        for case in listed[now:]
    ]


def long_unless(cases: Sequence[Any], now: Iterable[Any]) -> list[Any]:
    """The cases in their order, all but those of ``now`` marked long."""
    kept = list(now)
    return [case if case in kept else pytest.param(case, marks=pytest.mark.long) for case in cases]
