"""AUROC, average precision and rates of counted groups: what scikit-learn has of rows written so often."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

from labeltree.metrics.functional import node_decision_metrics, node_metrics_at
from labeltree.metrics.functional.node_labels import NodeLabels, node_scores
from labeltree.metrics.functional.node_resampling import (
    RATES,
    CountedNodes,
    decided_nodes,
    nodes_at,
    ranked_nodes,
)
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyDAG

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([("a", "x", "1"), ("a", "x", "2"), ("a", "y"), ("b", "z"), ("b", "w"), ("c",)])
EDGES = "vehicle thing, golf thing, car vehicle, cart vehicle, cart golf, ball golf, van vehicle"
DAG = TaxonomyDAG.from_edges([tuple(edge.split()) for edge in EDGES.split(", ")])
CASES = [(TREE, 0, None), (TREE, 1, 1), (DAG, 2, None), (DAG, 3, 1)]


class Case:
    """Labels at any depth, some missing; scores with ties where they are rounded; groups and counts."""

    def __init__(self, taxonomy: AnyTaxonomy, seed: int, digits: int | None) -> None:
        rng = np.random.default_rng(seed)
        n = 70
        self.target = torch.from_numpy(rng.integers(-1, taxonomy.num_nodes, n))
        given = torch.from_numpy(rng.dirichlet(np.ones(taxonomy.num_leaves), n))
        self.probabilities = given if digits is None else given.round(decimals=digits)
        self.predicted = taxonomy.leaves[given.argmax(1)]
        self.predicted[:5] = torch.from_numpy(rng.integers(0, taxonomy.num_nodes, 5))
        self.groups = np.unique(rng.integers(0, 25, n), return_inverse=True)[1]
        self.count = int(self.groups.max()) + 1
        draws = rng.integers(0, self.count, (6, self.count))
        draws[5] = 0  # one group alone: most nodes have no positive or no negative sample
        self.counts = np.stack([np.bincount(drawn, minlength=self.count) for drawn in draws], axis=1)
        labels = NodeLabels.of("target", self.target, taxonomy)
        self.states = np.full((taxonomy.num_nodes, n), -1)
        self.states[:, labels.known] = labels.states(slice(0, taxonomy.num_nodes))[:, labels.label]

    def rows(self, draw: int) -> np.ndarray:
        return np.repeat(np.arange(len(self.groups)), self.counts[self.groups, draw])


@pytest.mark.parametrize(("taxonomy", "seed", "digits"), CASES)
def test_rankings_equal_scikit_learn_on_the_rows_drawn(
    taxonomy: AnyTaxonomy, seed: int, digits: int | None
) -> None:
    case = Case(taxonomy, seed, digits)
    scores = node_scores(case.probabilities, taxonomy).numpy()
    seen = set()
    for block in ranked_nodes(case.probabilities, case.target, taxonomy, case.groups, case.count):
        found = block.weighted(case.counts.astype(block.dtype))
        for draw in range(6):
            rows = case.rows(draw)
            for place, node in enumerate(block.nodes.tolist()):
                state = case.states[node, rows]
                truth, score = state[state >= 0], scores[rows[state >= 0], node]
                if 0 < truth.sum() < len(truth):
                    expected = roc_auc_score(truth, score), average_precision_score(truth, score)
                    assert (found[0][place, draw], found[1][place, draw]) == pytest.approx(
                        expected, abs=1e-12
                    )
                    seen.add(node)
                else:
                    assert np.isnan([found[0][place, draw], found[1][place, draw]]).all()
    assert len(seen) >= taxonomy.num_leaves


@pytest.mark.parametrize(("taxonomy", "seed", "digits"), CASES)
def test_influences_are_derivatives(taxonomy: AnyTaxonomy, seed: int, digits: int | None) -> None:
    case = Case(taxonomy, seed, digits)
    step = 1e-6
    counts = np.ones((case.count, 2 * case.count))
    counts[np.arange(case.count), np.arange(case.count)] += step
    counts[np.arange(case.count), case.count + np.arange(case.count)] -= step
    for block in ranked_nodes(case.probabilities, case.target, taxonomy, case.groups, case.count):
        for change, found in zip(block.influence(), block.weighted(counts), strict=True):
            slope = (found[:, : case.count] - found[:, case.count :]) / (2 * step)
            np.testing.assert_allclose(change, slope, atol=2e-7)
            np.testing.assert_allclose(change.sum(axis=1), 0, atol=1e-12)
    nodes = decided_nodes(case.predicted, case.target, taxonomy, case.groups, case.count)
    rates = nodes.weighted(counts, nodes.prepared())
    for rows, part in nodes.blocks():
        for name, (change, _) in part.influence().items():
            slope = (rates[name][rows, : case.count] - rates[name][rows, case.count :]) / (2 * step)
            known = ~np.isnan(slope).any(axis=1)
            np.testing.assert_allclose(change[known], slope[known], atol=2e-7)


def assert_rates(nodes: CountedNodes, said: np.ndarray, case: Case, some: np.ndarray) -> None:
    found = nodes.weighted(case.counts.astype(float), nodes.prepared())
    for draw in range(6):
        rows = case.rows(draw)
        for node in np.flatnonzero(some).tolist():
            state = case.states[node, rows]
            table = confusion_matrix(state[state >= 0], said[rows[state >= 0], node], labels=[0, 1])
            (tn, fp), (fn, tp) = table.astype(float)
            with np.errstate(invalid="ignore"):
                sensitivity, specificity = np.divide(tp, tp + fn), np.divide(tn, tn + fp)
                expected = [sensitivity, specificity, np.divide(tp, tp + fp), np.divide(tn, tn + fn)]
            expected.append((sensitivity + specificity) / 2)
            mine = [found[name][node, draw] for name in RATES]
            np.testing.assert_allclose(mine, expected, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize(("taxonomy", "seed", "digits"), CASES)
def test_rates_equal_scikit_learn_on_the_rows_drawn(
    taxonomy: AnyTaxonomy, seed: int, digits: int | None
) -> None:
    case = Case(taxonomy, seed, digits)
    yes = np.zeros((len(case.target), taxonomy.num_nodes), dtype=int)
    for row, node in enumerate(case.predicted.tolist()):
        yes[row, [*taxonomy.ancestors_of(node), node]] = 1
    nodes = decided_nodes(case.predicted, case.target, taxonomy, case.groups, case.count)
    assert_rates(nodes, yes, case, np.ones(taxonomy.num_nodes, dtype=bool))
    once = nodes.weighted(np.ones((case.count, 1)), nodes.prepared())
    whole = node_decision_metrics(case.predicted, case.target, taxonomy)
    for name in RATES:
        np.testing.assert_allclose(once[name][:, 0], whole[name], atol=1e-12, equal_nan=True)

    limits = torch.full((taxonomy.num_nodes,), 0.3, dtype=torch.float64)
    above = (node_scores(case.probabilities, taxonomy).numpy() >= 0.3).astype(int)
    at = nodes_at(limits, case.probabilities, case.target, taxonomy, case.groups, case.count)
    whole = node_metrics_at(limits, case.probabilities, case.target, taxonomy)
    told = ~whole["sensitivity"].isnan().numpy()
    assert_rates(at, above, case, told)


def test_a_node_with_one_kind_of_samples_is_left_out() -> None:
    target = TREE.encode(["a/y"] * 4 + ["a/x"] * 3)
    probabilities = torch.full((7, TREE.num_leaves), 1 / TREE.num_leaves)
    blocks = list(ranked_nodes(probabilities, target, TREE, np.arange(7), 7))
    nodes = {TREE.path_name(node) for block in blocks for node in block.nodes.tolist()}
    assert nodes == {"a/x", "a/y"}
    assert all((block.weighted(np.ones((7, 1)))[0] == 0.5).all() for block in blocks)
    assert blocks[0].groups().tolist() == [3.0, 3.0]


@pytest.mark.parametrize("entries", [1, 60])
def test_blocks_of_nodes_do_not_matter(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(TREE, 5, 1)

    def found() -> dict[int, list[float]]:
        blocks = list(ranked_nodes(case.probabilities, case.target, TREE, case.groups, case.count))
        return {
            node: [part[i, 0] for part in block.weighted(np.ones((case.count, 1)))]
            for block in blocks
            for i, node in enumerate(block.nodes.tolist())
        }

    whole = found()
    monkeypatch.setattr("labeltree.metrics.functional.node_resampling._ENTRIES", entries)
    parts = found()
    assert parts.keys() == whole.keys()
    assert all(parts[node] == pytest.approx(whole[node], abs=1e-15) for node in whole)
