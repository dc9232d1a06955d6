"""The losses of pairs, queues and prototypes are tested with every implementation of the primitives."""

from collections.abc import Iterator

import pytest
from implementations import IMPLEMENTATIONS

from labeltree.pairs import implementation

OVER_PAIRS = {
    "test_jaccard",
    "test_level_aware_margin",
    "test_mlcl",
    "test_oracles",
    "test_precision",
    "test_queue_edge_cases",
    "test_queue_losses",
    "test_special_cases",
}

# Their batches have several tiles of more rows, too, but half as many.
OF_MANY_ROWS = {"test_jaccard", "test_precision", "test_special_cases"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in OVER_PAIRS:
        metafunc.parametrize("_implementation", IMPLEMENTATIONS, indirect=True)


@pytest.fixture(autouse=True)
def _implementation(request: pytest.FixtureRequest) -> Iterator[None]:
    name, tile = IMPLEMENTATIONS[request.param] if hasattr(request, "param") else ("auto", None)
    if tile and request.module.__name__.rpartition(".")[2] in OF_MANY_ROWS:
        tile = 6
    with implementation(name, tile=tile):
        yield
