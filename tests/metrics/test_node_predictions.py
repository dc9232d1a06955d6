"""Predicted against true nodes, compared with walks over the tree."""

import math
from itertools import pairwise

import pytest
import torch
from metric_loops import PATHS, Tree, mean, ragged_tree
from sklearn.metrics import accuracy_score, f1_score

from labeltree.metrics import functional
from labeltree.taxonomy import Taxonomy

TAXONOMY = ragged_tree()
TREE = Tree(TAXONOMY)


def random_nodes(count: int, seed: int, lowest: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(lowest, TAXONOMY.num_nodes, (count,), generator=generator).tolist()


# every kind of label (missing, root, inner, leaf) against every kind of prediction
TARGETS = random_nodes(300, 0, -1)
PREDICTED = [
    t if i % 3 == 0 and t >= 0 else p
    for i, (t, p) in enumerate(zip(TARGETS, random_nodes(300, 1, 0), strict=True))
]


def judged(predicted: int, target: int, undecided: str) -> int:
    """The prediction, cut to the depth of an inner-node label."""
    if undecided == "negative" or target in TREE.leaves:
        return predicted
    return TREE.line(predicted)[: TREE.depth(target) + 1][-1]


def slow(name: str, predicted: int, target: int, undecided: str) -> float:
    if target <= 0:
        return math.nan
    p = judged(predicted, target, undecided)
    if name in ("f1", "f1 with root"):
        ours, theirs = TREE.line(p), TREE.line(target)
        if name == "f1":
            ours, theirs = ours[1:], theirs[1:]
        common = len(set(ours) & set(theirs))
        precision = common / len(ours) if ours else 0.0
        recall = common / len(theirs)
        return 2 * precision * recall / (precision + recall) if common else 0.0
    if name == "tree accuracy":
        edges = len(set(TREE.line(p)) ^ set(TREE.line(target)))
        return 1 - edges / (2 * TREE.max_depth)
    return math.nan if p == target else float(TREE.height(TREE.lca(p, target)))


@pytest.mark.parametrize("undecided", ["ignore", "negative"])
@pytest.mark.parametrize("name", ["f1", "f1 with root", "tree accuracy", "severity"])
def test_against_walks(name: str, undecided: str) -> None:
    functions = {
        "f1": functional.hierarchical_f1,
        "f1 with root": lambda *a, **k: functional.hierarchical_f1(*a, include_root=True, **k),
        "tree accuracy": functional.tree_accuracy,
        "severity": functional.mistake_severity,
    }
    pair = (torch.tensor(PREDICTED), torch.tensor(TARGETS), TAXONOMY)
    expected = [slow(name, p, t, undecided) for p, t in zip(PREDICTED, TARGETS, strict=True)]
    each = functions[name](*pair, undecided=undecided, reduction="none")
    torch.testing.assert_close(each, torch.tensor(expected, dtype=torch.float64), equal_nan=True)
    assert functions[name](*pair, undecided=undecided).item() == pytest.approx(mean(expected))


def test_accuracy_by_depth_against_walks() -> None:
    expected = []
    for depth in range(1, TREE.max_depth + 1):
        decided = [(p, t) for p, t in zip(PREDICTED, TARGETS, strict=True) if TREE.cut(t, depth) is not None]
        expected.append(mean([float(TREE.cut(p, depth) == TREE.cut(t, depth)) for p, t in decided]))
    accuracy = functional.accuracy_by_depth(torch.tensor(PREDICTED), torch.tensor(TARGETS), TAXONOMY)
    assert accuracy.tolist() == pytest.approx(expected)
    assert all(coarse != fine for coarse, fine in pairwise(expected)), "the depths must be told apart"


def test_on_leaves_the_finest_accuracy_is_scikit_learns() -> None:
    leaves = TAXONOMY.leaves[torch.randint(TAXONOMY.num_leaves, (2, 80))]
    expected = accuracy_score(leaves[0], leaves[1])
    assert functional.accuracy_by_depth(*leaves, TAXONOMY)[-1].item() == pytest.approx(expected)


def test_hierarchical_f1_is_the_sample_f1_of_indicator_matrices() -> None:
    leaves = TAXONOMY.leaves[torch.randint(TAXONOMY.num_leaves, (2, 60))]
    indicators = torch.zeros(2, 60, TAXONOMY.num_nodes, dtype=torch.int64)
    for side in range(2):
        for row, leaf in enumerate(leaves[side].tolist()):
            indicators[side, row, TREE.line(leaf)] = 1
    for include_root in (False, True):
        columns = indicators if include_root else indicators[:, :, 1:]
        expected = f1_score(columns[1].numpy(), columns[0].numpy(), average="samples", zero_division=0)
        assert functional.hierarchical_f1(*leaves, TAXONOMY, include_root).item() == pytest.approx(expected)


def test_equal_names_under_different_parents_are_different_nodes() -> None:
    predicted, target = TAXONOMY.encode([("animal", "dog", "other"), ("animal", "cat", "other")]).split(1)
    assert functional.accuracy_by_depth(predicted, target, TAXONOMY).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_an_inner_label_asks_nothing_below_itself() -> None:
    target = torch.tensor([TAXONOMY.encode(["animal/dog"]).item()] * 2)
    predicted = TAXONOMY.encode(["animal/dog/poodle", "animal/cat/tabby"])
    pair = (predicted, target, TAXONOMY)
    assert functional.hierarchical_f1(*pair, reduction="none").tolist() == [1.0, 0.5]
    assert functional.tree_accuracy(*pair, reduction="none").tolist() == [1.0, 0.75]
    assert functional.mistake_severity(*pair, reduction="none").isnan().tolist() == [True, False]
    assert functional.hierarchical_f1(*pair, undecided="negative", reduction="none")[0] == pytest.approx(0.8)


def test_dictionary_agrees_with_the_functions_and_counts() -> None:
    pair = (torch.tensor(PREDICTED), torch.tensor(TARGETS), TAXONOMY)
    metrics = functional.classification_metrics(*pair)
    by_depth = functional.accuracy_by_depth(*pair)
    for depth in range(1, 5):
        assert metrics[f"accuracy/depth{depth}"] == by_depth[depth - 1]
        known = sum(TREE.cut(target, depth) is not None for target in TARGETS)
        assert metrics[f"samples/depth{depth}"].item() == known
    assert metrics["accuracy"] == by_depth[-1]
    with_root = functional.hierarchical_f1(*pair, include_root=True)
    torch.testing.assert_close(metrics["hierarchical_f1"], functional.hierarchical_f1(*pair))
    torch.testing.assert_close(metrics["hierarchical_f1/with_root"], with_root)
    torch.testing.assert_close(metrics["tree_accuracy"], functional.tree_accuracy(*pair))
    torch.testing.assert_close(metrics["mistake_severity"], functional.mistake_severity(*pair))
    assert metrics["samples"].item() == sum(target > 0 for target in TARGETS)
    assert metrics["samples_left_out"].item() == sum(target <= 0 for target in TARGETS)
    slow_mistakes = [slow("severity", p, t, "ignore") for p, t in zip(PREDICTED, TARGETS, strict=True)]
    assert metrics["mistakes"].item() == sum(not math.isnan(value) for value in slow_mistakes)


@pytest.mark.parametrize("targets", [[], [-1, -1], [0]])
def test_nothing_to_judge_is_nan(targets: list[int]) -> None:
    target = torch.tensor(targets, dtype=torch.int64)
    pair = (torch.full_like(target, 1), target, TAXONOMY)
    assert functional.hierarchical_f1(*pair).isnan()
    assert functional.tree_accuracy(*pair).isnan()
    assert functional.mistake_severity(*pair).isnan()
    assert functional.accuracy_by_depth(*pair).isnan().tolist() == [True] * 4
    assert functional.classification_metrics(*pair)["samples_left_out"].item() == len(targets)


def test_one_class() -> None:
    taxonomy = Taxonomy.from_paths([("only",)])
    nodes = taxonomy.encode(["only", "only"])
    assert functional.hierarchical_f1(nodes, nodes, taxonomy).item() == 1.0
    assert functional.tree_accuracy(nodes, nodes, taxonomy).item() == 1.0
    assert functional.mistake_severity(nodes, nodes, taxonomy).isnan()
    assert functional.accuracy_by_depth(nodes, nodes, taxonomy).tolist() == [1.0]


def test_ids_above_2_to_the_24th_stay_apart() -> None:
    """A taxonomy this large is too slow to build here; a stand-in records what it is asked."""
    first, second = 2**24, 2**24 + 1  # equal in float32
    asked = {}

    class Giant:
        num_nodes, max_depth = 2**25, 1
        parent = depth = is_leaf = None

        def path_length(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            asked["pair"] = (u.tolist(), v.tolist())
            return (u != v).long() * 2

    pair = torch.tensor([first, first]), torch.tensor([first, second])
    accuracy = functional.tree_accuracy(*pair, Giant(), undecided="negative")  # type: ignore[arg-type]
    assert asked["pair"] == ([first, first], [first, second])
    assert accuracy.item() == 0.5


@pytest.mark.parametrize(
    ("predicted", "target", "message"),
    [
        ([1, -1], [1, 1], "predicted_nodes holds -1 in row 1"),
        ([1, len(PATHS) * 9], [1, 1], "predicted_nodes holds 81 in row 1; expected nodes of the taxonomy"),
        ([1, 1], [1, -2], "target_nodes holds -2 in row 1"),
        ([1, 1], [1], "predicted_nodes has 2 rows, target_nodes 1"),
        ([1.0, 1.0], [1, 1], "predicted_nodes has dtype torch.float32"),
        ([[1]], [1], r"predicted_nodes has shape \(1, 1\)"),
    ],
)
def test_bad_arguments_are_named(predicted: list[int], target: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        functional.hierarchical_f1(torch.tensor(predicted), torch.tensor(target), TAXONOMY)


def test_bad_choices_are_named() -> None:
    node = torch.tensor([1])
    with pytest.raises(ValueError, match="reduction is 'sum'; expected 'mean' or 'none'"):
        functional.tree_accuracy(node, node, TAXONOMY, reduction="sum")
    with pytest.raises(ValueError, match="undecided is 'drop'; expected 'ignore' or 'negative'"):
        functional.tree_accuracy(node, node, TAXONOMY, undecided="drop")  # type: ignore[arg-type]


def test_a_missing_prediction_of_an_unlabelled_sample_is_no_error() -> None:
    assert functional.tree_accuracy(torch.tensor([-1, 1]), torch.tensor([-1, 1]), TAXONOMY).item() == 1.0
