"""Figures of class embeddings beside the embeddings themselves: spectra, LCAs, sizes of CIFAR-100's tree."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from labeltree.taxonomy import Taxonomy

FOLDER = Path(__file__).parent / "oracles"
CASES = json.loads((FOLDER / "class_embeddings.json").read_text())["cases"]
CIFAR = json.loads((FOLDER / "class_embeddings_cifar100.json").read_text())["cases"][0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["inputs"]["taxonomy"])
def test_spectra(case: dict[str, Any]) -> None:
    tree = Taxonomy.from_edges(list(case["inputs"]["parent"].items()))
    classes = tree.encode(case["inputs"]["leaves"])
    expected = torch.tensor(case["expected"]["eigenvalues_descending"], dtype=torch.float64)
    vectors = tree.class_embeddings(classes)
    s = torch.tensor(case["expected"]["s_G"], dtype=torch.float64)
    torch.testing.assert_close(vectors @ vectors.T, s, rtol=1e-12, atol=1e-14)
    leading = tree.class_embeddings(classes, dim=len(classes), method="eigen").square().sum(0)
    torch.testing.assert_close(leading, expected, rtol=1e-9, atol=1e-14)


def test_cifar_100() -> None:
    tree = Taxonomy.from_edges(list(CIFAR["inputs"]["parent"].items()))
    expected = CIFAR["expected"]
    sizes = (tree.max_height, tree.max_depth, len(tree))
    assert sizes == (expected["H"], expected["L"], expected["n_nodes"])
    u, v = (tree.encode([str(pair[side]) for pair in CIFAR["inputs"]["pairs"]]) for side in (0, 1))
    assert [tree.names[node] for node in tree.lca(u, v).tolist()] == [str(node) for node in expected["lca"]]
    s = 1 - tree.lca_height_dissimilarity(u, v)
    torch.testing.assert_close(s, torch.tensor(expected["s_G"], dtype=torch.float64), rtol=1e-12, atol=0)
