"""What to label next: costs of answers, probabilities from coarse labels, choices of samples and depths."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from labeltree.curation.answer_costs import answer_costs, read_costs
from labeltree.curation.batch_choice import STRATEGIES, copies_apart
from labeltree.curation.label_next import _reason, label_next
from labeltree.curation.partial_labels import fit_depth_probes
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["animal/dog", "animal/cat", "animal/cow", "plant/oak", "plant/fir", "stone"])


def clouds(each: int = 20, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points around one centre per leaf; branches lie far apart, leaves of one near each other."""
    generator = torch.Generator().manual_seed(seed)
    leaves = TREE.leaves
    centres = torch.randn(len(TREE), 8, generator=generator)
    centres = centres * 0.7 + 4 * centres[TREE.ancestors[:, 1].clamp(min=0)]
    nodes = leaves.repeat_interleave(each)
    return centres[nodes] + 0.5 * torch.randn(len(nodes), 8, generator=generator), nodes


def hidden(nodes: Tensor, keep: int) -> Tensor:
    """Labels of all but the first few samples of each leaf hidden."""
    found = torch.full_like(nodes, -1)
    for leaf in nodes.unique().tolist():  # type: ignore[no-untyped-call]
        rows = (nodes == leaf).nonzero()[:keep, 0]
        found[rows] = leaf
    return found


def test_costs_by_levels_by_children_and_by_depth() -> None:
    dog, stone, animal = TREE.find("dog"), TREE.find("stone"), TREE.find("animal")
    assert answer_costs(TREE)[[0, animal, dog, stone]].tolist() == [0, 1, 2, 1]
    assert answer_costs(TREE, "children")[dog] == pytest.approx(math.log2(4) + math.log2(4))
    assert answer_costs(TREE, [1.5, 4])[[animal, dog]].tolist() == [1.5, 4]
    assert read_costs("children") == "children"
    assert read_costs("1,2.5") == (1.0, 2.5)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1.0], "1 costs, and labels lie as deep as 2"),
        ([2.0, 1.0], "none less than"),
        ([0.0, 1.0], "positive"),
        ([1.0, math.nan], "positive"),
        ("clicks", "'levels', 'children'"),
    ],
)
def test_costs_that_make_no_sense(costs: str | list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        answer_costs(TREE, costs)
    with pytest.raises(ValueError, match=r"such as 1,1\.5,4"):
        read_costs("1;2")


def test_probabilities_are_a_distribution_at_every_depth_and_respect_known_labels() -> None:
    vectors, nodes = clouds()
    labels = hidden(nodes, 3)
    labels[5:8] = TREE.find("animal")
    labels[nodes == TREE.find("fir")] = -1  # no fir has a label
    probes = fit_depth_probes(vectors, labels, TREE)
    found = probes.node_probabilities(vectors)
    children = torch.zeros_like(found)
    children.index_add_(1, TREE.parent[1:], found[:, 1:])
    inner = ~TREE.is_leaf
    assert torch.allclose(children[:, inner], found[:, inner])
    assert bool((found[:, TREE.find("fir")] > 0).all())
    plant = torch.full_like(nodes, TREE.find("plant"))
    given = probes.node_probabilities(vectors, plant)
    assert torch.equal(given[:, TREE.find("plant")], torch.ones(len(nodes)).double())
    assert float(given[:, TREE.find("animal")].sum()) == 0
    assert bool((probes.predict(vectors) == nodes)[nodes != TREE.find("fir")].double().mean() > 0.7)


def test_coarse_labels_teach_the_coarse_depth() -> None:
    vectors, nodes = clouds()
    labels = hidden(nodes, 1)
    coarse = torch.where(labels < 0, TREE.ancestors[nodes, 1], labels)
    right = [
        float(fit_depth_probes(vectors, given, TREE).samples[TREE.find("plant")])
        for given in (labels, coarse)
    ]
    assert right == [2, 40]


def test_no_label_at_all() -> None:
    vectors, nodes = clouds(4)
    asked = label_next(vectors, torch.full_like(nodes, -1), TREE, budget=6, strategy="margin", depth=1)
    assert asked.strategy == "typiclust"
    assert len(asked) == 6
    assert "nothing is labelled yet" in asked.reasons[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("depth", ["finest", "gain", 1])
def test_every_way_stays_within_the_budget_and_gives_the_same_twice(strategy: str, depth: str | int) -> None:
    vectors, nodes = clouds()
    labels = hidden(nodes, 2)
    first, second = (
        label_next(vectors, labels, TREE, budget=9, strategy=strategy, depth=depth, seed=3)  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert torch.equal(first.rows, second.rows)
    assert 0 < float(first.costs.sum()) <= 9 + 1e-9
    assert len(first.rows.unique()) == len(first) == len(first.reasons)  # type: ignore[no-untyped-call]
    assert bool((labels[first.rows] < 0).all())
    assert bool((first.gains >= 0).all())
    assert bool((TREE.depth[first.likely] <= first.depths).all())


def test_the_depth_follows_the_doubt() -> None:
    tree = Taxonomy.from_paths(["a/x", "a/y", "b/u", "b/v"])
    # one sample between the branches, one in the middle of a branch whose leaves it lies between
    vectors = torch.tensor([[-4.0, 3], [-4, -3], [4, 3], [4, -3], [0, 3], [-4, 0.0]]).repeat_interleave(4, 0)
    nodes = tree.encode(["x", "y", "u", "v"]).repeat_interleave(4)
    labels = torch.cat([nodes, torch.full((8,), -1)])
    vectors = vectors + 0.1 * torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0))
    asked = label_next(vectors, labels, tree, budget=20, strategy="entropy", depth="gain")
    depth = dict(zip(asked.rows.tolist(), asked.depths.tolist(), strict=True))
    assert {depth[row] for row in range(16, 20)} == {1}
    assert {depth[row] for row in range(20, 24)} == {2}
    # dear coarse answers turn it round; unreliable fine ones turn the others
    dear = label_next(vectors, labels, tree, budget=40, depth="gain", costs=[3.9, 4], strategy="entropy")
    assert set(dear.depths.tolist()) == {2}
    loose = label_next(vectors, labels, tree, budget=40, depth="gain", reliability=[1, 0.01])
    assert set(loose.depths[loose.rows < 20].tolist()) == {1}


def test_the_number_of_labelled_samples_is_that_of_the_first_of_two() -> None:
    tree = Taxonomy.from_paths(["a/x", "a/y", "b/u"])
    first, second, third = (tree.find(name) for name in "xyu")
    samples = torch.zeros(tree.num_nodes)
    samples[first] = 1
    probes = SimpleNamespace(taxonomy=tree, samples=samples)
    share = torch.zeros(tree.num_nodes)
    share[first], share[second], share[third] = 0.58, 0.29, 0.9
    said = _reason(probes, share, 2, -1, [first, second])  # type: ignore[arg-type]
    assert said.startswith("unsure between a/x (58%) and a/y (29%), of which the first has 1 labelled sample")
    said = _reason(probes, share, 2, -1, [third, first])  # type: ignore[arg-type]
    assert said.startswith("probably b/u (90%), which has no labelled sample")


def test_a_coarse_label_is_refined_at_the_rest_of_the_cost() -> None:
    vectors, nodes = clouds()
    labels = hidden(nodes, 2)
    row = int((nodes == TREE.find("dog")).nonzero()[5])
    labels[row] = TREE.find("animal")
    only = torch.zeros(len(nodes), dtype=torch.bool)
    only[row] = True
    asked = label_next(vectors, labels, TREE, budget=5, candidates=only)
    assert asked.rows.tolist() == [row]
    assert asked.costs.tolist() == [1.0]
    assert asked.known.tolist() == [TREE.find("animal")]
    assert int(TREE.parent[asked.likely[0]]) == TREE.find("animal")
    assert "known so far: animal" in asked.reasons[0]
    with pytest.raises(DataError, match="nothing to label"):
        label_next(vectors, labels, TREE, budget=5, candidates=only, depth=1)


def test_costs_by_which_an_answer_is_free_are_refused() -> None:
    vectors, nodes = clouds()
    coarse = torch.where(torch.arange(len(nodes)) < 8, nodes, TREE.parent[nodes])
    for depth in ("finest", "gain", 2):
        with pytest.raises(ValueError, match=r"costs are \[1.0, 1.0\].* free for .*'animal'.*that rise"):
            label_next(vectors, coarse, TREE, costs=[1.0, 1.0], depth=depth)  # type: ignore[arg-type]
    unlabelled = torch.where(torch.arange(len(nodes)) < 8, nodes, -1)  # each answer costs the same: no harm
    assert label_next(vectors, unlabelled, TREE, costs=[1.0, 1.0], budget=3).costs.tolist() == pytest.approx(
        [1] * 3
    )
    tiny = label_next(vectors, unlabelled, TREE, costs=[1e-300, 2e-300], budget=3)
    assert len(tiny) == tiny.candidates
    for costs in ([0.0, 1.0], [0.0, 0.0], [1.0]):
        with pytest.raises(ValueError, match="costs"):
            label_next(vectors, unlabelled, TREE, costs=costs)


def test_copies_are_asked_once_and_groups_take_turns() -> None:
    points = torch.cat([torch.zeros(10, 2), torch.arange(1.0, 11)[:, None].repeat(1, 2)])
    alone = torch.arange(20)
    order = copies_apart(points, torch.arange(20), alone, 20)
    assert sorted(order.tolist()) == [0, *range(10, 20)]
    groups = torch.tensor([0] * 15 + [1] * 3 + [2] * 2)
    generator = torch.Generator().manual_seed(0)
    order = copies_apart(torch.randn(20, 3, generator=generator), torch.arange(20), groups, 6)
    assert torch.bincount(groups[order[:6]]).tolist() == [2, 2, 2]


def test_settings_and_data_that_are_refused() -> None:
    vectors, nodes = clouds(2)
    labels = hidden(nodes, 1)
    with pytest.raises(DataError, match="nothing to label"):
        label_next(vectors, nodes, TREE)
    with pytest.raises(DataError, match="does not pay for one answer"):
        label_next(vectors, labels, TREE, budget=0.5)
    for given, message in (
        ({"budget": 0}, "budget"),
        ({"budget": math.nan}, "budget"),
        ({"strategy": "magic"}, "expected one of .random"),
        ({"depth": 3}, "depths 1 to 2"),
        ({"depth": "deep"}, "expected finest, gain"),
        ({"reliability": [1.0]}, "each of 2 depths"),
        ({"reliability": [1.0, 0.0]}, "above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            label_next(vectors, labels, TREE, **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"finite|NaN"):
        label_next(torch.full_like(vectors, math.nan), labels, TREE)


def test_one_row_and_constant_vectors() -> None:
    asked = label_next(torch.zeros(1, 3), torch.tensor([-1]), TREE, budget=2)
    assert asked.rows.tolist() == [0]
    same = label_next(
        torch.ones(30, 3), torch.tensor([1] * 10 + [-1] * 20), TREE, budget=50, strategy="badge"
    )
    assert len(same) == 1  # all are copies of one
