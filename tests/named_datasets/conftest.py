"""Named data sets are read from folders that their tests write, never from the user's cache."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _empty_cache(cache_folder: Path) -> None:
    """Each test has a cache of its own."""
