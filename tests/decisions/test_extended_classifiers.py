"""Which classifier answers with further classes: all that the run has are to choose from."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import (
    Classifiers,
    MergedScores,
    PrototypeScores,
    classifiers_of_features,
    fit_classifiers,
)
from labeltree.decisions.extending import _choose, _choose_for_unseen, extend_classifiers
from labeltree.decisions.prototypes_from_names import NamedClasses, NameEvidence
from labeltree.decisions.searched_space import SearchedSpace
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/u", "b/v", "b/w"])
KNOWN, NEW = TREE.encode(["a/x", "a/y", "b/u", "b/v"]), TREE.encode(["b/w"])


def table(*, new_held: bool) -> EmbeddingTable:
    """Features that tell all classes; embeddings in which x and y are one heap."""
    draw = torch.Generator().manual_seed(0)
    nodes, split = [], []
    for place, node in enumerate([*KNOWN.tolist(), int(NEW)]):
        held = 20 if place < 4 or new_held else 0
        nodes += [node] * (20 + held)
        split += ["train"] * 20 + ["val"] * held
    labels = torch.tensor(nodes)
    points = torch.eye(8)[labels % 8] + 0.15 * torch.randn(len(labels), 8, generator=draw)
    heap = torch.where(labels == KNOWN[1], KNOWN[0], labels)
    flat = torch.eye(8)[heap % 8] + 0.15 * torch.randn(len(labels), 8, generator=draw)
    return EmbeddingTable(flat, labels, split=np.array(split), features=points, geometry="euclidean")


def extended(data: EmbeddingTable, **options: object) -> Classifiers:
    train = torch.from_numpy(np.asarray(data.split) == "train").nonzero()[:, 0]
    held = torch.from_numpy(np.asarray(data.split) == "val").nonzero()[:, 0]
    before = [rows[torch.isin(data.nodes[rows], KNOWN)] for rows in (train, held)]
    known = fit_classifiers(data, TREE, learned=before[0], held=before[1])
    classes = torch.cat([KNOWN, NEW]).sort().values
    asked: dict[str, object] = {"classes": classes, "added": NEW, **options}
    return extend_classifiers(known, data, TREE, learned=train, held=held, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("new_held", [True, False])
def test_class_means_of_the_features_are_kept_where_they_are_better(new_held: bool) -> None:
    data = table(new_held=new_held)
    found = extended(data)
    accuracies = found.chosen.accuracies
    assert found.chosen.name == "feature-means", accuracies
    assert accuracies["feature-means"] > accuracies["prototypes"] + 0.05
    means = found.fitted["feature-means"]
    assert isinstance(means, PrototypeScores)
    assert means.of_features
    assert data.features is not None
    row = int((means.classes == NEW).nonzero())
    learned = data.features[
        (data.nodes == NEW) & torch.from_numpy(np.asarray(data.split) == "train")
    ].double()
    expected = torch.nn.functional.normalize(learned, dim=1).mean(0)
    torch.testing.assert_close(means.prototypes[row], expected / expected.norm())


def test_discriminants_are_chosen_on_samples_of_new_classes_alone() -> None:
    assert "lda" in extended(table(new_held=True)).chosen.offered
    found = extended(table(new_held=False)).chosen
    assert "lda" not in found.offered
    assert "lda" not in found.accuracies
    assert extended(table(new_held=False), asked="lda").chosen.name == "lda"


def test_classes_that_go_leave_all_classifiers() -> None:
    found = extended(table(new_held=True), classes=KNOWN[1:], added=KNOWN[:0])
    assert set(found.fitted) == {"feature-means", "prototypes", "lda", "probe"}
    assert all(torch.equal(each.classes, KNOWN[1:]) for each in found.fitted.values())


def unseen(counts: list[int], *, by_name: bool = False, **more: object) -> ChosenClassifier:
    """The choice with so many samples of each new class; the probe is the best on known ones."""
    right = {"feature-means": 0.5, "prototypes": 0.25, "lda": 0.875, "probe": 0.75}
    chosen = ChosenClassifier("lda", "auto", right, 40, tuple(right))
    new = torch.arange(10, 10 + len(counts))
    labels = torch.cat([torch.tensor([1, 2, -1]), torch.repeat_interleave(new, torch.tensor(counts))])
    return _choose_for_unseen(replace(chosen, **more), labels, new, by_name)  # type: ignore[arg-type]


def test_few_samples_of_new_classes_are_named_by_means() -> None:
    """By the median: 4 of 1, 4 and 9 are few, and 5 of 1, 5 and 9 are not."""
    few = unseen([1, 4, 9])
    assert (few.name, few.few_samples, few.offered) == (
        *("feature-means", 4),
        ("feature-means", "prototypes", "probe"),
    )
    assert set(few.accuracies) == {"feature-means", "prototypes", "probe"}
    enough = unseen([1, 5, 9])
    assert (enough.name, enough.few_samples) == ("probe", 0)
    named = unseen([1, 4, 9], by_name=True)
    assert (named.name, named.few_samples) == ("prototypes", 4), "names are in the prototypes alone"
    alone = unseen([1, 4, 9], offered=("prototypes",), accuracies={"prototypes": 0.25})
    assert (alone.name, alone.few_samples) == ("prototypes", 0), "there is nothing else"


def test_accuracies_are_means_of_known_and_of_new_classes() -> None:
    """Of twelve held-out samples six are of known classes, of which three are right, two of a new one."""
    x, y, new, other = 1, 2, 3, 9
    nodes = torch.tensor([x, x, x, y, y, y, new, new, other, other, other, other])
    answers = torch.tensor([0, 0, 1, 1, 0, 0, 2, 2, 0, 0, 0, 0])
    held = EmbeddingTable(torch.eye(3)[answers], nodes, geometry="euclidean")
    classes = torch.tensor([x, y, new])
    scores = PrototypeScores(classes, torch.eye(3).double(), "euclidean")
    found = _choose({"prototypes": scores}, held, classes, torch.tensor([new]), "auto")
    assert found.accuracies == pytest.approx({"prototypes": (0.5 + 1.0) / 2})
    assert (found.samples, found.new_class_samples, found.one_class) == (8, 2, False)
    known = _choose({"prototypes": scores}, held, classes, classes[:0], "auto")
    assert known.accuracies == pytest.approx({"prototypes": 5 / 8})
    one = _choose({"prototypes": scores}, held.rows(nodes == x), classes, classes[2:], "auto")
    assert one.accuracies == pytest.approx({"prototypes": 2 / 3})
    assert one.one_class


def test_what_was_known_of_the_classifiers_stays_known() -> None:
    """The space of a search, that there are features, and how far the probe is from its minimum."""
    data = table(new_held=False)
    rows = torch.from_numpy(np.asarray(data.split) == "train").nonzero()[:, 0]
    old = rows[torch.isin(data.nodes[rows], KNOWN)]
    space = SearchedSpace("features", {"embeddings": 0.25, "features": 0.5}, 9)
    known = fit_classifiers(data, TREE, learned=old, held=old)
    known = replace(known, gap=0.125, chosen=replace(known.chosen, space=space))
    shown = {"learned": rows, "held": rows[:0], "classes": KNOWN[1:], "added": KNOWN[:0]}
    fewer = extend_classifiers(known, data, TREE, **shown)
    assert (fewer.gap, fewer.chosen.space, fewer.chosen.features) == (0.125, space, True)
    bare = replace(data, features=None)
    assert not extend_classifiers(
        fit_classifiers(bare, TREE, learned=old, held=old), bare, TREE, **shown
    ).chosen.features
    assert classifiers_of_features(known).gap == 0.125


def test_where_the_own_one_has_no_scores_the_best_other_one_has_them() -> None:
    data = table(new_held=False)
    rows = torch.from_numpy(np.asarray(data.split) == "train").nonzero()[:, 0]
    fitted = fit_classifiers(data, TREE, learned=rows, held=rows)
    chosen = ChosenClassifier("own", "auto", {"lda": 0.5, "probe": 0.75}, 9)
    assert replace(fitted, chosen=chosen).with_scores == "probe"
    by_f1 = replace(chosen, hierarchical_f1={"lda": 0.9, "probe": 0.8, "own": 1.0})
    assert replace(fitted, chosen=by_f1).with_scores == "lda"
    assert replace(fitted, chosen=replace(chosen, accuracies={})).with_scores == "probe"
    assert replace(fitted, chosen=replace(chosen, name="lda")).with_scores == "lda"


def test_new_samples_of_a_known_class_move_its_means_alone() -> None:
    """Samples of y alone cannot teach a probe to tell it from the others: the old one goes on."""
    data = table(new_held=False)
    rows = torch.from_numpy(np.asarray(data.split) == "train").nonzero()[:, 0]
    old = rows[torch.isin(data.nodes[rows], KNOWN)]
    known = fit_classifiers(data, TREE, learned=old, held=old)
    more = EmbeddingTable(
        torch.full((2, 8), 3.0), KNOWN[[1, 1]], features=torch.ones(2, 8), geometry="euclidean"
    )
    added = KNOWN[[1]]
    found = extend_classifiers(
        known, more, TREE, learned=torch.arange(2), held=torch.arange(0), classes=KNOWN, added=added
    )
    expected = known.prototypes.prototypes.clone()
    expected[1] = 3.0
    assert torch.equal(found.prototypes.prototypes, expected)
    assert torch.equal(found.prototypes.classes, KNOWN)
    assert set(found.chosen.offered) == {"feature-means", "prototypes", "lda", "probe"}
    assert torch.equal(found.probe.weight, known.probe.weight)


def test_a_class_with_a_name_is_as_new_when_its_first_samples_come() -> None:
    """Of three held-out samples two are of a class that had a name alone before."""
    data = table(new_held=False)
    rows = torch.from_numpy(np.asarray(data.split) == "train").nonzero()[:, 0]
    old = rows[torch.isin(data.nodes[rows], KNOWN)]
    known = fit_classifiers(data, TREE, learned=old, held=old)
    added = KNOWN[[1]]
    evidence = NameEvidence(1.0, torch.zeros(8).double(), 3)
    named = NamedClasses(added, torch.zeros(1, 8).double(), evidence, unit=False)
    held = torch.cat(
        [(data.nodes == node).nonzero()[-count:, 0] for node, count in zip(KNOWN[:2], (1, 2), strict=True)]
    )
    shown = {"learned": rows, "held": held, "classes": KNOWN, "added": added}
    assert extend_classifiers(known, data, TREE, named=named, **shown).chosen.new_class_samples == 2
    assert extend_classifiers(known, data, TREE, **shown).chosen.new_class_samples == 0


def test_classes_of_one_node_are_merged_at_the_temperature_of_their_classifier() -> None:
    means = PrototypeScores(KNOWN[[0, 0, 1]], torch.eye(3).double(), "euclidean")
    chosen = ChosenClassifier("prototypes", "auto", {"prototypes": 0.5}, 9)
    fitted = {"prototypes": means, "feature-means": replace(means, scale=2.0)}
    known = Classifiers(fitted, chosen, temperatures={"prototypes": 3.0})
    for name, scale, temperature in (("prototypes", 1.0, 3.0), ("feature-means", 2.0, 1.0), (None, 1.0, 3.0)):
        found = known.scores(name)
        assert isinstance(found, MergedScores)
        assert isinstance(found.scores, PrototypeScores)
        assert (found.temperature, found.scores.scale) == (temperature, scale)
        assert torch.equal(found.classes, KNOWN[:2])
