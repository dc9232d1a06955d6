"""The examples in the docstrings of all metrics run and print what they say, and no public name lacks one."""

import doctest
import importlib
import pkgutil

import pytest

from labeltree import metrics

pytestmark = pytest.mark.slow

MODULES = [name for _, name, _ in pkgutil.walk_packages(metrics.__path__, "labeltree.metrics.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", [*metrics.__all__, *metrics.functional.__all__])
def test_public_names_have_an_example(name: str) -> None:
    if name != "functional":
        documented = getattr(metrics, name, None) or getattr(metrics.functional, name)
        assert ">>> " in (documented.__doc__ or ""), name
