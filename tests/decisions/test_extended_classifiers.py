"""Which classifier answers with further classes: all that the run has are to choose from."""

import numpy as np
import pytest
import torch

from labeltree.decisions.classifiers import Classifiers, PrototypeScores, fit_classifiers
from labeltree.decisions.extending import extend_classifiers
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
