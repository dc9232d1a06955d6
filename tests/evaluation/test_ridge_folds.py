"""Protocol `folds`, beside heads that are solved anew from the samples of the other folds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from labeltree.data.stratified import make_folds
from labeltree.decisions.calibrators import fit_calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.evaluation import EvaluationSettings, ProtocolResult, evaluate
from labeltree.metrics.functional import average_hierarchical_precision, map_at_r, recall_at_k
from labeltree.ridge import Moments, TreeRidge, fit_tree_ridge
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from sweeps import some_now

TREE = Taxonomy.from_paths([(f"branch {i // 4}", f"family {i // 2}", f"class {i}") for i in range(8)])
SEARCH = "within-held-out-folds"


def samples(n: int = 96, noise: float = 1.0, seed: int = 0, **columns: Any) -> EmbeddingTable:
    """n samples round the points of eight classes."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % 8
    vectors = rng.standard_normal((8, 10))[classes] + noise * rng.standard_normal((n, 10))
    nodes = TREE.leaves[torch.from_numpy(classes)]
    return EmbeddingTable(torch.from_numpy(vectors).float(), nodes, **columns)


def run(table: EmbeddingTable, **options: Any) -> ProtocolResult:
    settings = EvaluationSettings(options={"folds": {"repeats": 1, **options}}, resamples=100)
    return evaluate(table, TREE, protocols=["folds"], settings=settings).main.protocols["folds"]


def without_each_fold(table: EmbeddingTable, fold: Tensor, penalty: float) -> Tensor:
    """Outputs of heads that are solved anew, each from the other folds."""
    vectors = table.embeddings
    outputs = torch.empty(len(table), 8, dtype=torch.float64)
    for number in fold.unique():
        others, held = fold != number, fold == number
        moments = Moments.of(vectors[others], table.nodes[others])
        outputs[held] = TreeRidge.of(moments, TREE, penalty=penalty, scale=1.0).outputs(vectors[held])
    return outputs


def calibrated(head: TreeRidge, outputs: Tensor, fold: Tensor, nodes: Tensor) -> Tensor:
    """Log-probabilities; slopes and offsets of a fold, if the head has any, are fitted to the other folds."""
    classes, logs = ClassNodes(head.classes, TREE), (head.scale * outputs).log_softmax(1)
    if bool((head.calibration[head.classes] == torch.tensor([1.0, 0.0])).all()):
        return logs
    for number in fold.unique():
        others, held = fold != number, fold == number
        scores = head.scale * outputs
        fitted = fit_calibrator(scores[others], nodes[others], classes, "vector", quick=True)
        logs[held] = fitted(scores[held], classes)
    return logs


@pytest.mark.parametrize("groups", some_now([np.arange(96) // 8 % 11, None]))
def test_numbers_are_those_of_heads_that_are_solved_anew(groups: np.ndarray | None) -> None:
    table = samples(groups=None if groups is None else torch.from_numpy(groups))
    penalty, right, loss, recall, precision, ahp = 0.3, [], [], [], [], []
    for seed in range(2):
        fold = make_folds(table.nodes, TREE, 4, groups=table.groups, seed=seed)
        outputs = without_each_fold(table, fold, penalty)
        head, seen = fit_tree_ridge(
            table.embeddings, table.nodes, TREE, groups=table.groups, penalty=penalty, folds=4, seed=seed
        )
        torch.testing.assert_close(seen.outputs, outputs, rtol=0, atol=1e-8)
        logs = calibrated(head, outputs, fold, table.nodes)
        target = torch.searchsorted(head.classes, table.nodes)
        right.append((logs.argmax(1) == target).double())
        loss.append(nll_loss(logs, target, reduction="none"))
        if seed == 0:
            z = head.place(outputs, logs.exp(), table.embeddings).float()
            for number in fold.unique():
                rows = fold == number
                among: dict[str, Any] = {"reduction": "none"}
                if groups is not None:
                    among["query_groups"] = table.groups[rows]
                recall.append(recall_at_k(z[rows], table.nodes[rows], ks=(1,), **among)[1])
                precision.append(map_at_r(z[rows], table.nodes[rows], **among))
                ahp.append(average_hierarchical_precision(z[rows], table.nodes[rows], TREE, k=250, **among))
    result = run(table, folds=4, repeats=2, penalty=penalty)
    scores = result.scores
    assert scores["top1"] == pytest.approx(float(torch.stack(right).mean()), abs=1e-8)
    assert scores["nll"] == pytest.approx(float(torch.stack(loss).mean()), abs=1e-8)
    assert scores[f"{SEARCH}.recall_at_1"] == pytest.approx(float(torch.cat(recall).nanmean()), abs=1e-6)
    assert scores[f"{SEARCH}.map_at_r"] == pytest.approx(float(torch.cat(precision).nanmean()), abs=1e-6)
    assert scores[f"{SEARCH}.ahp"] == pytest.approx(float(torch.cat(ahp).nanmean()), abs=1e-6)
    low, high = result.intervals["top1"]
    assert 0 < low < scores["top1"] < high <= 1
    assert result.counts["folds"] == 4
    assert result.counts.get("groups") == (None if groups is None else 11)


def test_means_of_mistakes_count_every_mistake_once() -> None:
    table, severities = samples(noise=2.5), []
    for seed in range(3):
        _, seen = fit_tree_ridge(table.embeddings, table.nodes, TREE, penalty=1.0, seed=seed)
        answers = seen.classes[seen.probabilities.argmax(1)]
        wrong = answers != table.nodes
        common = TREE.lca(answers[wrong], table.nodes[wrong])
        severities.append(3 - TREE.depth[common])
    mistakes = torch.cat(severities).double()
    assert run(table, penalty=1.0, repeats=3).scores["mistake_severity"] == pytest.approx(
        float(mistakes.mean())
    )


def test_settings_of_the_search_are_options() -> None:
    table = samples(noise=1.5)
    name = f"{SEARCH}.ahp"
    assert run(table, tree=1.0, instance=0.0).scores[name] > run(table, tree=0.0, instance=0.0).scores[name]


@pytest.mark.long
def test_labels_at_random_are_answered_by_chance() -> None:
    rng = np.random.default_rng(3)
    tops, recalls = [], []
    for seed in range(4):
        table = samples(50, seed=seed)
        result = run(replace(table, nodes=table.nodes[torch.from_numpy(rng.permutation(50))]), repeats=1)
        tops.append(result.scores["top1"])
        recalls.append(result.scores[f"{SEARCH}.recall_at_1"])
    assert abs(np.mean(tops) - 1 / 8) < 0.07  # the standard error is about 0.02
    assert abs(np.mean(recalls) - 0.1) < 0.13


def test_what_training_has_not_seen_stays_out() -> None:
    split = np.array(["train", "val", "test", "unseen"])[np.arange(96) // 8 % 4]
    table = samples(split=split)
    assert run(table).counts["samples"] == 48
    assert run(table, splits="test").counts["samples"] == 24
    moved = table.embeddings.clone()
    moved[torch.from_numpy(split == "test")] = 1.0
    assert run(table).scores == run(replace(table, embeddings=moved)).scores
    assert run(table.rows(torch.from_numpy(split == "test"))).counts["samples"] == 24  # it has no other


def test_an_encoder_that_has_seen_the_labels_is_refused() -> None:
    result = run(samples(learned_features=True))
    assert result.refusal is not None
    assert "judged far too well" in result.refusal


def test_learning_curves_rise_to_all_samples() -> None:
    result = run(samples(160, noise=2.0), per_class=(2, 1000), shares=(0.3, 1.0), repeats=1)
    few, many = result.curves["top1_by_per_class"]
    assert few < many == result.curves["top1_by_share"][1]
    assert result.axes["top1_by_per_class"] == [2.0, 1000.0]
    assert abs(many - result.scores["top1"]) < 0.1  # λ is chosen by other folds


def test_sure_answers_are_coarser_and_hold_the_truth() -> None:
    result = run(samples(400, noise=2.0))
    at = result.axes["coverage_by_coverage"].index(0.9)
    assert abs(result.curves["coverage_by_coverage"][at] - 0.9) < 0.05
    assert result.curves["depth_by_coverage"][at] < result.curves["depth_by_coverage"][0]


def test_a_class_with_one_sample_is_an_error_and_named() -> None:
    table = samples(64)
    nodes = table.nodes.clone()
    nodes[(nodes == TREE.leaves[7]).nonzero()[1:, 0]] = -1
    result = run(replace(table, nodes=nodes))
    assert result.counts["samples"] == 57
    assert any(note.startswith("1 sample belongs to classes that lie in one fold") for note in result.notes)
    assert any("have none of the same class to find" in note for note in result.notes)


def test_fewer_groups_than_folds() -> None:
    groups = torch.arange(96) // 32
    result = run(samples(groups=groups))
    assert (result.counts["groups"], result.counts["folds"]) == (3, 3)
    assert "There are 3 groups with labels, so there are no more folds." in result.notes
    assert math.isnan(result.intervals.get("top1", (math.nan,))[0])  # three groups are too few
    split = np.array(["train", "test"])[np.arange(96) % 2]
    alone = run(samples(groups=torch.where(torch.arange(96) % 2 == 0, 0, 1), split=split))
    assert alone.refusal is not None
    assert alone.refusal.startswith("all samples are of one group")


def test_one_class() -> None:
    table = samples(split=np.array(["train", "test"])[np.arange(96) // 8 % 2])
    nodes = torch.where(torch.arange(96) // 8 % 2 == 0, TREE.leaves[0], table.nodes)
    refusal = run(replace(table, nodes=nodes)).refusal
    assert refusal is not None
    assert "at least two classes" in refusal


def test_labels_at_inner_nodes_alone_are_classes() -> None:
    table = samples()
    families = TREE.parent[table.nodes]
    result = run(replace(table, nodes=families))
    assert result.scores["top1"] > 0.5
    mixed = torch.where(torch.arange(96) % 5 == 0, families, table.nodes)
    coarse = run(replace(table, nodes=mixed))
    assert coarse.counts["samples"] == 96
    assert 0 < coarse.scores["top1"] < 1


def test_several_labels() -> None:
    table = samples()
    second = torch.where(torch.arange(96) % 4 == 0, TREE.leaves[(torch.arange(96) + 3) % 8], -1)
    sets = torch.stack([table.nodes, second], 1)
    common = torch.where(second >= 0, TREE.lca(table.nodes, second.clamp_min(0)), table.nodes)
    result = run(replace(table, nodes=common, label_sets=sets), repeats=3)
    assert result.counts["samples"] == 96
    right = []
    for seed in range(3):
        _, seen = fit_tree_ridge(table.embeddings, sets, TREE, seed=seed)
        answers = seen.classes[seen.probabilities.argmax(1)]
        right.append((answers[:, None] == sets).any(1).double().mean())
    assert result.scores["top1"] == pytest.approx(float(torch.stack(right).mean()))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"folds": 1}, "folds"),
        ({"repeats": 0}, "repeats"),
        ({"per_class": (0,)}, "per_class"),
        ({"shares": (2.0,)}, "shares"),
        ({"tree": 2.0}, "tree"),
        ({"penalty": -1.0}, "penalty"),
        ({"similarity": "width"}, "similarity"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run(samples(), **options)


def test_what_the_encoder_has_seen_is_said_or_refused() -> None:
    words = "does not say whether the encoder has seen"
    assert any(words in note for note in run(samples()).notes)
    assert not any(words in note for note in run(samples(learned_features=False)).notes)
    assert (
        "trained on these samples" in run(samples(learned_features=True)).title
        or not run(samples(learned_features=True)).scores
    )
