"""Evaluation on a DAG, and on another taxonomy than that of the table."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labeltree.errors import DataError
from labeltree.evaluation import JudgingTaxonomy, evaluate, translate
from labeltree.metrics import functional as metrics
from labeltree.report import render_report
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dag(taxonomy: Taxonomy) -> TaxonomyDAG:
    """The tree of these tests, where worms and trout live in the soil and the water besides."""
    names, parents = taxonomy.names, taxonomy.parent.tolist()
    soil, water = len(names), len(names) + 1
    lists = [*([p] if p >= 0 else [] for p in parents), [0], [0]]
    lists[taxonomy.find("worm")].append(soil)
    lists[taxonomy.find("moss")].append(soil)
    lists[taxonomy.find("trout")].append(water)
    lists[taxonomy.find("fish")].append(water)
    return TaxonomyDAG([*names, "soil", "water"], lists)


@pytest.fixture
def moved(table: EmbeddingTable, taxonomy: Taxonomy, dag: TaxonomyDAG) -> EmbeddingTable:
    generator = torch.Generator().manual_seed(3)
    answers = taxonomy.leaves[torch.randint(len(taxonomy.leaves), (len(table),), generator=generator)]
    return translate(replace(table, predictions=answers), taxonomy, dag, "the DAG")


def test_labels_are_found_in_the_other_taxonomy(
    table: EmbeddingTable, moved: EmbeddingTable, taxonomy: Taxonomy, dag: TaxonomyDAG
) -> None:
    assert [dag.names[node] for node in moved.nodes] == [taxonomy.names[node] for node in table.nodes]
    assert moved.predictions is not None
    assert bool((moved.predictions >= 0).all())
    assert torch.equal(moved.embeddings, table.embeddings)


def test_scores_on_a_dag_are_those_of_its_metrics(moved: EmbeddingTable, dag: TaxonomyDAG) -> None:
    result = evaluate(moved, dag)
    test = moved.select("test")
    assert test.predictions is not None
    own = result.main.scores["predictions"]
    assert own["own_hierarchical_f1"] == pytest.approx(
        float(metrics.hierarchical_f1(test.predictions, test.nodes, dag)), abs=1e-12
    )
    assert own["own_tree_accuracy"] == pytest.approx(
        float(metrics.tree_accuracy(test.predictions, test.nodes, dag)), abs=1e-12
    )
    assert own["own_mistake_severity"] == pytest.approx(
        float(metrics.mistake_severity(test.predictions, test.nodes, dag)), abs=1e-12
    )
    found = metrics.retrieval_metrics(test.embeddings, test.nodes, dag, ahp_k=250)
    scores = result.main.scores["embeddings"]
    assert scores["ahp"] == pytest.approx(float(found["ahp@250"]), abs=1e-12)
    assert scores["recall_at_1"] == found["recall@1"]
    pairs = metrics.pair_violations(test.embeddings, test.nodes, dag, max_pairs=200_000, seed=0)
    assert scores["pair_violations"] == pairs
    tree, _ = dag.project("odir")
    assert len(result.main.by_depth["probe"]) == tree.max_depth
    assert any("The taxonomy is a DAG" in note for note in result.notes)


def test_the_dag_changes_what_it_should(moved: EmbeddingTable, dag: TaxonomyDAG) -> None:
    on_dag = evaluate(moved, dag)
    judging = JudgingTaxonomy.of(dag)
    on_tree = evaluate(judging.table(moved), judging.tree)
    assert on_dag.main.score("top1") == on_tree.main.score("top1")
    assert on_dag.main.by_depth == on_tree.main.by_depth
    assert on_dag.main.errors == on_tree.main.errors
    assert on_dag.main.score("own_hierarchical_f1") != on_tree.main.score("own_hierarchical_f1")
    assert on_dag.main.score("ahp", "embeddings") != on_tree.main.score("ahp", "embeddings")


def test_a_tree_as_a_dag_gives_the_same(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    tree, dag = evaluate(table, taxonomy), evaluate(table, TaxonomyDAG.from_tree(taxonomy))
    assert dag.methods == tree.methods
    assert dag.counts == tree.counts


def test_the_report_of_a_dag_is_that_of_its_tree(moved: EmbeddingTable, dag: TaxonomyDAG) -> None:
    result, judging = evaluate(moved, dag), JudgingTaxonomy.of(dag)
    page = render_report(result, judging.table(moved), judging.tree, projection="PCA", max_points=50)
    assert "The taxonomy is a DAG" in page
    assert "soil" in page


def test_what_is_not_there_is_named(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    target = Taxonomy.from_paths(["a/dog", "a/cat", "b/trout", "worm", "moss", "x/oak", "y/oak"])
    with pytest.raises(
        DataError, match=r"3 of 8 labels are not in 'f': .*'plant/tree/oak'.*'oak' occurs there"
    ):
        translate(table, taxonomy, target, "'f'")
    some = table.rows(torch.isin(table.nodes, taxonomy.encode(["dog", "cat", "trout", "worm"])))
    answers = torch.full_like(some.nodes, taxonomy.find("oak"))
    moved = translate(replace(some, predictions=answers), taxonomy, target, "'f'")
    assert moved.predictions is not None
    assert (moved.predictions == -1).all()
    assert [target.names[node] for node in moved.nodes] == [taxonomy.names[node] for node in some.nodes]
    missing = replace(some, nodes=torch.full_like(some.nodes, -1))
    assert (translate(missing, taxonomy, target, "'f'").nodes == -1).all()


def test_labels_are_found_by_ids_and_synonyms(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    codes = Taxonomy.from_paths(["T1", "T2"])
    target = Taxonomy.from_paths(["dog", "cat"]).with_aliases([(), ("T1",), ("T2",)])
    some = replace(table.rows(torch.arange(4)), nodes=torch.tensor([1, 2, 2, -1]), predictions=None)
    moved = translate(some, codes, target, "'f'")
    assert moved.nodes.tolist() == [1, 2, 2, -1]
