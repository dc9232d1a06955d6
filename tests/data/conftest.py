"""Tests of reading data never meet the user's cache, nor each other's."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _empty_cache(cache_folder: Path) -> None:
    """Each test has a cache of its own."""
