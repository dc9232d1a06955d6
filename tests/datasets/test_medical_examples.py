"""The examples in the documentation of the medical readers and of tables."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    ["datasets.breakhis", "datasets.ham10000", "datasets.odir", "data.sources.table_samples", "data.groups"],
)
def test_examples(module: str) -> None:
    results = doctest.testmod(importlib.import_module(f"labeltree.{module}"))
    assert results.attempted > 0
    assert results.failed == 0
