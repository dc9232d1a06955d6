"""The examples in the documentation of the medical readers and of tables."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["breakhis", "ham10000", "odir", "table_samples"])
def test_examples(module: str) -> None:
    results = doctest.testmod(importlib.import_module(f"labeltree.data.{module}"))
    assert results.attempted > 0
    assert results.failed == 0
