"""The evaluation: its numbers are those of the metrics, on the rows and the representation that it says."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors

from labeltree.errors import DataError
from labeltree.evaluation import EvaluationResult, EvaluationSettings, evaluate
from labeltree.geometry import PoincareBall, Sphere
from labeltree.metrics import functional as metrics
from labeltree.metrics.probe import LinearProbe
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless

pytestmark = pytest.mark.slow


def test_the_probe_reads_features_and_equals_the_metrics_by_hand(
    table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    result = evaluate(table, taxonomy)

    train, test = table.select("train"), table.select("test")
    mean, deviation = train.features.mean(0), train.features.std(0, correction=0)
    probe = LinearProbe().fit((train.features - mean) / deviation, train.nodes)
    predicted = probe.predict((test.features - mean) / deviation)
    scores = result.main.scores["features"]
    assert scores["top1"] == (predicted == test.nodes).double().mean()
    assert 0 < scores["top1"] < 1, "the test would not notice swapped rows"
    assert scores["hierarchical_f1"] == pytest.approx(
        float(metrics.hierarchical_f1(predicted, test.nodes, taxonomy)), abs=1e-12
    )
    assert scores["tree_accuracy"] == pytest.approx(
        float(metrics.tree_accuracy(predicted, test.nodes, taxonomy)), abs=1e-12
    )
    assert scores["mistake_severity"] == pytest.approx(
        float(metrics.mistake_severity(predicted, test.nodes, taxonomy)), abs=1e-12
    )
    by_hand = metrics.accuracy_by_depth(predicted, test.nodes, taxonomy).tolist()
    assert result.main.by_depth["probe"] == by_hand
    assert by_hand[-1] == pytest.approx(scores["top1"])


def test_retrieval_reads_both_representations_and_leaves_each_query_out(
    table: EmbeddingTable, taxonomy: Taxonomy
) -> None:
    result = evaluate(table, taxonomy, settings=EvaluationSettings(hp_k=7, recall_ks=(1, 3)))

    test = table.select("test")
    for role, points in (("features", test.features), ("embeddings", test.embeddings)):
        scores = result.main.scores[role]
        assert scores["recall_at_1"] == _recall_at_1(points, test.nodes)
        assert scores["map_at_r"] == pytest.approx(
            float(metrics.map_at_r(points, test.nodes, geometry=Sphere())), abs=1e-12
        )
        assert scores["mean_average_precision"] == pytest.approx(
            float(metrics.mean_average_precision(points, test.nodes)), abs=1e-12
        )
        expected = metrics.average_hierarchical_precision(points, test.nodes, taxonomy, k=7)
        assert scores["ahp"] == pytest.approx(float(expected))
        assert "recall_at_3" in scores
        assert "recall_at_5" not in scores
        assert len(result.main.hp_curve[role]) == 7
        assert sum(result.main.hp_curve[role]) / 7 == pytest.approx(scores["ahp"])
    assert result.main.scores["features"] != result.main.scores["embeddings"]


def _recall_at_1(points: torch.Tensor, nodes: torch.Tensor) -> float:
    """A slow loop of our own."""
    hits = 0
    for i in range(len(points)):
        nearest, best = -1, -math.inf
        for j in range(len(points)):
            similarity = float(
                torch.nn.functional.cosine_similarity(points[i].double(), points[j].double(), dim=0)
            )
            if j != i and similarity > best:
                nearest, best = j, similarity
        hits += int(nodes[nearest] == nodes[i])
    return hits / len(points)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean", "poincare"])
def test_prototypes_and_violations_read_embeddings_in_their_geometry(
    table: EmbeddingTable, taxonomy: Taxonomy, geometry: str
) -> None:
    points = PoincareBall().embed(0.7 * table.embeddings) if geometry == "poincare" else table.embeddings
    table = replace(table, geometry=geometry, embeddings=points)
    result = evaluate(table, taxonomy)

    train, test = table.select("train"), table.select("test")
    space = table.space
    scores = result.main.scores["embeddings"]
    prototypes = metrics.class_prototypes(train.embeddings, train.nodes, taxonomy, space)
    hits = 0
    for point, node in zip(test.embeddings.double(), test.nodes, strict=True):
        distances = [float(space.distance(point, prototypes[leaf])) for leaf in taxonomy.leaves]
        hits += int(taxonomy.leaves[distances.index(min(distances))] == node)
    assert scores["prototype_top1"] == hits / len(test)
    violations = metrics.parent_violations(test.embeddings, test.nodes, taxonomy, prototypes, geometry=space)
    assert scores["parent_violations"] == violations
    assert scores["parent_order_accuracy"] == pytest.approx(1 - float(violations))
    assert scores["pair_violations"] == pytest.approx(
        float(metrics.pair_violations(test.embeddings, test.nodes, taxonomy, space)), abs=1e-12
    )
    assert result.main.representations["embeddings"].geometry == geometry
    assert "worm" in taxonomy.names
    assert result.counts["test samples judged for parent violations"] == len(test) - sum(
        taxonomy.depth[test.nodes].tolist().count(d) for d in (1,)
    )


def test_every_representation_is_named(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    pixels = EmbeddingTable(
        table.features, table.nodes, table.split, None, table.instances, geometry="euclidean"
    )
    result = evaluate(table, taxonomy, name="mine", baselines={"raw pixels": pixels})

    assert list(result.methods) == ["mine", "raw pixels"]
    assert result.main.name == "mine"
    assert {role: r.source for role, r in result.main.representations.items()} == {
        "features": "features",
        "embeddings": "embeddings",
        "posterior": "posterior",
    }
    baseline = result.methods["raw pixels"]
    assert {r.source for r in baseline.representations.values()} == {"embeddings"}
    assert baseline.scores["features"]["recall_at_1"] == baseline.scores["embeddings"]["recall_at_1"]
    assert baseline.scores.keys() == result.main.scores.keys() - {"posterior"}
    assert any("raw pixels" in note and "one representation" in note for note in result.notes)
    assert not any("same samples" in note for note in result.notes)


def test_a_baseline_of_other_samples_is_pointed_out(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    other = replace(table, instances=table.instances + 1)
    result = evaluate(table, taxonomy, baselines={"other": other})
    assert any("'other' was not tested on the same samples" in note for note in result.notes)


def test_a_table_of_embeddings_alone_is_halved_and_searched_whole(taxonomy: Taxonomy) -> None:
    nodes = taxonomy.leaves.repeat(9)
    result = evaluate(EmbeddingTable(tree_vectors(taxonomy, nodes, 6, 0.3, 3), nodes), taxonomy)

    assert result.split == "half"
    assert list(result.main.scores) == ["embeddings"]
    assert result.main.score("top1") == result.main.scores["embeddings"]["top1"] > 0.5
    assert result.main.score("top1", "features") == result.main.score("top1")
    assert result.counts["training samples"] == 5 * len(taxonomy.leaves), "the odd sample is for learning"
    assert result.counts["test samples"] == 4 * len(taxonomy.leaves)
    assert result.counts["searched samples"] == len(nodes)
    assert any("no splits" in note for note in result.notes)
    assert any("no other representation" in note for note in result.notes)


def test_vectors_that_say_nothing_are_pointed_out(taxonomy: Taxonomy) -> None:
    nodes = taxonomy.leaves.repeat(6)
    few = EvaluationSettings(resamples=0)
    same = evaluate(EmbeddingTable(torch.ones(len(nodes), 3), nodes), taxonomy, settings=few)
    assert "All embeddings are the same vector" in " ".join(same.cautions)
    vectors = torch.randn(len(nodes), 3, generator=torch.Generator().manual_seed(0))
    vectors[:2] = 0
    zero = evaluate(EmbeddingTable(vectors, nodes), taxonomy, settings=few)
    assert f"2 of {len(nodes)} embeddings are zero" in " ".join(zero.cautions)


def test_inner_node_and_missing_labels_are_counted(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    test = torch.from_numpy(table.split == "test").nonzero().squeeze(1)
    nodes = table.nodes.clone()
    dogs = test[table.nodes[test] == taxonomy.find("dog")]
    nodes[dogs] = taxonomy.find("mammal")
    nodes[test[table.nodes[test] == taxonomy.find("moss")]] = -1
    nodes[test[table.nodes[test] == taxonomy.find("oak")]] = 0
    result = evaluate(replace(table, nodes=nodes), taxonomy)

    left_out = result.counts["left out: no label"]
    assert left_out == len(test) // 4, "missing labels, and labels at the root, which say nothing"
    assert result.counts["labelled only coarsely"] == len(dogs)
    assert result.counts["test samples"] == len(test) - left_out
    assert result.counts["searched samples"] == len(test) - left_out - len(dogs)
    assert result.main.errors.samples == len(test) - left_out - len(dogs)
    assert result.counts["classes learned"] == len(taxonomy.leaves)
    assert sum("left out" in note or "coarsely" in note for note in result.notes) >= 2


def test_labels_that_stop_at_an_inner_node_are_classes(taxonomy: Taxonomy) -> None:
    nodes = taxonomy.encode(["mammal", "fish", "animal/worm", "plant"]).repeat(6)
    result = evaluate(EmbeddingTable(tree_vectors(taxonomy, nodes, 8, 0.05, 4), nodes), taxonomy)

    assert result.counts["labelled only coarsely"] == 0
    assert result.counts["classes learned"] == 4
    assert result.main.score("top1") == 1.0
    assert result.main.errors.errors == 0
    assert math.isnan(result.main.score("mistake_severity"))


def test_a_single_class_is_no_trouble(taxonomy: Taxonomy) -> None:
    nodes = taxonomy.encode(["dog"] * 8)
    result = evaluate(EmbeddingTable(tree_vectors(taxonomy, nodes, 4, 1.0, 5), nodes), taxonomy)

    for name in ("top1", "recall_at_1", "prototype_top1", "ahp", "parent_violations"):
        assert math.isnan(result.main.score(name))
    assert all(math.isnan(value) for depths in result.main.by_depth.values() for value in depths)
    assert all(
        math.isnan(end) for found in result.main.intervals.values() for ends in found.values() for end in ends
    )
    assert any(
        "all samples are of one class, 'animal/mammal/dog'" in note.lower() for note in result.cautions
    )


def test_a_class_without_training_samples_counts_as_errors(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    unseen = (table.nodes == taxonomy.find("worm")).numpy() & (table.split == "train")
    split = table.split.copy()
    split[unseen] = "val"
    result = evaluate(replace(table, split=split), taxonomy)

    worms = int(((table.nodes == taxonomy.find("worm")).numpy() & (table.split == "test")).sum())
    assert result.counts["test samples of classes without training samples"] == worms
    entry = next(e for e in result.main.errors.nodes if e.path == "animal/worm")
    assert entry.samples == entry.wrong == worms
    assert any("without any training" in note for note in result.notes)


def test_large_tables_are_subsampled_evenly_and_say_so(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    settings = EvaluationSettings(max_probe_samples=40, max_retrieval_samples=24)
    result = evaluate(table, taxonomy, settings=settings)

    assert result.counts["training samples"] == 40
    assert result.counts["searched samples"] == 24
    assert result.counts["classes learned"] == len(taxonomy.leaves)
    assert sum("subsampled" in note for note in result.notes) == 2


def test_the_same_input_gives_the_same_result(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    bare = EmbeddingTable(table.embeddings, table.nodes)
    first, second = evaluate(bare, taxonomy), evaluate(bare, taxonomy)
    assert json.dumps(first.to_dict()) == json.dumps(second.to_dict())


def test_a_result_survives_json(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    result = evaluate(table, taxonomy, baselines={"other": replace(table, features=None)})
    back = EvaluationResult.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
    assert back == result


def test_a_result_with_nan_survives_json(taxonomy: Taxonomy) -> None:
    nodes = taxonomy.encode(["dog"] * 8)
    result = evaluate(EmbeddingTable(torch.randn(8, 3), nodes), taxonomy)
    text = json.dumps(result.to_dict(), allow_nan=False)
    back = EvaluationResult.from_dict(json.loads(text))
    assert math.isnan(back.main.score("parent_violations"))
    assert json.dumps(back.to_dict()) == text


def test_a_foreign_or_broken_result_is_refused(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    content = evaluate(table, taxonomy).to_dict()
    with pytest.raises(DataError, match="format is 99"):
        EvaluationResult.from_dict({**content, "format": 99})
    with pytest.raises(DataError, match="incomplete"):
        EvaluationResult.from_dict({**content, "settings": "1f6d"})
    del content["notes"]
    with pytest.raises(DataError, match="notes"):
        EvaluationResult.from_dict(content)


def test_wrong_input_is_named(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    with pytest.raises(DataError, match="no samples of split 'tset'"):
        evaluate(table, taxonomy, split="tset")
    with pytest.raises(DataError, match=r"table 'mine'.*label that names a class"):
        evaluate(EmbeddingTable(torch.randn(3, 2), torch.tensor([-1, 0, -1])), taxonomy, name="mine")
    with pytest.raises(DataError, match="labels from 99 to 99"):
        evaluate(EmbeddingTable(torch.randn(1, 2), torch.tensor([99])), taxonomy)
    with pytest.raises(ValueError, match="also the name of a baseline"):
        evaluate(table, taxonomy, baselines={"trained": table})
    with pytest.raises(ValueError, match="hp_k"):
        EvaluationSettings(hp_k=0)


def test_progress_names_the_method_and_what_is_searched(table: EmbeddingTable, taxonomy: Taxonomy) -> None:
    told: list[tuple[str, int, int]] = []
    evaluate(table, taxonomy, name="mine", progress=lambda *news: told.append(news))
    named = list(dict.fromkeys(message for message, _, _ in told))
    assert named[0] == "mine: linear probe"
    assert {"mine: retrieval by features", "mine: retrieval by embeddings"} < set(named)
    finished = [message for message, done, total in told if done == total > 0]
    roles = ["mine: retrieval by features", "mine: retrieval by embeddings"]
    assert finished[:-1] == [role for role in roles for _ in range(2)], "the ranking, then without blocks"
    assert finished[-1] == "mine: retrieval by posterior", "which has no intervals"


@pytest.mark.parametrize("count", long_unless([1, 2, 5, 6], [1, 5]))
def test_few_groups_are_not_drawn(table: EmbeddingTable, taxonomy: Taxonomy, count: int) -> None:
    groups = torch.randint(count, (len(table),), generator=torch.Generator().manual_seed(0))
    plain = evaluate(table, taxonomy, name="mine")
    never = EvaluationSettings(leave_group_out="never")
    grouped = evaluate(replace(table, groups=groups), taxonomy, name="mine", settings=never)
    notes = [note for note in grouped.notes if "too few for intervals" in note]
    mine = grouped.methods["mine"].intervals
    if count < 6:
        assert all(np.isnan(ends).all() for of in mine.values() for ends in of.values())
        assert len(notes) == 1
        assert f"are of {count} group" in notes[0]
    else:
        assert mine != plain.methods["mine"].intervals
        assert not notes


def test_labels_that_look_like_class_numbers_are_told() -> None:
    tree = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak"), ("plant", "fir")])
    numbers = torch.arange(4).repeat(20)
    vectors = torch.randn(80, 4, generator=torch.Generator().manual_seed(0)) + 3 * torch.eye(4)[numbers]
    settings = EvaluationSettings(resamples=0)
    told = evaluate(EmbeddingTable(vectors, numbers), tree, settings=settings)
    assert told.cautions[0].startswith("The labels are exactly the nodes 0 to 3, as class numbers are")
    assert told.cautions[0] in told.notes
    right = evaluate(EmbeddingTable(vectors, tree.leaves[numbers]), tree, settings=settings)
    assert not any("class numbers" in note for note in (*right.cautions, *right.notes))
