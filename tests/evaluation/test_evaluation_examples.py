"""The example in the documentation of `evaluate` is executed."""

import doctest
import importlib


def test_the_example_of_evaluate_runs() -> None:
    results = doctest.testmod(importlib.import_module("labeltree.evaluation.evaluate_table"))
    assert results.attempted > 0
    assert results.failed == 0
