"""Figures computed independently from the papers' equations; the note in the file says which."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from labeltree.geometry import Geometry, get_geometry
from labeltree.metrics import functional
from labeltree.taxonomy import Taxonomy

CASES = json.loads((Path(__file__).parent / "oracles" / "metrics.json").read_text("utf-8"))["cases"]
GEOMETRIES = {"raw": "euclidean", "unit": "sphere", "poincare": "poincare"}


def cases(kind: str) -> list[Any]:
    found = [(case["inputs"], case["expected"]) for case in CASES if case["inputs"]["kind"] == kind]
    return [pytest.param(*case, id=str(number)) for number, case in enumerate(found)]


def tree(parents: dict[str, str | None]) -> Taxonomy:
    return Taxonomy.from_edges([(child, parent) for child, parent in parents.items() if parent is not None])


def nodes(taxonomy: Taxonomy, names: list[str]) -> Tensor:
    return torch.tensor([taxonomy.names.index(name) for name in names])


def numbers(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def same(value: Tensor, expected: Any) -> None:
    """Equal to 1e-12, null being NaN."""
    flat = [float("nan") if v is None else v for v in expected] if isinstance(expected, list) else expected
    torch.testing.assert_close(value, numbers(flat), rtol=1e-12, atol=1e-12, equal_nan=True)


def geometry_of(inputs: dict[str, Any]) -> Geometry:
    return get_geometry(GEOMETRIES[inputs["distance"]])


@pytest.mark.parametrize(("inputs", "expected"), cases("classification"))
def test_classification(inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    taxonomy = tree(inputs["parent"])
    pair = (nodes(taxonomy, inputs["predicted"]), nodes(taxonomy, inputs["true"]), taxonomy)
    without, with_root = expected["HF1_without_root_per_sample"], expected["HF1_with_root_per_sample"]
    same(functional.hierarchical_f1(*pair), expected["HF1_without_root"])
    same(functional.hierarchical_f1(*pair, include_root=True), expected["HF1_with_root"])
    same(functional.hierarchical_f1(*pair, reduction="none"), without)
    same(functional.hierarchical_f1(*pair, include_root=True, reduction="none"), with_root)
    same(functional.tree_accuracy(*pair), expected["H_Acc"])
    same(functional.accuracy_by_depth(*pair)[-1], expected["top1"])
    same(functional.mistake_severity(*pair), expected["mean_lca_height_of_mistakes"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("inputs", "expected"), cases("retrieval"))
def test_retrieval(inputs: dict[str, Any], expected: dict[str, Any], dtype: torch.dtype) -> None:
    taxonomy = tree(inputs["parent"])
    gallery = numbers(inputs["gallery_z"]).to(dtype), nodes(taxonomy, inputs["gallery_labels"])
    queries, keys = gallery, ()
    if inputs["query_z"] is not None:
        queries = numbers(inputs["query_z"]).to(dtype), nodes(taxonomy, inputs["query_labels"])
        keys = gallery
    length = inputs["AHP_K"]
    one_pass = functional.retrieval_metrics(*queries, taxonomy, *keys, ks=inputs["ks"], ahp_k=length)
    for name, value in expected["mean"].items():
        ours = name.lower().replace("_mean", "").replace("_", "/")
        ours = ours.replace("r@", "recall@") if ours.startswith("r@") else ours
        same(one_pass[ours], value)

    each = expected["per_query"]
    same(functional.recall_at_k(*queries, *keys, ks=(2,), reduction="none")[2], each["R@2"])
    same(functional.map_at_r(*queries, *keys, reduction="none"), each["AP@R"])
    same(functional.mean_average_precision(*queries, *keys, reduction="none"), each["AP"])
    precision = functional.hierarchical_precision_at_k(*queries, taxonomy, *keys, ks=(2, 5), reduction="none")
    same(precision[2], each["HP@2"])
    same(precision[5], each["HP@5"])
    for rule in ("mean", "trapezoid"):
        ahp = functional.average_hierarchical_precision(
            *queries, taxonomy, *keys, k=length, rule=rule, reduction="none"
        )
        same(ahp, each[f"AHP@{length}_{rule}"])


@pytest.mark.parametrize(("inputs", "expected"), cases("violations"))
def test_parent_violations(inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    parents = sorted(inputs["prototypes"])
    taxonomy = Taxonomy.from_paths([(parent, f"child of {parent}") for parent in parents])
    prototypes = torch.full((taxonomy.num_nodes, len(inputs["z"][0])), torch.nan, dtype=torch.float64)
    for parent in parents:
        prototypes[taxonomy.find(parent)] = numbers(inputs["prototypes"][parent])
    labels = nodes(taxonomy, [f"child of {parent}" for parent in inputs["parent_of_sample"]])
    arguments = (numbers(inputs["z"]), labels, taxonomy, prototypes)
    for how in ({"geometry": geometry_of(inputs)}, {"distance": inputs["distance"]}):
        violated = functional.parent_violations(*arguments, **how, reduction="none")
        assert violated.bool().tolist() == expected["violated"]
        same(functional.parent_violations(*arguments, **how), expected["violations"])
        same(functional.parent_order_accuracy(*arguments, **how), expected["PC_order"])


@pytest.mark.parametrize(("inputs", "expected"), cases("pairwise_violations"))
def test_pair_violations(inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    taxonomy = tree(inputs["parent"])
    arguments = (numbers(inputs["z"]), nodes(taxonomy, inputs["leaf"]), taxonomy, geometry_of(inputs))
    same(functional.pair_violations(*arguments), expected["rate"])
    same(functional.pair_violations(*arguments, ties="count"), expected["rate_ties_count"])
    readings = {
        "triplets": "triplet_rate",
        "pairs": "fraction_of_pairs_in_a_violation",
        "finer_pairs": "fraction_of_finer_pairs_in_a_violation",
    }
    for reading, name in readings.items():
        same(functional.pair_violations(*arguments, reading=reading), expected[name])


@pytest.mark.parametrize(("inputs", "expected"), cases("nmi"))
def test_normalized_mutual_information(inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    labels, clusters = torch.tensor(inputs["labels"]), torch.tensor(inputs["clusters"])
    for average, value in expected.items():
        same(functional.normalized_mutual_information(labels, clusters, average=average), value)
