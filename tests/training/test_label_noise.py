"""Wrong labels: as many as section 8.1 of the MLCL paper says, and ratings that go with them."""

import dataclasses

import pytest
import torch

from labeltree.data import ArrayStore, Source
from labeltree.taxonomy import Taxonomy
from labeltree.training.training_labels import with_label_noise

TREE = Taxonomy.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")])


def source_of(n: int, **columns: object) -> Source:
    leaves = TREE.leaves[torch.arange(n) % 4]
    return Source(
        name="made",
        taxonomy=TREE,
        nodes=leaves,
        instances=torch.arange(n),
        store=ArrayStore(torch.zeros(n, 2, 2, dtype=torch.uint8)),
        rows=torch.arange(n),
        **columns,
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_as_many_labels_stay_as_the_paper_says(share):
    source = source_of(20_000)
    noisy = with_label_noise(source, share, seed=3)
    stays = float((noisy.nodes == source.nodes).double().mean())
    assert stays == pytest.approx(1 - share * 3 / 4, abs=0.015)
    assert torch.equal(with_label_noise(source, share, seed=3).nodes, noisy.nodes)
    if share:
        assert not torch.equal(with_label_noise(source, share, seed=4).nodes, noisy.nodes)


def test_missing_labels_stay_missing_and_inner_nodes_may_be_drawn():
    nodes = torch.tensor([-1, int(TREE.find("a")), int(TREE.find(("b", "z")))] * 500)
    source = dataclasses.replace(source_of(1500), nodes=nodes)
    noisy = with_label_noise(source, 1.0, seed=0).nodes
    assert torch.equal(noisy < 0, nodes < 0)
    assert set(noisy[nodes >= 0].tolist()) == set(nodes[nodes >= 0].tolist())
    nothing = dataclasses.replace(source, nodes=torch.full((1500,), -1))
    assert torch.equal(with_label_noise(nothing, 1.0, seed=0).nodes, nothing.nodes)


def test_the_rating_of_an_aspect_goes_with_its_label():
    stars = Taxonomy.from_paths([("bad", "1"), ("bad", "2"), ("good", "4"), ("good", "5")])
    n = 4000
    drawn = torch.randint(4, (n, 2), generator=torch.Generator().manual_seed(0))
    aspects, ratings = stars.leaves[drawn], torch.tensor([1, 2, 4, 5])[drawn]
    aspects[:100, 1], ratings[:100, 1] = -1, -1
    source = source_of(n, aspect_taxonomies=(stars, stars), aspects=aspects, ratings=ratings)
    noisy = with_label_noise(source, 0.5, seed=1)
    of_leaf = torch.full((stars.num_nodes + 1,), -1)
    of_leaf[stars.leaves] = torch.tensor([1, 2, 4, 5])
    assert torch.equal(noisy.ratings, of_leaf[noisy.aspects])
    changed = (noisy.aspects != aspects).double().mean(0)
    assert changed[0] == pytest.approx(0.5 * 3 / 4, abs=0.03)
    # Aspects are drawn one by one.
    both = ((noisy.aspects != aspects)[100:].all(1)).double().mean()
    assert float(both) == pytest.approx((0.5 * 3 / 4) ** 2, abs=0.03)


def test_ratings_that_are_no_aspects_change_as_a_row():
    tags = torch.arange(600)[:, None].expand(-1, 5).contiguous()
    noisy = with_label_noise(source_of(600, ratings=tags), 0.4, seed=0).ratings
    assert bool((noisy == noisy[:, :1]).all())
    assert float((noisy[:, 0] != tags[:, 0]).double().mean()) == pytest.approx(0.4, abs=0.06)
