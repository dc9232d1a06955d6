"""HOPS against values of the published code and a slow reference; answers made separately at every depth."""

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.metrics.functional import (
    answers_by_depth,
    class_order,
    consistency_by_depth,
    full_path_accuracy,
    hops,
    hops_at_ks,
)
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyDAG

PATHS = ["a/b/1", "a/b/2", "a/b/3", "a/c/4", "a/c/5", "a/6", "d/e/7", "d/e/8", "d/9", "f"]
PATHS += ["g/h/i/10", "g/h/i/11", "g/12"]
# of the notebook of the authors of Hier-COS, run once on `published_case`
PUBLISHED = {
    None: [0.609929078, 0.850050659, 0.94991511, 0.914285714, 0.778688525, 0.582857143, 1.0],
    1: [0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0],
    2: [0.0, 1.0, 1.0, 1.0, 2 / 3, 0.0, 1.0],
    5: [0.368421053, 0.802631579, 1.0, 0.918256131, 0.84375, 0.61852861, 1.0],
    8: [0.551804424, 0.845168801, 0.942382812, 0.921052632, 0.809859155, 0.615789474, 1.0],
}


def published_case() -> tuple[Tensor, Tensor, Taxonomy]:
    taxonomy = Taxonomy.from_paths([tuple(path.split("/")) for path in PATHS])
    classes = torch.tensor([taxonomy.find(path.rpartition("/")[2]) for path in PATHS])
    # the columns are the leaves in ascending order, which is that of the paths
    assert classes.tolist() == taxonomy.leaves.tolist()
    rows, columns = torch.arange(7)[:, None], torch.arange(13)[None]
    truth = torch.arange(7) * 2 % 13
    scores = ((rows * 7 + columns * 5 + rows * columns * 3) % 13).double() / 4 + columns / 64
    return scores - taxonomy.lca_height(classes[truth][:, None], classes[None]), classes[truth], taxonomy


def slow_hops(scores: list[float], truth: int, k: int | None, classes: list[int], tree: AnyTaxonomy) -> float:
    """HOPS of one sample, term by term."""
    height = [
        -1 if c == truth else int(tree.lca_height(torch.tensor(c), torch.tensor(truth))) for c in classes
    ]
    grade = [sorted(set(height)).index(h) for h in height]
    order = sorted(range(len(classes)), key=lambda c: -scores[c])
    expected, obtained = sorted(grade), [grade[c] for c in order]
    if k == 1:
        return float(obtained[0] == 0)
    weights = []
    for place, e in enumerate(expected):
        size, here = expected.count(e), 2.0**-e
        following = 0.0 if e == max(expected) else here / 2
        weights.append(here + (following - here) * (place - expected.index(e)) / size)
    first = len(classes) if k is None else min(k, len(classes))
    worst = expected[:first][::-1]
    lost = sum(weights[i] * abs(expected[i] - obtained[i]) for i in range(first))
    return min(max(1 - lost / sum(weights[i] * abs(expected[i] - worst[i]) for i in range(first)), 0), 1)


def test_hops_has_the_published_values() -> None:
    scores, target, taxonomy = published_case()
    values = hops_at_ks(scores, target, taxonomy, tuple(PUBLISHED))
    for k, expected in PUBLISHED.items():
        torch.testing.assert_close(values[k], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-6)
        torch.testing.assert_close(hops(scores, target, taxonomy, k=k), values[k].mean())


@pytest.mark.parametrize("kind", ["tree", "dag", "inner classes"])
def test_hops_is_that_of_a_slow_reference(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_order, "_AT_ONCE", 40)  # several chunks
    taxonomy: AnyTaxonomy = published_case()[2]
    if kind == "dag":
        edges = [
            ("a", "r"),
            ("b", "r"),
            ("c", "a"),
            ("c", "b"),
            ("1", "c"),
            ("2", "c"),
            ("3", "a"),
            ("3", "b"),
        ]
        taxonomy = TaxonomyDAG.from_edges([*edges, ("4", "b"), ("5", "r")])
    classes = torch.arange(1, taxonomy.num_nodes) if kind == "inner classes" else taxonomy.leaves
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(0, len(classes), (30,), generator=generator)
    scores = torch.randn(30, len(classes), generator=generator, dtype=torch.float64)
    scores[torch.arange(30), truth] += 1
    values = hops_at_ks(scores, classes[truth], taxonomy, (None, 1, 2, 4, 99), classes=classes)
    for k, of_k in values.items():
        expected = [
            slow_hops(row, int(node), k, classes.tolist(), taxonomy)
            for row, node in zip(scores.tolist(), classes[truth], strict=True)
        ]
        torch.testing.assert_close(of_k, torch.tensor(expected, dtype=torch.float64))


def test_ties_follow_the_columns_or_the_published_code() -> None:
    taxonomy = Taxonomy.from_paths([("m", "dog"), ("m", "cat"), ("f", "trout"), ("f", "eel")])
    dog, trout = taxonomy.leaves[0], taxonomy.leaves[2]
    tied = torch.zeros(2, 4)
    assert hops(tied, torch.stack([dog, trout]), taxonomy, k=1, reduction="none").tolist() == [1, 0]
    scores = torch.randint(0, 3, (50, 4), generator=torch.Generator().manual_seed(0)).double()
    target = taxonomy.leaves[torch.arange(50) % 4]
    theirs = np.argsort(scores.numpy(), axis=1)[:, ::-1].copy()
    distinct = torch.empty(50, 4).scatter_(
        1, torch.from_numpy(theirs), torch.arange(4, 0, -1.0).expand(50, 4)
    )
    assert torch.equal(
        hops(scores, target, taxonomy, ties="published", reduction="none"),
        hops(distinct, target, taxonomy, reduction="none"),
    )


def test_labels_that_are_no_class_are_left_out() -> None:
    taxonomy = Taxonomy.from_paths([("m", "dog"), ("m", "cat"), ("f", "trout")])
    target = torch.tensor([-1, taxonomy.find("m"), taxonomy.find("dog")])
    assert hops(torch.rand(3, 3), target, taxonomy, reduction="none").isnan().tolist() == [True, True, False]
    assert hops(torch.rand(1, 3), target[:1], taxonomy).isnan()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"ties": "last"}, "ties"),
        ({"scores": torch.rand(2, 2)}, "a column a class"),
        ({"scores": torch.tensor([[0, 0, torch.nan]] * 2)}, "NaN in row 0"),
        ({"classes": torch.tensor([2, 2, 3])}, "distinct"),
    ],
)
def test_bad_input_to_hops(change: dict[str, object], message: str) -> None:
    taxonomy = Taxonomy.from_paths([("m", "dog"), ("m", "cat"), ("f", "trout")])
    arguments = {"scores": torch.rand(2, 3), "target_nodes": taxonomy.leaves[:2], "taxonomy": taxonomy}
    with pytest.raises(ValueError, match=message):
        hops(**(arguments | change))  # type: ignore[arg-type]


def test_separate_answers_by_a_loop() -> None:
    _, _, taxonomy = published_case()
    probabilities = torch.rand(40, 13, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    answers = answers_by_depth(probabilities, taxonomy)
    for row, given in zip(answers.tolist(), probabilities.tolist(), strict=True):
        for depth in range(taxonomy.max_depth):
            sums: dict[int, float] = {}
            for leaf, share in zip(taxonomy.leaves.tolist(), given, strict=True):
                at = int(taxonomy.paths[leaf, depth])
                sums[at] = sums.get(at, 0.0) + share
            assert sums[row[depth]] == pytest.approx(max(sums.values()))


def test_full_path_accuracy_is_top_1_where_answers_agree() -> None:
    _, _, taxonomy = published_case()
    generator = torch.Generator().manual_seed(2)
    leaves = taxonomy.leaves[torch.randint(0, 13, (50,), generator=generator)]
    target = taxonomy.leaves[torch.randint(0, 4, (50,), generator=generator)]
    along = taxonomy.paths[leaves]
    assert full_path_accuracy(along, target, taxonomy) == (leaves == target).double().mean()
    assert (consistency_by_depth(along, taxonomy) == 1).all()
    contrary = along.clone()
    contrary[:, 0] = taxonomy.find("f")  # wrong at the first depth
    assert full_path_accuracy(contrary, target, taxonomy) == 0
    assert consistency_by_depth(contrary, taxonomy)[0] == (leaves == taxonomy.find("f")).double().mean()
    inner = torch.full((50,), taxonomy.find("a"))
    decided = full_path_accuracy(along, inner, taxonomy, reduction="none")
    assert torch.equal(decided, (along[:, 0] == taxonomy.find("a")).double())


def test_the_finest_answer_is_the_last_that_there_is() -> None:
    taxonomy = Taxonomy.from_paths([("dog", "pug"), ("dog", "spitz"), ("cat", "manx")])
    dog, cat = taxonomy.encode(["dog", "cat"]).tolist()
    answers = torch.tensor([[dog, -1], [cat, -1]])  # of classes that are inner nodes
    agree = consistency_by_depth(answers, taxonomy, reduction="none")
    assert agree[:, 0].tolist() == [1, 1]
    assert agree[:, 1].isnan().all()
