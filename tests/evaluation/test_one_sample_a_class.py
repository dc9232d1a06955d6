"""A table without splits and one sample of every class: all are learned from, none is left for a test."""

from __future__ import annotations

import pytest
import torch

from labeltree.evaluation import EvaluationSettings, evaluate
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


@pytest.mark.parametrize("name", ["class-embeddings", "clustering", "knn", "sgd-probe"])
def test_no_number_has_an_interval_without_it(name: str) -> None:
    tree = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "z")])
    table = EmbeddingTable(embeddings=torch.eye(3), nodes=tree.leaves)
    result = evaluate(table, tree, protocols=[name], settings=EvaluationSettings(resamples=50))
    found = result.main.protocols[name]
    assert found.scores
    for key, (low, high) in found.intervals.items():
        assert low <= found.scores[key] <= high
