"""Seen and unseen classes of a table whose split says which samples a run hid from its training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors

from labeltree.evaluation import (
    EvaluationSettings,
    Inputs,
    JudgingTaxonomy,
    ProtocolResult,
    choose_samples,
    evaluate,
)
from labeltree.evaluation.fitted_probe import fit_probe
from labeltree.evaluation.protocol_registry import get_protocol
from labeltree.runs import EmbeddingTable
from labeltree.split_names import UNSEEN
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


def measured(table: EmbeddingTable, taxonomy: Taxonomy, **options: object) -> ProtocolResult:
    settings = EvaluationSettings(resamples=0)
    samples = choose_samples(table, taxonomy, "test", settings)
    entry = get_protocol("seen-unseen")
    inputs = Inputs(table, JudgingTaxonomy.of(taxonomy), samples, settings)
    return entry.run(inputs, entry.choose({"roles": ("features",), **options}))


def hide(table: EmbeddingTable, taxonomy: Taxonomy, *names: str) -> EmbeddingTable:
    assert table.split is not None
    mine = np.zeros(len(table), dtype=bool)
    for node in taxonomy.encode(names).tolist():
        mine |= ((table.nodes >= node) & (table.nodes < taxonomy.subtree_end[node])).numpy()
    return replace(table, split=np.where(mine & (table.split != "test"), UNSEEN, table.split))


def test_each_probe_learns_from_its_own_samples(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    hidden = hide(table, taxonomy, "trout", "plant/tree")
    result = measured(hidden, taxonomy)
    assert (result.counts["seen classes"], result.counts["unseen classes"]) == (5, 3)
    assert hidden.split is not None
    assert hidden.features is not None
    new = taxonomy.encode(["trout", "oak", "plant/tree/other"])
    for name, split, mask in (
        ("seen", "train", ~torch.isin(table.nodes, new)),
        ("unseen", UNSEEN, torch.isin(table.nodes, new)),
    ):
        learn = (mask & torch.from_numpy(hidden.split == split)).nonzero()[:, 0]
        test = (mask & torch.from_numpy(hidden.split == "test")).nonzero()[:, 0]
        probe = fit_probe(hidden.features[learn], table.nodes[learn], EvaluationSettings())
        predicted = probe.predict(hidden.features[test])
        right = float((predicted == table.nodes[test]).double().mean())
        assert result.scores[f"{name}.features.top1"] == pytest.approx(right, abs=1e-12)
        assert result.counts[f"{name} samples that the probe learned from"] == len(learn)
    assert "'animal/fish/trout'" in result.notes[0]
    more = measured(hidden, taxonomy, unseen=("worm",))
    assert more.counts["unseen classes"] == 4, "what an option names is added to what a run hid"


def test_a_class_is_what_its_category_is_where_its_items_are_new_in_the_test() -> None:
    """As in DeepFashion In-Shop: no item of the test has a training sample."""
    taxonomy = Taxonomy.from_paths([(f"c{i % 4}", f"item{i}") for i in range(40)])
    nodes = taxonomy.leaves.repeat(6)
    items = (nodes.unsqueeze(1) == taxonomy.leaves).nonzero()[:, 1]
    split = np.where(items.numpy() % 10 < 6, "train", "test")
    table = EmbeddingTable(
        embeddings=tree_vectors(taxonomy, nodes, 6, 0.3, 1),
        nodes=nodes,
        split=split,
        features=tree_vectors(taxonomy, nodes, 8, 0.3, 2),
    )
    hidden = hide(table, taxonomy, "c1", "c2")
    result = measured(hidden, taxonomy, depth=1)
    above = taxonomy.ancestors[nodes, 1]
    new = torch.isin(above, taxonomy.encode(["c1", "c2"]))
    tested = torch.from_numpy(split == "test")
    assert result.counts["unseen test samples"] == int((new & tested).sum())
    assert result.counts["seen test samples"] == int((~new & tested).sum())
    assert result.scores["unseen.features.top1"] > 0.7, "categories, not items"
    assert measured(hidden, taxonomy).scores["unseen.features.top1"] == 0


def test_the_standard_protocols_say_what_they_learned_from(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    hidden = hide(table, taxonomy, "dog")
    settings = EvaluationSettings(resamples=0)
    result = evaluate(hidden, taxonomy, settings=settings)
    assert any("Some classes were hidden from training" in note for note in result.notes)
    assert result.counts["test samples of classes without training samples"] == 6
    assert not any("hidden" in note for note in evaluate(table, taxonomy, settings=settings).notes)
