"""Evaluations on taxonomies that differ in the order of siblings: nodes are matched by their paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from labeltree.evaluation import EvaluationSettings, Outcomes, compare, evaluate, translate
from labeltree.evaluation.outcomes import renumber_nodes
from labeltree.evaluation.pool_folds import pool_outcomes
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

PATHS = ["a/1", "a/2", "b/3", "b/4"]
TREE, REVERSED = Taxonomy.from_paths(PATHS), Taxonomy.from_paths(PATHS[::-1])
SETTINGS = EvaluationSettings(resamples=0)


@pytest.fixture(scope="module")
def table() -> EmbeddingTable:
    generator = torch.Generator().manual_seed(0)
    nodes = TREE.leaves.repeat(30)
    vectors = torch.eye(4)[torch.arange(120) % 4] + 0.7 * torch.randn(120, 4, generator=generator)
    split = np.where(np.arange(120) % 8 < 4, "train", "test")
    return EmbeddingTable(vectors, nodes, split, instances=torch.arange(120))


def _outcomes(table: EmbeddingTable, taxonomy: Taxonomy | TaxonomyDAG) -> Outcomes:
    moved = translate(table, TREE, taxonomy, "there")
    protocols = ["node-scores", "decisions"] if isinstance(taxonomy, Taxonomy) else ["node-scores"]
    result = evaluate(moved, taxonomy, name="m", protocols=protocols, settings=SETTINGS)
    return result.outcomes["m"]


def test_sites_that_wrote_siblings_in_another_order_are_compared(table: EmbeddingTable) -> None:
    here, there = _outcomes(table, TREE), _outcomes(table, REVERSED)
    assert here.taxonomy != there.taxonomy
    found = compare({"here": here, "there": there}, resamples=20, permutations=20)
    assert len(found.metrics) > 10
    for entry in found.metrics:
        assert entry.estimates["there"].value == pytest.approx(entry.estimates["here"].value, abs=1e-6)
    names = {part.name for part in found.strata if part.kind == "subtree"}
    assert names == {"a", "b"}
    scores = compare({"here": here, "there": there}, metrics=["node-scores.*"], resamples=20)
    for entry in scores.metrics:
        assert entry.estimates["there"].value == pytest.approx(entry.estimates["here"].value, abs=1e-6)


def test_pooled_folds_keep_the_ids_that_all_have(table: EmbeddingTable) -> None:
    named = replace(table, ids=np.array([f"image {row}" for row in range(len(table))]))
    here, there = _outcomes(named, TREE), _outcomes(table, TREE)
    moved = replace(here, instances=here.instances + 1000)
    assert here.ids is not None
    pooled = pool_outcomes([here, moved])
    assert pooled.ids is not None
    assert pooled.ids.tolist() == [*here.ids.tolist()] * 2
    assert pool_outcomes([moved, there]).ids is None


def test_folds_whose_taxonomies_have_another_order_are_pooled(table: EmbeddingTable) -> None:
    there = _outcomes(table, REVERSED)
    pooled = pool_outcomes([_outcomes(table, TREE), replace(there, instances=there.instances + 1000)])
    half = len(pooled) // 2
    assert pooled.taxonomy == TREE
    assert np.array_equal(pooled.nodes[:half], pooled.nodes[half:])
    assert pooled.predicted
    for answers in pooled.predicted.values():
        assert np.mean(answers[:half] == answers[half:]) > 0.95
    for parts in pooled.statistics.values():
        for first, second in zip(parts[: len(parts) // 2], parts[len(parts) // 2 :], strict=True):
            if first.kind == "node_ranking":
                assert np.array_equal(first.samples["target"], second.samples["target"])
                assert {*first.fixed["classes"]} == {*second.fixed["classes"]}


def test_nodes_of_a_dag_are_matched_by_its_edges(table: EmbeddingTable) -> None:
    def dag(tree: Taxonomy, second: str) -> TaxonomyDAG:
        parents = [[] if above < 0 else [above] for above in tree.parent.tolist()]
        parents[tree.find("a/1")].append(tree.find(second))
        return TaxonomyDAG(tree.names, parents)

    here, there = _outcomes(table, dag(TREE, "b")), _outcomes(table, dag(REVERSED, "b"))
    moved = renumber_nodes(there, here)
    assert moved is not None
    assert moved.dag == here.dag
    assert np.array_equal(moved.nodes, here.nodes)
    for role, several in here.statistics.items():
        for mine, theirs in zip(several, moved.statistics[role], strict=True):
            assert np.array_equal(mine.samples["target"], theirs.samples["target"])


def test_other_nodes_are_not_matched(table: EmbeddingTable) -> None:
    here = _outcomes(table, TREE)
    other = replace(here, taxonomy=Taxonomy.from_paths(["a/1", "a/2", "b/3", "b/5"]))
    assert renumber_nodes(other, here) is None
