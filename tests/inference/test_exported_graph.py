"""The parts of an exported graph that are written anew compute what the originals do."""

import pytest
import torch

from labeltree.decisions import Calibrator, ClassNodes
from labeltree.geometry import get_geometry
from labeltree.geometry.pairwise_distances import pairwise_distance
from labeltree.inference.export.model_graph import CalibratedScores
from labeltree.taxonomy import Taxonomy


def classes(inner: bool) -> ClassNodes:
    tree = Taxonomy.from_paths(
        [("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f", "g", "h", "i"), ("f", "j"), ("k",)]
    )
    nodes = [node for node in range(1, tree.num_nodes) if inner or tree.is_leaf[node]]
    return ClassNodes(torch.tensor(nodes), tree)


@pytest.mark.parametrize("inner", [False, True], ids=["leaves", "inner classes"])
@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("kind", ["none", "temperature", "vector", "depth"])
def test_calibrators(kind: str, scale: float, inner: bool) -> None:
    nodes = classes(inner)
    count, depth = len(nodes), nodes.taxonomy.max_depth
    calibrator = {
        "none": Calibrator(),
        "temperature": Calibrator("temperature", (0.3,)),
        "vector": Calibrator(
            "vector", slopes=tuple(torch.linspace(0.2, 2, count).tolist()), offsets=(0.5,) * count
        ),
        "depth": Calibrator("depth", tuple(0.4 + 0.7 * k for k in range(depth + 1))),
    }[kind]
    scores = scale * torch.randn(20, count, generator=torch.manual_seed(0), dtype=torch.float64)
    expected = calibrator(scores, nodes).exp()
    torch.testing.assert_close(CalibratedScores(calibrator, nodes)(scores).exp(), expected)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean", "poincare"])
def test_distances_while_exporting(geometry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    space = get_geometry(geometry, -1.0)
    x = space.embed(torch.randn(12, 7, generator=torch.manual_seed(0)))
    y = torch.cat([space.embed(torch.randn(4, 7, generator=torch.manual_seed(1))), x[:2]]).double()
    expected = space.pairwise_distance(x.double(), y).square()
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    torch.testing.assert_close(
        space.pairwise_distance(x.double(), y).square(), expected, rtol=1e-7, atol=1e-9
    )
    assert pairwise_distance(x, y.float()).dtype == torch.float32
