"""Evaluation of tables whose samples have several labels."""

import dataclasses

import numpy as np
import pytest
import torch

from labeltree.errors import DataError
from labeltree.evaluation import evaluate
from labeltree.evaluation.comparing.compare_outcomes import compare
from labeltree.options.evaluation import EvaluationSettings
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import common_ancestors

TREE = Taxonomy.from_paths(["heart/valve", "heart/rhythm", "lung/asthma", "lung/tumour"])
SETTINGS = EvaluationSettings(resamples=50, protocols=("node-scores",))


def planted(copies: int = 6, answers: str = "first") -> EmbeddingTable:
    """Classes on four axes; samples with two labels lie between the two, and are answered by one of them."""
    leaves = TREE.leaves.tolist()
    pairs = [[leaf, -1] for leaf in leaves] + [[leaves[0], leaves[1]], [leaves[1], leaves[2]]]
    sets = torch.tensor(pairs * 2 * copies)
    directions = torch.eye(4)
    vectors = torch.stack(
        [sum(directions[leaves.index(node)] for node in row if node >= 0) for row in sets.tolist()]
    )
    vectors = vectors + 0.01 * torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0))
    split = torch.arange(2).repeat_interleave(copies * len(pairs))
    predictions = {"first": sets[:, 0], "last": sets.amax(1), "wrong": torch.full((len(sets),), leaves[3])}
    return EmbeddingTable(
        vectors,
        common_ancestors(sets, TREE),
        split=np.array(["train", "test"])[split.numpy()],
        predictions=predictions[answers],
        label_sets=sets,
    )


@pytest.mark.parametrize("answers", ["first", "last"])
def test_an_answer_is_right_if_it_is_one_of_the_labels(answers: str) -> None:
    result = evaluate(planted(answers=answers), TREE, settings=SETTINGS)
    own = result.main.scores["predictions"]
    assert own["own_top1"] == own["own_tree_accuracy"] == 1.0
    assert result.main.by_depth["own"] == [1.0, 1.0]
    # Two labels below one node have three ancestors, and below two nodes four; an answer names two of them.
    singles, wanted = 4, 2 * 2 / (2 + 3) + 2 * 2 / (2 + 4)
    assert own["own_hierarchical_f1"] == pytest.approx((singles + wanted) / 6)
    assert result.counts["test samples with several labels"] == 12
    assert any("12 of 36 test samples and 12 of 36 training samples" in note for note in result.notes)


def test_the_protocol_of_label_sets() -> None:
    found = evaluate(planted(), TREE, settings=SETTINGS).main.protocols["label-sets"]
    assert found.scores["own.right"] == found.scores["own.right_several"] == 1.0
    assert found.scores["own.hierarchical_precision"] == 1.0
    recall = 2 * 6 / (4 * 2 + 3 + 4)  # of all ancestors, in each copy of the six kinds of samples
    assert found.scores["own.hierarchical_recall"] == pytest.approx(recall)
    assert found.scores["own.reachable_recall"] == pytest.approx(recall)
    assert found.counts["test samples with several labels"] == 12
    assert found.scores["embeddings.recall_at_1"] == 1.0
    assert "12 of 36 test samples have several labels" in found.notes[0]


def test_wrong_answers() -> None:
    result = evaluate(planted(answers="wrong"), TREE, settings=SETTINGS)
    own = result.main.scores["predictions"]
    assert own["own_top1"] == pytest.approx(1 / 6)
    assert result.main.by_depth["own"] == [pytest.approx(3 / 6), pytest.approx(1 / 6)]
    found = result.main.protocols["label-sets"].scores
    assert found["own.right_several"] == 0.0
    assert found["own.right_single"] == pytest.approx(1 / 4)


def test_classifiers_learn_from_every_label() -> None:
    """Where one class occurs only together with another, it is learned nevertheless."""
    table = planted()
    valve = TREE.find("valve")
    alone = (table.nodes == valve) & torch.from_numpy(table.split == "train")
    result = evaluate(table.rows(~alone), TREE, settings=SETTINGS)
    assert result.counts["classes learned"] == 4


def test_node_scores_count_every_label() -> None:
    found = evaluate(planted(), TREE, settings=SETTINGS).main.protocols["node-scores"]
    positives = found.by_node["answers.positives"]
    assert positives["heart/rhythm"] == 18  # alone, with the valve, and with asthma
    assert positives["heart"] == 24
    assert found.by_node["predictions.own_sensitivity"]["heart/valve"] == 1.0


def test_tables_with_one_label_are_as_before() -> None:
    table = planted()
    single = table.rows((table.label_sets[:, 1] < 0).nonzero()[:, 0])
    plain = dataclasses.replace(single, label_sets=None)
    one, other = (evaluate(t, TREE, settings=SETTINGS).to_dict() for t in (single, plain))
    assert one == other
    asked = evaluate(plain, TREE, settings=EvaluationSettings(resamples=0), protocols=["label-sets"])
    notes = asked.main.protocols["label-sets"].notes
    assert notes == ["Not measured: no test sample has several labels."]


def test_runs_are_compared_on_them() -> None:
    """The outcomes of two methods agree on the samples, whatever label is nearest to an answer."""
    outcomes = {
        name: next(iter(evaluate(planted(answers=name), TREE, settings=SETTINGS).outcomes.values()))
        for name in ("first", "wrong")
    }
    result = compare(outcomes, resamples=50, permutations=100)
    assert result.samples == 36
    found = result.metric("own_top1", "predictions").estimates
    assert (found["first"].value, found["wrong"].value) == (1.0, pytest.approx(1 / 6))


def test_labels_are_put_in_order() -> None:
    """Repeated labels, labels above others and other nodes than the common ancestors change nothing."""
    table = planted()
    heart, last = TREE.find("heart"), table.label_sets[:, :1]
    untidy = torch.cat([last, table.label_sets.flip(1)], 1)
    valve = (table.label_sets == TREE.find("valve")).any(1)
    untidy = torch.cat([torch.where(valve, heart, last[:, 0])[:, None], untidy], 1)
    other = dataclasses.replace(table, label_sets=untidy, nodes=table.label_sets[:, 0])
    one, two = (evaluate(t, TREE, settings=SETTINGS).to_dict() for t in (table, other))
    assert one == two


def test_labels_out_of_range() -> None:
    table = planted()
    sets = table.label_sets.clone()
    sets[0, 1] = TREE.num_nodes
    with pytest.raises(DataError, match=f"label_sets from -1 to {TREE.num_nodes}"):
        evaluate(dataclasses.replace(table, label_sets=sets), TREE, settings=SETTINGS)


def test_a_correction_replaces_all_labels() -> None:
    table = planted()
    nodes = table.nodes.clone()
    row = int(table.several.nonzero()[0])
    nodes[row] = TREE.find("tumour")
    changed = table.relabelled(nodes)
    assert changed.label_sets[row].tolist() == [TREE.find("tumour"), -1]
    assert int((changed.label_sets != table.label_sets).any(1).sum()) == 1
