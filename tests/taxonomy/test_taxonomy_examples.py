import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "named_graph",
        "tree",
        "dag",
        "relations",
        "versions.matching",
        "wrong_trees",
        "placeholders",
    ],
)
def test_examples_in_docstrings(module: str) -> None:
    results = doctest.testmod(importlib.import_module(f"labeltree.taxonomy.{module}"))
    assert results.attempted > 0
    assert results.failed == 0
