"""Samples of unknown classes: exact p-values, false alarms as asked for, answers that only get coarser."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from labeltree.decisions import ClassNodes, Promise, fit_novelty, fit_rule, holds_truth, mark_unknown
from labeltree.decisions.answers import Answers, Paths
from labeltree.decisions.novelty import Distances, Fit, Reference, nearest_by_node
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(
    [
        ("animal", "dog", "terrier"),
        ("animal", "dog", "collie"),
        ("animal", "cat"),
        ("plant", "tree", "oak"),
        ("plant", "tree", "fir"),
        ("plant", "fern"),
        ("thing",),
    ]
)
CENTRES = torch.nn.functional.normalize(
    torch.tensor(
        [
            [4.0, 1.0, 0.0, 0.0, 0.3, 0.0],
            [4.0, 1.0, 0.0, 0.0, -0.3, 0.0],
            [4.0, -1.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 4.0, 1.0, 0.3, 0.0],
            [0.0, 0.0, 4.0, 1.0, -0.3, 0.0],
            [0.0, 0.0, 4.0, -1.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, 0.0, 4.0],
        ]
    ),
    dim=1,
)


def table_of(labels: torch.Tensor, seed: int, groups: torch.Tensor | None = None) -> EmbeddingTable:
    """Points around the centres of their leaves, on the sphere."""
    places = torch.tensor([TREE.leaves.tolist().index(label) for label in labels.tolist()])
    noise = torch.randn(len(labels), 6, generator=torch.Generator().manual_seed(seed))
    points = torch.nn.functional.normalize(CENTRES[places] + 0.02 * noise, dim=1)
    return EmbeddingTable(embeddings=points, nodes=labels, features=points, groups=groups)


def drawn(names: list[str], count: int, seed: int) -> EmbeddingTable:
    nodes = TREE.encode(names)
    return table_of(nodes.repeat(count), seed)


KNOWN = ["terrier", "collie", "cat", "oak", "fern"]


@pytest.mark.parametrize("grouped", [False, True])
def test_p_values_are_their_definition(grouped: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    held = torch.randint(0, 12, (30,), generator=draw).double()  # with ties
    groups = torch.randint(-1, 6, (30,), generator=draw) if grouped else None
    found = Distances.of(held, groups).p_values(torch.tensor([-1.0, 0.0, 3.0, 3.5, 11.0, 99.0]))
    names = (
        list(range(30))
        if groups is None
        else [g if g >= 0 else 100 + i for i, g in enumerate(groups.tolist())]
    )
    sizes = {name: names.count(name) for name in names}
    for value, p in zip([-1.0, 0.0, 3.0, 3.5, 11.0, 99.0], found.tolist(), strict=True):
        far = sum(1 / sizes[name] for name, d in zip(names, held.tolist(), strict=True) if d >= value)
        assert p == pytest.approx((1 + far) / (1 + len(sizes)), abs=1e-12)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean", "poincare"])
def test_nearest_of_every_node_is_a_slow_loop(geometry: str) -> None:
    reference = drawn(KNOWN, 4, 0)
    nodes = reference.nodes.clone()
    nodes[::5] = TREE.find("animal")  # an inner node
    nodes[3] = -1
    shown = EmbeddingTable(embeddings=reference.embeddings * 0.7, nodes=nodes, geometry=geometry)
    points = drawn(["cat", "thing"], 3, 1).embeddings * 0.7
    below, own = nearest_by_node(points, Reference.of(shown), TREE)
    space = shown.space
    for row, point in enumerate(points):
        for node in range(TREE.num_nodes):
            inside = [i for i, y in enumerate(nodes.tolist()) if y >= 0 and node in TREE.ancestors[y]]
            exact = [i for i, y in enumerate(nodes.tolist()) if y == node]
            for which, value in ((inside, below[row, node]), (exact, own[row, node])):
                expected = min(
                    (float(space.distance(point.double(), shown.embeddings[i].double())) for i in which),
                    default=math.inf,
                )
                assert float(value) == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_false_alarms_are_as_many_as_were_asked_for() -> None:
    """Over draws of everything, a known sample's p-value is at most ε with probability at most ε."""
    alarms = {0.01: 0, 0.05: 0, 0.1: 0}
    count = 0
    for seed in range(40):
        rule = fit_novelty(drawn(KNOWN, 8, 3 * seed), drawn(KNOWN, 25, 3 * seed + 1), TREE)
        new = drawn(KNOWN, 10, 3 * seed + 2)
        p = rule.known.p_values(nearest_by_node(new.embeddings, rule.reference, TREE)[0][:, 0])
        count += len(p)
        for share in alarms:
            alarms[share] += int((p <= share).sum())
    for share, found in alarms.items():
        # p-values of one draw share its held-out samples, so the spread is that of draws, not of samples
        assert found / count <= share + 3 * math.sqrt(share / 40) * 0.5


def answered(new: EmbeddingTable, false_alarms: float = 0.05):
    train, held = drawn(KNOWN, 20, 0), drawn(KNOWN, 40, 1)
    classes = ClassNodes(TREE.encode(KNOWN), TREE)
    centres = torch.stack([train.embeddings[train.nodes == node].mean(0) for node in classes.nodes])

    def scores(table: EmbeddingTable) -> torch.Tensor:
        return 20.0 * table.embeddings.double() @ centres.double().T

    rule = fit_rule(scores(held), held.nodes, classes)
    novelty = fit_novelty(train, held, TREE)
    paths = rule.paths(scores(new))
    plain = rule.answer(scores(new), Promise(0.9))
    return plain, mark_unknown(plain, paths, novelty.fit(new, paths.nodes), false_alarms)


@pytest.mark.parametrize(("hidden", "ancestor"), [("fir", "tree"), ("thing", "/")])
def test_an_unknown_class_is_answered_by_the_nearest_known_ancestor(hidden: str, ancestor: str) -> None:
    new = drawn([hidden], 60, 5)
    plain, marked = answered(new)
    truth = torch.full((60,), 0 if ancestor == "/" else TREE.find(ancestor))
    assert marked.unknown is not None
    assert float(marked.unknown.double().mean()) > 0.8
    assert float(holds_truth(marked.nodes, truth, TREE).double().mean()) > 0.75
    assert float(holds_truth(plain.nodes, truth, TREE).double().mean()) < 0.5
    if ancestor != "/":
        assert float((marked.nodes == truth).double().mean()) > 0.4  # not all are sent to the root


def test_what_is_called_unknown_is_cut() -> None:
    """An answer above the class that was likely is no answer in full."""
    line = [0, TREE.find("animal"), TREE.find("dog"), TREE.find("terrier")]
    paths = Paths(torch.tensor([line] * 3), torch.tensor([[1.0, 0.9, 0.8, 0.7]] * 3).double())
    plain = Answers(
        torch.tensor([line[3], line[3], line[1]]),
        torch.tensor([0.7, 0.7, 0.9]).double(),
        torch.tensor([False, False, True]),
        torch.tensor([line[3:]] * 3),
        torch.tensor([[0.7]] * 3).double(),
    )
    fit = Fit(torch.tensor([0.01, 0.5, 0.01]).double(), torch.zeros(3), torch.tensor([line[1], 0, line[2]]))
    marked = mark_unknown(plain, paths, fit, 0.05)
    assert marked.unknown is not None
    assert marked.unknown.tolist() == [True, False, True]
    assert marked.nodes.tolist() == [line[1], line[3], line[1]], "never finer"
    assert marked.probabilities.tolist() == pytest.approx([0.9, 0.7, 0.9])
    assert marked.cut.tolist() == [True, False, True]
    cheap = mark_unknown(replace(plain, costs=torch.zeros(3)), paths, fit, 0.05)
    assert torch.equal(cheap.nodes, plain.nodes), "of least cost as before"


def test_known_samples_keep_their_answers() -> None:
    new = drawn(KNOWN, 60, 6)
    plain, marked = answered(new)
    assert marked.unknown is not None
    assert marked.p_known is not None
    assert float(marked.unknown.double().mean()) < 0.1
    same = ~marked.unknown
    assert torch.equal(marked.nodes[same], plain.nodes[same])
    # what holds the truth holds it still
    held = holds_truth(plain.nodes, new.nodes, TREE)
    assert bool(holds_truth(marked.nodes, new.nodes, TREE)[held].all())
    assert bool((TREE.depth[marked.nodes] <= TREE.depth[plain.nodes]).all())
    nothing = answered(new, 0.0)[1]
    assert torch.equal(nothing.nodes, plain.nodes)
    assert not bool(nothing.unknown.any())  # type: ignore[union-attr]


def test_what_is_missing_is_said() -> None:
    train, nobody = drawn(KNOWN, 3, 0), drawn(KNOWN, 1, 1)
    nobody = EmbeddingTable(embeddings=nobody.embeddings, nodes=torch.full((5,), -1))
    with pytest.raises(DataError, match="no labelled held-out sample"):
        fit_novelty(train, nobody, TREE)
    with pytest.raises(DataError, match="no labelled reference sample"):
        fit_novelty(nobody, train, TREE)
    with pytest.raises(ValueError, match=r"unknown is 1\.5"):
        answered(drawn(KNOWN, 1, 2), 1.5)
    few = fit_novelty(train, drawn(["cat"], 2, 3), TREE)
    assert few.smallest() == pytest.approx(1 / 3)
    nobody = few.fit(train.rows(torch.zeros(0, dtype=torch.int64)), torch.zeros(0, 4).long())
    for each in (nobody.p_values, nobody.distances, nobody.nodes):
        assert each.shape == (0,)


def test_order_and_copies_of_the_reference_change_nothing() -> None:
    train, held = drawn(KNOWN, 10, 0), drawn(KNOWN, 30, 1)
    new = drawn(["fir", "cat"], 10, 2)
    paths = TREE.ancestors[new.nodes]
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(train)))
    twice = train.rows(torch.cat([order, order]))
    first, second = (fit_novelty(each, held, TREE).fit(new, paths) for each in (train, twice))
    assert torch.equal(first.p_values, second.p_values)
    assert torch.equal(first.nodes, second.nodes)
