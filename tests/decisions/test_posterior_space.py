"""The posterior space beside a loop over classes, and the order that it promises."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions import posterior_embeddings
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.class_similarity import Similarity, class_similarity
from sweeps import some_now

TREE = Taxonomy.from_paths(
    [("a", "b", "c"), ("a", "b", "d"), ("a", "e", "f"), ("a", "e", "g"), ("h", "i"), ("h", "j"), ("k",)]
)


def draw(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    probabilities = torch.from_numpy(rng.dirichlet(np.full(len(TREE.leaves), 0.3), n))
    return probabilities, torch.from_numpy(rng.standard_normal((n, 5)))


def slow_similarity(one: int, other: int, similarity: Similarity, tree: float) -> float:
    if one == other:
        return 1.0
    lca = int(TREE.lca(torch.tensor(one), torch.tensor(other)))
    by_tree = (
        1 - int(TREE.height[lca]) / TREE.max_depth
        if similarity == "height"
        else int(TREE.depth[lca]) / TREE.max_depth
    )
    return tree * by_tree


@pytest.mark.parametrize("similarity", ["height", "depth"])
@pytest.mark.parametrize("tree", some_now([0.4, 0.0, 1.0]))
@pytest.mark.parametrize("instance", [0.0, 0.3])
def test_products_are_expected_similarities(similarity: Similarity, tree: float, instance: float) -> None:
    probabilities, vectors = draw(6)
    z = posterior_embeddings(
        probabilities,
        TREE.leaves,
        TREE,
        similarity=similarity,
        tree=tree,
        vectors=vectors,
        instance=instance,
    )
    classes = TREE.leaves.tolist()
    similar = [[slow_similarity(one, other, similarity, tree) for other in classes] for one in classes]
    rows = probabilities.tolist()
    for first, second in itertools.product(range(6), repeat=2):
        expected = sum(
            p * q * similar[column][other]
            for column, p in enumerate(rows[first])
            for other, q in enumerate(rows[second])
        )
        cosine = float(torch.nn.functional.cosine_similarity(vectors[first], vectors[second], dim=0))
        assert math.isclose(float(z[first] @ z[second]), expected + instance * cosine, abs_tol=1e-12)


def test_class_embeddings_have_the_similarities_of_the_tree() -> None:
    likeness = class_similarity(TREE.leaves, TREE, "height", 1.0)
    vectors = TREE.class_embeddings()
    torch.testing.assert_close(vectors @ vectors.T, likeness, rtol=0, atol=1e-12)
    certain = torch.eye(len(TREE.leaves), dtype=torch.float64)
    z = posterior_embeddings(certain, TREE.leaves, TREE, similarity="height", tree=1.0)
    torch.testing.assert_close(z @ z.T, likeness, rtol=0, atol=1e-12)


def test_no_order_has_more_similar_results_on_average() -> None:
    """For labels drawn by the probabilities, beside the order of the samples and that of their classes."""
    probabilities, _ = draw(200)
    z = posterior_embeddings(probabilities, TREE.leaves, TREE, tree=1.0)
    drawn = torch.multinomial(probabilities, 400, True, generator=torch.Generator().manual_seed(0))
    similarity = class_similarity(TREE.leaves, TREE, "depth", 1.0)
    gains = similarity[drawn[:1], drawn[1:]].mean(1)  # of each result to sample 0, over the draws
    by_points = (z[1:] @ z[0]).argsort(descending=True)
    by_class = (probabilities[1:] @ probabilities[0]).argsort(descending=True)
    for k in (5, 20, 80):
        assert gains[by_points[:k]].mean() > gains[torch.arange(k)].mean()
        assert gains[by_points[:k]].mean() >= gains[by_class[:k]].mean() - 0.005


def test_what_is_no_posterior_space() -> None:
    probabilities, vectors = draw(4)
    with pytest.raises(ValueError, match="a column a class"):
        posterior_embeddings(probabilities[:, 1:], TREE.leaves, TREE)
    with pytest.raises(ValueError, match="at least 0"):
        posterior_embeddings(-probabilities, TREE.leaves, TREE)
    for tree in (-0.1, 1.1, float("nan"), "1"):
        with pytest.raises(ValueError, match="tree is"):
            posterior_embeddings(probabilities, TREE.leaves, TREE, tree=tree)  # type: ignore[arg-type]
    for instance in (-1.0, float("inf")):
        with pytest.raises(ValueError, match="instance is"):
            posterior_embeddings(probabilities, TREE.leaves, TREE, instance=instance)
    with pytest.raises(ValueError, match="similarity is"):
        posterior_embeddings(probabilities, TREE.leaves, TREE, similarity="size")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected \(4, d\)"):
        posterior_embeddings(probabilities, TREE.leaves, TREE, vectors=vectors[1:], instance=0.1)
    vectors[2, 0] = torch.inf
    with pytest.raises(DataError, match="vector 2 holds"):
        posterior_embeddings(probabilities, TREE.leaves, TREE, vectors=vectors, instance=0.1)
