"""Evaluation on another version of the taxonomy: labels and answers follow a mapping."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from labelled_vectors import tree_vectors

from labeltree.errors import DataError, TaxonomyError
from labeltree.evaluation import EvaluationResult, EvaluationSettings, carry_over, evaluate, translate
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, TaxonomyMapping, load_taxonomy
from labeltree.taxonomy.versions.between_versions import LabelsOfBoth, VersionChange, mapping_digest

OLD = Taxonomy.from_paths(
    [
        "animal/mammal/dog", "animal/mammal/cat", "animal/fish/trout", "animal/fish/other", "animal/worm",
        "plant/tree/oak", "plant/tree/other", "plant/moss", "stone",
    ]
)  # fmt: skip
NEW = Taxonomy.from_paths(
    [
        "animal/mammal/pet", "animal/mammal/lynx", "water/fish/brown trout", "water/fish/other",
        "plant/tree/oak/red", "plant/tree/oak/white", "plant/tree/other", "plant/green moss",
        "plant/peat moss",
    ]
)  # fmt: skip
BECAME = {
    "/": ["/"],
    "animal": ["animal"],
    "animal/mammal": ["animal/mammal"],
    "animal/mammal/dog": ["animal/mammal/pet"],
    "animal/mammal/cat": ["animal/mammal/pet"],
    "animal/fish": ["water/fish"],
    "animal/fish/trout": ["water/fish/brown trout"],
    "animal/fish/other": ["water/fish/other"],
    "animal/worm": [],
    "plant": ["plant"],
    "plant/tree": ["plant/tree"],
    "plant/tree/oak": ["plant/tree/oak/red", "plant/tree/oak/white"],
    "plant/tree/other": ["plant/tree/other"],
    "plant/moss": ["plant/green moss", "plant/peat moss"],
    "stone": [],
}
BY_HAND = {
    "animal/mammal/dog": "animal/mammal/pet",
    "animal/mammal/cat": "animal/mammal/pet",
    "animal/fish/trout": "water/fish/brown trout",
    "animal/fish/other": "water/fish/other",
    "animal/worm": "animal",
    "plant/tree/oak": "plant/tree/oak",
    "plant/tree/other": "plant/tree/other",
    "plant/moss": "plant",
    "stone": "/",
}
CLASSES = [
    "animal/mammal/pet",
    "water/fish/brown trout",
    "water/fish/other",
    "plant/tree/oak",
    "plant/tree/other",
]


@pytest.fixture(scope="module")
def change() -> VersionChange:
    targets = [[NEW.find(path) for path in BECAME[OLD.path_name(node)]] for node in range(OLD.num_nodes)]
    return VersionChange(TaxonomyMapping(OLD, NEW, targets))


@pytest.fixture(scope="module")
def before() -> EmbeddingTable:
    nodes = OLD.leaves.repeat(20)
    n = len(nodes)
    generator = torch.Generator().manual_seed(0)
    drawn = OLD.leaves[torch.randint(len(OLD.leaves), (n,), generator=generator)]
    wrong = torch.rand(n, generator=generator) < 0.3
    return EmbeddingTable(
        embeddings=tree_vectors(OLD, nodes, 6, 0.35, 1),
        nodes=nodes,
        split=np.where(np.arange(n) % 5 < 3, "train", np.where(np.arange(n) % 5 == 3, "val", "test")),
        features=tree_vectors(OLD, nodes, 10, 0.5, 2),
        instances=torch.arange(n),
        predictions=torch.where(wrong, drawn, nodes),
    )


@pytest.fixture(scope="module")
def after(before: EmbeddingTable, change: VersionChange) -> EmbeddingTable:
    return carry_over(before, change, "'new'")


@pytest.fixture(scope="module")
def result(after: EmbeddingTable) -> EvaluationResult:
    settings = EvaluationSettings(resamples=0, options={"node-scores": {"roles": ("features",)}})
    return evaluate(after, NEW, settings=settings, protocols=["decisions", "node-scores"])


def test_labels_and_answers_are_those_by_hand(before: EmbeddingTable, after: EmbeddingTable) -> None:
    for nodes, moved in ((before.nodes, after.nodes), (before.predictions, after.predictions)):
        assert nodes is not None
        assert moved is not None
        expected = [NEW.find(BY_HAND[OLD.path_name(node)]) for node in nodes.tolist()]
        assert moved.tolist() == expected
    missing = replace(before, nodes=torch.full_like(before.nodes, -1), predictions=None)
    change = VersionChange(TaxonomyMapping(OLD, NEW, [[0], *([[]] * (OLD.num_nodes - 1))]))
    assert (carry_over(missing, change, "'new'").nodes == -1).all()
    with pytest.raises(DataError, match=r"none of the 9 labels is in 'new': 'animal/mammal/dog'"):
        carry_over(before, change, "'new'")


def test_what_changed_is_counted(change: VersionChange, before: EmbeddingTable) -> None:
    labels = before.nodes
    found = {kind: (count.nodes, count.samples) for kind, count in change.counts(labels).items()}
    assert found == {
        "rename": (1, 20),  # trout
        "move": (1, 40),  # fish, with what is below
        "merge": (2, 40),
        "split": (2, 40),
        "remove": (2, 40),
    }
    said = change.sentence(labels, "new.yaml", "test samples")
    assert "2 nodes merged into another: 40 test samples" in said
    same = VersionChange(TaxonomyMapping(OLD, OLD, [[node] for node in range(OLD.num_nodes)]))
    assert same.counts(labels) == {}
    assert "nothing changes" in same.sentence(labels, "new.yaml")
    assert mapping_digest(same.mapping) != mapping_digest(change.mapping)


def _below(path: str, at: str) -> bool:
    return at == "/" or path == at or path.startswith(f"{at}/")


def _depth(path: str) -> int:
    return 0 if path == "/" else path.count("/") + 1


def _part(path: str, depth: int) -> str:
    return "/".join(path.split("/")[:depth])


def test_own_answers_by_hand(before: EmbeddingTable, result: EvaluationResult) -> None:
    test = before.select("test")
    assert test.predictions is not None
    truths = [BY_HAND[OLD.path_name(node)] for node in test.nodes.tolist()]
    answers = [BY_HAND[OLD.path_name(node)] for node in test.predictions.tolist()]
    rows = [(t, a) for t, a in zip(truths, answers, strict=True) if t in CLASSES]
    own = result.main.scores["predictions"]
    assert own["own_top1"] == pytest.approx(sum(t == a for t, a in rows) / len(rows))
    by_depth = []
    for depth in (1, 2):
        decided = [
            _part(t, depth) == _part(a, depth) and _depth(a) >= depth
            for t, a in zip(truths, answers, strict=True)
            if t != "/" and _depth(t) >= depth
        ]
        by_depth.append(sum(decided) / len(decided))
    assert result.main.by_depth["own"][:2] == pytest.approx(by_depth)


def test_prototypes_and_retrieval_by_hand(before: EmbeddingTable, result: EvaluationResult) -> None:
    named = [BY_HAND[OLD.path_name(node)] for node in before.nodes.tolist()]
    points = torch.nn.functional.normalize(before.embeddings.double(), dim=1)
    assert before.split is not None
    train = [row for row, split in enumerate(before.split) if split == "train"]
    test = [row for row, split in enumerate(before.split) if split == "test" and named[row] in CLASSES]
    means = []
    for name in CLASSES:
        mean = points[[row for row in train if named[row] == name]].mean(0)
        means.append(mean / mean.norm())
    right = [CLASSES[int((torch.stack(means) @ points[row]).argmax())] == named[row] for row in test]
    embeddings = result.main.scores["embeddings"]
    assert embeddings["prototype_top1"] == pytest.approx(sum(right) / len(right))
    found = []
    for row in test:
        others = [other for other in test if other != row]
        nearest = others[int((points[others] @ points[row]).argmax())]
        found.append(named[nearest] == named[row])
    assert embeddings["recall_at_1"] == pytest.approx(sum(found) / len(found))
    assert result.counts["searched samples"] == len(test)


def test_probe_and_node_scores_by_hand(before: EmbeddingTable, result: EvaluationResult) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    named = np.array([BY_HAND[OLD.path_name(node)] for node in before.nodes.tolist()])
    assert before.features is not None
    assert before.split is not None
    features = before.features.double().numpy()
    learned = (before.split == "train") & np.isin(named, CLASSES)
    mean, deviation = features[learned].mean(0), features[learned].std(0)
    x = (features - mean) / deviation
    model = LogisticRegression(class_weight="balanced", solver="newton-cg", tol=1e-7, max_iter=300)
    model.fit(x[learned], named[learned])
    tested = before.split == "test"
    probabilities = model.predict_proba(x[tested])
    truths = named[tested]
    finest = np.isin(truths, CLASSES)
    right = model.classes_[probabilities.argmax(1)][finest] == truths[finest]
    assert result.main.scores["features"]["top1"] == pytest.approx(right.mean())
    auroc = result.main.protocols["node-scores"].by_node["features.auroc"]
    expected = {}
    for node in range(1, NEW.num_nodes):
        name = NEW.path_name(node)
        columns = [place for place, each in enumerate(model.classes_) if _below(each, name)]
        kept = np.array([t != "/" and (_below(t, name) or not _below(name, t)) for t in truths])
        positive = np.array([_below(t, name) for t in truths])[kept]
        if columns and 0 < positive.sum() < len(positive):
            expected[name] = roc_auc_score(positive, probabilities[kept][:, columns].sum(1))
    told = {name: value for name, value in auroc.items() if not math.isnan(value)}
    assert set(told) == set(expected)  # nothing is told of red oaks, lynxes and green moss
    for name, value in expected.items():
        assert told[name] == pytest.approx(value, abs=0.02), name


def test_decisions_name_what_can_be_told(result: EvaluationResult) -> None:
    scores = result.main.protocols["decisions"].scores
    assert 0 <= scores["coverage_at_0.9"] <= 1
    assert not math.isnan(scores["right_leaf_at_0.9"])


def test_probabilities_of_merged_classes_add_up_before_the_best_is_taken(change: VersionChange) -> None:
    class Given:
        classes = OLD.encode(["animal/mammal/dog", "animal/mammal/cat", "plant/moss"])

        def __call__(self, table: EmbeddingTable, /) -> torch.Tensor:
            assert table.features is not None
            return table.features.double().log()

    shares = torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.2, 0.7], [0.6, 0.1, 0.3]])
    table = EmbeddingTable(
        embeddings=shares,
        nodes=OLD.encode(["animal/mammal/dog"] * 3),
        features=shares,
        predictions=Given.classes[shares.argmax(1)],
    )
    plain, merged = carry_over(table, change, "'new'"), carry_over(table, change, "'new'", Given())
    assert plain.predictions is not None
    assert merged.predictions is not None
    assert [NEW.path_name(node) for node in plain.predictions.tolist()] == [
        "plant",
        "plant",
        "animal/mammal/pet",
    ]
    assert [NEW.path_name(node) for node in merged.predictions.tolist()] == [
        "animal/mammal/pet", "plant", "animal/mammal/pet",
    ]  # fmt: skip
    silent = replace(table, predictions=torch.full((3,), -1))
    answers = carry_over(silent, change, "'new'", Given()).predictions
    assert answers is not None
    assert (answers == -1).all()


def test_labels_of_both_versions_are_read(change: VersionChange) -> None:
    labels = LabelsOfBoth(change.mapping)
    reader = labels.taxonomy
    assert reader == NEW
    nodes = reader.encode(["dog", "lynx", None, "", "plant/moss", ("plant", "tree", "oak", "red"), "dog"])
    assert [NEW.path_name(n) if n >= 0 else "" for n in nodes.tolist()] == [
        "animal/mammal/pet", "animal/mammal/lynx", "", "", "plant", "plant/tree/oak/red", "animal/mammal/pet",
    ]  # fmt: skip
    assert (len(labels.mapped), len(labels.taken)) == (2, 2)
    assert "2 that only the new one has" in labels.sentence()
    with pytest.raises(TaxonomyError, match=r"2 labels are not in the taxonomy: 'cow'"):
        reader.encode(["dog", "cow", "elm"])
    with pytest.raises(TaxonomyError, match="ambiguous"):
        reader.encode(["other"])
    with pytest.raises(TaxonomyError, match="not in the taxonomy"):
        NEW.find("dog")


def _ontology(path: Path, terms: dict[int, tuple[str, list[int]]]) -> Path:
    lines = ["format-version: 1.2"]
    for number, (name, parents) in terms.items():
        lines += [
            "",
            "[Term]",
            f"id: FRU:{number}",
            f"name: {name}",
            *(f"is_a: FRU:{one}" for one in parents),
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_in_an_ontology_with_several_parents_the_id_counts_before_the_name(tmp_path: Path) -> None:
    """A term was renamed, and a new one has its old name."""
    fruit = {number: (name, [1]) for number, name in enumerate(["apple", "pear", "plum", "cherry"], 2)}
    old = load_taxonomy(_ontology(tmp_path / "old.obo", {1: ("fruit", []), **fruit}))
    stone = {5: ("sweet cherry", [1, 7]), 7: ("stone fruit", []), 8: ("cherry", [1])}
    new = load_taxonomy(_ontology(tmp_path / "new.obo", {1: ("fruit", []), **fruit, **stone}))
    assert isinstance(old, Taxonomy)
    assert isinstance(new, TaxonomyDAG)
    nodes = old.encode(["cherry", "plum", "cherry", None])
    moved = translate(EmbeddingTable(torch.eye(4), nodes), old, new, "new.obo")
    assert [new.names[node] if node >= 0 else None for node in moved.nodes.tolist()] == [
        "sweet cherry", "plum", "sweet cherry", None
    ]  # fmt: skip


def test_a_name_of_two_classes_is_the_old_one_and_that_is_said() -> None:
    old, new = (
        Taxonomy.from_paths(["fruit/cherry", "fruit/plum"]),
        Taxonomy.from_paths(["fruit/sweet cherry", "fruit/plum", "tomato/cherry"]),
    )
    there = {"/": "/", "fruit": "fruit", "fruit/cherry": "fruit/sweet cherry", "fruit/plum": "fruit/plum"}
    places = [
        [new.find(there[old.path_name(node) if node else "/"]) if node else 0] for node in range(len(old))
    ]
    labels = LabelsOfBoth(TaxonomyMapping(old, new, places))
    nodes = labels.taxonomy.encode(["cherry", "plum", "tomato/cherry"]).tolist()
    assert [new.path_name(node) for node in nodes] == ["fruit/sweet cherry", "fruit/plum", "tomato/cherry"]
    assert labels.contested == {"cherry"}
    assert labels.say_contested() == ["'cherry': another class in each version, and read as the old one's"]
