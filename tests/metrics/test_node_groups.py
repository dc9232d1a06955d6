"""One prediction for several samples: against loops over the groups; labels that contradict each other."""

import math

import pytest
import torch
from metric_loops import ragged_tree

from labeltree.metrics.functional import group_labels, group_probabilities
from labeltree.metrics.functional.pool_groups import Aggregation
from labeltree.taxonomy import TaxonomyDAG

TREE = ragged_tree()
GROUPS = [4, -1, 9, 4, 4, -1, 9, 2, 4]
PROBABILITIES = torch.randn(9, 3, generator=torch.Generator().manual_seed(0)).softmax(dim=1)


def members() -> list[list[int]]:
    named = [[i for i, g in enumerate(GROUPS) if g == name] for name in (2, 4, 9)]
    return [*named, [1], [5]]


def slow(rows: list[list[float]], how: str) -> list[float]:
    columns = list(zip(*rows, strict=True))
    if how == "mean":
        return [sum(column) / len(rows) for column in columns]
    if how == "vote":
        votes = [row.index(max(row)) for row in rows]
        return [votes.count(c) / len(rows) for c in range(len(columns))]
    if how == "max":
        values = [max(column) for column in columns]
    else:
        values = [math.exp(sum(map(math.log, column)) / len(rows)) for column in columns]
    return [value / sum(values) for value in values]


@pytest.mark.parametrize("how", ["mean", "logits", "max", "vote"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_against_loops(how: Aggregation, dtype: torch.dtype) -> None:
    given = PROBABILITIES.to(dtype)
    found = group_probabilities(given, torch.tensor(GROUPS), how)
    assert found.groups.tolist() == [2, 4, 9, -1, -1]
    for place, rows in enumerate(members()):
        expected = slow([given[i].double().tolist() for i in rows], how)
        assert found.probabilities[place].tolist() == pytest.approx(expected, abs=1e-12)
        best = max(expected)
        assert expected[int(found.columns[place])] == pytest.approx(best)


def test_a_tied_vote_goes_to_the_greater_mean_probability_then_to_the_first() -> None:
    split = torch.tensor([[0.6, 0.4, 0.0], [0.1, 0.9, 0.0]])
    assert group_probabilities(split, torch.zeros(2).long(), "vote").columns.tolist() == [1]
    even = torch.tensor([[0.25, 0.75], [0.75, 0.25]])
    assert group_probabilities(even, torch.zeros(2).long(), "vote").columns.tolist() == [0]


def test_a_probability_of_zero_is_no_infinity() -> None:
    certain = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    found = group_probabilities(certain, torch.zeros(3).long(), "logits")
    assert found.probabilities.isfinite().all()
    assert found.columns.tolist() == [1]


def test_logits_of_any_offset_give_the_softmax_of_their_mean() -> None:
    logits = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = group_probabilities(
        (logits + torch.arange(4)[:, None]).softmax(1), torch.zeros(4).long(), "logits"
    )
    torch.testing.assert_close(found.probabilities[0], logits.mean(0).softmax(0), rtol=0, atol=1e-12)


def test_the_label_of_a_group_is_its_finest() -> None:
    labels = ["animal", "animal/dog", "animal/dog/poodle", None, "stone", None, None]
    groups = torch.tensor([5, 5, 5, 5, 1, 8, -1])
    found = group_labels(TREE.encode(labels), groups, TREE)
    assert TREE.decode(found) == ["stone", "animal/dog/poodle", None, None]


def test_on_a_dag_labels_of_one_path_agree() -> None:
    dag = TaxonomyDAG.from_edges(
        [("a", "r"), ("b", "r"), ("x", "a"), ("x", "b"), ("x1", "x"), ("x2", "x"), ("c", "a")]
    )
    nodes = dag.encode(["a", "x1", "b", "x"])
    assert dag.decode(group_labels(nodes, torch.zeros(4).long(), dag)) == dag.decode(dag.encode(["x1"]))
    with pytest.raises(ValueError, match="group 0 has samples labelled 'b' and 'a/c'"):
        group_labels(dag.encode(["c", "b"]), torch.zeros(2).long(), dag)


def test_contradictions_are_named() -> None:
    nodes = TREE.encode(["stone", "animal/dog", "animal/cat/tabby", "stone", "plant"])
    message = (
        r"group 7 has samples labelled 'animal/dog' and 'animal/cat/tabby', which contradict each other "
        r"\(and so have 1 more groups\); give groups .* lesions"
    )
    with pytest.raises(ValueError, match=message):
        group_labels(nodes, torch.tensor([3, 7, 7, 8, 8]), TREE)
    assert len(group_labels(nodes, torch.tensor([-1, 7, -1, 8, -1]), TREE)) == 5


@pytest.mark.parametrize(
    ("probabilities", "groups", "how", "message"),
    [
        (PROBABILITIES, GROUPS[:-1], "mean", "probabilities has 9 rows, groups 8"),
        (PROBABILITIES, [0.5] * 9, "mean", "groups has dtype torch.float32"),
        (PROBABILITIES, GROUPS, "median", "aggregation is 'median'; expected one of 'mean'"),
        (PROBABILITIES * 2, GROUPS, "mean", "in row 0; .* sum to 1"),
        (PROBABILITIES - 1, GROUPS, "mean", "at least 0"),
        (PROBABILITIES[0], GROUPS, "mean", r"probabilities has shape \(3,\)"),
    ],
)
def test_bad_arguments_are_named(
    probabilities: torch.Tensor, groups: list[int], how: Aggregation, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        group_probabilities(probabilities, torch.tensor(groups), how)


def test_nothing_at_all() -> None:
    found = group_probabilities(torch.empty(0, 3), torch.empty(0, dtype=torch.int64))
    assert found.probabilities.shape == (0, 3)
    assert group_labels(torch.empty(0).long(), torch.empty(0).long(), TREE).shape == (0,)
