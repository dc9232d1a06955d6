"""Features as they are, and L2-normalised: the two baselines that classifiers give for retrieval."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from labelled_vectors import tree_vectors

from labeltree.cli.commands.evaluate_command import run
from labeltree.evaluation import EvaluationResult, EvaluationSettings, evaluate
from labeltree.geometry import Euclidean, Sphere
from labeltree.metrics import functional as metrics
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


@pytest.fixture
def stretched(table: EmbeddingTable) -> EmbeddingTable:
    """Features of very different lengths: direction tells the class, distance less so."""
    length = torch.linspace(0.2, 5, len(table))[torch.randperm(len(table), generator=torch.manual_seed(0))]
    return dataclasses.replace(table, features=table.features * length[:, None])


def test_both_rankings_of_features(stretched: EmbeddingTable, taxonomy: Taxonomy) -> None:
    test = stretched.select("test")
    found = {}
    for name, geometry in (("sphere", Sphere()), ("euclidean", Euclidean())):
        result = evaluate(stretched, taxonomy, settings=EvaluationSettings(feature_geometry=name))
        found[name] = result.main.scores
        scores = result.main.scores["features"]
        expected = metrics.map_at_r(test.features, test.nodes, geometry=geometry)
        assert scores["map_at_r"] == pytest.approx(float(expected), abs=1e-12)
        nearest = geometry.pairwise_distance(test.features, test.features).fill_diagonal_(torch.inf).argmin(1)
        hits = (test.nodes[nearest] == test.nodes).double().mean()
        assert scores["recall_at_1"] == pytest.approx(float(hits))
        assert result.main.representations["features"].geometry == name
        assert EvaluationResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result
    assert found["sphere"]["features"]["map_at_r"] > found["euclidean"]["features"]["map_at_r"]
    # Nothing else depends on it.
    assert found["sphere"]["embeddings"] == found["euclidean"]["embeddings"]
    assert found["sphere"]["features"]["top1"] == found["euclidean"]["features"]["top1"]


def test_features_of_length_one_rank_alike_in_both(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    unit = dataclasses.replace(table, features=torch.nn.functional.normalize(table.features))
    one, other = (
        evaluate(unit, taxonomy, settings=EvaluationSettings(feature_geometry=name)).main.scores["features"]
        for name in ("sphere", "euclidean")
    )
    assert one == pytest.approx(other, abs=1e-6)


def test_it_is_said_on_the_command_line(tmp_path: Path, taxonomy: Taxonomy) -> None:
    nodes = taxonomy.leaves.repeat(6)
    features = tree_vectors(taxonomy, nodes, 8, 0.3, 1)
    EmbeddingTable(features[:, :4], nodes, features=features).save(tmp_path / "table.npz")
    taxonomy.save(tmp_path / "tree.json")
    arguments = ["--embeddings", str(tmp_path / "table.npz"), "--taxonomy", str(tmp_path / "tree.json")]
    run([*arguments, "--feature-geometry", "euclidean"])
    written = json.loads((tmp_path / "table" / "metrics.json").read_text())
    assert written["settings"]["feature_geometry"] == "euclidean"
    assert "euclidean" in (tmp_path / "table" / "report.html").read_text("utf-8").lower()


def test_another_geometry_is_an_error() -> None:
    with pytest.raises(ValueError, match="feature_geometry is 'poincare'; expected 'sphere' or 'euclidean'"):
        EvaluationSettings(feature_geometry="poincare")  # type: ignore[arg-type]
