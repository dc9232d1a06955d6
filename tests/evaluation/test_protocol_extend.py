"""The protocol `extend`: its numbers are those of nearest means and of a probe fitted by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labeltree.decisions.classifiers import fit_linear
from labeltree.evaluation import EvaluationSettings, evaluate
from labeltree.evaluation.subsampling import ranked_in_label
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("a", "z"), ("b", "u"), ("b", "v"), ("c",)])
NAMES = ["x", "y", "z", "u", "v", "c"]
CENTRES = torch.nn.functional.normalize(
    torch.tensor(
        [[5, 1, 0, 0], [5, -1, 0, 0], [5, 0, 1, 0], [0, 1, 5, 0], [0, -1, 5, 0], [0, 0, 0, 5]]
    ).float(),
    dim=1,
)
HIDDEN = ("z", "c")


def table(*, hidden: tuple[str, ...] = HIDDEN) -> EmbeddingTable:
    """Points around their classes; outside the test split the hidden ones are in the split ``unseen``."""
    draw = torch.Generator().manual_seed(0)
    names, splits = [], []
    for split, count in (("train", 12), ("val", 6), ("test", 20)):
        for name in NAMES:
            names += [name] * count
            splits += ["unseen" if split != "test" and name in hidden else split] * count
    points = CENTRES[[NAMES.index(name) for name in names]]
    points = torch.nn.functional.normalize(points + 0.1 * torch.randn(len(names), 4, generator=draw), dim=1)
    return EmbeddingTable(
        embeddings=points, nodes=TREE.encode(names), features=points.clone(), split=np.array(splits)
    )


def measured(data: EmbeddingTable, **options: object) -> dict[str, float]:
    settings = EvaluationSettings(resamples=0, protocols=("extend",), options={"extend": options})
    found = evaluate(data, TREE, settings=settings).main.protocols["extend"]
    assert found.refusal is None, found.refusal
    return dict(found.scores)


def test_numbers_are_those_of_classifiers_by_hand() -> None:
    data = table()
    scores = measured(data, per_class=(3,), draws=2)
    split = np.asarray(data.split)
    train, pool, test = (
        torch.from_numpy(np.flatnonzero(split == name)) for name in ("train", "unseen", "test")
    )
    new = torch.isin(data.nodes[test], TREE.encode(list(HIDDEN)))
    truth = data.nodes[test]
    sums = dict.fromkeys(("new_prototypes", "known_prototypes", "new_probe", "known_probe"), 0.0)
    for seed in (0, 1):
        rank, _ = ranked_in_label(data.nodes[pool], seed)
        rows = torch.cat([train, pool[rank < 3]])
        classes = TREE.encode(NAMES).sort().values
        means = torch.stack(
            [data.embeddings[rows[data.nodes[rows] == node]].double().mean(0) for node in classes]
        )
        means = torch.nn.functional.normalize(means, dim=1)
        answers = {"prototypes": classes[(data.embeddings[test].double() @ means.T).argmax(1)]}
        labels = torch.full_like(data.nodes, -1)
        labels[rows] = data.nodes[rows]
        probe, _ = fit_linear(data, labels)
        answers["probe"] = probe.classes[probe(data.rows(test)).argmax(1)]
        for kind, given in answers.items():
            right = (given == truth).double()
            sums[f"new_{kind}"] += float(right[new].mean()) / 2
            sums[f"known_{kind}"] += float(right[~new].mean()) / 2
    for name, value in sums.items():
        which, kind = name.split("_")
        assert scores[f"{which}_top1_{kind}_3"] == pytest.approx(value, abs=1e-9)
    assert scores["new_top1_plain"] == 0.0
    assert 0.0 < scores["new_f1_plain"] < 1.0  # z is answered by its siblings, which share a


def test_trained_classes_are_compared_with() -> None:
    scores = measured(table(hidden=()), classes=HIDDEN)
    names = [f"{which}_{metric}_trained" for which in ("new", "known") for metric in ("top1", "f1")]
    assert sorted(scores) == sorted(names)
    assert scores["new_top1_trained"] > 0.5


@pytest.mark.parametrize(
    ("hidden", "drop", "match"),
    [((), False, "no test sample is of a new class"), (HIDDEN, True, "no sample outside the test split")],
)
def test_it_says_why_it_cannot_measure(hidden: tuple[str, ...], drop: bool, match: str) -> None:
    data = table(hidden=hidden)
    if drop:
        data = data.rows(torch.from_numpy(np.asarray(data.split) != "unseen"))
    settings = EvaluationSettings(resamples=0, protocols=("extend",))
    found = evaluate(data, TREE, settings=settings).main.protocols["extend"]
    assert found.refusal is not None
    assert match in found.refusal
