"""Every node against the rest, compared with sets built by walks and with scikit-learn."""

import math
import sys

import numpy as np
import pytest
import torch
from dag_loops import random_dag
from metric_loops import ragged_tree
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score, roc_curve

from labeltree.metrics import functional
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyDAG

DAG = TaxonomyDAG.from_edges(
    [
        ("vehicle", "thing"),
        ("golf", "thing"),
        ("car", "vehicle"),
        ("van", "car"),
        ("cab", "car"),
        ("golf cart", "vehicle"),
        ("golf cart", "golf"),
        ("ball", "golf"),
        ("electric cart", "golf cart"),
        ("petrol cart", "golf cart"),
        ("cab", "golf"),
        ("stone", "thing"),
    ]
)
TREE = ragged_tree()
FLAT = Taxonomy.from_paths(["benign", "malignant", "unsure"])
TAXONOMIES: dict[str, AnyTaxonomy] = {"tree": TREE, "dag": DAG, "random dag": random_dag(3), "flat": FLAT}


def walks(taxonomy: AnyTaxonomy) -> list[set[int]]:
    """Each node with its ancestors, found through the children of every node."""
    children = [set(taxonomy.children(v)) for v in range(taxonomy.num_nodes)]

    def up(node: int) -> set[int]:
        return {node}.union(*(up(v) for v in range(taxonomy.num_nodes) if node in children[v]))

    return [up(node) for node in range(taxonomy.num_nodes)]


def says(up: list[set[int]], label: int, node: int) -> int | None:
    """1 if the label lies at or below the node, 0 if it cannot, None if that is open."""
    if label <= 0:
        return None
    if node in up[label]:
        return 1
    return None if any({label, node} <= line for line in up) else 0


class Case:
    """Labels of all kinds, probabilities with ties, and for every node what a walk says of them."""

    def __init__(self, taxonomy: AnyTaxonomy, seed: int, count: int = 90, steps: int = 6) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.taxonomy = taxonomy
        self.target = torch.randint(-1, taxonomy.num_nodes, (count,), generator=generator)
        self.predicted = torch.randint(0, taxonomy.num_nodes, (count,), generator=generator)
        # multiples of a power of two add up exactly, so that equal sums are ties for everybody
        shape = (count, taxonomy.num_leaves)
        self.probabilities = torch.randint(0, steps, shape, generator=generator).double() / 64
        self.up = up = walks(taxonomy)
        nodes, leaves = range(taxonomy.num_nodes), taxonomy.leaves.tolist()
        self.under = [[i for i, leaf in enumerate(leaves) if v in up[leaf]] for v in nodes]
        self.state = [[says(up, label, v) for label in self.target.tolist()] for v in nodes]
        self.known = [[i for i in range(count) if self.state[v][i] is not None] for v in nodes]

    def one(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """Truth and score of the samples that count for a node."""
        rows = self.known[node]
        truth = np.array([self.state[node][i] for i in rows], dtype=int)
        return truth, self.probabilities[rows][:, self.under[node]].sum(1).numpy()

    def defined(self, node: int) -> bool:
        return len(set(self.one(node)[0].tolist())) == 2


CASES = {f"{name} {seed}": Case(taxonomy, seed) for seed in (0, 1) for name, taxonomy in TAXONOMIES.items()}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")


def near(found: float, expected: float) -> bool:
    return found == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", CASES)
def test_scores_are_sums_over_the_leaves_below(name: str) -> None:
    case = CASES[name]
    scores = functional.node_scores(case.probabilities, case.taxonomy)
    for node in range(case.taxonomy.num_nodes):
        expected = case.probabilities[:, case.under[node]].sum(1)
        torch.testing.assert_close(scores[:, node], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_auroc_and_average_precision_are_scikit_learns(name: str) -> None:
    case = CASES[name]
    found = functional.node_ranking_metrics(case.probabilities, case.target, case.taxonomy)
    for node in range(case.taxonomy.num_nodes):
        if not case.defined(node):
            assert found["auroc"][node].isnan()
            assert found["average_precision"][node].isnan()
            continue
        truth, score = case.one(node)
        assert near(found["auroc"][node].item(), roc_auc_score(truth, score))
        assert near(found["average_precision"][node].item(), average_precision_score(truth, score))
        pairs = [(a > b) + 0.5 * (a == b) for a in score[truth == 1] for b in score[truth == 0]]
        assert near(found["auroc"][node].item(), sum(pairs) / len(pairs))
    assert int((~found["auroc"].isnan()).sum()) >= 3


@pytest.mark.parametrize("name", CASES)
def test_decisions_are_scikit_learns_confusion_matrix(name: str) -> None:
    case = CASES[name]
    found = functional.node_decision_metrics(case.predicted, case.target, case.taxonomy)
    for node in range(case.taxonomy.num_nodes):
        truth, _ = case.one(node)
        said = np.array([node in case.up[int(case.predicted[i])] for i in case.known[node]], int)
        if not len(truth):
            assert found["sensitivity"][node].isnan()
            continue
        tn, fp, fn, tp = confusion_matrix(truth, said, labels=[0, 1]).ravel().tolist()
        counts = ("true_negatives", "false_positives", "false_negatives", "true_positives")
        assert [found[count][node].item() for count in counts] == [tn, fp, fn, tp]
        for rate, part, whole in (
            ("sensitivity", tp, tp + fn),
            ("specificity", tn, tn + fp),
            ("ppv", tp, tp + fp),
            ("npv", tn, tn + fn),
        ):
            assert near(found[rate][node].item(), part / whole if whole else math.nan)
        if tp + fn and tn + fp:
            both = tp / (tp + fn) + tn / (tn + fp)
            assert near(found["balanced_accuracy"][node].item(), both / 2)


@pytest.mark.parametrize("sensitivity", [None, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_operating_points_against_the_roc_curve(name: str, sensitivity: float | None) -> None:
    case = CASES[name]
    chosen = functional.node_thresholds(
        case.probabilities, case.target, case.taxonomy, sensitivity=sensitivity
    )
    for node in range(case.taxonomy.num_nodes):
        if not case.defined(node):
            assert chosen[node].isnan()
            continue
        truth, score = case.one(node)
        fpr, tpr, thresholds = roc_curve(truth, score, drop_intermediate=False)
        fpr, tpr, thresholds = fpr[1:], tpr[1:], thresholds[1:]  # the first calls nothing positive
        if sensitivity is None:
            fits = np.isclose(tpr - fpr, (tpr - fpr).max(), atol=1e-12, rtol=0)
        else:
            fits = tpr >= sensitivity - 1e-12
        assert chosen[node].item() == thresholds[fits].max()


@pytest.mark.parametrize("name", CASES)
def test_metrics_at_thresholds_against_loops(name: str) -> None:
    case, other = CASES[name], Case(CASES[name].taxonomy, 7)
    thresholds = functional.node_thresholds(case.probabilities, case.target, case.taxonomy, sensitivity=0.8)
    found = functional.node_metrics_at(thresholds, other.probabilities, other.target, case.taxonomy)
    for node in range(case.taxonomy.num_nodes):
        truth, score = other.one(node)
        if thresholds[node].isnan() or not other.defined(node):
            assert found["sensitivity"][node].isnan()
            continue
        said = score >= thresholds[node].item()
        assert found["true_positives"][node].item() == int((said & (truth == 1)).sum())
        assert found["false_positives"][node].item() == int((said & (truth == 0)).sum())
        assert near(found["sensitivity"][node].item(), said[truth == 1].mean())
        assert near(found["specificity"][node].item(), (~said[truth == 0]).mean())


@pytest.mark.parametrize("seed", [0, 1])
def test_a_tree_seen_as_a_dag_gives_the_same(seed: int) -> None:
    case = CASES[f"tree {seed}"]
    edges = [(v, int(p)) for v, p in enumerate(TREE.parent.tolist()) if p >= 0]
    dag = TaxonomyDAG(TREE.names, [[p for u, p in edges if u == v] for v in range(TREE.num_nodes)])
    torch.testing.assert_close(
        functional.node_auroc(case.probabilities, case.target, dag),
        functional.node_auroc(case.probabilities, case.target, TREE),
        rtol=0,
        atol=0,
        equal_nan=True,
    )


def test_blocks_of_nodes_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["dag 0"]
    whole = functional.node_ranking_metrics(case.probabilities, case.target, DAG)
    monkeypatch.setattr(sys.modules["labeltree.metrics.functional.node_labels"], "_BLOCK", 150)
    parts = functional.node_ranking_metrics(case.probabilities, case.target, DAG)
    for key in whole:
        torch.testing.assert_close(parts[key], whole[key], rtol=0, atol=0, equal_nan=True)


def test_a_subset_of_classes_scores_only_the_nodes_above_it() -> None:
    classes = TREE.encode(["poodle", "tabby", "worm"])
    target = TREE.encode(["poodle", "tabby", "worm", "red oak", "stone"])
    probabilities = torch.tensor(
        [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8], [0.4, 0.4, 0.2]]
    )
    auroc = functional.node_auroc(probabilities, target, TREE, classes=classes)
    assert auroc[TREE.find("poodle")].item() == 1.0
    assert auroc[TREE.find("worm")].item() == 0.75
    assert auroc[TREE.encode(["red oak", "stone", "plant"])].isnan().all(), "nothing scores them"


def test_a_node_of_one_kind_of_samples_is_undefined() -> None:
    probabilities = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    for target in ([1, 1], [-1, 0], [-1, 1]):
        nodes = torch.tensor(target)
        assert functional.node_auroc(probabilities, nodes, FLAT).isnan().all()
        assert functional.node_thresholds(probabilities, nodes, FLAT).isnan().all()
    assert functional.node_auroc(probabilities[:0], torch.tensor([], dtype=torch.int64), FLAT).isnan().all()


def test_ties_count_one_half() -> None:
    probabilities, target = torch.full((4, 3), 1 / 3), torch.tensor([1, 1, 2, 3])
    assert functional.node_auroc(probabilities, target, FLAT)[1:].tolist() == [0.5] * 3
    assert functional.node_average_precision(probabilities, target, FLAT)[1:].tolist() == [0.5, 0.25, 0.25]


def test_a_label_above_a_node_is_left_out_of_it() -> None:
    target = TREE.encode(["animal/dog/poodle", "animal/dog", "animal/cat/tabby", "stone"])
    found = functional.node_decision_metrics(target.flip(0), target, TREE)
    kinds = ("true_positives", "false_positives", "false_negatives", "true_negatives")
    counted = sum(found[kind] for kind in kinds)
    assert counted[TREE.encode(["poodle", "animal/dog", "stone"])].tolist() == [3, 4, 4]


def test_on_a_dag_a_label_leaves_open_what_shares_descendants_with_it() -> None:
    """A vehicle may be a golf cart, so that it says nothing of golf; a van is none, so it does."""
    target = DAG.encode(["vehicle", "van", "ball"])
    found = functional.node_decision_metrics(DAG.encode(["ball", "ball", "van"]), target, DAG)
    golf = DAG.find("golf")
    kinds = ("true_positives", "false_positives", "false_negatives", "true_negatives")
    assert [found[kind][golf].item() for kind in kinds] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("probabilities", "classes", "message"),
    [
        (torch.rand(2, 2), None, r"probabilities has shape \(2, 2\).* expected .* \(n, 3\)"),
        (torch.ones(2, 3).long(), None, "dtype torch.int64"),
        (torch.tensor([[0.1, 0.2, 0.7], [0.1, -0.5, 0.7]]), None, "holds -0.5 in row 1; .* softmax"),
        (torch.full((2, 3), math.nan), None, "holds nan in row 0"),
        (torch.rand(2, 3), torch.tensor([1, 2, 9]), "classes holds 9; expected nodes of the taxonomy"),
        (torch.rand(2, 3), torch.tensor([1, 2, 2]), "classes holds 2 twice"),
        (torch.rand(3, 3), None, "probabilities has 3 rows, target_nodes 2"),
    ],
)
def test_bad_probabilities_are_named(
    probabilities: torch.Tensor, classes: torch.Tensor | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        functional.node_auroc(probabilities, torch.tensor([1, 2]), FLAT, classes=classes)


def test_other_bad_arguments_are_named() -> None:
    probabilities, target = torch.full((2, 3), 1 / 3), torch.tensor([1, 2])
    with pytest.raises(ValueError, match="sensitivity is 95; expected a share"):
        functional.node_thresholds(probabilities, target, FLAT, sensitivity=95)
    with pytest.raises(ValueError, match=r"thresholds has shape \(3,\).* each of the 4 nodes"):
        functional.node_metrics_at(torch.zeros(3), probabilities, target, FLAT)
    with pytest.raises(ValueError, match="predicted_nodes holds -1 in row 1"):
        functional.node_decision_metrics(torch.tensor([1, -1]), target, FLAT)
    with pytest.raises(ValueError, match="target_nodes holds 9 in row 0"):
        functional.node_decision_metrics(target, torch.tensor([9, 1]), FLAT)
