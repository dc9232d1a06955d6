"""Class embeddings: Algorithm 1, the closed form, the leading eigenpairs, and means for inner nodes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from slow_trees import Rows, trees

from labeltree.taxonomy import Taxonomy, TaxonomyError, class_embeddings

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "oracles"
CASES = json.loads((FOLDER / "class_embeddings.json").read_text())["cases"]
CIFAR = json.loads((FOLDER / "class_embeddings_cifar100.json").read_text())["cases"][0]


def tree_of(parent: dict[str, str | None]) -> Taxonomy:
    return Taxonomy.from_edges(list(parent.items()))


def algorithm_1(taxonomy: Taxonomy, classes: list[int]) -> np.ndarray[Any, Any]:
    """The paper's loop, a triangular system a class, with LCAs found by walking."""

    def s(u: int, v: int) -> float:
        above = [*taxonomy.ancestors_of(v), v]
        shared = [node for node in [*taxonomy.ancestors_of(u), u] if node in above]
        return 1 - int(taxonomy.height[shared[-1]]) / taxonomy.max_height

    found = np.zeros((len(classes), len(classes)))
    for i, c in enumerate(classes):
        for j in range(i):
            known = sum(found[i, k] * found[j, k] for k in range(j))
            found[i, j] = (s(c, classes[j]) - known) / found[j, j]
        found[i, i] = np.sqrt(1 - sum(found[i, k] ** 2 for k in range(i)))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["inputs"]["taxonomy"])
def test_oracles(case: dict[str, Any]) -> None:
    tree = tree_of(case["inputs"]["parent"])
    classes = tree.encode(case["inputs"]["leaves"])
    expected = torch.tensor(case["expected"]["embedding"], dtype=torch.float64)
    vectors = tree.class_embeddings(classes)
    assert vectors.dtype == torch.float64
    torch.testing.assert_close(vectors, expected, rtol=1e-12, atol=1e-14)
    s = torch.tensor(case["expected"]["s_G"], dtype=torch.float64)
    sparse = tree.sparse_class_embeddings(classes)
    assert sparse.is_sparse
    torch.testing.assert_close(sparse.to_dense() @ sparse.to_dense().T, s, rtol=1e-12, atol=1e-14)
    for low in case["expected"]["low_dimensional"]:
        few = tree.class_embeddings(classes, dim=low["dims"])
        error = few @ few.T - s
        assert few.shape == (len(classes), low["dims"])
        assert float(error.norm()) == pytest.approx(low["frobenius_error"], abs=1e-9)
        if low["max_abs_error"] is not None:
            assert float(error.abs().max()) == pytest.approx(low["max_abs_error"], abs=1e-9)


def test_cifar_100() -> None:
    names = CIFAR["inputs"]["names"]
    order = [str(c) for c in CIFAR["inputs"]["class_order"]]
    tree = tree_of(CIFAR["inputs"]["parent"])
    assert (len(tree), tree.max_height, len(names)) == (163, 8, 163)
    vectors = tree.class_embeddings(tree.encode(order))
    expected = CIFAR["expected"]
    torch.testing.assert_close(
        vectors.diagonal(),
        torch.tensor(expected["embedding_diagonal"], dtype=torch.float64),
        rtol=1e-12,
        atol=0,
    )
    for pair, entry, s in zip(
        CIFAR["inputs"]["pairs"], expected["embedding_entries"], expected["s_G"], strict=True
    ):
        column, row = (order.index(str(c)) for c in pair)
        assert float(vectors[row, column]) == pytest.approx(entry, abs=1e-12)
        assert float(vectors[row] @ vectors[column]) == pytest.approx(s, abs=1e-12)
    leading = tree.class_embeddings(tree.encode(order), dim=20)
    torch.testing.assert_close(
        leading.square().sum(0),
        torch.tensor(expected["eigenvalues_descending_first_20"], dtype=torch.float64),
        rtol=1e-10,
        atol=0,
    )


@given(trees())
@settings(max_examples=60)
def test_any_tree_in_any_order(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    generator = torch.Generator().manual_seed(len(tree))
    classes = tree.leaves[torch.randperm(len(tree.leaves), generator=generator)]
    vectors = tree.class_embeddings(classes)
    np.testing.assert_allclose(vectors.numpy(), algorithm_1(tree, classes.tolist()), rtol=1e-12, atol=1e-14)
    s = 1 - tree.lca_height_dissimilarity(classes[:, None], classes)
    torch.testing.assert_close(vectors @ vectors.T, s, rtol=1e-13, atol=1e-14)
    exact = tree.class_embeddings(classes, method="eigen")
    torch.testing.assert_close(exact @ exact.T, s, rtol=1e-11, atol=1e-11)
    every = torch.arange(1, len(tree))
    sparse = tree.sparse_class_embeddings(every).to_dense()
    s = 1 - tree.lca_height_dissimilarity(every[:, None], every)
    torch.testing.assert_close(sparse @ sparse.T, s, rtol=1e-13, atol=1e-14)


@given(trees())
@settings(max_examples=60)
def test_inner_nodes_are_normalised_means(rows: Rows) -> None:
    tree = Taxonomy(rows.names, rows.parents)
    leaves = tree.class_embeddings()
    nodes = tree.node_embeddings()
    for node in range(len(tree)):
        below = torch.isin(tree.leaves, tree.descendant_leaves(node))
        mean = leaves[below].mean(0)
        torch.testing.assert_close(nodes[node], mean / mean.norm(), rtol=1e-12, atol=1e-14)


def test_an_inner_node_among_the_classes() -> None:
    tree = Taxonomy.from_paths(["a/b/c", "a/b/d", "a/e/f", "g/h", "g/i"])
    b, h, f = (tree.find(name) for name in "bhf")
    vectors = tree.class_embeddings([h, b, f])
    c, d = tree.find("c"), tree.find("d")
    whole = tree.class_embeddings([h, c, d, f])
    mean = whole[1:3].mean(0)
    torch.testing.assert_close(vectors, torch.stack([whole[0], mean / mean.norm(), whole[3]]))
    by_node = tree.node_embeddings([h, b, f])
    torch.testing.assert_close(by_node[[h, b, f]], vectors)
    assert not by_node[[c, d, tree.find("i")]].any()
    mean = vectors[1:].mean(0)
    torch.testing.assert_close(by_node[tree.find("a")], mean / mean.norm())


def test_low_dimensions_of_many_classes_by_lanczos(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Taxonomy.from_paths([(f"a{i % 3}", f"b{i % 21}", f"c{i}") for i in range(200)])
    exact = tree.class_embeddings(dim=21)
    monkeypatch.setattr(class_embeddings, "SMALL", 10)
    found = tree.class_embeddings(dim=21)
    torch.testing.assert_close(found @ found.T, exact @ exact.T, rtol=0, atol=1e-9)
    few = tree.class_embeddings(dim=2)  # cuts through equal eigenvalues: any basis is right
    assert float(few.square().sum()) == pytest.approx(float(exact[:, :2].square().sum()), rel=1e-10)


def test_normalize() -> None:
    tree = Taxonomy.from_paths(["a/b/c", "a/b/d", "a/e/f", "g/h", "g/i", "j"])
    vectors = tree.class_embeddings(dim=4, normalize=True)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(6, dtype=torch.float64))
    with pytest.raises(TaxonomyError, match=r"class 'g/h' has no part in the 1 leading .* nor have 2 more"):
        tree.class_embeddings(dim=1, normalize=True)
    assert tree.class_embeddings(dim=1).shape == (6, 1)


def test_one_class() -> None:
    tree = Taxonomy.from_paths(["a"])
    assert tree.class_embeddings().tolist() == tree.class_embeddings(dim=1).tolist() == [[1.0]]
    assert tree.class_embeddings([1]).tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([2, 3, 2], r"class 'a/b' is given twice, as classes\[0\] and classes\[2\]"),
        ([2, -1], r"classes\[1\] is a missing label"),
        ([0], r"classes\[0\] is the root"),
        ([9], "classes holds 9"),
        ([4, 5], "classes 'd' and 'd/e' have the same leaves"),
        ([], r"classes has shape \(0,\)"),
        ([[1]], r"classes has shape \(1, 1\)"),
    ],
)
def test_wrong_classes(classes: list[int], message: str) -> None:
    tree = Taxonomy.from_paths(["a/b", "a/c", "d/e"])
    with pytest.raises(ValueError, match=message):
        tree.class_embeddings(classes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, "dim=0, expected 1 to 3"),
        ({"dim": 4}, "dim=4, expected 1 to 3"),
        ({"dim": 2, "method": "cholesky"}, "dim=2, but the Cholesky factor of 3 leaves"),
        ({"method": "qr"}, "method is 'qr'"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    tree = Taxonomy.from_paths(["a/b", "a/c", "d/e"])
    with pytest.raises(ValueError, match=message):
        tree.class_embeddings(**options)
