"""The pair statistics are tested with every implementation."""

from collections.abc import Iterator

import pytest

from labeltree.pairs import implementation

# dense, and over tiles so small that every batch has several
IMPLEMENTATIONS = {"dense": ("dense", None), "streaming": ("streaming", 5)}
OVER_PAIRS = {"test_statistics"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in OVER_PAIRS:
        metafunc.parametrize("_implementation", IMPLEMENTATIONS, indirect=True)


@pytest.fixture(autouse=True)
def _implementation(request: pytest.FixtureRequest) -> Iterator[None]:
    name, tile = IMPLEMENTATIONS[request.param] if hasattr(request, "param") else ("auto", None)
    with implementation(name, tile=tile):
        yield
