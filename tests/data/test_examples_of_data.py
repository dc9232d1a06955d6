"""The examples in the documentation of all modules that read data."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import labeltree.data
import labeltree.datasets

MODULES = [
    found.name
    for package in (labeltree.data, labeltree.datasets)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if ">>> " in Path(importlib.import_module(found.name).__file__ or "").read_text("utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0
    assert results.failed == 0
