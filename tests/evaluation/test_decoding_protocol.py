"""The protocol `decoding`: the best answers are best, settings come from validation, hAURC has intervals."""

from functools import cache

import numpy as np
import pytest
import torch

from labeltree.decisions import METRIC_COSTS
from labeltree.evaluation import EvaluationSettings, JudgingTaxonomy, choose_samples
from labeltree.evaluation.protocol_registry import get_protocol, run_protocol
from labeltree.evaluation.result import ProtocolResult
from labeltree.evaluation.search_and_answer_columns import Inputs
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(a, b, c) for a in "ab" for b in "cd" for c in "efg"])
RULES = ("argmax", "top-down", "threshold", "plurality", "expected-information", "climbing", "darts")
RULES += ("selective", "jumping", "predict")


@cache
def measure(seed: int = 0, changed_test: bool = False, **options: object) -> ProtocolResult:
    draw = torch.Generator().manual_seed(seed)
    nodes = TREE.leaves[torch.randint(0, len(TREE.leaves), (1500,), generator=draw)]
    hot = torch.nn.functional.one_hot(TREE.ancestors[nodes, 1:], len(TREE)).float()
    vectors = (hot * torch.tensor([2.0, 1.0, 0.7])[:, None]).sum(1)
    vectors = vectors + torch.randn(1500, len(TREE), generator=draw)
    split = np.array(["train", "val", "test"])[np.arange(1500) % 3]
    if changed_test:
        vectors[split == "test"] = torch.randn(500, len(TREE), generator=draw)
    table = EmbeddingTable(vectors, nodes, split=split, geometry="euclidean")
    settings = EvaluationSettings(options={"decoding": {"classifier": "probe", **options}}, resamples=50)
    samples = choose_samples(table, TREE, "test", settings)
    return run_protocol(get_protocol("decoding"), Inputs(table, JudgingTaxonomy.of(TREE), samples, settings))


def test_the_best_answers_are_best() -> None:
    result = measure()
    for metric in METRIC_COSTS:
        sign = -1 if metric == "tree_distance" else 1
        name = "argmax" if metric == "top1" else f"best-{metric.replace('_', '-')}"
        best = sign * result.scores[f"{name}.{metric}"]
        for rule in RULES:
            assert best >= sign * result.scores[f"{rule}.{metric}"] - 0.015, (rule, metric)
    nodes, sets = (
        result.scores["best-hierarchical-f1.hierarchical_f1"],
        result.scores["best-sets.hierarchical_f1"],
    )
    assert sets >= nodes - 0.01
    assert result.scores["argmax.depth"] == 3 > result.scores["climbing.depth"]
    for rule in ("climbing", "threshold", "darts", "selective", "jumping", "predict"):
        assert result.scores[f"{rule}.coverage"] == pytest.approx(0.9, abs=0.05), rule
    for rule in ("climbing", "threshold", "selective", "jumping", "predict"):
        low, high = result.intervals[f"{rule}.h_aurc"]
        assert 0 <= low < result.scores[f"{rule}.h_aurc"] < high < 1
        risk = result.curves[f"{rule}.risk"]
        assert len(risk) == len(result.axes[f"{rule}.risk"])
        assert risk[-1] == pytest.approx(1 - result.scores["argmax.top1"], abs=0.02)
    assert result.scores["climbing.h_aurc"] < result.scores["selective.h_aurc"]


def chosen(result: ProtocolResult) -> str:
    (note,) = (note for note in result.notes if note.startswith("Chosen on validation samples"))
    return note


def test_settings_are_chosen_on_validation_samples_alone() -> None:
    assert chosen(measure()) == chosen(measure(changed_test=True))
    by_f1 = measure(aim="hierarchical_f1")
    assert chosen(by_f1) != chosen(measure())
    for rule in ("threshold", "darts", "climbing"):
        assert by_f1.scores[f"{rule}.hierarchical_f1"] > measure().scores[f"{rule}.hierarchical_f1"]


def test_unknown_aims_are_named() -> None:
    with pytest.raises(ValueError, match="hierarchical_f1"):
        measure(aim="f1")
