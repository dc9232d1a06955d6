"""The protocol `class-order`: its numbers are those of the functions, and FPA is not listed twice."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.evaluation import EvaluationSettings, JudgingTaxonomy, choose_samples
from labeltree.evaluation.protocol_registry import get_protocol, run_protocol
from labeltree.evaluation.search_and_answer_columns import Inputs
from labeltree.metrics.functional import hops
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(a, b, c) for a in "ab" for b in "cd" for c in "efg"])


def inputs_of(noise: float, **options: object) -> Inputs:
    draw = torch.Generator().manual_seed(0)
    nodes = TREE.leaves[torch.randint(0, len(TREE.leaves), (600,), generator=draw)]
    hot = torch.nn.functional.one_hot(TREE.ancestors[nodes, 1:], len(TREE)).float().sum(1)
    vectors = hot + noise * torch.randn(600, len(TREE), generator=draw)
    split = np.array(["train", "val", "test"])[np.arange(600) % 3]
    table = EmbeddingTable(vectors, nodes, split=split, geometry="euclidean")
    settings = EvaluationSettings(options={"class-order": options}, resamples=50)
    samples = choose_samples(table, TREE, "test", settings)
    return Inputs(table, JudgingTaxonomy.of(TREE), samples, settings)


def test_the_numbers_are_those_of_the_functions() -> None:
    inputs = inputs_of(1.0, classifier="prototypes", ks=(3, 99))
    result = run_protocol(get_protocol("class-order"), inputs)
    rows = inputs.samples.test
    scorer = inputs.classifiers.scores("prototypes")
    scores: Tensor = scorer(inputs.table.rows(rows))
    for name, k in (("hops", None), ("hops_at_3", 3)):
        expected = hops(scores, inputs.nodes[rows], TREE, classes=scorer.classes, k=k)
        assert result.scores[name] == pytest.approx(float(expected))
    assert "hops_at_99" not in result.scores
    accuracy, consistency = result.by_depth["accuracy"], result.by_depth["consistency"]
    top1 = float((scorer.classes[scores.argmax(1)] == inputs.nodes[rows]).double().mean())
    assert accuracy[-1] == pytest.approx(top1)
    assert consistency[-1] == 1 > consistency[0]
    assert result.scores["full_path_accuracy"] <= top1
    low, high = result.intervals["full_path_accuracy"]
    assert low < result.scores["full_path_accuracy"] < high


def test_fpa_is_not_listed_where_it_is_top_1() -> None:
    result = run_protocol(get_protocol("class-order"), inputs_of(0.05))
    assert "full_path_accuracy" not in result.scores
    assert "FPA is the top-1 accuracy" in " ".join(result.notes)
    assert result.scores["hops"] > 0.9
    assert not math.isnan(result.by_depth["consistency"][0])


def test_hops_at_1_is_refused() -> None:
    with pytest.raises(ValueError, match="HOPS@1 is top-1"):
        run_protocol(get_protocol("class-order"), inputs_of(1.0, ks=(1,)))
